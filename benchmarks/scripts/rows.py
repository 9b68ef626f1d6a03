"""Measure reductions, and row by row uses of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.workload import Workload, feeds_of, integers, uniform

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
    tf.identity(
        tf.reduce_logsumexp(tf.placeholder(tf.float32, [None, COLUMNS], name="x"), axis=1), name="y"
    )


def _cross_entropy(tf: Any) -> None:
    x = tf.placeholder(tf.float32, [None, COLUMNS], name="x")
    labels = tf.placeholder(tf.int32, [None], name="labels")
    tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=x, name="y")


def _variance(axis: int) -> Callable[[Any], None]:
    def build(tf: Any) -> None:
        x = tf.placeholder(tf.float32, [None, COLUMNS], name="x")
        mean = tf.reduce_mean(x, axis=axis, keepdims=True)
        tf.reduce_mean(tf.math.squared_difference(x, mean), axis=axis, name="y")

    return build


def _mean(tf: Any) -> None:
    tf.reduce_mean(tf.placeholder(tf.float32, [None, COLUMNS], name="x"), name="y")


def _l2_normalise(tf: Any) -> None:
    tf.identity(
        tf.nn.l2_normalize(tf.placeholder(tf.float32, [None, COLUMNS], name="x"), axis=1), name="y"
    )


def _sum(axis: int) -> Callable[[Any], None]:
    def build(tf: Any) -> None:
        tf.reduce_sum(tf.placeholder(tf.float32, [None, 256, 256], name="x"), axis=axis, name="y")

    return build


def workloads() -> list[Workload]:
    """4096 rows of 1024, and 64 x 256 x 256."""
    matrix = uniform([ROWS, COLUMNS])
    size = f"{ROWS}x{COLUMNS}"
    labelled = feeds_of(x=matrix, labels=integers([ROWS], COLUMNS))
    found = [
        Workload(f"{name} {size}", ["y:0"], feeds_of(x=matrix), build, wanted=wanted)
        for name, build, wanted in (
            ("softmax", _softmax, 0.22),
            ("layer norm", _layer_norm, 0.09),
            ("logsumexp", _logsumexp, 0.2),
            ("variance along axis 0,", _variance(0), 0.07),
            ("mean of all,", _mean, 0.14),
            ("l2 normalise", _l2_normalise, None),
            ("variance along axis 1,", _variance(1), None),
        )
    ]
    found.insert(
        3,
        Workload(f"softmax cross-entropy {size}", ["y/y:0"], labelled, _cross_entropy, wanted=0.12),
    )
    for axis in range(3):
        found.append(
            Workload(
                f"sum along axis {axis}, 64x256x256",
                ["y:0"],
                feeds_of(x=uniform([64, 256, 256])),
                _sum(axis),
                atol=1e-4,
            )
        )
    return found
