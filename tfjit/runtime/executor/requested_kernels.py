"""Remember the kernels that a session's nodes have requested."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfjit.runtime.host.fork_safety import release_lock

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfjit.kernels.jit.store import KernelStore
    from tfjit.kernels.source import KernelSource
    from tfjit.runtime.executor.computed_node import ComputedNode


class RequestedKernels:
    """The kernel store for the single nodes of one session.

    The dataflow executor's nodes ask here for compiled code. Thread-safe.
    """

    def __init__(self, store: KernelStore) -> None:
        self._store = store
        self.lookup = store.lookup
        self.refused = store.refused
        self.are_final = store.are_final
        self.compiles = store.compiles
        self.has_refusals = store.has_refusals
        self.load_present = store.load_present
        self.has_compiler = store.has_compiler
        self._open: dict[KernelSource, None] = {}  # requested; some may be loaded by now
        self._deferred: weakref.WeakSet[ComputedNode] = weakref.WeakSet()
        self._lock = threading.Lock()

    def defer(self, owner: ComputedNode) -> None:
        """Remember a node that has deferred kernels."""
        with self._lock:
            self._deferred.add(owner)

    def request_deferred(self) -> None:
        """Request all deferred kernels: a caller waits for the fastest form."""
        with self._lock:
            owners, self._deferred = list(self._deferred), weakref.WeakSet()
        for owner in owners:
            owner.request_deferred(self)

    def request(self, sources: Sequence[KernelSource], for_others: bool = False) -> None:
        """Start to load or compile the missing kernels; return at once.

        for_others: as in the store's `request`.
        """
        with self._lock:
            self._open.update(dict.fromkeys(sources))
        self._store.request(sources, for_others)

    def when_ready(self, sources: Sequence[KernelSource], callback: Callable[[], None]) -> None:
        """Request kernels, and call back once when each is loaded or refused.

        The call comes at once, or on a thread of the store.
        """
        with self._lock:
            self._open.update(dict.fromkeys(sources))
        self._store.when_ready(sources, callback)

    def unfinished(self) -> list[KernelSource]:
        """Return the requested kernels that are neither loaded nor refused yet."""
        with self._lock:
            for source in list(self._open):
                if self.lookup(source) is not None or self.refused(source) is not None:
                    del self._open[source]
            return list(self._open)

    def wait(self, timeout: float | None) -> bool:
        """Wait until all requested kernels are loaded or refused.

        timeout: seconds, None for no limit. Returns whether they are.
        """
        done = threading.Event()
        waiting = self.unfinished()
        self._store.when_ready(waiting, done.set)
        if not done.wait(timeout):
            return False
        with self._lock:
            for source in waiting:  # with TFJIT_JIT=off some are neither loaded nor refused
                self._open.pop(source, None)
        return True

    def after_fork(self) -> None:
        """Reset the lock in a forked child."""
        release_lock(self._lock)
