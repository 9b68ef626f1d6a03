"""Calls of clients: requests, answers, errors, and a client that gives up.

A method is a function of its parsed request. One that waits for other tasks answers through a
`Reply`, and holds no thread meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from tfjit.distributed.protocol import status
from tfjit.distributed.protocol.channels import import_grpc
from tfjit.distributed.protocol.interfaces import Cancel
from tfjit.distributed.server.thread_pool import ThreadPool
from tfjit.framework import errors

_NO_DEADLINE_S: Final = 1e9
"""The least time until the deadline that gRPC gives calls without one."""


class Call:
    """A client's call: its deadline, and functions for a client that goes."""

    def __init__(self, context: Any, pool: ThreadPool) -> None:
        self._context = context
        self._pool = pool
        self.is_over = False

    @property
    def deadline_s(self) -> float | None:
        """The seconds that the client still waits, or None for no limit."""
        left = self._context.time_remaining()
        return None if left is None or left >= _NO_DEADLINE_S else float(left)

    def is_active(self) -> bool:
        """Return whether the client still waits."""
        return bool(self._context.is_active())

    def when_gone(self, function: Callable[[], None]) -> None:
        """Run a function if the client goes before the answer."""

        def gone() -> None:
            # on the thread of all events of the server, which must not wait
            if not self.is_over:
                self._pool.submit(function)

        if not self._context.add_callback(gone):
            gone()


class Reply(Call):
    """The answer to a call, given once, from any thread."""

    def __init__(self, context: Any, pool: ThreadPool, send: Callable[[Any], None]) -> None:
        super().__init__(context, pool)
        self._send = send
        self._lock = threading.Lock()
        self._thread: int | None = threading.get_ident()

    def give(self, encode: Callable[[], bytes]) -> None:
        """Send the bytes that a function returns, or its error; never waits.

        A second answer is ignored.
        """
        with self._lock:
            if self.is_over:
                return
            self.is_over = True
        if threading.get_ident() == self._thread:
            self._answer(encode)
        else:
            # the thread of a kernel must not wait for a slow client
            self._pool.submit(self._answer, encode)

    def fail(self, error: BaseException) -> None:
        """Answer with the status of an error."""

        def encode() -> bytes:
            raise error

        self.give(encode)

    def started(self, cancel: Cancel) -> None:
        """Cancel the work once the client has gone; the handler's thread leaves."""
        self._thread = None
        if not self.is_over:
            self.when_gone(cancel)

    def _answer(self, encode: Callable[[], bytes]) -> None:
        try:
            data = encode()
        except BaseException as raised:
            error = _public(raised)
            self._context.set_trailing_metadata(status.trailing_metadata(error))
            self._context.set_code(_code(error))
            self._context.set_details(status.short_message(error))
        else:
            self._send(data)
        self._send(None)


Method = Callable[[Any, Call], Any]
"""Takes (request, call); returns the answer's message or its bytes."""
WaitingMethod = Callable[[Any, Reply], Cancel]
"""Takes (request, reply); returns a function that gives up."""


def blocking(method: Method, request_class: Any, pool: ThreadPool) -> Any:
    """Return the gRPC handler of a method that answers by its result."""

    def handle(data: bytes, context: Any) -> bytes:
        call = Call(context, pool)
        try:
            answer = method(_parsed(request_class, data), call)
            return answer if isinstance(answer, bytes) else _encoded(answer)
        except BaseException as raised:
            error = _public(raised)
        finally:
            call.is_over = True
        context.set_trailing_metadata(status.trailing_metadata(error))
        return bytes(context.abort(_code(error), status.short_message(error)))  # raises

    return import_grpc().unary_unary_rpc_method_handler(handle)


def waiting(method: WaitingMethod, request_class: Any, pool: ThreadPool) -> Any:
    """Return the gRPC handler of a method that answers by a Reply."""

    def handle(data: bytes, context: Any, send: Callable[[Any], None]) -> None:
        reply = Reply(context, pool, send)
        try:
            reply.started(method(_parsed(request_class, data), reply))
        except BaseException as error:
            reply.fail(error)

    # The answer is a stream of one message, which is the same on the wire as no stream: only for
    # streams does gRPC let a handler answer after it has returned.
    handle.experimental_non_blocking = True  # type: ignore[attr-defined]
    return import_grpc().unary_stream_rpc_method_handler(handle)


def _parsed(request_class: Any, data: bytes) -> Any:
    """Return the message of a request. Raises InvalidArgumentError for other bytes."""
    from google.protobuf.message import DecodeError

    try:
        return request_class.FromString(data)
    except DecodeError as error:
        name = request_class.DESCRIPTOR.name
        raise errors.InvalidArgumentError(
            None, None, f"Could not parse {len(data)} bytes as {name}: {error}"
        ) from None


def _encoded(answer: Any) -> bytes:
    """Return a message as bytes. Raises ResourceExhaustedError above protobuf's 2 GB."""
    from google.protobuf.message import EncodeError

    try:
        return bytes(answer.SerializeToString())
    except (EncodeError, ValueError) as error:
        name = answer.DESCRIPTOR.name
        raise errors.ResourceExhaustedError(
            None, None, f"Could not encode {name} as one message: {error}"
        ) from None


def _public(error: BaseException) -> errors.OpError:
    """Return an error of a method as one of the protocol."""
    if isinstance(error, MemoryError):
        return errors.ResourceExhaustedError(None, None, f"Out of memory: {error}")
    return status.of_exception(error)


def _code(error: errors.OpError) -> Any:
    """Return gRPC's code of an error, UNKNOWN for other numbers."""
    codes = import_grpc().StatusCode
    return _CODES.get(error.error_code) or _CODES.setdefault(
        error.error_code,
        next((c for c in codes if c.value[0] == error.error_code and c.value[0]), codes.UNKNOWN),
    )


_CODES: Final[dict[int, Any]] = {}

__all__ = ["Call", "Method", "Reply", "WaitingMethod", "blocking", "waiting"]
