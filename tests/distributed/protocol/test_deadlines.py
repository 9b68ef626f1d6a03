"""Functions that are called at their time."""

from __future__ import annotations

import threading

import pytest

from tests.waiting import wait_until
from tfjit.distributed.protocol import deadlines as deadlines_module
from tfjit.distributed.protocol.deadlines import Deadlines


def test_the_earliest_comes_first_and_removed_ones_do_not_come() -> None:
    deadlines, order = Deadlines(), []
    over = threading.Event()
    deadlines.add(0.6, lambda: (order.append("last"), over.set()))
    gone = deadlines.add(0.5, lambda: order.append("removed"))
    deadlines.add(0.03, lambda: order.append("first"))
    deadlines.remove(gone)
    assert over.wait(60) and order == ["first", "last"]
    deadlines.remove(gone)


def test_the_thread_ends_and_starts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines_module, "_IDLE_S", 0.01)
    deadlines = Deadlines()
    for _ in range(2):
        number = deadlines.add(2, lambda: None)  # the thread may sleep until then
        assert deadlines._runs
        deadlines.remove(number)
        wait_until(lambda: not deadlines._runs)
    over = threading.Event()
    deadlines.add(0, over.set)
    assert over.wait(60)
