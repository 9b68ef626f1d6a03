"""Collectives of several devices of one session against TensorFlow's."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.ops import collective_ops

import tfjit
from tests.collective_graphs import (
    broadcast,
    gather,
    imported,
    on,
    outcome,
    reduce,
    reduce_v2,
    sessions,
)
from tests.waiting import is_blocked

tf1 = tf.compat.v1
RNG = np.random.default_rng(0)


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def drawn(shape: tuple[int, ...], count: int, dtype: str = "float32") -> list[np.ndarray]:
    return [RNG.normal(0, 8, shape).astype(dtype) for _ in range(count)]


CASES: dict[str, tuple[Callable[[], Any], int]] = {
    "add": (lambda: reduce(drawn((5, 3), 2)), 2),
    "three members": (lambda: reduce(drawn((50, 3), 3)), 3),
    "a scalar": (lambda: reduce([np.float32(3), np.float32(4)]), 2),
    "no elements": (lambda: reduce(drawn((0, 3), 2)), 2),
    "one member": (lambda: reduce(drawn((4,), 1), final="Div"), 1),
    "mean": (lambda: reduce(drawn((7,), 3), final="Div"), 3),
    "mean of integers": (
        lambda: reduce([np.int32([-1, -2, 7]), np.int32([-4, 5, 6])], "Add", "Div"),
        2,
    ),
    "product": (lambda: reduce(drawn((4,), 3, "float64"), "Mul"), 3),
    "largest": (lambda: reduce([floats(np.nan, 1, -0.0), floats(2, np.nan, 0.0)], "Max"), 2),
    "least": (lambda: reduce([np.int64([1, -5]), np.int64([0, 9])], "Min"), 2),
    "overflow": (lambda: reduce([np.int32([2**31 - 1]), np.int32([1])]), 2),
    "half": (lambda: reduce(drawn((33,), 3, "float16"), final="Div"), 3),
    "bfloat16": (lambda: reduce(drawn((33,), 3, tf.bfloat16.as_numpy_dtype)), 3),
    "whole alignments": (lambda: reduce(drawn((64,), 2)), 2),
    "several rings": (lambda: reduce(drawn((100,), 3), subdiv_offsets=(0, 1, -1)), 3),
    "default rings": (lambda: reduce(drawn((9,), 2), subdiv_offsets=()), 2),
    "keys as tensors": (lambda: reduce_v2(drawn((5,), 2), "Max", "Div"), 2),
    "gather": (lambda: gather(drawn((2, 3), 3)), 3),
    "gather, keys as tensors": (lambda: gather(drawn((2,), 2, "int64"), 2), 2),
    "broadcast": (lambda: broadcast(drawn((2, 3), 1)[0], 4, 0), 4),
    "broadcast of the last": (lambda: broadcast(drawn((2, 3), 1)[0], 5, 4), 5),
    "broadcast of the second": (lambda: broadcast(np.array([True, False]), 3, 1, 2), 3),
}


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    build, devices = CASES[name]
    with sessions(build, devices) as (theirs, ours, fetches):
        for _ in range(2):
            expected, found = theirs.run(fetches), ours.run(fetches)
            for ours_one, theirs_one in zip(found, expected, strict=True):
                assert ours_one.dtype == theirs_one.dtype
                np.testing.assert_array_equal(ours_one, theirs_one)


def other_sizes() -> list[Any]:
    return reduce([floats(1)], size=2) + with_other(3)


def with_other(size: int) -> list[Any]:
    with on(1):
        return [collective_ops.all_reduce(tf1.constant(floats(1)), size, 1, 1, "Add", "Id", (0,))]


def two_on_one_device() -> list[Any]:
    with on(0):
        x = tf1.constant(floats(1))
        return [
            collective_ops.all_reduce(x, 2, 1, 1, "Add", "Id", (0,), timeout=0.2) for _ in range(2)
        ]


def broadcasts(sends: tuple[bool, bool], shapes: tuple[int, int] = (3, 3)) -> list[Any]:
    made = []
    for number, (is_source, size) in enumerate(zip(sends, shapes, strict=True)):
        with on(number):
            if is_source:
                x = tf1.zeros([size])
                made.append(collective_ops.broadcast_send(x, [size], x.dtype, 2, 1, 1))
            else:
                made.append(collective_ops.broadcast_recv([size], tf.float32, 2, 1, 1))
    return made


FAILURES: dict[str, tuple[Callable[[], Any], str]] = {
    "shapes": (lambda: reduce([floats(1, 2), floats(1)]), "Shape mismatch"),
    "shapes of a gather": (lambda: gather([floats(1, 2), floats(1)]), "Shape mismatch"),
    "dtypes": (lambda: reduce([floats(1), np.int32([1])]), "expected type 0 and data_type"),
    "sizes of the group": (other_sizes, "is joining a group with size"),
    "nobody comes": (lambda: reduce([floats(1)], size=2, timeout=0.2), "timed out waiting"),
    "two of one device": (two_on_one_device, "timed out waiting"),
    "no source": (lambda: broadcasts((False, False)), "no source for broadcast"),
    "two sources": (lambda: broadcasts((True, True)), "already has source"),
    "another shape than the source": (lambda: broadcasts((True, False), (3, 4)), "Shape mismatch"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_errors(name: str) -> None:
    build, text = FAILURES[name]
    with sessions(build) as (theirs, ours, fetches):
        kind, said = outcome(theirs, fetches)
        assert kind and text in said
        assert outcome(ours, fetches)[0] == kind
        kind, said = outcome(ours, fetches)  # the groups stay aborted
        assert "The error could be from a previous operation" in said


def test_text_of_an_error() -> None:
    with sessions(FAILURES["shapes"][0]) as (theirs, ours, fetches):
        texts = []
        for session in (theirs, ours):
            text = outcome(session, fetches)[1]
            found = re.search(r"Collective ops is aborted by: (.|\n)*?to reset\.", text)
            assert found is not None
            # either member may be the one that comes second
            texts.append(re.sub(r"CPU:\d|\[\d\]", "", found[0]))
        assert texts[0] == texts[1]


def test_nodes_that_know_their_group_go_on_after_an_error() -> None:
    def build() -> list[Any]:
        made = reduce([floats(1), floats(2)])
        with on(2):
            x = tf1.constant(floats(1))
            return [*made, collective_ops.all_reduce(x, 2, 1, 1, "Add", "Id", (0,))]

    with sessions(build, 3) as (theirs, ours, fetches):
        for session in (theirs, ours):
            assert session.run(fetches[:2]) == [[3], [3]]
            kind, text = outcome(session, fetches)
            assert kind == "InternalError" and "is joining a group that is already full" in text
            assert session.run(fetches[:2]) == [[3], [3]]


def test_a_time_limit_of_the_run_ends_the_wait() -> None:
    with sessions(lambda: reduce([floats(1)], size=2)) as (theirs, ours, fetches):
        for session in (theirs, ours):
            assert outcome(session, fetches, timeout_in_ms=150)[0] == "DeadlineExceededError"
            kind, text = outcome(session, fetches)
            assert kind == "CancelledError" and "op cancelled" in text


def test_a_key_of_the_run_options_changes_nothing() -> None:
    with sessions(lambda: reduce([floats(1), floats(2)])) as (theirs, ours, fetches):
        for session in (theirs, ours):
            options: dict[str, Any] = {"experimental": {"collective_graph_key": 7}}
            assert outcome(session, fetches, **options) == ("", [[3], [3]])


def test_groups_are_assigned_by_device() -> None:
    def build() -> list[Any]:
        groups = tf1.constant([[0, 1], [2, 3]])
        return [
            value
            for device in range(4)
            for value in collective_ops.assign_group_v2(groups, device, 5)
        ]

    with sessions(build, 1) as (theirs, ours, fetches):
        assert ours.run(fetches) == theirs.run(fetches) == [2, 5, 2, 5, 2, 6, 2, 6]
    for device, base in ((4, 5), (2, -1)):
        with sessions(
            lambda d=device, b=base: collective_ops.assign_group_v2([[0, 1], [2, 3]], d, b)
        ) as both:
            theirs, ours, fetches = both
            assert (
                outcome(ours, fetches)[0] == outcome(theirs, fetches)[0] == "InvalidArgumentError"
            )


def test_a_collective_between_compiled_stages() -> None:
    """A training step of two replicas, whose gradients are averaged, as it is without them."""
    data = RNG.normal(size=(2, 8, 4)).astype(np.float32)

    def build(replicas: int) -> tuple[list[Any], Any, Any]:
        updates = []
        for replica in range(replicas):
            with on(replica):
                w = tf1.get_variable(f"w{replica}", initializer=np.ones((4, 2), np.float32))
                b = tf1.get_variable(f"b{replica}", initializer=np.zeros(2, np.float32))
                x = data[replica] if replicas == 2 else data.reshape(16, 4)
                loss = tf.reduce_mean(tf.square(tf.tanh(tf.matmul(x, w) + b) - 0.5))
                for key, v in enumerate((w, b)):
                    (gradient,) = tf1.gradients(loss, v)
                    if replicas == 2:
                        gradient = collective_ops.all_reduce(
                            gradient, 2, 1, key, "Add", "Div", (0,)
                        )
                    updates.append(tf1.assign_sub(v, 0.5 * gradient))
        with tf1.control_dependencies([tf.convert_to_tensor(one) for one in updates]):
            done = tf1.no_op()
        return [w.value(), b.value()], done, tf1.global_variables_initializer()

    results = []
    for replicas in (2, 1):
        with tf1.Graph().as_default() as graph:
            fetches, train, init = build(replicas)
        config = tfjit.ConfigProto(device_count={"CPU": 2})
        with tfjit.Session(graph=imported(graph), config=config) as session:
            session.run(init.name)
            for _ in range(3):
                session.run(train.name)
            results.append(session.run([fetch.name for fetch in fetches]))
    for two, one in zip(*results, strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-5)


def test_closing_the_session_ends_the_wait() -> None:
    with tf1.Graph().as_default() as graph:
        (fetch,) = reduce([floats(1)], size=2)
    session = tfjit.Session(graph=imported(graph))
    said: list[Any] = []

    def run() -> None:
        said.append(outcome(session, fetch.name)[0])

    thread = threading.Thread(target=run)
    thread.start()
    assert is_blocked(thread)
    session.close()
    thread.join(60)
    assert said == ["CancelledError"]
