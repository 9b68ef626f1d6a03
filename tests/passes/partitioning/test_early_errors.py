"""Nodes whose errors are known before their stage can start."""

from __future__ import annotations

from tfjit.passes.partitioning.early_errors import early_groups
from tfjit.passes.text.text_format import parse_graph


def groups(text: str, needs: dict[str, int], stage: str = "") -> list[set[str]]:
    """Return the groups of the nodes with needs, in the order of the text.

    stage: its other nodes.
    """
    return early_groups(parse_graph(text), {*needs, *stage}, list(needs), needs)


def test_nodes_are_grouped_by_their_needs_with_those_before_them() -> None:
    text = """
        f = Placeholder(dtype=float32)
        a = Neg(f)
        b = AddV2(a, f)
        c = Neg(b)
        d = MatMul(c, f)
    """
    assert groups(text, dict.fromkeys("abcd", 0)) == [{"a", "b", "c", "d"}]
    assert groups(text, {"a": 0, "b": 0, "c": 2, "d": 2}) == [{"a", "b"}, {"a", "b", "c", "d"}]
    assert groups(text, {"c": 1, "d": 1}) == [{"c", "d"}]  # the others are in another stage
    assert groups(text, {"c": 1, "d": 1}, "b") == []  # as part of a loop, b may not run twice


def test_a_read_of_a_variable_may_fail() -> None:
    text = """
        v = VarHandleOp(dtype=float32, shape=[2], shared_name=b'v')
        r = ReadVariableOp(v, dtype=float32)
        n = Neg(r)
        w = VariableV2(dtype=float32, shape=[2], shared_name=b'w')
        i = Identity(w)
    """
    assert groups(text, {"r": 0, "n": 0, "i": 1}) == [{"r"}, {"i"}]


def test_nodes_behind_an_effect_are_left_out() -> None:
    text = """
        v = VarHandleOp(dtype=float32, shape=[2], shared_name=b'v')
        f = Placeholder(dtype=float32)
        i = Placeholder(dtype=int32)
        x = MatMul(f, f)
        s = AssignVariableOp(v, x, dtype=float32)
        r = ReadVariableOp(v, ^s, dtype=float32)
        u = RandomUniform(i, dtype=float32, T=int32)
        y = AddV2(u, r)
    """
    assert groups(text, dict.fromkeys("xsruy", 0)) == [{"x"}]


def test_an_update_of_a_reference_runs_once() -> None:
    text = """
        w = VariableV2(dtype=float32, shape=[2], shared_name=b'w')
        f = Placeholder(dtype=float32)
        rate = Placeholder(dtype=float32)
        g = MatMul(f, f)
        a = ApplyGradientDescent(w, rate, g)
        c = ScatterAdd(w, rate, g)
        i = Identity(w, ^a)
        k = IsVariableInitialized(w)
    """
    assert groups(text, dict.fromkeys("gacik", 0)) == [{"g", "k"}]
