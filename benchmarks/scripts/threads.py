"""Many callers of one session, and independent branches within one run."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.scripts.dispatch import chain
from benchmarks.scripts.models import mlp, weights
from benchmarks.workload import Workload, feeds_of, uniform


def _elementwise_branches(tf: Any) -> None:
    x = tf.placeholder(tf.float32, [8192], name="x")
    for name in ("y", "z"):
        h = x
        for i in range(20):
            h = tf.tanh(h * (0.9 + 0.01 * i)) if name == "y" else tf.sigmoid(h * (1.1 + 0.01 * i))
        tf.identity(h, name=name)


def _matmul_branches(tf: Any) -> None:
    rng = np.random.default_rng(1)
    x = tf.placeholder(tf.float32, [256, 256], name="x")
    for name in ("y", "z"):
        h = x
        for _ in range(4):
            h = tf.matmul(h, tf.constant(weights(rng, 256, 256)))
        tf.identity(h, name=name)


def workloads() -> list[Workload]:
    """Wall time over all callers' runs."""
    small = {1: None, 2: None, 4: None, 8: 0.08}
    dense = {1: None, 2: None, 4: 0.56, 8: None}
    found = [
        Workload(
            f"15-op chain, 1 element, from {n} threads",
            ["y:0"],
            feeds_of(x=uniform([1])),
            chain,
            wanted=wanted,
            callers=n,
        )
        for n, wanted in small.items()
    ]
    found += [
        Workload(
            f"MLP, batch 32, from {n} threads",
            ["y:0"],
            feeds_of(x=uniform([32, 784], 0, 1)),
            mlp,
            wanted=wanted,
            callers=n,
        )
        for n, wanted in dense.items()
    ]
    return [
        *found,
        Workload(
            "two elementwise branches of 20 ops on 8192",
            ["y:0", "z:0"],
            feeds_of(x=uniform([8192])),
            _elementwise_branches,
        ),
        Workload(
            "two branches of 4 products 256x256x256",
            ["y:0", "z:0"],
            feeds_of(x=uniform([256, 256])),
            _matmul_branches,
            atol=1e-4,
        ),
    ]
