"""Splits at nodes of unknown output sizes: where, and which runs are left whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tfjit as tf
from tfjit.passes.analysis.frames import find_frames, outermost
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.ir.run_spec import RunSpec, parse_tensor_name
from tfjit.passes.ir.subgraph import extract
from tfjit.passes.partitioning.split_dynamic import sized_by_values, split_dynamic
from tfjit.passes.partitioning.split_stages import MIN_BETWEEN, Stage

Nodes = Sequence[Any]


def split(
    build: Callable[[], Nodes], ops: Sequence[str] = ("Unique", "Where")
) -> tuple[list[Stage], str, DataflowGraph]:
    """Split the run of what `build` returns at its nodes of some types."""
    with tf.Graph().as_default() as graph:
        asked = build()
    spec = RunSpec(
        fetches=tuple(x.name for x in asked if isinstance(x, tf.Tensor)),
        targets=tuple(x.name for x in asked if isinstance(x, tf.Operation)),
    )
    made = DataflowGraph.from_graph(graph)
    roots = {name for name in made.topological_order() if made.node(name).op in ops}
    stages, why = split_dynamic(made, spec, roots)
    check(made, spec, stages)
    return stages, why, made


def check(graph: DataflowGraph, spec: RunSpec, stages: Sequence[Stage]) -> None:
    """Each needed node is in one stage, and every value comes from an earlier one."""
    known: set[str] = set(spec.feeds)
    for number, stage in enumerate(stages):
        later = [other for other in stages if other is not stage]
        assert not any(stage.members & other.members for other in later)
        assert set(stage.feeds) <= known
        known |= set(stage.fetches)
        part = extract(graph, stage.spec(spec))
        earlier = set().union(*(other.members for other in stages[:number]))
        assert not earlier & set(part.topological_order()) - stage.cut - {
            parse_tensor_name(feed)[0] for feed in stage.feeds
        }
    if stages:
        assert set(spec.fetches) <= known


def chain(x: Any, count: int, name: str) -> Any:
    for i in range(count):
        x = tf.tanh(x, name=f"{name}{i}")
    return x


def test_nodes_before_and_behind() -> None:
    def build() -> Nodes:
        x = tf.placeholder(tf.float32, [20], name="x")
        before = chain(x, MIN_BETWEEN, "a")
        found, _ = tf.unique(before, name="u")
        beside = chain(x, 2, "beside")
        return [tf.reduce_sum(chain(found, MIN_BETWEEN, "b")), beside]

    stages, why, _ = split(build)
    assert not why
    assert [stage.by_node for stage in stages] == [False, True, False]
    assert stages[1].members == {"u"}
    assert {"a0", "beside0", "beside1"} <= stages[0].members and "b0" in stages[2].members


def test_few_nodes_join_the_root() -> None:
    def build() -> Nodes:
        x = tf.placeholder(tf.float32, [20], name="x")
        return [tf.reduce_sum(chain(tf.unique(x + 1.0)[0], MIN_BETWEEN, "b"))]

    stages, _, _ = split(build)
    assert [stage.by_node for stage in stages] == [True, False]
    assert "add" in stages[0].members


def test_a_root_behind_a_root_is_for_the_next_split() -> None:
    def build() -> Nodes:
        x = tf.placeholder(tf.float32, [20], name="x")
        first = chain(tf.unique(chain(x, MIN_BETWEEN, "a"), name="u")[0], MIN_BETWEEN, "b")
        return [tf.where(first > 0.0, name="w")]

    stages, _, _ = split(build)
    assert stages[1].members == {"u"} and "w" in stages[2].members


@pytest.mark.parametrize("resource", [False, True])
def test_writes_of_one_variable_stay_together(resource: bool) -> None:
    def build() -> Nodes:
        x = tf.placeholder(tf.int32, [20], name="x")
        v = tf.get_variable("v", [30, 4], use_resource=resource)
        rows, _ = tf.unique(x, name="u")
        update = chain(tf.gather(tf.ones([30]) * 3.0, tf.reshape(x, [4, 5])), MIN_BETWEEN, "a")
        total = tf.reduce_sum(update)
        decay = v.assign(tf.multiply(v, 0.5, name="halved"), name="decay")
        with tf.control_dependencies([decay]):
            kept = chain(tf.cast(rows, tf.float32) * total, MIN_BETWEEN, "b")
            change = tf.tile(kept[:, None], [1, 4])
            return [tf.scatter_add(v, rows, change).op]

    stages, why, _ = split(build)
    assert len(stages) == 3, why
    assert any("decay" in name for name in stages[2].members)
    assert not any("decay" in name for name in stages[0].members)
    assert "halved:0" not in stages[2].feeds


def test_a_large_value_of_small_inputs_is_made_behind() -> None:
    def build() -> Nodes:
        x = tf.placeholder(tf.float32, [20], name="x")
        small = tf.reduce_sum(chain(x, MIN_BETWEEN, "a"), name="small")
        large = tf.fill([100, 100], small, name="large")
        rows = tf.cast(tf.unique(x, name="u")[1], tf.int32)
        return [tf.reduce_sum(chain(tf.gather(large, rows), MIN_BETWEEN, "b"))]

    stages, _, _ = split(build)
    assert "small" in stages[0].members and "large" in stages[2].members


def recurrence(x: Any, name: str) -> Any:
    """Return the last state of a v1 loop over x [20]."""
    states = tf.while_loop(
        lambda i, _: i < 3,
        lambda i, y: [i + 1, tf.tanh(y * x, name=f"{name}_body")],
        [0, x],
    )
    return states[1]


def test_a_loop_runs_before_a_root_that_it_does_not_depend_on() -> None:
    def build() -> Nodes:
        x = tf.placeholder(tf.float32, [20], name="x")
        early = recurrence(x, "early")
        rows = tf.cast(tf.unique(x, name="u")[1], tf.int32)
        return [tf.reduce_sum(chain(tf.gather(early, rows), MIN_BETWEEN, "b"))]

    stages, why, made = split(build)
    assert not why and len(stages) == 3
    looped = {name for name in made.topological_order() if "early_body" in name}
    assert looped and looped <= stages[0].members


def test_a_loop_in_a_branch_stays_with_it() -> None:
    def build() -> Nodes:
        x = tf.placeholder(tf.float32, [20], name="x")
        inner: list[Any] = []

        def taken() -> Any:
            inner.append(recurrence(x, "inner"))
            return inner[0] + tf.gather(x, rows)

        rows = tf.cast(tf.unique(chain(x, MIN_BETWEEN, "a"), name="u")[1], tf.int32)
        y = tf.cond(tf.reduce_sum(x) > 0.0, taken, lambda: x)
        return [tf.reduce_sum(chain(y, MIN_BETWEEN, "b"))]

    stages, _, made = split(build)
    looped = {name for name in made.topological_order() if "inner_body" in name}
    assert looped and looped <= stages[-1].members


def test_a_loop_over_values_of_a_root_is_behind_it_as_a_whole() -> None:
    def build() -> Nodes:
        x = tf.placeholder(tf.float32, [20], name="x")
        rows = tf.cast(tf.unique(chain(x, MIN_BETWEEN, "a"), name="u")[1], tf.int32)
        return [tf.reduce_sum(recurrence(tf.gather(x, rows), "late"))]

    stages, _, made = split(build)
    looped = {
        name
        for name in made.topological_order()
        if "late_body" in name or made.node(name).op in ("Enter", "Merge", "Switch")
    }
    assert len(looped) > 5 and looped <= stages[-1].members


def test_a_loop_may_be_a_root_as_a_whole() -> None:
    def build() -> Nodes:
        x = tf.placeholder(tf.float32, [20], name="x")
        late = recurrence(chain(x, MIN_BETWEEN, "a"), "inner")
        return [tf.reduce_sum(chain(late, MIN_BETWEEN, "b"))]

    loop = ("Enter", "Merge", "Switch", "Exit", "NextIteration", "LoopCond", "Tanh", "Mul")
    with tf.Graph().as_default() as graph:
        (asked,) = build()
    made = DataflowGraph.from_graph(graph)
    frames = find_frames(made)
    roots = {name for name in made.topological_order() if outermost(frames, name)}
    assert {made.node(name).op for name in roots} >= set(loop)
    spec = RunSpec(fetches=(asked.name,))
    stages, why = split_dynamic(made, spec, roots)
    assert not why and [stage.by_node for stage in stages] == [False, True, False]
    assert stages[1].members == roots - {"while/Exit"}  # that of the counter is not needed
    check(made, spec, stages)


def in_a_loop() -> Nodes:
    x = tf.constant([1.0, 2.0])
    return [
        tf.while_loop(
            lambda i: i < 9.0,
            lambda i: chain(tf.reduce_sum(tf.unique(x * i)[0]), MIN_BETWEEN, "b") + i,
            [tf.reduce_sum(chain(x, MIN_BETWEEN, "a"))],
        )
    ]


def with_functions() -> Nodes:
    x = tf.placeholder(tf.float32, [20], name="x")
    y = [tf.py_func(lambda v: v, [x], tf.float32) for _ in range(2)]
    found, _ = tf.unique(tf.reshape(y[0] + y[1], [20]))
    return [chain(found, MIN_BETWEEN, "b")]


def without_roots() -> Nodes:
    return [chain(tf.placeholder(tf.float32, [20]), 20, "a")]


def small() -> Nodes:
    return [tf.unique(tf.placeholder(tf.float32, [20]) + 1.0)[0] * 2.0]


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (in_a_loop, "inside a loop or conditional"),
        (with_functions, "Python functions may meet"),
        (without_roots, "no node has outputs of unknown sizes"),
        (small, "too few nodes"),
    ],
)
def test_left_whole(build: Callable[[], Nodes], reason: str) -> None:
    stages, why, _ = split(build)
    assert not stages and reason in why


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 30), st.integers(0, 30)), max_size=40))
def test_random_graphs(rows: list[tuple[int, int, int]]) -> None:
    def build() -> Nodes:
        made = [tf.placeholder(tf.float32, [20]), tf.placeholder(tf.float32, [20])]
        v = tf.get_variable("v", [])
        effects: list[Any] = []
        for kind, i, k in rows:
            a, b = made[i % len(made)], made[k % len(made)]
            if kind == 0:
                made.append(tf.reduce_sum(tf.unique(tf.reshape(a, [-1]))[0]))
            elif kind == 1:
                with tf.control_dependencies(effects[-1:]):
                    effects.append(v.assign_add(tf.reduce_sum(a)))
            elif kind == 2:
                made.append(v + b)
            elif kind == 3:
                made.append(tf.cond(tf.reduce_sum(a) > 0.0, lambda a=a: a + 1.0, lambda b=b: b))
            elif kind == 4:
                # the sum of a value of unknown rank has no known rank either
                total = tf.reshape(tf.reduce_sum(b), [])
                step = tf.reshape(tf.reduce_sum(a), [])
                made.append(tf.while_loop(lambda y: y < 3.0, lambda y, d=step: y + d, [total]))
            else:
                made.append(tf.reduce_sum(a) + b)
        return [*made[2:], *(effect.op for effect in effects), tf.no_op()]

    split(build)


def roots_of(build: Callable[[], Nodes], feeds: tuple[str, ...] = ()) -> set[str]:
    with tf.Graph().as_default() as graph:
        asked = build()
    spec = RunSpec(
        feeds=feeds,
        fetches=tuple(x.name for x in asked if isinstance(x, tf.Tensor)),
        targets=tuple(x.name for x in asked if isinstance(x, tf.Operation)),
    )
    return sized_by_values(DataflowGraph.from_graph(graph), spec)


def embedding(*, fetches_rows: bool = False) -> Nodes:
    ids = tf.placeholder(tf.int32, [None], name="ids")
    table = tf.get_variable("table", [30, 4])
    loss = tf.reduce_sum(tf.nn.embedding_lookup(table, ids))
    train = tf.train.AdagradOptimizer(0.1).minimize(loss)
    (unique,) = (op for op in ids.graph.get_operations() if op.type == "Unique")
    return [train, *([unique.outputs[0]] if fetches_rows else [])]


def test_padded_indices_are_no_roots() -> None:
    assert not roots_of(embedding, ("ids:0",))
    assert len(roots_of(lambda: embedding(fetches_rows=True), ("ids:0",))) == 1


def test_sizes_that_follow_from_shapes_are_no_roots() -> None:
    def build(ids: Callable[[Any], Any]) -> Nodes:
        x = tf.placeholder(tf.float32, [None, 4], name="x")
        ids_of_x = ids(x)
        return [tf.raw_ops.SegmentSum(data=x, segment_ids=ids_of_x, name="sums")]

    feeds = ("x:0",)
    assert not roots_of(lambda: build(lambda x: tf.range(tf.shape(x)[0]) // 2), feeds)
    assert roots_of(lambda: build(lambda x: tf.cast(x[:, 0], tf.int32)), feeds) == {"sums"}
