"""Calls of clients: requests, answers, errors, and a client that gives up.

A method is a function of its parsed request. One that waits for other tasks answers through a
`Reply`, and holds no thread meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tfjit.distributed.parcels.buffers import elements, encode_buffer
from tfjit.distributed.parcels.parcel_bytes import decode, encode
from tfjit.distributed.parcels.parcels import Parcel
from tfjit.distributed.protocol import status, tensors
from tfjit.distributed.protocol.interfaces import Cancel
from tfjit.distributed.server.requests import value_of
from tfjit.distributed.server.rpc_call import RpcCall
from tfjit.distributed.server.rpc_server import Handler
from tfjit.distributed.server.thread_pool import ThreadPool
from tfjit.framework import errors

_NO_DEADLINE_S: Final = 1e9
"""The least time until the deadline that gRPC gives calls without one."""
_LAST_CODE: Final = 16
"""The last of gRPC's codes."""


class Call:
    """A client's call: its deadline, and functions for a client that goes."""

    def __init__(self, rpc: RpcCall, pool: ThreadPool, request: Parcel) -> None:
        self._rpc = rpc
        self._pool = pool
        self._request = request
        self._parcel = Parcel(None)
        self._last: list[Callable[[], None]] = []
        self.is_over = False

    @property
    def deadline_s(self) -> float | None:
        """The seconds that the client still waits, or None for no limit."""
        left = self._rpc.time_remaining()
        return None if left >= _NO_DEADLINE_S else left

    def is_active(self) -> bool:
        """Return whether the client still waits."""
        return self._rpc.is_active()

    def value(self, proto: Any) -> Any:
        """Return the value of a TensorProto of the request.

        Raises InvalidArgumentError for contents that do not fit.
        """
        return self._request.value(proto) if proto.version_number else value_of(proto)

    def fill(self, proto: Any, value: Any) -> None:
        """Write a value into an empty TensorProto of the answer."""
        self._parcel.fill(proto, value)

    def ready(self, answer: Any) -> Callable[[], None]:
        """Return a function that sends the answer: bytes, or a message."""
        rpc = self._rpc
        if isinstance(answer, bytes):
            return lambda: rpc.send(answer)
        parcel = self._parcel
        parcel.message = answer
        if rpc.is_stream:
            return lambda: rpc.send_parts(parcel)
        data = encode(parcel)
        return lambda: rpc.send(data)

    def at_end(self, function: Callable[[], None]) -> None:
        """Run a function behind the answer."""
        self._last.append(function)

    def end(self) -> None:
        """Run the functions that are due behind the answer."""
        for function in self._last:
            function()

    def when_gone(self, function: Callable[[], None]) -> None:
        """Run a function if the client goes before the answer."""

        def gone() -> None:
            # on the thread of events, which must not wait
            if not self.is_over:
                self._pool.submit(function)

        if not self._rpc.add_callback(gone):
            gone()


class Reply(Call):
    """The answer to a call, given once, from any thread."""

    def __init__(self, rpc: RpcCall, pool: ThreadPool, request: Parcel) -> None:
        super().__init__(rpc, pool, request)
        self._lock = threading.Lock()

    def received(self, value: Any, is_dead: bool) -> Any:
        """Return the answer to RecvTensor, as bytes or a message."""
        if not self._rpc.is_stream:
            return tensors.encode_received(value, is_dead)
        from tfjit.protos import RecvTensorResponse

        answer = RecvTensorResponse(is_dead=is_dead)
        if not is_dead:
            self.fill(answer.tensor, value)
        return answer

    def buffer(self, value: np.ndarray) -> Any:
        """Return the answer to RecvBuf, as bytes or a message."""
        if not self._rpc.is_stream:
            return encode_buffer(value)
        return self._beside(value)

    def _beside(self, value: np.ndarray) -> Any:
        from tfjit.protos import RecvBufResponse

        self._parcel.arrays.append(elements(value))
        return RecvBufResponse(num_bytes=value.nbytes)

    def give(self, answer: Callable[[], Any]) -> None:
        """Send what a function returns, or its error; never waits.

        answer: returns the answer's message or its bytes.

        A second answer is ignored.
        """
        with self._lock:
            if self.is_over:
                return
            self.is_over = True
        try:
            send = self.ready(answer())
        except BaseException as raised:
            refuse(self._rpc, raised)
        else:
            send()

    def give_part(self, answer: Callable[[], Any]) -> None:
        """Send a function's message as a part; one part at a time."""
        with self._lock:
            if self.is_over:
                return
        try:
            message, parcel = answer(), self._parcel
            self._parcel, parcel.message = Parcel(None), message
            self._rpc.send_part(encode(parcel))
        except BaseException as error:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """Answer with the status of an error."""

        def answer() -> Any:
            raise error

        self.give(answer)

    def started(self, cancel: Cancel) -> None:
        """Cancel the work once the client has gone."""
        if not self.is_over:
            self.when_gone(cancel)


Method = Callable[[Any, Call], Any]
"""Takes (request, call); returns the answer's message or its bytes."""
WaitingMethod = Callable[[Any, Reply], Cancel]
"""Takes (request, reply); returns a function that gives up."""


def blocking(method: Method, request_class: Any, pool: ThreadPool) -> Handler:
    """Return the gRPC handler of a method that answers by its result."""

    def handle(data: bytes | Parcel, rpc: RpcCall) -> None:
        try:
            request = _request(request_class, data)
        except BaseException as error:
            refuse(rpc, error)
            return
        call = Call(rpc, pool, request)
        try:
            send = call.ready(method(request.message, call))
        except BaseException as raised:
            call.is_over = True
            refuse(rpc, raised)
        else:
            call.is_over = True
            send()
        finally:
            call.end()

    return handle


def waiting(method: WaitingMethod, request_class: Any, pool: ThreadPool) -> Handler:
    """Return the gRPC handler of a method that answers by a Reply."""

    def handle(data: bytes | Parcel, rpc: RpcCall) -> None:
        try:
            request = _request(request_class, data)
        except BaseException as error:
            refuse(rpc, error)
            return
        reply = Reply(rpc, pool, request)
        try:
            reply.started(method(request.message, reply))
        except BaseException as error:
            reply.fail(error)

    return handle


def refuse(rpc: RpcCall, raised: BaseException) -> None:
    """Answer with the status of an exception."""
    error = public(raised)
    code = error.error_code if 0 < error.error_code <= _LAST_CODE else errors.UNKNOWN
    rpc.refuse(code, status.short_message(error), status.trailing_metadata(error))


def _request(request_class: Any, data: bytes | Parcel) -> Parcel:
    """Return a request; that of a stream is a parcel already."""
    if isinstance(data, Parcel):
        return data
    found: Parcel = parsed(request_class, data, decode)
    return found


def parsed(request_class: Any, data: bytes, parse: Callable[[Any, bytes], Any]) -> Any:
    """Return a request, parsed by `parse`.

    Raises InvalidArgumentError for bytes of another kind.
    """
    from google.protobuf.message import DecodeError

    try:
        return parse(request_class, data)
    except DecodeError as error:
        name = request_class.DESCRIPTOR.name
        raise errors.InvalidArgumentError(
            None, None, f"Could not parse {len(data)} bytes as {name}: {error}"
        ) from None


def public(error: BaseException) -> errors.OpError:
    """Return an error of a method as one of the protocol."""
    if isinstance(error, MemoryError):
        return errors.ResourceExhaustedError(None, None, f"Out of memory: {error}")
    return status.of_exception(error)


__all__ = [
    "Call",
    "Method",
    "Reply",
    "WaitingMethod",
    "blocking",
    "parsed",
    "public",
    "refuse",
    "waiting",
]
