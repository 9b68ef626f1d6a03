"""Texts of kernels for tests of compiler and simulator, without our intrinsics."""

from __future__ import annotations

import pytest

from tfjit.kernels.cuda.template import launches
from tfjit.kernels.source import KernelSource

SCALE = """# double n float32, with shared memory and a barrier
from numba import cuda, float32, int64, types
from numba.cuda.extending import intrinsic


@intrinsic
def pointer(typing, address):
    def emit(context, builder, signature, args):
        return builder.inttoptr(args[0], context.get_value_type(signature.return_type))
    return types.CPointer(types.float32)(types.int64), emit


def kernel(a0, a1, a2):
    source, target = pointer(a0), pointer(a1)
    shared = cuda.shared.array(64, float32)
    i = cuda.grid(1)
    if i < a2:
        shared[cuda.threadIdx.x] = source[i]
    cuda.syncthreads()
    if i < a2:
        target[i] = shared[cuda.threadIdx.x] * float32({factor})
"""

DOUBLE = """# double n float32, in the simulator
import ctypes
from tfjit.kernels.cuda.device.simulator import here


def kernel(source, target, n):
    i = here.block[0] * here.block_extent[0] + here.thread[0]
    if i < n:
        value = ctypes.c_float.from_address(source + 4 * i).value
        ctypes.c_float.from_address(target + 4 * i).value = 2 * value
"""


def scale_by(factor: int) -> KernelSource:
    """Return a kernel (source, target, n) for blocks of up to 64 threads."""
    return launches.source(SCALE.format(factor=factor), 3, f"scale by {factor}", __name__)


def need_numba_cuda() -> None:
    """Skip the tests of a module without numba-cuda."""
    pytest.importorskip(
        "numba_cuda",
        reason="numba-cuda is not installed: pip install tfjit[gpu]",
        exc_type=Exception,
    )
