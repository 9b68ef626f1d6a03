"""Chains of elementwise ops: memory-bound and compute-bound."""

from __future__ import annotations

import functools
from typing import Any

from benchmarks.scripts.dispatch import chain
from benchmarks.workload import Workload, feeds_of, integers, uniform


def _light(tf: Any, dtype: str = "float32") -> None:
    x = tf.placeholder(getattr(tf, dtype), [None], name="x")
    y = x
    for i in range(3):
        y = tf.multiply(y, 1.1 + i)
        y = tf.add(y, 0.3)
        y = tf.nn.relu(y)
    tf.add(y, x, name="y")


def _gelu(tf: Any) -> None:
    x = tf.placeholder(tf.float32, [None], name="x")
    tf.multiply(0.5 * x, 1.0 + tf.math.erf(x * 0.7071067811865476), name="y")


def _gelu_tanh(tf: Any) -> None:
    x = tf.placeholder(tf.float32, [None], name="x")
    tf.multiply(0.5 * x, 1.0 + tf.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)), name="y")


def _explog(tf: Any) -> None:
    x = tf.placeholder(tf.float32, [None], name="x")
    y = x
    for _ in range(4):
        y = tf.math.log(tf.exp(y) + 1.0)
    tf.identity(y, name="y")


def _broadcast(tf: Any) -> None:
    column = tf.placeholder(tf.float32, [None, 1], name="c")
    row = tf.placeholder(tf.float32, [1, None], name="r")
    y = tf.multiply(column, row)
    for i in range(3):
        y = tf.nn.relu(tf.add(tf.multiply(y, 1.5), 0.1 * i))
    tf.add(y, row, name="y")


def _transposed(tf: Any) -> None:
    x = tf.placeholder(tf.float32, [None, None], name="x")
    z = tf.placeholder(tf.float32, [None, None], name="z")
    y = tf.add(tf.transpose(x), z)
    y = tf.nn.relu(tf.multiply(y, 1.5))
    tf.add(tf.multiply(y, z), 0.5, name="y")


def _strided(tf: Any) -> None:
    x = tf.placeholder(tf.float32, [None], name="x")
    tf.nn.relu(tf.add(tf.multiply(x[::2], 1.5), 0.3), name="y")


def _cast_select(tf: Any) -> None:
    x = tf.placeholder(tf.float32, [None], name="x")
    i = tf.placeholder(tf.int32, [None], name="i")
    tf.where(x > 0.1, tf.cast(i, tf.float32) * 0.5, x, name="y")


def _black_scholes(tf: Any) -> None:
    spot = tf.placeholder(tf.float32, [None], name="s")
    strike = tf.placeholder(tf.float32, [None], name="k")
    time = tf.placeholder(tf.float32, [None], name="t")
    rate, sigma = 0.02, 0.3
    root = sigma * tf.sqrt(time)
    d1 = (tf.math.log(spot / strike) + (rate + 0.5 * sigma * sigma) * time) / root
    d2 = d1 - root

    def normal(d: Any) -> Any:
        return 0.5 * (1.0 + tf.math.erf(d * 0.7071067811865476))

    discounted = strike * tf.exp(-rate * time)
    call = tf.subtract(spot * normal(d1), discounted * normal(d2), name="call")
    tf.add(call - spot, discounted, name="put")


def workloads() -> list[Workload]:
    """The chains at several sizes."""
    found = []
    for size, label, wanted in (
        (1000, "1e3", None),
        (100_000, "1e5", 0.03),
        (1_000_000, "1e6", 0.09),
    ):
        found.append(
            Workload(
                f"10-op mul/add/relu chain, {label}",
                ["y:0"],
                feeds_of(x=uniform([size])),
                _light,
                wanted=wanted,
            )
        )
    big = feeds_of(x=uniform([10_000_000]))
    found.append(
        Workload(
            "10-op mul/add/relu chain, 1e7, outputs kept", ["y:0"], big, _light, wanted=0.33, kept=4
        )
    )
    found.append(Workload("10-op mul/add/relu chain, 1e7, outputs dropped", ["y:0"], big, _light))
    double = feeds_of(x=uniform([10_000_000], dtype="float64"))
    found.append(
        Workload(
            "10-op mul/add/relu chain, 1e7, float64",
            ["y:0"],
            double,
            functools.partial(_light, dtype="float64"),
            kept=4,
        )
    )
    edges = feeds_of(c=uniform([4096, 1]), r=uniform([1, 4096]))
    found.append(
        Workload("[4096,1]*[1,4096] broadcast chain", ["y:0"], edges, _broadcast, wanted=0.5)
    )
    square = feeds_of(x=uniform([3000, 3000]), z=uniform([3000, 3000]))
    found.append(
        Workload(
            "chain with a transposed operand, 3000x3000", ["y:0"], square, _transposed, wanted=0.6
        )
    )
    found.append(
        Workload(
            "chain with a strided operand, 4e6", ["y:0"], feeds_of(x=uniform([8_000_000])), _strided
        )
    )
    mixed = feeds_of(x=uniform([10_000_000]), i=integers([10_000_000], 100))
    found.append(Workload("cast and select, 1e7", ["y:0"], mixed, _cast_select))
    size = 1_000_000
    for name, build, wanted in (
        ("15-op tanh/sigmoid chain", chain, 0.44),
        ("gelu(erf)", _gelu, 0.17),
        ("gelu(tanh)", _gelu_tanh, None),
        ("exp/log chain", _explog, 0.57),
    ):
        found.append(
            Workload(f"{name}, 1e6", ["y:0"], feeds_of(x=uniform([size])), build, wanted=wanted)
        )
    makers = feeds_of(
        s=uniform([size], 50, 150), k=uniform([size], 50, 150), t=uniform([size], 0.1, 2)
    )
    found.append(
        Workload(
            "Black-Scholes, 1e6",
            ["call:0", "put:0"],
            makers,
            _black_scholes,
            wanted=0.19,
            atol=1e-3,
        )
    )
    return found
