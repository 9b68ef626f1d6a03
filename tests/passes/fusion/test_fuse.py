"""The fuse pass: where it fires, where it must not, and that values stay the same."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfjit.kernels.cpu  # noqa: F401  (registers every kernel)
from tests.passes.fusing import evaluate, fused, groups
from tfjit.framework.types import dtypes as d
from tfjit.kernels.ir.fused_group import FusedGroup
from tfjit.kernels.registry import find_native
from tfjit.passes.analysis.shape_inference import infer_shapes
from tfjit.passes.fusion.fuse import fuse
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.ir.run_spec import RunSpec
from tfjit.passes.manager.pass_context import PassContext, PassOptions
from tfjit.passes.pipeline import build
from tfjit.passes.text.text_format import parse_graph

# nodes that keep a value from being used inside only: what a fetch becomes
FETCH = "_Retval"


def members(graph: DataflowGraph) -> list[set[str]]:
    return [set(group.names) for group in groups(graph).values()]


def check(
    text: str, rtol: float = 0.0, unknown: dict[str, tuple[int, ...]] | None = None
) -> DataflowGraph:
    """Fuse a text whose fetches are `_Retval` nodes, and compare what they are given with the
    unfused graph's values.
    """
    plain = parse_graph(text)
    ctx = PassContext()
    infer_shapes(plain, ctx)
    graph, _ = fused(text)
    rng = np.random.default_rng(0)
    feeds = {}
    for node in plain.op_nodes():
        if node.op == "Placeholder":
            shape = (unknown or {}).get(node.name) or node.output_shapes[0]
            feeds[node.name] = rng.standard_normal(shape).astype(
                node.output_dtypes[0].as_numpy_dtype
            )
    before = evaluate(plain, feeds, native=False)
    for native in (False, True):
        after = evaluate(graph, feeds, native)
        for node in plain.op_nodes():
            if node.op == FETCH:
                (old,), (new,) = plain.inputs(node.name), graph.inputs(node.name)
                want, got = before[f"{old[0]}:{old[1]}"], after[f"{new[0]}:{new[1]}"]
                assert want.shape == got.shape
                if rtol and native:
                    np.testing.assert_allclose(got, want, rtol=rtol, atol=1e-6)
                else:
                    np.testing.assert_array_equal(got, want)
    return graph


CONV = """
    x    = Placeholder(shape=<2,6,6,3>)
    w    = Placeholder(shape=<3,3,3,8>)
    b    = Placeholder(shape=<8>)
    conv = Conv2D(x, w, strides=[1,1,1,1], padding=b'SAME')
"""


def test_convolution_takes_bias_activation_and_residual() -> None:
    graph = check(
        CONV
        + """
        r    = Placeholder(shape=<2,6,6,8>)
        bias = BiasAdd(conv, b)
        relu = Relu6(bias)
        add  = AddV2(r, relu)
        y    = _Retval(add, index=0)
        """,
        rtol=1e-5,
    )
    (group,) = groups(graph).values()
    assert group.kind == "conv2d"
    assert group.names == ("conv", "bias", "relu", "add")
    assert graph.node("add").origin == ("conv", "bias", "relu", "add")


def test_middle_value_that_is_needed_elsewhere_becomes_an_output() -> None:
    graph = check(
        CONV
        + """
        bias = BiasAdd(conv, b)
        relu = Relu(bias)
        y    = _Retval(relu, index=0)
        z    = _Retval(bias, index=1)
        """,
        rtol=1e-5,
    )
    (group,) = groups(graph).values()
    assert len(group.outputs) == 2


PADDED = """
    x    = Placeholder(shape=<2,6,7,4>)
    pads = Const(value=int32<4,2>[0, 0, 0, 1, 1, 1, 0, 0])
    pad  = Pad(x, pads)
    w    = Placeholder(shape=<3,3,4,{multiplier}>)
    b    = Placeholder(shape=<{channels}>)
    conv = {op}(pad, w, strides=[1,2,2,1], padding=b'VALID')
    bias = BiasAdd(conv, b)
    y    = _Retval(bias, index=0)
"""


@pytest.mark.parametrize(
    ("op", "multiplier", "channels"), [("Conv2D", 5, 5), ("DepthwiseConv2dNative", 1, 4)]
)
def test_zero_padding_becomes_the_convolutions_own(op: str, multiplier: int, channels: int) -> None:
    text = PADDED.format(op=op, multiplier=multiplier, channels=channels)
    graph = check(text, rtol=1e-5)
    assert not graph.has_node("pad")
    assert graph.node("bias").origin == ("pad", "conv", "bias")
    graph = check(text + "\n z = _Retval(pad, index=1)", rtol=1e-5)
    assert graph.node("pad").op == "Pad"


def test_operand_computed_beside_the_product_joins_its_epilogue() -> None:
    graph = check(
        """
        x = Placeholder(shape=<5,7>)
        w = Placeholder(shape=<7,9>)
        r = Placeholder(shape=<5,9>)
        p = MatMul(x, w)
        t = Tanh(r)
        s = Mul(t, p)
        y = _Retval(s, index=0)
        """,
        rtol=1e-5,
    )
    assert members(graph) == [{"p", "t", "s"}]


def test_elementwise_chain_with_broadcasts_and_two_results() -> None:
    graph = check(
        """
        x = Placeholder(shape=<4,5,6>)
        c = Placeholder(shape=<5,1>)
        a = Mul(x, c)
        b = Sub(a, x)
        e = Relu(a)
        f = AddV2(b, e)
        y = _Retval(f, index=0)
        z = _Retval(b, index=1)
        """
    )
    assert members(graph) == [{"a", "b", "e", "f"}]


def test_two_branches_become_one_loop() -> None:
    graph = check(
        """
        x = Placeholder(shape=<40>)
        y = Placeholder(shape=<40>)
        a = Neg(x)
        b = Square(a)
        c = Relu(y)
        d = Abs(c)
        e = Mul(b, d)
        f = _Retval(e, index=0)
        """
    )
    assert members(graph) == [{"a", "b", "c", "d", "e"}]


@pytest.mark.parametrize("most", [2, 3, 7])
def test_a_limit_of_members_divides_a_chain(most: int) -> None:
    links = "".join(f"    y{k} = Tanh(y{k - 1})\n" for k in range(1, 12))
    graph = parse_graph(
        f"    y0 = Placeholder(shape=<4,5>)\n{links}    r = _Retval(y11, index=0)\n"
    )
    ctx = PassContext()
    infer_shapes(graph, ctx)
    fuse(graph, ctx, max_members=most)
    graph.verify()
    sizes = [len(names) for names in members(graph)]
    assert max(sizes) == most and sum(sizes) >= 11 - most + 1


def test_a_path_out_of_the_group_and_back_keeps_nodes_apart() -> None:
    graph = check(
        """
        x = Placeholder(shape=<6,6>)
        a = Neg(x)
        m = MatMul(a, a)
        q = MaxPool(r4, ksize=[1,2,2,1], strides=[1,2,2,1], padding=b'SAME')
        s = Const(value=int32<4>[1, 6, 6, 1])
        r4 = Reshape(a, s)
        u = Const(value=int32<2>[3, 3])
        v = Reshape(q, u)
        t = Tile(v, n)
        n = Const(value=int32<2>[2, 2])
        b = AddV2(a, t)
        y = _Retval(b, index=0)
        z = _Retval(m, index=1)
        """,
        rtol=1e-5,
    )
    assert not any({"a", "b"} <= names for names in members(graph))


def test_rows() -> None:
    graph = check(
        """
        x    = Placeholder(shape=<6,50>)
        axis = Const(value=int32<1>[-1])
        top  = Max(x, axis, keep_dims=True)
        sub  = Sub(x, top)
        e    = Exp(sub)
        sum  = Sum(e, axis, keep_dims=True)
        out  = RealDiv(e, sum)
        y    = _Retval(out, index=0)
        """,
        rtol=1e-5,
    )
    (group,) = groups(graph).values()
    assert group.kind == "rows"
    assert len(group.members) == 5


def test_layer_norm_with_its_scale() -> None:
    graph = check(
        """
        x     = Placeholder(shape=<6,50>)
        gamma = Placeholder(shape=<50>)
        eps   = Const(value=float32<>[0.001])
        axis  = Const(value=int32<1>[1])
        mean  = Mean(x, axis, keep_dims=True)
        sq    = SquaredDifference(x, mean)
        var   = Mean(sq, axis, keep_dims=True)
        veps  = AddV2(var, eps)
        inv   = Rsqrt(veps)
        scale = Mul(inv, gamma)
        mul   = Mul(x, scale)
        off   = Mul(mean, scale)
        out   = Sub(mul, off)
        y     = _Retval(out, index=0)
        """,
        rtol=1e-4,
    )
    (group,) = groups(graph).values()
    assert group.kind == "rows"


def test_reduction_with_producer_and_epilogue() -> None:
    graph = check(
        """
        x    = Placeholder(shape=<64,20>)
        half = Const(value=float32<>[0.5])
        axis = Const(value=int32<1>[0])
        sq   = Square(x)
        sum  = Sum(sq, axis)
        out  = Mul(sum, half)
        y    = _Retval(out, index=0)
        """,
        rtol=1e-5,
    )
    (group,) = groups(graph).values()
    assert group.kind == "reduce"
    assert group.names == ("sq", "sum", "out")


def test_weight_decay() -> None:
    graph = check(
        """
        w    = Placeholder(shape=<30,20>)
        rate = Const(value=float32<>[0.01])
        loss = L2Loss(w)
        out  = Mul(loss, rate)
        y    = _Retval(out, index=0)
        """,
        rtol=1e-5,
    )
    assert members(graph) == [{"loss", "out"}]


def test_reshape_between_elementwise_nodes() -> None:
    graph = check(
        """
        x = Placeholder(shape=<4,6>)
        a = Neg(x)
        s = Const(value=int32<3>[2, 2, 6])
        r = Reshape(a, s)
        b = Square(r)
        y = _Retval(b, index=0)
        """
    )
    assert members(graph) == [{"a", "r", "b"}]


def test_reshapes_at_the_ends_stay_outside() -> None:
    graph = check(
        """
        x = Placeholder(shape=<4,6>)
        s = Const(value=int32<1>[24])
        r = Reshape(x, s)
        a = Neg(r)
        b = Square(a)
        t = Const(value=int32<2>[6, 4])
        u = Reshape(b, t)
        y = _Retval(u, index=0)
        """
    )
    assert members(graph) == [{"a", "b"}]


def test_control_edge_into_a_chain_does_not_delay_a_fetch() -> None:
    text = """
        x = Placeholder(shape=<4>)
        slow = NoOp()
        a = Neg(x)
        b = Square(a, ^slow)
        y = _Retval(b, index=0)
    """
    graph = check(text)
    assert members(graph) == [{"a", "b"}]
    assert graph.control_inputs("b") == ["slow"]
    graph = check(text + "\n z = _Retval(a, index=1)")
    assert members(graph) == []


def test_control_cycle_is_refused() -> None:
    graph = check(
        """
        x = Placeholder(shape=<4>)
        a = Neg(x)
        n = NoOp(^a)
        b = Square(a, ^n)
        y = _Retval(b, index=0)
        """
    )
    assert members(graph) == []


def test_what_waits_for_a_member_waits_for_the_group() -> None:
    graph = check(
        """
        x = Placeholder(shape=<4>)
        a = Neg(x)
        b = Square(a)
        n = NoOp(^a)
        y = _Retval(b, index=0)
        """
    )
    assert members(graph) == [{"a", "b"}]
    assert graph.control_inputs("n") == ["b"]


def test_other_devices_stay_apart() -> None:
    graph, ctx = fused(
        """
        x = Placeholder(shape=<4>)
        a = Neg(x) on /job:localhost/replica:0/task:0/device:CPU:0
        b = Square(a) on /job:localhost/replica:0/task:0/device:CPU:1
        y = _Retval(b, index=0)
        """
    )
    assert members(graph) == []
    assert any("another device" in text for _, name, text in ctx.messages if name == "b")


def test_branches_of_a_switch_stay_apart() -> None:
    graph, _ = fused(
        """
        x = Placeholder(shape=<4>)
        p = Placeholder(dtype=bool, shape=<>)
        z = Neg(x)
        s = Switch(z, p)
        t = Neg(s:1)
        u = Square(t)
        f = Neg(s)
        g = AddV2(z, f)
        m = Merge(u, g)
        y = _Retval(m, index=0)
        """
    )
    assert members(graph) == [{"t", "u"}, {"f", "g"}]


def test_received_values_fuse_only_with_what_waits_for_the_same_sender() -> None:
    graph, _ = fused(
        """
        x = Placeholder(shape=<4>)
        a = Neg(x)
        s = _Send(a, tensor_name=b'a', send_device=b'/cpu:0', send_device_incarnation=1, recv_device=b'/cpu:1')
        r = _Recv(tensor_type=float32, tensor_name=b'b', send_device=b'/cpu:1', send_device_incarnation=1, recv_device=b'/cpu:0')
        b = AddV2(a, r)
        """
    )
    assert members(graph) == []


def test_chain_of_an_unknown_shape() -> None:
    text = """
        x = Placeholder(shape=<?,3>)
        c = Const(value=float32<>[2.0])
        a = Mul(x, c)
        b = Tanh(a)
        e = AddV2(b, x)
        y = _Retval(e, index=0)
    """
    graph = check(text, rtol=1e-5, unknown={"x": (7, 3)})
    assert members(graph) == [{"a", "b", "e"}]


def test_small_values_are_not_computed_again_for_every_row() -> None:
    graph, ctx = fused(
        """
        x = Placeholder(shape=<1000,64>)
        b = Placeholder(shape=<64>)
        t = Tanh(b)
        s = AddV2(x, t)
        r = Relu(s)
        y = _Retval(r, index=0)
        """
    )
    assert members(graph) == [{"s", "r"}]
    assert any("computed again" in text for _, name, text in ctx.messages if name == "s")


def test_sums_along_a_residual_network_are_stored() -> None:
    layers = 5
    lines = ["x = Placeholder(shape=<2,16>)", "s0 = Tanh(x)", "axis = Const(value=int32<>[1])"]
    for k in range(layers):
        lines += [
            f"p{k} = Softmax(s{k})",
            f"c{k} = Cumsum(p{k}, axis, exclusive=False, reverse=False)",
            f"s{k + 1} = AddV2(s{k}, c{k})",
        ]
    graph = check("\n".join([*lines, f"y = _Retval(s{layers}, index=0)"]), rtol=1e-5)
    for number in range(layers):  # no group adds up the layers before it
        assert sum(f"s{number}" in group for group in members(graph)) <= 1


def test_cheap_value_is_computed_again_instead_of_stored() -> None:
    graph = check(
        """
        x    = Placeholder(shape=<640,20>)
        axis = Const(value=int32<1>[0])
        mean = Mean(x, axis)
        sub  = Sub(x, mean)
        sq   = Square(sub)
        var  = Mean(sq, axis)
        inv  = Rsqrt(var)
        out  = Mul(sub, inv)
        act  = Tanh(out)
        y    = _Retval(act, index=0)
        """,
        rtol=1e-4,
    )
    assert {"sub", "sq", "var", "inv"} in members(graph)
    assert {"sub", "out", "act"} in members(graph)
    variance = next(group for group in groups(graph).values() if group.kind == "reduce")
    assert len(variance.outputs) == 1  # the centred values are not written


def test_a_mean_and_its_variance_are_one_pass() -> None:
    graph = check(
        """
        x    = Placeholder(shape=<8,30,20>)
        axis = Const(value=int32<2>[0,1])
        two  = Const(value=float32<>[2])
        v    = Mul(x, two)
        mean = Mean(v, axis, keep_dims=True)
        stop = StopGradient(mean)
        sq   = SquaredDifference(v, stop)
        var  = Mean(sq, axis, keep_dims=True)
        std  = Sqrt(var)
        flat = Squeeze(mean, squeeze_dims=[0,1])
        y    = _Retval(std, index=0)
        z    = _Retval(flat, index=1)
        """,
        rtol=1e-5,
    )
    assert {"v", "mean", "stop", "sq", "var", "std"} in members(graph)


def test_reductions_of_the_same_large_tensor_become_one() -> None:
    text = """
        x = Placeholder(shape=<{rows},200>)
        w = Placeholder(shape=<{rows},200>)
        axis = Const(value=int32<1>[{axis}])
        zero = Const(value=int32<1>[0])
        s = Square(x)
        a = Sum(s, zero)
        b = SquaredDifference(x, w)
        c = Sum(b, axis)
        y = _Retval(a, index=0)
        z = _Retval(c, index=1)
        """
    assert {"s", "a", "b", "c"} in members(check(text.format(rows=300, axis=0), rtol=1e-5))
    assert {"s", "a", "b", "c"} not in members(check(text.format(rows=10, axis=0), rtol=1e-5))
    assert {"s", "a", "b", "c"} not in members(check(text.format(rows=300, axis=1), rtol=1e-5))


def test_a_result_that_nobody_takes_is_not_written() -> None:
    graph = check(
        """
        x      = Placeholder(shape=<30,50>)
        labels = Const(dtype=int32, value=int32<30>[1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,49])
        loss   = SparseSoftmaxCrossEntropyWithLogits(x, labels)
        y      = _Retval(loss, index=0)
        """,
        rtol=1e-5,
    )
    (group,) = groups(graph).values()
    assert len(group.outputs) == 1


def test_loops_over_the_same_large_tensor_become_one() -> None:
    text = """
        x = Placeholder(shape=<{rows},200>)
        a = Neg(x)
        b = Relu(a)
        c = Square(x)
        e = Sqrt(c)
        y = _Retval(b, index=0)
        z = _Retval(e, index=1)
    """
    assert members(check(text.format(rows=100))) == [{"a", "b", "c", "e"}]
    assert members(check(text.format(rows=3))) == [{"a", "b"}, {"c", "e"}]


def test_dear_value_is_stored() -> None:
    graph = check(
        """
        x    = Placeholder(shape=<640,20>)
        axis = Const(value=int32<1>[0])
        t    = Tanh(x)
        sum  = Sum(t, axis)
        out  = Mul(t, sum)
        act  = Neg(out)
        y    = _Retval(act, index=0)
        """,
        rtol=1e-4,
    )
    assert {"t", "sum"} in members(graph)
    assert {"out", "act"} in members(graph)


def test_long_chain_is_linear_and_shares_kernels() -> None:
    ops = ["Tanh", "Relu", "Neg"]
    lines = ["x0 = Placeholder(shape=<100>)"] + [
        f"x{i} = {ops[i % 3]}(x{i - 1})" for i in range(1, 20_001)
    ]
    graph = parse_graph("\n".join(lines))
    ctx = PassContext()
    infer_shapes(graph, ctx)
    began = time.thread_time()
    fuse(graph, ctx)
    assert time.thread_time() - began < 20
    graph.verify()
    found = groups(graph)
    assert len(found) == 200
    builder = find_native("_Fused")
    assert builder is not None
    sources = {
        builder(group.node_spec(name)).launches[0].source
        for name, group in list(found.items())[:20]
    }
    assert len(sources) == 3  # a chain of 100 starts with one of three ops


def test_every_decision_is_logged() -> None:
    _, ctx = fused(
        CONV + "bias = BiasAdd(conv, b)\n s = Const(value=int32<1>[0])\n m = Max(bias, s)\n y = "
        "_Retval(m, index=0)"
    )
    said = {name: text for _, name, text in ctx.messages}
    assert "joins conv" in said["bias"] or "after Conv2D" in said["bias"]
    assert "stays apart" in said["m"]


def plan(
    graph_path: Path,
    feeds: tuple[str, ...],
    fetches: tuple[str, ...],
    targets: tuple[str, ...],
    types: Any,
) -> DataflowGraph:
    """The one partition of a real graph."""
    from tfjit.protos import graph_pb2

    message = graph_pb2.GraphDef()
    message.ParseFromString(graph_path.read_bytes())
    spec = RunSpec(feeds, fetches, targets, types)
    parts, _ = build(DataflowGraph.from_graph_def(message), spec, PassOptions(verify=True))
    (part,) = parts
    return part.graph


def kinds(graph: DataflowGraph) -> dict[str, list[FusedGroup]]:
    found: dict[str, list[FusedGroup]] = {}
    for group in groups(graph).values():
        found.setdefault(group.kind, []).append(group)
    return found


def assert_compiled(graph: DataflowGraph, unless: frozenset[str]) -> None:
    """Every node that computes has a native builder, except op types in `unless`."""
    views = {
        "Reshape",
        "ExpandDims",
        "Squeeze",
        "Identity",
        "Const",
        "NoOp",
        "_Arg",
        "_Retval",
        "VariableV2",
    }
    missing = {n.op for n in graph.op_nodes() if find_native(n.op) is None} - views - unless
    assert not missing


@pytest.mark.parametrize("batch", [1, 256])
def test_digits_cnn(demo_dir: Path, batch: int) -> None:
    types = {"images:0": (d.float32, (batch, 8, 8, 1))}
    graph = plan(demo_dir / "digits_cnn.pb", ("images:0",), ("logits:0", "probs:0"), (), types)
    assert [g.ops for g in kinds(graph)["conv2d"]] == [("Conv2D", "BiasAdd", "Relu")] * 2
    assert sorted(len(g.ops) for g in kinds(graph)["matmul"]) == [2, 3]
    assert_compiled(graph, frozenset())


def test_mobilenet_v2(data_dir: Path) -> None:
    types = {"images:0": (d.float32, (1, 96, 96, 3))}
    graph = plan(data_dir / "mobilenet_v2.pb", ("images:0",), ("Identity:0",), (), types)
    found = kinds(graph)
    convolutions = [*found["conv2d"], *found["depthwise"]]
    assert (len(found["conv2d"]), len(found["depthwise"])) == (35, 17)
    assert not any(
        node.op in ("Conv2D", "DepthwiseConv2dNative", "Relu6", "AddV2", "Mul")
        for node in graph.op_nodes()
    )
    for group in convolutions:
        assert group.ops[1:3] == ("Mul", "AddV2")  # the batch norm
    assert not any(node.op == "Pad" for node in graph.op_nodes())
    assert sum("Relu6" in group.ops for group in convolutions) == 35
    # the residual additions
    assert sum(group.ops.count("AddV2") == 2 for group in convolutions) == 10
    assert_compiled(graph, frozenset())


def test_digits_train(data_dir: Path) -> None:
    types = {"images:0": (d.float32, (32, 8, 8, 1)), "labels:0": (d.int32, (32,))}
    graph = plan(
        data_dir / "digits_train.pb", ("images:0", "labels:0"), ("loss:0",), ("train",), types
    )
    found = kinds(graph)
    assert len(found["conv2d"]) == 2
    assert any("SparseSoftmaxCrossEntropyWithLogits" in group.ops for group in found["rows"])
    assert any(
        group.ops == ("MaxPoolGrad", "ReluGrad", "BiasAddGrad") for group in found["pool_gradient"]
    )


GATES = """
    x   = Placeholder(shape=<3,4>)
    w   = Placeholder(shape=<4,6>)
    b   = Placeholder(shape=<6>)
    ax  = Const(value=int32<>[1])
    mm  = MatMul(x, w)
    sum = BiasAdd(mm, b)
    s   = Split(ax, sum, num_split=2)
    i   = Sigmoid(s:0)
    j   = Tanh(s:1)
"""


def test_a_sum_that_is_read_in_pieces_goes_with_the_loop_over_them() -> None:
    """The product's epilogue would read and write the whole once more."""
    graph, _ = fused(GATES + "h = Mul(i, j)\n y = _Retval(h, index=0)")
    assert members(graph) == [{"sum", "s", "i", "j", "h"}]


@pytest.mark.parametrize(
    "last", ["h = MatMul(i, j, transpose_b=True)", "h = MatMul(s:0, s:1, transpose_b=True)"]
)
def test_a_sum_whose_pieces_are_needed_whole_stays_with_its_product(last: str) -> None:
    graph, _ = fused(
        GATES + last + "\n k = Relu(sum)\n y = _Retval(h, index=0)\n z = _Retval(k, index=1)"
    )
    assert any({"mm", "sum"} <= found for found in members(graph))
