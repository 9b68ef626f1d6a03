"""Define the position of a random stream, which runtime and kernels share.

A position is three uint64 words: [0] the counter's low half, [1] its high half, [2] the key.
"""

from __future__ import annotations

from typing import Final

BLOCKS_PER_OUTPUT: Final = 256
"""Blocks that a run reserves for each output, used or not."""
BLOCKS_PER_CANDIDATE: Final = 512
"""Blocks that a run of a candidate sampler reserves for each candidate."""
