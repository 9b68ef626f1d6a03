"""Passes of rules: where rules fire, in which order, and that values stay."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.patterns.cases import (
    ABSORB,
    CONV_BIAS_RELU,
    TIMES_ONE,
    UNDO,
    X,
    join_transposes,
    ops_left,
    reasons,
    rewritten,
    x,
    y,
)
from tfjit.framework.errors import InternalError, InvalidArgumentError
from tfjit.passes import patterns as p
from tfjit.passes.text.text_format import print_graph

CONSTANTS = """
    x     = Placeholder(shape=<2,3>)
    one   = Const(dtype=float32, value=float32<>[1.0])
    ones  = Const(dtype=float32, value=float32<3>[1.0 ...])
    ones4 = Const(dtype=float32, value=float32<4,2,3>[1.0 ...])
    near  = Const(dtype=float32, value=float32<3>[1.0, 1.0, 1.5])
    swap  = Const(dtype=int32, value=int32<2>[1, 0])
    keep  = Const(dtype=int32, value=int32<2>[0, 1])
"""


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("z = Mul(x, one)", []),
        ("z = Mul(one, x)", []),
        ("z = Mul(ones, x)", []),
        ("z = Mul(x, near)", ["Mul"]),
        ("z = Mul(x, ones4)", ["Mul"]),
        ("n = Neg(x)\n z = Neg(n)", []),
        ("n = Neg(x)\n z = Abs(n)", ["Neg", "Abs"]),
        ("a = Mul(x, one)\n n = Neg(a)\n m = Neg(n)\n z = Mul(one, m)", []),
        ("a = Transpose(x, swap)\n b = Transpose(a, swap)\n z = Transpose(b, swap)", ["Transpose"]),
        ("t = Transpose(x, swap)\n z = MatMul(t, x)", ["MatMul"]),
        ("t = Transpose(x, keep)\n z = MatMul(t, x, transpose_b=True)", ["Transpose", "MatMul"]),
    ],
)
def test_rules_fire_in_one_walk(line: str, left: list[str]) -> None:
    graph, _ = rewritten(
        CONSTANTS + line, (TIMES_ONE, UNDO, join_transposes, ABSORB), {"x:0": X}, ["z:0"]
    )
    assert ops_left(graph) == left


def test_a_root_keeps_its_name_and_has_the_origin_of_its_match() -> None:
    graph, ctx = rewritten(
        CONSTANTS + "t = Transpose(x, swap)\n z = MatMul(t, x)", (ABSORB,), {"x:0": X}, ["z:0"]
    )
    node = graph.node("z")
    assert node.op == "MatMul" and node.attrs["transpose_a"] and node.origin == ("t", "z")
    assert "t" not in graph, "nobody uses it any more"
    assert reasons(ctx, "z") == "absorb: MatMul becomes MatMul('_arg_x_0_0', '_arg_x_0_0')"
    assert "transpose_a=True" in print_graph(graph)


def test_an_attr_of_the_match_is_the_attr_of_the_replacement() -> None:
    text = CONSTANTS + "t = Transpose(x, swap)\n z = MatMul(t, x, transpose_b=True)"
    square = np.arange(9, dtype=np.float32).reshape(3, 3)
    graph, _ = rewritten(text.replace("<2,3>", "<3,3>"), (ABSORB,), {"x:0": square}, ["z:0"])
    assert graph.node("z").attrs["transpose_b"] is True


def test_several_nodes_become_one_with_the_attrs_of_a_matched_node() -> None:
    text = """
        x = Placeholder(shape=<1,4,4,2>)
        w = Placeholder(shape=<2,2,2,3>)
        b = Placeholder(shape=<3>)
        c = Conv2D(x, w, strides=[1, 2, 2, 1], padding=b'VALID')
        d = BiasAdd(c, b)
        z = Relu(d)
    """
    feeds = {
        "x:0": np.ones((1, 4, 4, 2), np.float32),
        "w:0": np.ones((2, 2, 2, 3), np.float32),
        "b:0": np.zeros(3, np.float32),
    }
    graph, _ = rewritten(text, (CONV_BIAS_RELU,), feeds, ["z:0"], same=False)
    assert ops_left(graph) == ["Conv2D", "Relu6"]
    conv = next(node for node in graph.op_nodes() if node.op == "Conv2D")
    assert conv.attrs["strides"] == (1, 2, 2, 1) and conv.attrs["padding"] == b"VALID"
    assert conv.output_shapes == ((1, 2, 2, 3),) and conv.origin == ("c", "d", "z")


def test_a_number_in_a_replacement_has_the_dtype_of_its_neighbours() -> None:
    twice = p.rewrite("twice", x + x, x * 2)
    for dtype in ("float32", "int64"):
        fed = np.array([1, 2, 3], dtype)
        text = f"x = Placeholder(dtype={dtype}, shape=<3>)\n z = AddV2(x, x)"
        graph, _ = rewritten(text, (twice,), {"x:0": fed}, ["z:0"])
        assert ops_left(graph) == ["Mul"]


def test_a_replacement_may_be_a_constant() -> None:
    nothing = p.rewrite("nothing", p.op.BitwiseXor(x, x), 0)
    text = "x = Placeholder(dtype=int32, shape=<2,3>)\n z = BitwiseXor(x, x)\n e = Invert(z)"
    graph, _ = rewritten(text, (nothing,), {"x:0": np.ones((2, 3), np.int32)}, ["e:0"])
    assert graph.node("z").op == "Const" and graph.node("z").attrs["value"].shape == (2, 3)


def test_a_replacement_may_keep_an_inner_node() -> None:
    g = p.op_type("g", "Relu Abs")
    inner = g(x)
    idempotent = p.rewrite("idempotent", g(inner), inner)
    text = CONSTANTS + "r = Relu(x)\n s = Relu(r)\n t = Abs(s)\n z = AddV2(t, r)"
    graph, _ = rewritten(text, (idempotent,), {"x:0": X}, ["z:0"])
    assert ops_left(graph) == ["Relu", "Abs", "AddV2"]


def test_a_shared_part_of_a_replacement_is_one_node() -> None:
    rule = p.rewrite("square", p.op.Square(p.op.Exp(y)), p.op.Mul(p.op.Exp(y), p.op.Exp(y)))
    once = p.op.Exp(y)
    shared = p.rewrite("square", p.op.Square(p.op.Exp(y)), p.op.Mul(once, once))
    text = "x = Placeholder(shape=<2,3>)\n e = Exp(x)\n z = Square(e)"
    assert ops_left(rewritten(text, (rule,), {"x:0": X}, ["z:0"])[0]).count("Exp") == 2
    assert ops_left(rewritten(text, (shared,), {"x:0": X}, ["z:0"])[0]).count("Exp") == 1


def test_the_first_rule_that_rewrites_a_node_counts() -> None:
    first = p.rewrite("first", x * 1, x, when=lambda x: x.op != "_Arg")
    second = p.rewrite("second", x * 1, x)
    _, ctx = rewritten(CONSTANTS + "z = Mul(x, one)", (first, second), {"x:0": X}, ["z:0"])
    assert reasons(ctx, "z").startswith("second: ")


def test_a_guard_gives_a_reason() -> None:
    def refuse(x: p.Bound) -> bool:
        raise p.Declined("a matter of taste")

    rule = p.rewrite("r", x * 1, x, when=refuse)
    graph, ctx = rewritten(CONSTANTS + "z = Mul(x, one)", (rule,), {"x:0": X}, ["z:0"])
    assert ops_left(graph) == ["Mul"] and reasons(ctx, "z") == "r stays: a matter of taste"


def test_a_guard_may_choose_the_order_of_commutative_inputs() -> None:
    rule = p.rewrite("r", x * y, y, when=lambda x: x.value is not None)
    text = CONSTANTS + "z = Mul(x, one)\n q = Mul(one, z)"
    graph, _ = rewritten(text, (rule,), {"x:0": X}, ["q:0"])
    assert ops_left(graph) == []


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (
            p.rewrite("bad", x * 1, p.op.Cast(x, DstT="int32")),
            "pass 'rules': rule 'bad' at 'z': the replacement is int32, the node float32",
        ),
        (
            p.rewrite("bad", x * 1, p.op.Reshape(x, [6])),
            "rule 'bad' at 'z': the replacement has the shape \\[6\\], the node \\[2,3\\]",
        ),
        (
            p.rewrite("bad", x * 1, p.op.Reshape(x, [7])),
            "rule 'bad' at 'z': Reshape: Cannot reshape",
        ),
        (
            p.rewrite("bad", x * 1, x, when=lambda x: x.nothing),
            "rule 'bad' at 'z': AttributeError: 'Bound' object has no attribute 'nothing'",
        ),
        (p.rewrite("bad", x * 1, lambda x: "x"), "rule 'bad' at 'z': TypeError: an input is an"),
        (p.rewrite("bad", x * 1, lambda root: root), "rule 'bad' at 'z': .*uses the root itself"),
    ],
)
def test_a_wrong_replacement_is_an_error_with_pass_rule_and_node(
    rule: p.Rule, message: str
) -> None:
    with pytest.raises(InternalError, match=message):
        rewritten(CONSTANTS + "z = Mul(x, one)", (rule,), {"x:0": X}, ["z:0"])


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ((), "pass 'mine' has no rules"),
        ((TIMES_ONE, TIMES_ONE), "pass 'mine' has two rules 'times_one'"),
        ((print,), "is no rule"),
    ],
)
def test_a_pass_has_different_rules(rules: tuple[p.Rule, ...], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        p.as_pass("mine", rules)
