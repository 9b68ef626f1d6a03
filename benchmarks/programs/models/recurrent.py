"""Define networks that predict the next character.

Unrolled, and as a loop of the graph.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.programs.models.layers import clipped, generator, session


class _Cell:
    """A long short-term memory cell; its state is a pair (c, h)."""

    def __init__(self, tf: Any, inputs: int, units: int, name: str) -> None:
        self.tf, self.units = tf, units
        with tf.variable_scope(name):
            self.kernel = tf.get_variable("kernel", [inputs + units, 4 * units])
            self.bias = tf.get_variable("bias", [4 * units], initializer=tf.zeros_initializer())

    def __call__(self, x: Any, state: tuple[Any, Any]) -> tuple[Any, tuple[Any, Any]]:
        """Return (output, new state)."""
        tf = self.tf
        c, h = state
        gates = tf.nn.bias_add(tf.matmul(tf.concat([x, h], 1), self.kernel), self.bias)
        i, j, f, o = tf.split(gates, 4, axis=1)
        c = c * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
        h = tf.tanh(c) * tf.sigmoid(o)
        return h, (c, h)


def _unrolled(tf: Any, cells: list[_Cell], x: Any, state: list[Any], length: int) -> Any:
    """Return (outputs [batch, time, units], last state).

    Each step has a copy of the cells.
    """
    outputs = []
    for y in tf.unstack(x, length, axis=1):
        new = []
        for cell, old in zip(cells, state):
            y, kept = cell(y, old)
            new.append(kept)
        state = new
        outputs.append(y)
    return tf.stack(outputs, axis=1), state


def _looped(tf: Any, cells: list[_Cell], x: Any, state: list[Any], length: int) -> Any:
    """Return the same by a while loop over tensor arrays."""
    steps = tf.shape(x)[1]
    inputs = tf.TensorArray(tf.float32, steps).unstack(tf.transpose(x, [1, 0, 2]))
    outputs = tf.TensorArray(tf.float32, steps)

    def body(time: Any, outputs: Any, *flat: Any) -> tuple[Any, ...]:
        y = inputs.read(time)
        y.set_shape([x.shape[0], x.shape[2]])
        new: list[Any] = []
        for k, cell in enumerate(cells):
            y, kept = cell(y, (flat[2 * k], flat[2 * k + 1]))
            new += kept
        return time + 1, outputs.write(time, y), *new

    flat = [part for pair in state for part in pair]
    _, outputs, *last = tf.while_loop(
        lambda time, *_: time < steps, body, (tf.constant(0), outputs, *flat)
    )
    y = tf.transpose(outputs.stack(), [1, 0, 2])
    y.set_shape([x.shape[0], None, cells[-1].units])
    return y, [(last[2 * k], last[2 * k + 1]) for k in range(len(cells))]


def characters(
    tf: Any,
    recorder: Any,
    threads: int,
    *,
    loop: bool = False,
    units: int = 128,
    layers: int = 2,
    letters: int = 65,
    batch: int = 50,
    length: int = 50,
) -> None:
    """Train a network that predicts characters.

    Its state goes from batch to batch.
    """
    shape = [batch, None if loop else length]
    inputs = tf.placeholder(tf.int32, shape, name="inputs")
    targets = tf.placeholder(tf.int32, shape, name="targets")
    table = tf.get_variable("letters", [letters, units])
    cells = [_Cell(tf, units, units, f"cell_{k}") for k in range(layers)]
    state = [
        tuple(tf.placeholder(tf.float32, [batch, units], name=f"{part}_{k}") for part in "ch")
        for k in range(layers)
    ]
    unroll = _looped if loop else _unrolled
    y, last = unroll(tf, cells, tf.nn.embedding_lookup(table, inputs), state, length)
    weights = tf.get_variable("softmax", [units, letters])
    bias = tf.get_variable("softmax_bias", [letters], initializer=tf.zeros_initializer())
    logits = tf.matmul(tf.reshape(y, [-1, units]), weights) + bias
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=tf.reshape(targets, [-1]), logits=logits
        )
    )
    train = clipped(tf, tf.train.AdamOptimizer(2e-3), loss, 5.0)
    rng = generator(8)
    text = np.cumsum(rng.integers(0, 3, [batch, 200 * length + 1]), 1) % letters
    values = [tuple(np.zeros([batch, units], np.float32) for _ in "ch")] * layers
    with session(tf, recorder, threads) as run:
        run.run(tf.global_variables_initializer())
        for step in recorder.steps():
            begin = step % 200 * length
            feed = {
                inputs: text[:, begin : begin + length],
                targets: text[:, begin + 1 : begin + length + 1],
            }
            for holders, arrays in zip(state, values):
                feed |= dict(zip(holders, arrays))
            value, values, _ = run.run([loss, last, train], feed)
            recorder.output(value)
