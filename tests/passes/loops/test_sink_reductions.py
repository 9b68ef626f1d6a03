"""Sums of products that leave their loops: when, when not, and that values stay but
for rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit

tf1 = tf.compat.v1

X = np.random.default_rng(8).standard_normal((5, 2, 3)).astype("f4")
BEHIND = "comes once behind"


@pytest.fixture(autouse=True)
def _v2() -> Iterator[None]:
    before = tf1.control_flow_v2_enabled()
    tf1.enable_control_flow_v2()
    yield
    if not before:
        tf1.disable_control_flow_v2()


@pytest.fixture(params=["off", "eager"])
def mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TFJIT_JIT", request.param)
    monkeypatch.setenv("TFJIT_VERIFY", "1")
    return str(request.param)


def check(
    build: Callable[[Any], Sequence[Any]], behind: int, x: np.ndarray = X, rtol: float = 1e-5
) -> None:
    """behind: how many sums leave their loop."""
    with tf.Graph().as_default() as graph:
        fetches = [t.name for t in build(tf1.placeholder(x.dtype, [None, *x.shape[1:]], name="x"))]
    with tf1.Session(graph=graph) as theirs, tfjit.Session(graph=graph) as ours:
        said = ours.explain(fetches, {"x:0": x.shape}).details()
        found = sum(
            line.count(",") + 1
            for line in said.splitlines()
            if BEHIND in line and "loop_sums:" in line
        )
        assert found == behind, [line for line in said.splitlines() if "loop_sums" in line]
        for _ in range(2):
            expected, got = theirs.run(fetches, {"x:0": x}), ours.run(fetches, {"x:0": x})
            for a, b in zip(got, expected, strict=True):
                np.testing.assert_allclose(a, b, rtol, 1e-5)


def summed(
    x: Any,
    term: Callable[[Any, Any, Any], Any],
    start: Any,
    index: Callable[[Any], Any] = lambda i: i,
    trips: int = 5,
) -> list[Any]:
    """s + term(i, row, state) over the rows of x."""
    rows = tf.TensorArray(x.dtype, 5, clear_after_read=False).unstack(x)

    def body(i: Any, h: Any, s: Any) -> Any:
        row = rows.read(index(i))
        h = tf.tanh(h + row)
        return i + 1, h, s + term(i, row, h)

    return list(tf.while_loop(lambda i, *_: i < trips, body, [0, tf.zeros_like(x[0]), start])[1:])


def product(i: Any, row: Any, h: Any) -> Any:
    return tf.matmul(row, h, transpose_a=True)


def biased(x: Any) -> list[Any]:
    rows = tf.TensorArray(tf.float32, 5).unstack(x)

    def body(i: Any, h: Any, s: Any, b: Any) -> Any:
        row = rows.read(i)
        h = tf.tanh(h + row)
        return i + 1, h, product(i, row, h) + s, b + tf.raw_ops.BiasAddGrad(out_backprop=h)

    return list(
        tf.while_loop(lambda i, *_: i < 5, body, [0, x[0], tf.zeros([3, 3]), tf.ones([3])])[1:]
    )


def looked_at(x: Any) -> list[Any]:
    """The sum so far is used in the loop."""
    rows = tf.TensorArray(tf.float32, 5).unstack(x)

    def body(i: Any, h: Any, s: Any) -> Any:
        row = rows.read(i)
        return i + 1, tf.tanh(h + row) @ s, s + product(i, row, row)

    return list(tf.while_loop(lambda i, *_: i < 5, body, [0, x[0], tf.zeros([3, 3])])[1:])


def stops_early(x: Any) -> list[Any]:
    rows = tf.TensorArray(tf.float32, 5).unstack(x)

    def body(i: Any, s: Any) -> Any:
        row = rows.read(i)
        return i + 1, s + product(i, row, tf.tanh(row))

    return list(
        tf.while_loop(
            lambda i, s: tf.logical_and(i < 5, tf.reduce_sum(s) < 2.0), body, [0, tf.zeros([3, 3])]
        )
    )


CASES: dict[str, tuple[int, Callable[[Any], Sequence[Any]]]] = {
    "from zeros": (1, lambda x: summed(x, product, tf.zeros([3, 3]))),
    "from something": (1, lambda x: summed(x, product, tf.matmul(x[0], x[1], transpose_a=True))),
    "from the end": (1, lambda x: summed(x, product, tf.zeros([3, 3]), lambda i: 4 - i)),
    "the other way round": (
        1,
        lambda x: summed(
            x, lambda i, row, h: tf.matmul(h, row, transpose_a=True), tf.zeros([3, 3])
        ),
    ),
    "of rows alone": (
        1,
        lambda x: summed(
            x, lambda i, row, h: tf.matmul(row, row, transpose_a=True), tf.zeros([3, 3])
        ),
    ),
    "with columns": (2, biased),
    "not of all rows": (0, lambda x: summed(x, product, tf.zeros([3, 3]), trips=4)),
    "one row twice": (0, lambda x: summed(x, product, tf.zeros([3, 3]), lambda i: i // 2)),
    "not over rows": (
        0,
        lambda x: summed(
            x, lambda i, row, h: tf.matmul(row, h, transpose_b=True), tf.zeros([2, 2])
        ),
    ),
    "both made in the loop": (
        0,
        lambda x: summed(
            x, lambda i, row, h: tf.matmul(tf.sin(h), h, transpose_a=True), tf.zeros([3, 3])
        ),
    ),
    "looked at": (0, looked_at),
    "until a value is reached": (0, stops_early),
}


@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize("name", CASES)
def test_sums(name: str) -> None:
    behind, build = CASES[name]
    check(build, behind)


@pytest.mark.usefixtures("mode")
def test_types_and_sizes() -> None:
    check(lambda x: summed(x, product, tf.zeros([3, 3], tf.float64)), 1, X.astype("f8"))
    check(lambda x: summed(x, product, tf.zeros([3, 3], tf.float16)), 0, X.astype("f2"), rtol=1e-2)
    many = np.random.default_rng(1).standard_normal((5, 300, 3)).astype("f4")
    check(lambda x: summed(x, product, tf.zeros([3, 3])), 0, many, rtol=1e-4)


def test_values_that_are_not_finite(mode: str) -> None:
    x = X.copy()
    x[2, 1, 0] = np.inf
    x[3, 0, 2] = np.nan
    check(lambda x: summed(x, product, tf.zeros([3, 3])), 1, x)
