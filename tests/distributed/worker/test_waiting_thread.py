"""A thread that waits for a run does its jobs."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from tests.waiting import wait_until
from tfjit.distributed.worker.waiting_thread import WaitingThread


def test_a_waiting_thread_does_jobs_until_the_end() -> None:
    others: list[Callable[[], None]] = []
    waiting = WaitingThread(others.append)
    here = threading.get_ident()
    done: list[int] = []

    def last() -> None:
        done.append(threading.get_ident())
        waiting.submit(lambda: None)  # it is busy
        waiting.end()

    def submit() -> None:
        wait_until(lambda: waiting._waits)
        waiting.submit(last)

    threading.Thread(target=submit, daemon=True).start()
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
        wait_until(lambda: waiting._waits)
        waiting.submit(interrupt)

    threading.Thread(target=submit, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        waiting.work()
    assert others == [after]
