"""The threads that answer calls.

A step may block until another call arrives, so a fixed number of threads would be a deadlock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, Final

MOST_THREADS: Final = 4096 + 64
"""Threads of a pool; further jobs wait for one."""
_IDLE_S: Final = 20.0

_Job = tuple["Future[Any]", Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class ThreadPool:
    """Run each job at once, on an idle or a new thread.

    Idle threads end after a while, but for one. The threads are daemons: a blocked step keeps no
    process alive.
    """

    def __init__(self, name: str, most: int = MOST_THREADS, idle_s: float = _IDLE_S) -> None:
        """Make a pool with one thread. most: the limit of threads."""
        self._name = name
        self._most = most
        self._idle_s = idle_s
        self._lock = threading.Lock()
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._free = 0  # idle threads less the jobs that wait; below 0 at the limit alone
        self._count = 0
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

    def submit(self, job: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a job soon; never waits and never raises.

        Where no thread can be started, the job waits for one.
        """
        future: Future[Any] = Future()
        with self._lock:
            self._jobs.put((future, job, args, kwargs))
            self._free -= 1
            if self._free < 0 and self._count < self._most:
                self._start_thread()
        return future

    def _start_thread(self) -> None:
        """Start a thread if the system has one; the lock is held."""
        thread = threading.Thread(target=self._work, name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            if not self._count:
                raise
            return  # the job waits for a thread of those there are
        self._count += 1
        self._free += 1

    def _work(self) -> None:
        while True:
            try:
                future, job, args, kwargs = self._jobs.get(timeout=self._idle_s)
            except Empty:
                with self._lock:
                    if self._jobs.empty() and self._count > 1:
                        self._free -= 1
                        self._count -= 1
                        return
                continue
            try:
                result = job(*args, **kwargs)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
            del future, job, args, kwargs
            with self._lock:
                self._free += 1
