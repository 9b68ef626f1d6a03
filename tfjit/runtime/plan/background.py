"""Run the upgrades of plans on one background thread of the process."""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from tfjit.framework import cooperative_yield

SHARE: Final = 0.1
"""Share of the interpreter's time that background work takes from other threads."""
HURRIED_SHARE: Final = 0.5
"""The share while a caller waits for the work's result."""


class Background:
    """Upgrade variants on one daemon thread of the process.

    No caller waits for a builder or a compile.

    A fork waits for the running job, which may hold import locks that no thread would release in
    the child. The child continues with the remaining jobs.
    """

    def __init__(self) -> None:
        self._jobs: deque[tuple[Callable[[], None], Callable[[], float]]] = deque()
        self._arrived: queue.SimpleQueue[None] = queue.SimpleQueue()  # one entry per job
        self._lock = threading.Lock()
        self._busy = threading.RLock()
        self._thread: threading.Thread | None = None
        self._has_run = False
        if hasattr(os, "register_at_fork"):
            # Registered after the kernel store's handlers, so run before them: a job may be waiting
            # for the store's locks.
            os.register_at_fork(
                before=self._before_fork,
                after_in_parent=self._release,
                after_in_child=self._after_fork_in_child,
            )

    def submit(self, job: Callable[[], None], share: Callable[[], float]) -> None:
        """Queue `job`, which must not raise.

        share: the share of the interpreter's time that the job may take from other threads
        (framework/cooperative_yield.py).
        """
        self._jobs.append((job, share))
        self._arrived.put(None)
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="tfjit-upgrade", daemon=True)
                self._thread.start()

    def _imports(self) -> AbstractContextManager[None]:
        """Return the context of the next job; the first one imports modules."""
        is_first, self._has_run = not self._has_run, True
        return cooperative_yield.prompt_interpreter() if is_first else nullcontext()

    def _run(self) -> None:
        while True:
            self._arrived.get()
            with self._busy:
                job, share = self._jobs.popleft()
                with cooperative_yield.background(share), self._imports():
                    job()
                # An abandoned session must not stay alive until the next job arrives.
                del job, share

    def _before_fork(self) -> None:
        self._busy.acquire()
        self._lock.acquire()

    def _release(self) -> None:
        self._lock.release()
        self._busy.release()

    def _after_fork_in_child(self) -> None:
        self._release()
        left, self._jobs, self._arrived, self._thread = (
            self._jobs,
            deque(),
            queue.SimpleQueue(),
            None,
        )
        for job, share in left:
            self.submit(job, share)


BACKGROUND = Background()

__all__ = ["BACKGROUND", "HURRIED_SHARE", "SHARE", "Background"]
