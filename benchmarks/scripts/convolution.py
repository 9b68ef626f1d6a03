"""Convolutions with bias and activation, weights constant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.workload import Workload, feeds_of, uniform

# batch, height and width, channels in, channels out, kernel, stride
SHAPES = (
    (1, 56, 64, 64, 3, 1),
    (8, 28, 128, 128, 3, 1),
    (1, 7, 512, 512, 3, 1),
    (1, 224, 3, 64, 7, 2),
    (8, 56, 64, 256, 1, 1),
)


def _conv(ci: int, co: int, k: int, stride: int) -> Callable[[Any], None]:
    def build(tf: Any) -> None:
        rng = np.random.default_rng(1)
        weights = tf.constant(
            (rng.standard_normal((k, k, ci, co)) / np.sqrt(k * k * ci)).astype("f4")
        )
        bias = tf.constant(rng.standard_normal(co).astype("f4"))
        x = tf.placeholder(tf.float32, [None, None, None, ci], name="x")
        y = tf.nn.conv2d(x, weights, strides=[1, stride, stride, 1], padding="SAME")
        tf.nn.relu(tf.nn.bias_add(y, bias), name="y")

    return build


def _depthwise(channels: int) -> Callable[[Any], None]:
    def build(tf: Any) -> None:
        rng = np.random.default_rng(1)
        weights = tf.constant(rng.standard_normal((3, 3, channels, 1)).astype("f4") / 3)
        x = tf.placeholder(tf.float32, [None, None, None, channels], name="x")
        tf.nn.relu(
            tf.nn.depthwise_conv2d(x, weights, strides=[1, 1, 1, 1], padding="SAME"), name="y"
        )

    return build


def workloads() -> list[Workload]:
    """Ordinary and depthwise ones, NHWC."""
    found = []
    for b, h, ci, co, k, s in SHAPES:
        name = f"conv {k}x{k}/{s} {b}x{h}x{h} {ci}->{co}"
        found.append(
            Workload(
                name, ["y:0"], feeds_of(x=uniform([b, h, h, ci])), _conv(ci, co, k, s), atol=1e-4
            )
        )
    for b, h, c in ((1, 112, 32), (8, 56, 128), (1, 14, 512)):
        found.append(
            Workload(
                f"depthwise 3x3 {b}x{h}x{h} {c}",
                ["y:0"],
                feeds_of(x=uniform([b, h, h, c])),
                _depthwise(c),
                atol=1e-4,
            )
        )
    return found
