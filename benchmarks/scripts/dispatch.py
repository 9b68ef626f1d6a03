"""What a run costs when there is nothing to compute."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Workload, feeds_of, uniform


def _add(tf: Any) -> None:
    tf.add(tf.placeholder(tf.float32, [], name="a"), tf.placeholder(tf.float32, [], name="b"), name="y")


def _chain(tf: Any) -> None:
    x = tf.placeholder(tf.float32, [None], name="x")
    y = x
    for _ in range(3):
        y = tf.tanh(y)
        y = tf.nn.relu(y)
        y = tf.sigmoid(y)
        y = tf.multiply(y, x)
        y = tf.add(y, x)
    tf.identity(y, name="y")


def _small_ops(tf: Any) -> None:
    y = tf.placeholder(tf.float32, [4, 6], name="x")
    for _ in range(70):
        y = tf.reshape(y, [6, 4])
        y = tf.transpose(y)
        y = tf.add(y, tf.reduce_sum(y, axis=1, keepdims=True))
    tf.identity(y * 1e-30, name="y")


def _wide(tf: Any) -> None:
    for i in range(50):
        tf.add(tf.placeholder(tf.float32, [3], name=f"x{i}"), float(i + 1), name=f"y{i}")


def workloads() -> list[Workload]:
    """Scalar add, a 15-op chain on one element, 280 small ops that hardly fuse, 50 feeds and fetches."""
    return [
        Workload(
            "add of two scalars", ["y:0"], feeds_of(a=uniform([]), b=uniform([])), _add, reference=lambda f: [np.add(f["a:0"], f["b:0"])]
        ),
        Workload("15-op chain, 1 element", ["y:0"], feeds_of(x=uniform([1])), _chain, xla=True),
        Workload("280 small ops", ["y:0"], feeds_of(x=uniform([4, 6])), _small_ops, atol=1e-3),
        Workload("50 feeds, 50 fetches", [f"y{i}:0" for i in range(50)], feeds_of(**{f"x{i}": uniform([3]) for i in range(50)}), _wide),
    ]
