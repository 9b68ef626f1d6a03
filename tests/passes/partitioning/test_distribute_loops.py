"""Loops and branches whose nodes stand on two devices: values and deadness cross through the
rendezvous.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import tfjit

tf1 = tf.compat.v1


@pytest.fixture(scope="module")
def graph() -> tf1.Graph:
    built = tf1.Graph()
    control_flow_v2 = tf1.control_flow_v2_enabled()
    tf1.disable_control_flow_v2()
    with built.as_default():
        x = tf1.placeholder(tf.float32, [3], name="x")
        n = tf1.placeholder(tf.int32, [], name="n")

        def body(i: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            with tf1.device("/device:CPU:1"):
                y = y * 1.5 + tf.cast(i, tf.float32)
            return i + 1, y

        _, y = tf1.while_loop(lambda i, y: i < n, body, [0, x])
        tf.identity(y, name="loop")

        def outer(i: tf.Tensor, z: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            _, inner = tf1.while_loop(
                lambda j, w: j < i, lambda j, w: (j + 1, _far(w) + 1.0), [0, z]
            )
            return i + 1, inner

        _, z = tf1.while_loop(lambda i, z: i < n, outer, [0, x])
        tf.identity(z, name="nested")
        branch = tf1.cond(n > 2, lambda: _far(x) + 1.0, lambda: x - 1.0)
        tf.identity(branch, name="branch")
    if control_flow_v2:
        tf1.enable_control_flow_v2()
    return built


def _far(value: tf.Tensor) -> tf.Tensor:
    with tf1.device("/device:CPU:1"):
        return value * 0.5


@pytest.mark.parametrize("name", ["loop", "nested", "branch"])
@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_values_equal_tensorflows(graph: tf1.Graph, name: str, count: int) -> None:
    feeds = {"x:0": np.array([1, -2, 3], "f4"), "n:0": count}
    config = tf1.ConfigProto(device_count={"CPU": 2})
    with (
        tf1.Session(graph=graph, config=config) as theirs,
        tfjit.Session(graph=graph, config=config) as ours,
    ):
        np.testing.assert_array_equal(ours.run(f"{name}:0", feeds), theirs.run(f"{name}:0", feeds))
