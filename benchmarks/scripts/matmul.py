"""Matrix products with bias and activation, weights constant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.workload import Workload, feeds_of, uniform

SHAPES = ((1, 1024, 1024), (32, 784, 512), (256, 512, 512), (1024, 1024, 1024))


def _dense(k: int, n: int) -> Callable[[Any], None]:
    def build(tf: Any) -> None:
        rng = np.random.default_rng(1)
        weights = tf.constant(rng.standard_normal((k, n)).astype("f4") / np.sqrt(k).astype("f4"))
        bias = tf.constant(rng.standard_normal(n).astype("f4"))
        x = tf.placeholder(tf.float32, [None, k], name="x")
        tf.nn.relu(tf.nn.bias_add(tf.matmul(x, weights), bias), name="y")

    return build


def workloads() -> list[Workload]:
    """m x k x n, bias, relu."""
    return [
        Workload(
            f"dense {m}x{k}x{n} + bias + relu",
            ["y:0"],
            feeds_of(x=uniform([m, k])),
            _dense(k, n),
            atol=1e-4,
        )
        for m, k, n in SHAPES
    ]
