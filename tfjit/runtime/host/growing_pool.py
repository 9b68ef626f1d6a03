"""A pool with a thread for each job that runs.

A job may wait for another one, so a fixed number of threads would be a deadlock.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final

from tfjit.framework import errors

log = logging.getLogger("tfjit.threads")

_IDLE_S: Final = 20.0

Job = Callable[[], None]


class GrowingPool:
    """Run each job at once, on an idle or a new thread.

    Idle threads end after a while, but for one. The threads are daemons: a blocked job keeps no
    process alive.
    """

    def __init__(
        self,
        name: str,
        limit: int,
        full: Callable[[int], Exception] | None = None,
        idle_s: float = _IDLE_S,
    ) -> None:
        """Make a pool with one thread.

        limit: the limit of threads. full: makes the error of a job beyond the limit, of the number
        of jobs that run; without it, such a job waits for a thread.
        """
        self._name = name
        self._limit = limit
        self._full = full
        self._idle_s = idle_s
        self._lock = threading.Lock()
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._free = 0  # idle threads less the jobs that wait
        self._count = 0
        self._closed: str | None = None
        self._start_thread()

    @property
    def thread_count(self) -> int:
        """The number of threads, idle ones included."""
        return self._count

    @property
    def busy_count(self) -> int:
        """The number of jobs that run or wait."""
        return self._count - self._free

    @property
    def has_idle(self) -> bool:
        """Return whether a thread waits for a job."""
        return self._free > 0

    def submit(self, job: Job) -> None:
        """Run a job soon; never waits. The job must not raise.

        Raises CancelledError once closed, and the error of `full` where no thread can be had.
        """
        with self._lock:
            if self._closed is not None:
                raise errors.CancelledError(None, None, self._closed)
            if self._free <= 0 and not self._start_thread() and self._full is not None:
                raise self._full(self._count)
            self._free -= 1
            self._jobs.put(job)  # not an argument: a thread keeps its arguments as long as it lives

    def close(self, reason: str) -> None:
        """End the idle threads, and the others after their jobs.

        reason: the text of the error that further jobs get.
        """
        with self._lock:
            self._closed = reason
            while self._free > 0:
                self._free -= 1
                self._jobs.put(None)

    def _start_thread(self) -> bool:
        """Start a thread if limit and system admit one, under the lock."""
        if self._count >= self._limit:
            return False
        try:
            threading.Thread(target=self._work, name=self._name, daemon=True).start()
        except RuntimeError:  # the system has no more threads
            if not self._count:
                raise
            return False
        self._count += 1
        self._free += 1
        return True

    def _work(self) -> None:
        while (job := self._next()) is not None:
            try:
                job()
            except BaseException:  # a job reports its own errors: this is a fault in it
                log.exception("a job of the pool %r failed", self._name)
            del job  # and the values of its step, while this thread waits
            with self._lock:
                if self._closed is not None and self._free >= 0:  # no job waits
                    break
                self._free += 1
        with self._lock:
            self._count -= 1

    def _next(self) -> Job | None:
        """Return the next job, None when this thread has to end."""
        while True:
            try:
                return self._jobs.get(timeout=self._idle_s)
            except Empty:
                with self._lock:
                    if self._jobs.empty() and self._count > 1:
                        self._free -= 1
                        return None
