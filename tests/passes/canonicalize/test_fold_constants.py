"""Constant folding and shape inference: where they fire, where they must not, and that values stay
equal.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.reference_run import lowered, run_lowered
from tfjit.framework.types import dtypes
from tfjit.passes.analysis.shape_inference import infer_shapes
from tfjit.passes.canonicalize.fold_constants import fold_constants
from tfjit.passes.canonicalize.prune import prune
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.ir.run_spec import RunSpec
from tfjit.passes.manager.pass_context import PassContext, PassOptions
from tfjit.passes.pipeline import run_passes
from tfjit.passes.text.text_format import parse_graph

FOLD = (infer_shapes, fold_constants, prune)


def _fold(
    text: str, feeds: dict[str, np.ndarray], fetches: list[str], **options: object
) -> tuple[DataflowGraph, PassContext]:
    before, _ = lowered(text, feeds, fetches)
    graph, ctx = lowered(text, feeds, fetches)
    ctx.options = PassOptions(verify=True, **options)  # type: ignore[arg-type]
    run_passes(graph, FOLD, ctx)
    values = list(feeds.values())
    expected, got = run_lowered(before, values), run_lowered(graph, values)
    assert expected.keys() == got.keys()
    for index in expected:
        assert (
            expected[index].dtype == got[index].dtype and expected[index].shape == got[index].shape
        )
        np.testing.assert_array_equal(expected[index], got[index])
    return graph, ctx


def test_a_cone_of_constants_becomes_one_constant_of_the_same_name() -> None:
    graph, _ = _fold(
        """
        a = Const(dtype=float32, value=float32<2>[1.0, 2.0])
        b = Square(a)
        c = AddV2(b, a)
        x = Placeholder(shape=<2>)
        y = Mul(c, x)
        """,
        {"x:0": np.array([3, -0.0], np.float32)},
        ["y:0", "c:0"],
    )
    assert graph.node("c").op == "Const" and graph.node("c").attrs["value"].tolist() == [2.0, 6.0]
    assert "b" not in graph and "a" not in graph
    assert graph.inputs("y")[0] == ("c", 0) and graph.node("c").origin == ("c",)


def test_shapes_of_feeds_are_constants_and_the_feed_is_not_read_for_them() -> None:
    graph, _ = _fold(
        """
        x = Placeholder(shape=<?,3>)
        e = Exp(x)
        s = Shape(e)
        n = Size(e)
        r = Rank(e)
        """,
        {"x:0": np.zeros((5, 3), np.float32)},
        ["s:0", "n:0", "r:0"],
    )
    assert (
        graph.node("s").attrs["value"].tolist() == [5, 3]
        and graph.node("n").attrs["value"] == 15
        and graph.node("r").attrs["value"] == 2
    )
    assert "e" not in graph and "_arg_x_0_0" not in graph


def test_reshape_by_a_computed_shape_becomes_static() -> None:
    graph, _ = _fold(
        """
        x     = Placeholder(shape=<?,?,4>)
        s     = Shape(x)
        zero  = Const(dtype=int32, value=int32<1>[0])
        one   = Const(dtype=int32, value=int32<1>[1])
        n     = StridedSlice(s, zero, one, one, shrink_axis_mask=1)
        minus = Const(dtype=int32, value=int32<>[-1])
        p     = Pack(n, minus)
        y     = Reshape(x, p)
        """,
        {"x:0": np.arange(24, dtype=np.float32).reshape(2, 3, 4)},
        ["y:0"],
    )
    assert graph.node("y").output_shapes == ((2, 12),)
    assert graph.node("p").op == "Const"


def test_partly_known_shape_vectors_are_followed_without_feed_shapes() -> None:
    graph = parse_graph("""
        x     = Placeholder(shape=<?,3,4>)
        s     = Shape(x)
        zero  = Const(dtype=int32, value=int32<1>[0])
        one   = Const(dtype=int32, value=int32<1>[1])
        n     = StridedSlice(s, zero, one, one, shrink_axis_mask=1)
        c12   = Const(dtype=int32, value=int32<>[12])
        p     = Pack(n, c12)
        y     = Reshape(x, p)
        three = Const(dtype=int32, value=int32<1>[3])
        tail  = StridedSlice(s, one, three, one)
        axis  = Const(dtype=int32, value=int32<>[0])
        head  = ConcatV2(tail, one, axis)
        z     = Fill(head, v)
        v     = Const(dtype=float32, value=float32<>[2.0])
    """)
    infer_shapes(graph, PassContext(RunSpec()))
    assert graph.node("y").output_shapes == ((None, 12),)
    assert graph.node("z").output_shapes == ((3, 4, 1),)


def test_control_inputs_of_what_is_folded_are_kept() -> None:
    graph, _ = _fold(
        """
        init = NoOp()
        last = NoOp()
        a = Const(dtype=float32, value=float32<>[2.0], ^init)
        b = Square(a, ^last)
        """.replace("value=float32<>[2.0], ^init", "value=float32<>[2.0]").replace(
            "a = Const(", "a = Const(^init, "
        ),
        {},
        ["b:0"],
    )
    assert graph.node("b").op == "Const" and sorted(graph.control_inputs("b")) == ["init", "last"]


def test_stateful_random_and_variable_reads_stay() -> None:
    graph, ctx = lowered(
        """
        s = Const(dtype=int32, value=int32<1>[3])
        r = RandomUniform(s, dtype=float32, seed=1, seed2=2)
        v = VariableV2(dtype=float32, shape=<3>)
        i = Identity(v)
        y = AddV2(r, i)
        """,
        {},
        ["y:0"],
    )
    run_passes(graph, FOLD, ctx)
    assert {"r", "v", "i", "y"} <= set(graph)


def test_size_limit() -> None:
    text = """
        s = Const(dtype=int32, value=int32<1>[1000])
        v = Const(dtype=float32, value=float32<>[1.0])
        f = Fill(s, v)
        x = Placeholder(shape=<>)
        y = Mul(f, x)
    """
    graph, ctx = _fold(text, {"x:0": np.array(2, np.float32)}, ["y:0"], max_folded_bytes=3999)
    assert graph.node("f").op == "Fill"
    assert any(
        node == "f" and "4000 bytes is above the limit of 3999" in text
        for _, node, text in ctx.messages
    )
    graph, _ = _fold(text, {"x:0": np.array(2, np.float32)}, ["y:0"], max_folded_bytes=4000)
    assert graph.node("f").op == "Const"


def test_a_failing_evaluation_is_left_for_the_run() -> None:
    graph, ctx = lowered(
        """
        a = Const(dtype=int32, value=int32<>[1])
        z = Const(dtype=int32, value=int32<>[0])
        y = FloorDiv(a, z)
        """,
        {},
        ["y:0"],
    )
    run_passes(graph, FOLD, ctx)
    assert graph.node("y").op == "FloorDiv"
    assert any(node == "y" and "stays" in text for _, node, text in ctx.messages)


def test_several_outputs_get_a_constant_each() -> None:
    graph, _ = _fold(
        """
        axis = Const(dtype=int32, value=int32<>[0])
        c = Const(dtype=float32, value=float32<4>[1.0, 2.0, 3.0, 4.0])
        s = Split(axis, c, num_split=2)
        x = Placeholder(shape=<2>)
        y = AddV2(s:1, x)
        z = Mul(s:1, s)
        """,
        {"x:0": np.zeros(2, np.float32)},
        ["y:0", "z:0"],
    )
    assert "s" not in graph and graph.node("z").op == "Const"
    assert graph.node(graph.inputs("y")[0][0]).attrs["value"].tolist() == [3.0, 4.0]


def test_incompatible_feeds_are_left_for_the_run_to_report() -> None:
    graph, ctx = lowered(
        """
        x = Placeholder()
        w = Placeholder()
        y = AddV2(x, w)
        z = Neg(y)
        """,
        {"x:0": np.zeros(3, np.float32), "w:0": np.zeros(2, np.float32)},
        ["z:0"],
    )
    infer_shapes(graph, ctx)
    assert graph.node("y").output_shapes == (None,) and graph.node("z").output_shapes == (None,)
    assert any(
        node == "y" and "Dimensions must be equal, but are 3 and 2" in text
        for _, node, text in ctx.messages
    )


def test_variables_tell_their_shapes() -> None:
    graph = parse_graph("""
        v = VariableV2(dtype=float32, shape=<2,3>)
        i = Identity(v)
        h = VarHandleOp(dtype=float32, shape=<4,5>)
        r = ReadVariableOp(h, dtype=float32)
        n = Neg(r)
    """)
    infer_shapes(graph, PassContext(RunSpec()))
    assert graph.node("i").output_shapes == ((2, 3),)
    assert graph.node("n").output_shapes == ((4, 5),)


LOOP = """
    x    = Placeholder(shape=<2>)
    zero = Const(dtype=int32, value=int32<>[0])
    ei   = Enter(zero, frame_name=b'loop')
    ex   = Enter(x, frame_name=b'loop')
    mi   = Merge(ei, ni)
    mx   = Merge(ex, nx)
    ten  = Const(^mi, dtype=int32, value=int32<>[10])
    less = Less(mi, ten)
    cond = LoopCond(less)
    si   = Switch(mi, cond)
    sx   = Switch(mx, cond)
    one  = Const(^si, dtype=int32, value=int32<>[1])
    add  = AddV2(si:1, one)
    ni   = NextIteration(add)
    {body}
    nx   = NextIteration(grow)
    out  = Exit(sx)
"""


def test_loops_settle_on_the_shapes_they_carry() -> None:
    graph = parse_graph(LOOP.format(body="grow = Neg(sx:1)"))
    infer_shapes(graph, PassContext(RunSpec()))
    assert graph.node("out").output_shapes == ((2,),) and graph.node("mi").output_shapes == ((), ())
    graph = parse_graph(
        LOOP.format(
            body="axis = Const(^sx, dtype=int32, value=int32<>[0])\n    grow = ConcatV2(sx:1, "
            "sx:1, axis)"
        )
    )
    infer_shapes(graph, PassContext(RunSpec()))
    assert graph.node("out").output_shapes == ((None,),), (
        "its size changes from iteration to iteration, its rank does not"
    )


def test_constants_of_a_loop_body_stay_in_their_frame() -> None:
    graph, ctx = lowered(
        LOOP.format(
            body="two = AddV2(one, one)\n    c = Cast(two, DstT=float32)\n    grow = Mul(sx:1, c)"
        ),
        {"x:0": np.ones(2, np.float32)},
        ["out:0"],
    )
    run_passes(graph, FOLD, ctx)
    assert graph.node("c").op == "Const" and graph.control_inputs("c") == ["si"]


def test_shapes_of_what_may_be_dead_still_wait_for_it() -> None:
    graph, ctx = lowered(
        """
        x = Placeholder(shape=<3>)
        p = Placeholder(dtype=bool, shape=<>)
        s = Switch(x, p)
        n = Shape(s:1)
        """,
        {"x:0": np.ones(3, np.float32), "p:0": np.array(True)},
        ["n:0"],
    )
    run_passes(graph, FOLD, ctx)
    assert graph.node("n").op == "Const" and graph.control_inputs("n") == ["s"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_subnormals_are_flushed_as_a_run_flushes_them(dtype: type) -> None:
    tiny = np.array(
        [1e-39 if dtype is np.float32 else 1e-310, -1e-39 if dtype is np.float32 else -1e-310, 1.0],
        dtype,
    )
    graph = DataflowGraph()
    graph.add_node_op("c", "Const", (), {"dtype": dtypes.as_dtype(dtype), "value": tiny})
    graph.add_node_op("y", "Mul", [("c", 0), ("c2", 0)] if "c2" in graph else [("c", 0), ("c", 0)])
    graph.add_node_op("z", "AddV2", [("c", 0), ("c", 0)])
    graph.tie_ends()
    infer_shapes(graph, PassContext(RunSpec()))
    fold_constants(graph, PassContext(RunSpec()))
    value = graph.node("z").attrs["value"]
    assert value.tolist() == [0.0, 0.0, 2.0] and np.signbit(value).tolist() == [False, True, False]
