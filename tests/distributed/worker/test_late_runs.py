"""Runs whose tensors are late are checked."""

from __future__ import annotations

import threading
from typing import Any

from tests.waiting import wait_until
from tfjit.distributed.worker import late_runs
from tfjit.distributed.worker.late_runs import LateRuns


class Run:
    """Counts its checks."""

    def __init__(self) -> None:
        self.checks = 0
        self.checked = threading.Event()

    def check(self) -> None:
        """Be checked."""
        self.checks += 1
        self.checked.set()


def test_runs_are_checked_until_they_are_over(monkeypatch: Any) -> None:
    monkeypatch.setattr(late_runs, "LATE_S", 0.005)
    late, run, other = LateRuns(), Run(), Run()
    late.add(run)  # type: ignore[arg-type]
    late.add(other)  # type: ignore[arg-type]
    late.remove(other)  # type: ignore[arg-type]
    wait_until(
        lambda: run.checks
    )  # a check of the other had begun before its removal, or none does
    seen = other.checks
    wait_until(lambda: run.checks > 3)
    late.remove(run)  # type: ignore[arg-type]
    late.remove(run)  # type: ignore[arg-type]
    assert other.checks == seen


def test_the_thread_ends_and_begins_again(monkeypatch: Any) -> None:
    monkeypatch.setattr(late_runs, "LATE_S", 0.001)
    late = LateRuns()
    for _ in range(2):
        run = Run()
        late.add(run)  # type: ignore[arg-type]
        assert run.checked.wait(60)
        late.remove(run)  # type: ignore[arg-type]
        wait_until(lambda: not late._ticks)
