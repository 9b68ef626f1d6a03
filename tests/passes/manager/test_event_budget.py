"""Event limits: a plan is valid with the first n rewrites alone, for every n."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfjit as tf
from tests.passes.plan_graphs import ops_of
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.manager.event_budget import EventBudget
from tfjit.passes.manager.pass_context import PassContext, PassOptions
from tfjit.passes.pipeline import run_passes
from tfjit.passes.text.text_format import parse_graph, print_graph

FEED = {"x:0": np.linspace(-1, 1, 6, dtype=np.float32).reshape(3, 2)}


def training() -> tuple[tf.Graph, list[str]]:
    """Return a step of training: matmul, softmax loss, gradients, updates of variables."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [3, 2], name="x")
        w = tf.Variable(np.ones((2, 2), np.float32), name="w")
        b = tf.Variable(np.zeros(2, np.float32), name="b")
        logits = tf.nn.bias_add(tf.matmul(tf.tanh(tf.identity(x) * 1.0), w), b)
        labels = tf.constant([0, 1, 1])
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        )
        steps = [
            tf.assign_sub(v, 0.5 * g)
            for v, g in zip((w, b), tf.gradients(loss, [w, b]), strict=True)
        ]
        tf.global_variables_initializer()
        return graph, [loss.name, *(step.name for step in steps)]


def loops() -> tuple[tf.Graph, list[str]]:
    """Return a v1 loop with a gradient."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [3, 2], name="x")
        _, last = tf.while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, tf.tanh(h) * x), [0, x])
        (grad,) = tf.gradients(last, [x])
        return graph, [last.name, grad.name]


def arrays() -> tuple[tf.Graph, list[str]]:
    """Return v1 loops over a tensor array and numbers, and a conditional."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [3, 2], name="x")
        rows = tf.TensorArray(tf.float32, 3, element_shape=[3, 2])
        _, last, rows = tf.while_loop(
            lambda i, h, rows: i < 3,
            lambda i, h, rows: (i + 1, tf.matmul(h, h, transpose_b=True) @ x, rows.write(i, h)),
            [0, x, rows],
        )
        total = tf.reduce_sum(rows.stack())
        chosen = tf.cond(total > 0.0, lambda: last * 2.0, lambda: last - 1.0)
        counted = tf.while_loop(lambda i, t: i < 4, lambda i, t: (i + 1, t * 3 + i), [0, 1])
        return graph, [chosen.name, total.name, counted[1].name]


@pytest.mark.parametrize("made", [training, loops, arrays])
def test_values_are_the_same_for_every_limit(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "off")
    graph, fetches = made()

    def values(budget: EventBudget) -> list[np.ndarray]:
        with tf.Session(graph=graph) as session:
            runtime: Any = session._runtime_session
            runtime.change_pass_options(event_limit=budget, verify=True)
            if made is training:
                session.run("init")
            found: list[np.ndarray] = session.run(fetches, FEED)
            return found

    whole = EventBudget()
    expected = values(whole)
    assert whole.used > 10
    for limit in range(whole.used):
        budget = EventBudget(limit)
        found = values(budget)
        assert budget.used == limit
        for value, right in zip(found, expected, strict=True):
            np.testing.assert_allclose(value, right, rtol=2e-5, atol=2e-6, err_msg=str(limit))


TEXT = """
    x = Placeholder(dtype=float32, shape=<2>)
    a = Identity(x)
    b = Identity(a)
    y = Neg(b)
"""


def limited(limit: int | EventBudget) -> DataflowGraph:
    graph = parse_graph(TEXT)
    run_passes(graph, ["simplify"], PassContext(options=PassOptions(event_limit=limit)))
    return graph


def test_rewrites_stop_at_the_limit() -> None:
    assert [len(limited(n)) for n in (0, 1, 2, 9)] == [6, 5, 4, 4]
    assert print_graph(limited(0)) == print_graph(parse_graph(TEXT))
    with pytest.raises(ValueError, match="0 or more, not -1"):
        EventBudget(-1)


def test_a_budget_counts_over_plans() -> None:
    budget = EventBudget(3)
    assert [len(limited(budget)) for _ in range(3)] == [4, 5, 6]
    assert budget.used == 3


def test_required_passes_are_not_stopped() -> None:
    graph = parse_graph(TEXT + "    z = Neg(x)")
    graph.remove_control_edge("z", "_SINK")
    run_passes(graph, ["prune"], PassContext(options=PassOptions(event_limit=0)))
    assert "z" not in graph


def test_a_users_pass_is_one_rewrite() -> None:
    def rename(graph: DataflowGraph, ctx: PassContext) -> None:
        graph.change_op("y", "Abs", graph.inputs("y"), {"T": tf.float32})

    for limit, op in ((0, "Neg"), (1, "Abs")):
        graph, budget = parse_graph(TEXT), EventBudget(limit)
        run_passes(graph, [rename], PassContext(options=PassOptions(event_limit=budget)))
        assert (graph.node("y").op, budget.used) == (op, limit)


def test_the_environment_limits_the_plans_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "events.jsonl"
    monkeypatch.setenv("TFJIT_EVENT_LIMIT", "1")
    monkeypatch.setenv("TFJIT_EVENT_LOG", str(log))
    monkeypatch.setenv("TFJIT_JIT", "off")
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [2], name="x")
        y = tf.nn.relu(tf.identity(x) * 1.0 + tf.identity(x) * 1.0)
        np.testing.assert_array_equal(session.run(y, {x: [1.0, -1.0]}), [2.0, 0.0])
        assert {"Identity", "Relu"} <= ops_of(session)
    (event,) = [json.loads(line) for line in log.read_text().splitlines()]
    assert (event["number"], event["pass"], event["node"]) == (1, "simplify", "Identity")
    assert "- Identity = Identity" in event["changes"]


def test_a_limit_that_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_EVENT_LIMIT", "many")
    with pytest.raises(ValueError, match="TFJIT_EVENT_LIMIT='many': expected a number"):
        run_passes(parse_graph(TEXT), ["simplify"], PassContext())
