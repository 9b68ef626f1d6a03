"""Passes of users that fail or break the graph, in each section: named, or undone."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tfjit
from tfjit.framework.errors import InternalError, InvalidArgumentError, OpError
from tfjit.framework.types import dtypes
from tfjit.passes import Pipeline
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.manager.pass_context import PassContext
from tfjit.protos import ConfigProto

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
Edit = Callable[[DataflowGraph, PassContext], None]


@pytest.fixture(autouse=True)
def by_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "off")


@pytest.fixture(scope="module")
def graph() -> tfjit.Graph:
    """Return x -> tanh -> * 2 -> y, with a loop and a branch beside it."""
    with tfjit.Graph().as_default() as made:
        x = tfjit.placeholder(tfjit.float32, [2, 3], name="x")
        h = tfjit.tanh(x, name="h")
        y = tfjit.add(h * 2.0, tfjit.exp(x), name="y")
        tfjit.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, tfjit.sin(v)), [0, y], name="w")
        tfjit.group(y, name="done")
    return made


def named(graph: DataflowGraph, op: str) -> str:
    """Return the first node of an op type."""
    return next(node.name for node in graph.op_nodes() if node.op == op)


def makes_a_cycle(graph: DataflowGraph, ctx: PassContext) -> None:
    graph.replace_input(named(graph, "Tanh"), 0, named(graph, "Mul"), 0)


def removes_the_fetch(graph: DataflowGraph, ctx: PassContext) -> None:
    graph.remove_op(named(graph, "_Retval"))


def removes_the_fetched(graph: DataflowGraph, ctx: PassContext) -> None:
    graph.remove_op("y")


def changes_the_fetched_dtype(graph: DataflowGraph, ctx: PassContext) -> None:
    end = named(graph, "_Retval")
    types = {"SrcT": dtypes.float32, "DstT": dtypes.float64}
    graph.add_node_op("wide", "Cast", graph.inputs(end), types, like=graph.node(end))
    graph.change_op(end, "_Retval", [("wide", 0)], {"T": dtypes.float64, "index": 0})


def changes_a_dtype(graph: DataflowGraph, ctx: PassContext) -> None:
    types = {"SrcT": dtypes.float32, "DstT": dtypes.float64}
    graph.change_op("h", "Cast", graph.inputs("h"), types)


def writes_a_dtype(graph: DataflowGraph, ctx: PassContext) -> None:
    graph.node("h").attrs["T"] = dtypes.float64


def destroys(graph: DataflowGraph, ctx: PassContext) -> None:
    del graph._pred["h"]


def raises(graph: DataflowGraph, ctx: PassContext) -> None:
    for node in list(graph.op_nodes()):
        if node.op == "Tanh":
            graph.change_op(node.name, "Sin", graph.inputs(node.name), {"T": dtypes.float32})
            raise LookupError("lost")


def finds_fault(graph: DataflowGraph, ctx: PassContext) -> None:
    graph.remove_op("h")
    raise InvalidArgumentError(None, None, "Node 'h' is not liked")


FAULTS: dict[Edit, str] = {
    makes_a_cycle: "after pass 'makes_a_cycle': 2 nodes in a cycle: h -> mul -> h",
    removes_the_fetch: "after pass 'removes_the_fetch': node '_retval_y_0_0', the fetch 'y:0', is",
    removes_the_fetched: "after pass 'removes_the_fetched': Node '_retval_y_0_0' (_Retval): it",
    changes_the_fetched_dtype: "the fetch 'y:0', was float32 and is float64",
    changes_a_dtype: "after pass 'changes_a_dtype': Node 'mul' (Mul): input 0 from 'h:0' is float64",
    writes_a_dtype: "after pass 'writes_a_dtype': Node 'h' (Tanh): its attrs say inputs (float64)",
    destroys: "after pass 'destroys'",
    raises: "pass 'raises' failed at node 'h' (Sin) (test_pass_manager_failures.py:",
    finds_fault: "pass 'finds_fault': Node 'h' is not liked",
}
PLACES = {
    "first": lambda edit: Pipeline.default().before("prune", edit),
    "graph": lambda edit: Pipeline.default().before("fold_constants", edit),
    "last": lambda edit: Pipeline.default().then(edit),
    "fixpoint": lambda edit: (
        Pipeline.default().before("loop_sums", edit).repeat_until_stable(edit.__name__, limit=2)
    ),
    "partition": lambda edit: Pipeline.default().before("fuse", edit),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("edit", FAULTS, ids=lambda edit: edit.__name__)
def test_a_pass_that_breaks_the_graph(
    edit: Edit, place: str, graph: tfjit.Graph, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline = PLACES[place](edit)
    expected = np.tanh(X) * 2 + np.exp(X)
    with tfjit.Session(graph=graph, passes=pipeline) as session:
        with pytest.raises(OpError) as caught:
            session.run("y:0", {"x:0": X})
        assert FAULTS[edit] in caught.value.message
        assert isinstance(
            caught.value, InvalidArgumentError if edit is finds_fault else InternalError
        )
    with (
        caplog.at_level(logging.WARNING, "tfjit.passes"),
        tfjit.Session(graph=graph, passes=pipeline, config=ConfigProto()) as session,
    ):
        np.testing.assert_allclose(session.run("y:0", {"x:0": X}), expected, rtol=1e-6)
        report = session.explain("y:0").report
    assert f"pass '{edit.__name__}' failed and is left out: " in caplog.text
    assert FAULTS[edit] in caplog.text
    entry = next(entry for entry in report.passes if entry.name == edit.__name__)
    assert "failed and is left out" in entry.messages[0][1]
    failing = ConfigProto()
    failing.graph_options.rewrite_options.fail_on_optimizer_errors = True
    with (
        tfjit.Session(graph=graph, passes=pipeline, config=failing) as session,
        pytest.raises(OpError),
    ):
        session.run("y:0", {"x:0": X})


def test_a_target_that_goes_is_named(graph: tfjit.Graph) -> None:
    def forgets(graph: DataflowGraph, ctx: PassContext) -> None:
        graph.remove_op("done")

    with (
        tfjit.Session(graph=graph, passes=Pipeline.default().then(forgets)) as session,
        pytest.raises(InternalError, match="after pass 'forgets': node 'done', a target, is gone"),
    ):
        session.run(["y:0", graph.get_operation_by_name("done")], {"x:0": X})


def test_a_fault_in_a_body_is_undone_there(
    graph: tfjit.Graph, caplog: pytest.LogCaptureFixture
) -> None:
    def forgets(graph: DataflowGraph, ctx: PassContext) -> None:
        if ctx.where:
            graph.remove_op(named(graph, "_Retval"))

    pipeline = Pipeline.default().before("simplify", forgets, section="body")
    with (
        tfjit.Session(graph=graph, passes=pipeline) as session,
        pytest.raises(InternalError, match="of the body, is gone or no _Retval"),
    ):
        session.run("w/Exit_1:0", {"x:0": X})
    expected = np.sin(np.sin(np.sin(np.tanh(X) * 2 + np.exp(X))))
    with tfjit.Session(graph=graph, passes=pipeline, config=ConfigProto()) as session:
        value = session.run("w/Exit_1:0", {"x:0": X})
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    assert "pass 'forgets' failed and is left out" in caplog.text


@pytest.mark.parametrize("place", PLACES)
def test_a_right_pass_holds_at_each_place(place: str, graph: tfjit.Graph) -> None:
    """New nodes get shapes, nodes that are no longer used go."""

    def halves(graph: DataflowGraph, ctx: PassContext) -> None:
        for node in list(graph.op_nodes()):
            if node.op == "Tanh":
                made: Any = graph.add_node_op(
                    graph.new_name(node.name), "Neg", graph.inputs(node.name), {}, like=node
                )
                graph.change_op(node.name, "Sin", [(made.name, 0)], {"T": dtypes.float32})

    with tfjit.Session(graph=graph, passes=PLACES[place](halves)) as session:
        value = session.run("y:0", {"x:0": X})
        plan = session._runtime_session.plan(["x:0"], ["y:0"], [])  # type: ignore[union-attr]
        assert plan.variant(((2, 3),)).step is not None, "all shapes are known"
    np.testing.assert_allclose(value, -np.sin(X) * 2 + np.exp(X), rtol=1e-6)
