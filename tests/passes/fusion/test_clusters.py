"""Groups under construction: which drafts may be merged without closing a cycle."""

from __future__ import annotations

from tfjit.passes.fusion.clusters import Cluster, Clusters
from tfjit.passes.text.text_format import parse_graph

DIAMOND = """
    x = Placeholder(shape=<3>)
    a = Neg(x)
    b = Exp(a)
    c = Tanh(a)
    d = AddV2(b, c)
"""


def clusters(text: str) -> Clusters:
    """Every node a draft of its own."""
    graph = parse_graph(text)
    made = Clusters(graph)
    for name in graph.topological_order():
        if not name.startswith("_S"):
            made.add(graph.node(name))
    return made


def merge(made: Clusters, producer: str, consumer: str) -> Cluster | None:
    """Merge the drafts of two nodes if that is proven to close no cycle."""
    a, b = made.of[producer], made.of[consumer]
    level = made.level_if_merged(a, b)
    return None if level is None else made.merge(a, b, level, made.covered_uses(a, b))


def test_levels_rise_along_edges_and_control_edges() -> None:
    made = clusters(DIAMOND + "e = NoOp(^d)")
    levels = {name: cluster.level for name, cluster in made.of.items()}
    assert levels == {"x": 0, "a": 1, "b": 2, "c": 2, "d": 3, "e": 4}
    assert not made.of["d"].waits and made.of["e"].waits


def test_a_merge_takes_members_inputs_and_what_waits_outside() -> None:
    made = clusters(DIAMOND)
    a, b = made.of["a"], made.of["b"]
    assert made.covered_uses(a, b) == {"a": 1} and made.escapes(a, b)  # c takes a, too
    assert made.new_inputs(a, b) == set() and made.live_out_after(a, b, {"a": 1}) == 2
    merged = merge(made, "a", "b")
    assert merged is made.of["a"] is made.of["b"]
    assert sorted(merged.members) == ["a", "b"] and merged.inputs == {("x", 0)}
    assert merged.live_out == {"a": 1, "b": 1}


def test_a_merge_around_a_node_outside_would_close_a_cycle() -> None:
    made = clusters(DIAMOND)
    merged = merge(made, "a", "b")
    assert merged is not None
    # d depends on {a, b} both directly and through c
    assert made.level_if_merged(merged, made.of["d"]) is None
    assert merge(made, "a", "c") is merged
    assert made.level_if_merged(merged, made.of["d"]) is not None
    whole = merge(made, "a", "d")
    assert whole is not None and sorted(whole.members) == ["a", "b", "c", "d"]
    assert whole.live_out == {"d": 0}


def test_drafts_of_one_level_never_depend_on_each_other() -> None:
    made = clusters(DIAMOND)
    assert made.level_if_merged(made.of["b"], made.of["c"]) == 2


def test_a_merged_cluster_tells_what_escapes() -> None:
    made = clusters(DIAMOND + "e = Sin(b)")
    merge(made, "a", "b")
    assert made.escapes(made.of["a"], made.of["d"])
    assert {producer.members[0] for producer in made.producers(made.of["d"])} == {"a", "c"}


def test_a_result_that_is_needed_elsewhere_is_not_delayed() -> None:
    made = clusters("""
        x = Placeholder(shape=<3>)
        slow = NoOp()
        a = Neg(x)
        b = Exp(a, ^slow)
        c = Tanh(a)
    """)
    # c would have to wait for `slow`
    assert not made.adds_no_wait(made.of["a"], made.of["b"])
    assert made.adds_no_wait(made.of["a"], made.of["c"])


def test_what_is_dead_or_late_on_its_own_stays_apart() -> None:
    made = clusters("""
        x = Placeholder(shape=<3>)
        p = Placeholder(dtype=bool, shape=<>)
        s = Switch(x, p)
        a = Neg(s)
        b = Neg(s:1)
        c = Exp(a)
        d = Exp(x)
    """)
    assert made.same_context("a", "c")
    assert not made.same_context("a", "b") and not made.same_context("a", "d")


def test_a_value_that_may_be_waited_for_stays_apart() -> None:
    made = clusters("""
        x = Placeholder(shape=<3>)
        q = FIFOQueueV2(component_types=[float32])
        d = QueueDequeueV2(q, component_types=[float32])
        a = Neg(d)
        b = Exp(a)
        c = Exp(x)
    """)
    assert made.same_context("a", "b")
    assert not made.same_context("a", "c")
