"""split_stages: which runs are cut, where, and which are left whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tfjit as tf
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.ir.run_spec import RunSpec
from tfjit.passes.ir.subgraph import extract
from tfjit.passes.partitioning.split_stages import MIN_BETWEEN, Stage, split_stages
from tfjit.runtime.kernel_api.op_kernel import is_blocking

Nodes = Sequence[Any]


def split(
    build: Callable[[], Nodes], feeds: tuple[str, ...] = (), overlaps: bool = False
) -> tuple[list[Stage], str, DataflowGraph]:
    """build: makes a graph and returns what is run: tensors and operations."""
    with tf.Graph().as_default() as graph:
        asked = build()
    fetches = tuple(x.name for x in asked if isinstance(x, tf.Tensor))
    targets = tuple(x.name for x in asked if isinstance(x, tf.Operation))
    made = DataflowGraph.from_graph(graph)
    stages, why = split_stages(
        made, RunSpec(feeds, fetches, targets), lambda node: is_blocking(node.op), overlaps
    )
    for stage in stages:  # each is a run that can be made
        extract(made, RunSpec(stage.feeds, stage.fetches, stage.targets, cut=stage.cut))
    return stages, why, made


def queue(name: str = "queue", shape: Sequence[int] = (3,), **more: Any) -> Any:
    return tf.FIFOQueue(10, [tf.float32], shapes=[shape], name=name, **more)


def function(name: str, *inputs: Any, shape: Sequence[int] | None = None) -> Any:
    made = tf.py_func(lambda *x: np.float32(1), inputs, tf.float32, name=name)
    if shape is not None:
        made.set_shape(shape)
    return made


def chain(x: Any, count: int, name: str) -> Any:
    for i in range(count):
        x = tf.tanh(x, name=f"{name}{i}")
    return x


def test_a_batch_from_a_queue() -> None:
    def build() -> Nodes:
        batch = queue().dequeue_many(4, name="take")
        y = tf.tanh(batch, name="y")
        with tf.control_dependencies([y]):
            return [tf.reduce_sum(y + 1.0, name="z"), tf.no_op(name="done"), batch]

    (first, second), _, _ = split(build)
    assert (first.by_node, first.feeds, first.fetches, first.targets, first.cut) == (
        True,
        (),
        ("take:0",),
        (),
        frozenset(),
    )
    assert (second.by_node, second.feeds, second.fetches, second.targets) == (
        False,
        ("take:0",),
        ("z:0",),
        ("done",),
    )
    assert second.cut == {"take"} and first.members == {"take"}


def test_what_must_only_come_after() -> None:
    def build() -> Nodes:
        take = queue().dequeue(name="take")
        with tf.control_dependencies([take]):
            return [tf.tanh(tf.constant(1.0), name="y")]

    (first, second), _, _ = split(build)
    assert (first.fetches, first.targets) == ((), ("take",))
    assert (second.feeds, second.fetches, second.cut) == ((), ("y:0",), {"take"})


def test_feeds_go_where_they_are_used() -> None:
    def build() -> Nodes:
        n, x = tf.placeholder(tf.int32, [], name="n"), tf.placeholder(tf.float32, [3], name="x")
        return [tf.multiply(queue().dequeue_many(n, name="take"), x, name="y")]

    (first, second), _, _ = split(build, ("n:0", "x:0"))
    assert first.feeds == ("n:0",)
    assert second.feeds == ("x:0", "take:0")


def test_what_needs_no_queue_comes_as_late_as_it_can() -> None:
    def build() -> Nodes:
        v = tf.Variable(1.0, name="v", use_resource=True)
        return [tf.add(v.read_value(), tf.reduce_sum(queue().dequeue(name="take")), name="y")]

    (first, second), _, graph = split(build)
    assert first.members == {"take"}
    assert {graph.node(name).op for name in second.members} >= {"ReadVariableOp", "Sum", "AddV2"}


def test_a_stage_between_two_that_wait() -> None:
    def build(count: int) -> Nodes:
        x = queue("first").dequeue(name="take")
        for i in range(count):
            x = tf.tanh(x, name=f"t{i}")
        return [queue("second").enqueue(x, name="put")]

    stages, _, _ = split(lambda: build(MIN_BETWEEN))
    assert [stage.by_node for stage in stages] == [True, False, True]
    assert [len(stage.members) for stage in stages] == [1, MIN_BETWEEN, 1]
    assert split(lambda: build(MIN_BETWEEN - 1))[:2] == (
        [],
        "there are too few nodes beside the blocking ones",
    )


def test_few_nodes_before_what_waits_run_with_it() -> None:
    def build() -> Nodes:
        n = tf.placeholder(tf.int32, [], name="n")
        return [
            tf.tanh(queue().dequeue_many(tf.maximum(n, 1, name="least"), name="take"), name="y")
        ]

    (first, second), _, _ = split(build, ("n:0",))
    assert first.members == {"take", "least"} and second.members == {"y"}


def whole_enabling() -> Nodes:
    """What is put may be what is taken: one run in TensorFlow ends."""
    q = queue()
    other = queue("other").dequeue(name="other_take")
    x = other
    for _ in range(MIN_BETWEEN):
        x = tf.tanh(x)
    return [tf.tanh(q.dequeue()), q.enqueue(x)]


def whole_enabling_by_name() -> Nodes:
    a, b = queue("a", shared_name="one"), queue("b", shared_name="one")
    x = queue("other").dequeue()
    for _ in range(MIN_BETWEEN):
        x = tf.tanh(x)
    return [tf.tanh(a.dequeue()), b.enqueue(x)]


def whole_staging() -> Nodes:
    """What is staged in this run may be what is taken out of the area."""
    taken = tf.raw_ops.Unstage(dtypes=[tf.float32], shared_name="area")[0]
    x = queue("other").dequeue()
    for _ in range(MIN_BETWEEN):
        x = tf.tanh(x)
    return [tf.tanh(taken), tf.raw_ops.Stage(values=[x], shared_name="area")]


def whole_python() -> Nodes:
    called = function("python", shape=[])
    return [called, tf.tanh(queue().dequeue())]


def whole_python_of_unknown_shape() -> Nodes:
    """`second` may end the wait of `first`."""
    x = function("third")
    for _ in range(MIN_BETWEEN):
        x = tf.tanh(x)
    return [function("first"), function("second", x)]


def whole_in_a_loop() -> Nodes:
    q = queue(shape=())
    return [tf.while_loop(lambda i, x: i < 3, lambda i, x: [i + 1, x + q.dequeue()], [0, 0.0])[1]]


def whole_chosen() -> Nodes:
    chosen = tf.QueueBase.from_list(tf.placeholder_with_default(0, []), [queue("a"), queue("b")])
    return [tf.tanh(chosen.dequeue())]


def whole_behind_python() -> Nodes:
    index = tf.py_func(lambda: np.int32(5), [], tf.int32)
    index.set_shape([None])
    looked_up = tf.gather(tf.constant([1.0, 2.0]), index, name="look_up")
    return [tf.tanh(queue().dequeue()), looked_up]


def whole_without_waiting() -> Nodes:
    return [tf.tanh(tf.constant(1.0))]


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (whole_enabling, "may unblock an earlier stage, by queue"),
        (whole_enabling_by_name, "may unblock an earlier stage, by one"),
        (whole_staging, "may unblock an earlier stage, by area"),
        (whole_python, "the Python function of python may unblock"),
        (whole_python_of_unknown_shape, "the Python function of second may unblock"),
        (whole_in_a_loop, "precedes a blocking node inside a loop or conditional"),
        (whole_chosen, "waits for a resource that another node chooses"),
        (whole_behind_python, "look_up (GatherV2) may fail while another node waits"),
        (whole_without_waiting, "no node is blocking"),
    ],
)
def test_left_whole(build: Callable[[], Nodes], reason: str) -> None:
    stages, why, _ = split(build)
    assert not stages
    assert reason in why


def collective(x: Any, name: str) -> Any:
    """Reduce a value with the members of other processes."""
    graph = tf.get_default_graph()
    attrs = {"group_size": 2, "group_key": 1, "instance_key": len(graph.get_operations())}
    attrs.update(merge_op="Add", final_op="Id", subdiv_offsets=[0])
    return graph.create_op("CollectiveReduce", [x], attrs=attrs, name=name).outputs[0]


def test_collectives_are_blocking_nodes() -> None:
    def build() -> Nodes:
        x = chain(tf.placeholder(tf.float32, [3], name="x"), MIN_BETWEEN, "before")
        first, other = collective(x, "first"), collective(tf.tanh(x), "other")
        between = chain(first + other, MIN_BETWEEN, "between")
        return [chain(collective(between, "second"), MIN_BETWEEN, "behind")]

    stages, why, _ = split(build, ("x:0",))
    assert not why
    assert [stage.by_node for stage in stages] == [False, True, False, True, False]
    assert {"first", "other"} <= stages[1].members and "second" in stages[3].members


@pytest.mark.parametrize("dequeues_first", [True, False])
def test_stages_put_no_order_between_collectives(dequeues_first: bool) -> None:
    """Another member may need the later one first."""

    def build() -> Nodes:
        x = tf.placeholder(tf.float32, [3], name="x")
        if dequeues_first:
            behind = collective(chain(queue().dequeue(name="take"), MIN_BETWEEN, "x"), "behind")
        else:
            taken = chain(queue("a").dequeue(name="take"), MIN_BETWEEN, "x")
            with tf.control_dependencies([taken]):
                behind = queue("b").dequeue(name="behind")
        return [chain(behind, MIN_BETWEEN, "y"), chain(collective(x, "free"), MIN_BETWEEN, "z")]

    stages, why, _ = split(build, ("x:0",))
    assert not stages and why == "behind may have to run before a node of an earlier stage does"


def test_looking_at_a_queue_is_no_reason() -> None:
    def build() -> Nodes:
        q = queue()
        return [
            tf.tanh(q.dequeue(name="take"), name="y"),
            tf.cast(q.size(), tf.float32, name="left"),
        ]

    (first, second), _, _ = split(build)
    assert first.members == {"take"} and {"y", "left"} <= second.members


def test_python_behind_all_that_waits_is_no_reason() -> None:
    def build() -> Nodes:
        return [
            tf.tanh(tf.py_func(lambda x: x, [queue().dequeue(name="take")], tf.float32), name="y")
        ]

    stages, _, _ = split(build)
    assert [stage.by_node for stage in stages] == [True, False]


def test_a_function_whose_result_has_an_unknown_shape() -> None:
    def build(count: int) -> Nodes:
        return [chain(function("python"), count, "t")]

    (first, second), _, _ = split(lambda: build(MIN_BETWEEN))
    assert (first.members, first.by_node) == ({"python"}, True)
    assert (len(second.members), second.by_node, second.feeds) == (
        MIN_BETWEEN,
        False,
        ("python:0",),
    )
    assert not split(lambda: build(MIN_BETWEEN - 1))[0]
    # a known shape: one straight-line step
    assert not split(lambda: [chain(function("python", shape=[]), MIN_BETWEEN, "t")])[0]


def test_functions_that_may_overlap_share_a_stage() -> None:
    def build() -> Nodes:
        x = tf.placeholder(tf.float32, [], name="x")
        one = function("one", chain(x, MIN_BETWEEN, "s"), shape=[])
        other = function("other", x, shape=[])
        return [chain(one + other, MIN_BETWEEN, "t")]

    first, second, third = split(build, ("x:0",), overlaps=True)[0]
    assert [s.by_node for s in (first, second, third)] == [False, True, False]
    assert second.members == {"one", "other"}
    assert not split(build, ("x:0",))[0]  # no thread for the second function
    (only,), _, _ = split(
        lambda: [function("one", shape=[]) + function("other", shape=[])], overlaps=True
    )
    assert only.by_node


def test_functions_that_follow_each_other_stay_in_the_step() -> None:
    def build() -> Nodes:
        return [function("other", function("one", shape=[]), shape=[])]

    assert split(build, overlaps=True)[:2] == ([], "no node is blocking")


def test_a_function_of_unknown_shape_beside_a_queue_runs_with_it() -> None:
    def build() -> Nodes:
        taken = queue().dequeue(name="take")
        return [function("python"), chain(taken, MIN_BETWEEN, "t")]

    (first, second), _, _ = split(build)
    assert first.members == {"python", "take"} and len(second.members) == MIN_BETWEEN


def test_a_node_that_may_fail_does_not_wait() -> None:
    def build() -> Nodes:
        index = tf.placeholder_with_default(5, [], name="index")
        looked_up = tf.gather(tf.constant([1.0, 2.0]), index, name="look_up")
        return [chain(queue().dequeue(name="take") * looked_up, MIN_BETWEEN, "t")]

    stages, _, _ = split(build)
    assert [stage.by_node for stage in stages] == [True, False]
    assert {"take", "look_up", "index"} <= stages[0].members


def test_values_of_constants_stay_where_they_are_used() -> None:
    """Between the stages they would be no constants any more."""

    def build() -> Nodes:
        batch = queue().dequeue_many(4)
        known = tf.constant([[1, 2], [3, 4]])[:, 1] * 2  # a slice may fail
        faulty = tf.gather(tf.constant([1, 2]), tf.constant([5]), name="faulty")
        z = chain(batch, MIN_BETWEEN, "y") * tf.cast(known[0], tf.float32)
        return [tf.reduce_sum(z, name="z"), faulty]

    stages, _, _ = split(build)
    assert [stage.by_node for stage in stages] == [True, False]
    assert {"strided_slice", "strided_slice_1", "mul"} <= stages[1].members
    assert "faulty" in stages[0].members
