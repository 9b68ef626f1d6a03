"""Small programs with a step of training, loops, tensor arrays."""

from __future__ import annotations

import numpy as np

import tfjit as tf

FEED = {"x:0": np.linspace(-1, 1, 6, dtype=np.float32).reshape(3, 2)}


def training() -> tuple[tf.Graph, list[str]]:
    """Return a step of training: matmul, softmax loss, gradients, updates of variables."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [3, 2], name="x")
        w = tf.Variable(np.ones((2, 2), np.float32), name="w")
        b = tf.Variable(np.zeros(2, np.float32), name="b")
        logits = tf.nn.bias_add(tf.matmul(tf.tanh(tf.identity(x) * 1.0), w), b)
        labels = tf.constant([0, 1, 1])
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        )
        steps = [
            tf.assign_sub(v, 0.5 * g)
            for v, g in zip((w, b), tf.gradients(loss, [w, b]), strict=True)
        ]
        tf.global_variables_initializer()
        return graph, [loss.name, *(step.name for step in steps)]


def loops() -> tuple[tf.Graph, list[str]]:
    """Return a v1 loop with a gradient."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [3, 2], name="x")
        _, last = tf.while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, tf.tanh(h) * x), [0, x])
        (grad,) = tf.gradients(last, [x])
        return graph, [last.name, grad.name]


def arrays() -> tuple[tf.Graph, list[str]]:
    """Return a v1 loop over a tensor array, and a conditional."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [3, 2], name="x")
        rows = tf.TensorArray(tf.float32, 3, element_shape=[3, 2])
        _, last, rows = tf.while_loop(
            lambda i, h, rows: i < 3,
            lambda i, h, rows: (i + 1, tf.matmul(h, h, transpose_b=True) @ x, rows.write(i, h)),
            [0, x, rows],
        )
        total = tf.reduce_sum(rows.stack())
        chosen = tf.cond(total > 0.0, lambda: last * 2.0, lambda: last - 1.0)
        return graph, [chosen.name, total.name]
