"""Random arrays of floats and of quantised dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfjit.framework.types import dtypes
from tfjit.kernels.cpu.reference.quantized_values import quantized

RNG = np.random.default_rng(19)
F = np.float32
QUINT8, QINT8, QINT32, QINT16, QUINT16 = (
    dtypes.quint8,
    dtypes.qint8,
    dtypes.qint32,
    dtypes.qint16,
    dtypes.quint16,
)
LOOSE = (1e-5, 1e-6)


def n(*shape: int) -> np.ndarray:
    return np.asarray(RNG.standard_normal(shape) * 4).astype(F)


def q(dtype: Any, *shape: int, limit: int | None = None) -> np.ndarray:
    info = np.iinfo(dtype.as_numpy_dtype[0])
    low, high = (info.min, info.max) if limit is None else (max(info.min, -limit), limit)
    return quantized(RNG.integers(low, high, shape, endpoint=True), dtype.as_numpy_dtype)
