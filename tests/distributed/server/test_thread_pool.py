"""Threads become more as jobs block, and less when they are idle."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from tfjit.distributed.server.thread_pool import ThreadPool


def wait_for(is_so: Callable[[], bool], seconds: float = 10.0) -> None:
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.005)


def test_blocked_jobs_do_not_stop_others() -> None:
    pool = ThreadPool("test")
    go = threading.Event()
    blocked = [pool.submit(go.wait, 10) for _ in range(50)]
    assert pool.submit(lambda: 5).result(10) == 5
    assert pool.thread_count >= 50
    go.set()
    assert all(future.result(10) for future in blocked)


def test_jobs_one_after_another_share_a_thread() -> None:
    pool = ThreadPool("test")
    for number in range(100):
        assert pool.submit(lambda n=number: n).result(10) == number
    assert pool.thread_count <= 3  # a thread becomes free a little after its result is there


def test_idle_threads_end() -> None:
    pool = ThreadPool("test", idle_s=0.05)
    go = threading.Event()
    for _ in range(10):
        pool.submit(go.wait, 10)
    assert pool.thread_count >= 10
    go.set()
    wait_for(lambda: pool.thread_count == 1)
    assert pool.submit(lambda: 5).result(10) == 5


def test_at_the_limit_jobs_wait() -> None:
    pool = ThreadPool("test", most=3, idle_s=0.05)
    go = threading.Event()
    jobs = [pool.submit(go.wait, 10) for _ in range(9)]
    assert pool.thread_count == 3
    go.set()
    assert all(job.result(10) for job in jobs)
    wait_for(lambda: pool.thread_count == 1)
    assert pool.submit(lambda: 5).result(10) == 5


def test_without_another_thread_jobs_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = ThreadPool("test")
    go = threading.Event()
    first = pool.submit(go.wait, 10)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    second = pool.submit(lambda: 5)
    assert pool.thread_count == 1 and not second.done()
    go.set()
    assert first.result(10) and second.result(10) == 5


def test_errors_of_jobs_are_kept() -> None:
    pool = ThreadPool("test")

    def fail() -> None:
        raise SystemExit(3)

    assert isinstance(pool.submit(fail).exception(10), SystemExit)
    assert pool.submit(lambda: 5).result(10) == 5


def test_under_load_no_job_is_lost() -> None:
    pool = ThreadPool("test", idle_s=0.001)
    futures = []
    for number in range(2000):
        futures.append(pool.submit(lambda n=number: n))
        if number % 100 == 0:
            time.sleep(0.003)  # threads end while jobs come
    assert [future.result(10) for future in futures] == list(range(2000))
