"""Remember the kernels that a session's nodes have requested."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfjit.runtime.host.fork_safety import release_lock

if TYPE_CHECKING:
    from tfjit.kernels.jit.store import KernelStore
    from tfjit.kernels.source import KernelSource


class RequestedKernels:
    """The kernel store as the dataflow executor's nodes of one session see it. Thread-safe."""

    def __init__(self, store: KernelStore) -> None:
        self._store = store
        self.lookup = store.lookup
        self.refused = store.refused
        self.load_present = store.load_present
        self._open: dict[KernelSource, None] = {}  # requested, and not settled when last seen
        self._lock = threading.Lock()

    def request(self, sources: Sequence[KernelSource]) -> None:
        """Start to load or compile the missing kernels; return at once."""
        with self._lock:
            self._open.update(dict.fromkeys(sources))
        self._store.request(sources)

    def unsettled(self) -> list[KernelSource]:
        """Return the requested kernels that are neither loaded nor refused yet."""
        with self._lock:
            self._open = {s: None for s in self._open if not self._store.settled((s,))}
            return list(self._open)

    def wait(self, timeout: float | None) -> bool:
        """Wait until all requested kernels are settled, at most `timeout` seconds.

        Returns whether they are.
        """
        settled = threading.Event()
        self._store.when_ready(self.unsettled(), settled.set)
        return settled.wait(timeout)

    def after_fork(self) -> None:
        """Reset the lock in a forked child."""
        release_lock(self._lock)
