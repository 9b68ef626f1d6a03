"""Pause the cyclic collector while many long-lived objects are made."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_MANY: Final = 20_000  # objects that take a millisecond in their first walk

_lock = threading.Lock()
_pausing = 0  # blocks under way, of all threads
_enabled = False  # True if the collector was on before the first block


@contextmanager
def collection_paused() -> Iterator[None]:
    """Pause collections in the block, for the making of graphs and plans.

    All new objects of such a block live on. The full collections that their growth sets off would
    walk them again and again, for as long as making them takes. At the end many new objects count
    as old, so that none is walked before the collector finds that a full collection is due.
    """
    global _pausing, _enabled
    with _lock:
        if not _pausing:
            _enabled = gc.isenabled()
            gc.disable()
        _pausing += 1
    try:
        yield
    finally:
        with _lock:
            _pausing = max(0, _pausing - 1)
            if not _pausing and _enabled:
                if gc.get_count()[0] > _MANY and not gc.get_freeze_count():
                    # move all generations to the permanent one, which is never collected
                    gc.freeze()
                    gc.unfreeze()  # and from there to the oldest generation
                gc.enable()


def _after_fork_in_child() -> None:
    """End all pauses: the threads in such blocks are gone."""
    global _lock, _pausing
    _lock = threading.Lock()
    if _pausing and _enabled:
        gc.enable()
    _pausing = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
