"""Distinct indices of known size: what the pass changes, and what it leaves."""

from __future__ import annotations

import pytest

from tfjit.passes.analysis.shape_inference import infer_shapes
from tfjit.passes.canonicalize.fold_constants import fold_constants
from tfjit.passes.canonicalize.pad_unique import pad_unique
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.pipeline import run_passes
from tfjit.passes.text.text_format import parse_graph

TEXT = """
    ids = Placeholder(dtype=int32, shape=<8>)
    grad = Placeholder(dtype=float32, shape=<8, 4>)
    segments = Placeholder(dtype=int32, shape=<9>)
    rows = Placeholder(dtype=int32, shape=<9>)
    v = VariableV2(dtype=float32, shape=<20, 4>)
    dim = Const(dtype=int32, value=int32<>[20])
"""
UPDATE = """
    u = Unique(ids, out_idx=int32)
    count = Size(u)
    sums = UnsortedSegmentSum(grad, u:1, count)
    y = Square(sums)
    w = ScatterAdd(v, u, y)
"""
GRADIENT = """
    g = SparseSegmentSumGradV2(grad, rows, segments, dim)
    e = Unique(g:1, out_idx=int32)
    n = Size(e)
    s = UnsortedSegmentSum(g, e:1, n)
    x = ScatterAdd(v, e, s)
"""


def padded(text: str) -> DataflowGraph:
    graph = parse_graph(TEXT + text)
    run_passes(graph, (infer_shapes, pad_unique, infer_shapes, fold_constants), PassContext())
    return graph


def test_all_shapes_are_static() -> None:
    graph = padded(UPDATE)
    assert graph.node("u").op == "_PaddedUnique" and graph.node("w").attrs["_padded"] is True
    assert graph.node("count").op == "Const"
    shapes = {name: graph.node(name).output_shapes for name in ("u", "sums", "y")}
    assert shapes == {"u": ((8,), (8,)), "sums": ((8, 4),), "y": ((8, 4),)}


def test_the_gradient_of_segments_is_summed_once() -> None:
    graph = padded(UPDATE + GRADIENT)
    assert graph.node("g").op == "GatherV2" and graph.node("e").op == "_PaddedUnique"
    assert graph.inputs("e") == [("rows", 0)]
    assert graph.inputs("g")[:2] == [("grad", 0), ("segments", 0)]
    assert graph.node("s").output_shapes == ((9, 4),)


def test_no_more_rows_than_a_table_can_have() -> None:
    """And one more: that of an index out of range."""
    text = UPDATE.replace("w = ", "small = VariableV2(dtype=float32, shape=<5, 4>)\n w = ")
    for table, rows in (("small", 6), ("v", 8)):
        graph = padded(text.replace("(v", f"({table}"))
        assert graph.node("sums").output_shapes == ((rows, 4),)
    graph = padded(text + "x = ScatterSub(small, u, y)")  # a table of 20 rows beside
    assert graph.node("u").attrs["limit"] == 21


def test_a_resource_has_the_rows_of_its_handle() -> None:
    start = "h = VarHandleOp(dtype=float32, shape=<5, 4>)\n i = Identity(h)\n w = Resource"
    graph = padded(UPDATE.replace("w = ", start).replace("(v", "(i"))
    assert graph.node("u").attrs["limit"] == 6
    graph = padded(UPDATE.replace("w = ", start).replace("(v", "(i").replace("<5", "<?"))
    assert graph.node("u").attrs["limit"] == 0


@pytest.mark.parametrize("more", ["z = Neg(u)", "z = Max(y, dim)"])
def test_values_that_show_padding_stay(more: str) -> None:
    graph = padded(UPDATE + more)
    assert graph.node("u").op == "Unique" and "_padded" not in graph.node("w").attrs
