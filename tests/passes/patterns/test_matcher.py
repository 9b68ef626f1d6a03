"""Matching: orders of commutative inputs, repeated parts, several outputs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.passes.patterns.cases import ops_left, rewritten, x, y
from tests.passes.reference_run import run_lowered
from tfjit.passes import patterns as p

op = p.op
z = p.tensor("z")
TEXT = """
    a = Placeholder(shape=<2>)
    b = Placeholder(shape=<2>)
    c = Placeholder(shape=<2>)
"""
FED = {f"{name}:0": np.array([i + 1.5, -i], np.float32) for i, name in enumerate("abc")}


@pytest.mark.parametrize("swaps", list(itertools.product([False, True], repeat=3)))
def test_each_order_of_commutative_inputs_is_tried(swaps: Sequence[bool]) -> None:
    """The rule is (exp(x) * y) + (z * exp(x)) -> exp(x) * (y + z)."""
    pairs = [("e", "b"), ("c", "e"), ("m", "n")]
    left, right, both = [pair[::-1] if swap else pair for pair, swap in zip(pairs, swaps)]
    text = (
        TEXT
        + f"""
        e = Exp(a)
        m = Mul({left[0]}, {left[1]})
        n = Mul({right[0]}, {right[1]})
        r = AddV2({both[0]}, {both[1]})
    """
    )
    e = op.Exp(x)
    rule = p.rewrite("factor", e * y + z * e, e * (y + z))
    graph, _ = rewritten(text, (rule,), FED, ["r:0"], same=False)
    assert sorted(ops_left(graph)) == ["AddV2", "Exp", "Mul"]


def test_other_ops_keep_the_order_of_their_inputs() -> None:
    rule = p.rewrite("r", op.Sub(op.Exp(x), y), op.Sub(y, op.Exp(x)))
    graph, _ = rewritten(TEXT + "e = Exp(a)\n r = Sub(b, e)", (rule,), FED, ["r:0"])
    assert graph.inputs("r")[1] == ("e", 0)


def test_texts_are_joined_in_order() -> None:
    rule = p.rewrite("r", op.any_of("Add")(x, p.constant(b"x")), x)
    text = """
        s = Placeholder(dtype=string, shape=<>)
        c = Const(dtype=string, value=string<>[b'x'])
        q = Add(c, s)
    """
    graph, _ = rewritten(text, (rule,), {"s:0": np.array(b"y", object)}, ["q:0"], same=False)
    assert ops_left(graph) == ["Add"]


def test_outputs_of_one_node_are_told_apart() -> None:
    s = op.Split(0, x, num_split=2)
    rule = p.rewrite("r", s[0] - s[1], op.Neg(s[1] - s[0]))
    text = """
        v    = Placeholder(shape=<2,3>)
        axis = Const(dtype=int32, value=int32<>[0])
        s    = Split(axis, v, num_split=2)
    """
    fed = {"v:0": np.arange(6, dtype=np.float32).reshape(2, 3)}
    fires, _ = rewritten(text + "r = Sub(s:0, s:1)", (rule,), fed, ["r:0"])
    stays, _ = rewritten(text + "r = Sub(s:1, s:0)", (rule,), fed, ["r:0"])
    assert "Neg" in ops_left(fires) and "Neg" not in ops_left(stays)


def test_an_attr_variable_has_one_value() -> None:
    tb = p.attr("tb")
    rule = p.rewrite(
        "r",
        op.MatMul(op.MatMul(x, y, transpose_b=tb), z, transpose_b=tb),
        op.MatMul(x, op.MatMul(y, z)),
        when=lambda tb: not tb,
    )
    text = """
        a = Placeholder(shape=<2,2>)
        m = MatMul(a, a)
        r = MatMul(m, a, transpose_b=%s)
    """
    fed = {"a:0": np.eye(2, dtype=np.float32)}
    for value, changes in (("False", True), ("True", False)):
        graph, _ = rewritten(text % value, (rule,), fed, ["r:0"])
        assert ("m" not in graph) is changes


_RULES = (
    p.rewrite("undo", op.Neg(op.Neg(x)), x),
    p.rewrite("times_one", x * 1, x),
    p.rewrite("minus", x + op.Neg(y), x - y),
    p.rewrite("negate", op.Neg(x - y), op.Neg(x) + y),
    p.rewrite("twice", x + x, x * 2),
    p.rewrite("swap", op.Maximum(x, y), op.Maximum(y, x), when=lambda x, y: x.node > y.node),
    p.rewrite("square", x * x, op.Square(x)),
    p.rewrite("minus_zero", op.Sub(x, 0), x),
)
_OPS = {"Neg": 1, "Square": 1, "AddV2": 2, "Sub": 2, "Mul": 2, "Maximum": 2}


@st.composite
def _graphs(draw: Any) -> tuple[str, list[str]]:
    lines = [
        "p0 = Placeholder(shape=<2,3>)",
        "p1 = Placeholder(shape=<2,3>)",
        "p2 = Const(dtype=float32, value=float32<>[1.0])",
        "p3 = Const(dtype=float32, value=float32<3>[0.0 ...])",
    ]
    names = ["p0", "p1", "p2", "p3"]
    for index in range(draw(st.integers(2, 14))):
        kind = draw(st.sampled_from(sorted(_OPS)))
        inputs = [draw(st.sampled_from(names[-6:])) for _ in range(_OPS[kind])]
        if draw(st.integers(0, 9)) == 0:
            inputs.append("^" + draw(st.sampled_from(names)))
        lines.append(f"n{index} = {kind}({', '.join(inputs)})")
        names.append(f"n{index}")
    fetched = draw(st.lists(st.sampled_from(names[4:]), min_size=1, max_size=3, unique=True))
    return "\n".join(lines), fetched


@given(_graphs(), st.sets(st.sampled_from(_RULES), min_size=1))
@settings(max_examples=60, deadline=None)
def test_random_rules_keep_the_values_of_random_graphs(
    graph: tuple[str, list[str]], rules: set[p.Rule]
) -> None:
    text, fetched = graph
    feeds = {
        "p0:0": np.array([[1.5, -0.0, 0.0], [2.0, -3.0, 8.0]], np.float32),
        "p1:0": np.array([[-1.0, 0.0, 4.0], [0.5, 3.0, -0.0]], np.float32),
    }
    from tests.passes.reference_run import lowered

    before, _ = lowered(text, feeds, [f"{name}:0" for name in fetched])
    chosen = sorted(rules, key=lambda rule: rule.name)
    after, _ = rewritten(text, chosen, feeds, [f"{name}:0" for name in fetched], same=False)
    values = list(feeds.values())
    expected, got = run_lowered(before, values), run_lowered(after, values)
    for index, value in expected.items():
        np.testing.assert_array_equal(value, got[index])  # zeros of either sign: x - x + y
