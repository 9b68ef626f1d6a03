"""Thread pools: jobs that are scheduled together run together."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import pytest

from tfjit.runtime.host.inter_op_pool import Slots, ThreadPool
from tfjit.runtime.host.io_pool import IoPool

_PATIENCE_S = 60


def meet(pool: ThreadPool, count: int) -> bool:
    """Schedule `count` jobs that end only when all of them run; say whether they met."""
    barrier = threading.Barrier(count + 1)

    def job() -> None:
        try:
            barrier.wait(_PATIENCE_S)
        except threading.BrokenBarrierError:
            return

    for _ in range(count):
        pool.schedule(job)
    try:
        barrier.wait(_PATIENCE_S)
    except threading.BrokenBarrierError:
        return False
    return True


@pytest.mark.parametrize(
    "make", [lambda: ThreadPool(4), lambda: ThreadPool(4, slots=Slots(4)), lambda: IoPool(4)]
)
def test_as_many_jobs_run_at_once_as_there_are_threads(make: Callable[[], ThreadPool]) -> None:
    pool = make()
    try:
        assert meet(pool, 1)
        while not pool._idle:
            pass
        for _ in range(5):  # a thread is idle, or on its way back
            assert meet(pool, 4)
        assert len(pool._threads) == 4
    finally:
        pool.close()


def test_an_idle_thread_is_used_before_another_is_started() -> None:
    pool = ThreadPool(4)
    try:
        for _ in range(20):
            done = threading.Event()
            pool.schedule(done.set)
            assert done.wait(_PATIENCE_S)
            while pool._idle < len(pool._threads):
                pass
        assert len(pool._threads) == 1
    finally:
        pool.close()


def test_a_map_uses_the_threads_of_its_pool() -> None:
    pool = IoPool(3)
    assert meet(pool, 1)
    while not pool._idle:
        pass
    barrier = threading.Barrier(4)
    try:
        assert sorted(pool.map(lambda item: (barrier.wait(_PATIENCE_S), item)[1], range(4))) == [
            0,
            1,
            2,
            3,
        ]
    finally:
        pool.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_pool_works_in_a_child_that_one_of_its_jobs_forked() -> None:
    pool = ThreadPool(1)
    statuses: list[int] = []
    over = threading.Event()

    def job() -> None:
        child = os.fork()
        if child == 0:
            # The job ends in the child too, and its thread looks for work; another job needs a
            # thread of its own.
            def check() -> None:
                os._exit(0)

            threading.Timer(0.2, pool.schedule, [check]).start()
            threading.Timer(50.0, os._exit, [1]).start()
            return
        statuses.append(os.waitpid(child, 0)[1])
        over.set()

    pool.schedule(job)
    assert over.wait(_PATIENCE_S)
    pool.close()
    assert statuses == [0]
