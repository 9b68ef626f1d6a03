"""The order of reads and writes of variables, on graphs as text."""

from __future__ import annotations

import pytest

import tfjit.ops  # noqa: F401  (registers every op)
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.text.text_format import parse_graph
from tfjit.runtime.lowering.variable_hazards import aliasing_reads, sink_writes

HEAD = """
    v = VariableV2(dtype=float32, shape=<4>)
    x = _Arg(index=0)
    old = Identity(v)
"""


def decided(lines: str) -> tuple[list[str], list[str], set[str]]:
    """Order of the graph, order with late writes, reads that share memory. Nodes named `w...` write
    v, those named `old...` read v."""
    graph = parse_graph(HEAD + lines)
    order = [name for name in graph.topological_order() if not name.startswith("_S")]
    variables = {name: "v" for name in order if name.startswith(("w", "old"))}

    def is_read(name: str) -> bool:
        return name.startswith("old")

    def is_view(name: str) -> bool:
        return graph.node(name).op in ("Identity", "Reshape")

    late = sink_writes(graph, order, is_read, is_view, variables)
    assert_topological(graph, late)
    return order, late, aliasing_reads(graph, late, is_read, is_view, variables)


def assert_topological(graph: DataflowGraph, order: list[str]) -> None:
    place = {name: k for k, name in enumerate(order)}
    for name in order:
        assert all(place[src] < place[name] for src in graph.predecessors(name) if src in place)


def test_a_write_waits_for_uses_that_do_not_depend_on_it() -> None:
    order, late, shared = decided("w = Assign(v, x)\nuse = Neg(old)")
    assert order == ["v", "x", "old", "w", "use"]
    assert late == ["v", "x", "old", "use", "w"] and shared == set()


def test_a_write_waits_for_uses_through_views() -> None:
    _, late, _ = decided("w = Assign(v, x)\nseen = Identity(old)\nuse = Neg(seen)")
    assert late.index("w") > late.index("use")


def test_a_use_behind_the_write_sees_the_write() -> None:
    order, late, shared = decided("w = Assign(v, x)\nuse = Neg(old, ^w)")
    assert late == order and shared == {"old"}


def test_a_fetched_read_shares_memory_with_a_later_write() -> None:
    _, late, shared = decided("w = Assign(v, x)\nr = _Retval(old, index=0)")
    assert "w" in late and shared == {"old"}


def test_reads_of_resources_never_share() -> None:
    graph = parse_graph("""
        v = VarHandleOp(dtype=float32, shape=<4>)
        x = _Arg(index=0)
        old = ReadVariableOp(v)
        w = AssignVariableOp(v, x)
        use = Neg(old, ^w)
    """)
    order = [name for name in graph.topological_order() if not name.startswith("_S")]
    variables = {"old": "v", "w": "v"}
    assert aliasing_reads(graph, order, lambda n: n == "old", lambda n: False, variables) == set()


def test_writes_that_would_wait_for_each_other_stay() -> None:
    # each write comes before the other's read in the graph
    graph = parse_graph("""
        v = VariableV2(dtype=float32, shape=<4>)
        u = VariableV2(dtype=float32, shape=<4>)
        x = _Arg(index=0)
        a = Identity(v)
        b = Identity(u)
        wv = Assign(v, x)
        wu = Assign(u, x)
        ua = Neg(a, ^wu)
        ub = Neg(b, ^wv)
    """)
    order = [name for name in graph.topological_order() if not name.startswith("_S")]
    variables = {"a": "v", "wv": "v", "b": "u", "wu": "u"}
    late = sink_writes(graph, order, lambda n: n in "ab", lambda n: False, variables)
    assert late == order


@pytest.mark.parametrize("count", [3, 40])
def test_the_search_has_a_limit(count: int) -> None:
    """Many writes with long tails: beyond the limit the order stays as it was."""
    lines = [f"w{k} = Assign(v, x{', ^w' + str(k - 1) if k else ''})" for k in range(count)]
    order, late, _ = decided("\n".join([*lines, "use = Neg(old)"]))
    if count == 3:
        assert late.index("use") < late.index("w0")
    else:
        assert late == order
