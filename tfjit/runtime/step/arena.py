"""Arenas that the steps of a session share: as many as runs at the same time, each as large as the
largest step that has used it.

A plan has a variant for each tuple of feed shapes; an arena for each would hold a hundred batch
sizes' intermediates for the sake of one. A step's argument blocks hold addresses, so an instance
that gets another arena than last time writes them anew.
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
"""From here on steps share. A smaller arena belongs to its instance: a run that short would feel
the hand-over (0.3 us).
"""


class Arena:
    """Memory for the intermediates of one run at a time."""

    __slots__ = ("address", "memory")

    def __init__(self, nbytes: int) -> None:
        self.memory = aligned_bytes(nbytes)
        self.address = int(self.memory.ctypes.data)


class Placement:
    """Where one instance of a step has its intermediates now.

    words, at, offsets: words[at[i]] is the address offsets[i] into the arena. views: name in
    `scope` -> (offset, shape, dtype) of an ndarray over arena memory, for Python kernels. address:
    of the arena that all these stand for; 0 for none.
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
        """Whether it keeps its arena alive."""
        return bool(self._views)

    def bind(self, arena: Arena) -> None:
        """Point at this arena; who calls has it to himself."""
        self._words[self._at] = self._offsets + arena.address
        for name, (offset, shape, dtype) in self._views.items():
            empty = 0 in shape
            self._scope[name] = (
                np.empty(shape, dtype)
                if empty
                else np.ndarray(shape, dtype, arena.memory.data, offset)
            )
        self.address = arena.address

    def unbind(self) -> None:
        """Let go of the arena."""
        self.address = 0
        for name in self._views:
            self._scope.pop(name, None)


class ArenaPool:
    """The arenas of a session. Thread-safe."""

    def __init__(self) -> None:
        self._free: list[Arena] = []
        # those that keep their arena alive
        self._placements: weakref.WeakSet[Placement] = weakref.WeakSet()
        self._lock = threading.Lock()
        self.count = 0
        self.nbytes = 0

    def lend(self, nbytes: int) -> Arena:
        """An arena of at least nbytes, the caller's until `take_back`. One too small
        is replaced.
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
                arena = None  # freed before the larger one is made
            self.count += 1
            self.nbytes += nbytes
        return Arena(nbytes)

    def take_back(self, arena: Arena) -> None:
        """The run is over."""
        self._free.append(arena)

    def bind(self, placement: Placement, arena: Arena) -> None:
        """Point an instance, which is the caller's for this run, at an arena that is his too."""
        with self._lock:  # `_forget` looks at placements of runs that go on
            placement.bind(arena)
            if placement.has_views:
                self._placements.add(placement)

    def clear(self) -> None:
        """Free what no run uses."""
        while self._free:
            arena = self._free.pop()
            with self._lock:
                self._forget(arena)

    def after_fork(self) -> None:
        """Put things in order in a forked child."""
        release_lock(self._lock)

    def _forget(self, arena: Arena) -> None:
        for placement in self._placements:
            if placement.address == arena.address:  # nobody runs there: the arena is ours
                placement.unbind()
        self.count -= 1
        self.nbytes -= arena.memory.nbytes
