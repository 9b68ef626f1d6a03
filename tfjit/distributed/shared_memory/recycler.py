"""Memory of results that other processes can read where it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from tfjit.distributed.shared_memory.block_pool import MIN_BYTES, POOL, BlockPool
from tfjit.kernels.memory_limits import check_fits_in_memory
from tfjit.runtime.step.memory_planner import OutputRecycler

_MAX_BYTES: Final = 1 << 29
"""A larger block may be freed as soon as it is idle."""


class SharedRecycler(OutputRecycler):
    """Provide results of sizes that are sent in shared memory.

    So the next ones reach other processes without a copy.
    """

    def __init__(self, pool: BlockPool = POOL) -> None:
        super().__init__()
        self._pool = pool

    def empty(self, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
        size = math.prod(shape) * dtype.itemsize
        if MIN_BYTES <= size <= _MAX_BYTES and self._pool.is_sent(size):
            check_fits_in_memory((size,), np.uint8)
            try:
                return self._pool.array(size).view(dtype).reshape(shape)
            except OSError:  # too many blocks
                pass
        return super().empty(tuple(shape), dtype)


__all__ = ["SharedRecycler"]
