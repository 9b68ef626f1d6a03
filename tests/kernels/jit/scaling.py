"""Kernels that multiply by a number, for tests of the store."""

from __future__ import annotations

import ctypes

import numpy as np

from tfjit.kernels.jit.store import KernelStore
from tfjit.kernels.source import KernelSource

KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_ssize_t, ctypes.c_ssize_t, ctypes.c_ssize_t)


def scale_by(factor: int, **options: object) -> KernelSource:
    """A kernel that multiplies n float32 by a constant; each factor is another text."""
    text = f"""# Mul by {factor}
from numba import float32
from tfjit.kernels.codegen.intrinsics import ld, ptr_f32, st, word


def kernel(args, chunk, nchunks):
    x = ptr_f32(word(args, 3))
    o = ptr_f32(word(args, 4))
    for i in range(word(args, 2)):
        st(o, i, ld(x, i) * float32({factor}))
"""
    return KernelSource(text, title=f"scale by {factor}", **options)  # type: ignore[arg-type]


def apply(address: int, x: np.ndarray) -> np.ndarray:
    out = np.full_like(x, np.nan)
    args = np.array([0, 0, x.size, x.ctypes.data, out.ctypes.data], np.int64)
    KERNEL(address)(args.ctypes.data, 0, 1)
    assert args[0] == 0
    return out


def check(store: KernelStore, source: KernelSource, factor: int) -> None:
    addresses = store.lookup(source)
    assert addresses is not None
    x = np.arange(37, dtype=np.float32)
    np.testing.assert_array_equal(apply(addresses["kernel"], x), x * np.float32(factor))
