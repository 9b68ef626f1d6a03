"""A worker as task 1 of a cluster whose task 0, the master too, is a TensorFlow server."""

from __future__ import annotations

import gc
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.distributed.session.servers import answered
from tests.distributed.worker.served_worker import MixedCluster

tf1 = tf.compat.v1
TASKS = ["/job:worker/task:0", "/job:worker/task:1"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[MixedCluster]:
    resources, control_flow = tf1.resource_variables_enabled(), tf1.control_flow_v2_enabled()
    tf1.disable_resource_variables()
    tf1.disable_control_flow_v2()
    made = MixedCluster()
    yield made
    made.served.stop()
    if resources:
        tf1.enable_resource_variables()
    if control_flow:
        tf1.enable_control_flow_v2()


@pytest.fixture
def session(cluster: MixedCluster) -> Iterator[Callable[[Callable[[], Any]], Any]]:
    """A function that returns (session, its result) of a function that builds a graph."""
    opened = []

    def open_session(build: Callable[[], Any]) -> Any:
        graph = tf1.Graph()
        with graph.as_default():
            made = build()
        config = tf1.ConfigProto(operation_timeout_in_ms=60_000)
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        opened.append(tf1.Session(cluster.target, graph=graph, config=config))
        return opened[-1], made

    yield open_session
    for one in opened:
        one.close()


def _there_and_back() -> Any:
    x = tf1.placeholder(tf.float32, name="x")
    with tf1.device(TASKS[1]):
        a = tf.square(x)
    with tf1.device(TASKS[0]):
        b = a * 3.0
    with tf1.device(TASKS[1]):
        return x, b + a


def test_tensors_go_there_and_back(session: Any) -> None:
    s, (x, y) = session(_there_and_back)
    assert s.run(y, {x: 2.0}) == 16
    np.testing.assert_array_equal(s.run(y, {x: [2.0, 3.0]}), [16, 36])
    names = [device.name for device in s.list_devices()]
    assert "/job:worker/replica:0/task:1/device:CPU:0" in names


@pytest.mark.parametrize("resource", [False, True])
def test_variables_live_in_the_worker(session: Any, cluster: MixedCluster, resource: bool) -> None:
    def build() -> Any:
        with tf1.device(TASKS[1]):
            v = tf1.get_variable(f"v{resource}", initializer=[1.0, 2.0], use_resource=resource)
        with tf1.device(TASKS[0]):
            doubled = v * 2.0
        return v, doubled, v.assign_add([1.0, 1.0]), tf1.global_variables_initializer()

    s, (_, doubled, up, init) = session(build)
    with pytest.raises(tf.errors.FailedPreconditionError, match=f"v{resource}"):
        s.run(doubled)
    s.run(init)
    np.testing.assert_array_equal(s.run(doubled), [2, 4])
    np.testing.assert_array_equal(s.run(up), [2, 3])
    other, (v2, doubled2, _, _) = session(build)
    for value, expected in zip(other.run([v2, doubled2]), ([2, 3], [4, 6]), strict=True):
        np.testing.assert_array_equal(value, expected)


def test_training_gives_the_losses_of_one_session(session: Any) -> None:
    rng = np.random.default_rng(0)
    data = rng.normal(size=(8, 5, 4)).astype(np.float32)

    def build(places: bool = True) -> Any:
        with tf1.device(TASKS[1] if places else None):
            start = np.linspace(-1, 1, 32, dtype=np.float32)
            w1 = tf1.get_variable("train/w1", initializer=start.reshape(4, 8))
            w2 = tf1.get_variable("train/w2", initializer=start[:8, None])
        with tf1.device(TASKS[0] if places else None):
            x = tf1.placeholder(tf.float32, [None, 4])
            loss = tf.reduce_mean(tf.square(tf.matmul(tf.tanh(tf.matmul(x, w1)), w2) - 0.5))
        train = tf1.train.MomentumOptimizer(0.05, 0.9).minimize(loss)
        return x, loss, train, tf1.global_variables_initializer()

    def losses(s: Any, made: Any) -> list[float]:
        x, loss, train, init = made
        s.run(init)
        return [s.run([loss, train], {x: batch})[0] for batch in data]

    with tf1.Graph().as_default():
        made = build(places=False)
        with tf1.Session() as alone:
            expected = losses(alone, made)
    np.testing.assert_allclose(losses(*session(build)), expected, rtol=1e-6)


def test_errors_name_their_node_and_task(session: Any) -> None:
    def build() -> Any:
        x, z = tf1.placeholder(tf.float32), tf1.placeholder(tf.float32)
        with tf1.device(TASKS[1]):
            return x, z, tf.add(x, z, name="bad")

    s, (x, z, y) = session(build)
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        s.run(y, {x: [1.0, 2.0, 3.0], z: [1.0, 2.0]})
    # task 0 waits for the tensor, and may report the error first
    assert re.search("From /job:worker/replica:0/task:[01]:", str(caught.value))
    assert "Incompatible shapes: [3] vs. [2]" in str(caught.value)
    assert caught.value.node_def.name == "bad"
    np.testing.assert_array_equal(s.run(y, {x: [1.0], z: [2.0]}), [3])


def test_queues_and_strings(session: Any) -> None:
    def build() -> Any:
        x = tf1.placeholder(tf.float32)
        with tf1.device(TASKS[1]):
            q = tf1.FIFOQueue(3, [tf.float32, tf.string], shared_name="strings")
            number, text = q.dequeue()
            put = q.enqueue([x, tf.as_string(x)])
        with tf1.device(TASKS[0]):
            return x, put, number * 2.0, tf.strings.join([text, "-"]), q.size()

    s, (x, put, doubled, joined, size) = session(build)
    s.run(put, {x: 5.0})
    assert s.run(size) == 1
    assert s.run([doubled, joined]) == [10, b"5.000000-"]
    limit = tf1.RunOptions(timeout_in_ms=300)
    assert answered(lambda: s.run(doubled, options=limit))[0] == "DeadlineExceededError"
    outcome: list[Any] = []
    waiting = threading.Thread(target=lambda: outcome.append(s.run(doubled)))
    waiting.start()
    s.run(put, {x: 7.0})
    waiting.join(60)
    assert outcome == [14]


def test_control_flow_over_both_tasks(session: Any) -> None:
    def branches() -> Any:
        p, x = tf1.placeholder(tf.bool, []), tf1.placeholder(tf.float32, [])

        def on_worker(of: Callable[[], Any]) -> Callable[[], Any]:
            def there() -> Any:
                with tf1.device(TASKS[1]):
                    return of()

            return there

        y = tf1.cond(p, on_worker(lambda: x * 2.0 + 1.0), on_worker(lambda: x - 1.0))
        with tf1.device(TASKS[1]):
            return p, x, y, y * 10.0

    s, (p, x, y, z) = session(branches)
    assert s.run([y, z], {p: True, x: 3.0}) == [7, 70]
    assert s.run([y, z], {p: False, x: 3.0}) == [2, 20]

    def loop() -> Any:
        n = tf1.placeholder(tf.int32, [])

        def body(i: Any, x: Any) -> Any:
            with tf1.device(TASKS[1]):
                y = x * 2.0
            with tf1.device(TASKS[0]):
                return i + 1, y + 1.0

        return n, tf1.while_loop(lambda i, x: i < n, body, [0, 1.0])[1]

    s, (n, out) = session(loop)
    assert [s.run(out, {n: count}) for count in (0, 1, 5)] == [1, 3, 63]


def test_partial_runs(session: Any) -> None:
    def build() -> Any:
        with tf1.device(TASKS[1]):
            a, b, c = (tf1.placeholder(tf.float32, []) for _ in range(3))
            first = a + b
        with tf1.device(TASKS[0]):
            return a, b, c, first, first * c

    s, (a, b, c, first, second) = session(build)
    handle = s.partial_run_setup([first, second], [a, b, c])
    assert s.partial_run(handle, first, {a: 1.0, b: 2.0}) == 3
    assert s.partial_run(handle, second, {c: 5.0}) == 15


def test_traces_have_the_nodes_of_both_tasks(session: Any) -> None:
    s, (x, y) = session(_there_and_back)
    metadata = tf1.RunMetadata()
    options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE, output_partition_graphs=True)
    assert s.run(y, {x: 2.0}, options=options, run_metadata=metadata) == 16
    traced = {stats.device for stats in metadata.step_stats.dev_stats}
    assert traced >= {f"/job:worker/replica:0/task:{i}/device:CPU:0" for i in (0, 1)}
    assert len(metadata.partition_graphs) == 2


def test_a_restarted_worker_is_noticed(session: Any, cluster: MixedCluster) -> None:
    s, (x, y) = session(_there_and_back)
    assert s.run(y, {x: 2.0}) == 16
    before = cluster.worker
    cluster.served.worker = cluster.fresh_worker()
    before.close()
    # the master may report the receive of task 0, which it cancels, with the cause below it
    expected = (tf.errors.AbortedError, tf.errors.CancelledError)
    with pytest.raises(expected, match="restarted"):
        for _ in range(3):
            s.run(y, {x: 2.0})
    fresh, (x, y) = session(_there_and_back)
    assert fresh.run(y, {x: 2.0}) == 16


def test_sessions_leave_nothing(session: Any, cluster: MixedCluster) -> None:
    s, (x, y) = session(_there_and_back)
    for value in range(20):
        assert s.run(y, {x: float(value)}) == 4 * value * value
    s.close()
    gc.collect()
    assert list(cluster.worker._sessions) == [""]
    assert len(cluster.worker.steps) == 0
