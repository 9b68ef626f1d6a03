"""A tile of few threads, since a simulated thread takes long, and random operands."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfjit.kernels.cuda.gemm.tiles import Plan, TileShape

TINY = Plan(TileShape(16, 16, 4, 4, 4))


def floats(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)
