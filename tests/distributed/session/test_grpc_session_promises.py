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

# (promise, tasks, client) where the answer is another one: the reason.
DIFFERENCES: Final[dict[tuple[str, int, str], str]] = {}


@functools.cache
def tensorflow_target(count: int) -> str:
    ports = free_ports(count)
    addresses = {"worker": [f"localhost:{port}" for port in ports]}
    servers = [
        tf1.train.Server(addresses, job_name="worker", task_index=index) for index in range(count)
    ]
    return (
        str(servers[0].target, "utf-8")
        if isinstance(servers[0].target, bytes)
        else str(servers[0].target)
    )


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
    if (promise, count, client) in DIFFERENCES:
        with pytest.raises(AssertionError):
            assert_same(ours, theirs)
    else:
        assert_same(ours, theirs)
