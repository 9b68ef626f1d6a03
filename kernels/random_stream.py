"""Define random streams, Philox 4x32-10, which runtime and kernels share.

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
_M0: Final = np.uint64(0xD2511F53)
_M1: Final = np.uint64(0xCD9E8D57)
_W0: Final = 0x9E3779B9
_W1: Final = 0xBB67AE85
_LOW: Final = np.uint64(0xFFFFFFFF)
_32: Final = np.uint64(32)
_AT_ONCE: Final = 4096
"""Blocks that are computed at a time.

Their vectors stay in the cache.
"""


def skipped(state: np.ndarray, count: int) -> np.ndarray:
    """Return the position `count` blocks later."""
    low = int(state[0]) + count
    return np.array([low & MASK64, (int(state[1]) + (low >> 64)) & MASK64, state[2]], np.uint64)


def advance(state: np.ndarray, count: int) -> None:
    """Move `state` on by `count` blocks, in place."""
    state[:] = skipped(state, count)


def blocks_at(state: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return the blocks `offsets` (uint64 [n]) after `state` -> uint32 [n, 4]."""
    out = np.empty((offsets.shape[0], 4), np.uint32)
    for first in range(0, len(out), _AT_ONCE):
        _write_blocks(state, offsets[first : first + _AT_ONCE], out[first : first + _AT_ONCE])
    return out


def _write_blocks(state: np.ndarray, offsets: np.ndarray, out: np.ndarray) -> None:
    """Write the blocks `offsets` after `state` into out, uint32 [n, 4]."""
    low = state[0] + offsets
    high = state[1] + (low < offsets)
    c0, c1, c2, c3 = low & _LOW, low >> _32, high & _LOW, high >> _32
    k0, k1 = int(state[2]) & 0xFFFFFFFF, int(state[2]) >> 32
    p0, p1 = np.empty_like(c0), np.empty_like(c0)
    for _ in range(10):
        np.multiply(c0, _M0, out=p0)
        np.multiply(c2, _M1, out=p1)
        np.right_shift(p1, _32, out=c0)
        c0 ^= c1
        c0 ^= np.uint64(k0)
        np.right_shift(p0, _32, out=c2)
        c2 ^= c3
        c2 ^= np.uint64(k1)
        np.bitwise_and(p1, _LOW, out=c1)
        np.bitwise_and(p0, _LOW, out=c3)
        k0, k1 = (k0 + _W0) & 0xFFFFFFFF, (k1 + _W1) & 0xFFFFFFFF
    out[:, 0], out[:, 1], out[:, 2], out[:, 3] = c0, c1, c2, c3


def blocks(state: np.ndarray, start: int, count: int) -> np.ndarray:
    """Return `count` blocks from `start` after `state` on.

    The result is uint32 [count, 4].
    """
    return blocks_at(state, np.arange(start, start + count, dtype=np.uint64))
