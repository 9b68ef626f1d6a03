"""Stand in for `device_math` when kernels run as Python.

The functions are the host's, compiled one by one: the device has the same emitters. Subnormals are
kept, as on the device.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

import numba

from tfjit.kernels import vmath
from tfjit.kernels.cuda.template.simulated_intrinsics import (
    boolean,
    complex64,
    complex128,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)  # fmt: skip
from tfjit.kernels.vmath import emit

__all__ = [
    "boolean", "complex64", "complex128", "float32", "float64", "int8", "int16", "int32", "int64",
    "uint8", "uint16", "uint32", "uint64",
]  # fmt: skip

_lock: Final = threading.Lock()
_CASTS: Final = {
    "b": boolean, "c64": complex64, "c128": complex128, "f32": float32, "f64": float64,
    "i8": int8, "i16": int16, "i32": int32, "i64": int64, "u8": uint8, "u16": uint16,
    "u32": uint32, "u64": uint64,
}  # fmt: skip


def _host_function(name: str) -> Callable[..., object]:
    found = emit.find(name)
    if found is None:
        raise AttributeError(f"simulated_math has no function {name}")
    function: Callable[..., object] = getattr(vmath, name)
    described, kind = found
    result = {"T": kind, "R": emit.REAL_OF.get(kind, kind)}.get(described.result, described.result)
    cast = _CASTS[result]  # Numba gives Python's numbers back
    wrappers: dict[int, Callable[..., object]] = {
        1: lambda x: function(x),
        2: lambda x, y: function(x, y),
        3: lambda x, y, z: function(x, y, z),
    }
    compiled: Callable[..., object] = numba.njit(error_model="numpy")(wrappers[len(described.args)])
    return lambda *values: cast(compiled(*values))


def __getattr__(name: str) -> Callable[..., object]:
    if name.startswith("_"):
        raise AttributeError(name)
    with _lock:
        value: Callable[..., object] = globals().get(name) or _host_function(name)
        globals()[name] = value
    return value
