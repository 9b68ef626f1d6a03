"""Graphs on two CPU devices: the same values as TensorFlow's, split with the same sends, receives
and keys.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tfjit.runtime.host.rendezvous import create_key, parse_key

tf1 = tf.compat.v1
X = np.arange(6, dtype="f4").reshape(2, 3)
TRANSFERS = ("_Send", "_Recv", "_HostSend", "_HostRecv")


class Graph:
    """Data edges both ways with several consumers, several outputs, control edges across, and both
    kinds of variable on both devices.
    """

    def __init__(self) -> None:
        self.graph = tf1.Graph()
        with self.graph.as_default():
            self.x = tf1.placeholder(tf.float32, [None, 3], name="x")
            with tf.device("/cpu:0"):
                a = tf.multiply(self.x, 2.0, name="a")
                v0 = tf1.get_variable("v0", initializer=np.ones(3, "f4"), use_resource=False)
                r0 = tf1.get_variable("r0", initializer=np.ones(3, "f4"), use_resource=True)
            with tf.device("/cpu:1"):
                b = tf.add(a, 1.0, name="b")
                c = tf.square(a, name="c")
                v1 = tf1.get_variable("v1", initializer=np.full(3, 2, "f4"), use_resource=False)
                r1 = tf1.get_variable("r1", initializer=np.full(3, 2, "f4"), use_resource=True)
                bump_v1 = tf1.assign_add(v1, [1.0, 1.0, 1.0], name="bump_v1")
                bump_r1 = r1.assign_add([1.0, 1.0, 1.0])
                with tf.control_dependencies([a]):
                    waits = tf.add(
                        tf1.placeholder_with_default([5.0, 6.0], [2], "given"), 1.0, name="waits"
                    )
                parts = tf.split(self.x, 3, axis=1, name="parts")
            with tf.device("/cpu:0"):
                with tf.control_dependencies([bump_v1, bump_r1]):
                    both = tf.multiply(b + c, v0.read_value(), name="both")
                    after = tf.identity(v1.read_value(), name="after")
                direct = tf.add(v0, r1, name="direct")
                third = tf.add(parts[2], parts[0], name="third")
                bump_v0 = tf1.assign_sub(v0, direct, name="bump_v0")
            with tf.device("/cpu:1"):
                back = tf.add(third, parts[1] + r0, name="back")
            self.fetches = {
                "data": [b, c, tf.add(c, b, name="sum")],
                "both ways": [back, third],
                "control": [waits],
                "variables": [direct],
                "update": [bump_v0],
                "ordered": [both, after],
                "operation": [bump_v1.op, both],
                "all": [b, c, waits, both, after, back],
            }
            self.init = tf1.global_variables_initializer()


@pytest.fixture(scope="module")
def world() -> Graph:
    return Graph()


def config() -> Any:
    """Two CPUs, and TensorFlow's graph optimizers off: keys hold edge numbers, which Grappler's
    rewrites would change.
    """
    made = tf1.ConfigProto(device_count={"CPU": 2})
    made.graph_options.rewrite_options.disable_meta_optimizer = True
    made.graph_options.optimizer_options.opt_level = -1
    return made


def transfers(metadata: Any) -> list[tuple[str, str, str, int]]:
    """(op, device, rendezvous key, dtype) of every send and receive, in order of key."""
    found = []
    for partition in metadata.partition_graphs:
        for node in partition.node:
            if node.op in TRANSFERS:
                a = node.attr
                key = create_key(
                    a["send_device"].s.decode(),
                    a["send_device_incarnation"].i,
                    a["recv_device"].s.decode(),
                    a["tensor_name"].s.decode(),
                )
                parse_key(key)
                assert a["client_terminated"].b is False
                found.append((node.op, node.device, key, a["T"].type or a["tensor_type"].type))
    return sorted(found)


@pytest.mark.parametrize(
    "name",
    ["data", "both ways", "control", "variables", "update", "ordered", "operation", "all", "init"],
)
@pytest.mark.parametrize("jit", ["lazy", "off"])
def test_values_and_keys_are_tensorflows(
    world: Graph, name: str, jit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFJIT_JIT", jit)
    fetches = world.init if name == "init" else world.fetches[name]
    options = tf1.RunOptions(output_partition_graphs=True)
    outcomes = []
    for make in (tf1.Session, tfjit.Session):
        with make(graph=world.graph, config=config()) as session:
            session.run(world.init)
            metadata = tf1.RunMetadata()
            values = [session.run(fetches, {world.x: X}, options, metadata)]
            values += [session.run(fetches, {world.x: X + i}) for i in range(3)]
            outcomes.append(
                (
                    values,
                    transfers(metadata),
                    sorted(p.node[0].device for p in metadata.partition_graphs),
                )
            )
    (theirs, their_transfers, their_devices), (ours, our_transfers, our_devices) = outcomes
    assert our_transfers == their_transfers
    assert our_devices == their_devices
    if name != "init":
        for a, b in zip(ours, theirs, strict=True):
            for p, q in zip(a, b, strict=True):
                if q is None:
                    assert p is None
                else:
                    np.testing.assert_array_equal(p, q)


def test_without_partition_graphs_none_are_given(world: Graph) -> None:
    with tfjit.Session(graph=world.graph, config=config()) as session:
        metadata = tf1.RunMetadata()
        session.run(world.fetches["data"], {world.x: X}, tf1.RunOptions(), metadata)
        assert len(metadata.partition_graphs) == 0


@pytest.mark.parametrize("threads", [-1, 1, 4])
def test_two_devices_on_any_number_of_threads(world: Graph, threads: int) -> None:
    settings = config()
    settings.inter_op_parallelism_threads = threads
    with (
        tfjit.Session(graph=world.graph, config=settings) as session,
        tf1.Session(graph=world.graph, config=config()) as theirs,
    ):
        for s in (session, theirs):
            s.run(world.init)
        for i in range(20):
            ours = session.run(world.fetches["all"], {world.x: X + i})
            for a, b in zip(ours, theirs.run(world.fetches["all"], {world.x: X + i}), strict=True):
                np.testing.assert_array_equal(a, b)


def test_devices_are_listed_as_tensorflow_lists_them(world: Graph) -> None:
    with (
        tfjit.Session(graph=world.graph, config=config()) as ours,
        tf1.Session(graph=world.graph, config=config()) as theirs,
    ):
        a, b = ours.list_devices(), theirs.list_devices()
        assert [(d.name, d.device_type, d.memory_limit_bytes) for d in a] == [
            (d.name, d.device_type, d.memory_limit_bytes) for d in b
        ]
        assert len({d.incarnation for d in a}) == 2 and all(d.incarnation for d in a)


def test_an_error_on_one_device_ends_the_step_on_both() -> None:
    graph = tf1.Graph()
    with graph.as_default():
        with tf.device("/cpu:1"):
            zero = tf1.placeholder(tf.int32, [], name="zero")
            bad = tf1.floordiv(tf.constant(1), zero, name="bad")
        with tf.device("/cpu:0"):
            after = tf.add(bad, 1, name="after")
    with tfjit.Session(graph=graph, config=config()) as session:
        for _ in range(2):
            with pytest.raises(
                tfjit.errors.InvalidArgumentError,
                match=r"Integer division by zero(.|\n)*\{\{node bad\}\}",
            ):
                session.run(after, {zero: 0})
            assert session.run(after, {zero: 1}) == 2


def test_a_conditional_across_devices() -> None:
    """What is not taken on one device is heard of on the other, through data and through control
    edges.
    """
    graph = tf1.Graph()
    tf1.disable_control_flow_v2()
    try:
        with graph.as_default():
            p, x = tf1.placeholder(tf.bool, []), tf1.placeholder(tf.float32, [2])

            def taken() -> Any:
                with tf.device("/cpu:1"):
                    y = tf.tanh(x * 2.0)
                with tf.device("/cpu:0"), tf.control_dependencies([y]):
                    z = x + 1.0
                with tf.device("/cpu:1"):
                    return z * y

            with tf.device("/cpu:0"):
                out = tf1.cond(p, taken, lambda: x - 1.0)
            with tf.device("/cpu:1"):
                after = out * 3.0
            no, yes = tf.raw_ops.Switch(data=x, pred=p)
            with tf.device("/cpu:1"):
                dead, live = tf.negative(yes), tf.negative(no)
    finally:
        tf1.enable_control_flow_v2()
    for make in (tf1.Session, tfjit.Session):
        with make(graph=graph, config=config()) as session:
            for _ in range(2):
                y = np.tanh([2.0, 4.0])
                np.testing.assert_allclose(
                    session.run(after, {p: True, x: [1, 2]}), np.array([2, 3]) * y * 3, rtol=1e-6
                )
                np.testing.assert_allclose(session.run(after, {p: False, x: [1, 2]}), [0, 3])
                np.testing.assert_allclose(session.run(dead, {p: True, x: [1, 2]}), [-1, -2])
                with pytest.raises(Exception, match=r"Retval\[0\] does not have value"):
                    session.run(dead, {p: False, x: [1, 2]})
                np.testing.assert_allclose(session.run(live, {p: False, x: [1, 2]}), [-1, -2])


def test_no_cpu_devices() -> None:
    with pytest.raises(
        tfjit.errors.NotFoundError, match="No CPU devices are available in this process"
    ):
        tfjit.Session(graph=tfjit.Graph(), config=tf1.ConfigProto(device_count={"CPU": 0}))
