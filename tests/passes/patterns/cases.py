"""Shared graphs and rules of the tests of patterns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tests.passes.reference_run import lowered, run_lowered
from tfjit.passes import patterns as p
from tfjit.passes.analysis.shape_inference import infer_shapes
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.pipeline import run_passes

X = np.array([[1.5, -0.0, 0.0], [np.nan, np.inf, -np.inf]], np.float32)

x, y, w, b = p.tensors("x y w b")
inner_axes, outer_axes = p.constants("inner_axes outer_axes")
f = p.op_type("f", "Neg LogicalNot Invert")

TIMES_ONE = p.rewrite("times_one", x * 1, x)
UNDO = p.rewrite("undo", f(f(x)), x)


@p.rule(p.op.Transpose(p.op.Transpose(x, inner_axes), outer_axes))
def join_transposes(x: p.Bound, inner_axes: p.Bound, outer_axes: p.Bound) -> object:
    """Transpose once in place of twice."""
    assert inner_axes.value is not None
    return p.op.Transpose(x, inner_axes.value[outer_axes.value])


ABSORB = p.rewrite(
    "absorb",
    p.op.MatMul(p.op.Transpose(x, [1, 0]), y, transpose_a=False, transpose_b=p.attr("tb")),
    p.op.MatMul(x, y, transpose_a=True, transpose_b=p.attr("tb")),
)
CONV_BIAS_RELU = p.rewrite(
    "conv_bias_relu",
    p.op.Relu(p.op.BiasAdd(p.op.Conv2D(x, w).named("conv"), b)),
    p.op.Relu6(p.op.Conv2D(x, w).with_attrs_of("conv")),
)
"""Not the same values: only the matching is tested with it."""


def rewritten(
    text: str,
    rules: Sequence[p.Rule],
    feeds: Mapping[str, np.ndarray],
    fetches: Sequence[str],
    *,
    same: bool = True,
) -> tuple[DataflowGraph, PassContext]:
    """Return the graph after a pass of rules; the values have to stay bit by bit."""
    before, _ = lowered(text, feeds, fetches)
    graph, ctx = lowered(text, feeds, fetches)
    run_passes(graph, (infer_shapes, p.as_pass("rules", rules)), ctx)
    graph.verify()
    if same:
        values = list(feeds.values())
        expected, got = run_lowered(before, values), run_lowered(graph, values)
        for index, value in expected.items():
            assert (value.dtype, value.shape) == (got[index].dtype, got[index].shape)
            assert value.tobytes() == got[index].tobytes()
    return graph, ctx


def ops_left(graph: DataflowGraph) -> list[str]:
    """Return the op types of a graph in order, without ends and constants."""
    names = graph.topological_order()
    ends = ("_Arg", "_Retval", "Const")
    return [graph.node(name).op for name in names if graph.node(name).op not in ends]


def reasons(ctx: PassContext, node: str) -> str:
    """Return what the pass of rules logged about a node."""
    return "\n".join(text for of, name, text in ctx.messages if of == "rules" and name == node)
