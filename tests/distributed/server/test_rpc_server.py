"""Calls as messages and as streams, of clients that misbehave, go, or are too many."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest

from tests.distributed.server.fakes import DISABLED, WAIT_S, Outcome, Task, asked, echo_request
from tests.waiting import wait_until
from tfjit import protos
from tfjit.distributed.channels import channels
from tfjit.distributed.channels.channels import Channel
from tfjit.distributed.channels.direct_channel import LARGE as LARGE_ARRAY
from tfjit.distributed.channels.parcel_calls import ParcelCalls
from tfjit.distributed.channels.remote_worker import RemoteWorker
from tfjit.distributed.parcels.parcel_stream import split
from tfjit.distributed.parcels.parcels import Parcel
from tfjit.distributed.protocol.interfaces import StepCall
from tfjit.distributed.protocol.methods import MASTER, WORKER
from tfjit.distributed.server.rpc_call import RpcCall
from tfjit.distributed.server.rpc_server import Route, RpcServer
from tfjit.distributed.server.thread_pool import ThreadPool
from tfjit.distributed.session.remote_master import RemoteMaster
from tfjit.framework import errors
from tfjit.runtime.host.cancellation import CancellationManager
from tfjit.runtime.kernel_api.op_kernel import DEAD

LARGE = np.arange(1 << 20, dtype=np.float32)


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Iterator[Task]:
    """Return a task that is called over gRPC, with all arrays in streams."""
    monkeypatch.setenv("TFJIT_DISABLE", DISABLED["gRPC"])
    monkeypatch.setattr(channels, "STREAMED", 0)
    made = Task()
    made.call(WORKER, "GetStatus", protos.GetStatusRequest())  # its answer says what it is
    assert isinstance(made.channel.beside(0), ParcelCalls)
    yield made
    made.close()


@pytest.mark.parametrize("value", [np.float32(2), LARGE, np.array([b"a", b""], object)])
def test_steps_and_callables(task: Task, value: Any) -> None:
    master = RemoteMaster(task.channel)
    (found,), _ = master.run_step(StepCall("a session", [("x:0", value)], ["x:0"], []))
    np.testing.assert_array_equal(found, value)
    cancellation = CancellationManager()
    call = StepCall("a session", [("x:0", value)], ["x:0"], [], cancellation=cancellation)
    (found,), _ = master.run_step(call)
    np.testing.assert_array_equal(found, value)


def test_tensors(task: Task) -> None:
    worker = RemoteWorker(task.channel)
    for key, value in (("large", LARGE), ("short", LARGE[:3]), ("dead", None)):
        outcome = Outcome()
        worker.receive_tensor(3, key, outcome)
        asked(task, 1)
        task.worker.waiting.pop(key)(None, value, value is None)
        error, found, is_dead = outcome.wait()
        assert error is None and is_dead == (value is None)
        assert is_dead or np.array_equal(found, value)


def test_errors_and_cancelled_calls(task: Task) -> None:
    outcome, other = Outcome(), Outcome()
    worker = RemoteWorker(task.channel)
    worker.receive_tensor(3, "k", outcome)
    asked(task, 1)
    sent = errors.UnimplementedError(None, None, "größer", {"a": b"1"})
    task.worker.waiting.pop("k")(sent, None, False)
    error, _, _ = outcome.wait()
    assert isinstance(error, errors.UnimplementedError) and error.message == "größer"
    assert error.experimental_payloads == {"a": b"1"}
    cancel = worker.receive_tensor(3, "j", other)
    asked(task, 1)
    cancel()
    error, _, _ = other.wait()
    assert isinstance(error, errors.CancelledError)
    wait_until(lambda: task.worker.cancelled == ["j"])

    task.master.error = errors.NotFoundError(None, None, "nothing")
    with pytest.raises(errors.NotFoundError, match="nothing"):
        RemoteMaster(task.channel).run_callable("s", 1, [LARGE])


def test_a_deadline_and_a_closed_channel(task: Task) -> None:
    calls = task.channel.beside(0)
    assert calls is not None
    request = Parcel(protos.RecvTensorRequest(rendezvous_key="k"))
    with pytest.raises(errors.DeadlineExceededError):
        calls.call(WORKER, "RecvTensor", request, 0.1)
    outcome, late = Outcome(), Outcome()
    calls.start(WORKER, "RecvTensor", request, outcome)
    task.channel.close()
    assert isinstance(outcome.wait()[0], errors.CancelledError)
    calls.start(WORKER, "RecvTensor", request, late)
    assert isinstance(late.wait()[0], errors.CancelledError)
    with pytest.raises(errors.CancelledError):
        calls.call(WORKER, "RecvTensor", request)


class Parts:
    """The parts that a call for several tensors has got."""

    def __init__(self) -> None:
        self.found: list[Any] = []

    def __call__(self, error: Any, found: Any) -> None:
        self.found += [error] if error is not None else [list(found)]

    def wait(self, count: int) -> list[Any]:
        """Return so many parts, and those before them."""
        wait_until(lambda: len(self.found) >= count)
        return self.found


@pytest.fixture(params=DISABLED)
def together(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Task]:
    """Return a task that is asked for several tensors at once."""
    monkeypatch.setenv("TFJIT_DISABLE", DISABLED[request.param])
    made = Task()
    made.call(WORKER, "GetStatus", protos.GetStatusRequest())
    if request.param != "gRPC":
        made.wait_for_frames()
    yield made
    made.close()


def test_several_tensors_come_in_parts(together: Task) -> None:
    worker, parts, keys = RemoteWorker(together.channel), Parts(), ["a", "b", "c", "d", "e"]
    assert all(map(worker.sends_batches, keys))
    worker.receive_tensors(3, keys, parts, 9)
    asked(together, 1)
    assert together.worker.calls[-2] == ("receive_tensors", 3, keys, 9)
    done = together.worker.waiting.pop("a,b,c,d,e")
    text = np.array([b"x", b""], object)
    done(None, [(1, np.float32(2), False), (3, LARGE, False)])
    (first,) = parts.wait(1)
    assert [(i, dead) for i, _, dead in first] == [(1, False), (3, False)]
    assert first[0][1] == np.float32(2) and np.array_equal(first[1][1], LARGE)
    done(None, [(4, DEAD, True)])
    assert parts.wait(2)[1] == [(4, DEAD, True)]
    done(None, [(0, LARGE[:100], False), (2, text, False)])
    last = parts.wait(3)[2]
    assert [index for index, _, _ in last] == [0, 2] and list(last[1][1]) == list(text)
    assert np.array_equal(last[0][1], LARGE[:100]) and len(parts.found) == 3


def test_an_error_behind_some_tensors(together: Task) -> None:
    worker, parts = RemoteWorker(together.channel), Parts()
    worker.receive_tensors(3, ["a", "b"], parts)
    asked(together, 1)
    done = together.worker.waiting.pop("a,b")
    done(None, [(1, LARGE[:3], False)])
    done(errors.UnimplementedError(None, None, "größer", {"a": b"1"}), ())
    error = parts.wait(2)[1]
    assert isinstance(error, errors.UnimplementedError) and error.message == "größer"
    together.worker.error = errors.NotFoundError(None, None, "nothing")
    worker.receive_tensors(3, ["a", "b"], parts)
    assert isinstance(parts.wait(3)[2], errors.NotFoundError)


def test_a_tensor_that_no_message_takes(together: Task) -> None:
    parts = Parts()
    RemoteWorker(together.channel).receive_tensors(3, ["a", "b"], parts)
    asked(together, 1)
    done = together.worker.waiting.pop("a,b")
    done(None, [(0, np.array([object()]), False)])  # the sender goes on
    done(None, [(1, np.float32(1), False)])
    assert isinstance(parts.wait(1)[0], errors.OpError)


def test_several_tensors_are_given_up(together: Task) -> None:
    worker, parts, late = RemoteWorker(together.channel), Parts(), Parts()
    cancel = worker.receive_tensors(3, ["a", "b"], parts)
    asked(together, 1)
    together.worker.waiting.pop("a,b")(None, [(0, LARGE[:3], False)])
    parts.wait(1)
    cancel()
    assert isinstance(parts.wait(2)[1], errors.CancelledError)
    wait_until(lambda: together.worker.cancelled == ["a", "b"])
    worker.receive_tensors(3, ["a", "b"], late)
    asked(together, 1)
    together.channel.close()
    assert isinstance(late.wait(1)[0], errors.OpError)


@pytest.mark.parametrize("answer", [[(0, 1), (0, 2)], [(7, 1)]])
def test_parts_that_nobody_has_asked_for(together: Task, answer: list[Any]) -> None:
    worker, parts = RemoteWorker(together.channel), Parts()
    worker.receive_tensors(3, ["a", "b"], parts)
    asked(together, 1)
    done = together.worker.waiting.pop("a,b")
    done(None, [(index, np.float32(value), False) for index, value in answer])
    assert isinstance(parts.wait(1)[0], errors.InternalError)


def test_a_large_tensor_goes_alone_the_next_time(together: Task) -> None:
    """Through gRPC as a stream, through TCP by a connection of its own."""
    worker, parts = RemoteWorker(together.channel), Parts()
    limit = channels.STREAMED if together.channel.frames() is None else LARGE_ARRAY
    large = np.zeros(limit, np.uint8)
    worker.receive_tensors(3, ["a", "b"], parts)
    asked(together, 1)
    together.worker.waiting.pop("a,b")(None, [(0, large, False), (1, LARGE[:3], False)])
    parts.wait(1)
    assert worker.sends_batches("b")
    assert worker.sends_batches("a") == (together.channel.local() is not None)


def test_a_task_that_answers_in_no_parts(task: Task) -> None:
    port = task.services.port
    task.services.stop(0)
    other = RpcServer(ThreadPool("other"), 4, (("grpc.so_reuseport", 0),))
    assert other.add_port(f"127.0.0.1:{port}") == port
    other.start({})
    try:
        worker = RemoteWorker(task.channel)
        while worker.sends_batches("a"):  # the first may still see the old connection end
            parts = Parts()
            worker.receive_tensors(3, ["a", "b"], parts)
            assert isinstance(parts.wait(1)[0], errors.UnavailableError)
    finally:
        other.stop(WAIT_S)


def stream(address: str) -> Any:
    return grpc.insecure_channel(address).stream_stream("/tfjit.Parcels/RunStep")


@pytest.mark.parametrize("messages", [[b"\xff" * 20], [b""], ["first", b"1" * (5 << 20)]])
def test_streams_that_are_no_parcels(task: Task, messages: list[Any]) -> None:
    parcel = Parcel(protos.RunStepRequest())
    parcel.fill(parcel.message.feed.add(name="x").tensor, LARGE)
    first, _ = split(parcel)
    sent = [first if message == "first" else message for message in messages]
    with pytest.raises(grpc.RpcError) as raised:
        list(stream(task.address)(iter(sent), timeout=WAIT_S))
    assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert task.call(MASTER, "RunStep", echo_request(np.float32(1))).tensor


def test_another_server_at_the_address(task: Task) -> None:
    port = task.services.port
    task.services.stop(0)
    pool = ThreadPool("other")
    other = RpcServer(pool, 4, (("grpc.so_reuseport", 0),))
    assert other.add_port(f"127.0.0.1:{port}") == port
    other.start({})
    try:
        calls = task.channel.beside(0)
        assert isinstance(calls, ParcelCalls)
        with pytest.raises(errors.UnavailableError):
            while True:  # the first may still see the old connection end
                calls.call(MASTER, "RunStep", Parcel(protos.RunStepRequest()), WAIT_S)
    finally:
        other.stop(WAIT_S)


def test_too_many_calls_that_wait() -> None:
    pool = ThreadPool("few")
    server = RpcServer(pool, 2, (("grpc.so_reuseport", 0),))
    port = server.add_port("127.0.0.1:0")
    go = threading.Event()

    def waits(request: Any, call: RpcCall) -> None:
        assert go.wait(WAIT_S)
        call.send(b"done")

    def fails(request: Any, call: RpcCall) -> None:
        raise ValueError("a mistake")

    routes = {"/a/b": Route(waits, True), "/a/c": Route(lambda r, c: c.send(r), False)}
    server.start({**routes, "/a/d": Route(fails, False), "/a/e": Route(fails, True)})
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        send = channel.unary_unary("/a/b")
        waiting = [send.future(b"") for _ in range(2)]
        wait_until(lambda: server.busy_count == 2)
        with pytest.raises(grpc.RpcError) as raised:
            send(b"", timeout=WAIT_S)
        assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        with pytest.raises(grpc.RpcError, match="ValueError: a mistake"):
            channel.unary_unary("/a/d")(b"", timeout=WAIT_S)
        assert channel.unary_unary("/a/c")(b"short") == b"short"
        go.set()
        assert [future.result(WAIT_S) for future in waiting] == [b"done"] * 2
        wait_until(lambda: server.busy_count == 0)
        with pytest.raises(grpc.RpcError, match="ValueError: a mistake"):
            channel.unary_unary("/a/e")(b"", timeout=WAIT_S)
    server.stop(WAIT_S)


def test_a_task_that_knows_no_parcels() -> None:
    """TensorFlow's server says nothing in its metadata."""
    server = grpc.server(ThreadPool("theirs"))  # type: ignore[arg-type]
    handler = grpc.unary_unary_rpc_method_handler(lambda data, context: b"")
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler(WORKER, {"GetStatus": handler})]
    )
    channel = Channel(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
    server.start()
    channel.call(WORKER, "GetStatus", protos.GetStatusRequest(), WAIT_S)
    assert channel.beside(1 << 40) is None
    channel.close()
    server.stop(None)
