"""Matches that are refused, each with its reason, and the ones that are not."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.passes.patterns.cases import ABSORB, TIMES_ONE, UNDO, X, ops_left, reasons, rewritten, x
from tfjit.passes import patterns as p
from tfjit.passes.analysis.shape_inference import infer_shapes
from tfjit.passes.ir.run_spec import RunSpec
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.text.text_format import parse_graph, print_graph

TRANSPOSED = """
    x    = Placeholder(shape=<2,3>)
    swap = Const(dtype=int32, value=int32<2>[1, 0])
    t    = Transpose(x, swap)
    z    = MatMul(t, x)
"""


@pytest.mark.parametrize(
    ("more", "fetches", "reason"),
    [
        ("q = Neg(t)", ["z:0", "q:0"], "the use count of 't' is 2, the pattern asks for 1: also"),
        ("", ["z:0", "t:0"], "'t' is a fetch or target of the run"),
        ("q = NoOp(^t)", ["z:0"], "the use count of 't' is 2.*also used by 'q'"),
    ],
)
def test_inner_nodes_that_others_use_are_not_computed_twice(
    more: str, fetches: list[str], reason: str
) -> None:
    text = TRANSPOSED + more
    if "NoOp" in more:
        text += "\n e = Identity(x, ^q)"
        fetches = [*fetches, "e:0"]
    graph, ctx = rewritten(text, (ABSORB,), {"x:0": X}, fetches)
    assert "Transpose" in ops_left(graph)
    assert re.search(reason, reasons(ctx, "z"))


def test_a_shared_inner_node_stays_for_its_other_users() -> None:
    y = p.tensor("y")
    inner = p.op.Transpose(x, [1, 0]).shared()
    rule = p.rewrite("absorb", p.op.MatMul(inner, y), p.op.MatMul(x, y, transpose_a=True))
    graph, _ = rewritten(TRANSPOSED + "q = Neg(t)", (rule,), {"x:0": X}, ["z:0", "q:0"])
    assert graph.node("z").attrs["transpose_a"] and graph.node("t").op == "Transpose"


def test_a_replacement_without_new_nodes_leaves_shared_ones_alone() -> None:
    text = "x = Placeholder(shape=<2,3>)\n n = Neg(x)\n m = Neg(n)\n z = AddV2(m, n)"
    graph, _ = rewritten(text, (UNDO,), {"x:0": X}, ["z:0"])
    assert ops_left(graph) == ["Neg", "AddV2"]


def test_inner_nodes_that_wait_stay() -> None:
    text = "x = Placeholder(shape=<2,3>)\n i = NoOp()\n n = Neg(x, ^i)\n z = Neg(n)"
    graph, ctx = rewritten(text, (UNDO,), {"x:0": X}, ["z:0"])
    assert ops_left(graph).count("Neg") == 2 and "'n' waits for 'i'" in reasons(ctx, "z")


def test_control_edges_of_a_root_are_handed_on() -> None:
    text = """
        x   = Placeholder(shape=<2,3>)
        one = Const(dtype=float32, value=float32<>[1.0])
        i   = NoOp()
        m   = Mul(x, one, ^i)
        z   = Exp(m)
        q   = Neg(x, ^m)
    """
    graph, _ = rewritten(text, (TIMES_ONE,), {"x:0": X}, ["z:0", "q:0"])
    assert graph.control_inputs("z") == ["i"] and "i" in graph.control_inputs("q")


def _applied(text: str, rule: p.Rule, fetches: tuple[str, ...] = ()) -> tuple[str, str]:
    """Return the text of a graph after a rule over a graph whose ends are not lowered."""
    graph = parse_graph(text)
    ctx = PassContext(RunSpec(fetches=fetches), current="rules")
    infer_shapes(graph, ctx)
    p.as_pass("rules", [rule])(graph, ctx)
    graph.verify()
    return print_graph(graph), "\n".join(text for _, _, text in ctx.messages)


def test_an_inner_node_on_another_device_stays() -> None:
    text = """
        x = Placeholder(shape=<2,3>)
        n = Neg(x) @/device:GPU:0
        z = Neg(n) @/device:CPU:0
    """
    after, log = _applied(text, UNDO)
    assert after == _applied(text, TIMES_ONE)[0] and "'n' is on" in log and "GPU:0" in log


def test_reads_of_reference_variables_stay() -> None:
    text = """
        v   = VariableV2(dtype=float32, shape=<2,3>)
        one = Const(dtype=float32, value=float32<>[1.0])
        n   = Neg(v)
        z   = Neg(n)
        q   = Mul(v, one)
    """
    after, log = _applied(text, UNDO)
    assert "Neg(n)" in after and "'n' reads a reference variable" in log
    after, log = _applied(text, TIMES_ONE)
    assert "Mul(v, one)" in after and "stays" in log


def test_a_view_of_a_variable_does_not_replace_a_copy() -> None:
    text = """
        v   = VariableV2(dtype=float32, shape=<2,3>)
        i   = Identity(v)
        one = Const(dtype=float32, value=float32<>[1.0])
        q   = Mul(i, one)
    """
    view = p.rewrite("view", x * 1, p.op.Identity(x))
    views = p.rewrite("views", x * 1, p.op.Identity(p.op.Identity(x)))
    for rule in (TIMES_ONE, view, views):
        after, log = _applied(text, rule)
        assert "Mul(i, one)" in after and "the variable's" in log


def test_state_is_not_dropped() -> None:
    text = """
        s = Const(dtype=int32, value=int32<1>[3])
        r = RandomUniform(s, dtype=float32)
        n = Floor(r)
        z = Neg(n)
    """
    rule = p.rewrite("zero", p.op.Floor(p.op.RandomUniform(x)), p.op.Fill(x, 0.0))
    after, log = _applied(text, rule)
    assert "RandomUniform" in after and "has state or effects" in log


def test_a_fetched_root_of_a_graph_without_ends_keeps_its_name() -> None:
    text = """
        x   = Placeholder(shape=<2,3>)
        one = Const(dtype=float32, value=float32<>[1.0])
        z   = Mul(x, one)
    """
    after, _ = _applied(text, TIMES_ONE, ("z:0",))
    assert "= Identity(x)" in after
    assert "z " not in _applied(text, TIMES_ONE)[0]


def test_unknown_shapes_may_differ_unless_the_rule_says_that_they_agree() -> None:
    text = """
        x    = Placeholder(shape=<?,3>)
        v    = Const(dtype=float32, value=float32<3>[1.0 ...])
        one  = Const(dtype=float32, value=float32<>[1.0])
        a    = Mul(x, one)
        z    = Mul(a, v)
    """
    after, log = _applied(text, TIMES_ONE)
    assert "Mul(x, one)" in after and "the 1 may broadcast 'x': its shape is [?,3]" in log
    scalar = p.rewrite("scalar", x * p.constant(1, shape=()), x, keeps_shape=True)
    after, log = _applied(text, scalar)
    assert "Mul(x, v)" in after, "a scalar widens nothing, a vector may"


def test_another_used_output_keeps_a_node() -> None:
    rule = p.rewrite("halves", p.op.Split(0, x, num_split=2), p.op.Neg(x))
    text = """
        x    = Placeholder(shape=<2,3>)
        axis = Const(dtype=int32, value=int32<>[0])
        s    = Split(axis, x, num_split=2)
        z    = AddV2(s:0, s:1)
    """
    graph, ctx = rewritten(text, (rule,), {"x:0": X}, ["z:0"])
    assert "Split" in ops_left(graph) and "another output of it is used" in reasons(ctx, "s")


def test_a_dead_input_is_not_dropped() -> None:
    text = """
        x = Placeholder(shape=<2,3>)
        c = Placeholder(dtype=bool, shape=<>)
        s = Switch(x, c)
        d = Sub(s:0, s:0)
        q = Neg(s:0)
    """
    rule = p.rewrite("zero", x - x, 0.0)
    after, log = _applied(text, rule)
    assert "Sub(s, s)" in after and "may be dead" in log
    assert "Neg" in after


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_uses_are_counted_by_edges(dtype: str) -> None:
    text = f"x = Placeholder(dtype={dtype}, shape=<2,3>)\n n = Neg(x)\n z = Mul(n, n)"
    inner = p.op.Neg(x)
    rule = p.rewrite("square", inner * inner, p.op.Square(x))
    fed = np.array([[1, 2, 3], [4, 5, 6]], dtype)
    graph, _ = rewritten(text, (rule,), {"x:0": fed}, ["z:0"])
    assert ops_left(graph) == ["Square"]


def test_two_parts_of_a_pattern_may_be_one_node() -> None:
    y = p.tensor("y")
    rule = p.rewrite("sum", p.op.Exp(x) * p.op.Exp(y), p.op.Exp(x + y))
    after, _ = _applied("x = Placeholder(shape=<2>)\n e = Exp(x)\n z = Mul(e, e)", rule)
    assert "AddV2(x, x)" in after and after.count("Exp(") == 1


def test_nodes_below_a_kept_node_stay_and_may_have_other_users() -> None:
    inner = p.op.Relu(p.op.Exp(x))
    rule = p.rewrite("r", p.op.Neg(inner), p.op.Sub(0.0, inner))
    text = """
        x = Placeholder(shape=<2>)
        e = Exp(x)
        q = Sin(e)
        r = Relu(e)
        z = Neg(r)
    """
    after, _ = _applied(text, rule)
    assert "Relu(e)" in after and "Sub(" in after


def test_control_edges_out_of_a_branch_keep_a_node() -> None:
    text = """
        x   = Placeholder(shape=<2,3>)
        c   = Placeholder(dtype=bool, shape=<>)
        one = Const(dtype=float32, value=float32<>[1.0])
        s   = Switch(x, c)
        m   = Mul(s:1, one)
        q   = NoOp(^m)
    """
    after, log = _applied(text, TIMES_ONE)
    assert "Mul(s:1, one)" in after and "control edges out of a branch" in log
