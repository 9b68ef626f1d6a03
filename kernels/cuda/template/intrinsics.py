"""Give kernel texts the intrinsics of CUDA.

Kernel texts do `from tfjit.kernels.cuda.template.intrinsics import *`. Only the compiler process
imports this module: it needs numba-cuda. `simulated_intrinsics` has the same names for host memory.
The intrinsics are in a module a kind: threads, memory, vectors, numbers.

Every argument of a kernel is an int64. Pointers are made of addresses, and an index counts
elements. `ld`, `st` and their vector forms are for global memory; `ld_shared` and `st_shared` for
the arrays of `shared_*`. `ld_ro` goes through the read-only cache, for memory that no thread writes
while the kernel runs. Vector forms read or write 2, 4, 8 or 16 elements of at most 16 bytes in all,
and need an address that is a multiple of these bytes.

A product of floats keeps its own rounding: the compiler never makes `a * b + c` a fused
multiply-add, so that results do not depend on the nodes that share a kernel. `fma(a, b, c)` is one.

Integer arithmetic in a text is int64 arithmetic; a 64-bit division takes about five times as long
as one of 32 bits, so there are `div_u32` and `rem_u32` for indices below 2^32.
"""

from __future__ import annotations

from collections.abc import Callable

import numba
from numba import cuda

from tfjit.kernels.cuda.template import (
    memory_intrinsics,
    number_intrinsics,
    thread_intrinsics,
    vector_intrinsics,
)
from tfjit.kernels.cuda.template.intrinsic_names import NAMES, TYPES

__all__ = list(NAMES)


def device_function(function: Callable[..., object]) -> object:
    """Let kernels of the same text call a function.

    Numba puts its statements in place of the call: to compile it by itself would take a driver.
    """
    return cuda.jit(device=True, inline="always")(function)


globals().update({name: getattr(numba, name) for name in TYPES})
for _module in (thread_intrinsics, memory_intrinsics, vector_intrinsics, number_intrinsics):
    globals().update({name: value for name, value in vars(_module).items() if name in NAMES})
