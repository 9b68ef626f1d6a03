"""Keep graphs consistent and locks free in forked children.

Only the forking thread lives on in the child. A lock that another thread held would never be
released there, that thread's step would never end, and no step would take the elements that it
waited for in a queue. So the locks of graphs are waited for before the fork, and every session
resets itself behind it: the steps of other threads are gone, everything else continues.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from typing import Any, Final, Protocol, runtime_checkable

# hooks registered last run first before a fork, so the store's are registered first
from tfjit.kernels.jit import store as _store  # noqa: F401

log = logging.getLogger("tfjit.session")

_WAIT_S: Final = 10.0

EXTENSION: Final = 0
"""Rank of a lock that is taken before graphs' own."""
GRAPH: Final = 1
PLACED_GRAPH: Final = 2


@runtime_checkable
class Forked(Protocol):
    """An object that resets itself in a forked child."""

    def after_fork(self) -> None:
        """Reset the object in the child, which has one thread."""


_locks: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
_objects: weakref.WeakSet[Forked] = weakref.WeakSet()
_held: list[Any] = []
_registry = threading.Lock()


def hold(lock: Any, rank: int) -> None:
    """Hold this lock during forks; locks of lower rank come first."""
    with _registry:
        _locks[lock] = rank


def watch(forked: Forked) -> None:
    """Tell this object in a forked child."""
    with _registry:
        _objects.add(forked)


def release_lock(lock: Any) -> None:
    """Free a lock in a child, even if held in the parent."""
    lock._at_fork_reinit()


def _before() -> None:
    _registry.acquire()
    for lock, _ in sorted(_locks.items(), key=lambda item: item[1]):
        if lock.acquire(timeout=_WAIT_S):
            _held.append(lock)
        else:
            log.warning(
                "a graph was still being changed by another thread when the process was forked"
            )


def _release() -> None:
    while _held:
        _held.pop().release()
    _registry.release()


def _in_child() -> None:
    _release()
    for lock in list(_locks):
        release_lock(lock)
    for forked in list(_objects):
        forked.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_release, after_in_child=_in_child)
