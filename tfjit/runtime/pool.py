"""Inter-op thread pools: the process's, a session's own, and named ones shared by sessions."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

from tfjit.framework import errors
from tfjit.runtime.config import inter_op_threads
from tfjit.runtime.forking import release_lock, watch

_PATIENCE_S = 10


class ThreadPool:
    """A fixed number of daemon threads that run jobs in order. num_threads 0 runs each job in the caller's thread."""

    def __init__(self, num_threads: int, name: str = "tfjit-inter-op") -> None:
        self.num_threads = num_threads
        self._name = name
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._lock = threading.Lock()
        watch(self)

    def schedule(self, job: Callable[[], None]) -> None:
        """Run `job` soon on a thread of the pool. It must not raise."""
        if self.num_threads <= 0:
            job()
            return
        self._jobs.put(job)
        if self._idle == 0 and len(self._threads) < self.num_threads:
            with self._lock:
                if len(self._threads) < self.num_threads:
                    thread = threading.Thread(target=self._work, args=(self._jobs,), name=f"{self._name}-{len(self._threads)}", daemon=True)
                    self._threads.append(thread)
                    thread.start()

    def _work(self, jobs: queue.SimpleQueue[Callable[[], None] | None]) -> None:
        while True:
            with self._lock:
                self._idle += 1
            job = jobs.get()
            with self._lock:
                self._idle -= 1
            if job is None:
                return
            job()

    def after_fork(self) -> None:
        """Put things in order in a forked child, where the threads and the steps whose jobs are queued are gone."""
        release_lock(self._lock)
        self._threads, self._idle, self._jobs = [], 0, queue.SimpleQueue()

    def close(self) -> None:
        """End the threads, which have nothing left to do; waits for those that are not the caller's own."""
        threads, self._threads = self._threads, []
        for _ in threads:
            self._jobs.put(None)
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(_PATIENCE_S)


_LOCK = threading.Lock()
_GLOBAL: ThreadPool | None = None
_NAMED: dict[str, tuple[int, ThreadPool]] = {}


def global_pool(config: Any) -> ThreadPool:
    """The process-wide pool, sized by the first session that asks."""
    global _GLOBAL
    with _LOCK:
        if _GLOBAL is None:
            _GLOBAL = ThreadPool(max(1, inter_op_threads(config)))
        return _GLOBAL


def _named_pool(name: str, num_threads: int, config: Any) -> ThreadPool:
    with _LOCK:
        found = _NAMED.get(name)
        if found is None:
            pool = ThreadPool(num_threads or max(1, inter_op_threads(config)), f"tfjit-{name}")
            _NAMED[name] = (num_threads, pool)
            return pool
        if found[0] != num_threads:
            raise errors.InvalidArgumentError(
                None,
                None,
                f"Pool {name} configured previously with num_threads={found[0]}; cannot re-configure with num_threads={num_threads}",
            )
        return found[1]


class PoolSet:
    """A session's inter-op pools, as its ConfigProto asks for them. `get(-1)` is the caller's own thread."""

    def __init__(self, config: Any) -> None:
        self._owned: list[ThreadPool] = []
        self.caller = ThreadPool(0)
        self.pools: list[ThreadPool] = []
        if config is not None and config.session_inter_op_thread_pool:
            for entry in config.session_inter_op_thread_pool:
                if entry.global_name:
                    self.pools.append(_named_pool(entry.global_name, entry.num_threads, config))
                else:
                    self.pools.append(self._own(entry.num_threads or max(1, inter_op_threads(config))))
        elif config is not None and config.inter_op_parallelism_threads < 0:
            self.pools.append(self.caller)
        elif config is not None and config.use_per_session_threads:
            self.pools.append(self._own(max(1, inter_op_threads(config))))
        else:
            self.pools.append(global_pool(config))

    def _own(self, num_threads: int) -> ThreadPool:
        pool = ThreadPool(num_threads)
        self._owned.append(pool)
        return pool

    def get(self, index: int = 0) -> ThreadPool:
        """Pool `index` of RunOptions.inter_op_thread_pool. Raises InvalidArgumentError when there is none."""
        if index == -1:
            return self.caller
        if not 0 <= index < len(self.pools):
            raise errors.InvalidArgumentError(None, None, f"Invalid inter_op_thread_pool: {index}")
        return self.pools[index]

    def close(self) -> None:
        """End the session's own threads (never shared ones)."""
        for pool in self._owned:
            pool.close()
