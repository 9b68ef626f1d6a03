"""Share arenas between the steps of a session.

A session has as many arenas as steps that run at the same time. Each arena is as large as the
largest step that has used it.

A plan has a variant for each tuple of feed shapes. An arena for each variant would hold a hundred
batch sizes' intermediates for the sake of one. A step's argument blocks hold addresses, so an
instance that gets another arena than last time rewrites them.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from tfjit.runtime.host.fork_safety import release_lock
from tfjit.runtime.step.memory_planner import aligned_bytes

SHARED_BYTES: Final = 1 << 16
"""Size from which steps share arenas.

A smaller arena belongs to its instance: a run that short would feel the hand-over (0.3 us).
"""


class Arena:
    """Hold the intermediates of one run at a time."""

    __slots__ = ("address", "memory")

    def __init__(self, nbytes: int) -> None:
        self.memory = aligned_bytes(nbytes)
        self.address = int(self.memory.ctypes.data)


class Placement:
    """Map one instance of a step to its present arena.

    words, at, offsets: words[at[i]] is the address offsets[i] into the arena. views: name in
    `scope` -> (offset, shape, dtype) of an ndarray over arena memory, for Python kernels. address:
    the address of the arena; 0 for none.
    """

    __slots__ = ("__weakref__", "_at", "_offsets", "_scope", "_views", "_words", "address")

    def __init__(
        self,
        words: np.ndarray,
        placed: Sequence[tuple[int, int]],
        views: Mapping[str, tuple[int, tuple[int, ...], np.dtype]],
        scope: dict[str, Any],
    ) -> None:
        self.address = 0
        self._words = words
        self._at = np.array([word for word, _ in placed], np.intp)
        self._offsets = np.array([offset for _, offset in placed], np.int64)
        self._views = views
        self._scope = scope

    @property
    def has_views(self) -> bool:
        """Return whether the placement keeps its arena alive."""
        return bool(self._views)

    def bind(self, arena: Arena) -> None:
        """Point at this arena, which only the caller uses."""
        self._words[self._at] = self._offsets + arena.address
        for name, (offset, shape, dtype) in self._views.items():
            empty = 0 in shape
            self._scope[name] = (
                np.empty(shape, dtype)
                if empty
                else np.ndarray(shape, dtype, arena.memory.data, offset)
            )
        self.address = arena.address

    def move(self, numbers: np.ndarray, offsets: np.ndarray) -> None:
        """Give placed words, by number, other offsets before the next run."""
        self._offsets[numbers] = offsets
        own = self._scope.get("arena")
        if own is not None:
            self.bind(own)
        else:
            self.address = 0  # the next run binds the arena that it borrows

    def reshape(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Give views other shapes, before the next run."""
        changed = [name for name in self._views if name in shapes]
        if not changed:
            return
        views = dict(self._views)
        for name in changed:
            offset, _, dtype = views[name]
            views[name] = offset, shapes[name], dtype
        self._views = views
        own = self._scope.get("arena")
        if own is not None:
            self.bind(own)
        else:
            self.address = 0  # the next run binds the arena that it borrows

    def unbind(self) -> None:
        """Drop the views of the arena."""
        self.address = 0
        for name in self._views:
            self._scope.pop(name, None)


class ArenaPool:
    """Hold the arenas of a session. Thread-safe."""

    def __init__(self) -> None:
        self._free: list[Arena] = []
        # placements that keep their arena alive
        self._placements: weakref.WeakSet[Placement] = weakref.WeakSet()
        self._lock = threading.Lock()
        self.count = 0
        self.nbytes = 0

    def lend(self, nbytes: int) -> Arena:
        """Return an arena of at least nbytes, the caller's until `take_back`.

        An arena that is too small is replaced.
        """
        try:
            arena = self._free.pop()
        except IndexError:
            arena = None
        if arena is not None and arena.memory.nbytes >= nbytes:
            return arena
        with self._lock:
            if arena is not None:
                self._forget(arena)
                arena = None  # freed before the larger arena is allocated
            self.count += 1
            self.nbytes += nbytes
        return Arena(nbytes)

    def take_back(self, arena: Arena) -> None:
        """Return an arena to the pool after the run."""
        self._free.append(arena)

    def bind(self, placement: Placement, arena: Arena) -> None:
        """Point an instance at an arena; the caller owns both."""
        with self._lock:  # `_forget` reads placements of other running steps
            placement.bind(arena)
            if placement.has_views:
                self._placements.add(placement)

    def clear(self) -> None:
        """Free the arenas that no run uses."""
        while self._free:
            arena = self._free.pop()
            with self._lock:
                self._forget(arena)

    def after_fork(self) -> None:
        """Reset the lock in a forked child."""
        release_lock(self._lock)

    def _forget(self, arena: Arena) -> None:
        for placement in self._placements:
            # no step runs in the arena: the caller has just taken it from the pool
            if placement.address == arena.address:
                placement.unbind()
        self.count -= 1
        self.nbytes -= arena.memory.nbytes
