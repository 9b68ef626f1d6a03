"""Collectives between the tasks of a cluster, of tfjit and of TensorFlow."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.ops import collective_ops

import tfjit
from tests.collective_graphs import imported
from tests.ports import free_ports
from tests.runtime.covering import covers
from tfjit import protos
from tfjit.distributed.protocol import local_tasks
from tfjit.framework import errors
from tfjit.runtime.collectives import member_exchange

tf1 = tf.compat.v1
NOT_LOCAL = {"TCP": "local_channel", "gRPC": "local_channel,direct_channel"}
LEADER = "/job:worker/replica:0/task:0"
LIMIT_S = 20


class Tasks:
    """Tasks of this process, each with a session of its own. theirs: numbers of TensorFlow's."""

    def __init__(self, count: int, theirs: Sequence[int] = (), leads: bool = True) -> None:
        addresses = [f"localhost:{port}" for port in free_ports(count)]
        cluster = {"worker": addresses}
        self.targets = [f"grpc://{address}" for address in addresses]
        config = tfjit.ConfigProto()
        if leads:
            config.experimental.collective_group_leader = LEADER
        self.servers: list[Any] = []
        for task in range(count):
            if task in theirs:
                made = tf1.ConfigProto.FromString(config.SerializeToString())
                self.theirs = tf1.train.Server(
                    cluster, job_name="worker", task_index=task, config=made
                )
            else:
                self.servers.append(
                    tfjit.train.Server(cluster, job_name="worker", task_index=task, config=config)
                )
        self.sessions: list[Any] = []

    def open(self, build: Any, config: Any = None) -> list[Any]:
        """Open a session for each task. build: of the task's number, returns what is fetched."""
        self.close()
        names = []
        for task, target in enumerate(self.targets):
            with tf1.Graph().as_default() as graph, tf1.device(f"/job:worker/task:{task}"):
                x = tf1.placeholder(tf.float32, name="x")
                names.append(build(task, x).name)
            self.sessions.append(tfjit.Session(target, graph=imported(graph), config=config))
        return names

    def run(
        self, names: Sequence[str], feeds: Sequence[Any], late: int | None = None, **options: Any
    ) -> list[Any]:
        """Return the value of each task's run, or its error. late: the task that starts last."""
        found: list[Any] = [None] * len(names)

        def run(task: int) -> None:
            kwargs = {"options": tfjit.RunOptions(**options)} if options else {}
            try:
                found[task] = self.sessions[task].run(names[task], {"x:0": feeds[task]}, **kwargs)
            except errors.OpError as error:
                found[task] = error

        threads = [threading.Thread(target=run, args=(task,)) for task in range(len(names))]
        for task, thread in enumerate(threads):
            if task != late:
                thread.start()
        if late is not None:
            time.sleep(0.3)  # the others ask for its buffer, and why it does not give any
            threads[late].start()
        for thread in threads:
            thread.join(LIMIT_S)
        return found

    def close(self) -> None:
        for session in self.sessions:
            with contextlib.suppress(errors.AbortedError):  # its task may have been stopped
                session.close()
        self.sessions = []

    def stop(self) -> None:
        self.close()
        for server in self.servers:
            server.stop()


def all_reduce(size: int, **options: Any) -> Any:
    def build(task: int, x: Any) -> Any:
        options.setdefault("timeout", LIMIT_S)
        return collective_ops.all_reduce(x, size, 1, 1, "Add", "Div", (0,), **options)

    return build


def all_reduce_v2(task: int, x: Any) -> Any:
    return collective_ops.all_reduce_v2(x, 3, 2, 7, "Max", "Id", timeout=LIMIT_S)


def all_gather(task: int, x: Any) -> Any:
    return collective_ops.all_gather(x, 3, 1, 3, timeout=LIMIT_S)


def broadcast(task: int, x: Any) -> Any:
    if task == 1:
        return collective_ops.broadcast_send_v2(x, 3, 1, 4, timeout=LIMIT_S)
    return collective_ops.broadcast_recv_v2([40], tf.float32, 3, 1, 4, timeout=LIMIT_S)


@pytest.fixture
def own_tasks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(member_exchange, "PATIENCE_S", 0.1)
    made: list[Tasks] = []

    def make(count: int, **options: Any) -> Tasks:
        made.append(Tasks(count, **options))
        return made[-1]

    yield make
    for tasks in made:
        tasks.stop()


def check_values(tasks: Tasks) -> None:
    feeds = np.random.default_rng(0).normal(size=(3, 40)).astype(np.float32)
    results = {
        all_reduce(3): feeds.sum(0) / 3,
        all_reduce_v2: feeds.max(0),
        all_gather: feeds.reshape(-1),
        broadcast: feeds[1],
    }
    for build, expected in results.items():
        names = tasks.open(build)
        for _ in range(2):
            found = tasks.run(names, feeds)
            for value in found:
                np.testing.assert_allclose(value, expected, rtol=1e-5)
                np.testing.assert_array_equal(value, found[0])


@pytest.mark.parametrize("way", ["calls", "local channel", "TCP", "gRPC"])
def test_values(own_tasks: Any, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way != "calls":
        monkeypatch.setattr(local_tasks, "find_worker", lambda address: None)
    if way in ("TCP", "gRPC"):
        monkeypatch.setenv("TFJIT_DISABLE", NOT_LOCAL[way])
    check_values(own_tasks(3))


def test_values_with_a_task_of_tensorflow(own_tasks: Any) -> None:
    check_values(own_tasks(3, theirs=[1]))


def test_values_with_a_leader_of_tensorflow(own_tasks: Any) -> None:
    check_values(own_tasks(3, theirs=[0]))


@pytest.mark.parametrize("disabled", ["", *NOT_LOCAL.values()])
def test_large_values(own_tasks: Any, disabled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of 18 MB go beside their messages."""
    monkeypatch.setattr(local_tasks, "find_worker", lambda address: None)
    monkeypatch.setenv("TFJIT_DISABLE", disabled)
    tasks = own_tasks(2)
    names = tasks.open(all_reduce(2))
    feeds = [np.full(9_000_000, value, np.float32) for value in (1, 2)]
    for value in tasks.run(names, feeds):
        assert value.shape == (9_000_000,) and (value == 1.5).all()


@covers(
    "ConfigProto.Experimental.collective_group_leader",
    "RunOptions.Experimental.collective_graph_key",
)
def test_the_config_of_the_session_names_the_leader(own_tasks: Any) -> None:
    tasks = own_tasks(2, leads=False)
    config = tfjit.ConfigProto()
    config.experimental.collective_group_leader = LEADER
    names = tasks.open(all_reduce(2), config)
    options = {"experimental": {"collective_graph_key": 3}}
    for value in tasks.run(names, [[2.0], [4.0]], **options):
        assert value == [3]


def test_one_session_over_two_tasks(own_tasks: Any) -> None:
    """Its tensors go between tasks beside the collective."""
    tasks = own_tasks(2)
    with tf1.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [2], name="x")
        made = []
        for task in range(2):
            with tf1.device(f"/job:worker/task:{task}"):
                part = x * (task + 1.0)
                made.append(collective_ops.all_reduce(part, 2, 1, 1, "Add", "Id", (0,)) + 1.0)
        with tf1.device("/job:worker/task:0"):
            y = made[0] + made[1]
    with tfjit.Session(tasks.targets[1], graph=imported(graph)) as session:
        for _ in range(2):
            np.testing.assert_array_equal(session.run(y.name, {"x:0": [1.0, 2.0]}), [8, 14])


def kinds(found: Sequence[Any]) -> list[str]:
    return [type(one).__name__ for one in found]


def test_members_with_other_shapes(own_tasks: Any) -> None:
    tasks = own_tasks(2)
    names = tasks.open(all_reduce(2))
    found = tasks.run(names, [[1.0], [1.0, 2.0]])
    assert any("Shape mismatch" in str(one) for one in found), found
    assert set(kinds(found)) <= {"InvalidArgumentError", "DeadlineExceededError"}


def test_a_member_that_does_not_come(own_tasks: Any) -> None:
    tasks = own_tasks(2)
    names = tasks.open(all_reduce(2, timeout=0.3))
    for task in (1, 0):  # of the leader and of the other
        found = tasks.run(names[task : task + 1] if task == 0 else names[1:], [[1.0]])
        assert kinds(found) == ["DeadlineExceededError"]


@pytest.mark.parametrize("way", ["calls", *NOT_LOCAL])
def test_a_member_whose_step_fails(
    own_tasks: Any, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one is told, although the failed node is before the collective.

    The next attempt has the same step id, and knows nothing of the error.
    """
    if way != "calls":
        monkeypatch.setattr(local_tasks, "find_worker", lambda address: None)
        monkeypatch.setenv("TFJIT_DISABLE", NOT_LOCAL[way])

    def build(task: int, x: Any) -> Any:
        checked = tf1.check_numerics(x, "wrong") if task == 1 else x
        return collective_ops.all_reduce(checked, 2, 1, 1, "Add", "Id", (0,), timeout=LIMIT_S)

    tasks = own_tasks(2)
    names = tasks.open(build)
    assert tasks.run(names, [[1.0], [2.0]]) == [[3], [3]]  # they know the group from now on
    for late in (None, 0, 1):
        found = tasks.run(names, [[1.0], [np.nan]], late)
        assert kinds(found) == ["InvalidArgumentError"] * 2
        assert all("wrong" in str(one) for one in found)
        assert tasks.run(names, [[1.0], [2.0]], late) == [[3], [3]]


def test_a_task_that_is_lost(own_tasks: Any) -> None:
    tasks = own_tasks(2)
    names = tasks.open(all_reduce(2))
    assert tasks.run(names, [[1.0], [3.0]]) == [[2], [2]]
    timer = threading.Timer(0.3, tasks.servers[1].stop)
    timer.start()
    found = tasks.run(names[:1], [[1.0]])
    timer.join()
    assert kinds(found)[0] in ("UnavailableError", "CancelledError", "AbortedError")


def test_a_request_for_an_earlier_start_of_the_device(own_tasks: Any) -> None:
    worker = local_tasks.find_worker(own_tasks(1).targets[0].removeprefix("grpc://"))
    assert worker is not None
    (device,) = worker.get_status()
    said: list[Any] = []
    request = protos.RecvBufRequest(src_device=device.name, src_incarnation=device.incarnation + 1)
    worker.receive_buffer(request, lambda error, value: said.append(error))
    assert isinstance(said[0], errors.FailedPreconditionError)
    cancelled: list[Any] = []
    request.src_incarnation -= 1
    cancel = worker.receive_buffer(request, lambda error, value: cancelled.append(error))
    assert not cancelled
    cancel()
    cancel()
    (error,) = cancelled
    assert isinstance(error, errors.CancelledError)


def test_a_leader_that_does_not_know_the_group(own_tasks: Any) -> None:
    worker = local_tasks.find_worker(own_tasks(1).targets[0].removeprefix("grpc://"))
    assert worker is not None
    with pytest.raises(errors.FailedPreconditionError, match="group 9 not found"):
        worker.complete_instance(protos.CompleteInstanceRequest(group_key=9), print)
    with pytest.raises(errors.InternalError, match="device_attributes is not set"):
        worker.complete_group(protos.CompleteGroupRequest(group_key=9), print)
