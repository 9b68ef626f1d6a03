"""Threads become more as jobs block, and less when they are idle."""

from __future__ import annotations

import threading
import time
import weakref
from functools import partial

import pytest

from tests.waiting import wait_until
from tfjit.framework import errors
from tfjit.runtime.host.growing_pool import GrowingPool


class Jobs:
    """Blocked jobs, and a count of those that are over."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self._over = threading.Semaphore(0)

    def block(self) -> None:
        """Wait until `go` is set."""
        self.go.wait(60)
        self._over.release()

    def quick(self) -> None:
        """Be over at once."""
        self._over.release()

    def wait(self, count: int) -> None:
        """Wait until further `count` jobs are over."""
        for _ in range(count):
            assert self._over.acquire(timeout=60)


def full(count: int) -> Exception:
    return errors.ResourceExhaustedError(None, None, f"{count} jobs run")


def test_blocked_jobs_do_not_stop_others() -> None:
    pool, jobs = GrowingPool("test", 100), Jobs()
    for _ in range(50):
        pool.submit(jobs.block)
    pool.submit(jobs.quick)
    jobs.wait(1)
    assert pool.thread_count == 51
    jobs.go.set()
    jobs.wait(50)


def test_jobs_never_wait_for_each_other() -> None:
    pool, jobs = GrowingPool("test", 100), Jobs()
    meet = threading.Barrier(8, timeout=60)

    def job() -> None:
        meet.wait()
        jobs.quick()

    for _ in range(3):
        for _ in range(8):
            pool.submit(job)
        jobs.wait(8)
    assert 8 <= pool.thread_count <= 16


def test_jobs_one_after_another_share_a_thread() -> None:
    pool, jobs = GrowingPool("test", 100), Jobs()
    for _ in range(100):
        pool.submit(jobs.quick)
        jobs.wait(1)
    assert pool.thread_count <= 3  # a thread becomes free a little after its job is over


def test_idle_threads_end() -> None:
    pool, jobs = GrowingPool("test", 100, idle_s=0.05), Jobs()
    for _ in range(10):
        pool.submit(jobs.block)
    assert pool.thread_count == 10
    jobs.go.set()
    wait_until(lambda: pool.thread_count == 1)
    pool.submit(jobs.quick)
    jobs.wait(11)


def test_at_the_limit_jobs_wait() -> None:
    pool, jobs = GrowingPool("test", 3, idle_s=0.05), Jobs()
    for _ in range(9):
        pool.submit(jobs.block)
    assert pool.thread_count == 3 and pool.busy_count == 9
    jobs.go.set()
    jobs.wait(9)
    wait_until(lambda: pool.thread_count == 1 and pool.busy_count == 0)
    pool.submit(jobs.quick)
    jobs.wait(1)


def test_at_the_limit_jobs_are_refused() -> None:
    pool, jobs = GrowingPool("test", 1, full), Jobs()
    pool.submit(jobs.block)
    with pytest.raises(errors.ResourceExhaustedError, match="1 jobs run"):
        pool.submit(jobs.quick)
    jobs.go.set()
    wait_until(lambda: pool.busy_count == 0)
    pool.submit(jobs.quick)
    jobs.wait(2)


def test_without_another_thread_jobs_wait_or_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    waits, refuses, jobs = GrowingPool("test", 9), GrowingPool("test", 9, full), Jobs()
    for pool in (waits, refuses):
        pool.submit(jobs.block)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    waits.submit(jobs.quick)
    assert waits.thread_count == 1 and waits.busy_count == 2
    with pytest.raises(errors.ResourceExhaustedError, match="1 jobs run"):
        refuses.submit(jobs.quick)
    jobs.go.set()
    jobs.wait(3)


def test_under_load_no_job_is_lost() -> None:
    pool, jobs = GrowingPool("test", 100, idle_s=0.001), Jobs()
    for number in range(2000):
        pool.submit(jobs.quick)
        if number % 100 == 0:
            time.sleep(0.003)  # threads end while jobs come
    jobs.wait(2000)


def test_a_closed_pool_ends_its_threads() -> None:
    pool, jobs = GrowingPool("test", 2), Jobs()
    for _ in range(4):
        pool.submit(jobs.block)
    pool.close("no more")
    with pytest.raises(errors.CancelledError, match="no more"):
        pool.submit(jobs.quick)
    jobs.go.set()
    jobs.wait(4)  # those that waited too
    wait_until(lambda: pool.thread_count == 0)


def test_a_job_that_raises_leaves_the_pool_usable() -> None:
    pool, jobs = GrowingPool("test", 1), Jobs()
    pool.submit(lambda: 1 // 0)
    pool.submit(jobs.quick)
    jobs.wait(1)


class Value:
    """What a job holds."""


def test_idle_threads_keep_no_values() -> None:
    pool = GrowingPool("test", 9)
    for _ in range(2):  # the first job of a thread, and a later one
        value = Value()
        known = weakref.ref(value)
        pool.submit(partial(id, value))
        del value
        wait_until(lambda known=known: known() is None)
        wait_until(lambda: pool.busy_count == 0)
        assert pool.thread_count == 1
