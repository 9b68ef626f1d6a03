"""A pass of rules in a session, with TensorFlow's results for the graph as it was."""

from __future__ import annotations

import logging
import uuid

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tfjit.passes import patterns as p
from tfjit.passes.manager import user_passes
from tfjit.protos import ConfigProto

op = p.op
x, y, w, b = p.tensors("x y w b")


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> ConfigProto:
    """Return a config with a pass of rules, of which one makes the user's own op."""
    monkeypatch.setattr(user_passes, "_REGISTERED", {})
    scaled = f"Scaled{uuid.uuid4().hex[:6]}"
    tfjit.register_op(
        scaled, inputs=("x: float",), outputs=("y: float",), expression="x / (1.0 + exp(-x))"
    )
    rules = (
        p.rewrite("silu", x * op.Sigmoid(x), op.any_of(scaled)(x)),
        p.rewrite("distribute", x * y + x * w, x * (y + w)),
    )
    tfjit.register_graph_optimizer("mine", lambda parameters: p.as_pass("mine", rules))
    made = ConfigProto()
    made.graph_options.rewrite_options.custom_optimizers.add(name="mine")
    return made


def test_a_session_with_a_pass_of_rules(config: ConfigProto) -> None:
    graph = tf.Graph()
    with graph.as_default():
        images = tf.compat.v1.placeholder(tf.float32, (5, 3), "images")
        hidden = tf.matmul(images, tf.transpose(images))
        hidden = hidden * tf.sigmoid(hidden)
        tf.add(hidden * 2.5, hidden * tf.exp(hidden), name="sum")
        with tf.compat.v1.Session() as session:
            fed = np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3)
            expected = session.run("sum:0", {"images:0": fed})
    own = tfjit.Graph()
    with own.as_default():
        tfjit.import_graph_def(graph.as_graph_def(), name="")
    with tfjit.Session(graph=own, config=config) as session:
        np.testing.assert_allclose(session.run("sum:0", {"images:0": fed}), expected, rtol=2e-6)
        text = session.explain("sum:0", {"images:0": fed}).details()
        for name in ("silu", "distribute"):
            assert f"{name}: " in str(text), name


def test_why_not_reads_graphs_of_tensorflow() -> None:
    graph = tf.Graph()
    with graph.as_default():
        images = tf.compat.v1.placeholder(tf.float32, (5, 3), "images")
        tf.sigmoid(images * 2.0, name="out")
    rule = p.rewrite("silu", op.Sigmoid(x * op.Exp(x)), x)
    for form in (graph, graph.as_graph_def()):
        assert "expected Exp" in str(p.why_not(form, rule, "out"))


def test_a_rule_that_fails_is_undone_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(user_passes, "_REGISTERED", {})
    wrong = p.rewrite("wrong", op.Square(x), op.Cast(op.Neg(x), DstT="int32"))
    tfjit.register_graph_optimizer("mine", lambda parameters: p.as_pass("mine", [wrong]))
    made = ConfigProto()
    made.graph_options.rewrite_options.custom_optimizers.add(name="mine")
    graph = tfjit.Graph()
    with graph.as_default():
        fed = tfjit.placeholder(tfjit.float32, (2,))
        out = tfjit.square(fed, name="out")
    with (
        caplog.at_level(logging.WARNING, "tfjit.passes"),
        tfjit.Session(graph=graph, config=made) as session,
    ):
        found = session.run(out, {fed: [0.0, 1.0]})
    np.testing.assert_array_equal(found, [0.0, 1.0])
    assert "rule 'wrong' at 'out': the replacement is int32, the node float32" in caplog.text
