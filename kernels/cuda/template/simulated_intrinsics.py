"""Stand in for `intrinsics` where kernels run as Python over host memory.

`simulator` runs the threads of a launch, and knows the place of the running one. Values are NumPy
scalars, so that arithmetic rounds and wraps as on the device.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar, cast

import numpy as np

from tfjit.kernels.cuda.device.simulator import (
    WARP,
    Wait,
    barrier,
    exchange,
    here,
    shared,
    use_shared,
)
from tfjit.kernels.cuda.template.intrinsic_names import NAMES

__all__ = list(NAMES)


Function = TypeVar("Function", bound=Callable[..., object])
Scalar: TypeAlias = Any
"""A NumPy scalar of any dtype, or a Python number."""


# threads


def device_function(function: Function) -> Function:
    return function


def thread() -> int:
    return here.thread[0]


def thread_y() -> int:
    return here.thread[1]


def block() -> int:
    return here.block[0]


def block_y() -> int:
    return here.block[1]


def block_z() -> int:
    return here.block[2]


def threads() -> int:
    return here.block_extent[0]


def blocks() -> int:
    return here.grid_extent[0]


def unit() -> int:
    return block() * threads() + thread()


def units() -> int:
    return blocks() * threads()


def advance(u: int, step: int) -> int:
    return u + step


sync_threads = barrier


def shuffle_xor(v: Scalar, mask: int) -> Wait[Scalar]:
    lane = here.number % WARP
    lanes = yield from exchange(v)
    there = lane ^ int(mask)
    return lanes[there] if there < len(lanes) else v


def shuffle_down(v: Scalar, distance: int) -> Wait[Scalar]:
    lane = here.number % WARP
    lanes = yield from exchange(v)
    there = lane + int(distance)
    return lanes[there] if there < len(lanes) else v


# memory


class _Pointer:
    """An address with an element type."""

    __slots__ = ("address", "dtype", "raw", "size")

    def __init__(self, address: int, dtype: np.dtype[np.generic]) -> None:
        self.address = int(address)
        self.dtype = dtype
        self.size = dtype.itemsize
        self.raw = _memory(dtype.itemsize)

    def view(self, index: int, count: int) -> np.ndarray:
        """Return `count` elements as an array."""
        raw = _memory(self.size * count)
        return np.frombuffer(raw(self.address + int(index) * self.size), self.dtype)


@functools.cache
def _memory(count: int) -> Callable[[int], memoryview]:
    """Return a function from an address to its `count` bytes."""
    # NumPy takes the array of bytes as it takes a memoryview
    return cast("Callable[[int], memoryview]", (ctypes.c_char * count).from_address)


def ld(p: _Pointer, i: int) -> Scalar:
    return np.frombuffer(p.raw(p.address + int(i) * p.size), p.dtype)[0]


def st(p: _Pointer, i: int, v: Scalar) -> None:
    view = np.frombuffer(p.raw(p.address + int(i) * p.size), p.dtype)
    view[0] = v if type(v) is p.dtype.type else np.asarray(v).astype(p.dtype)


ld_ro = ld


def ld_shared(p: _Pointer, i: int) -> Scalar:
    use_shared(p.address + int(i) * p.size, False)
    return ld(p, i)


def st_shared(p: _Pointer, i: int, v: Scalar) -> None:
    use_shared(p.address + int(i) * p.size, True)
    st(p, i, v)


def _vector_load(count: int) -> Callable[[_Pointer, int], tuple[Scalar, ...]]:
    def load(p: _Pointer, i: int) -> tuple[Scalar, ...]:
        nbytes = count * p.size
        address = p.address + int(i) * p.size
        if nbytes > 16 or address % nbytes:
            raise AssertionError(f"a load of {nbytes} bytes at {address:#x}")
        return tuple(p.view(i, count))

    return load


def _vector_store(count: int) -> Callable[..., None]:
    def store(p: _Pointer, i: int, *values: Scalar) -> None:
        nbytes = count * p.size
        address = p.address + int(i) * p.size
        if len(values) != count or nbytes > 16 or address % nbytes:
            raise AssertionError(f"a store of {nbytes} bytes at {address:#x}")
        for k, value in enumerate(values):
            st(p, i + k, value)

    return store


ld_vec2, ld_vec4, ld_vec8, ld_vec16 = (_vector_load(n) for n in (2, 4, 8, 16))
ld_ro_vec2, ld_ro_vec4, ld_ro_vec8, ld_ro_vec16 = ld_vec2, ld_vec4, ld_vec8, ld_vec16
st_vec2, st_vec4, st_vec8, st_vec16 = (_vector_store(n) for n in (2, 4, 8, 16))

_DTYPES: Final = {
    "f32": np.float32, "f64": np.float64, "i8": np.int8, "i16": np.int16, "i32": np.int32,
    "i64": np.int64, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
    "b8": np.bool_, "c64": np.complex64, "c128": np.complex128,
}  # fmt: skip


def _pointer_maker(dtype: np.dtype[np.generic]) -> Callable[[int], _Pointer]:
    return lambda address: _Pointer(address, dtype)


def _shared_maker(dtype: np.dtype[np.generic]) -> Callable[[int], _Pointer]:
    # the first contents are garbage, so that elements show that no thread wrote
    return lambda n: _Pointer(shared(n * dtype.itemsize).ctypes.data, dtype)


for _kind, _dtype in _DTYPES.items():
    globals()[f"ptr_{_kind}"] = _pointer_maker(np.dtype(_dtype))
    globals()[f"shared_{_kind}"] = _shared_maker(np.dtype(_dtype))


def atomic_add(p: _Pointer, i: int, v: Scalar) -> None:
    st(p, i, ld(p, i) + p.dtype.type(v))


def atomic_max(p: _Pointer, i: int, v: Scalar) -> None:
    if v > ld(p, i):
        st(p, i, v)


def atomic_min(p: _Pointer, i: int, v: Scalar) -> None:
    if v < ld(p, i):
        st(p, i, v)


# numbers


def _cast_to(dtype: type[np.generic]) -> Callable[[Scalar], Scalar]:
    kind = np.dtype(dtype)

    def convert(value: Scalar) -> Scalar:
        if type(value) is dtype:
            return value
        if kind.kind in "iu" and isinstance(value, int):
            return np.array(value & (2**64 - 1), np.uint64).astype(kind)[()]
        return np.asarray(value).astype(kind)[()]

    return convert


boolean = _cast_to(np.bool_)
complex64, complex128 = _cast_to(np.complex64), _cast_to(np.complex128)
float32, float64 = _cast_to(np.float32), _cast_to(np.float64)
int8, int16, int32 = _cast_to(np.int8), _cast_to(np.int16), _cast_to(np.int32)
uint8, uint16, uint32 = _cast_to(np.uint8), _cast_to(np.uint16), _cast_to(np.uint32)
int64, uint64 = _cast_to(np.int64), _cast_to(np.uint64)


def div_u32(a: int, b: int) -> int:
    if not (0 <= a < 2**32 and 0 < b < 2**32):
        raise AssertionError(f"div_u32({a}, {b})")
    return int(a) // int(b)


def rem_u32(a: int, b: int) -> int:
    return int(a) - int(b) * div_u32(a, b)


def div_u64(a: int, b: int) -> int:
    return int(a) // int(b)


def rem_u64(a: int, b: int) -> int:
    return int(a) % int(b)


def bits_f32(bits: Scalar) -> Scalar:
    return int32(bits).view(np.float32)


def f32_bits(value: Scalar) -> Scalar:
    return np.float32(value).view(np.int32)


def bits_f64(bits: Scalar) -> Scalar:
    return int64(bits).view(np.float64)


def f64_bits(value: Scalar) -> Scalar:
    return np.float64(value).view(np.int64)


def fma(a: Scalar, b: Scalar, c: Scalar) -> Scalar:
    """Return a * b + c, rounded once (nearly so for float64)."""
    if type(a) is type(b) is type(c) is np.float32:
        # float64 holds the product, and Python rounds the sum
        return np.float32(float(a) * float(b) + float(c))
    wide = np.longdouble if np.asarray(a).dtype == np.float64 else np.float64
    return type(a)(wide(a) * wide(b) + wide(c))


def select(condition: Scalar, x: Scalar, y: Scalar) -> Scalar:
    return x if condition else y


def iadd(a: Scalar, b: Scalar) -> Scalar:
    return a + b


def imul(a: Scalar, b: Scalar) -> Scalar:
    return a * b


def iand(a: Scalar, b: Scalar) -> Scalar:
    return a & b


def ixor(a: Scalar, b: Scalar) -> Scalar:
    return a ^ b


def ishr(a: Scalar, b: Scalar) -> Scalar:
    return a >> b
