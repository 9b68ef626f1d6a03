"""Measure recurrent networks as loops over time.

Both forms of control flow: an LSTM with tensor arrays, and its training step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.scripts.models import weights
from benchmarks.workload import Workload, feeds_of, uniform

UNITS, STEPS, BATCH, INPUTS = 128, 50, 32, 32


def _lstm(tf: Any, variables: bool) -> Any:
    """x [batch, steps, inputs] -> all states [batch, steps, units]."""
    rng = np.random.default_rng(1)
    kernel, bias = weights(rng, INPUTS + UNITS, 4 * UNITS), weights(rng, 4 * UNITS)
    if variables:
        kernel, bias = (
            tf.Variable(tf.constant(value), use_resource=True) for value in (kernel, bias)
        )
    x = tf.transpose(tf.placeholder(tf.float32, [None, None, INPUTS], name="x"), [1, 0, 2])
    count, batch = tf.shape(x)[0], tf.shape(x)[1]
    rows, states = tf.TensorArray(tf.float32, count).unstack(x), tf.TensorArray(tf.float32, count)

    def body(t: Any, c: Any, h: Any, states: Any) -> Any:
        gates = tf.nn.bias_add(tf.matmul(tf.concat([rows.read(t), h], 1), kernel), bias)
        i, j, f, o = tf.split(gates, 4, 1)
        c = tf.sigmoid(f + 1.0) * c + tf.sigmoid(i) * tf.tanh(j)
        h = tf.sigmoid(o) * tf.tanh(c)
        return t + 1, c, h, states.write(t, h)

    zeros = tf.zeros([batch, UNITS])
    states = tf.while_loop(lambda t, *_: t < count, body, [0, zeros, zeros, states])[3]
    return tf.transpose(states.stack(), [1, 0, 2], name="y")


def _in_form(version: int, build: Callable[[Any], None]) -> Callable[[Any], None]:
    """Build with TensorFlow's control flow of that version."""

    def made(tf: Any) -> None:
        before = tf.control_flow_v2_enabled()
        (tf.enable_control_flow_v2 if version == 2 else tf.disable_control_flow_v2)()
        try:
            build(tf)
        finally:
            (tf.enable_control_flow_v2 if before else tf.disable_control_flow_v2)()

    return made


def _inference(tf: Any) -> None:
    _lstm(tf, variables=False)


def _training(tf: Any) -> None:
    loss = tf.reduce_mean(tf.square(_lstm(tf, variables=True) - 0.5), name="loss")
    tf.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")
    tf.variables_initializer(tf.global_variables(), name="init")


def workloads() -> list[Workload]:
    """Return an LSTM and its training step in both forms.

    LSTM of 128 units, 50 steps, batch 32; training with SGD. A native LSTM (PyTorch) takes 0.29 of
    TensorFlow's time.
    """
    feeds = feeds_of(x=uniform([BATCH, STEPS, INPUTS], -1, 1))
    found = []
    for version in (1, 2):
        name = f"LSTM 128 units, 50 steps, batch 32, v{version}"
        found.append(
            Workload(
                name,
                ["y:0"],
                feeds,
                _in_form(version, _inference),
                wanted=1 / 3.4,
                needs_tensorflow=True,
            )
        )
        found.append(
            Workload(
                f"training step, {name}",
                ["loss:0"],
                feeds,
                _in_form(version, _training),
                wanted=0.5,
                targets=["train"],
                setup=["init"],
                steps=4,
                needs_tensorflow=True,
                rtol=1e-3,
            )
        )
    return found
