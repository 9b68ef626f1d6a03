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


def sizes_and_devices(named: str) -> str:
    """Return the remark on a loop of version 2 whose body asks for a size.

    named: the device that the body's product names, "" for none.
    """

    def body(i: Any, x: Any) -> Any:
        with tf.device(named or None):
            product = tf.matmul(x, x)
        return i + 1, product * tf.cast(tf.shape(x)[0], tf.float32)

    tf.enable_control_flow_v2()
    try:
        return remark(lambda i, x: i < 2, body)
    finally:
        tf.disable_control_flow_v2()


def test_nodes_of_a_body_are_on_the_loops_device() -> None:
    """A size in the body is a number once the loop's shapes are known."""
    assert re.match("runs whole on .*GPU:0", sizes_and_devices(""))


def test_a_node_of_a_body_that_names_the_host() -> None:
    found = sizes_and_devices("/device:CPU:0")
    assert found.startswith("stays a StatelessWhile of the host") and "MatMul" in found


@pytest.mark.parametrize("second", [False, True])
def test_control_flow_is_placed_without_soft_placement(second: bool) -> None:
    (tf.enable_control_flow_v2 if second else tf.disable_control_flow_v2)()
    try:
        with tf.Graph().as_default() as graph, tf.device("/device:GPU:0"):
            x = tf.placeholder(tf.float32, [2, 3])
            y = tf.cond(tf.reduce_sum(x) > 0, lambda: tf.map_fn(tf.tanh, x), lambda: x)
            z = tf.while_loop(lambda i, _: i < 3, lambda i, v: (i + 1, 2 * v), (0, y))[1]
        with tf.Session(graph=graph) as session:
            found = session.run(z, {x: np.ones((2, 3))})
    finally:
        tf.disable_control_flow_v2()
    np.testing.assert_allclose(found, 8 * np.tanh(np.ones((2, 3))), rtol=1e-6)
