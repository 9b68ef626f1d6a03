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
    for size, label in ((100_000, "1e5"), (1_000_000, "1e6"), (10_000_000, "1e7")):
        found.append(
            Workload(
                f"10-op mul/add/relu chain, {label}", ["y:0"], feeds_of(x=uniform([size])), _light, bytes_moved=8 * size, xla=size < 1e7
            )
        )
    size = 1_000_000
    found.append(Workload("15-op tanh/sigmoid chain, 1e6", ["y:0"], feeds_of(x=uniform([size])), _heavy, bytes_moved=8 * size, xla=True))
    found.append(Workload("gelu(erf), 1e6", ["y:0"], feeds_of(x=uniform([size])), _gelu, bytes_moved=8 * size))
    found.append(Workload("exp/log chain, 1e6", ["y:0"], feeds_of(x=uniform([size])), _explog, bytes_moved=8 * size))
    moved = 4 * 4096 * 4096
    found.append(
        Workload(
            "[4096,1]*[1,4096] broadcast chain",
            ["y:0"],
            feeds_of(c=uniform([4096, 1]), r=uniform([1, 4096])),
            _broadcast,
            bytes_moved=moved,
        )
    )
    moved = 12 * 3000 * 3000
    found.append(
        Workload(
            "chain with a transposed operand",
            ["y:0"],
            feeds_of(x=uniform([3000, 3000]), z=uniform([3000, 3000])),
            _transposed,
            bytes_moved=moved,
        )
    )
    makers = feeds_of(s=uniform([size], 50, 150), k=uniform([size], 50, 150), t=uniform([size], 0.1, 2))
    found.append(Workload("Black-Scholes, 1e6", ["call:0", "put:0"], makers, _black_scholes, bytes_moved=20 * size, atol=1e-3))
    return found
