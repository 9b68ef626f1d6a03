"""Promises of a session on a cluster: tfjit's servers and client beside TensorFlow's."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

import tfjit
from tests.distributed.session.promises import CLASSES, DIFFERENCES, PROMISES, WORDS, World
from tests.distributed.session.servers import assert_same, outcome, tf1
from tests.distributed.task_processes import tasks
from tests.ports import free_ports

LIBRARIES: Final = {"tfjit": tfjit, "tensorflow": tf1}
_KEPT: Final[list[Any]] = []
SECONDS: Final = 40.0


def with_errors(answer: Any, change: Callable[[str, str], Any]) -> Any:
    """Return an answer with each error, (class, message), changed by a function."""
    if isinstance(answer, tuple) and len(answer) == 2 and all(type(x) is str for x in answer):
        return change(*answer)
    if isinstance(answer, (list, tuple)):
        return type(answer)(with_errors(item, change) for item in answer)
    return answer


def cause(kind: str, message: str) -> tuple[str, str]:
    """Return an error without its task, and without its way from there to the client.

    Of several errors the first one counts. TensorFlow names a node of a partition, "v_S3".
    """
    text = re.sub(r"^(=+\n[A-Z_]+: )?From /job:\S+:\n", "", message)
    text = re.split(r"\nAdditional GRPC error|\n[A-Z_]+: From /job|\n=====", text)[0]
    return kind, re.sub(r"(\{\{node [^}]*?)_S\d+\}\}", r"\1}}", text)


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
    """TensorFlow's outcome; of new servers where these do not answer.

    Now and then a step on TensorFlow's servers never ends, in spite of its time limit.
    """
    for _ in range(3):
        found: list[Any] = []

        def ask(found: list[Any] = found) -> None:
            found.append(answer(promise, tf1, tensorflow_target(count), count))

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(SECONDS)
        if found:
            return found[0]
        tensorflow_target.cache_clear()
    raise AssertionError(f"TensorFlow's servers have not answered in {SECONDS} s, three times")


@pytest.mark.parametrize("client", LIBRARIES)
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("promise", PROMISES)
def test_promises(
    tfjit_target: Callable[[int], str], promise: str, count: int, client: str
) -> None:
    theirs = expected(promise, count)
    ours = answer(promise, LIBRARIES[client], tfjit_target(count), count)
    if count == 2 and promise in WORDS:
        theirs, ours = with_errors(theirs, cause), with_errors(ours, cause)
    if promise in CLASSES:
        theirs, ours = (with_errors(one, lambda kind, _: kind) for one in (theirs, ours))
    if (promise, count) in DIFFERENCES:
        with pytest.raises(AssertionError):
            assert_same(ours, theirs)
    else:
        assert_same(ours, theirs)
