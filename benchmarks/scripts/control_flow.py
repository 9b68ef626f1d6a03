"""Measure loops and branches in both of TensorFlow's forms.

Switch and Merge (v1), and While and If with functions (v2).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.workload import Workload, feeds_of, uniform

Build = Callable[[Any], Any]


def _scalar_loop(tf: Any) -> Any:
    """x 0.999 + 0.5, counted: four scalar operations an iteration."""
    n = tf.placeholder(tf.int32, [], name="n")
    return tf.while_loop(lambda i, x: i < n, lambda i, x: [i + 1, x * 0.999 + 0.5], [0, 1.0])[1]


def _newton(tf: Any) -> Any:
    """Square roots of a vector by 1000 steps of Newton's method."""
    a = tf.placeholder(tf.float32, [None], name="a")
    return tf.while_loop(
        lambda i, x: i < 1000, lambda i, x: [i + 1, 0.5 * (x + a / x)], [0, tf.ones_like(a)]
    )[1]


def _mandelbrot(tf: Any) -> Any:
    """Count the steps of z^2 + c within radius 2.

    At most n steps.
    """
    re, im = (
        tf.placeholder(tf.float32, [None, None], name="re"),
        tf.placeholder(tf.float32, [None, None], name="im"),
    )
    n = tf.placeholder(tf.int32, [], name="n")

    def step(i: Any, x: Any, y: Any, count: Any) -> list[Any]:
        xx, yy = x * x, y * y
        inside = xx + yy < 4.0
        return [
            i + 1,
            tf.where(inside, xx - yy + re, x),
            tf.where(inside, 2.0 * x * y + im, y),
            count + tf.cast(inside, tf.int32),
        ]

    return tf.while_loop(
        lambda i, *_: i < n,
        step,
        [0, tf.zeros_like(re), tf.zeros_like(im), tf.zeros_like(re, tf.int32)],
    )[3]


def _branch(tf: Any) -> Any:
    """A branch in every iteration of a scalar loop."""
    n = tf.placeholder(tf.int32, [], name="n")

    def step(i: Any, x: Any) -> list[Any]:
        return [i + 1, tf.cond(x > 1.0, lambda: x * 0.5, lambda: x * 3.0 + 0.1)]

    return tf.while_loop(lambda i, x: i < n, step, [0, 1.0])[1]


def _collatz(tf: Any) -> Any:
    """Steps until n / 2 or 3 n + 1 reaches 1."""
    n = tf.placeholder(tf.int32, [], name="n")

    def step(k: Any, count: Any) -> list[Any]:
        return [tf.cond(tf.equal(k % 2, 0), lambda: k // 2, lambda: 3 * k + 1), count + 1]

    return tf.while_loop(lambda k, count: k > 1, step, [n, 0])[1]


def _converging(tf: Any) -> Any:
    """Iterate Newton's method until no element moves any more.

    A reduction decides on each iteration.
    """
    a = tf.placeholder(tf.float32, [None], name="a")

    def step(i: Any, x: Any, moved: Any) -> list[Any]:
        y = 0.5 * (x + a / x)
        return [i + 1, y, tf.reduce_max(tf.abs(y - x))]

    return tf.while_loop(
        lambda i, x, moved: tf.logical_and(i < 1000, moved > 1e-5),
        step,
        [0, 1e6 * tf.ones_like(a), 1.0],
    )[1]


def graph(build: Build, v2: bool) -> bytes:
    """The GraphDef of a workload in one of TensorFlow's forms."""
    import tensorflow as tf

    tf1 = tf.compat.v1
    before = tf1.control_flow_v2_enabled()
    (tf1.enable_control_flow_v2 if v2 else tf1.disable_control_flow_v2)()
    try:
        with tf1.Graph().as_default() as made:
            tf1.identity(build(tf1), name="y")
    finally:
        (tf1.enable_control_flow_v2 if before else tf1.disable_control_flow_v2)()
    data: bytes = made.as_graph_def().SerializeToString()
    return data


def _number(value: int) -> Callable[[np.random.Generator], Any]:
    return lambda rng: np.int32(value)


def _plane(axis: int, side: int) -> Callable[[np.random.Generator], np.ndarray]:
    line = (
        np.linspace(-2.0, 0.6, side, dtype=np.float32)
        if axis
        else np.linspace(-1.2, 1.2, side, dtype=np.float32)[:, None]
    )
    return lambda rng: np.ascontiguousarray(np.broadcast_to(line, (side, side)))


def workloads() -> list[Workload]:
    """Return each loop in both forms.

    `wanted` is against TensorFlow's own time for the form of the row.
    """
    plane = {"re": _plane(1, 512), "im": _plane(0, 512), "n": _number(100)}
    rows: list[tuple[str, Build, dict[str, Any], float | None]] = [
        ("scalar loop, 10,000 iterations", _scalar_loop, {"n": _number(10_000)}, 1 / 500),
        ("Newton's method, 1e3 x 1000", _newton, {"a": uniform([1000], 0.5, 10)}, 1 / 40),
        ("Mandelbrot 512x512x100", _mandelbrot, plane, 1 / 15),
        ("branch in a loop, 1000 iterations", _branch, {"n": _number(1000)}, 1 / 60),
        ("Collatz from 77031", _collatz, {"n": _number(77_031)}, None),
        (
            "Newton's method until it converges, 1e4",
            _converging,
            {"a": uniform([10_000], 0.5, 10)},
            None,
        ),
    ]
    return [
        Workload(
            f"{name}, {form}",
            ["y:0"],
            feeds_of(**makers),
            graph_def=functools.partial(graph, build, form == "v2"),
            wanted=wanted,
            needs_tensorflow=True,
        )
        for name, build, makers, wanted in rows
        for form in ("v1", "v2")
    ]
