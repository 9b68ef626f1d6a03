"""Steps that are fed and fetched in parts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.distributed.worker.partitions import OneWorker
from tfjit.framework import errors

F = np.float32


@pytest.fixture
def one() -> Iterator[OneWorker]:
    with OneWorker() as made:
        yield made


@pytest.fixture
def graph(one: OneWorker) -> str:
    return one.register(
        one.receive("a"),
        one.receive("b"),
        one.node("s", "AddV2", "a", "b"),
        one.receive("c"),
        one.node("p", "Mul", "s", "c"),
        one.send("o1", "s"),
        one.send("o2", "p"),
    )


def part(
    one: OneWorker, graph: str, step: int, feeds: Any, fetches: Any, last: bool = False
) -> Any:
    return one.run(graph, step, feeds, fetches, is_partial=True, is_last_partial_run=last)


def test_feeds_and_fetches_in_parts(one: OneWorker, graph: str) -> None:
    for step in 1, 2:
        assert part(one, graph, step, {"a:0": F(1)}, []) == []
        assert part(one, graph, step, {"b:0": F(2)}, ["s:0"]) == [3]
        assert part(one, graph, step, {"c:0": F(5)}, ["p:0"], last=True) == [15]
        one.worker.cleanup_graph(step)


def test_a_fetch_waits_for_its_feeds(one: OneWorker, graph: str) -> None:
    outcome: list[Any] = []
    over = threading.Event()

    def done(*answer: Any) -> None:
        outcome.append(answer)
        over.set()

    call = one.call(graph, 1, {"a:0": F(1)}, ["s:0"], is_partial=True)
    one.worker.start_graph(call, done)
    assert not over.wait(0.05)
    part(one, graph, 1, {"b:0": F(2)}, [])
    assert over.wait(60) and list(outcome[0][1].fetches.values()) == [3]


def test_an_error_reaches_all_parts(one: OneWorker, graph: str) -> None:
    part(one, graph, 1, {"a:0": F([1, 2, 3])}, [])
    with pytest.raises(errors.InvalidArgumentError, match="Incompatible shapes"):
        part(one, graph, 1, {"b:0": F([1, 2])}, ["s:0"])
    with pytest.raises(errors.InvalidArgumentError, match="Incompatible shapes"):
        part(one, graph, 1, {"c:0": F(1)}, [], last=True)
    with pytest.raises(errors.InternalError, match="does not match declared"):
        part(one, graph, 2, {"a:0": np.float64(1)}, [])


def test_closing_the_session_ends_a_partial_run(one: OneWorker, graph: str) -> None:
    outcome: list[Any] = []
    over = threading.Event()
    call = one.call(graph, 1, {"a:0": F(1)}, ["s:0"], is_partial=True, is_last_partial_run=True)
    one.worker.start_graph(call, lambda *answer: (outcome.append(answer), over.set()))
    one.worker.delete_worker_session("s")
    assert over.wait(60) and isinstance(outcome[0][0], errors.CancelledError)
