"""Levels of the nodes of accelerators, and the nodes that only order others."""

from __future__ import annotations

from tfjit.passes.ir.dataflow_graph import SINK, SOURCE
from tfjit.passes.offload.levels import Group, Levels, levels_of
from tfjit.passes.text.text_format import parse_graph

GPU, OTHER = "GPU:0", "GPU:1"


def levels(text: str, **movable: str) -> Levels:
    graph = parse_graph(text)
    order = [name for name in graph.topological_order() if name not in (SOURCE, SINK)]
    return levels_of(graph, order, movable)


def test_a_node_of_the_host_between_starts_a_level() -> None:
    found = levels(
        """
        x = Placeholder() -> float32<2>
        a = Tanh(x)
        b = Exp(a)
        c = Neg(b)
        d = Neg(a)
        """,
        a=GPU, c=GPU, d=GPU,
    )  # fmt: skip
    assert found.groups == {Group(GPU, 0): ["a", "d"], Group(GPU, 1): ["c"]}


def test_nodes_that_only_order_are_in_the_place_of_their_inputs() -> None:
    """An optimizer's own variables are updated behind a group of its updates."""
    found = levels(
        """
        x     = Placeholder() -> float32<2>
        a     = Tanh(x)
        b     = Neg(x)
        done  = NoOp(^a, ^b)
        later = NoOp(^done)
        one   = Const(^later, value=float32<>[1.0])
        c     = Mul(x, one)
        host  = Exp(c, ^done)
        """,
        a=GPU, b=GPU, c=GPU,
    )  # fmt: skip
    assert found.groups == {Group(GPU, 0): ["a", "b", "c"]}
    assert found.joints == {Group(GPU, 0): {"done", "later", "one"}}


def test_a_joint_behind_two_places_waits_for_both() -> None:
    found = levels(
        """
        x    = Placeholder() -> float32<2>
        a    = Tanh(x)
        b    = Exp(a)
        done = NoOp(^a, ^b)
        c    = Neg(x, ^done)
        e    = Neg(x)
        both = NoOp(^a, ^e)
        f    = Neg(x, ^both)
        """,
        a=GPU, c=GPU, e=OTHER, f=OTHER,
    )  # fmt: skip
    assert found.groups == {
        Group(GPU, 0): ["a"],
        Group(OTHER, 0): ["e"],
        Group(GPU, 1): ["c"],
        Group(OTHER, 1): ["f"],
    }
    assert "done" not in found.joints.get(Group(GPU, 0), ())


def test_nodes_that_wait_for_other_blocking_nodes_are_apart() -> None:
    """In a partial run, `b` is asked for before `y` is fed."""
    found = levels(
        """
        x = _Recv(tensor_name=b'x', tensor_type=float32) -> float32<2>
        y = _Recv(tensor_name=b'y', tensor_type=float32) -> float32<2>
        a = Tanh(x)
        b = Neg(a)
        c = Mul(a, y)
        d = Neg(c)
        e = Exp(y)
        """,
        a=GPU, b=GPU, c=GPU, d=GPU, e=GPU,
    )  # fmt: skip
    assert found.groups == {
        Group(GPU, 0, ("x",)): ["a", "b"],
        Group(GPU, 0, ("x", "y")): ["c", "d"],
        Group(GPU, 0, ("y",)): ["e"],
    }


def test_layers_with_received_weights_are_one_program() -> None:
    """The host reads `early`, so that its node waits for no other weights."""
    found = levels(
        """
        x = Placeholder() -> float32<2>
        v = _Recv(tensor_name=b'v', tensor_type=float32) -> float32<2>
        w = _Recv(tensor_name=b'w', tensor_type=float32) -> float32<2>
        size = Square(x)
        first = Mul(x, v)
        early = Tanh(v)
        second = Mul(first, w)
        back = Mul(first, second)
        loss = Add(size, back)
        host = Neg(early)
        """,
        size=GPU, first=GPU, early=GPU, second=GPU, back=GPU, loss=GPU,
    )  # fmt: skip
    assert found.groups == {
        Group(GPU, 0, ("v",)): ["early"],
        Group(GPU, 0, ("v", "w")): ["size", "first", "second", "back", "loss"],
    }


def test_without_nodes_of_devices() -> None:
    found = levels("a = NoOp()\nb = NoOp(^a)")
    assert found == Levels()
