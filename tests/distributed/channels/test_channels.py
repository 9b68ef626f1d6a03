"""Calls over gRPC: answers, errors with their payloads, deadlines, cancellation."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import grpc
import pytest

from tests.waiting import PATIENCE_S
from tfjit import protos
from tfjit.distributed.channels.channels import Channel, address_of
from tfjit.distributed.protocol import status
from tfjit.distributed.protocol.methods import WORKER
from tfjit.framework import errors
from tfjit.runtime.host.cancellation import CancellationManager


class Server:
    """A server whose GetStatus calls `answer`."""

    def __init__(self) -> None:
        self.answer: Callable[[Any], Any] = lambda context: protos.GetStatusResponse()
        handler = grpc.unary_unary_rpc_method_handler(
            lambda request, context: self.answer(context),
            protos.GetStatusRequest.FromString,
            protos.GetStatusResponse.SerializeToString,
        )
        self.server = grpc.server(futures.ThreadPoolExecutor(4))
        self.server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(WORKER, {"GetStatus": handler}),)
        )
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.server.stop(0)


@pytest.fixture
def channel(server: Server) -> Iterator[Channel]:
    made = Channel(f"127.0.0.1:{server.port}")
    yield made
    made.close()


def ask(channel: Channel, timeout_s: float | None = PATIENCE_S) -> Any:
    return channel.call(WORKER, "GetStatus", protos.GetStatusRequest(), timeout_s)


def test_answers(server: Server, channel: Channel) -> None:
    made = protos.GetStatusResponse()
    made.device_attributes.add().name = "/job:a/task:0/device:CPU:0"
    server.answer = lambda context: made
    assert ask(channel) == made
    arrived: list[Any] = []
    over = threading.Event()

    def done(error: Any, answer: Any) -> None:
        arrived[:] = [error, answer]
        over.set()

    channel.start(WORKER, "GetStatus", protos.GetStatusRequest(), done)
    assert over.wait(PATIENCE_S) and arrived == [None, made]


@pytest.mark.parametrize("code", range(1, 17))
def test_errors_keep_class_message_and_payloads(
    server: Server, channel: Channel, code: int
) -> None:
    sent = errors.make_error(code, "größer\n\t [[{{node y}}]]")
    sent.experimental_payloads["a type"] = b"\0bytes"

    def fail(context: Any) -> None:
        context.set_trailing_metadata(status.trailing_metadata(sent))
        found = next(c for c in grpc.StatusCode if c.value[0] == code)
        context.abort(found, status.short_message(sent))

    server.answer = fail
    with pytest.raises(errors.OpError) as caught:
        ask(channel)
    assert type(caught.value) is type(sent)
    assert caught.value.message == sent.message
    assert caught.value.experimental_payloads == {"a type": b"\0bytes"}


def test_long_messages_are_cut() -> None:
    error = errors.InternalError(None, None, "ä" * 5000)
    text = status.short_message(error)
    assert len(text.encode()) < 4096 and text.endswith("[truncated]")


def test_deadline(server: Server, channel: Channel) -> None:
    waiting = threading.Event()
    server.answer = lambda context: waiting.wait(PATIENCE_S)
    with pytest.raises(errors.DeadlineExceededError):
        ask(channel, 0.1)
    waiting.set()


def test_cancelled_call(server: Server, channel: Channel) -> None:
    waiting, over = threading.Event(), threading.Event()
    server.answer = lambda context: waiting.wait(PATIENCE_S)
    caught: list[Any] = []

    def done(error: Any, answer: Any) -> None:
        caught.append(error)
        over.set()

    cancel = channel.start(WORKER, "GetStatus", protos.GetStatusRequest(), done)
    cancel()
    assert over.wait(PATIENCE_S) and isinstance(caught[0], errors.CancelledError)
    waiting.set()


def test_a_cancelled_wait(server: Server, channel: Channel) -> None:
    waiting = threading.Event()
    server.answer = lambda context: waiting.wait(PATIENCE_S)
    cancellation = CancellationManager()
    threading.Timer(0.1, cancellation.cancel).start()
    for _ in range(2):  # the second is cancelled before it starts
        with pytest.raises(errors.CancelledError, match="GetStatus was cancelled"):
            channel.call(WORKER, "GetStatus", protos.GetStatusRequest(), cancellation=cancellation)
    waiting.set()


def test_closing_a_channel_cancels_its_calls(server: Server, channel: Channel) -> None:
    waiting = threading.Event()
    server.answer = lambda context: waiting.wait(PATIENCE_S)
    threading.Timer(0.1, channel.close).start()
    for _ in range(2):
        with pytest.raises(errors.CancelledError):
            ask(channel)
    waiting.set()


def test_waiting_for_a_task() -> None:
    channel = Channel("127.0.0.1:1")
    with pytest.raises(errors.DeadlineExceededError):
        channel.call(WORKER, "GetStatus", protos.GetStatusRequest(), 0.1, wait_for_ready=True)
    channel.close()


def test_a_task_that_is_not_there() -> None:
    channel = Channel("127.0.0.1:1")
    with pytest.raises(errors.UnavailableError, match="127.0.0.1:1"):
        ask(channel)
    channel.close()


def test_a_service_that_is_not_there(channel: Channel) -> None:
    with pytest.raises(errors.UnimplementedError):
        channel.call(WORKER, "CleanupAll", protos.CleanupAllRequest(), 10)


@pytest.mark.parametrize("target", ["grpc://", "grpc://host", "grpc://:1", "grpc://h:x", "h:99999"])
def test_faulty_targets(target: str) -> None:
    with pytest.raises(errors.InvalidArgumentError):
        address_of(target)


def test_addresses() -> None:
    assert address_of("grpc://localhost:2222") == "localhost:2222"
    assert address_of("grpc://[::1]:2222") == "[::1]:2222"
