"""Row-wise reductions: softmax and layer norm."""

from __future__ import annotations

from typing import Any

import numpy as np

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


def _logsumexp(tf: Any) -> None:
    tf.identity(tf.reduce_logsumexp(tf.placeholder(tf.float32, [None, COLUMNS], name="x"), axis=1), name="y")


def _cross_entropy(tf: Any) -> None:
    x = tf.placeholder(tf.float32, [None, COLUMNS], name="x")
    labels = tf.placeholder(tf.int32, [None], name="labels")
    tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=x, name="y")


def _variance(tf: Any) -> None:
    x = tf.placeholder(tf.float32, [None, COLUMNS], name="x")
    mean = tf.reduce_mean(x, axis=0, keepdims=True)
    tf.reduce_mean(tf.math.squared_difference(x, mean), axis=0, name="y")


def _mean(tf: Any) -> None:
    tf.reduce_mean(tf.placeholder(tf.float32, [None, COLUMNS], name="x"), name="y")


def _labels(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, COLUMNS, ROWS).astype(np.int32)


def workloads() -> list[Workload]:
    """4096 rows of 1024."""
    moved = 8 * ROWS * COLUMNS
    return [
        Workload("softmax 4096x1024", ["y:0"], feeds_of(x=uniform([ROWS, COLUMNS])), _softmax, bytes_moved=moved),
        Workload("layer norm 4096x1024", ["y:0"], feeds_of(x=uniform([ROWS, COLUMNS])), _layer_norm, bytes_moved=moved),
        Workload("logsumexp 4096x1024", ["y:0"], feeds_of(x=uniform([ROWS, COLUMNS])), _logsumexp, bytes_moved=moved // 2),
        Workload(
            "softmax cross-entropy 4096x1024",
            ["y/y:0"],
            feeds_of(x=uniform([ROWS, COLUMNS]), labels=_labels),
            _cross_entropy,
            bytes_moved=moved // 2,
        ),
        Workload("variance along axis 0, 4096x1024", ["y:0"], feeds_of(x=uniform([ROWS, COLUMNS])), _variance, bytes_moved=moved // 2),
        Workload("mean of all, 4096x1024", ["y:0"], feeds_of(x=uniform([ROWS, COLUMNS])), _mean, bytes_moved=moved // 2),
    ]
