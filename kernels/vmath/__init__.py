"""Compute scalar functions that LLVM turns into vector code inside a loop.

Generated kernels do `from tfjit.kernels import vmath as vm` and call `vm.<function>_<kind>`:
`vm.exp_f32(x)`. A kind is f32, f64, c64, c128, i8..u64 or b. The functions are Numba intrinsics,
made on first use, or jitted functions where a loop is needed (`special_loops`). The module also
holds Numba types such as `vm.float32`, for casts and literals.

All functions take NaN, Inf and -0 as TensorFlow's kernels do. The thread's FTZ/DAZ setting decides
about subnormals. The bounds in docstrings hold where the CPU has a fused multiply-add. Without one,
the functions are slower and an ulp or so worse, and sin and cos of float32 lose accuracy from about
1e6 on.
"""

# ruff: noqa: F401  (imported modules register their functions)

from __future__ import annotations

import importlib
from typing import Any

from numba import (
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
)
from numba.core.registry import cpu_target

from tfjit.kernels.vmath import (
    arithmetic,
    bits,
    casts,
    complexes,
    elementary,
    error,
    hyperbolic,
    special,
    trigonometric,
    ulp_functions,
)
from tfjit.kernels.vmath.emit import find, intrinsic_for

__all__ = [
    "boolean", "complex64", "complex128", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    # Numba resolves module attributes with getattr, so an intrinsic need not exist before a kernel
    # names it
    if find(name) is not None:
        value = intrinsic_for(name)
        # A compilation usually asks for the name, and has already read Numba's registries.
        cpu_target.typing_context.refresh()
    else:
        value = (
            None
            if name.startswith("_")
            else importlib.import_module("tfjit.kernels.vmath.special_loops").find(name)
        )
        if value is None:
            raise AttributeError(f"vmath has no function {name}")
        # special_loops registers types and functions as well
        cpu_target.typing_context.refresh()
    globals()[name] = value
    return value
