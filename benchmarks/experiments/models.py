"""Give the experiments their graphs: the models in the tree, and small ones of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tfjit
import tfjit as tf

_ROOT = Path(tfjit.__file__).resolve().parent
DIGITS = _ROOT / "demo" / "digits_cnn.pb"
_DATA = _ROOT.parent / "tests" / "data"
DIGITS_TRAINING = _DATA / "digits_train.pb"
LSTM = _DATA / "lstm_v1_loop.pb"
MOBILENET = _DATA / "mobilenet_v2.pb"


def elementwise_chain(length: int) -> tuple[Any, str, str]:
    """Return a graph of alternating products, sums and ReLUs; its feed and its fetch."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None], name="x")
        y = x
        for k in range(length):
            y = (y * 1.01, y + 0.1, tf.nn.relu(y))[k % 3]
        y = tf.identity(y, name="y")
    return graph, x.name, y.name


def deep_network(layers: int, width: int = 160) -> tuple[Any, str, str, str]:
    """Return a graph that trains dense layers by Adam; feed, fetch and initializer.

    Each layer has two variables of `width` x `width` and `width` elements.
    """
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [8, width], name="x")
        y = x
        for k in range(layers):
            with tf.variable_scope(f"layer{k}"):
                w = tf.get_variable(
                    "w", [width, width], initializer=tf.random_normal_initializer(0, 0.2, seed=k)
                )
                b = tf.get_variable("b", [width], initializer=tf.zeros_initializer())
                y = tf.tanh(tf.matmul(y, w) + b)
        loss = tf.reduce_mean(tf.square(y - x), name="loss")
        train = tf.train.AdamOptimizer(0.001).minimize(loss)
        with tf.control_dependencies([train]):
            step = tf.identity(loss, name="step")
        init = tf.global_variables_initializer()
    return graph, x.name, step.name, init.name


def product_of_three(rows: int) -> tuple[Any, str, str]:
    """Return (a @ b) @ v for matrices a and b and a fed vector v; its feed and its fetch."""
    with tf.Graph().as_default() as graph:
        v = tf.placeholder(tf.float32, [rows, 1], name="v")
        a = tf.placeholder(tf.float32, [rows, rows], name="a")
        b = tf.placeholder(tf.float32, [rows, rows], name="b")
        y = tf.identity(tf.matmul(tf.matmul(a, b), v), name="y")
    return graph, v.name, y.name


__all__ = [
    "DIGITS",
    "DIGITS_TRAINING",
    "LSTM",
    "MOBILENET",
    "deep_network",
    "elementwise_chain",
    "product_of_three",
]
