"""Memory of arrays that other tasks send.

Fresh memory costs more than the arrays' way through a socket: the kernel clears each page first.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tfjit.framework import errors
from tfjit.runtime.host.fork_safety import watch
from tfjit.runtime.step.memory_planner import RECYCLE_BYTES, OutputRecycler

_KEPT_BYTES: Final = 1 << 29
_RECYCLER: Final = OutputRecycler(_KEPT_BYTES)
watch(_RECYCLER)


def empty_bytes(size: int) -> np.ndarray:
    """Return writable, uninitialised bytes.

    Large arrays have the memory of earlier ones. Raises MemoryError.
    """
    if size < RECYCLE_BYTES:
        return np.empty(size, np.uint8)
    try:
        return _RECYCLER.empty((size,), np.dtype(np.uint8))
    except errors.OpError as error:
        raise MemoryError(error.message) from None


__all__ = ["empty_bytes"]
