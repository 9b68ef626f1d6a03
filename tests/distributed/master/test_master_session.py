"""The calls of a session to its workers, and their failures."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.distributed.master.fake_workers import FakeCluster, devices_of, zeros
from tests.runtime.covering import covers
from tests.waiting import PATIENCE_S, growing, wait_until
from tfjit import protos
from tfjit.distributed.master.client_graph import ClientGraph, signature_of
from tfjit.distributed.master.master_session import MasterSession
from tfjit.distributed.protocol.interfaces import GraphCall, GraphResult, StepCall
from tfjit.framework import errors
from tfjit.runtime.host.cancellation import CancellationManager
from tfjit.runtime.kernel_api.op_kernel import DEAD


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    made = FakeCluster()
    yield made
    made.close()


def caught(call: Any) -> errors.OpError:
    with pytest.raises(errors.OpError) as info:
        call()
    return info.value


def session_of(cluster: FakeCluster, handle: str) -> MasterSession:
    return cluster.master._sessions[handle]


def test_a_step_on_one_task_calls_its_worker_on_this_thread(cluster: FakeCluster) -> None:
    own, other = cluster.workers
    handle = cluster.session()
    threads = []

    def answer(call: GraphCall) -> GraphResult:
        threads.append(threading.current_thread())
        return zeros(call)

    own.answer = answer
    for _ in range(2):
        assert cluster.run(handle, 0) == [0]
    assert threads == [threading.current_thread()] * 2
    created = ["GetStatus", "CreateWorkerSession"]
    assert own.log == [*created, "RegisterGraph", *["RunGraph", "CleanupGraph"] * 2]
    assert other.log == created
    assert len({call.step_id for call in own.calls}) == 2
    key = "/job:w/replica:0/task:0/device:CPU:0"
    assert list(own.calls[0].feeds) == [f"{key};8000000000000005;{key};x0:0;0:0"]
    assert own.calls[0].fetches == (f"{key};8000000000000005;{key};t0:0;0:0",)


def test_partitions_of_a_step_on_two_tasks(cluster: FakeCluster) -> None:
    handle = cluster.session()
    cluster.run(handle, 0, 1)
    own, other = cluster.workers
    assert devices_of(own.graphs["g1"]) == {own.task}
    assert devices_of(other.graphs["g1"]) == {other.task}
    sends = {
        node.name: node
        for worker in cluster.workers
        for node in worker.graphs["g1"].node
        if node.op in ("_Send", "_Recv")
    }
    assert sorted(sends) == [
        *("_recv_x0_0", "_recv_x1_0", "_recv_x1_0_S0", "_recv_x1_0_S1"),
        *("_send_t0_0", "_send_t1_0", "t1_S2", "t1_S3"),
    ]
    assert sends["t1_S2"].attr["send_device_incarnation"].i == (1 << 63 | 5) - (1 << 64)
    assert own.calls[0].step_id == other.calls[0].step_id
    assert len(own.calls[0].feeds) == len(own.calls[0].fetches) == 2
    assert not other.calls[0].feeds and not other.calls[0].fetches
    wait_until(lambda: other.log[-1] == "CleanupGraph")


@covers(
    "ConfigProto.share_cluster_devices_in_session",
    "ConfigProto.Experimental.share_cluster_devices_in_session",
)
def test_worker_sessions(cluster: FakeCluster) -> None:
    config = protos.ConfigProto(isolate_session_state=True, share_cluster_devices_in_session=True)
    handle = cluster.session(config)
    for worker in cluster.workers:
        call = worker.sessions[handle]
        assert call.isolated and call.server_def is None
        assert call.master_task == cluster.workers[0].task
        assert call.master_incarnation == (1 << 63 | 5) - (1 << 64)
        assert len(call.devices) == 2
    cluster.master.close_session(handle)
    assert not any(worker.sessions for worker in cluster.workers)


def test_a_worker_that_refuses_its_session_leaves_none_open(cluster: FakeCluster) -> None:
    own, other = cluster.workers
    other.failures["CreateWorkerSession"] = errors.ResourceExhaustedError(None, None, "full")
    assert isinstance(caught(cluster.session), errors.ResourceExhaustedError)
    assert not own.sessions and own.log[-1] == "DeleteWorkerSession"
    assert not cluster.master._sessions


def test_a_partition_that_is_refused_is_registered_nowhere(cluster: FakeCluster) -> None:
    own, other = cluster.workers
    handle = cluster.session()
    other.failures["RegisterGraph"] = errors.UnimplementedError(None, None, "no such op")
    assert isinstance(caught(lambda: cluster.run(handle, 0, 1)), errors.UnimplementedError)
    wait_until(lambda: not own.graphs)
    other.failures.clear()
    assert cluster.run(handle, 0, 1) == [0, 0]


def test_the_longest_unused_partitions_are_deregistered() -> None:
    cluster = FakeCluster(4)
    handle = cluster.session()
    session_of(cluster, handle).graphs._limit = 2
    for task in (1, 2, 1, 3):
        cluster.run(handle, task)
    assert session_of(cluster, handle).graphs.evictions == 1
    wait_until(lambda: not cluster.workers[2].graphs)
    assert cluster.workers[1].graphs and cluster.workers[3].graphs
    cluster.run(handle, 2)
    assert cluster.workers[2].log.count("RegisterGraph") == 2
    cluster.close()


def test_names_in_any_order_have_one_graph(cluster: FakeCluster) -> None:
    handle = cluster.session()
    feeds = [("x0:0", np.float32(1)), ("x1:0", np.float32(1))]
    for names in (["t0:0", "t1:0"], ["t1:0", "t0:0"], ["t1:0", "t0:0", "t1:0"]):
        values, _ = cluster.master.run_step(StepCall(handle, feeds, names, []))
        assert len(values) == len(names)
        feeds.reverse()
    assert cluster.workers[0].log.count("RegisterGraph") == 1
    twice = StepCall(handle, [feeds[0], feeds[0]], ["t0:0"], [])
    error = caught(lambda: cluster.master.run_step(twice))
    assert error.message == f'Endpoint "{feeds[0][0]}" fed more than once.'


def test_an_error_of_one_worker_cancels_the_others(cluster: FakeCluster) -> None:
    own, other = cluster.workers
    handle = cluster.session()
    own.silent = True

    def fail(call: GraphCall) -> GraphResult:
        raise errors.InvalidArgumentError(None, None, "faulty\n\t [[{{node t1}}]]")

    other.answer = fail
    error = caught(lambda: cluster.run(handle, 0, 1))
    assert isinstance(error, errors.InvalidArgumentError)
    assert error.message == f"From {other.task}:\nfaulty\n\t [[{{{{node t1}}}}]]"
    wait_until(lambda: other.log[-1] == "CleanupGraph")
    own.silent, other.answer = False, zeros
    assert cluster.run(handle, 0, 1) == [0, 0]


def test_a_cause_is_not_hidden_by_its_consequences(cluster: FakeCluster) -> None:
    own, other = cluster.workers
    handle = cluster.session()

    def abort(call: GraphCall) -> GraphResult:
        raise errors.InternalError(None, None, "[_Derived_]RecvAsync is cancelled")

    def fail(call: GraphCall) -> GraphResult:
        raise errors.OutOfRangeError(None, None, "end of data")

    own.answer, other.answer = fail, abort  # the other's is answered first
    assert isinstance(caught(lambda: cluster.run(handle, 0, 1)), errors.OutOfRangeError)


def test_several_causes_are_one_error(cluster: FakeCluster) -> None:
    """The part whose run is cancelled has an error of its own: TensorFlow 2.21's text."""
    handle = cluster.session()

    def fail(index: int, call: GraphCall) -> GraphResult:
        raise errors.InvalidArgumentError(None, None, f"bad {index}")

    for index, worker in enumerate(cluster.workers):
        worker.answer = functools.partial(fail, index)
    error = caught(lambda: cluster.run(handle, 0, 1))
    assert isinstance(error, errors.InvalidArgumentError)
    rule = "=" * 21
    head, *lines, last = error.message.split(f"\n{rule}\n")
    assert head == last == "" and len(lines) == 1
    texts = [f"INVALID_ARGUMENT: From {w.task}:\nbad {i}" for i, w in enumerate(cluster.workers)]
    assert lines[0] in ("\n".join(texts), "\n".join(reversed(texts)))


@pytest.mark.parametrize("lost", [errors.UnavailableError, errors.AbortedError])
def test_a_lost_or_restarted_worker(cluster: FakeCluster, lost: type[errors.OpError]) -> None:
    handle = cluster.session()
    cluster.workers[1].failures["RunGraph"] = lost(None, None, "gone")  # type: ignore[call-arg]
    error = caught(lambda: cluster.run(handle, 0, 1))
    assert isinstance(error, lost) and error.message == f"From {cluster.workers[1].task}:\ngone"
    cluster.master.close_session(handle)


def test_an_error_that_is_none_of_the_protocol(cluster: FakeCluster) -> None:
    handle = cluster.session()
    cluster.workers[0].failures["RunGraph"] = ValueError("a mistake")
    error = caught(lambda: cluster.run(handle, 0))
    assert isinstance(error, errors.InternalError) and "ValueError: a mistake" in error.message


@pytest.mark.parametrize("tasks", [(0,), (0, 1)])
@pytest.mark.parametrize("cause", ["close", "client", "deadline", "reset"])
def test_a_step_that_never_ends_is_stopped(
    cluster: FakeCluster, tasks: tuple[int, ...], cause: str
) -> None:
    for worker in cluster.workers:
        worker.silent = True
    handle = cluster.session()
    client = CancellationManager()
    found: list[errors.OpError] = []

    def run(limit_s: float) -> None:
        options = protos.RunOptions(timeout_in_ms=int(limit_s * 1000))
        call = {"cancellation": client, "options": options if cause == "deadline" else None}
        found.append(caught(lambda: cluster.run(handle, *tasks, **call)))

    for limit_s in growing(0.05):
        found.clear()
        thread = threading.Thread(target=run, args=(limit_s,))
        thread.start()
        if cause == "deadline":
            thread.join(PATIENCE_S)
        else:
            assert cluster.workers[0].started.wait(PATIENCE_S)
        if cluster.workers[0].started.is_set():
            break
    if cause == "close":
        cluster.master.close_session(handle)
    elif cause == "client":
        client.cancel()
    elif cause == "reset":
        cluster.master.reset(["c"], [])
        assert all("CleanupAll ['c']" in worker.log for worker in cluster.workers)
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    kind = errors.DeadlineExceededError if cause == "deadline" else errors.CancelledError
    assert type(found[0]).__name__ == kind.__name__
    if cause in ("close", "reset"):
        text = "Step was cancelled by an explicit call to `Session::Close()`."
        assert found[0].message == text
        assert isinstance(caught(lambda: cluster.run(handle, 0)), errors.AbortedError)
    else:
        for worker in cluster.workers:
            worker.silent = False
        assert cluster.run(handle, *tasks) == [0] * len(tasks)


def test_a_step_stopped_while_its_graph_is_registered(cluster: FakeCluster) -> None:
    release = threading.Event()
    original = cluster.workers[1].register_graph

    def slow(*arguments: Any) -> str:
        release.wait(PATIENCE_S)
        return original(*arguments)

    cluster.workers[1].register_graph = slow  # type: ignore[method-assign]
    handle = cluster.session()
    options = protos.RunOptions(timeout_in_ms=50)
    error = caught(lambda: cluster.run(handle, 0, 1, options=options))
    assert isinstance(error, errors.DeadlineExceededError)
    release.set()
    cluster.workers[1].register_graph = original  # type: ignore[method-assign]
    assert cluster.run(handle, 0, 1) == [0, 0]


def test_dead_and_missing_values(cluster: FakeCluster) -> None:
    handle = cluster.session()
    own = cluster.workers[0]
    own.answer = lambda call: GraphResult(dict.fromkeys(call.fetches, DEAD))
    error = caught(lambda: cluster.run(handle, 0))
    assert isinstance(error, errors.InvalidArgumentError)
    assert error.message == "The tensor returned for t0:0 was not valid."
    own.answer = lambda call: GraphResult({})
    error = caught(lambda: cluster.run(handle, 0))
    assert isinstance(error, errors.InternalError) and "t0:0" in error.message


def test_options_reach_the_workers_and_reports_are_merged(cluster: FakeCluster) -> None:
    def report(call: GraphCall) -> GraphResult:
        stats = protos.StepStats()
        stats.dev_stats.add().device = call.graph
        costs = protos.CostGraphDef()
        costs.node.add(id=0, name="a")
        costs.node.add(id=1, name="b", control_input=[0]).input_info.add(preceding_node=0)
        return GraphResult(zeros(call).fetches, stats, costs, [protos.GraphDef()])

    for worker in cluster.workers:
        worker.answer = report
    config = protos.ConfigProto()
    config.graph_options.build_cost_model = 2  # every second step of a signature
    handle = cluster.session(config)
    options = protos.RunOptions(trace_level=3, output_partition_graphs=True)
    feeds = [("x1:0", np.float32(1))]
    for options_now in (None, options):
        call = StepCall(handle, feeds, ["t1:0"], [], options_now)
        _, metadata = cluster.master.run_step(call)
    first, second = (call.options for call in cluster.workers[1].calls)
    assert first is None
    assert second.record_timeline and second.record_costs and second.record_partition_graphs
    assert len(metadata.step_stats.dev_stats) == len(metadata.partition_graphs) == 2
    assert [node.id for node in metadata.cost_graph.node] == [0, 1, 2, 3]
    last = metadata.cost_graph.node[3]
    assert last.input_info[0].preceding_node == 2 and list(last.control_input) == [2]
    watched = protos.RunOptions()
    watched.debug_options.debug_tensor_watch_opts.add(node_name="t0")
    error = caught(lambda: cluster.run(handle, 0, options=watched))
    assert isinstance(error, errors.UnimplementedError)


def test_a_step_without_nodes_calls_no_worker(cluster: FakeCluster) -> None:
    handle = cluster.session()
    session = session_of(cluster, handle)
    signature = signature_of([], [], ["t0"])
    session.graphs.hold(signature, lambda: ClientGraph(handle, ()), CancellationManager())
    assert cluster.master.run_step(StepCall(handle, [], [], ["t0"])) == ([], None)
    assert "RunGraph" not in cluster.workers[0].log


@pytest.mark.parametrize(
    "nodes",
    [
        [("a", "Identity", ["b"]), ("b", "Identity", ["a"])],
        [("a", "NoSuchOp", [])],
        [("a", "Identity", ["lost"])],
        [("a", "Identity", [])],
        [("a", "Const", [])],
        [("a", "NoOp", []), ("a", "NoOp", [])],
        [("", "NoOp", [])],
        [("a", "NoOp", ["^a"])],
    ],
)
def test_a_faulty_graph_is_refused(
    cluster: FakeCluster, nodes: list[tuple[str, str, list[str]]]
) -> None:
    faulty = protos.GraphDef()
    for name, op, inputs in nodes:
        node = faulty.node.add(name=name, op=op, input=inputs)
        if op == "Identity":
            node.attr["T"].type = protos.DataType.Value("DT_FLOAT")
    assert isinstance(caught(lambda: cluster.master.create_session(faulty, None)), errors.OpError)
    assert not any(worker.sessions for worker in cluster.workers)
    handle = cluster.session()
    caught(lambda: cluster.master.extend_session(handle, faulty, 0))
    assert cluster.master.extend_session(handle, protos.GraphDef(), 0) == 1
    assert cluster.run(handle, 0, 1) == [0, 0]


def test_idle_sessions_are_collected() -> None:
    cluster = FakeCluster(1, session_gc_s=0.1)
    handle = cluster.session()
    wait_until(lambda: not cluster.master._sessions)
    assert isinstance(caught(lambda: cluster.run(handle, 0)), errors.AbortedError)
    wait_until(lambda: cluster.workers[0].log[-1] == "DeleteWorkerSession")
    cluster.close()


def test_a_default_config_is_below_that_of_the_client() -> None:
    default = protos.ConfigProto(allow_soft_placement=True, operation_timeout_in_ms=7)
    cluster = FakeCluster(1, default_config=default)
    made = session_of(cluster, cluster.session(protos.ConfigProto(operation_timeout_in_ms=9)))
    assert made.config.allow_soft_placement and made.config.operation_timeout_in_ms == 9
    cluster.close()


def test_many_sessions_leave_nothing_behind(cluster: FakeCluster) -> None:
    threads = threading.active_count()
    for _ in range(30):
        handle = cluster.session()
        cluster.run(handle, 0, 1)
        cluster.master.close_session(handle)
    wait_until(lambda: threading.active_count() <= threads + 1)  # the step cleaner's
    assert not cluster.master._sessions
    assert not any(worker.sessions for worker in cluster.workers)


def test_a_closed_master_takes_no_session(cluster: FakeCluster) -> None:
    handle = cluster.session()
    cluster.master.close()
    assert isinstance(caught(lambda: cluster.run(handle, 0)), errors.AbortedError)
    assert isinstance(caught(cluster.session), errors.UnavailableError)
    assert not any(worker.sessions for worker in cluster.workers)
