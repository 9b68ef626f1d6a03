"""Measure the cost of a run with nothing to compute."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from benchmarks.workload import Workload, feeds_of, uniform


def _add(tf: Any) -> None:
    tf.add(
        tf.placeholder(tf.float32, [], name="a"), tf.placeholder(tf.float32, [], name="b"), name="y"
    )


def chain(tf: Any) -> None:
    """Three times tanh, relu, sigmoid, product and sum."""
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
    """Return small workloads.

    Scalar add under three kinds of keys, a 15-op chain on one element, 280 small ops that hardly
    fuse, 50 feeds and fetches.
    """
    scalars = feeds_of(a=uniform([]), b=uniform([]))

    def add(label: str, keys: Literal["strings", "tensors", "tensorflow"]) -> Workload:
        return Workload(
            f"add of two scalars{label}",
            ["y:0"],
            scalars,
            _add,
            reference=lambda f: [np.add(f["a:0"], f["b:0"])],
            wanted=0.03,
            keys=keys,
            callables=not label,
        )

    doubled = dict.fromkeys(
        ("xla", "jax"),
        "its compiler copies each reduced value into both uses, and does not come back",
    )
    wide = feeds_of(**{f"x{i}": uniform([3]) for i in range(50)})
    return [
        add("", "tensors"),
        add(", TensorFlow's tensors as keys", "tensorflow"),
        add(", strings as keys", "strings"),
        Workload(
            "15-op chain, 1 element",
            ["y:0"],
            feeds_of(x=uniform([1])),
            chain,
            wanted=0.035,
            callables=True,
        ),
        Workload(
            "280 small ops",
            ["y:0"],
            feeds_of(x=uniform([4, 6])),
            _small_ops,
            atol=1e-3,
            wanted=0.05,
            callables=True,
            leave_out=doubled,
        ),
        Workload(
            "50 feeds, 50 fetches",
            [f"y{i}:0" for i in range(50)],
            wide,
            _wide,
            wanted=0.035,
            callables=True,
        ),
    ]
