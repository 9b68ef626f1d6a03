"""Define the position of a random stream, which runtime and kernels share.

A position is three uint64 words: [0] the counter's low half, [1] its high half, [2] the key.
"""

from __future__ import annotations

from typing import Final

import numpy as np

MASK64: Final = (1 << 64) - 1
POSITION_BYTES: Final = 24
BLOCKS_PER_OUTPUT: Final = 256
"""Blocks that a run reserves for each output, used or not."""
BLOCKS_PER_CANDIDATE: Final = 512
"""Blocks that a run of a candidate sampler reserves for each candidate."""


def skipped(state: np.ndarray, count: int) -> np.ndarray:
    """Return the position `count` blocks later."""
    low = int(state[0]) + count
    return np.array([low & MASK64, (int(state[1]) + (low >> 64)) & MASK64, state[2]], np.uint64)


def advance(state: np.ndarray, count: int) -> None:
    """Move `state` on by `count` blocks, in place."""
    state[:] = skipped(state, count)
