"""Parts that two plans compute in different groups."""

from __future__ import annotations

from dataclasses import dataclass

from tfjit.lab.measure.node_times import node_differences


@dataclass
class Node:
    name: str
    members: tuple[str, ...]
    measured_us: float | None


@dataclass
class Plan:
    nodes: list[Node]


def test_parts_are_cut_by_no_group() -> None:
    fused = Plan([Node("c", ("a", "b", "c"), 5.0), Node("d", ("d",), 1.0), Node("k", (), None)])
    other = Plan(
        [
            Node("b", ("a", "b"), 4.0),
            Node("c", ("c",), 3.0),
            Node("d", ("d",), 1.5),
            Node("e", (), 9),
        ]
    )
    alone, grown, same = node_differences("other", [other], "fused", [fused])
    assert (alone.nodes, alone.kernels, alone.base_kernels) == (("e",), ("e",), ())
    assert (alone.us, alone.base_us, alone.difference_us) == (9, 0.0, 9)
    assert grown.nodes == ("a", "b", "c") and grown.kernels == ("b", "c")
    assert grown.base_kernels == ("c",) and grown.difference_us == 2.0
    assert same.nodes == ("d",) and same.difference_us == 0.5


def test_groups_that_overlap_are_one_part() -> None:
    first = Plan([Node("b", ("a", "b"), 1.0), Node("d", ("c", "d"), 1.0)])
    second = Plan([Node("a", ("a",), 1.0), Node("c", ("b", "c"), 1.0), Node("d", ("d",), 1.0)])
    (part,) = node_differences("second", [second], "first", [first])
    assert part.nodes == ("a", "b", "c", "d") and (part.us, part.base_us) == (3.0, 2.0)


def test_sessions_that_overlap_are_not_apart() -> None:
    plans = {us: Plan([Node("a", (), us)]) for us in (1.0, 2.0, 3.0, 4.0)}
    (part,) = node_differences("x", [plans[1.0], plans[3.0]], "y", [plans[2.0], plans[4.0]])
    assert not part.apart and part.difference_us == -1.0
    (part,) = node_differences("x", [plans[1.0], plans[2.0]], "y", [plans[3.0], plans[4.0]])
    assert part.apart
