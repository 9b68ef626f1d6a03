"""Inter-op thread pools: the process's, sessions', named, and run handlers'.

Named pools are shared by sessions. A run works on its caller's thread and hands expensive work to
its pool. A pool that RunOptions can choose bounds all its runs together, as TensorFlow's do: a
caller takes a slot of the pool while it works, and a thread of the pool takes one for each job.
"""

from __future__ import annotations

import heapq
import itertools
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tfjit.framework import errors
from tfjit.runtime.host.fork_safety import release_lock, watch
from tfjit.runtime.host.thread_counts import SINGLE_THREADED, cores, inter_op_threads

_PATIENCE_S = 10


class Slots:
    """Slots for a bounded number of workers at once.

    Waiting threads come by priority (higher first), then by arrival.
    """

    def __init__(self, count: int) -> None:
        self._count = self._free = count
        self._lock = threading.Lock()
        self._waiting: list[tuple[int, int, threading.Lock]] = []
        self._arrivals = itertools.count()

    def take(self, priority: int = 0) -> None:
        """Wait for a slot and take it."""
        with self._lock:
            if self._free:
                self._free -= 1
                return
            granted = threading.Lock()
            granted.acquire()
            entry = (-priority, next(self._arrivals), granted)
            heapq.heappush(self._waiting, entry)
        try:
            granted.acquire()
        except BaseException:  # an interrupt: pass on the turn that may have come
            with self._lock:
                if entry in self._waiting:
                    self._waiting.remove(entry)
                    heapq.heapify(self._waiting)
                    raise
            self.give()
            raise

    def take_free(self) -> bool:
        """Take a slot if one is free and no thread waits."""
        with self._lock:
            if not self._free:
                return False
            self._free -= 1
            return True

    def give(self) -> None:
        """Give a slot back; the next in turn has it at once."""
        with self._lock:
            if self._waiting:
                heapq.heappop(self._waiting)[2].release()
            # no more slots than exist: a run that forks has its slot back in the child already
            else:
                self._free = min(self._free + 1, self._count)

    def after_fork(self) -> None:
        """Reset the slots in a forked child, where no thread uses them."""
        release_lock(self._lock)
        self._free = self._count
        self._waiting.clear()


class ThreadPool:
    """A fixed number of daemon threads that run jobs in order.

    num_threads 0 runs each job in the caller's thread. slots: the bound of its runs and jobs
    together, or None.
    """

    def __init__(
        self, num_threads: int, name: str = "tfjit-inter-op", slots: Slots | None = None
    ) -> None:
        self.num_threads = num_threads
        self.slots = slots
        self._name = name
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle = 0  # threads that wait for a job or are about to
        self._queued = 0  # jobs that no thread has taken
        self._lock = threading.Lock()
        watch(self)

    def schedule(self, job: Callable[[], None]) -> None:
        """Run `job` soon on a thread of the pool.

        It must not raise.
        """
        if self.num_threads <= 0:
            job()
            return
        with self._lock:
            self._queued += 1
            self._jobs.put(job)
            # An idle thread that a queued job will wake is not free for this one.
            if self._queued > self._idle and len(self._threads) < self.num_threads:
                name = f"{self._name}-{len(self._threads)}"
                thread = threading.Thread(
                    target=self._work, args=(self._jobs,), name=name, daemon=True
                )
                self._threads.append(thread)
                self._idle += 1
                thread.start()

    @contextmanager
    def working(self, priority: int = 0) -> Iterator[None]:
        """Count the caller's block as work of this pool.

        The caller waits for a slot where there are slots.
        """
        if self.slots is None:
            yield
            return
        self.slots.take(priority)
        try:
            yield
        finally:
            self.slots.give()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Give up the slot while a block inside `working` only waits."""
        if self.slots is None:
            yield
            return
        self.slots.give()
        try:
            yield
        finally:
            self.slots.take()

    def offer(self, job: Callable[[], None]) -> bool:
        """Schedule the job if a thread and a slot are free.

        False when the caller had better run the job.
        """
        slots = self.slots
        if slots is None:
            self.schedule(job)
            return True
        if not slots.take_free():
            return False

        def in_slot() -> None:
            try:
                job()
            finally:
                slots.give()

        self.schedule(in_slot)
        return True

    def _work(self, jobs: queue.SimpleQueue[Callable[[], None] | None]) -> None:
        while True:
            job = jobs.get()
            with self._lock:
                self._idle -= 1
                self._queued -= 1
            if job is None:
                return
            job()
            del job  # the job holds its step, which must not live until the next job comes
            with self._lock:
                if jobs is not self._jobs:
                    return  # the job forked: this is the child, where the pool begins anew
                self._idle += 1

    def after_fork(self) -> None:
        """Reset the pool in a forked child.

        The threads, and the steps of the queued jobs, are gone there.
        """
        release_lock(self._lock)
        self._threads, self._idle, self._queued, self._jobs = [], 0, 0, queue.SimpleQueue()
        if self.slots is not None:
            self.slots.after_fork()

    def close(self) -> None:
        """End the idle threads, and wait for all but the caller's own."""
        with self._lock:
            threads, self._threads = self._threads, []
            self._queued += len(threads)
            for _ in threads:
                self._jobs.put(None)
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(_PATIENCE_S)


_LOCK = threading.Lock()
_GLOBAL: ThreadPool | None = None
_RUN_HANDLER: ThreadPool | None = None
_NAMED: dict[str, tuple[int, ThreadPool]] = {}


def global_pool(config: Any) -> ThreadPool:
    """Return the process-wide pool, sized by the first session that asks."""
    global _GLOBAL
    with _LOCK:
        if _GLOBAL is None:
            _GLOBAL = ThreadPool(max(1, inter_op_threads(config)))
        return _GLOBAL


def _named_pool(name: str, num_threads: int, config: Any) -> ThreadPool:
    with _LOCK:
        found = _NAMED.get(name)
        if found is None:
            pool = _bounded(num_threads or max(1, inter_op_threads(config)), f"tfjit-{name}")
            _NAMED[name] = (num_threads, pool)
            return pool
        if found[0] != num_threads:
            raise errors.InvalidArgumentError(
                None,
                None,
                f"Pool {name} configured previously with num_threads={found[0]}; cannot "
                f"re-configure with num_threads={num_threads}",
            )
        return found[1]


def _bounded(num_threads: int, name: str = "tfjit-inter-op") -> ThreadPool:
    return ThreadPool(num_threads, name, Slots(num_threads))


def run_handler_pool() -> ThreadPool:
    """Return the process-wide pool of run handlers.

    Runs with RunOptions.experimental.use_run_handler_pool share it: as many at once as there are
    cores, the waiting ones by the priority of their options.
    """
    global _RUN_HANDLER
    with _LOCK:
        if _RUN_HANDLER is None:
            _RUN_HANDLER = _bounded(cores(), "tfjit-run-handler")
        return _RUN_HANDLER


class PoolSet:
    """A session's inter-op pools, as its ConfigProto asks for them.

    `get(-1)` is the caller's own thread.
    """

    def __init__(self, config: Any) -> None:
        self._handle = config.session_handle if config is not None else ""
        self._owned: list[ThreadPool] = []
        self.caller = ThreadPool(0)
        self.pools: list[ThreadPool] = []
        if (
            config is not None
            and config.session_inter_op_thread_pool
            and config.experimental.executor_type != SINGLE_THREADED
        ):
            for entry in config.session_inter_op_thread_pool:
                if entry.global_name:
                    self.pools.append(_named_pool(entry.global_name, entry.num_threads, config))
                else:
                    self.pools.append(
                        self._own(
                            entry.num_threads or max(1, inter_op_threads(config)), bounded=True
                        )
                    )
        elif config is not None and (
            config.inter_op_parallelism_threads < 0
            or config.experimental.executor_type == SINGLE_THREADED
        ):
            self.pools.append(self.caller)
        elif config is not None and config.use_per_session_threads:
            self.pools.append(self._own(max(1, inter_op_threads(config))))
        else:
            self.pools.append(global_pool(config))

    def _own(self, num_threads: int, bounded: bool = False) -> ThreadPool:
        name = f"tfjit-inter-op-{self._handle}" if self._handle else "tfjit-inter-op"
        pool = _bounded(num_threads, name) if bounded else ThreadPool(num_threads, name)
        self._owned.append(pool)
        return pool

    def get(self, index: int = 0) -> ThreadPool:
        """Return pool `index` of RunOptions.inter_op_thread_pool.

        Raises InvalidArgumentError when there is none.
        """
        if index == -1:
            return self.caller
        if not 0 <= index < len(self.pools):
            raise errors.InvalidArgumentError(None, None, f"Invalid inter_op_thread_pool: {index}")
        return self.pools[index]

    def close(self) -> None:
        """End the session's own threads (never shared ones)."""
        for pool in self._owned:
            pool.close()
