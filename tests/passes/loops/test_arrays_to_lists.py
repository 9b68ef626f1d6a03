"""Gradients of tensor arrays as lists: when, when not, and that values stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.passes.plan_graphs import ops_of

tf1 = tf.compat.v1

X = np.random.default_rng(3).standard_normal((4, 2, 3)).astype("f4")


@pytest.fixture(autouse=True)
def _v1() -> Any:
    before = tf1.control_flow_v2_enabled()
    tf1.disable_control_flow_v2()
    yield
    if before:
        tf1.enable_control_flow_v2()


def recurrence(x: Any, size: Any) -> Any:
    """Return the states [time, ...] of a loop over the rows of x, by tensor arrays."""
    rows = tf1.TensorArray(tf.float32, size).unstack(x)
    states = tf1.TensorArray(tf.float32, size)

    def step(i: Any, h: Any, states: Any) -> Any:
        h = tf.tanh(rows.read(i) * 0.5 + h)
        return i + 1, h, states.write(i, h)

    start = (tf.constant(0), tf.zeros_like(x[0]), states)
    return tf1.while_loop(lambda i, *_: i < size, step, start)[2].stack()


@pytest.mark.parametrize("length", [4, 1])
@pytest.mark.parametrize("is_trained", [True, False])
def test_the_gradient_of_an_unstacked_input(
    length: int, is_trained: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The handle outside of the loop takes the loop's last flow."""
    monkeypatch.setenv("TFJIT_JIT", "off")
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [None, 2, 3], name="x")
        inner = tf.tanh(x) if is_trained else x
        loss = tf.reduce_sum(tf.square(recurrence(inner, tf.shape(x)[0])))
        fetches = [loss.name, tf1.gradients(loss, x)[0].name]
    with tf1.Session(graph=graph) as theirs, tfjit.Session(graph=graph) as ours:
        for _ in range(2):
            expected = theirs.run(fetches, {"x:0": X[:length]})
            found = ours.run(fetches, {"x:0": X[:length]})
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_allclose(a, b, 1e-5, 1e-6)
        left = {op for op in ops_of(ours) if op.startswith(("TensorList", "TensorArray"))}
    assert not left
