"""Event limits: a plan is valid with the first n rewrites alone, for every n."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfjit as tf
from tests.passes.plan_graphs import ops_of
from tests.passes.small_programs import FEED, arrays, loops, training
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.manager.event_budget import EventBudget
from tfjit.passes.manager.pass_context import PassContext, PassOptions
from tfjit.passes.pipeline import run_passes
from tfjit.passes.text.text_format import parse_graph, print_graph


@pytest.mark.parametrize("made", [training, loops, arrays])
def test_values_are_the_same_for_every_limit(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "off")
    graph, fetches = made()

    def values(budget: EventBudget) -> list[np.ndarray]:
        with tf.Session(graph=graph) as session:
            runtime: Any = session._runtime_session
            runtime.change_pass_options(
                lambda options: replace(options, event_limit=budget, verify=True)
            )
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
