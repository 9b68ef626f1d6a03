"""Kernels that the compiler refuses: references serve them in every mode, `explain` says so, and no
result changes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.refused_kernels import refusing

tf1 = tf.compat.v1
X = np.linspace(-1, 1, 12, dtype="f4").reshape(3, 4)
MODES = pytest.mark.parametrize(
    "setting",
    [
        {"TFJIT_JIT": "eager"},
        {"TFJIT_JIT": "lazy"},
        {"TFJIT_JIT": "eager", "TFJIT_DISABLE": "straight_line"},
    ],
    ids=["eager", "lazy", "dataflow"],
)


@pytest.fixture
def refuse() -> Iterator[Callable[[str], None]]:
    """Let the store refuse kernels whose title has a text."""
    with ExitStack() as stack:
        yield lambda text: stack.enter_context(refusing(lambda source: text in source.title))


def plain() -> tuple[Any, Any]:
    graph = tf1.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None, 4], name="x")
        return graph, tf.reduce_sum(tf.tanh(tf.matmul(x, tf.ones([4, 4])) * 0.1), 1, name="y")


def loop() -> tuple[Any, Any]:
    graph = tf1.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None, 4], name="x")
        step = lambda i, h: (i + 1, tf.tanh(tf.matmul(h, tf.eye(4) * 0.9) + x))  # noqa: E731
        _, h = tf.while_loop(
            lambda i, h: i < 5,
            step,
            [0, x],
            shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, 4])],
        )
        return graph, tf.identity(h, name="y")


def branch() -> tuple[Any, Any]:
    graph = tf1.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None, 4], name="x")
        return graph, tf.cond(
            x[0, 0] > 0, lambda: tf.tanh(x) + 1, lambda: tf.tanh(x * 2) - 1, name="y"
        )


def scalars() -> tuple[Any, Any]:
    graph = tf1.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None, 4], name="x")
        _, h = tf.while_loop(lambda i, h: i < 5, lambda i, h: (i + 1, tf.tanh(h) * 1.5), [0, x])
        return graph, tf.identity(h, name="y")


@MODES
@pytest.mark.refuses_kernel
@pytest.mark.parametrize("make", [plain, loop, branch, scalars])
@pytest.mark.parametrize("text", ["", "matmul", "loop"])
def test_references_serve_what_is_refused(
    refuse: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    make: Any,
    text: str,
    setting: dict[str, str],
) -> None:
    for name, value in setting.items():
        monkeypatch.setenv(name, value)
    graph, y = make()
    with tf1.Session(graph=graph) as theirs:
        expected = theirs.run(y, {"x:0": X})
    refuse(text)
    with caplog.at_level(logging.WARNING), tfjit.Session(graph=graph) as session:
        for _ in range(3):
            np.testing.assert_allclose(session.run(y, {"x:0": X}), expected, rtol=1e-5, atol=1e-6)
        explained = session.explain(y.name, {"x:0": X.shape})
        np.testing.assert_allclose(session.run(y, {"x:0": X}), expected, rtol=1e-5, atol=1e-6)
    if text == "" and "TFJIT_DISABLE" not in setting:
        assert explained.refused
        assert "refused by the compiler: " in str(explained)
        assert "planted" in caplog.text
        assert "The reference kernel serves it" in caplog.text


def test_a_row_kernel_keeps_more_arrays_than_there_are_scopes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Forty rounds of a row's sum or maximum taken off are one group, which keeps an array for each
    round.
    """
    monkeypatch.setenv("TFJIT_JIT", "eager")
    graph = tf1.Graph()
    with graph.as_default():
        h = tf1.placeholder(tf.float32, [8, 16], name="x")
        for i in range(20):
            h = tf.tanh(tf.reshape(tf.transpose(tf.transpose(h)), [8, 16])) + 1.0
            h -= (tf.reduce_sum if i % 2 else tf.reduce_max)(h, axis=1, keepdims=True) * 0.01
        tf.identity(h, name="y")
    x = np.random.default_rng(0).standard_normal((8, 16)).astype("f4")
    with tf1.Session(graph=graph) as theirs, tfjit.Session(graph=graph) as session:
        np.testing.assert_allclose(
            session.run("y:0", {"x:0": x}), theirs.run("y:0", {"x:0": x}), rtol=1e-5, atol=1e-5
        )
        explained = session.explain("y:0")
    assert {node.serving for node in explained.nodes if node.op == "_Fused"} == {"native"}
    assert not explained.refused
