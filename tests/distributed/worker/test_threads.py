"""The growing pool of a worker's threads."""

from __future__ import annotations

import threading

import pytest

from tfjit.distributed.worker.threads import StepThreads
from tfjit.framework import errors


def test_jobs_never_wait_for_each_other() -> None:
    threads = StepThreads("test")
    meet = threading.Barrier(8, timeout=10)
    over = threading.Semaphore(0)

    def job() -> None:
        meet.wait()
        over.release()

    for _ in range(3):
        for _ in range(8):
            threads.submit(job)
        for _ in range(8):
            assert over.acquire(timeout=10)
    assert 8 <= threads.count <= 16
    threads.close()


def test_a_limit_and_an_end() -> None:
    threads = StepThreads("test", limit=1)
    go, began = threading.Event(), threading.Event()

    def job() -> None:
        began.set()
        go.wait(10)

    threads.submit(job)
    assert began.wait(10)
    with pytest.raises(errors.ResourceExhaustedError, match="1 steps at one time"):
        threads.submit(job)
    threads.close()
    go.set()
    with pytest.raises(errors.CancelledError, match="shut down"):
        threads.submit(job)


def test_a_job_that_raises_leaves_the_pool_usable() -> None:
    threads = StepThreads("test")
    over = threading.Event()
    threads.submit(lambda: 1 // 0)
    threads.submit(over.set)
    assert over.wait(10)
    threads.close()
