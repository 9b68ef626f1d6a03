"""Sessions at a server of TensorFlow, beside TensorFlow's own session at the same server."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.distributed.session.servers import (
    assert_same,
    both,
    cluster,
    outcome,
    tf1,
)
from tests.ports import free_ports
from tfjit.framework.types import dtypes
from tfjit.protos import CallableOptions

DTYPES = (
    *("float16", "float32", "float64", "bfloat16", "int8", "int16", "int32", "int64", "uint8"),
    *("uint16", "uint32", "uint64", "bool", "complex64", "complex128", "string"),
)
SHAPES = ((), (0,), (1,), (3,), (2, 0, 3), (2, 3))


def values_of(name: str, shape: tuple[int, ...]) -> np.ndarray:
    count = int(np.prod(shape))
    if name == "string":
        texts = np.empty(count, object)
        texts[:] = [b"\x00\xff" * (100 * i) for i in range(count)]
        return texts.reshape(shape)
    return np.arange(count).reshape(shape).astype(dtypes.as_dtype(name).as_numpy_dtype)


@pytest.mark.parametrize("name", DTYPES)
def test_feeds_and_fetches_of_every_dtype(target: str, graph: Any, name: str) -> None:
    fed = {tf1.placeholder(name): values_of(name, shape) for shape in SHAPES}
    fetches = [tf1.identity(x) for x in fed]
    found = both(target, graph, lambda session: session.run(fetches, fed))
    for value, (x, sent) in zip(found, fed.items(), strict=True):
        assert np.asarray(value).shape == sent.shape, x


def test_structures_operations_and_fed_fetches(target: str, graph: Any) -> None:
    x = tf1.placeholder(tf.float32, [None], name="x")
    y = x * 2.0
    fetches = {"a": [y, (y, x)], "b": tf1.no_op(), "c": "x:0", "d": y.op}
    both(target, graph, lambda session: session.run(fetches, {x: [1, 2]}))
    both(target, graph, lambda session: session.run([], {x: [1, 2]}))


def test_feeds_and_results_belong_to_the_caller(target: str, graph: Any) -> None:
    x = tf1.placeholder(tf.float32, [None])
    y = tf1.identity(x)
    with tfjit.Session(target, graph=graph) as session:
        for size in (3, 100_000):
            fed = np.ones(size, np.float32)
            first = session.run(y, {x: fed})
            fed[:] = 7
            second = session.run(y, {x: fed})
            first += 1
            assert (first == 2).all() and (second == 7).all() and (fed == 7).all()


def test_large_feeds_and_fetches(target: str, graph: Any) -> None:
    x = tf1.placeholder(tf.float32)
    y, z = tf1.identity(x), tf1.reduce_sum(x)
    value = np.arange(2_500_000, dtype=np.float32).reshape(1250, 2000)[::-1]
    with tfjit.Session(target, graph=graph) as session:
        found, _ = session.run([y, z], {x: value})
        np.testing.assert_array_equal(found, value)
        made = session.make_callable([z, y], [x])
        np.testing.assert_array_equal(made(value)[1], value)


def test_a_graph_that_grows(target: str, graph: Any) -> None:
    x = tf1.placeholder(tf.float32, [])
    sessions = [kind(target, graph=graph) for kind in (tf1.Session, tfjit.Session)]
    y: Any = x
    for _ in range(3):
        y = tf1.while_loop(lambda i, _: i < 3, lambda i, a: (i + 1, a * 2), (0, y))[1]
        found = [session.run(y, {x: 1.0}) for session in sessions]
        assert_same(found[1], found[0])
    for session in sessions:
        session.close()


def test_a_graph_of_tfjit_is_one_that_tensorflow_takes(target: str) -> None:
    """Variables of both kinds, functions, loops, gradients, queues and optimizers."""
    graph = tfjit.Graph()
    with graph.as_default():
        x = tfjit.placeholder(tfjit.float32, [None, 2])
        old = tfjit.get_variable("old_of_tfjit", initializer=[[1.0], [2.0]], use_resource=False)
        new = tfjit.get_variable("new_of_tfjit", initializer=[3.0], use_resource=True)
        h = tfjit.nn.relu(tfjit.matmul(x, old) + new)
        looped = tfjit.while_loop(
            lambda i, a: i < 3, lambda i, a: (i + 1, a * 2.0), (tfjit.constant(0), h)
        )[1]
        chosen = tfjit.cond(looped[0, 0] > 0, lambda: looped, lambda: -looped)
        loss = tfjit.reduce_sum(chosen)
        train = tfjit.train.AdamOptimizer(0.1).minimize(loss)
        queue = tfjit.FIFOQueue(2, [tfjit.string], [[]])
        put, got = queue.enqueue("text"), queue.dequeue()
        init = tfjit.global_variables_initializer()
    fed = {x: np.ones((3, 2), np.float32)}
    found = []
    for where in (target, ""):
        with tfjit.Session(where, graph=graph) as session:
            session.run(init)
            losses = [session.run([loss, train], fed)[0] for _ in range(3)]
            session.run(put)
            found.append([*losses, *session.run([old, new]), session.run(got)])
    for one, other in zip(found[0][:-1], found[1][:-1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    assert found[0][-1] == found[1][-1] == b"text"


def test_partial_runs(target: str, graph: Any) -> None:
    a, b = (tf1.placeholder(tf.float32, [], name=name) for name in "ab")
    c = a * 2.0
    d = c + b

    def run(session: Any) -> Any:
        handle = session.partial_run_setup([c, d], [a, b])
        return session.partial_run(handle, c, {a: 1.0}), session.partial_run(handle, [d], {b: 3.0})

    assert both(target, graph, run) == (2.0, [5.0])

    def early(session: Any) -> Any:
        handle = session.partial_run_setup([c, d], [a, b])
        return session.partial_run(handle, d, {a: 1.0})

    assert both(target, graph, early)[0] == "InvalidArgumentError"

    def twice(session: Any) -> Any:
        handle = session.partial_run_setup([c, d], [a, b])
        session.partial_run(handle, c, {a: 1.0})
        return session.partial_run(handle, c, {a: 1.0})

    assert both(target, graph, twice)[0] == "InvalidArgumentError"
    both(target, graph, lambda session: session.partial_run("none", c, {a: 1.0}))


def test_callables(target: str, graph: Any) -> None:
    x = tf1.placeholder(tf.float32, [None], name="x")
    y = tf1.add(x, [1.0, 2.0], name="y")
    both(target, graph, lambda session: session.make_callable([y, y], [x])([1, 2]))
    options = CallableOptions(feed=["x:0"], fetch=["y:0"])

    def run(session: Any) -> Any:
        if isinstance(session, tfjit.Session):
            made = session._make_callable_from_options(options)
        else:
            from tensorflow.core.protobuf import config_pb2

            theirs = config_pb2.CallableOptions.FromString(options.SerializeToString())
            made = session._make_callable_from_options(theirs)
        return [outcome(lambda n=n: made(np.ones(n, np.float32))) for n in (2, 1, 3)]

    both(target, graph, run)
    with tfjit.Session(target, graph=graph) as session:
        made = session._make_callable_from_options(options)
        # TensorFlow's server does not survive this call of TensorFlow's own session
        with pytest.raises(tfjit.errors.InvalidArgumentError, match="Expected 1 feed tensors"):
            made()
        del made
        options.run_options.trace_level = 3
        metadata = tf1.RunMetadata()
        traced = session._make_callable_from_options(options)
        traced(np.ones(2, np.float32), run_metadata=metadata)
        assert metadata.step_stats.dev_stats


def test_variables_are_shared_unless_isolated(target: str, graph: Any) -> None:
    v = tf1.get_variable("shared", initializer=1.0, use_resource=False)
    isolated = tf1.ConfigProto(isolate_session_state=True)
    with tfjit.Session(target, graph=graph) as one, tf1.Session(target, graph=graph) as other:
        one.run(v.initializer)
        other.run(v.assign_add(1.0))
        assert one.run(v) == 2.0
    assert both(target, graph, lambda session: session.run(v)) == 2.0
    read = v.read_value()
    text = both(target, graph, lambda session: session.run(read), isolated)
    assert text[0] == "FailedPreconditionError"
    tfjit.Session.reset(target)


def test_reset_clears_containers_and_ends_sessions(target: str, graph: Any) -> None:
    with graph.container("kept"):
        kept = tf1.get_variable("kept", initializer=1.0, use_resource=False)
    with graph.container("cleared"):
        cleared = tf1.get_variable("cleared", initializer=2.0, use_resource=False)
    y = [kept.read_value(), cleared.read_value()]
    for kind in (tf1.Session, tfjit.Session):
        session = kind(target, graph=graph)
        session.run(tf1.global_variables_initializer())
        kind.reset(target, ["cleared"])
        assert outcome(lambda session=session: session.run(y)) == (
            "AbortedError",
            "Session HANDLE is not found.",
        )
        lost = ("AbortedError", "Session HANDLE is not found. Possibly, this master has restarted.")
        assert outcome(session.list_devices) == ("InvalidArgumentError", lost[1])
        assert outcome(session.close) == lost
        session.close()
        with kind(target, graph=graph) as another:
            assert another.run(y[0]) == 1.0
            assert outcome(lambda another=another: another.run(y[1]))[0] == (
                "FailedPreconditionError"
            )
    tfjit.Session.reset(target, ["kept", "cleared"])


def test_devices_of_a_cluster(graph: Any) -> None:
    _, worker = cluster()

    def devices(session: Any) -> Any:
        return [
            (d.name, d.device_type, d.memory_limit_bytes, d.incarnation)
            for d in session.list_devices()
        ]

    found = both(worker.target, graph, devices)
    assert {name for name, *_ in found} == {
        "/job:ps/replica:0/task:0/device:CPU:0",
        "/job:worker/replica:0/task:0/device:CPU:0",
    }
    config = tf1.ConfigProto(device_filters=["/job:worker"])
    assert len(both(worker.target, graph, devices, config)) == 1


def test_nodes_on_other_tasks(graph: Any) -> None:
    _, worker = cluster()
    with tf1.device("/job:ps/task:0"):
        v = tf1.get_variable("far", initializer=[1.0, 2.0], use_resource=False)
        update = v.assign_add([1.0, 1.0])
    with tf1.device("/job:worker/task:0"):
        y = update * 10.0
    metadata = tf1.RunMetadata()
    options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE, output_partition_graphs=True)
    with tfjit.Session(worker.target, graph=graph) as session:
        session.run(v.initializer)
        assert session.run(y, options=options, run_metadata=metadata).tolist() == [20, 30]
    assert len(metadata.partition_graphs) == 2
    assert {stats.device for stats in metadata.step_stats.dev_stats} >= {
        "/job:ps/replica:0/task:0/device:CPU:0",
        "/job:worker/replica:0/task:0/device:CPU:0",
    }
    with tf1.device("/job:worker/task:7"):
        nowhere = tf1.constant(1.0, name="nowhere")
    text = both(worker.target, graph, lambda session: session.run(nowhere))
    assert "available devices are" in text[1]


def test_a_cluster_of_the_config(graph: Any) -> None:
    """Servers that know only themselves become a cluster by the session's ClusterDef."""
    ports = free_ports(2)
    servers = [
        tf1.train.Server({"alone": [f"localhost:{port}"]}, job_name="alone", task_index=0)
        for port in ports
    ]
    config = tfjit.ConfigProto(isolate_session_state=True)
    job = config.cluster_def.job.add(name="joined")
    for i, port in enumerate(ports):
        job.tasks[i] = f"localhost:{port}"
    with tf1.device("/job:joined/task:1"):
        y = tf1.constant(2.0) * 3.0
    with tfjit.Session(servers[0].target, graph=graph, config=config) as session:
        assert session.run(y) == 6.0
        assert len(session.list_devices()) == 2


def test_two_threads(target: str, graph: Any) -> None:
    x = tf1.placeholder(tf.float32, [])
    y = x * 2.0
    wrong: list[Any] = []
    with tfjit.Session(target, graph=graph) as session:

        def work(start: int) -> None:
            for i in range(start, start + 50):
                if session.run(y, {x: i}) != 2 * i:
                    wrong.append(i)

        threads = [threading.Thread(target=work, args=(1000 * k,)) for k in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_interactive_sessions_and_default_sessions(target: str) -> None:
    graph = tfjit.Graph()
    with graph.as_default():
        y = tfjit.constant(2.0) * 3.0
    session = tfjit.InteractiveSession(target, graph=graph)
    assert y.eval() == 6.0
    session.close()
    with tfjit.Session(target, graph=graph):
        assert y.eval() == 6.0


def test_resource_handles_are_fetched_and_fed(target: str) -> None:
    graph = tfjit.Graph()
    with graph.as_default():
        v = tfjit.get_variable("handled", initializer=5.0, use_resource=True)
        value = v.read_value()
    with tfjit.Session(target, graph=graph) as session:
        session.run(v.initializer)
        handle = session.run(v.handle)
        assert session.run(value, {v.handle: handle}) == 5.0
