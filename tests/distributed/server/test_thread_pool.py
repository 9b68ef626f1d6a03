"""Jobs of a server's pool give futures."""

from __future__ import annotations

import threading

from tfjit.distributed.server.thread_pool import ThreadPool


def test_jobs_give_their_results() -> None:
    pool = ThreadPool("test")
    go = threading.Event()
    blocked = [pool.submit(go.wait, timeout=60) for _ in range(50)]
    assert pool.submit(divmod, 7, 5).result(60) == (1, 2)
    assert pool.busy_count >= 50
    go.set()
    assert all(future.result(60) for future in blocked)


def test_at_the_limit_jobs_wait() -> None:
    pool = ThreadPool("test", most=3)
    go = threading.Event()
    jobs = [pool.submit(go.wait, 10) for _ in range(9)]
    assert pool.busy_count == 9
    go.set()
    assert all(job.result(60) for job in jobs)


def test_errors_of_jobs_are_kept() -> None:
    pool = ThreadPool("test")

    def fail() -> None:
        raise SystemExit(3)

    assert isinstance(pool.submit(fail).exception(10), SystemExit)
    assert pool.submit(lambda: 5).result(60) == 5
