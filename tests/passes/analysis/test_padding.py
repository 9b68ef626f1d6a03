"""Padded outputs: which nodes may have them, and which values show padding."""

from __future__ import annotations

import pytest

from tfjit.passes.analysis.padding import Padding, find_padding
from tfjit.passes.analysis.shape_inference import infer_shapes
from tfjit.passes.ir.dataflow_graph import SINK, SOURCE
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.text.text_format import parse_graph

START = """
    ids = Placeholder(dtype=int32, shape=<8>)
    grad = Placeholder(dtype=float32, shape=<8, 4>)
    scale = Placeholder(dtype=float32, shape=<>)
    like = Placeholder(dtype=float32, shape=<?, 4>)
    v = VariableV2(dtype=float32, shape=<20, 4>)
    slot = VariableV2(dtype=float32, shape=<20, 4>)
    u = Unique(ids, out_idx=int32)
    zero = Const(dtype=int32, value=int32<1>[0])
    one = Const(dtype=int32, value=int32<1>[1])
    two = Const(dtype=int32, value=int32<1>[2])
    shape = Shape(u)
    count = StridedSlice(shape, zero, one, one, shrink_axis_mask=1)
    sums = UnsortedSegmentSum(grad, u:1, count)
"""


def found(text: str, kept: tuple[tuple[str, int], ...] = ()) -> Padding:
    graph = parse_graph(START + text)
    infer_shapes(graph, PassContext())
    return find_padding(graph, [name for name in graph if name not in (SOURCE, SINK)], kept)


@pytest.mark.parametrize(
    ("text", "updates"),
    [
        ("w = SparseApplyAdagrad(v, slot, scale, sums, u)", {"w"}),
        ("w = ScatterAdd(v, u, sums)", {"w"}),
        ("w = ScatterUpdate(v, u, sums)\n x = ScatterAdd(v, u, sums)", {"w", "x"}),
        ("y = Mul(sums, scale)\n z = Square(y)\n w = ScatterAdd(v, u, z)", {"w"}),
        ("y = Mul(sums, sums)\n w = ScatterSub(v, u, y)", {"w"}),
        ("i = Identity(u)\n s = Identity(sums)\n w = ScatterSub(v, i, s)", {"w"}),
        ("w = ScatterUpdate(v, u, scale)", {"w"}),
        ("n = Size(u)\n s = UnsortedSegmentSum(grad, u:1, n)\n w = ScatterAdd(v, u, s)", {"w"}),
        ("w = ScatterAdd(v, u, sums)\n p = Neg(u:1)", {"w"}),  # the places have no padding
    ],
)
def test_updates_of_rows_ignore_padding(text: str, updates: set[str]) -> None:
    assert found(text) == Padding({"u": updates})


@pytest.mark.parametrize(
    "text",
    [
        "",  # nothing is updated
        "w = ScatterAdd(v, u, sums)\n y = Neg(count)",
        "w = ScatterAdd(v, u, sums)\n y = Neg(u)",
        "w = ScatterAdd(v, u, sums)\n axes = Const(dtype=int32, value=int32<1>[0])\n"
        "y = Sum(sums, axes)",
        "w = ScatterAdd(v, u, sums)\n y = GatherNd(sums, two)",
        "w = ScatterAdd(v, u, sums)\n y = StridedSlice(shape, zero, two, one)",
        "y = AddV2(sums, like)\n w = ScatterAdd(v, u, y)",  # as many rows as distinct indices
        "y = FloorDiv(u, two)\n w = ScatterAdd(v, y, sums)",
        "w = ScatterAdd(v, u, like)",
        "w = ScatterAdd(v, ids, grad)\n y = ScatterNdUpdate(v, u, sums)",
        "e = Unique(u, out_idx=int32)\n w = ScatterAdd(v, u, sums)",
        "w = ScatterAdd(v, u, sums)\n"
        "t = UnsortedSegmentMax(grad, u:1, count)\n x = ScatterAdd(v, u, t)",
    ],
)
def test_other_uses_show_padding(text: str) -> None:
    assert found(text) == Padding()


@pytest.mark.parametrize("tensor", [("u", 0), ("sums", 0), ("count", 0)])
def test_fetched_values_show_padding(tensor: tuple[str, int]) -> None:
    update = "w = ScatterAdd(v, u, sums)"
    assert found(update, (tensor,)) == Padding()
    assert found(update, (("u", 1), ("w", 0), ("grad", 0))) == Padding({"u": {"w"}})


GRADIENT = """
    segments = Placeholder(dtype=int32, shape=<9>)
    rows = Placeholder(dtype=int32, shape=<9>)
    dim = Const(dtype=int32, value=int32<>[20])
    g = SparseSegmentSumGradV2(grad, rows, segments, dim)
    e = Unique(g:1, out_idx=int32)
    n = Size(e)
    s = UnsortedSegmentSum(g, e:1, n)
    w = ScatterAdd(v, e, s)
"""


@pytest.mark.parametrize(
    ("more", "is_summed"),
    [("", True), ("y = Neg(g)", False), ("y = Neg(g:1)", False),
     ("y = UnsortedSegmentSum(g, u:1, n)", False)],
)  # fmt: skip
def test_gradients_that_are_summed(more: str, is_summed: bool) -> None:
    assert found(GRADIENT + more).gradients == ({"g"} if is_summed else set())
    assert not found(GRADIENT + more, (("g", 1),)).gradients
