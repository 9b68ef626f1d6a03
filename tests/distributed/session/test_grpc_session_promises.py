"""Promises of a session on a cluster: tfjit's servers and client beside TensorFlow's."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

import tfjit
from tests.distributed.session import recorded_answers
from tests.distributed.session.promises import (
    CLASSES,
    DIFFERENCES,
    LOST,
    PROMISES,
    WORDS,
    World,
)
from tests.distributed.session.servers import assert_same, outcome, tf1
from tests.distributed.task_processes import tasks
from tests.ports import free_ports

LIBRARIES: Final = {"tfjit": tfjit, "tensorflow": tf1}
_KEPT: Final[list[Any]] = []
SECONDS: Final = 6.0
"""A promise takes one, on a busy machine three."""
RECORDS: Final = 10
"""Attempts to record a step that TensorFlow's servers may lose."""


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


def ask_tensorflow(promise: str, count: int) -> Any:
    """Return TensorFlow's outcome, or None where its servers do not answer soon.

    Now and then a step on TensorFlow's servers never ends, in spite of its time limit; the next
    promise gets new servers.
    """
    found: list[Any] = []
    target = tensorflow_target(count)
    thread = threading.Thread(
        target=lambda: found.append(answer(promise, tf1, target, count)), daemon=True
    )
    thread.start()
    thread.join(SECONDS)
    if found:
        return found[0]
    tensorflow_target.cache_clear()
    return None


def assert_alike(promise: str, count: int, ours: Any, theirs: Any) -> None:
    """Check that answers are the same, but for the words that may differ."""
    if count == 2 and promise in WORDS:
        theirs, ours = with_errors(theirs, cause), with_errors(ours, cause)
    if promise in CLASSES:
        theirs, ours = (with_errors(one, lambda kind, _: kind) for one in (theirs, ours))
    assert_same(ours, theirs)


@functools.cache
def expected(promise: str, count: int, record: bool) -> Any:
    """Return TensorFlow's outcome; the recorded one where its servers may lose the step.

    The record is as true as the servers that answer: an outcome has to be like the recorded one.
    """
    if record:
        for _ in range(RECORDS):
            found = ask_tensorflow(promise, count)
            if found is not None:
                recorded_answers.write(promise, count, found)
                return found
        raise AssertionError(f"TensorFlow's servers have not answered {RECORDS} times")
    known = recorded_answers.read(promise, count)
    if (promise, count) in LOST:
        return known
    found = ask_tensorflow(promise, count)
    if found is None:
        return known
    assert_alike(promise, count, found, known)
    return found


@pytest.mark.parametrize("client", LIBRARIES)
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("promise", PROMISES)
def test_promises(
    tfjit_target: Callable[[int], str], promise: str, count: int, client: str, update_golden: bool
) -> None:
    theirs = expected(promise, count, update_golden)
    ours = answer(promise, LIBRARIES[client], tfjit_target(count), count)
    if (promise, count) in DIFFERENCES:
        with pytest.raises(AssertionError):
            assert_alike(promise, count, ours, theirs)
    else:
        assert_alike(promise, count, ours, theirs)
