"""A run by reference kernels holds no more than what is still needed: its peak is that of liveness,
not of every value ever made.
"""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit

tf1 = tf.compat.v1
COUNT = 1 << 20
BYTES = 4 * COUNT


def peak_of_a_run(graph: Any, fetch: Any, feeds: dict[Any, Any]) -> tuple[np.ndarray, int]:
    """(what was fetched, the most that NumPy held at once besides the feeds)."""
    with tfjit.Session(graph=graph) as session:
        session.run(fetch, feeds)  # imports, passes, constants
        tracemalloc.start()
        try:
            result = session.run(fetch, feeds)
            return result, tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize(
    "disabled", ["", "fuse", "fuse,straight_line"], ids=["fused", "unfused", "dataflow"]
)
def test_a_chain_holds_few_arrays(disabled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "off")
    monkeypatch.setenv("TFJIT_DISABLE", disabled)
    with tf1.Graph().as_default() as graph:
        x, y = tf1.placeholder(tf.float32, [COUNT]), tf1.placeholder(tf.float32, [COUNT])
        z = x
        for n in range(12):
            z = tf.nn.relu(z * y + float(n))
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal(COUNT, "f4"), rng.standard_normal(COUNT, "f4")
    found, peak = peak_of_a_run(graph, z, {x: a, y: b})
    expected = a
    for n in range(12):
        expected = np.maximum(expected * b + np.float32(n), 0)
    np.testing.assert_array_equal(found, expected)
    # a kernel's result, its operand, and its copy where an op may hand out its input
    arrays = 1 if not disabled else 3
    assert peak < (arrays + 0.5) * BYTES


def test_a_group_of_broadcasts_takes_only_its_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "off")
    with tf1.Graph().as_default() as graph:
        x, y, c = (tf1.placeholder(tf.float32, s) for s in ([1024, 1], [1, 1031], [1031]))
        z = tf.nn.relu(tf.tanh(x * y) * 2.0 + c) - tf.exp(x)
        both = [z, z * x]
    rng = np.random.default_rng(0)
    a, b, d = (rng.standard_normal(s, "f4") for s in ((1024, 1), (1, 1031), (1031,)))
    found, peak = peak_of_a_run(graph, both, {x: a, y: b, c: d})
    expected = np.maximum(np.tanh(a * b) * np.float32(2) + d, 0) - np.exp(a)
    np.testing.assert_array_equal(found[0], expected)
    np.testing.assert_array_equal(found[1], expected * a)
    assert peak < 2.5 * expected.nbytes


def test_errors_name_the_member_in_a_big_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "off")
    with tf1.Graph().as_default() as graph:
        x, y = tf1.placeholder(tf.int32, [COUNT]), tf1.placeholder(tf.int32, [COUNT])
        z = tf.raw_ops.FloorDiv(x=x + 1, y=y, name="quotient") + 3
    b = np.ones(COUNT, "i4")
    b[-1] = 0
    with (
        tfjit.Session(graph=graph) as session,
        pytest.raises(tfjit.errors.InvalidArgumentError, match="division by zero.*\n.*quotient"),
    ):
        session.run(z, {x: b, y: b})


def test_every_value_still_needed_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values used late, used twice, used by nobody, of several outputs, and fetched
    in the middle.
    """
    monkeypatch.setenv("TFJIT_JIT", "off")
    for disabled in ("", "fuse", "fuse,straight_line"):
        monkeypatch.setenv("TFJIT_DISABLE", disabled)
        with tf1.Graph().as_default() as graph:
            x = tf1.placeholder(tf.float32, [6, 8])
            early = tf.cumsum(x, axis=1)
            first, second, _ = tf.split(tf.sort(early, axis=0), [3, 3, 2], axis=1)
            late = tf.reshape(tf.matmul(first, second, transpose_a=True), [9])
            fetched = [
                late,
                early,
                tf.reduce_sum(tf.transpose(early)) + tf.reduce_max(late),
                tf.identity(first),
            ]
        value = np.random.default_rng(1).standard_normal((6, 8), "f4")
        with tf1.Session(graph=graph) as oracle, tfjit.Session(graph=graph) as session:
            expected = oracle.run(fetched, {x: value})
            for _ in range(2):
                for a, b in zip(session.run(fetched, {x: value}), expected, strict=True):
                    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
