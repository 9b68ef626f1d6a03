"""Which control edges go, and that no two effects lose their order."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.reference_run import lowered
from tfjit.framework.types import dtypes
from tfjit.framework.types.shape import TensorShape
from tfjit.passes.analysis.shape_inference import infer_shapes
from tfjit.passes.canonicalize.canonicalize import simplify
from tfjit.passes.canonicalize.control_dependencies import _has_effect, drop_control_edges
from tfjit.passes.canonicalize.prune import prune
from tfjit.passes.ir.dataflow_graph import SINK, DataflowGraph
from tfjit.passes.ir.run_spec import RunSpec
from tfjit.passes.ir.subgraph import ancestors
from tfjit.passes.legalize.lower_feeds import lower_feeds
from tfjit.passes.manager.pass_context import PassContext, PassOptions
from tfjit.passes.pipeline import run_passes

X = np.ones(2, np.float32)


def _dropped(text: str, fetches: list[str], targets: tuple[str, ...] = ()) -> DataflowGraph:
    graph, ctx = lowered(text, {"x:0": X}, fetches, targets)
    drop_control_edges(graph, ctx)
    prune(graph, ctx)
    graph.verify()
    return graph


def test_waiting_for_what_has_no_effect() -> None:
    graph = _dropped(
        """
        x = Placeholder(shape=<2>)
        a = Neg(x)
        n = NoOp(^a)
        y = Exp(x, ^n)
        """,
        ["y:0"],
    )
    assert graph.control_inputs("y") == [] and "n" not in graph and "a" not in graph


def test_gradients_tied_together_are_let_loose() -> None:
    graph = _dropped(
        """
        x = Placeholder(shape=<2>)
        v = VariableV2(dtype=float32, shape=<2>)
        r = Identity(v)
        a = Mul(x, r)
        b = Neg(a)
        c = Square(a)
        t = NoOp(^b, ^c)
        y = Exp(b, ^t)
        z = Abs(c, ^t)
        w = Assign(v, y, ^z)
        """,
        [],
        ("w",),
    )
    assert "t" not in graph and graph.control_inputs("y") == [] and graph.control_inputs("w") == []
    assert "z" not in graph, "w has r before it through y"


@pytest.mark.parametrize(
    ("lines", "waiting"),
    [
        # the read comes before the write
        ("r = Identity(v)\n f = Neg(r)\n w = Assign(v, x, ^f)", ("w", "f")),
        ("w = Assign(v, x)\n r = Identity(v, ^w)", ("r", "w")),  # the write before the read
        # a pure node after an effect, for what comes later
        ("w = Assign(v, x)\n n = NoOp(^w)\n r = Exp(x, ^n)", ("r", "n")),
        ("w = CheckNumerics(x, message=b'bad')\n r = Exp(x, ^w)", ("r", "w")),  # runs for its error
        ("w = RandomUniform(s, dtype=float32)\n r = Exp(x, ^w)", ("r", "w")),
    ],
)
def test_effects_keep_their_order(lines: str, waiting: tuple[str, str]) -> None:
    text = """
        x = Placeholder(shape=<2>)
        s = Const(dtype=int32, value=int32<1>[2])
        v = VariableV2(dtype=float32, shape=<2>)
    """
    names = [line.split("=")[0].strip() for line in lines.split("\n")]
    graph = _dropped(text + lines, [], tuple(names))
    assert graph.control_inputs(waiting[0]) == [waiting[1]]


def test_what_a_fetched_identity_waited_for() -> None:
    graph, ctx = lowered(
        """
        x = Placeholder(shape=<2>)
        a = Neg(x)
        n = NoOp(^a)
        w = NoOp()
        y = Exp(x)
        i = Identity(y, ^n)
        """,
        {"x:0": X},
        ["i:0"],
        ("w",),
    )
    run_passes(graph, (infer_shapes, simplify, drop_control_edges, prune), ctx)
    assert {node.name for node in graph.op_nodes()} == {"_arg_x_0_0", "y", "_retval_i_0_0", "w"}, (
        "w was asked for"
    )


def test_graphs_with_control_flow_are_left_alone() -> None:
    graph, ctx = lowered(
        """
        p = Placeholder(dtype=bool, shape=<>)
        s = Switch(p, p)
        c = Const(^s, dtype=float32, value=float32<>[1.0])
        n = NoOp()
        y = Neg(c, ^n)
        """,
        {"p:0": np.array(True)},
        ["y:0"],
    )
    drop_control_edges(graph, ctx)
    assert graph.control_inputs("y") == ["n"] and graph.control_inputs("c") == ["s"]


def _effects_before(graph: DataflowGraph) -> dict[str, set[str]]:
    effects = {node.name for node in graph.op_nodes() if _has_effect(graph, node)}
    return {name: (ancestors(graph, [name]) - {name}) & effects for name in graph}


@pytest.mark.parametrize("seed", range(30))
def test_random_graphs_have_the_same_effects_before_each_node(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = DataflowGraph()
    graph.add_node_op("x", "Placeholder", (), {"dtype": dtypes.float32})
    graph.add_node_op("v", "VariableV2", (), {"dtype": dtypes.float32, "shape": TensorShape([2])})
    values, names = ["x"], ["x"]
    for i in range(40):
        waits = [names[rng.integers(0, len(names))] for _ in range(rng.integers(0, 4))]
        kind = rng.integers(0, 6)
        name = f"n{i}"
        if kind == 0:
            graph.add_node_op(name, "NoOp", control_inputs=waits)
        elif kind == 1:
            graph.add_node_op(name, "Identity", [("v", 0)], control_inputs=waits)
            values.append(name)
        elif kind == 2:
            graph.add_node_op(
                name,
                "Assign",
                [("v", 0), (values[rng.integers(0, len(values))], 0)],
                control_inputs=waits,
            )
        elif kind == 3:
            graph.add_node_op(
                name, "Neg", [(values[rng.integers(0, len(values))], 0)], control_inputs=waits
            )
            values.append(name)
        else:
            left, right = (values[rng.integers(0, len(values))] for _ in range(2))
            graph.add_node_op(name, "Mul", [(left, 0), (right, 0)], control_inputs=waits)
            values.append(name)
        names.append(name)
    graph.tie_ends()
    ctx = PassContext(RunSpec((), (), tuple(names[1:])), PassOptions())
    lower_feeds(graph, ctx)
    before, edges = _effects_before(graph), graph.num_edges
    drop_control_edges(graph, ctx)
    graph.verify()
    assert _effects_before(graph) == before
    assert graph.num_edges < edges
    for dst in before:
        for src in graph.control_inputs(dst) if dst != SINK else ():
            assert before[src] or _has_effect(graph, graph.node(src)), (
                f"{src} -> {dst} orders nothing"
            )
