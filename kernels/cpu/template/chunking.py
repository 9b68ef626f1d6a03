"""Decide the number of chunks of matmul, convolution and pooling."""

from __future__ import annotations

from typing import Final

from tfjit.kernels.ir.symbolic_size import at_least

_WORTH_SHARING_NS: Final = 8000.0  # below this time a second thread does not pay for the hand-over
_CHUNK_NS: Final = 4000.0
_MAX_CHUNKS: Final = 32


def chunk_count(cost_ns: float, limit: int) -> int:
    """Return the number of chunks of a launch, at most `limit`.

    cost_ns: its predicted time on one thread. limit: the number of its units of work.
    """
    if cost_ns < _WORTH_SHARING_NS:
        return 1
    chunks = min(int(cost_ns / _CHUNK_NS), at_least(limit), _MAX_CHUNKS)
    # an even number, so that two threads (or four) have equally many
    return chunks - chunks % (4 if chunks >= 8 else 2) if chunks > 2 else max(1, chunks)
