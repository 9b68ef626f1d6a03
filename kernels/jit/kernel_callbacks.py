"""Call back when kernels are settled."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from tfjit.kernels.source import KernelSource

log = logging.getLogger("tfjit.cache")


class KernelCallbacks:
    """Callbacks that wait until their kernels are settled.

    lock: the owner's, which guards them as well. are_final: asked for the kernels of a callback.
    """

    def __init__(
        self, lock: threading.Lock, are_final: Callable[[Sequence[KernelSource]], bool]
    ) -> None:
        self._lock = lock
        self._are_final = are_final
        self._waiting: list[tuple[Sequence[KernelSource], Callable[[], None]]] = []
        self._calling: list[tuple[Sequence[KernelSource], Callable[[], None]]] = []

    def add(self, sources: Sequence[KernelSource], callback: Callable[[], None]) -> bool:
        """Let a callback wait; return False if its kernels are settled already."""
        with self._lock:
            if self._are_final(sources):
                return False
            self._waiting.append((sources, callback))
            return True

    def call_ready(self) -> None:
        """Call the callbacks of settled kernels on this thread."""
        with self._lock:
            ready = [entry for entry in self._waiting if self._are_final(entry[0])]
            self._waiting = [entry for entry in self._waiting if entry not in ready]
            self._calling += ready  # a child that is forked now has to call them
        for entry in ready:
            try:
                entry[1]()
            except Exception:
                log.exception("tfjit: a callback of the kernel store failed")
            finally:
                with self._lock:
                    self._calling.remove(entry)

    def after_fork(self, lock: threading.Lock) -> bool:
        """Wait again for the parent's callbacks, those in progress included.

        lock: the child's. Returns whether there are any.
        """
        self._lock = lock
        self._waiting, self._calling = [*self._waiting, *self._calling], []
        return bool(self._waiting)
