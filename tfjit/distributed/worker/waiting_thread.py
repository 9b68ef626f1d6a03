"""The thread of a call, which does jobs of its run."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable


class WaitingThread:
    """The thread that waits for a run and does its jobs.

    That saves the run the change to a thread of the pool and back. others: runs the jobs that come
    while the thread is busy.
    """

    def __init__(self, others: Callable[[Callable[[], None]], None]) -> None:
        self._others = others
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._waits = False

    def submit(self, job: Callable[[], None]) -> None:
        """Run a job on the thread if it waits, or another."""
        with self._lock:
            waits, self._waits = self._waits, False
            if waits:
                self._jobs.put(job)
        if not waits:
            self._others(job)

    def end(self) -> None:
        """Let the thread go."""
        self._jobs.put(None)

    def work(self) -> None:
        """Do jobs until `end` is called.

        An interrupt leaves the jobs to other threads.
        """
        try:
            while True:
                with self._lock:
                    self._waits = True
                job = self._jobs.get()
                if job is None:
                    return
                job()
                del job
        finally:
            self._leave()

    def _leave(self) -> None:
        with self._lock:
            self._waits = False
            left = []
            while not self._jobs.empty():
                left.append(self._jobs.get())
        for job in left:
            if job is not None:
                self._others(job)
