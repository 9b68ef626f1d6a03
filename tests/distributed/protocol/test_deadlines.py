"""Functions that are called at their time."""

from __future__ import annotations

import threading
import time

import pytest

from tfjit.distributed.protocol import deadlines as deadlines_module
from tfjit.distributed.protocol.deadlines import Deadlines


def test_the_earliest_comes_first_and_removed_ones_do_not_come() -> None:
    deadlines, order = Deadlines(), []
    over = threading.Event()
    deadlines.add(0.12, lambda: (order.append("last"), over.set()))
    gone = deadlines.add(0.06, lambda: order.append("removed"))
    deadlines.add(0.03, lambda: order.append("first"))
    deadlines.remove(gone)
    assert over.wait(60) and order == ["first", "last"]
    deadlines.remove(gone)


def test_the_thread_ends_and_starts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines_module, "_IDLE_S", 0.01)
    deadlines = Deadlines()
    for _ in range(2):
        number = deadlines.add(0.05, lambda: None)
        assert deadlines._runs
        deadlines.remove(number)
        end = time.monotonic() + 10
        while deadlines._runs and time.monotonic() < end:
            time.sleep(0.001)
        assert not deadlines._runs
    over = threading.Event()
    deadlines.add(0, over.set)
    assert over.wait(60)
