"""The growing pool of a worker's threads."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from functools import partial

import pytest

from tfjit.distributed.worker.threads import StepThreads, WaitingThread
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


class Value:
    """What a job holds."""


def test_idle_threads_keep_no_values() -> None:
    threads = StepThreads("test")
    for _ in range(2):  # the first job of a thread, and a later one
        value = Value()
        known = weakref.ref(value)
        threads.submit(partial(id, value))
        del value
        until_s = time.monotonic() + 10
        while known() is not None and time.monotonic() < until_s:
            time.sleep(0.002)
        assert known() is None and threads.count == 1
        time.sleep(0.01)  # the thread becomes idle
    threads.close()


def test_a_waiting_thread_does_jobs_until_the_end() -> None:
    others: list[Callable[[], None]] = []
    waiting = WaitingThread(others.append)
    here = threading.get_ident()
    done: list[int] = []

    def last() -> None:
        done.append(threading.get_ident())
        waiting.submit(lambda: None)  # it is busy
        waiting.end()

    threading.Timer(0.02, waiting.submit, (last,)).start()
    waiting.work()
    assert done == [here] and len(others) == 1
    waiting.submit(lambda: None)
    assert len(others) == 2  # it does not wait any more


def test_an_interrupted_thread_leaves_its_jobs_to_others() -> None:
    others: list[Callable[[], None]] = []
    waiting = WaitingThread(others.append)

    def interrupt() -> None:
        with waiting._lock:
            waiting._jobs.put(after)
        raise KeyboardInterrupt

    def after() -> None:
        """Do nothing."""

    def submit() -> None:
        while not waiting._waits:
            time.sleep(0.001)
        waiting.submit(interrupt)

    threading.Thread(target=submit, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        waiting.work()
    assert others == [after]
