"""Loops with effects: variables, random numbers, queues, Python functions; and
gradients of loops.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tests.programs.loop_programs import numeric, sequences
from tests.programs.loop_programs.program import Inputs, program

tf1 = tf.compat.v1
loop = tf1.while_loop


@program(10, 500, "python", setup=True)
def _count_in_a_variable(x: Inputs, n: int) -> Any:
    v = tf1.get_variable("v", initializer=np.float32(1), use_resource=True)

    def body(i: Any, s: Any) -> Any:
        with tf1.control_dependencies([v.assign_add(0.5)]):
            return i + 1, s + v.read_value()

    return loop(lambda i, s: i < n, body, [0, 0.0], parallel_iterations=1)[1]


@program(10, 500, "python", setup=True, forms=("v1",))
def _count_in_a_reference_variable(x: Inputs, n: int) -> Any:
    v = tf1.get_variable("v", initializer=np.float32(1), use_resource=False)

    def body(i: Any, s: Any) -> Any:
        return i + 1, s + tf1.assign_add(v, tf.cast(i % 3, tf.float32))

    return loop(lambda i, s: i < n, body, [0, 0.0], parallel_iterations=1)[1]


@program(4, 32, "python", setup=True)
def _optimizer_in_a_loop(x: Inputs, n: int) -> Any:
    a, y = x.uniform(4 * n, n), x.uniform(4 * n)
    w = tf1.get_variable("w", initializer=np.zeros([n, 1], np.float32), use_resource=True)

    def body(i: Any, last: Any) -> Any:
        loss = tf.reduce_mean(tf.square(tf.squeeze(tf.matmul(a, w), 1) - y))
        gradient = tf.gradients(loss, w)[0]
        with (
            tf1.control_dependencies([loss]),
            tf1.control_dependencies([w.assign_sub(0.1 * gradient)]),
        ):
            return i + 1, tf.identity(loss)

    return loop(lambda i, _: i < 50, body, [0, 0.0], parallel_iterations=1)[1]


@program(4, 32, setup=True)
def _weights_in_variables(x: Inputs, n: int) -> Any:
    w = tf1.get_variable("w", initializer=np.eye(n, dtype=np.float32) * 0.5, use_resource=True)
    b = tf1.get_variable("b", initializer=np.ones(n, np.float32), use_resource=True)
    return loop(
        lambda i, h: i < 40,
        lambda i, h: (i + 1, tf.tanh(tf.matmul(h, w) + b)),
        [0, x.uniform(4, n)],
    )[1]


@program(10, 300)
def _random_walk_without_state(x: Inputs, n: int) -> Any:
    seed = x.take(np.array([3, 4], np.int32))

    def body(i: Any, at: Any) -> Any:
        return i + 1, at + tf.random.stateless_normal([8], seed + i)

    return loop(lambda i, _: i < n, body, [0, tf.zeros([8])])[1]


@program(10, 300)
def _random_walk(x: Inputs, n: int) -> Any:
    def body(i: Any, at: Any) -> Any:
        return i + 1, at + tf1.random_normal([8], seed=5)

    return loop(lambda i, _: i < n, body, [0, tf.zeros([8])], parallel_iterations=1)[1]


@program(10, 300)
def _area_of_a_circle(x: Inputs, n: int) -> Any:
    def body(i: Any, inside: Any) -> Any:
        p = tf1.random_uniform([64, 2], seed=5)
        return i + 1, inside + tf.reduce_sum(tf.cast(tf.reduce_sum(p * p, 1) < 1.0, tf.float32))

    return loop(lambda i, _: i < n, body, [0, 0.0], parallel_iterations=1)[1]


@program(10, 100)
def _dropout_in_a_loop(x: Inputs, n: int) -> Any:
    w = x.uniform(16, 16, static=True) / 8.0

    def body(i: Any, h: Any) -> Any:
        return i + 1, tf.tanh(tf.matmul(tf1.nn.dropout(h, rate=0.5, seed=3), w))

    return loop(
        lambda i, _: i < n, body, [0, x.uniform(4, 16, static=True)], parallel_iterations=1
    )[1]


@program(5, 50, "python")
def _queue_in_a_loop(x: Inputs, n: int) -> Any:
    queue = tf1.FIFOQueue(n, tf.float32, shapes=[()])
    with tf1.control_dependencies([queue.enqueue_many(x.uniform(n, static=True))]):
        start = tf.constant(0.0)
    return loop(
        lambda i, s: i < n,
        lambda i, s: (i + 1, s + queue.dequeue()),
        [0, start],
        parallel_iterations=1,
    )[1]


@program(5, 50, "python")
def _python_in_a_loop(x: Inputs, n: int) -> Any:
    def body(i: Any, v: Any) -> Any:
        new = tf1.py_func(lambda a: np.sort(a) * np.float32(0.9), [v], tf.float32)
        new.set_shape([8])
        return i + 1, new + 1.0

    return loop(lambda i, v: i < n, body, [0, x.uniform(8, static=True)])[1]


def _gradient(build: Any) -> Any:
    """The gradient of a program's first result by its floating-point inputs."""

    def made(x: Inputs, n: int) -> Any:
        results = build(x, n)
        y = results[0] if isinstance(results, (list, tuple)) else results
        found = tf1.gradients(y, [feed for feed in x.feeds if feed.dtype.is_floating])
        return [g for g in found if g is not None]

    made.__name__ = f"gradient of{build.__name__.replace('_', ' ')}"
    return made


for _build, _small, _middling in (
    (numeric._power_iteration, 8, 64),
    (numeric._heat_by_slices, 8, 64),
    (numeric._lorenz_by_euler, 3, 3),
    (numeric._bodies_that_attract, 3, 24),
    (sequences._recurrent_cell, 8, 100),
    (sequences._gated_recurrent_unit, 8, 50),
    (sequences._scan_of_a_filter, 10, 200),
    (sequences._forward_of_a_markov_chain, 6, 50),
    (sequences._map_of_products, 6, 50),
):
    program(_small, _middling, "python", rtol=1e-3)(_gradient(_build))
