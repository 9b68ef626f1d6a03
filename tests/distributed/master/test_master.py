"""Sessions of a master over TensorFlow's servers, beside TensorFlow's own master."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st

import tfjit
from tests.distributed.master.tensorflow_cluster import (
    MasterClient,
    addresses,
    free_address,
    ours,
    servers,
    tensorflow_master,
    tf1,
)
from tests.runtime.covering import covers
from tests.waiting import once_blocked
from tfjit import protos
from tfjit.distributed.master.master import Master
from tfjit.distributed.protocol.interfaces import StepCall
from tfjit.framework import errors
from tfjit.runtime.host.cancellation import CancellationManager


@pytest.fixture
def master() -> Iterator[Master]:
    with tensorflow_master() as made:
        yield made


def on(task: int) -> Any:
    return tf1.device(f"/job:w/task:{task}")


@pytest.fixture
def graph() -> Iterator[Any]:
    with tf.Graph().as_default() as made:
        yield made


def chain() -> tuple[Any, Any, Any]:
    """Build x on task 0, y on task 1, z on any."""
    with on(0):
        x = tf1.placeholder(tf.float32, [None], name="x")
    with on(1):
        y = tf.add(x, [1.0, 2.0], name="y")
    return x, y, tf.multiply(y, 2.0, name="z")


@contextmanager
def control_flow(v2: bool) -> Iterator[None]:
    before = tf1.control_flow_v2_enabled()
    (tf1.enable_control_flow_v2 if v2 else tf1.disable_control_flow_v2)()
    try:
        yield
    finally:
        (tf1.enable_control_flow_v2 if before else tf1.disable_control_flow_v2)()


def caught(call: Any) -> errors.OpError:
    with pytest.raises(errors.OpError) as info:
        call()
    return info.value


def test_feeds_and_fetches(master: Master, graph: Any) -> None:
    x, y, z = chain()
    client = MasterClient(master, graph)
    expected = [[4.0, 8.0], [2.0, 4.0], [4.0, 8.0]]
    for _ in range(3):
        found = client.run([z, y, z], {x: [1, 2]})
        np.testing.assert_array_equal(found, np.array(expected, np.float32))
    with tf1.Session(servers()[0].target) as theirs:
        np.testing.assert_array_equal(found, theirs.run([z, y, z], {x: [1, 2]}))


def test_an_inner_tensor_is_fed(master: Master, graph: Any) -> None:
    _, y, z = chain()
    client = MasterClient(master, graph)
    np.testing.assert_array_equal(client.run(z, {y: [5]}), [10])


def test_strings_and_dtypes(master: Master, graph: Any) -> None:
    with on(2):
        s = tf1.placeholder(tf.string, [None], name="s")
        n = tf1.placeholder(tf.int64, [], name="n")
    with on(1):
        joined = tf.strings.join([s, tf.constant(["a", "b\0c"])], name="joined")
        flag = tf.greater(n, 3, name="flag")
    client = MasterClient(master, graph)
    text = np.array([b"x", b"\xff"], object)
    found, is_greater = client.run([joined, flag], {s: text, n: 5})
    assert found.tolist() == [b"xa", b"\xffb\0c"]
    assert is_greater.dtype == bool and is_greater


def test_training_a_small_net_has_the_losses_of_a_direct_session(
    master: Master, graph: Any
) -> None:
    rng = np.random.default_rng(1)
    with on(1):
        w1 = tf1.get_variable("w1", initializer=rng.normal(size=(5, 7)).astype(np.float32))
        w2 = tf1.get_variable("w2", initializer=rng.normal(size=(7, 3)).astype(np.float32))
    with on(2):
        x = tf1.placeholder(tf.float32, [None, 5], name="x")
        labels = tf1.placeholder(tf.float32, [None, 3], name="labels")
        logits = tf.matmul(tf.nn.relu(tf.matmul(x, w1)), w2)
        loss = tf.reduce_mean(
            tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits), name="loss"
        )
        train = tf1.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
    start = tf1.global_variables_initializer()
    batches = [
        {x: rng.normal(size=(4, 5)), labels: np.eye(3)[rng.integers(0, 3, 4)]} for _ in range(6)
    ]
    client = MasterClient(master, graph)
    client.run(start)
    found = [client.run([loss, train], batch)[0] for batch in batches]
    text = graph.as_graph_def()
    for node in text.node:
        node.device = ""
    with tf.Graph().as_default() as on_one_device:
        tf.import_graph_def(text, name="")
    with tf1.Session(graph=on_one_device) as direct:
        direct.run(start.name)
        expected = [
            direct.run([loss.name, train.name], {k.name: v for k, v in batch.items()})[0]
            for batch in batches
        ]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_control_edges_order_nodes_of_different_tasks(master: Master, graph: Any) -> None:
    with on(1):
        v = tf1.get_variable("ordered", initializer=0.0, use_resource=False)
        assign = tf1.assign(v, 7.0)
    with on(2), tf.control_dependencies([assign]):
        wait = tf.no_op(name="wait")
    with on(1), tf.control_dependencies([wait]):
        read = tf.add(v, 1.0, name="read")
    client = MasterClient(master, graph)
    client.run(v.initializer)
    assert client.run(read) == 8


def test_a_loop_and_a_branch_over_tasks(master: Master, graph: Any) -> None:
    def body(i: Any, a: Any) -> Any:
        with on(1):
            grown = a * 2.0
        with on(2):
            return i + 1, grown + 1.0

    n = tf1.placeholder(tf.int32, [], name="n")
    with control_flow(v2=False), on(0):
        _, total = tf1.while_loop(lambda i, a: i < n, body, [0, 1.0])
        picked = tf1.cond(n > 2, lambda: total + 100.0, lambda: total - 100.0)
    client = MasterClient(master, graph)
    with tf1.Session(servers()[0].target) as theirs:
        for count in (0, 1, 5):
            expected = theirs.run([total, picked], {n: count})
            assert client.run([total, picked], {n: count}) == expected


def test_functions_travel_with_their_partition(master: Master, graph: Any) -> None:
    @tf.function
    def squared(a: Any) -> Any:
        return a * a + 1.0

    with on(0):
        x = tf1.placeholder(tf.float32, [], name="x")
    with on(1), control_flow(v2=True):
        kept = tf1.placeholder(tf.bool, [], name="kept")
        y = tf.cond(kept, lambda: squared(x), lambda: x - 1.0)
    client = MasterClient(master, graph)
    assert client.run(y, {x: 3, kept: True}) == 10
    assert client.run(y, {x: 3, kept: False}) == 2


def test_sessions_share_variables_unless_isolated(master: Master, graph: Any) -> None:
    with on(1):
        v = tf1.get_variable("shared", initializer=3.0, use_resource=False)
    first, second = MasterClient(master, graph), MasterClient(master, graph)
    isolated = MasterClient(master, graph, isolate_session_state=True)
    first.run(v.initializer)
    assert second.run(v) == 3
    error = caught(lambda: isolated.run(v))
    assert isinstance(error, errors.FailedPreconditionError)
    assert "Attempting to use uninitialized value shared" in error.message


def test_extension(master: Master, graph: Any) -> None:
    x, y, z = chain()
    client = MasterClient(master, graph)
    client.run(z, {x: [1, 2]})
    with on(2):
        more = tf.negative(z, name="more")
    added = ours(graph.as_graph_def())
    for node in list(added.node):
        if node.name != "more":
            added.node.remove(node)
    stale = caught(lambda: master.extend_session(client.handle, added, 5))
    assert isinstance(stale, errors.AbortedError)
    assert stale.message == "Current version is 0 but caller expected 5."
    assert master.extend_session(client.handle, added, client.version) == 1
    np.testing.assert_array_equal(client.run(more, {x: [1, 2]}), [-4, -8])
    np.testing.assert_array_equal(client.run(y, {x: [1, 2]}), [2, 4])
    again = caught(lambda: master.extend_session(client.handle, added, 1))
    assert isinstance(again, errors.InvalidArgumentError)
    assert "includes node 'more', which was created by a previous call" in again.message


def test_unknown_handles(master: Master) -> None:
    lost = "Session abc is not found."
    for call in (
        lambda: master.run_step(step_of("abc")),
        lambda: master.extend_session("abc", protos.GraphDef(), 0),
        lambda: master.partial_run_setup("abc", [], [], []),
        lambda: master.make_callable("abc", protos.CallableOptions()),
    ):
        error = caught(call)
        assert isinstance(error, errors.AbortedError) and error.message == lost
    error = caught(lambda: master.close_session("abc"))
    assert isinstance(error, errors.AbortedError)
    assert error.message == f"{lost} Possibly, this master has restarted."
    error = caught(lambda: master.list_devices("abc"))
    assert isinstance(error, errors.InvalidArgumentError)


def step_of(handle: str) -> Any:
    return StepCall(handle, [], ["y:0"], [])


def test_errors_of_names_and_kernels(master: Master, graph: Any) -> None:
    x, y, z = chain()
    with on(1):
        checked = tf.debugging.check_numerics(x, "not a number", name="checked")
    client = MasterClient(master, graph)
    message = {
        "unknown": caught(lambda: client.step(["nope:0"])),
        "nothing": caught(lambda: client.step([])),
        "both": caught(lambda: client.step(["x:0"], {x: [1]})),
        "shapes": caught(lambda: client.run(z, {x: [1, 2, 3]})),
        "placeholder": caught(lambda: client.run(z)),
        "kernel": caught(lambda: client.run(checked, {x: [np.nan]})),
    }
    assert isinstance(message["unknown"], errors.NotFoundError)
    assert message["unknown"].message == "FetchOutputs node nope:0: not found"
    assert message["nothing"].message == "Must specify at least one target to fetch or execute."
    assert message["both"].message == "x:0 is both fed and fetched."
    where = "/job:w/replica:0/task:1"
    assert isinstance(message["shapes"], errors.InvalidArgumentError)
    assert message["shapes"].message.startswith(f"From {where}:\nIncompatible shapes: [3] vs. [2]")
    assert "{{node y}}" in message["shapes"].message
    assert "You must feed a value for placeholder tensor 'x'" in message["placeholder"].message
    assert message["kernel"].message.startswith(f"From {where}:\nnot a number : Tensor had NaN")
    # the session still works
    np.testing.assert_array_equal(client.run(y, {x: [1, 2]}), [2, 4])


def test_placement(master: Master, graph: Any) -> None:
    with tf1.device("/job:nope/task:0"):
        lost = tf.constant([1.0, 2.0], name="lost") * tf1.placeholder(tf.float32, [], name="p")
    with tf1.device("/job:w/task:1/device:GPU:0"):
        gpu = tf.constant(1.0, name="gpu") + 1.0
    fine = tf.constant(3.0) + 1.0
    client = MasterClient(master, graph)
    assert client.run(fine) == 4
    error = caught(lambda: client.run(lost))
    assert isinstance(error, errors.InvalidArgumentError)
    assert error.message.startswith(f"Cannot assign a device for operation {lost.op.name}: ")
    assert "was explicitly assigned to /job:nope/task:0 but available devices are [ " in str(error)
    for task in range(3):
        assert f"/job:w/replica:0/task:{task}/device:CPU:0" in error.message
    assert isinstance(caught(lambda: client.run(gpu)), errors.InvalidArgumentError)
    soft = MasterClient(master, graph, allow_soft_placement=True)
    assert soft.run(gpu) == 2


def test_device_filters(master: Master, graph: Any) -> None:
    x, _, z = chain()
    with on(0):
        own = tf.negative(x, name="own")
    client = MasterClient(master, graph, device_filters=["/job:w/task:2"])
    names = [device.name for device in master.list_devices(client.handle)[0]]
    assert names == [f"/job:w/replica:0/task:{task}/device:CPU:0" for task in (0, 2)]
    np.testing.assert_array_equal(client.run(own, {x: [1, 2]}), [-1, -2])
    assert "available devices are" in caught(lambda: client.run(z, {x: [1, 2]})).message
    error = caught(lambda: MasterClient(master, graph, device_filters=["bogus::"]))
    assert isinstance(error, errors.InvalidArgumentError)


def test_devices_of_the_cluster(master: Master) -> None:
    own, others = master.list_devices()
    assert [device.name for device in own] == ["/job:w/replica:0/task:0/device:CPU:0"]
    assert len(others) == 2 and all(device.incarnation for device in own + others)


def test_session_thread_pools_are_refused(master: Master, graph: Any) -> None:
    error = caught(lambda: MasterClient(master, graph, use_per_session_threads=True))
    assert isinstance(error, errors.InvalidArgumentError)
    assert error.message == "Distributed session does not support session thread pool options."


def test_trace_and_partition_graphs(master: Master, graph: Any) -> None:
    x, _, z = chain()
    client = MasterClient(master, graph)
    options = protos.RunOptions(trace_level=3, output_partition_graphs=True)
    _, metadata = client.step([z.name], {x: [1, 2]}, options=options)
    devices = {stats.device for stats in metadata.step_stats.dev_stats}
    assert {f"/job:w/replica:0/task:{task}/device:CPU:0" for task in (0, 1)} <= devices
    ops = {node.name: node.op for part in metadata.partition_graphs for node in part.node}
    assert len(metadata.partition_graphs) == 2
    assert ops["y"] == "AddV2" and ops["_recv_x_0"] == "_Recv" and ops["_send_z_0"] == "_Send"
    assert client.step([z.name], {x: [1, 2]})[1] is None


def test_callables(master: Master, graph: Any) -> None:
    chain()
    client = MasterClient(master, graph)
    options = protos.CallableOptions(feed=["x:0"], fetch=["z:0", "y:0"])
    handle = master.make_callable(client.handle, options)
    fed = [np.array([1, 2], np.float32)]
    values, _ = master.run_callable(client.handle, handle, fed)
    np.testing.assert_array_equal(values, [[4, 8], [2, 4]])
    options = protos.CallableOptions(feed=["x:0"], fetch=["z:0"])
    options.tensor_connection.add(from_tensor="x:0", to_tensor="y:0")
    connected = master.make_callable(client.handle, options)
    np.testing.assert_array_equal(master.run_callable(client.handle, connected, fed)[0], [[2, 4]])
    wrong = caught(lambda: master.run_callable(client.handle, handle, []))
    assert wrong.message == "Expected 1 feed tensors, but got 0"
    master.release_callable(client.handle, handle)
    for call in (
        lambda: master.run_callable(client.handle, handle, fed),
        lambda: master.release_callable(client.handle, 99),
    ):
        assert caught(call).message.startswith("No such callable handle: ")
    options.feed_devices["x:0"] = "/job:w/replica:0/task:0/device:CPU:0"
    error = caught(lambda: master.make_callable(client.handle, options))
    assert isinstance(error, errors.UnimplementedError) and "feed_devices" in error.message
    missing = protos.CallableOptions(fetch=["nope:0"])
    error = caught(lambda: master.make_callable(client.handle, missing))
    assert isinstance(error, errors.NotFoundError)


def test_partial_runs(master: Master, graph: Any) -> None:
    with on(0):
        a = tf1.placeholder(tf.float32, [], name="a")
        b = tf1.placeholder(tf.float32, [], name="b")
    with on(1):
        first = tf.add(a, 1.0, name="first")
    with on(2):
        second = tf.multiply(first, b, name="second")
    client = MasterClient(master, graph)
    handle = master.partial_run_setup(
        client.handle, [a.name, b.name], [first.name, second.name], []
    )

    def text(fetches: list[str], feeds: Any = None) -> str:
        return caught(lambda: client.step(fetches, feeds, partial_run=handle)).message

    lost = "Fetch a:0 can't be computed from the feeds that have been fed so far."
    assert text(["first:0"]) == lost
    assert text(["nope:0"]) == "The fetch nope:0 was not specified in partial_run_setup."
    assert client.run(first, {a: 2}, partial_run=handle) == 3
    assert text(["first:0"]) == "The fetch first:0 has already been fetched."
    assert text([], {a: 1}) == "The feed a:0 has already been fed."
    assert client.run(second, {b: 5}, partial_run=handle) == 15
    over = "Must run PartialRunSetup before performing partial runs"
    assert text(["second:0"]) == over
    # an unfinished one is no obstacle
    master.partial_run_setup(client.handle, [a.name], [first.name], [])
    client.close()


def test_a_request_that_arrives_twice_is_refused(master: Master, graph: Any) -> None:
    x, _, z = chain()
    client = MasterClient(master, graph)
    client.run(z, {x: [1, 2]}, request_id=77)
    error = caught(lambda: client.run(z, {x: [1, 2]}, request_id=77))
    assert isinstance(error, errors.AbortedError)
    assert error.message == "The same RunStep (Master) request was received twice."


def blocked(task: int) -> Any:
    """Build a node that waits for an empty queue."""
    with on(task):
        return tf1.FIFOQueue(1, tf.float32, [()]).dequeue()


@pytest.mark.parametrize("task", [0, 1])
def test_deadlines(master: Master, graph: Any, task: int) -> None:
    waits = blocked(task)
    client = MasterClient(master, graph)
    began = time.monotonic()
    options = protos.RunOptions(timeout_in_ms=200)
    error = caught(lambda: client.run(waits, options=options))
    assert isinstance(error, errors.DeadlineExceededError)
    assert time.monotonic() - began < 60
    slow = MasterClient(master, graph, operation_timeout_in_ms=200)
    assert isinstance(caught(lambda: slow.run(waits)), errors.DeadlineExceededError)


def test_cancellation_by_client_and_by_close(master: Master, graph: Any) -> None:
    waits = blocked(1)
    client = MasterClient(master, graph)
    cancellation = CancellationManager()
    once_blocked(cancellation.cancel)
    error = caught(lambda: client.run(waits, cancellation=cancellation))
    assert isinstance(error, errors.CancelledError) and error.message == "Step was cancelled."
    error = caught(lambda: client.run(waits, cancellation=cancellation))
    assert isinstance(error, errors.CancelledError)
    once_blocked(client.close)
    error = caught(lambda: client.run(waits))
    assert isinstance(error, errors.CancelledError)
    assert error.message == "Step was cancelled by an explicit call to `Session::Close()`."
    assert isinstance(caught(lambda: client.run(waits)), errors.AbortedError)


def test_reset_clears_containers_and_closes_sessions(master: Master, graph: Any) -> None:
    with on(1):
        v = tf1.get_variable("cleared", initializer=3.0, use_resource=False)
    client = MasterClient(master, graph)
    client.run(v.initializer)
    master.reset([], [])
    assert isinstance(caught(lambda: client.run(v)), errors.AbortedError)
    error = caught(lambda: MasterClient(master, graph).run(v))
    assert isinstance(error, errors.FailedPreconditionError)


def test_concurrent_steps_of_one_session(master: Master, graph: Any) -> None:
    x, _, z = chain()
    client = MasterClient(master, graph)
    found: dict[int, Any] = {}

    def work(number: int) -> None:
        for _ in range(5):
            found[number] = client.run(z, {x: [number, number]})

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(4):
        np.testing.assert_array_equal(found[number], [2 * number + 2, 2 * number + 4])


@covers("ConfigProto.cluster_def", "ClusterDef.job", "JobDef.name", "JobDef.tasks")
def test_a_session_with_a_cluster_of_its_own(master: Master, graph: Any) -> None:
    listed = list(addresses().values())
    cluster = protos.ClusterDef(job=[protos.JobDef(name="k", tasks={0: listed[0], 3: listed[1]})])
    config = protos.ConfigProto(cluster_def=cluster)
    target = f"grpc://{listed[0]}"
    with tf1.device("/job:k/task:3"):
        y = tf.constant([1.0, 2.0]) * tf1.placeholder(tf.float32, [], name="p")
    definition = ours(graph.as_graph_def())
    handle, _ = master.create_session(definition, config, target)
    own, others = master.list_devices(handle)
    assert [device.name for device in own] == ["/job:k/replica:0/task:0/device:CPU:0"]
    assert [device.name for device in others] == ["/job:k/replica:0/task:3/device:CPU:0"]
    call = step_of(handle)
    call.feeds, call.fetches = [("p:0", np.array(3, np.float32))], [y.name]
    np.testing.assert_array_equal(master.run_step(call)[0], [[3, 6]])
    master.close_session(handle)
    for jobs, text in (
        ({0: listed[1]}, "No task of the ConfigProto's cluster_def is the master"),
        ({0: listed[0], 1: listed[0]}, "Found multiple matching tasks"),
    ):
        config.cluster_def.job[0].tasks.clear()
        config.cluster_def.job[0].tasks.update(jobs)
        assert text in caught(lambda: master.create_session(definition, config, target)).message
    config.cluster_def.job[0].CopyFrom(protos.JobDef(name="w", tasks={0: listed[0]}))
    error = caught(lambda: master.create_session(definition, config, target))
    assert "the same names that were provided when the server booted" in error.message


def test_a_task_that_is_not_there_is_waited_for(graph: Any) -> None:
    made = Master(
        "/job:w/replica:0/task:0", {**addresses(), "/job:z/replica:0/task:0": free_address()}
    )
    cancellation = CancellationManager()
    threading.Timer(0.3, cancellation.cancel).start()
    error = caught(lambda: made.create_session(None, None, cancellation=cancellation))
    assert isinstance(error, errors.CancelledError)
    config = protos.ConfigProto(device_filters=["/job:w"])
    handle, _ = made.create_session(None, config, cancellation=None)
    assert len(made.list_devices(handle)[0]) == 3
    made.close()


@st.composite
def placed_graphs(draw: st.DrawFn) -> list[tuple[str, tuple[int, ...], int]]:
    """Draw nodes: (operation, positions of inputs, task); the first three are fed."""
    nodes = []
    for position in range(3, draw(st.integers(4, 12))):
        op = draw(st.sampled_from(["add", "multiply", "maximum", "negative", "stack", "control"]))
        count = 1 if op in ("negative",) else 2
        inputs = tuple(draw(st.integers(0, position - 1)) for _ in range(count))
        nodes.append((op, inputs, draw(st.integers(0, 2))))
    return nodes


@hypothesis.settings(max_examples=20, deadline=None)
@hypothesis.given(placed_graphs())
def test_random_graphs_have_the_values_of_a_direct_session(
    nodes: list[tuple[str, tuple[int, ...], int]],
) -> None:
    def build(placed: bool) -> list[Any]:
        made = [tfjit.placeholder(tfjit.float32, [2], name=f"in{number}") for number in range(3)]
        for op, inputs, task in nodes:
            values = [made[position] for position in inputs]
            with tfjit.device(f"/job:w/task:{task}" if placed else None):
                if op == "stack":
                    made.append(tfjit.reduce_sum(tfjit.stack(values), 0))
                elif op == "control":
                    with tfjit.control_dependencies(values[1:]):
                        made.append(tfjit.identity(values[0]) + 1.0)
                else:
                    made.append(getattr(tfjit, op)(*values))
        return made

    with tfjit.Graph().as_default() as placed:
        names = [tensor.name for tensor in build(True)][3:]
        definition = placed.as_graph_def()
    feeds = {f"in{number}:0": np.array([number, -1.5], np.float32) for number in range(3)}
    with tfjit.Graph().as_default():
        build(False)
        with tfjit.Session() as session:
            expected = session.run(names, feeds)
    with tensorflow_master() as made:
        call = step_of(made.create_session(definition, None)[0])
        call.feeds, call.fetches = list(feeds.items()), names
        found, _ = made.run_step(call)
    for mine, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-6)
