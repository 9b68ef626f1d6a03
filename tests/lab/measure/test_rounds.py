"""Rounds: each candidate once, in an order that changes."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from tfjit.lab.measure import rounds
from tfjit.lab.measure.rounds import runs_in, spread, time_rounds


class Clock:
    """A clock that sleeping alone moves: another process of the machine adds nothing."""

    def __init__(self) -> None:
        self._now_ns = 0

    def sleep(self, seconds: float) -> None:
        self._now_ns += int(seconds * 1e9)

    def perf_counter_ns(self) -> int:
        return self._now_ns

    def perf_counter(self) -> float:
        return self._now_ns / 1e9


def test_each_candidate_has_a_block_in_each_round(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks: list[str] = []
    clock = Clock()
    monkeypatch.setattr(rounds, "time", clock)

    def call(name: str, seconds: float) -> None:
        if not blocks or blocks[-1] != name:
            blocks.append(name)
        clock.sleep(seconds)

    calls = {"a": lambda: call("a", 0.0005), "b": lambda: call("b", 0.002)}
    done: list[int] = []
    times = time_rounds(calls, 6, np.random.default_rng(0), 0.002, done.append)
    assert [len(times[name]) for name in "ab"] == [6, 6] and done == [1, 2, 3, 4, 5, 6]
    assert {name: set(found) for name, found in times.items()} == {"a": {500}, "b": {2000}}
    assert gc.isenabled()


def test_an_error_leaves_the_collector_on() -> None:
    with pytest.raises(ZeroDivisionError):
        time_rounds({"a": lambda: 1 // 0}, 2, np.random.default_rng(0))
    assert gc.isenabled()


def test_runs_of_a_block() -> None:
    assert runs_in(0.02, lambda count: count * 1e-3) == 20
    assert runs_in(0.02, lambda count: count * 5.0) == 1
    assert runs_in(0.02, lambda count: count * 5.0, fewest=3) == 3


def test_spread() -> None:
    assert spread([5.0]) == 0.0
    assert spread([1.0, 2.0, 3.0]) == pytest.approx(1.0)
