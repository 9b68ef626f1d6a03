"""Compute scalar functions in CUDA kernels.

Kernel texts do `from tfjit.kernels.cuda.template import device_math as vm` and call
`vm.exp_f32(x)`, as the host's texts do with `tfjit.kernels.vmath`. The functions are the host's own
emitters, so host and device round alike but for subnormals: the device keeps them, while TensorFlow
flushes them on a CPU. Series in loops (igamma, zeta ...) have no form here: such nodes stay on the
host. `simulated_math` has the same names for the simulator. Needs numba-cuda.
"""

from __future__ import annotations

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
)  # fmt: skip
from numba.cuda.descriptor import cuda_target
from numba.cuda.extending import intrinsic

import tfjit.kernels.vmath  # noqa: F401  (registers the emitters)
from tfjit.kernels.vmath.emit import find, intrinsic_for

__all__ = [
    "boolean", "complex64", "complex128", "float32", "float64", "int8", "int16", "int32", "int64",
    "uint8", "uint16", "uint32", "uint64",
]  # fmt: skip


def __getattr__(name: str) -> object:
    # Numba resolves module attributes with getattr: an intrinsic is made when a kernel names it
    if name.startswith("_"):
        raise AttributeError(name)
    if find(name) is None:
        raise AttributeError(f"device_math has no function {name}")
    value = intrinsic_for(name, intrinsic)
    # a compilation usually asks for the name, and has already read Numba's registries
    cuda_target.typing_context.refresh()
    globals()[name] = value
    return value
