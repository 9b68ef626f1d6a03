"""Placement by measured costs: what moves, what stays, and that nothing moves without a gain."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.manager.pass_context import DeviceInfo, PassContext, PassOptions
from tfjit.passes.partitioning.place import place
from tfjit.passes.partitioning.rebalance import TRANSFER_US, Measured, rebalance

tf1 = tf.compat.v1
DEVICES = tuple(f"/job:localhost/replica:0/task:0/device:CPU:{i}" for i in range(2))


def placed(graph: tf1.Graph) -> DataflowGraph:
    made = DataflowGraph()
    made.extend(graph.as_graph_def())
    place(
        made,
        PassContext(
            options=PassOptions(devices=tuple(DeviceInfo(name, "CPU") for name in DEVICES))
        ),
    )
    return made


def branches(count: int = 2) -> DataflowGraph:
    graph = tf1.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [3], name="x")
        for i in range(count):
            tf.sin(tf.add(x, float(i), name=f"b{i}/in"), name=f"b{i}/out")
        tf.add_n([graph.get_tensor_by_name(f"b{i}/out:0") for i in range(count)], name="sum")
    return placed(graph)


def run(graph: DataflowGraph, costs: dict[str, float]) -> dict[str, str]:
    names = [node.name for node in graph.op_nodes() if node.name != "x"]
    return dict(
        rebalance(
            graph, names, [Measured((name,), cost) for name, cost in costs.items()], DEVICES
        ).moves
    )


def test_one_of_two_equal_branches_moves_with_its_constants() -> None:
    moves = run(branches(), {"b0/in": 1, "b0/out": 900, "b1/in": 1, "b1/out": 900, "sum": 5})
    assert set(moves.values()) == {DEVICES[1]}
    (branch,) = {name.partition("/")[0] for name in moves}
    assert set(moves) >= {f"{branch}/in", f"{branch}/out"}
    assert "sum" not in moves


def test_nothing_moves_for_less_than_it_costs() -> None:
    assert run(branches(), {"b0/out": TRANSFER_US / 2, "b1/out": TRANSFER_US / 2, "sum": 1}) == {}
    chain = tf1.Graph()
    with chain.as_default():
        y = tf1.placeholder(tf.float32, [3], name="x")
        for i in range(5):
            y = tf.sin(y, name=f"s{i}")
    assert run(placed(chain), {f"s{i}": 1000 for i in range(5)}) == {}


def test_what_ran_as_one_kernel_moves_as_one() -> None:
    graph = branches()
    names = [node.name for node in graph.op_nodes() if node.name != "x"]
    measured = [
        Measured(("b0/in", "b0/out"), 900),
        Measured(("b1/in", "b1/out"), 900),
        Measured(("sum",), 1),
    ]
    moves = rebalance(graph, names, measured, DEVICES).moves
    assert ("b0/in" in moves) == ("b0/out" in moves) != ("b1/in" in moves)


def test_state_and_requested_devices_stay() -> None:
    graph = tf1.Graph()
    with graph.as_default():
        v = tf1.Variable(1.0, use_resource=False, name="v")
        r = tf.random.normal([3], seed=1, name="noise")
        update = tf1.assign_add(v, 2.0, name="update")
        with tf.device("/cpu:0"):
            asked = tf.cos(r, name="asked")
        tf.add_n([tf.sin(r, name="free"), asked, tf.zeros([3]) + update], name="sum")
    made = placed(graph)
    moves = run(made, {node.name: 1000.0 for node in made.op_nodes()})
    assert moves
    assert not set(moves) & {
        "v",
        "update",
        "asked",
        "noise/RandomStandardNormal",
        "v/read",
        "v/Assign",
    }
    assert not any(made.node(name).is_stateful for name in moves)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 6), st.lists(st.floats(0, 5000), min_size=13, max_size=13))
def test_a_decision_promises_what_it_must(count: int, costs: Sequence[float]) -> None:
    graph = branches(count)
    names = [node.name for node in graph.op_nodes() if node.name != "x"]
    measured = [Measured((name,), cost) for name, cost in zip(names, costs * 2, strict=False)]
    decision = rebalance(graph, names, measured, DEVICES)
    total = sum(kernel.cost_us for kernel in measured)
    assert decision.after_us <= decision.before_us
    # all on one device: one after the other
    np.testing.assert_allclose(decision.before_us, total, rtol=1e-9, atol=1e-6)
    assert decision.after_us >= total / 2 - 1e-6
    assert bool(decision.moves) == (decision.after_us < decision.before_us)
    # it moves nothing itself
    assert all(graph.node(name).assigned_device == DEVICES[0] for name in names)
