"""Into how many chunks the launches of matmul, convolution and pooling are cut."""

from __future__ import annotations

from typing import Final

_WORTH_SHARING_NS: Final = 8000.0  # below this a second thread brings nothing worth the hand-over
_CHUNK_NS: Final = 4000.0
_MAX_CHUNKS: Final = 32


def shares(cost_ns: float, limit: int) -> int:
    """Chunks of a launch predicted to take cost_ns on one thread; at most `limit`, the number of
    its units of work.
    """
    if cost_ns < _WORTH_SHARING_NS:
        return 1
    chunks = min(int(cost_ns / _CHUNK_NS), limit, _MAX_CHUNKS)
    # an even number, so that two threads (or four) have equally many
    return chunks - chunks % (4 if chunks >= 8 else 2) if chunks > 2 else max(1, chunks)
