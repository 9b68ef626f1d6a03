"""`functionalize` and `trim_bodies`: the While and If that they make are run by TensorFlow itself,
beside the graph they came from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings

from tests.programs.control_flow_programs import FEEDS, blocks, fetches_of, form, placeholders
from tfjit.framework.errors import InvalidArgumentError
from tfjit.passes.control_flow.functionalize import functionalize
from tfjit.passes.control_flow.prune_captures import trim_bodies
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.ir.run_spec import RunSpec
from tfjit.passes.ir.subgraph import extract
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.partitioning.place import place
from tfjit.passes.pipeline import run_passes
from tfjit.passes.text.text_format import parse_graph, print_graph
from tfjit.protos import GraphDef

tf1 = tf.compat.v1

V1 = {"Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond"}


@pytest.fixture(autouse=True)
def old_control_flow() -> Iterator[None]:
    with form(v2=False):
        yield


def structured(graph: tf1.Graph, fetches: list[Any]) -> tuple[DataflowGraph, list[str]]:
    """The part of a graph that fetches need, after both passes; and what stayed, with
    the reasons.
    """
    whole = DataflowGraph.from_graph_def(
        GraphDef.FromString(graph.as_graph_def().SerializeToString())
    )
    made = extract(whole, RunSpec((), tuple(tensor.name for tensor in fetches)))
    ctx = PassContext()
    run_passes(made, (place, functionalize, trim_bodies), ctx)
    made.verify()
    parse_graph(print_graph(made, full=True)).verify()
    return made, [text for _, _, text in ctx.messages if "stays" in text]


def outcome(graph: Any, fetches: Any, feed: Any) -> Any:
    with tf1.Session(graph=graph) as session:
        try:
            return session.run(fetches, feed)
        except tf.errors.OpError as error:
            return type(error)


def check(make: Callable[[], tuple[list[Any], list[dict[Any, Any]]]]) -> list[str]:
    """Both forms give the same in TensorFlow. Returns what stayed."""
    graph = tf1.Graph()
    with graph.as_default():
        tensors, feeds = make()
        fetches = [tf.identity(tensor) for tensor in tensors]
    made, stayed = structured(graph, fetches)
    message = made.to_graph_def()
    for node in [
        *message.node,
        *(node for function in message.library.function for node in function.node_def),
    ]:
        node.attr.pop("_class", None)  # may name nodes that are in a body now
    other = tf1.Graph()
    with other.as_default():
        tf.import_graph_def(tf1.GraphDef.FromString(message.SerializeToString()), name="")
    for feed in feeds:
        expected = outcome(graph, fetches, feed)
        got = outcome(
            other,
            [tensor.name for tensor in fetches],
            {key.name: value for key, value in feed.items() if key.op.name in made},
        )
        if isinstance(expected, type):
            assert got is expected, feed
            continue
        for one, two in zip(got, expected, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6, err_msg=str(feed))
    ops = {node.op for node in made.op_nodes()} | {
        node.op
        for ref in made.functions.reachable(made)
        for node in made.functions.body(ref).graph.op_nodes()
    }
    assert bool(ops & V1) == bool(stayed), (ops & V1, stayed)
    return stayed


def program(text: Any, gradients: bool) -> tuple[list[Any], list[dict[Any, Any]]]:
    start = placeholders()
    return fetches_of(text, start, gradients), [
        {start[name]: value for name, value in values.items()} for values in FEEDS
    ]


@settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(text=blocks(2))
def test_random_programs(text: Any) -> None:
    assert not check(lambda: program(text, gradients=False))


@settings(max_examples=5, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(text=blocks(1))
def test_gradients_of_random_programs(text: Any) -> None:
    assert not check(lambda: program(text, gradients=True))


def variable_counter() -> tuple[list[Any], list[dict[Any, Any]]]:
    v = tf1.Variable(0.0, use_resource=True, name="v")
    n = tf1.placeholder(tf.int32, [])

    def body(i: Any) -> Any:
        with tf.control_dependencies([v.assign_add(tf.cast(i, tf.float32))]):
            return i + 1

    with tf.control_dependencies([v.initializer]):
        start = tf.constant(0)
    end = tf1.while_loop(lambda i: i < n, body, [start], parallel_iterations=1)
    with tf.control_dependencies([end]):
        return [end, v.read_value()], [{n: k} for k in (0, 1, 6)]


def effect_in_a_branch() -> tuple[list[Any], list[dict[Any, Any]]]:
    v = tf1.Variable([0.0, 1.0], use_resource=True, name="v")
    p = tf1.placeholder(tf.bool, [])
    with tf.control_dependencies([v.initializer]):
        q = tf.identity(p)

    def add() -> Any:
        with tf.control_dependencies([v.assign_add([1.0, 2.0])]):
            return tf.constant(1)

    taken = tf1.cond(q, add, lambda: tf.constant(0))
    with tf.control_dependencies([taken]):
        return [taken, v.read_value()], [{p: value} for value in (True, False)]


def same_predicate_twice() -> tuple[list[Any], list[dict[Any, Any]]]:
    """The second conditional needs what the first gives: they cannot be one If."""
    p, x = tf1.placeholder(tf.bool, []), tf1.placeholder(tf.float32, [2])
    first = tf1.cond(p, lambda: x + 1.0, lambda: x * 3.0)
    summed = tf.reduce_sum(first)
    second = tf1.cond(p, lambda: first * summed, lambda: first - summed)
    return [first, second], [{p: value, x: [1.0, 2.0]} for value in (True, False)]


def branch_that_looks_into_an_earlier_one() -> tuple[list[Any], list[dict[Any, Any]]]:
    """Its gradient takes tanh's value out of the first If."""
    p, x = tf1.placeholder(tf.bool, []), tf1.placeholder(tf.float32, [2])
    y = tf1.cond(p, lambda: tf.tanh(x), lambda: tf.exp(x))
    loss = tf.reduce_sum(y * y)
    return [loss, tf1.gradients(loss, x)[0]], [
        {p: value, x: [0.5, -2.0]} for value in (True, False)
    ]


def which_side_came() -> tuple[list[Any], list[dict[Any, Any]]]:
    p, x = tf1.placeholder(tf.bool, []), tf1.placeholder(tf.float32, [2])
    no, yes = tf.raw_ops.Switch(data=x, pred=p)
    merged = tf.raw_ops.Merge(inputs=[yes * 2.0, no * 3.0])
    return [merged.output, merged.value_index], [{p: value, x: [1, 2]} for value in (True, False)]


def loops_in_both_branches() -> tuple[list[Any], list[dict[Any, Any]]]:
    p, n = tf1.placeholder(tf.bool, []), tf1.placeholder(tf.int32, [])
    y = tf1.cond(
        p,
        lambda: tf1.while_loop(lambda i: i < n, lambda i: i + 2, [tf.constant(0)]),
        lambda: tf1.while_loop(lambda i: i > -n, lambda i: i - 3, [n]),
    )
    return [y], [{p: value, n: k} for value in (True, False) for k in (0, 9)]


def tensor_array() -> tuple[list[Any], list[dict[Any, Any]]]:
    n = tf1.placeholder(tf.int32, [])
    x = tf1.placeholder(tf.float32, [None, 2])
    ys = tf1.scan(lambda h, row: tf.tanh(h + row), x[:n], initializer=tf.zeros([2]))
    loss = tf.reduce_sum(ys)
    return [ys, tf1.gradients(loss, x)[0]], [{n: k, x: np.ones((4, 2))} for k in (1, 4)]


CASES = [
    variable_counter,
    effect_in_a_branch,
    same_predicate_twice,
    branch_that_looks_into_an_earlier_one,
    which_side_came,
    loops_in_both_branches,
    tensor_array,
]


@pytest.mark.parametrize("make", CASES, ids=[make.__name__ for make in CASES])
def test_cases(make: Any) -> None:
    assert not check(make)


def queue() -> tuple[list[Any], list[dict[Any, Any]]]:
    numbers = tf1.FIFOQueue(10, [tf.int32], shapes=[[]])
    with tf.control_dependencies([numbers.enqueue_many([[1, 2, 3]])]):
        n = tf.constant(3)
    end = tf1.while_loop(
        lambda i, s: i < n,
        lambda i, s: (i + 1, s + numbers.dequeue()),
        [tf.constant(0), tf.constant(0)],
    )
    return list(end), [{}]


def test_a_loop_that_waits_for_a_queue_stays() -> None:
    assert "may wait for nodes outside" in " ".join(check(queue))


def test_a_branch_that_is_fetched_stays() -> None:
    """Its fetch is an error where the branch is not taken."""
    graph, ctx = run_text(
        """
        p = Placeholder(dtype=bool, shape=<>)
        x = Placeholder(dtype=float32, shape=<2>)
        s = Switch(x, p)
        yes = Neg(s:1)
        m = Merge(s, yes)
        r0 = _Retval(m, index=0)
        r1 = _Retval(yes, index=1)
        """
    )
    assert any("_Retval 'r1' is in a branch" in text for _, _, text in ctx.messages)
    assert "s" in graph


LOOP = """
    n = Placeholder(dtype=int32, shape=<>)
    zero = Const(dtype=int32, value=int32<>[0])
    one = Const(dtype=int32, value=int32<>[1])
    enter = Enter(zero, frame_name=b'f')
    limit = Enter(n, frame_name=b'f', is_constant=True)
    step = Enter(one, frame_name=b'f', is_constant=True)
    merge = Merge(enter, next)
    less = Less(merge, limit)
    cond = LoopCond(less)
    switch = Switch(merge, cond)
    add = AddV2(switch:1, step)
    next = NextIteration(add)
    exit = Exit(switch)
"""


def run_text(text: str) -> tuple[DataflowGraph, PassContext]:
    graph = parse_graph(text)
    ctx = PassContext()
    run_passes(graph, (functionalize, trim_bodies), ctx)
    graph.verify()
    return graph, ctx


def test_a_loop_becomes_a_while() -> None:
    graph, _ = run_text(LOOP + "    y = Identity(exit)\n    after = NoOp(^exit)\n")
    assert {node.name: node.op for node in graph.op_nodes()} == {
        "n": "Placeholder",
        "zero": "Const",
        "one": "Const",
        "f": "StatelessWhile",
        "y": "Identity",
        "after": "NoOp",
    }
    loop = graph.node("f")
    assert graph.inputs("f") == [("zero", 0), ("n", 0)]  # the constant step went into the body
    assert graph.inputs("y") == [("f", 0)]
    assert graph.control_inputs("after") == ["f"]
    body = graph.functions.body(loop.attrs["body"])
    assert {node.op for node in body.graph.op_nodes()} == {"_Arg", "AddV2", "Const", "_Retval"}
    assert body.graph.node("add").origin == ("add",)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            (
                "exit = Exit(switch)",
                "exit = Exit(switch)\n    out = Identity(add)\n    use = Exit(out)",
            ),
            "belongs to no variable",
        ),
        (
            (
                "limit = Enter(n, frame_name=b'f', is_constant=True)",
                "limit = Enter(n, frame_name=b'f')",
            ),
            "does not lead to one Merge",
        ),
    ],
    ids=["odd exit", "no merge"],
)
def test_odd_frames_stay(change: tuple[str, str], reason: str) -> None:
    graph, ctx = run_text(LOOP.replace(*change))
    assert any(node.op == "Enter" for node in graph.op_nodes())
    assert any(reason in text for _, _, text in ctx.messages), ctx.messages


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            (
                "less = Less(merge, limit)",
                "small = Less(merge, limit)\n    on = Const(dtype=bool, value=bool<>[True])\n    "
                "less = LogicalAnd(small, on)",
            ),
            "less}} has inputs from different frames",
        ),
        (
            (
                "exit = Exit(switch)",
                "exit = Exit(switch)\n    m = AddV2(exit, less_out)\n    less_out = Cast(less, "
                "DstT=int32)",
            ),
            "m}} has inputs from different frames",
        ),
        (
            ("cond = LoopCond(less)", "cond = LoopCond(less)\n    cond2 = LoopCond(less)"),
            "node: {{node cond2}} and {{node cond}}",
        ),
    ],
    ids=["no enter", "no exit", "two conditions"],
)
def test_wrong_frames_are_refused(change: tuple[str, str], text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        run_text(LOOP.replace(*change))
    assert text in caught.value.message


def test_a_body_on_two_devices_stays() -> None:
    graph = parse_graph(LOOP)
    for node in graph.op_nodes():
        node.assigned_device = "/job:localhost/replica:0/task:0/device:CPU:0"
    graph.node("add").assigned_device = "/job:localhost/replica:0/task:0/device:CPU:1"
    ctx = PassContext()
    functionalize(graph, ctx)
    assert any("several devices" in text for _, _, text in ctx.messages)
    assert any(node.op == "Enter" for node in graph.op_nodes())


def test_unneeded_variables_and_outputs_go() -> None:
    graph, _ = run_text(
        """
        p = Placeholder(dtype=bool, shape=<>)
        x = Placeholder(dtype=float32, shape=<>)
        two = Const(dtype=float32, value=float32<>[2.0])
        start = Const(dtype=int32, value=int32<>[0])
        w = StatelessWhile(start, x, x, two, cond=func'more'{}, body=func'step'{})
        y = Identity(w:1)
        i = StatelessIf(p, x, x, two, Tout=[float32, float32], then_branch=func'a'{}, else_branch=func'b'{})
        z = Identity(i:1)
        function 'more'{} {
            n = _Arg(T=int32, index=0)
            three = Const(dtype=int32, value=int32<>[3])
            less = Less(n, three)
            r = _Retval(less, index=0)
        }
        function 'step'{} {
            n = _Arg(T=int32, index=0)
            u = _Arg(T=float32, index=1)
            v = _Arg(T=float32, index=2)
            k = _Arg(T=float32, index=3)
            one = Const(dtype=int32, value=int32<>[1])
            m = AddV2(n, one)
            t = Mul(u, k)
            w = AddV2(v, t)
            r0 = _Retval(m, index=0)
            r1 = _Retval(t, index=1)
            r2 = _Retval(w, index=2)
            r3 = _Retval(k, index=3)
        }
        function 'a'{} {
            u = _Arg(T=float32, index=0)
            v = _Arg(T=float32, index=1)
            k = _Arg(T=float32, index=2)
            s = AddV2(u, v)
            t = Mul(s, k)
            r0 = _Retval(k, index=0)
            r1 = _Retval(t, index=1)
        }
        function 'b'{} {
            u = _Arg(T=float32, index=0)
            r0 = _Retval(u, index=0)
            r1 = _Retval(u, index=1)
        }
        """
    )
    # what only w itself needs, and the constant, are gone
    assert graph.inputs("w") == [("start", 0), ("x", 0)]
    assert graph.inputs("i") == [("p", 0), ("x", 0)]
    assert graph.inputs("z") == [("i", 0)]
    assert len(graph.node("i").output_dtypes) == 1
