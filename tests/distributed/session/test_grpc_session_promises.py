"""Promises of a session on a cluster: tfjit's servers and client beside TensorFlow's."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

import tfjit
from tests.distributed.session.promises import PROMISES, World
from tests.distributed.session.servers import assert_same, free_ports, outcome, tf1
from tests.distributed.task_processes import tasks

LIBRARIES: Final = {"tfjit": tfjit, "tensorflow": tf1}
_KEPT: Final[list[Any]] = []

_FIRST: Final = "which task reports an error of two tasks first, and in which words, is open"
_NAMES: Final = "TensorFlow's message has a node of its partitions, ours the node of the user"
# Promises whose errors have the same classes and other words: the reasons.
WORDS: Final = {
    "callables_of_options_run_and_are_released": "TensorFlow's optimizer exchanges the summands",
    "callables_run_by_position": _FIRST,
    "closing_a_queue_ends_what_waits": _FIRST,
    "isolated_sessions_share_nothing": _FIRST + "; " + _NAMES,
    "reset_clears_containers_and_ends_sessions": _FIRST + "; " + _NAMES,
    "time_limits_end_steps": "the server's words may reach TensorFlow's client before its own",
}
# (promise, tasks) whose answers are others: the reasons.
DIFFERENCES: Final = {
    ("an_extension_that_cannot_be_placed_stays", 1): "a node without a place fails its runs alone",
    ("an_extension_that_cannot_be_placed_stays", 2): "a node without a place fails its runs alone",
    ("a_failure_cancels_what_waits_in_the_step", 2): (
        "a few nodes beside a receive run with those behind it, so that a step has few stages: "
        "their error comes when the tensor does, or with the time limit"
    ),
}


def without_words(answer: Any) -> Any:
    """Return an answer with the classes of its errors alone."""
    if isinstance(answer, tuple) and len(answer) == 2 and all(type(x) is str for x in answer):
        return answer[0]
    if isinstance(answer, (list, tuple)):
        return type(answer)(without_words(item) for item in answer)
    return answer


@functools.cache
def tensorflow_target(count: int) -> str:
    ports = free_ports(count)
    addresses = {"worker": [f"localhost:{port}" for port in ports]}
    servers = [
        tf1.train.Server(addresses, job_name="worker", task_index=index) for index in range(count)
    ]
    _KEPT.extend(servers)
    return str(servers[0].target)


@pytest.fixture(scope="module")
def tfjit_target() -> Iterator[Callable[[int], str]]:
    with tasks("tfjit") as one, tasks("tfjit", "tfjit") as two:
        yield lambda count: (one, two)[count - 1][0].target


def answer(promise: str, library: Any, target: str, count: int) -> Any:
    world = World(library, target, count)
    try:
        with world.graph.as_default():
            return outcome(lambda: PROMISES[promise](world))
    finally:
        world.close()


@functools.cache
def expected(promise: str, count: int) -> Any:
    return answer(promise, tf1, tensorflow_target(count), count)


@pytest.mark.parametrize("client", LIBRARIES)
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("promise", PROMISES)
def test_promises(
    tfjit_target: Callable[[int], str], promise: str, count: int, client: str
) -> None:
    theirs = expected(promise, count)
    ours = answer(promise, LIBRARIES[client], tfjit_target(count), count)
    if promise in WORDS:
        theirs, ours = without_words(theirs), without_words(ours)
    if (promise, count) in DIFFERENCES:
        with pytest.raises(AssertionError):
            assert_same(ours, theirs)
    else:
        assert_same(ours, theirs)


def test_each_exception_is_of_a_promise() -> None:
    assert {*WORDS, *(name for name, _ in DIFFERENCES)} <= set(PROMISES)
