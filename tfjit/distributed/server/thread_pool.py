"""The threads that answer calls, as an executor for gRPC."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final

from tfjit.runtime.host.growing_pool import GrowingPool

MOST_THREADS: Final = 4096 + 64
"""Threads of a pool; further jobs wait for one."""


class ThreadPool:
    """Run each job at once on a growing pool; give futures."""

    def __init__(self, name: str, most: int = MOST_THREADS) -> None:
        """Make a pool with one thread. most: the limit of threads."""
        self._pool = GrowingPool(name, most)

    @property
    def busy_count(self) -> int:
        """The number of jobs that run or wait."""
        return self._pool.busy_count

    @property
    def has_idle(self) -> bool:
        """Return whether a thread waits for a job."""
        return self._pool.has_idle

    def submit(self, job: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a job soon; never waits and never raises.

        Where no thread can be started, the job waits for one.
        """
        future: Future[Any] = Future()

        def run() -> None:
            try:
                result = job(*args, **kwargs)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        self._pool.submit(run)
        return future
