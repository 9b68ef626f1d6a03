"""Loops that an accelerator may run whole, and reasons against it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tfjit as tf
from tests.simulated_gpu import simulated_gpu
from tfjit.protos import ConfigProto

Cond = Callable[[Any, Any], Any]


@pytest.fixture(autouse=True)
def gpu() -> Iterator[None]:
    with simulated_gpu():
        yield


def step(x: Any) -> Any:
    return tf.nn.softmax(tf.matmul(x, x))


def remark(cond: Cond, body: Callable[[Any, Any], Any]) -> str:
    """Return the remark of `offload_loops` on a loop over a number and a matrix."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [3, 3], name="x")
        with tf.device("/device:GPU:0"):
            fetch = tf.while_loop(cond, body, (tf.constant(0), x))[1]
    with tf.Session(graph=graph, config=ConfigProto(allow_soft_placement=True)) as session:
        session.run(fetch, {x: np.eye(3)})
        text = session.explain(fetch, {x: (3, 3)}).details()
    found = re.search(r"offload_loops: \S+: (.*)", text)
    return found[1] if found else ""


def test_numbers_of_the_host_decide() -> None:
    found = remark(lambda i, x: i < 2, lambda i, x: (i + 1, step(x)))
    assert re.match("runs whole on .*GPU:0", found)


def test_loops_inside() -> None:
    def inside(count: Callable[[Any, Any], Any]) -> str:
        def body(i: Any, x: Any) -> Any:
            inner = tf.while_loop(
                lambda k, _: k < count(i, x), lambda k, x: (k + 1, step(x)), (0, x)
            )
            return i + 1, inner[1]

        return remark(lambda i, _: i < 3, body)

    assert inside(lambda i, _: i).startswith("runs whole")
    found = inside(lambda _, x: tf.cast(tf.reduce_sum(x), tf.int32))
    assert "its condition depends on values of the device" in found


@pytest.mark.parametrize(
    ("cond", "reason"),
    [
        (lambda i, x: tf.reduce_sum(x) < i, "its condition depends on values of the device"),
        (lambda i, x: tf.logical_and(i < 3, x[0, 0] > 0), "its condition depends on values of"),
    ],
)
def test_values_of_the_device_decide(cond: Cond, reason: str) -> None:
    cast: Cond = lambda i, x: cond(tf.cast(i, tf.float32), x)  # noqa: E731
    assert reason in remark(cast, lambda i, x: (i + 1, step(x)))


def test_numbers_that_follow_from_the_device() -> None:
    def body(i: Any, x: Any) -> Any:
        return i + 1 + tf.cast(tf.reduce_max(x), tf.int32), step(x)

    assert "its condition depends on values" in remark(lambda i, _: i < 3, body)


def test_nodes_of_the_host() -> None:
    def host(x: Any) -> Any:
        return tf.reshape(tf.py_func(lambda x: x + 1, [step(x)], tf.float32), [3, 3])

    def inverse(x: Any) -> Any:
        return tf.matrix_inverse(step(x))

    for made, op in ((host, "PyFunc"), (inverse, "MatrixInverse")):
        found = remark(lambda i, _: i < 2, lambda i, x, made=made: (i + 1, made(x)))
        assert re.search(rf"stays a \w+ of the host: '.*' \({op}\) is not computed on", found)


def test_branches_are_the_hosts() -> None:
    def body(i: Any, x: Any) -> Any:
        return i + 1, step(tf.cond(i > 0, lambda: step(x), lambda: x))

    assert re.search(r"\(\w*If\) is not computed on", remark(lambda i, _: i < 3, body))


def test_a_loop_over_little_work_is_one_kernel_of_the_host() -> None:
    assert remark(lambda i, _: i < 3, lambda i, x: (i + 1, tf.tanh(x))) == ""
