"""Row-wise reductions: softmax and layer norm."""

from __future__ import annotations

from typing import Any

from benchmarks.workload import Workload, feeds_of, uniform

ROWS, COLUMNS = 4096, 1024


def _softmax(tf: Any) -> None:
    tf.nn.softmax(tf.placeholder(tf.float32, [None, COLUMNS], name="x"), name="y")


def _layer_norm(tf: Any) -> None:
    x = tf.placeholder(tf.float32, [None, COLUMNS], name="x")
    mean = tf.reduce_mean(x, axis=1, keepdims=True)
    centered = x - mean
    variance = tf.reduce_mean(tf.square(centered), axis=1, keepdims=True)
    tf.identity(centered * tf.math.rsqrt(variance + 1e-5) * 1.5 + 0.25, name="y")


def workloads() -> list[Workload]:
    """4096 rows of 1024."""
    moved = 8 * ROWS * COLUMNS
    return [
        Workload("softmax 4096x1024", ["y:0"], feeds_of(x=uniform([ROWS, COLUMNS])), _softmax, bytes_moved=moved),
        Workload("layer norm 4096x1024", ["y:0"], feeds_of(x=uniform([ROWS, COLUMNS])), _layer_norm, bytes_moved=moved),
    ]
