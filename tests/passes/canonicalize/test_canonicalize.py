"""Local rewrites: where each fires, where it must not, and that values stay equal bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.reference_run import lowered, run_lowered
from tfjit.passes.analysis.shape_inference import infer_shapes
from tfjit.passes.canonicalize.canonicalize import simplify
from tfjit.passes.canonicalize.fold_constants import fold_constants
from tfjit.passes.canonicalize.prune import prune
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.ir.run_spec import RunSpec
from tfjit.passes.manager.pass_context import PassContext, PassOptions
from tfjit.passes.pipeline import run_passes
from tfjit.passes.text.text_format import parse_graph

PASSES = (infer_shapes, simplify, prune)
SPECIAL = np.array([[1.5, -0.0, 0.0], [np.nan, np.inf, -np.inf]], np.float32)


def _simplify(
    text: str, feeds: dict[str, np.ndarray], fetches: list[str], passes: tuple = PASSES
) -> tuple[DataflowGraph, PassContext]:  # type: ignore[type-arg]
    before, _ = lowered(text, feeds, fetches)
    graph, ctx = lowered(text, feeds, fetches)
    run_passes(graph, passes, ctx)
    values = list(feeds.values())
    expected, got = run_lowered(before, values), run_lowered(graph, values)
    for index in expected:
        assert (
            expected[index].dtype == got[index].dtype and expected[index].shape == got[index].shape
        )
        assert expected[index].tobytes() == got[index].tobytes()
    return graph, ctx


def _left(graph: DataflowGraph) -> list[str]:
    return [node.name for node in graph.op_nodes() if node.op not in ("_Arg", "_Retval", "Const")]


@pytest.mark.parametrize(
    "line",
    [
        "y = Identity(x)",
        "y = StopGradient(x)",
        "y = PreventGradient(x)",
        "y = Snapshot(x)",
        "y = Mul(x, one)",
        "y = Mul(one, x)",
        "y = RealDiv(x, one)",
        "y = AddV2(x, minus_zero)",
        "y = Add(minus_zero, x)",
        "y = Sub(x, zero)",
        "y = Reshape(x, shape)",
        "y = Transpose(x, axes)",
        "y = Cast(x, DstT=float32)",
        "y = AddN(x)",
        "y = ConcatV2(x, axis)",
        "y = Pad(x, nothing)",
        "y = Squeeze(x)",
        "y = Sum(x, none)",
        "y = Tile(x, ones)",
        "y = EnsureShape(x, shape=<2,3>)",
        "m = Neg(x)\n y = Neg(m)",
        "t = Transpose(x, swap)\n y = Transpose(t, swap)",
        "t = Reshape(x, flat)\n y = Reshape(t, shape)",
        "t = Identity(x)\n u = Mul(t, one)\n y = StopGradient(u)",
    ],
)
def test_what_changes_nothing_goes(line: str) -> None:
    graph, _ = _simplify(CONSTANTS + line + "\n z = Exp(y)", {"x:0": SPECIAL}, ["z:0"])
    assert _left(graph) == ["z"], "only the consumer is left"
    assert graph.inputs("z") == [("_arg_x_0_0", 0)]


CONSTANTS = """
    x          = Placeholder(shape=<2,3>)
    one        = Const(dtype=float32, value=float32<>[1.0])
    zero       = Const(dtype=float32, value=float32<>[0.0])
    minus_zero = Const(dtype=float32, value=float32<>[-0.0])
    ones3      = Const(dtype=float32, value=float32<4,2,3>[1.0 ...])
    shape      = Const(dtype=int32, value=int32<2>[2, 3])
    flat       = Const(dtype=int32, value=int32<1>[6])
    axes       = Const(dtype=int32, value=int32<2>[0, 1])
    swap       = Const(dtype=int32, value=int32<2>[1, 0])
    axis       = Const(dtype=int32, value=int32<>[0])
    none       = Const(dtype=int32, value=int32<0>[])
    ones       = Const(dtype=int32, value=int32<2>[1, 1])
    nothing    = Const(dtype=int32, value=int32<2,2>[0, 0, 0, 0])
"""


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("y = AddV2(x, zero)", "turns -0.0 into 0.0"),
        ("y = Sub(x, minus_zero)", "turns -0.0 into 0.0"),
        ("y = Sub(zero, x)", ""),
        ("y = RealDiv(one, x)", ""),
        ("y = Mul(x, ones3)", "the 1 may broadcast 'x'|the 1 may broadcast '_arg_x_0_0'"),
        ("y = Transpose(x, swap)", ""),
        ("y = Reshape(x, flat)", ""),
        ("y = Cast(x, DstT=float64)", ""),
        ("m = Neg(x)\n y = Abs(m)", ""),
        ("i = Cast(x, DstT=int32)\n y = Cast(i, DstT=float32)", ""),
    ],
)
def test_what_changes_something_stays(line: str, reason: str) -> None:
    text = CONSTANTS + line + "\n z = Identity(y)"
    x = np.array([[1.5, -0.0, 0.0], [2.5, 7.0, -3.0]], np.float32)
    graph, ctx = _simplify(text, {"x:0": x}, ["z:0"])
    assert "y" in graph
    if reason:
        assert any(
            node == "y" and any(part in said for part in reason.split("|"))
            for _, node, said in ctx.messages
        )


def test_integers_may_lose_every_zero_and_one() -> None:
    graph, _ = _simplify(
        """
        x    = Placeholder(dtype=int32, shape=<3>)
        zero = Const(dtype=int32, value=int32<>[0])
        one  = Const(dtype=int32, value=int32<1>[1])
        a    = AddV2(x, zero)
        b    = FloorDiv(a, one)
        c    = Mul(b, one)
        w    = Cast(c, DstT=int64)
        y    = Cast(w, DstT=int32)
        """,
        {"x:0": np.array([-2147483648, -1, 7], np.int32)},
        ["y:0"],
    )
    assert _left(graph) == []


def test_a_dropped_node_hands_its_control_inputs_on() -> None:
    graph, _ = _simplify(
        """
        x    = Placeholder(shape=<2,3>)
        init = NoOp()
        i    = Identity(x, ^init)
        y    = Exp(i)
        """,
        {"x:0": SPECIAL},
        ["y:0"],
    )
    assert graph.control_inputs("y") == ["init"] and "i" not in graph


def test_an_identity_that_reads_a_reference_stays() -> None:
    graph, ctx = lowered(
        """
        v = VariableV2(dtype=float32, shape=<2>)
        i = Identity(v)
        y = Neg(i)
        """,
        {},
        ["y:0"],
    )
    run_passes(graph, PASSES, ctx)
    assert "i" in graph and any(
        node == "i" and "reads the variable 'v'" in said for _, node, said in ctx.messages
    )


def test_an_identity_that_marks_a_branch_stays() -> None:
    graph, ctx = lowered(
        """
        p = Placeholder(dtype=bool, shape=<>)
        s = Switch(p, p)
        t = Identity(s:1)
        c = Const(^t, dtype=float32, value=float32<>[1.0])
        """,
        {"p:0": np.array(True)},
        ["c:0"],
    )
    run_passes(graph, PASSES, ctx)
    assert graph.control_inputs("c") == ["t"]


def test_a_copy_to_another_device_stays() -> None:
    graph, ctx = lowered(
        "x = Placeholder(shape=<2,3>)\n i = Identity(x) on "
        "/job:localhost/replica:0/task:0/device:CPU:1\n y = Neg(i)",
        {"x:0": SPECIAL},
        ["y:0"],
    )
    run_passes(graph, PASSES, ctx)
    assert "i" in graph


def test_a_fetched_middle_is_still_fetched() -> None:
    graph, _ = _simplify(
        CONSTANTS + "i = Identity(x)\n y = Mul(i, one)\n z = Exp(y)",
        {"x:0": SPECIAL},
        ["i:0", "y:0", "z:0"],
    )
    assert graph.inputs("_retval_i_0_0") == [("_arg_x_0_0", 0)] == graph.inputs("_retval_y_0_1")


def test_transposes_are_joined() -> None:
    graph, _ = _simplify(
        """
        x = Placeholder(shape=<2,3,4>)
        p = Const(dtype=int32, value=int32<3>[1, 2, 0])
        q = Const(dtype=int32, value=int32<3>[0, 2, 1])
        a = Transpose(x, p)
        y = Transpose(a, q)
        """,
        {"x:0": np.arange(24, dtype=np.float32).reshape(2, 3, 4)},
        ["y:0"],
    )
    assert _left(graph) == ["y"] and graph.node("y").op == "Transpose"


def test_a_transpose_of_unit_axes_is_a_reshape() -> None:
    graph, _ = _simplify(
        """
        x = Placeholder(shape=<1,3,1,4>)
        p = Const(dtype=int32, value=int32<4>[1, 0, 3, 2])
        y = Transpose(x, p)
        """,
        {"x:0": np.arange(12, dtype=np.float32).reshape(1, 3, 1, 4)},
        ["y:0"],
    )
    assert graph.node("y").op == "Reshape"


def test_unknown_shapes_stop_what_needs_them() -> None:
    text = (
        CONSTANTS.replace("shape=<2,3>)", "shape=<?,3>)")
        + "y = Mul(x, one)\n z = Reshape(y, shape)"
    )
    from tfjit.passes.ir.run_spec import RunSpec
    from tfjit.passes.legalize.lower_feeds import lower_feeds
    from tfjit.passes.manager.pass_context import PassOptions
    from tfjit.passes.text.text_format import parse_graph

    graph = parse_graph(text)
    ctx = PassContext(RunSpec(("x:0",), ("z:0",)), PassOptions(verify=True))
    lower_feeds(graph, ctx)
    run_passes(graph, (prune, *PASSES), ctx)
    assert {"y", "z"} <= set(graph)


BATCH_NORM = """
    x        = Placeholder(shape={shape})
    scale    = Const(dtype=float32, value=float32<3>[1.5, 0.5, -2.0])
    offset   = Const(dtype=float32, value=float32<3>[0.1, -0.2, 0.3])
    mean     = Const(dtype=float32, value=float32<3>[0.5, 1.0, -1.0])
    variance = Const(dtype=float32, value=float32<3>[0.25, 4.0, 0.01])
    y        = {op}(x, scale, offset, mean, variance, epsilon=0.0010000000474974513, is_training={training}, data_format={layout})
"""


@pytest.mark.parametrize("op", ["FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_batch_norm_is_a_multiply_and_an_add(op: str, layout: str) -> None:
    size = (2, 4, 5, 3) if layout == "NHWC" else (2, 3, 4, 5)
    x = np.random.default_rng(0).standard_normal(size).astype(np.float32)
    shape = "<" + ",".join(map(str, size)) + ">"
    text = BATCH_NORM.format(op=op, shape=shape, training=False, layout=f"b'{layout}'")
    graph, ctx = lowered(text, {"x:0": x}, ["y:0"])
    run_passes(graph, (infer_shapes, simplify, fold_constants, prune), ctx)
    assert sorted(
        node.op for node in graph.op_nodes() if node.op not in ("_Arg", "_Retval", "Const")
    ) == ["AddV2", "Mul"]
    assert graph.node("y").op == "AddV2" and graph.node("y").output_shapes == (size,)
    got = run_lowered(graph, [x])[0]
    channels = (1, 1, 1, 3) if layout == "NHWC" else (1, 3, 1, 1)
    scale, offset, mean, variance = (
        np.array(v, np.float64).reshape(channels)
        for v in ([1.5, 0.5, -2.0], [0.1, -0.2, 0.3], [0.5, 1.0, -1.0], [0.25, 4.0, 0.01])
    )
    np.testing.assert_allclose(
        got,
        (x - mean) / np.sqrt(variance + np.float32(0.001)) * scale + offset,
        rtol=2e-6,
        atol=2e-6,
    )


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_batch_norm_by_statistics_that_are_fed(layout: str) -> None:
    size = (2, 4, 5, 3) if layout == "NHWC" else (2, 3, 4, 5)
    rng = np.random.default_rng(1)
    x = (rng.standard_normal(size) + 1000).astype(np.float32)
    scale, offset, mean = (rng.standard_normal(3).astype(np.float32) for _ in range(3))
    mean += 1000  # far from 0 beside the deviation: mean * a must not be rounded away
    variance = rng.uniform(0.5, 2, 3).astype(np.float32)
    lines = ["x = Placeholder(shape=<" + ",".join(map(str, size)) + ">)"]
    lines += [
        f"{name} = Placeholder(shape=<3>)" for name in ("scale", "offset", "mean", "variance")
    ]
    attrs = f"epsilon=0.0010000000474974513, is_training=False, data_format=b'{layout}'"
    lines.append(f"y = FusedBatchNormV3(x, scale, offset, mean, variance, {attrs})")
    feeds = {"x:0": x, "scale:0": scale, "offset:0": offset, "mean:0": mean, "variance:0": variance}
    graph, ctx = lowered("\n".join(lines), feeds, ["y:0"])
    run_passes(graph, PASSES, ctx)
    ops = sorted(
        node.op
        for node in graph.op_nodes()
        if node.op not in ("_Arg", "_Retval", "Const", "Reshape")
    )
    assert ops == ["AddV2", "AddV2", "Mul", "Mul", "Rsqrt", "Sub"]
    got = run_lowered(graph, list(feeds.values()))[0]
    channels = (1, 1, 1, 3) if layout == "NHWC" else (1, 3, 1, 1)
    s, o, m, v = (
        value.astype(np.float64).reshape(channels) for value in (scale, offset, mean, variance)
    )
    np.testing.assert_allclose(
        got, (x - m) / np.sqrt(v + np.float32(0.001)) * s + o, rtol=2e-6, atol=2e-6
    )


def test_batch_norm_in_training_is_taken_apart_and_with_used_statistics_stays() -> None:
    x = np.zeros((2, 4, 5, 3), np.float32)
    text = BATCH_NORM.format(
        op="FusedBatchNormV3", shape="<2,4,5,3>", training=True, layout="b'NHWC'"
    )
    graph, ctx = lowered(text, {"x:0": x}, ["y:0"])
    run_passes(graph, PASSES, ctx)
    assert graph.node("y").op == "AddV2" and graph.node("y").output_shapes == (x.shape,)
    assert sorted(
        node.op for node in graph.op_nodes() if node.op in ("Mean", "SquaredDifference")
    ) == ["Mean", "Mean", "SquaredDifference"]
    text = BATCH_NORM.format(
        op="FusedBatchNormV3", shape="<2,4,5,3>", training=False, layout="b'NHWC'"
    )
    graph, ctx = lowered(text, {"x:0": x}, ["y:0", "y:1"])
    run_passes(graph, PASSES, ctx)
    assert graph.node("y").op == "FusedBatchNormV3" and any(
        "its outputs [1] are used" in said for _, _, said in ctx.messages
    )


@pytest.mark.parametrize("shape", ["<2,4,5,?>", "<2,4,5,4>", "<2,4,3>", "<?,?,?,?>"])
@pytest.mark.parametrize("known", [True, False])
def test_batch_norm_of_channels_that_do_not_fit_or_are_not_known_stays(
    shape: str, known: bool
) -> None:
    text = BATCH_NORM.format(op="FusedBatchNormV3", shape=shape, training=False, layout="b'NHWC'")
    if not known:
        text = text.replace(
            "mean     = Const(dtype=float32, value=float32<3>[0.5, 1.0, -1.0])",
            "mean = Placeholder(shape=<3>)",
        )
    graph = parse_graph(text)
    ctx = PassContext(RunSpec(fetches=("y:0",)), PassOptions())
    run_passes(graph, (simplify,), ctx)
    assert graph.node("y").op == "FusedBatchNormV3" and any(
        "channels" in said or "rank" in said for _, _, said in ctx.messages
    )


def test_constants_made_in_a_loop_belong_to_it() -> None:
    graph, ctx = lowered(
        """
        x = Placeholder(shape=<2,3,4>)
        e = Enter(x, frame_name=b'loop')
        m = Merge(e, n)
        p = Const(^m, dtype=int32, value=int32<3>[1, 2, 0])
        a = Transpose(m, p)
        b = Transpose(a, p)
        l = Less(m, m)
        c = LoopCond(l)
        s = Switch(m, c)
        n = NextIteration(b)
        o = Exit(s)
        """,
        {"x:0": np.zeros((2, 3, 4), np.float32)},
        ["o:0"],
    )
    run_passes(graph, (simplify,), ctx)
    made = graph.inputs("b")[1][0]
    assert graph.node(made).attrs["value"].tolist() == [2, 0, 1] and graph.control_inputs(made) == [
        "m"
    ]


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("op", ["Sum", "Mean", "Max", "Prod"])
def test_reductions_over_axes_of_size_1_only_move(op: str, keep: bool) -> None:
    text = f"""
        x = Placeholder(shape=<2,1,3>)
        k = Const(dtype=int32, value=int32<1>[-2])
        y = {op}(x, k, keep_dims={keep})
    """
    x = SPECIAL.reshape(2, 1, 3)
    graph, ctx = lowered(text, {"x:0": x}, ["y:0"])
    run_passes(graph, PASSES, ctx)
    assert _left(graph) == ([] if keep else ["y"]) and (keep or graph.node("y").op == "Reshape")
    got = run_lowered(graph, [x])[0]
    assert got.shape == ((2, 1, 3) if keep else (2, 3)) and got.tobytes() == x.tobytes(), (
        "-0.0 and NaN stay what they are, as in TensorFlow"
    )


@pytest.mark.parametrize(
    ("product", "left"),
    [
        ("y = MatMul(xt, w)", ["y"]),
        ("y = MatMul(w2, xt)", ["y"]),
        ("y = MatMul(x, xt)", ["y"]),
        ("y = MatMul(xt, w, transpose_a=True, transpose_b=True)", ["y"]),
        ("m = MatMul(xt, w)\n y = AddN(m, xt)", ["xt", "m", "y"]),
        ("z = Transpose(b, last)\n y = BatchMatMulV2(b, z)", ["y"]),
        ("z = Transpose(b, last)\n y = BatchMatMulV2(z, b, adj_x=True, adj_y=True)", ["y"]),
        ("z = Transpose(b, first)\n y = BatchMatMulV2(z, b)", ["z", "y"]),
    ],
)
def test_transposes_become_the_products_own(product: str, left: list[str]) -> None:
    text = f"""
        x     = Placeholder(dtype=float32, shape=<3,3>)
        w     = Placeholder(dtype=float32, shape=<3,3>)
        w2    = Placeholder(dtype=float32, shape=<5,3>)
        b     = Placeholder(dtype=float32, shape=<2,2,2>)
        swap  = Const(value=int32<2>[1, 0])
        last  = Const(value=int32<3>[0, 2, 1])
        first = Const(value=int32<3>[1, 0, 2])
        xt    = Transpose(x, swap)
        {product}
    """
    rng = np.random.default_rng(0)  # whole numbers: every order of a sum gives the same
    feeds = {
        f"{name}:0": rng.integers(-9, 9, shape).astype(np.float32)
        for name, shape in _MATRICES.items()
        if f"{name}" in product
    }
    if "xt" in product:
        feeds["x:0"] = rng.integers(-9, 9, (3, 3)).astype(np.float32)
    graph, _ = _simplify(text, feeds, ["y:0"])
    assert _left(graph) == left


_MATRICES = {"w": (3, 3), "w2": (5, 3), "b": (2, 2, 2)}


def test_an_adjoint_of_complex_numbers_is_no_transpose() -> None:
    text = """
        b    = Placeholder(dtype=complex64, shape=<2,2,2>)
        last = Const(value=int32<3>[0, 2, 1])
        z    = Transpose(b, last)
        y    = BatchMatMulV2(b, z)
    """
    graph, _ = _simplify(
        text, {"b:0": (np.arange(8) * (1 + 2j)).astype(np.complex64).reshape(2, 2, 2)}, ["y:0"]
    )
    assert "z" in _left(graph)


@pytest.mark.parametrize("kind", ["Sum", "Mean", "SqrtN"])
def test_known_segments_are_counted(kind: str) -> None:
    text = f"""
        x       = Placeholder(shape=<3,2>)
        indices = Const(value=int32<4>[2, 0, 2, 1])
        ids     = Const(value=int32<4>[0, 0, 1, 3])
        y       = SparseSegment{kind}(x, indices, ids)
    """
    graph, _ = _simplify(text, {"x:0": np.arange(6, dtype="f4").reshape(3, 2)}, ["y:0"])
    assert graph.node("y").op == f"SparseSegment{kind}WithNumSegments"
    assert graph.node("y").output_shapes == ((4, 2),)


@pytest.mark.parametrize("ids", ["int32<3>[1, 0, 2]", "int32<3>[-1, 0, 2]", "int32<0>[]"])
def test_faulty_segments_are_left_to_the_run(ids: str) -> None:
    text = f"""
        x = Const(value=float32<3>[1, 2, 3])
        i = Const(value=int32<3>[0, 1, 2])
        s = Const(value={ids})
        y = SparseSegmentSum(x, i, s)
    """
    graph, ctx = lowered(text, {}, ["y:0"])
    run_passes(graph, PASSES, ctx)
    assert graph.node("y").op == "SparseSegmentSum"


@pytest.mark.parametrize(
    ("indices", "axis", "left"),
    [
        ("int32<2>[0, 1]", 0, []),
        ("int32<2>[1, 0]", 0, ["y"]),
        ("int32<1>[0]", 0, ["y"]),
        ("int32<3>[0, 1, 2]", 1, ["y"]),
        ("int32<2,1>[0, 1]", 0, ["y"]),
    ],
)
def test_all_rows_in_order(indices: str, axis: int, left: list[str]) -> None:
    text = f"""
        x    = Placeholder(shape=<2,3>)
        i    = Const(value={indices})
        axis = Const(value=int32<>[{axis}])
        y    = GatherV2(x, i, axis)
    """
    graph, _ = _simplify(text, {"x:0": SPECIAL}, ["y:0"])
    assert _left(graph) == left
