"""Stand in for `intrinsics` where kernels run as Python over host memory.

`run_grid` runs all threads of a launch. Threads run one after the other, or, where a kernel has a
barrier or a shuffle, as Python threads of one block at a time. Values are NumPy scalars, so that
arithmetic rounds and wraps as on the device.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from tfjit.kernels.cuda.intrinsic_names import NAMES

__all__ = list(NAMES)

WARP: Final = 32
_STACK_BYTES: Final = 512 * 1024
Extent = tuple[int, int, int]
_IGNORED: Final = {"over": "ignore", "under": "ignore", "invalid": "ignore", "divide": "ignore"}


# threads


@dataclass
class _Block:
    """One running block: its index, its shared arrays, its barrier."""

    index: Extent
    size: Extent
    grid: Extent
    barrier: threading.Barrier
    shared: list[np.ndarray] = field(default_factory=list)
    exchange: list[Any] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


class _Position(threading.local):
    """The simulated thread that a Python thread runs."""

    block: _Block
    thread: Extent = (0, 0, 0)
    shared_arrays = 0


_here: Final = _Position()


def _is_cooperative(function: Callable[..., None]) -> bool:
    """Return whether a kernel has a barrier or exchanges values."""
    names = set(function.__code__.co_names)
    return bool(names & {"sync_threads", "shuffle_xor", "shuffle_down"})


def _run_thread(
    function: Callable[..., None], words: Sequence[int], block: _Block, index: Extent,
    errors: list[BaseException],
) -> None:  # fmt: skip
    _here.block, _here.thread, _here.shared_arrays = block, index, 0
    try:
        with np.errstate(**_IGNORED):  # type: ignore[arg-type]
            function(*words)
    except BaseException as error:  # a thread that is gone would leave the others at the barrier
        errors.append(error)
        block.barrier.abort()


def run_grid(
    function: Callable[..., None], words: Sequence[int], grid: Extent, block: Extent
) -> None:
    """Run a kernel for all threads of a grid.

    function: with these intrinsics as its globals. words: its arguments.
    """
    size = block[0] * block[1] * block[2]
    inside = [(x, y, z) for z in range(block[2]) for y in range(block[1]) for x in range(block[0])]
    together = _is_cooperative(function) and size > 1
    for z in range(grid[2]):
        for y in range(grid[1]):
            for x in range(grid[0]):
                made = _Block((x, y, z), block, grid, threading.Barrier(size if together else 1))
                made.exchange = [None] * size
                errors: list[BaseException] = []
                if together:
                    _run_together(function, words, made, inside, errors)
                else:
                    for index in inside:
                        _run_thread(function, words, made, index, errors)
                first = [e for e in errors if not isinstance(e, threading.BrokenBarrierError)]
                if errors:
                    raise (first or errors)[0]


def _run_together(
    function: Callable[..., None], words: Sequence[int], block: _Block, inside: list[Extent],
    errors: list[BaseException],
) -> None:  # fmt: skip
    before = threading.stack_size(_STACK_BYTES)
    try:
        workers = [
            threading.Thread(target=_run_thread, args=(function, words, block, index, errors))
            for index in inside
        ]
        for worker in workers:
            worker.start()
    finally:
        threading.stack_size(before)
    for worker in workers:
        worker.join()


def _linear() -> int:
    x, y, z = _here.thread
    return x + _here.block.size[0] * (y + _here.block.size[1] * z)


def thread() -> int:
    return _here.thread[0]


def thread_y() -> int:
    return _here.thread[1]


def block() -> int:
    return _here.block.index[0]


def block_y() -> int:
    return _here.block.index[1]


def block_z() -> int:
    return _here.block.index[2]


def threads() -> int:
    return _here.block.size[0]


def blocks() -> int:
    return _here.block.grid[0]


def unit() -> int:
    return block() * threads() + thread()


def units() -> int:
    return blocks() * threads()


def advance(u: int, step: int) -> int:
    return u + step


def sync_threads() -> None:
    _here.block.barrier.wait()


def _exchanged(v: Any, source: int) -> Any:
    current = _here.block
    current.exchange[_linear()] = v
    current.barrier.wait()
    found = current.exchange[source] if source < len(current.exchange) else v
    current.barrier.wait()
    return found


def shuffle_xor(v: Any, mask: int) -> Any:
    return _exchanged(v, _linear() ^ int(mask))


def shuffle_down(v: Any, distance: int) -> Any:
    lane = _linear()
    there = lane + int(distance)
    return _exchanged(v, there if there // WARP == lane // WARP else lane)


# memory


class _Pointer:
    """An address with an element type."""

    __slots__ = ("address", "dtype")

    def __init__(self, address: int, dtype: np.dtype[Any]) -> None:
        self.address = int(address)
        self.dtype = dtype

    def view(self, index: int, count: int = 1) -> np.ndarray:
        size = self.dtype.itemsize
        raw = (ctypes.c_char * (size * count)).from_address(self.address + int(index) * size)
        return np.frombuffer(raw, self.dtype)


def ld(p: _Pointer, i: int) -> Any:
    return p.view(i)[0]


def st(p: _Pointer, i: int, v: Any) -> None:
    view = p.view(i)
    view[0] = np.asarray(v).astype(p.dtype)


ld_ro = ld_shared = ld
st_shared = st


def _vector_load(count: int) -> Callable[[_Pointer, int], tuple[Any, ...]]:
    def load(p: _Pointer, i: int) -> tuple[Any, ...]:
        nbytes = count * p.dtype.itemsize
        found = p.view(i, count)
        if nbytes > 16 or found.ctypes.data % nbytes:
            raise AssertionError(f"a load of {nbytes} bytes at {found.ctypes.data:#x}")
        return tuple(found.copy())

    return load


def _vector_store(count: int) -> Callable[..., None]:
    def store(p: _Pointer, i: int, *values: Any) -> None:
        nbytes = count * p.dtype.itemsize
        found = p.view(i, count)
        if len(values) != count or nbytes > 16 or found.ctypes.data % nbytes:
            raise AssertionError(f"a store of {nbytes} bytes at {found.ctypes.data:#x}")
        for k, value in enumerate(values):
            found[k] = np.asarray(value).astype(p.dtype)

    return store


ld_vec2, ld_vec4, ld_vec8, ld_vec16 = (_vector_load(n) for n in (2, 4, 8, 16))
ld_ro_vec2, ld_ro_vec4, ld_ro_vec8, ld_ro_vec16 = ld_vec2, ld_vec4, ld_vec8, ld_vec16
st_vec2, st_vec4, st_vec8, st_vec16 = (_vector_store(n) for n in (2, 4, 8, 16))

_DTYPES: Final = {
    "f32": np.float32, "f64": np.float64, "i8": np.int8, "i16": np.int16, "i32": np.int32,
    "i64": np.int64, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
    "b8": np.bool_, "c64": np.complex64, "c128": np.complex128,
}  # fmt: skip


def _pointer_maker(dtype: np.dtype[Any]) -> Callable[[int], _Pointer]:
    return lambda address: _Pointer(address, dtype)


def _shared_maker(dtype: np.dtype[Any]) -> Callable[[int], _Pointer]:
    def shared(n: int) -> _Pointer:
        number = _here.shared_arrays
        _here.shared_arrays += 1
        arrays = _here.block.shared
        with _here.block.lock:
            if number == len(arrays):
                # garbage, so that elements which nobody wrote show
                arrays.append(np.full(n * dtype.itemsize + 16, 0xFF, np.uint8))
        return _Pointer(arrays[number].ctypes.data + -arrays[number].ctypes.data % 16, dtype)

    return shared


for _kind, _dtype in _DTYPES.items():
    globals()[f"ptr_{_kind}"] = _pointer_maker(np.dtype(_dtype))
    globals()[f"shared_{_kind}"] = _shared_maker(np.dtype(_dtype))

_atomics: Final = threading.Lock()


def atomic_add(p: _Pointer, i: int, v: Any) -> None:
    with _atomics:
        st(p, i, ld(p, i) + p.dtype.type(v))


def atomic_max(p: _Pointer, i: int, v: Any) -> None:
    with _atomics:
        if v > ld(p, i):
            st(p, i, v)


def atomic_min(p: _Pointer, i: int, v: Any) -> None:
    with _atomics:
        if v < ld(p, i):
            st(p, i, v)


# numbers


def _cast_to(dtype: Any) -> Callable[[Any], Any]:
    kind = np.dtype(dtype)

    def cast(value: Any) -> Any:
        if kind.kind in "iu" and isinstance(value, int):
            return np.array(value & (2**64 - 1), np.uint64).astype(kind)[()]
        return np.asarray(value).astype(kind)[()]

    return cast


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


def bits_f32(bits: Any) -> Any:
    return int32(bits).view(np.float32)


def f32_bits(value: Any) -> Any:
    return np.float32(value).view(np.int32)


def bits_f64(bits: Any) -> Any:
    return int64(bits).view(np.float64)


def f64_bits(value: Any) -> Any:
    return np.float64(value).view(np.int64)


def fma(a: Any, b: Any, c: Any) -> Any:
    """Return a * b + c, rounded once for float32, nearly so for float64."""
    wide = np.longdouble if np.asarray(a).dtype == np.float64 else np.float64
    return type(a)(wide(a) * wide(b) + wide(c))


def select(condition: Any, x: Any, y: Any) -> Any:
    return x if condition else y


def iadd(a: Any, b: Any) -> Any:
    return a + b


def imul(a: Any, b: Any) -> Any:
    return a * b
