"""Runs over several workers: values as of one session, and no deadlock."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tfjit as tf
from tests.distributed.worker.in_process_cluster import Cluster
from tests.waiting import wait_until
from tfjit import protos
from tfjit.distributed.protocol.interfaces import GraphCall
from tfjit.framework import errors

TASKS = [f"/job:worker/task:{i}" for i in range(3)]


WAYS = {
    "staged": {},
    "whole": {"whole": True},
    "local channels": {"connected": True},
    "TCP": {"connected": True},
    "gRPC": {"connected": True},
}
NOT_LOCAL = {"TCP": "local_channel", "gRPC": "local_channel,direct_channel"}


def way(name: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """Return the arguments of clusters of that kind."""
    if name in NOT_LOCAL:
        monkeypatch.setenv("TFJIT_DISABLE", NOT_LOCAL[name])
    return WAYS[name]


@pytest.fixture(params=WAYS)
def cluster(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    with Cluster(2, **way(request.param, monkeypatch)) as made:
        yield made


def staged(cluster: Cluster) -> list[bool]:
    """Return of each registered graph whether it runs in stages."""
    return [
        cluster.workers[number]._sessions[cluster.session]._graphs[handle].staged is not None
        for handles in cluster.graphs.values()
        for number, handle in handles.items()
    ]


def in_one_session(graph_def: Any, init: str, runs: Any) -> list[Any]:
    """Return the fetches of runs of a DirectSession, without devices."""
    local = type(graph_def)()
    local.CopyFrom(graph_def)
    for node in local.node:
        node.device = ""
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(local, name="")
    with tf.Session(graph=graph) as session:
        if init:
            session.run(graph.get_operation_by_name(init))
        return [
            session.run(
                [
                    *fetches,
                    *(graph.get_operation_by_name(name) for name in targets),
                ],
                feeds,
            )[: len(fetches)]
            for feeds, fetches, targets in runs
        ]


def test_tensors_go_there_and_back(cluster: Cluster) -> None:
    graph = tf.Graph()
    with graph.as_default():
        with tf.device(TASKS[0]):
            x = tf.placeholder(tf.float32, name="x")
            a = tf.square(x)
        with tf.device(TASKS[1]):
            b = a * 3.0
        with tf.device(TASKS[0]):
            y = tf.add(b, a, name="y")
    graph_def = graph.as_graph_def()
    assert cluster.compute(graph_def, {"x:0": np.float32(2)}, [y.name, a.name]) == [16, 4]
    value = np.array([[1.0, 2.0]], np.float32)
    results = cluster.compute(graph_def, {"x:0": value}, [y.name, a.name])
    np.testing.assert_array_equal(results[0], [[4, 16]])
    assert all(one is not cluster.whole for one in staged(cluster))


def test_training_with_the_variables_on_another_task(cluster: Cluster) -> None:
    graph = tf.Graph()
    with graph.as_default():
        with tf.device(TASKS[1]):
            start = np.linspace(-1, 1, 32, dtype=np.float32)
            w1 = tf.get_variable("w1", initializer=start.reshape(4, 8))
            b1 = tf.get_variable("b1", [8], initializer=tf.zeros_initializer())
            w2 = tf.get_variable("w2", initializer=start[:8, None], use_resource=True)
        with tf.device(TASKS[0]):
            x = tf.placeholder(tf.float32, [None, 4], name="x")
            y = tf.placeholder(tf.float32, [None, 1], name="y")
            hidden = tf.tanh(tf.matmul(x, w1) + b1)
            loss = tf.reduce_mean(tf.square(tf.matmul(hidden, w2) - y))
        train = tf.train.AdamOptimizer(0.05).minimize(loss)
        init = tf.global_variables_initializer()
    rng = np.random.default_rng(0)
    graph_def = graph.as_graph_def()
    batches = [
        {
            "x:0": rng.normal(size=(5, 4)).astype(np.float32),
            "y:0": rng.normal(size=(5, 1)).astype(np.float32),
        }
        for _ in range(12)
    ]
    runs = [(batch, [loss.name], [train.name]) for batch in batches]
    expected = in_one_session(graph_def, init.name, runs)
    cluster.compute(graph_def, {}, [], [init.name])
    losses = [cluster.compute(graph_def, batch, [loss.name], [train.name]) for batch in batches]
    np.testing.assert_allclose(losses, expected, rtol=1e-6)
    assert losses[-1][0] < losses[0][0]


def _branches() -> tuple[Any, list[str]]:
    graph = tf.Graph()
    with graph.as_default():
        with tf.device(TASKS[0]):
            p = tf.placeholder(tf.bool, [], name="p")
            x = tf.placeholder(tf.float32, [], name="x")
            alive_if_false, alive_if_true = tf.raw_ops.Switch(data=x, pred=p)
        with tf.device(TASKS[1]):
            b = alive_if_true * 3.0 + x
            unharmed = tf.negative(x)
        with tf.device(TASKS[0]):
            y, _ = tf.raw_ops.Merge(inputs=[alive_if_false, b])
    return graph.as_graph_def(), [y.name, unharmed.name, b.name]


def test_dead_tensors_cross_tasks(cluster: Cluster) -> None:
    graph_def, (y, unharmed, b) = _branches()
    for _ in range(2):
        for p, expected in (True, [20, -5]), (False, [5, -5]):
            feeds = {"p:0": np.array(p), "x:0": np.float32(5)}
            assert cluster.compute(graph_def, feeds, [y, unharmed], optimize=False) == expected
    dead = {"p:0": np.array(False), "x:0": np.float32(5)}
    with pytest.raises(errors.InvalidArgumentError, match="was not valid"):
        cluster.compute(graph_def, dead, [b], optimize=False)


def test_a_loop_over_two_tasks(cluster: Cluster) -> None:
    graph = tf.Graph()
    with graph.as_default():
        n = tf.placeholder(tf.int32, [], name="n")

        def body(i: Any, x: Any) -> Any:
            with tf.device(TASKS[1]):
                y = x * 2.0
            with tf.device(TASKS[0]):
                return i + 1, y + 1.0

        with tf.device(TASKS[0]):
            _, out = tf.while_loop(lambda i, x: i < n, body, [0, 1.0])
    graph_def = graph.as_graph_def()
    for count, expected in (0, 1), (1, 3), (5, 63), (1, 3):
        results = cluster.compute(graph_def, {"n:0": np.int32(count)}, [out.name], optimize=False)
        assert results == [expected]


def test_control_edges_order_effects_on_two_tasks(cluster: Cluster) -> None:
    graph = tf.Graph()
    with graph.as_default():
        with tf.device(TASKS[1]):
            v = tf.get_variable("v", initializer=0.0, use_resource=True)
        with tf.device(TASKS[0]):
            w = tf.get_variable("w", initializer=0.0, use_resource=True)
        first = v.assign_add(1.0)
        with tf.control_dependencies([first]), tf.device(TASKS[0]):
            second = w.assign_add(10.0)
        with tf.control_dependencies([second]), tf.device(TASKS[1]):
            third = v.assign(v.read_value() * 2.0)
        with tf.control_dependencies([third]), tf.device(TASKS[0]):
            seen = w.read_value()
        with tf.control_dependencies([third]), tf.device(TASKS[1]):
            doubled = v.read_value()
        init = tf.global_variables_initializer()
    graph_def = graph.as_graph_def()
    cluster.compute(graph_def, {}, [], [init.name])
    for expected in (10, 2), (20, 6), (30, 14):
        results = cluster.compute(graph_def, {}, [seen.name, doubled.name])
        assert tuple(results) == expected


def test_a_queue_between_the_nodes(cluster: Cluster) -> None:
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [], name="x")
        with tf.device(TASKS[1]):
            q = tf.FIFOQueue(3, [tf.float32, tf.string])
            put = q.enqueue([x, tf.as_string(x * 2.0)])
            number, text = q.dequeue()
        with tf.device(TASKS[0]):
            y, z = number * 2.0, tf.strings.join([text, "!"])
    graph_def = graph.as_graph_def()
    for value in 1.0, 2.0:
        feeds = {"x:0": np.float32(value)}
        # one step waits for itself: its enqueue may not wait for the dequeue
        results = cluster.compute(graph_def, feeds, [y.name, z.name], [put.name])
        assert results == [2 * value, f"{2 * value:.6f}!".encode()]


def test_several_devices_of_a_task() -> None:
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [], name="x")
        with tf.device(f"{TASKS[1]}/device:CPU:1"):
            a = x * 2.0
        with tf.device(f"{TASKS[1]}/device:CPU:0"):
            b = a + 1.0
        with tf.device(f"{TASKS[0]}/device:CPU:1"):
            c = b * a
        with tf.device(f"{TASKS[1]}/device:CPU:1"):
            d = c - b
    config = protos.ConfigProto(device_count={"CPU": 2})
    for whole in False, True:
        with Cluster(2, config, whole) as cluster:
            for _ in range(2):
                results = cluster.compute(graph.as_graph_def(), {"x:0": np.float32(3)}, [d.name])
                assert results == [35]


def test_a_run_is_cancelled_before_it_starts(cluster: Cluster) -> None:
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [], name="x")
        y = tf.negative(x)
    handles = cluster.register(graph.as_graph_def(), ["x:0"], [y.name])
    outcome: list[Any] = []
    over = threading.Semaphore(0)

    def done(*answer: Any) -> None:
        outcome.append(answer)
        over.release()

    feeds = {cluster.key("x:0"): np.float32(1)}
    for step in range(100, 200):
        call = GraphCall(cluster.session, handles[0], step, feeds, [cluster.key(y.name)])
        cluster.workers[0].start_graph(call, done)()
    assert all(over.acquire(timeout=60) for _ in range(100)) and len(outcome) == 100
    for error, result in outcome:
        assert isinstance(error, errors.CancelledError) if result is None else error is None


def test_an_error_of_one_task_ends_the_step_of_both(cluster: Cluster) -> None:
    graph = tf.Graph()
    with graph.as_default():
        with tf.device(TASKS[0]):
            x = tf.placeholder(tf.float32, name="x")
        with tf.device(TASKS[1]):
            bad = tf.add(x, [1.0, 2.0, 3.0], name="bad")
        with tf.device(TASKS[0]):
            y = bad * 2.0
    graph_def = graph.as_graph_def()
    for _ in range(2):
        with pytest.raises(errors.InvalidArgumentError, match=r"node bad"):
            cluster.compute(graph_def, {"x:0": np.ones(2, np.float32)}, [y.name])
        results = cluster.compute(graph_def, {"x:0": np.ones(3, np.float32)}, [y.name])
        np.testing.assert_array_equal(results[0], [4, 6, 8])


@pytest.mark.parametrize("name", ["staged", "local channels", "gRPC"])
def test_an_early_tensor_does_not_wait_for_one_that_depends_on_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = tf.Graph()
    with graph.as_default():
        with tf.device(TASKS[1]):
            x = tf.placeholder(tf.float32, [2], name="x")
            early = [x + float(i) for i in range(3)]
        with tf.device(TASKS[0]):
            there = tf.add_n(early)
        with tf.device(TASKS[1]):
            late = [there * float(i) for i in range(1, 3)]
        with tf.device(TASKS[0]):
            y = tf.subtract(late[1], late[0], name="y") + early[0]
    with Cluster(2, **way(name, monkeypatch)) as cluster:
        asked: list[int] = []
        worker = cluster.workers[1]
        receive = worker.receive_tensors

        def counted(step: int, keys: Any, *arguments: Any) -> Any:
            asked.append(len(keys))
            return receive(step, keys, *arguments)

        monkeypatch.setattr(worker, "receive_tensors", counted)
        for value in range(4):
            feeds = {"x:0": np.array([value, 1], np.float32)}
            (found,) = cluster.compute(graph.as_graph_def(), feeds, [y.name], optimize=False)
            np.testing.assert_array_equal(found, [4 * value + 3, 7])
        # over gRPC, the first answer tells what the other task is
        assert asked == {"staged": [], "local channels": [5] * 4, "gRPC": [5] * 3}[name]
        assert not any(len(one.steps) for one in cluster.workers)


def test_faulty_requests_for_several_tensors() -> None:
    with Cluster(2) as cluster:
        found: list[Any] = []
        worker, key = cluster.workers[0], cluster.key("x:0")
        device, incarnation, rest = key.split(";", 2)
        other = f"{device};{int(incarnation, 16) ^ 1:016x};{rest}"
        for keys in [], ["no key"], [key, other]:
            worker.receive_tensors(5, keys, lambda *part: found.append(part), 0)
        kinds = errors.InvalidArgumentError, errors.InvalidArgumentError, errors.AbortedError
        assert all(isinstance(error, kind) for (error, _), kind in zip(found, kinds, strict=True))
        for _ in range(2):
            cancel = worker.receive_tensors(5, [key], lambda *part: found.append(part), 77)
        cancel()  # of a request that was received twice
        assert isinstance(found[-1][0], errors.AbortedError) and len(found) == 4
        worker.cleanup_graph(5)
        assert isinstance(found[-1][0], errors.AbortedError) and len(found) == 5


def _beside_a_queue(bad: Any) -> tuple[Any, str, list[str]]:
    """Return (GraphDef, a target of task 0, fetches): a dequeue of task 1, and what `bad` makes."""
    graph = tf.Graph()
    with graph.as_default():
        with tf.device(TASKS[1]):
            got = tf.FIFOQueue(1, [tf.float32], [[]], shared_name="empty").dequeue()
        with tf.device(TASKS[0]):
            x, z = (tf.placeholder(tf.float32, name=name) for name in "xz")
            made = bad(x, z)
            y = tf.add(got, made, name="y")
    return graph.as_graph_def(), y.name, ["x:0", "z:0"]


@pytest.mark.parametrize(
    ("bad", "kind", "text"),
    [
        (lambda x, z: tf.add(x, z, name="bad"), errors.InvalidArgumentError, "Incompatible shapes"),
        (
            lambda x, z: tf.get_variable("none", [2], use_resource=True).read_value() + x,
            errors.FailedPreconditionError,
            "none",
        ),
        (
            lambda x, z: tf.get_variable("none", [2], use_resource=False).read_value() + x,
            errors.FailedPreconditionError,
            "none",
        ),
    ],
)
def test_an_error_beside_a_receive_does_not_wait_for_the_tensor(
    cluster: Cluster, bad: Any, kind: type[errors.OpError], text: str
) -> None:
    graph_def, fetch, names = _beside_a_queue(bad)
    handles = cluster.register(graph_def, names, [fetch])
    fed = {"x:0": np.ones(3, np.float32), "z:0": np.ones(2, np.float32)}
    with pytest.raises(kind, match=text):
        cluster.run(handles, fed, [fetch], limit_s=5.0)
    assert not any(len(worker.steps) for worker in cluster.workers)


@pytest.mark.parametrize("use_resource", [True, False])
def test_a_late_tensor_finds_the_checks_done(use_resource: bool) -> None:
    """An update of the variable is no part of them."""
    graph = tf.Graph()
    with graph.as_default():
        with tf.device(TASKS[1]):
            queue = tf.FIFOQueue(1, [tf.float32], [[]], shared_name="late")
            got, put = queue.dequeue(), queue.enqueue(5.0)
        with tf.device(TASKS[0]):
            x, z = (tf.placeholder(tf.float32, name=name) for name in "xz")
            may_fail = x + z
            v = tf.get_variable("v", initializer=1.0, use_resource=use_resource)
            optimizer = tf.train.GradientDescentOptimizer(1.0)
            with tf.control_dependencies([optimizer.apply_gradients([(tf.negative(x), v)])]):
                y = tf.add(got, may_fail + v.read_value(), name="y")
    graph_def = graph.as_graph_def()
    with Cluster(2) as cluster:
        cluster.compute(graph_def, {}, [], [v.initializer.name])
        handles = cluster.register(graph_def, ["x:0", "z:0"], [y.name])
        puts = cluster.register(graph_def, [], [], [put.name])
        (staged_graph,) = (
            one.staged
            for one in cluster.workers[0]._sessions[cluster.session]._graphs.values()
            if one.staged is not None and one.staged.checked
        )
        (check,) = (check for stage in staged_graph.checked for check in stage.checks)
        ran = threading.Event()
        run_stage = check.plan.run_stage

        def counted(*arguments: Any) -> Any:
            ran.set()
            return run_stage(*arguments)

        check.plan.run_stage = counted  # type: ignore[method-assign]
        for expected in 9, 10:
            ran.clear()
            found: list[Any] = []
            step = threading.Thread(
                target=lambda found=found: found.extend(
                    cluster.run(handles, {"x:0": np.float32(1), "z:0": np.float32(1)}, [y.name])
                )
            )
            step.start()
            assert ran.wait(60)
            cluster.run(puts, {}, [])
            step.join(60)
            assert found == [expected]  # the variable has grown once


def _random_graph(rng: random.Random, tasks: int) -> tuple[Any, list[str], str]:
    """Return (GraphDef, fetches, initializer) with ops and variables on random tasks."""
    graph = tf.Graph()
    with graph.as_default():
        with tf.device(TASKS[0]):
            tensors = [tf.placeholder(tf.float32, [2], name="x")]
        variables, last = [], [None, None]
        for k in range(2):
            with tf.device(rng.choice(TASKS[:tasks])):
                start = np.array([k, 1], np.float32)
                variables.append(tf.get_variable(f"v{k}", initializer=start, use_resource=True))
        ops: list[Any] = []
        for _ in range(rng.randrange(1, 14)):
            a, b = rng.choice(tensors[-6:]), rng.choice(tensors)
            waits = [rng.choice(ops)] if ops and rng.random() < 0.2 else []
            with tf.device(rng.choice(TASKS[:tasks])), tf.control_dependencies(waits):
                made = _random_op(rng, a, b, variables, last, tasks)
            tensors.append(made)
            ops.append(made.op)
        fetches = [t.name for t in rng.sample(tensors[1:], min(3, len(tensors) - 1))]
        init = tf.global_variables_initializer().name
    return graph.as_graph_def(), fetches, init


def _random_control_flow(rng: random.Random, a: Any, b: Any, tasks: int) -> Any:
    """Return the result of a loop on one task, or of a branch on one or two."""
    if rng.random() < 0.4:
        return tf.while_loop(lambda i, z: i < 3, lambda i, z: (i + 1, tf.tanh(z * b)), [0, a])[1]
    first, second = rng.choice(TASKS[:tasks]), rng.choice(TASKS[:tasks])

    def if_true() -> Any:
        with tf.device(first):
            return a * 2.0 + b

    def if_false() -> Any:
        with tf.device(second):
            return tf.tanh(b - 1.0)

    return tf.cond(tf.reduce_sum(a) > 0, if_true, if_false)


def _random_op(
    rng: random.Random, a: Any, b: Any, variables: list[Any], last: list[Any], tasks: int
) -> Any:
    simple = (
        lambda: tf.negative(a),
        lambda: a + b,
        lambda: tf.tanh(a * b),
        lambda: a * 0.5,
        lambda: tf.maximum(a, b),
        lambda: tf.stack([tf.reduce_sum(a), b[0]]) * 0.1,
    )
    kind = rng.randrange(len(simple) + 5)
    if kind < len(simple):
        return simple[kind]()
    if kind >= len(simple) + 2:
        return _random_control_flow(rng, a, b, tasks)
    j = rng.randrange(2)
    # accesses to one variable have an order, so that there is one result
    waits = [] if last[j] is None else [last[j]]
    with tf.control_dependencies(waits), tf.colocate_with(variables[j].handle):
        if kind == len(simple):
            made = tf.identity(variables[j].assign_add(tf.tanh(a)))
        else:
            made = variables[j].read_value() * 1.0
    last[j] = made.op
    return made


@pytest.mark.parametrize("name", WAYS)
def test_random_graphs_on_random_tasks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = way(name, monkeypatch)

    @settings(max_examples=10, deadline=None, derandomize=True)
    @given(st.integers(0, 1 << 30))
    def check(seed: int) -> None:
        check_random_graph(seed, arguments)

    check()


def check_random_graph(seed: int, arguments: dict[str, bool]) -> None:
    rng = random.Random(seed)
    tasks = rng.choice([2, 3])
    graph_def, fetches, init = _random_graph(rng, tasks)
    feeds = [{"x:0": np.array(x, np.float32)} for x in ([0.5, -1], [2, 3])]
    expected = in_one_session(graph_def, init, [(feed, fetches, []) for feed in feeds])
    with Cluster(tasks, **arguments) as cluster:
        cluster.compute(graph_def, {}, [], [init])
        for feed, values in zip(feeds, expected, strict=True):
            results = cluster.compute(graph_def, feed, fetches)
            for result, value in zip(results, values, strict=True):
                np.testing.assert_allclose(result, value, rtol=1e-5, atol=1e-6)
        assert not (cluster.whole and any(staged(cluster)))
        assert not any(len(worker.steps) for worker in cluster.workers)


@pytest.mark.parametrize("name", WAYS)
def test_steps_cancelled_at_random_moments_leave_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph_def, fetches, init = _random_graph(random.Random(5), 3)
    with Cluster(3, **way(name, monkeypatch)) as cluster:
        cluster.compute(graph_def, {}, [], [init])
        handles = cluster.register(graph_def, ["x:0"], fetches)
        feeds = {"x:0": np.array([0.5, -1], np.float32)}
        unexpected: list[BaseException] = []

        def client(seed: int) -> None:
            rng = random.Random(seed)
            for _ in range(20):
                try:
                    cluster.run(handles, feeds, fetches, deadline_s=rng.choice([None, 0.001]))
                except (errors.CancelledError, errors.DeadlineExceededError):
                    pass
                except BaseException as error:
                    unexpected.append(error)

        clients = [threading.Thread(target=client, args=(seed,)) for seed in range(4)]
        for one in clients:
            one.start()
        for one in clients:
            one.join(60)
        assert not unexpected and not any(one.is_alive() for one in clients)
        assert len(cluster.run(handles, feeds, fetches)) == len(fetches)
        for number, handle in handles.items():
            worker = cluster.workers[number]
            # a request that was on its way is cancelled behind it
            wait_until(lambda worker=worker: not len(worker.steps))
            assert not worker._sessions[cluster.session]._graphs[handle]._runs


def threads_of_runs(cluster: Cluster, y: Any, feeds: dict[str, Any], count: int) -> list[int]:
    """Return the threads on which runs that were started here have ended."""
    handles = cluster.register(y.graph.as_graph_def(), list(feeds), [y.name])
    found: list[int] = []
    over = threading.Semaphore(0)

    def done(error: BaseException | None, result: Any) -> None:
        assert error is None, error
        found.append(threading.get_ident())
        over.release()

    for _ in range(count):
        call = GraphCall(cluster.session, handles[0], next(cluster.steps))
        call.feeds = {cluster.key(name): value for name, value in feeds.items()}
        call.fetches = [cluster.key(y.name)]
        cluster.workers[0].start_graph(call, done)
        assert over.acquire(timeout=60)
        cluster.workers[0].cleanup_graph(call.step_id)
    return found


def test_short_graphs_run_where_their_call_arrives() -> None:
    with Cluster(2) as cluster, tf.Graph().as_default():
        y = tf.negative(tf.placeholder(tf.float32, [], name="x"))
        threads = threads_of_runs(cluster, y, {"x:0": np.float32(1)}, 100)
        assert threads[0] != threading.get_ident()  # it may have to be compiled
        assert threading.get_ident() in threads


def test_graphs_that_may_wait_run_on_other_threads() -> None:
    with Cluster(2) as cluster, tf.Graph().as_default():
        queue = tf.FIFOQueue(10, tf.float32, [[]])
        with tf.control_dependencies([queue.enqueue(2.0)]):
            y = queue.dequeue()
        assert threading.get_ident() not in threads_of_runs(cluster, y, {}, 20)


def test_an_estimate_follows_longer_runs() -> None:
    with Cluster(2) as cluster, tf.Graph().as_default():
        y = tf.negative(tf.placeholder(tf.float32, [], name="x"))
        threads_of_runs(cluster, y, {"x:0": np.float32(1)}, 1)
        (graph,) = cluster.workers[0]._sessions[cluster.session]._graphs.values()
        assert graph.staged is not None
        (stage,) = graph.staged.stages
        stage.took(1e-4)
        assert graph.staged.is_short
        stage.took(1.0)  # once, as of a thread that waited for the interpreter
        assert graph.staged.is_short
        stage.took(1.0)
        assert not graph.staged.is_short
