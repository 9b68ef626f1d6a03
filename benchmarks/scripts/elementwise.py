"""Chains of elementwise ops: memory-bound and compute-bound."""

from __future__ import annotations

from typing import Any

from benchmarks.workload import Workload, feeds_of, uniform


def _light(tf: Any) -> None:
    x = tf.placeholder(tf.float32, [None], name="x")
    y = x
    for i in range(3):
        y = tf.multiply(y, 1.1 + i)
        y = tf.add(y, 0.3)
        y = tf.nn.relu(y)
    tf.add(y, x, name="y")


def _heavy(tf: Any) -> None:
    x = tf.placeholder(tf.float32, [None], name="x")
    y = x
    for _ in range(3):
        y = tf.tanh(y)
        y = tf.nn.relu(y)
        y = tf.sigmoid(y)
        y = tf.multiply(y, x)
        y = tf.add(y, x)
    tf.identity(y, name="y")


def _gelu(tf: Any) -> None:
    x = tf.placeholder(tf.float32, [None], name="x")
    tf.multiply(0.5 * x, 1.0 + tf.math.erf(x * 0.7071067811865476), name="y")


def _explog(tf: Any) -> None:
    x = tf.placeholder(tf.float32, [None], name="x")
    y = x
    for _ in range(4):
        y = tf.math.log(tf.exp(y) + 1.0)
    tf.identity(y, name="y")


def workloads() -> list[Workload]:
    """The chains at several sizes."""
    found = []
    for size, label in ((100_000, "1e5"), (1_000_000, "1e6"), (10_000_000, "1e7")):
        found.append(
            Workload(f"10-op mul/add/relu chain, {label}", ["y:0"], feeds_of(x=uniform([size])), _light, bytes_moved=8 * size, xla=size < 1e7)
        )
    size = 1_000_000
    found.append(Workload("15-op tanh/sigmoid chain, 1e6", ["y:0"], feeds_of(x=uniform([size])), _heavy, bytes_moved=8 * size, xla=True))
    found.append(Workload("gelu(erf), 1e6", ["y:0"], feeds_of(x=uniform([size])), _gelu, bytes_moved=8 * size))
    found.append(Workload("exp/log chain, 1e6", ["y:0"], feeds_of(x=uniform([size])), _explog, bytes_moved=8 * size))
    return found
