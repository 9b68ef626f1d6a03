"""Threads for expensive work on files.

They write, read and merge checkpoints, and read and write whole files. The inter-op pools stay free
for computing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from tfjit.runtime.host import fork_safety
from tfjit.runtime.host.inter_op_pool import ThreadPool

DEFAULT_THREADS: Final = 4  # file work waits more than it computes, so cores are no measure
_LOCK = threading.Lock()
fork_safety.hold(_LOCK, fork_safety.EXTENSION)
_POOLS: dict[int, IoPool] = {}
_T = TypeVar("_T")


class IoPool(ThreadPool):
    """A thread pool whose jobs may use the pool themselves."""

    def map(self, function: Callable[[Any], _T], items: Iterable[Any]) -> list[_T]:
        """Return `function` of each item, in order, on several threads.

        These are this thread and idle threads of the pool. The caller works as well, so a job of
        the pool may call this without waiting for threads that wait for it. Raises the error of the
        first failing item (in the order of the items); all items have been done or given up then.
        """
        work = _Work(function, list(items))
        for _ in range(min(self.num_threads, len(work.items) - 1)):
            self.schedule(work.help)
        work.help()
        work.over.wait()
        for failure in work.failures:
            if failure is not None:
                raise failure
        return work.results


class _Work:
    """Items that several threads claim one by one."""

    def __init__(self, function: Callable[[Any], Any], items: Sequence[Any]) -> None:
        self.function, self.items = function, items
        self.results: list[Any] = [None] * len(items)
        self.failures: list[BaseException | None] = [None] * len(items)
        self.over = threading.Event()
        self._lock = threading.Lock()
        self._claimed = self._done = 0
        if not items:
            self.over.set()

    def help(self) -> None:
        """Work until nothing is left to claim."""
        while True:
            with self._lock:
                index = self._claimed
                if index >= len(self.items):
                    return
                self._claimed += 1
            try:
                self.results[index] = self.function(self.items[index])
            except BaseException as failure:  # raised by `map`, on the caller's thread
                self.failures[index] = failure
            with self._lock:
                self._done += 1
                if self._done == len(self.items):
                    self.over.set()


def io_pool(num_threads: int = 0) -> IoPool:
    """Return the process's pool of `num_threads`.

    All sessions that ask for this number share the pool; 0 means DEFAULT_THREADS.
    """
    wanted = num_threads if num_threads > 0 else DEFAULT_THREADS
    with _LOCK:
        found = _POOLS.get(wanted)
        if found is None:
            found = _POOLS[wanted] = IoPool(wanted, "tfjit-io")
        return found
