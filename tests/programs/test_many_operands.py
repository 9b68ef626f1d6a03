"""Graphs whose nodes have very many inputs and outputs: every kernel compiles, or its group is
split.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit

tf1 = tf.compat.v1
WIDTH = 24


def inputs(count: int) -> list[Any]:
    """Return rows of one placeholder, each by a slice, so that kernels read as many places."""
    x = tf1.placeholder(tf.float32, [count, WIDTH], name="x")
    return [tf.tanh(row) for row in tf.unstack(x)]


def add_all(count: int) -> list[Any]:
    return [tf.add_n(inputs(count)) * 0.5]


def chain_of_additions(count: int) -> list[Any]:
    total, *others = inputs(count)
    for other in others:
        total = total + other * 0.25
    return [total]


def all_intermediates(count: int) -> list[Any]:
    h = inputs(count)[0]
    found = []
    for k in range(count):
        h = tf.tanh(h + 0.01 * k)
        found.append(h)
    return found


def outputs_of_one(count: int) -> list[Any]:
    h = inputs(2)[0] if count < 2 else tf.add_n(inputs(count))
    return [h * (1.0 + k) for k in range(count)]


def concat_and_split(count: int) -> list[Any]:
    whole = tf.concat(inputs(count), 0)
    return [part + 1.0 for part in tf.split(whole * 2.0, count)]


def stack_and_unstack(count: int) -> list[Any]:
    return [row * 2.0 for row in tf.unstack(tf.stack(inputs(count), 1) + 1.0, axis=0)]


def product_with_many_operands(count: int) -> list[Any]:
    rows = inputs(count)
    h = tf.matmul(tf.stack(rows[:2] * 2), tf.eye(WIDTH) * 0.5)
    found = []
    for row in rows:
        h = tf.tanh(h + row)
        found.append(h)
    return found


def rows_with_many_results(count: int) -> list[Any]:
    h = tf.stack(inputs(count))
    found = []
    for k in range(count):
        h = h - tf.reduce_max(h, 1, keepdims=True) * 0.1 + 0.01 * k
        found += [tf.reduce_sum(h, 1), h]
    return found


def many_reductions(count: int) -> list[Any]:
    h = tf.stack(inputs(count))
    return [tf.reduce_sum(tf.tanh(h * (k + 1.0)), 0) for k in range(count)] + [
        tf.reduce_mean(h * (k + 2.0), 0) for k in range(count)
    ]


def loop_with_many_variables(count: int) -> list[Any]:
    rows = inputs(count)
    found = tf.while_loop(
        lambda i, *_: i < 3,
        lambda i, *v: [i + 1, *[tf.tanh(x + y) for x, y in zip(v, v[1:] + v[:1])]],
        [0, *rows],
    )
    return list(found[1:])


def loop_over_scalars(count: int) -> list[Any]:
    first = [tf.reduce_sum(row) for row in inputs(count)]
    found = tf.while_loop(
        lambda i, *_: i < 3,
        lambda i, *v: [i + 1, *[0.5 * x + y for x, y in zip(v, v[1:] + v[:1])]],
        [0, *first],
    )
    return list(found[1:])


def loop_with_products(count: int) -> list[Any]:
    rows = inputs(count)
    h = tf.stack(rows[:2] * 2)

    def body(i: Any, h: Any) -> Any:
        h = tf.matmul(h, tf.eye(WIDTH) * 0.5)
        for row in rows:
            h = tf.tanh(h + row)
        return i + 1, h

    return [tf.while_loop(lambda i, _: i < 3, body, [0, h])[1]]


def branch_with_many_results(count: int) -> list[Any]:
    rows = inputs(count)
    return list(
        tf.cond(
            rows[0][0] > 0,
            lambda: [row * 2.0 for row in rows],
            lambda: [tf.tanh(row) - 1.0 for row in rows],
        )
    )


CASES: list[Callable[[int], list[Any]]] = [
    add_all,
    chain_of_additions,
    all_intermediates,
    outputs_of_one,
    concat_and_split,
    stack_and_unstack,
    product_with_many_operands,
    rows_with_many_results,
    many_reductions,
    loop_with_many_variables,
    loop_over_scalars,
    loop_with_products,
    branch_with_many_results,
]


@pytest.mark.parametrize("count", [200])
@pytest.mark.parametrize("make", CASES)
def test_many(
    make: Callable[[int], list[Any]], count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFJIT_JIT", "eager")
    graph = tf1.Graph()
    with graph.as_default():
        fetches = make(count)
    shape = graph.get_tensor_by_name("x:0").shape
    x = np.random.default_rng(0).uniform(-1, 1, shape).astype("f4")
    with tf1.Session(graph=graph) as theirs, tfjit.Session(graph=graph) as session:
        expected = theirs.run(fetches, {"x:0": x})
        for got, value in zip(session.run(fetches, {"x:0": x}), expected, strict=True):
            np.testing.assert_allclose(got, value, rtol=2e-4, atol=2e-4)
        assert not session.explain(fetches, {"x:0": x.shape}).refused
