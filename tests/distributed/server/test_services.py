"""Each method over a real port, as a raw gRPC client calls it."""

from __future__ import annotations

import threading
from typing import Any

import grpc
import numpy as np
import pytest

from tests.distributed.server.fakes import DEVICE, Task, echo_request
from tests.waiting import wait_until
from tfjit import protos
from tfjit.distributed.channels.remote_worker import RemoteWorker
from tfjit.distributed.protocol.interfaces import GraphResult
from tfjit.distributed.protocol.methods import MASTER, WORKER, method_names, request_class
from tfjit.distributed.protocol.tensors import fill, from_proto, to_proto
from tfjit.framework import errors
from tfjit.framework.types import dtypes
from tfjit.framework.types.tensors import OpaqueTensor
from tfjit.runtime.kernel_api.op_kernel import DEAD

SESSION = "a session"


def test_master_methods(task: Task) -> None:
    graph = protos.GraphDef(node=[protos.NodeDef(name="x", op="NoOp")])
    config = protos.ConfigProto(allow_soft_placement=True)
    call, seen = task.call, task.master.calls

    answer = call(MASTER, "CreateSession", protos.CreateSessionRequest(graph_def=graph))
    assert (answer.session_handle, answer.graph_version) == (SESSION, 1)
    assert seen[-1] == ("create_session", graph, None, "")
    request = protos.CreateSessionRequest(graph_def=graph, config=config, target="t")
    call(MASTER, "CreateSession", request)
    assert seen[-1] == ("create_session", graph, config, "t")

    request = protos.ExtendSessionRequest(
        session_handle=SESSION, graph_def=graph, current_graph_version=4
    )
    assert call(MASTER, "ExtendSession", request).new_graph_version == 5
    assert seen[-1] == ("extend_session", SESSION, graph, 4)

    request = protos.PartialRunSetupRequest(
        session_handle=SESSION, feed=["a:0"], fetch=["b:0"], target=["c"], request_id=3
    )
    assert call(MASTER, "PartialRunSetup", request).partial_run_handle == "a partial run"
    assert seen[-1] == ("partial_run_setup", SESSION, ["a:0"], ["b:0"], ["c"], 3)

    answer = call(MASTER, "ListDevices", protos.ListDevicesRequest(session_handle=SESSION))
    assert [d.name for d in answer.local_device] == [DEVICE] and not answer.remote_device
    assert seen[-1] == ("list_devices", SESSION)

    call(MASTER, "Reset", protos.ResetRequest(container=["c"], device_filters=["/job:ps"]))
    assert seen[-1] == ("reset", ["c"], ["/job:ps"])

    options = protos.CallableOptions(feed=["x:0"], fetch=["x:0"])
    request = protos.MakeCallableRequest(session_handle=SESSION, options=options, request_id=2)
    assert call(MASTER, "MakeCallable", request).handle == 11
    assert seen[-1] == ("make_callable", SESSION, options, 2)

    request = protos.RunCallableRequest(session_handle=SESSION, handle=11, request_id=9)
    request.feed.append(to_proto(np.arange(6, dtype=np.int64).reshape(2, 3)))
    answer = call(MASTER, "RunCallable", request)
    np.testing.assert_array_equal(from_proto(answer.fetch[0]), np.arange(6).reshape(2, 3))
    assert answer.HasField("metadata") and seen[-1][0:3] == ("run_callable", SESSION, 11)

    request = protos.ReleaseCallableRequest(session_handle=SESSION, handle=11)
    call(MASTER, "ReleaseCallable", request)
    assert seen[-1] == ("release_callable", SESSION, 11)

    call(MASTER, "CloseSession", protos.CloseSessionRequest(session_handle=SESSION))
    assert seen[-1] == ("close_session", SESSION)


@pytest.mark.parametrize(
    "value",
    [
        np.float32(1.5),
        np.arange(6, dtype=np.int16).reshape(2, 3),
        np.array([b"a\0", b""], object),
        np.zeros((0, 3), np.complex64),
        np.array(True),
    ],
    ids=str,
)
def test_a_step_feeds_and_fetches(task: Task, value: Any) -> None:
    answer = task.call(MASTER, "RunStep", echo_request(value))
    assert [item.name for item in answer.tensor] == ["x:0"]
    np.testing.assert_array_equal(from_proto(answer.tensor[0].tensor), value)
    assert not answer.HasField("metadata") and answer.status_code == 0


def test_what_a_step_is_asked(task: Task) -> None:
    options = protos.RunOptions(timeout_in_ms=5)
    handle = OpaqueTensor(
        dtypes.resource,
        protos.TensorProto(dtype=dtypes.resource.as_datatype_enum).SerializeToString(),
    )
    metadata = protos.RunMetadata(partition_graphs=[protos.GraphDef()])
    task.master.step = lambda call: ([np.float32(1), handle], metadata)
    request = protos.RunStepRequest(
        session_handle=SESSION,
        fetch=["a:0", "b:0"],
        target=["t"],
        options=options,
        partial_run_handle="p",
        request_id=77,
    )
    answer = task.call(MASTER, "RunStep", request)
    assert [item.name for item in answer.tensor] == ["a:0", "b:0"]
    assert answer.metadata == metadata
    assert answer.tensor[1].tensor.dtype == dtypes.resource.as_datatype_enum
    (_, call) = task.master.calls[-1]
    assert (call.session, call.targets, call.options) == (SESSION, ["t"], options)
    assert (call.partial_run, call.request_id) == ("p", 77)
    task.master.step = task.master.echo
    task.call(MASTER, "RunStep", echo_request(np.float32(1)))
    assert task.master.calls[-1][1].options is None


def test_worker_methods(task: Task) -> None:
    call, seen = task.call, task.worker.calls
    worker = RemoteWorker(task.channel, 20)
    assert [d.name for d in worker.get_status()] == [DEVICE]

    request = protos.CreateWorkerSessionRequest(
        session_handle=SESSION,
        server_def=protos.ServerDef(job_name="worker"),
        isolate_session_state=True,
        master_task="/job:master",
        master_incarnation=5,
    )
    call(WORKER, "CreateWorkerSession", request)
    made = seen[-1][1]
    assert (made.session, made.isolated, made.master_task) == (SESSION, True, "/job:master")
    assert made.server_def.job_name == "worker" and made.master_incarnation == 5

    graph = protos.GraphDef(node=[protos.NodeDef(name="x", op="NoOp")])
    assert worker.register_graph(SESSION, graph) == "a graph"
    assert seen[-1] == ("register_graph", SESSION, graph, None, None, 0)
    config, options = protos.ConfigProto(allow_soft_placement=True), protos.GraphOptions()
    worker.register_graph(SESSION, graph, config, options, -7)
    assert seen[-1] == ("register_graph", SESSION, graph, config, options, -7)

    worker.deregister_graph(SESSION, "g")
    assert seen[-1] == ("deregister_graph", SESSION, "g")
    worker.cleanup_all(["a", "b"])
    assert seen[-1] == ("cleanup_all", ["a", "b"])
    worker.cleanup_graph(-5)  # does not wait
    wait_until(lambda: seen[-1] == ("cleanup_graph", -5))
    worker.cleanup_graphs([3, 1 << 62])
    wait_until(lambda: seen[-2:] == [("cleanup_graph", 3), ("cleanup_graph", 1 << 62)])
    group = protos.CompleteGroupRequest(group_key=3)
    assert messages(lambda done: worker.complete_group(group, done)).group_key == 3
    instance = protos.CompleteInstanceRequest(instance_key=4)
    assert messages(lambda done: worker.complete_instance(instance, done)).instance_key == 4
    sequences = protos.GetStepSequenceRequest(graph_key=[5])
    assert worker.get_step_sequence(sequences) == protos.GetStepSequenceResponse()
    assert seen[-3:] == [
        ("complete_group", group),
        ("complete_instance", instance),
        ("get_step_sequence", sequences),
    ]
    for size in (0, 3, 1 << 20):
        buffer = messages(
            lambda done, size=size: worker.receive_buffer(
                protos.RecvBufRequest(num_bytes=size), done
            )
        )
        np.testing.assert_array_equal(buffer, np.arange(size, dtype=np.uint8))
    worker.delete_worker_session(SESSION)
    assert seen[-1] == ("delete_worker_session", SESSION)
    answer = call(WORKER, "MarkRecvFinished", protos.MarkRecvFinishedRequest(request_id=3))
    assert answer == protos.MarkRecvFinishedResponse()


def messages(start: Any) -> Any:
    """Return what the `done` of a call is called with."""
    over = threading.Event()
    outcome: list[Any] = []

    def done(error: Any, answer: Any) -> None:
        outcome[:] = error, answer
        over.set()

    start(done)
    assert over.wait(60)
    assert outcome[0] is None
    return outcome[1]


@pytest.mark.parametrize("method", ["Logging", "Tracing"])
def test_methods_that_are_not_there(task: Task, method: str) -> None:
    with pytest.raises(errors.UnimplementedError, match=method):
        task.call(WORKER, method, request_class(method)())


def test_a_graph_runs(task: Task) -> None:
    def run(call: Any, done: Any) -> Any:
        result = GraphResult(
            {"k": call.feeds["k"], "dead": DEAD} if call.options else {"k": call.feeds["k"]},
            protos.StepStats(dev_stats=[protos.DeviceStepStats(device="d")]),
            protos.CostGraphDef(),
            (protos.GraphDef(),),
        )
        done(None, result)
        return lambda: None

    task.worker.graph = run
    request = protos.RunGraphRequest(
        session_handle=SESSION,
        graph_handle="g",
        step_id=9,
        recv_key=["k"],
        is_partial=True,
        is_last_partial_run=True,
        request_id=4,
    )
    fed = request.send.add()
    fed.name = "k"
    fill(fed.tensor, np.arange(3.0))
    answer = task.call(WORKER, "RunGraph", request, 20)
    np.testing.assert_array_equal(from_proto(answer.recv[0].tensor), np.arange(3.0))
    assert answer.recv[0].name == "k" and answer.step_stats.dev_stats[0].device == "d"
    assert answer.HasField("cost_graph") and len(answer.partition_graph) == 1
    (_, call) = task.worker.calls[-1]
    assert (call.session, call.graph, call.step_id, call.fetches) == (SESSION, "g", 9, ["k"])
    assert call.is_partial and call.is_last_partial_run and call.request_id == 4
    assert call.options is None and 15 < call.deadline_s < 21


def test_large_values(task: Task) -> None:
    value = np.arange(1 << 24, dtype=np.float32)  # 64 MB, above gRPC's own limit
    answer = task.call(MASTER, "RunStep", echo_request(value), 60)
    np.testing.assert_array_equal(from_proto(answer.tensor[0].tensor), value)


SENT = errors.NotFoundError(None, None, "größer\n\t [[{{node y}}]]", {"a type": b"\0bytes"})


@pytest.mark.parametrize(
    ("service", "method"),
    [(MASTER, name) for name in method_names(MASTER)]
    + [(WORKER, name) for name in method_names(WORKER) if name != "MarkRecvFinished"],
)
def test_errors_of_every_method(task: Task, service: str, method: str) -> None:
    """Class, message and payloads arrive as they were raised."""
    task.master.error = task.worker.error = SENT
    if method in ("Logging", "Tracing"):
        return
    with pytest.raises(errors.NotFoundError) as caught:
        task.call(service, method, request_class(method)())
    assert caught.value.message == SENT.message
    assert caught.value.experimental_payloads == {"a type": b"\0bytes"}


@pytest.mark.parametrize(("service", "method"), [(MASTER, "RunStep"), (WORKER, "RunGraph")])
def test_errors_in_the_body(task: Task, service: str, method: str) -> None:
    """The call succeeds, and the message has no limit."""
    task.master.error = task.worker.error = errors.AbortedError(None, None, "ä" * 50_000)
    request = request_class(method)(store_errors_in_response_body=True)
    answer = task.call(service, method, request)
    assert answer.status_code == errors.ABORTED
    assert answer.status_error_message == "ä" * 50_000


@pytest.mark.parametrize(
    ("raised", "expected", "text"),
    [
        (ValueError("no number"), errors.InternalError, "ValueError: no number"),
        (SystemExit(3), errors.InternalError, "SystemExit: 3"),
        (MemoryError("64 GB"), errors.ResourceExhaustedError, "Out of memory: 64 GB"),
        (errors.OpError(None, None, "odd", 99), errors.UnknownError, "odd"),
        (errors.DataLossError(None, None, "a\ud800b"), errors.DataLossError, "a?b"),
        (errors.AbortedError(None, None, "x" * 9000), errors.AbortedError, "xxx ... [truncated]"),
        (errors.AbortedError(None, None, "ä" * 9000), errors.AbortedError, "ää ... [truncated]"),
    ],
)
def test_any_exception_is_a_status(
    task: Task, raised: BaseException, expected: type[Exception], text: str
) -> None:
    task.master.error = task.worker.error = raised
    for service, method in ((MASTER, "RunStep"), (WORKER, "RecvTensor")):
        with pytest.raises(expected) as caught:
            task.call(service, method, request_class(method)())
        message = caught.value.message  # type: ignore[attr-defined]
        # without gRPC, a message of any length arrives
        assert message.endswith(text) or (
            len(message) == 9000 and task.channel.frames() is not None
        )
    task.master.error = None
    task.call(MASTER, "RunStep", echo_request(np.float32(1)))


def test_a_missing_fetch_is_an_error(task: Task) -> None:
    task.master.step = lambda call: ([], None)
    with pytest.raises(errors.InternalError, match="1 fetches gave 0 values"):
        task.call(MASTER, "RunStep", echo_request(np.float32(1)))


def test_metadata_of_other_clients_is_ignored(task: Task) -> None:
    with grpc.insecure_channel(task.address) as channel:
        call = channel.unary_unary(f"/{WORKER}/GetStatus")
        assert call(b"", timeout=60, metadata=(("tf-rpc", "7"),))
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary(f"/{WORKER}/NoSuchMethod")(b"", timeout=60)
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
