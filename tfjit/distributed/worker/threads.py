"""Threads for the steps of a worker."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from typing import Final

from tfjit.framework import errors

log = logging.getLogger("tfjit.worker")

MAX_THREADS: Final = 1024
_IDLE_S: Final = 10.0


class StepThreads:
    """A pool that grows with the number of jobs at one time.

    A step may wait for another one, so a job never waits for a thread. Threads end when they have
    had no job for a while.
    """

    def __init__(self, name: str, limit: int = MAX_THREADS) -> None:
        self._name = name
        self._limit = limit
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0  # threads without a job, less the queued jobs
        self._count = 0
        self._closed = False

    def submit(self, job: Callable[[], None]) -> None:
        """Run a job on a thread; never waits.

        The job must not raise.
        Raises ResourceExhaustedError where too many jobs run, CancelledError once closed.
        """
        with self._lock:
            if self._closed:
                raise errors.CancelledError(None, None, "The worker has been shut down.")
            if self._idle > 0:
                self._idle -= 1
                self._jobs.put(job)
                return
            if self._count >= self._limit:
                raise errors.ResourceExhaustedError(
                    None, None, f"The worker already runs {self._count} steps at one time."
                )
            self._count += 1
            self._jobs.put(job)  # not an argument: a thread keeps its arguments as long as it lives
        threading.Thread(target=self._work, name=self._name, daemon=True).start()

    @property
    def count(self) -> int:
        """Return the number of threads."""
        return self._count

    def _work(self) -> None:
        job: Callable[[], None] | None = self._jobs.get()
        while job is not None:
            try:
                job()
            except BaseException:  # a job reports its own errors: this is a fault in it
                log.exception("a job of a worker failed")
            job = None  # and the values of its step, while this thread waits
            with self._lock:
                if self._closed:
                    break
                self._idle += 1
            job = self._next()
        with self._lock:
            self._count -= 1

    def _next(self) -> Callable[[], None] | None:
        """Return the next job, None when this thread has to end."""
        try:
            return self._jobs.get(timeout=_IDLE_S)
        except queue.Empty:
            with self._lock:
                if self._idle > 0:
                    self._idle -= 1
                    return None
            return self._jobs.get()  # a job was queued for this thread meanwhile

    def close(self) -> None:
        """End the idle threads, and the others after their jobs."""
        with self._lock:
            self._closed = True
            for _ in range(self._idle):
                self._jobs.put(None)
            self._idle = 0


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
