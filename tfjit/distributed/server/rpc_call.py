"""A call of a gRPC server, its request and its answer."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError

from tfjit.distributed.parcels.parcel_stream import METADATA, Assembler, split
from tfjit.distributed.parcels.parcels import Parcel
from tfjit.framework import errors

if TYPE_CHECKING:
    from tfjit.distributed.server.rpc_server import RpcServer

Metadata = Sequence[tuple[str, bytes]]


class RpcCall:
    """A client's call: a request, an answer in parts or whole.

    is_stream: both are streams of a parcel's parts. metadata: sent before the answer. Thread-safe.
    Nothing is sent to a client that has gone.
    """

    __slots__ = (
        *("_call", "_callbacks", "_core", "_deadline_s", "_due", "_gone", "_lock", "_over"),
        *("_assembler", "_chunks", "_received", "_server", "answered", "is_stream", "metadata"),
        *("_parts", "_sends_part", "_watches"),
    )

    def __init__(self, server: RpcServer, event: Any) -> None:
        self._server = server  # its queue of events must outlive the call
        self._core = server.core
        self._call = event.call
        self._deadline_s = event.call_details.deadline
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []
        self._due = 0
        self._assembler: Assembler | None = None
        self._chunks: Iterator[bytes] | None = None
        self._parts: deque[tuple[Any, ...]] | None = None  # to be sent, once there was one
        self._sends_part = False
        self._received: Callable[[RpcCall, bytes | Parcel | None], None] | None = None
        self.is_stream = False
        self.metadata: Any = METADATA
        self._gone = False  # the call is over, answered or not
        self._watches = False  # a separate event tells the call's end
        self.answered = False
        self._over = False

    def time_remaining(self) -> float:
        """Return the seconds until the client's deadline."""
        return max(0.0, float(self._deadline_s) - time.time())

    def is_active(self) -> bool:
        """Return whether the client still waits."""
        return not self._gone

    def add_callback(self, function: Callable[[], None]) -> bool:
        """Call a function at the call's end; return False behind it."""
        with self._lock:
            if self._gone:
                return False
            self._callbacks.append(function)
            self._watch()
            return True

    def _watch(self) -> None:
        """Ask for the call's end, with the lock held.

        The answer asks for the end of an answered call.
        """
        if not (self._watches or self.answered):
            self._watches = True
            self._start((self._core.ReceiveCloseOnServerOperation(0),), self._has_closed)

    def begin(
        self,
        received: Callable[[RpcCall, bytes | Parcel | None], None],
        stream_of: Any = None,
        watches: bool = True,
    ) -> None:
        """Ask for the request.

        received: gets it, or None from a client that has gone. stream_of: the message class of a
        request that is a stream. watches: see the client go from now on, not from the first
        callback on. A call that is answered earlier has an event less.
        """
        if stream_of is not None:
            self.is_stream, self._assembler = True, Assembler(stream_of)
        self._received = received
        if watches or stream_of is not None:
            with self._lock:
                self._watch()
        self._receive()

    def _has_request(self, event: Any) -> None:
        """Take a message; pass the request on if it is whole."""
        data = event.batch_operations[0].message()
        try:
            found = self._taken(data)
        except (DecodeError, MemoryError) as error:
            self._received = None
            self._done()
            is_large = isinstance(error, MemoryError)
            code = errors.RESOURCE_EXHAUSTED if is_large else errors.INVALID_ARGUMENT
            self.refuse(code, f"Could not parse a request: {error}")
            return
        if found is self:
            self._receive()
            self._done()
            return
        received, self._received = self._received, None
        if found is None:
            with self._lock:
                self._watch()
        self._done()
        if received is not None:
            received(self, found)

    def _taken(self, data: bytes | None) -> Any:
        """Return the whole request, or this call where more is to come."""
        assembler = self._assembler
        if data is None or assembler is None:
            return data
        assembler.take(data)
        if not assembler.is_whole:
            return self
        self._assembler = None
        return assembler.parcel

    def _receive(self) -> None:
        """Ask for the next message of the client."""
        with self._lock:
            self._start((self._core.ReceiveMessageOperation(0),), self._has_request)

    def _has_closed(self, event: Any) -> None:
        with self._lock:
            self._gone = True
            callbacks, self._callbacks = self._callbacks, []
        for function in callbacks:
            function()
        self._done()

    def _done(self) -> None:
        """Count an event; forget the call behind the last one."""
        with self._lock:
            self._due -= 1
            is_last = not self._due and self._gone and not self._over
            self._over = self._over or is_last
        if is_last:
            self._server.forget(self)

    def send(self, data: bytes) -> None:
        """Send the answer."""
        self._finish((self._core.SendMessageOperation(data, 0),), 0, "", ())

    def send_parts(self, parcel: Parcel) -> None:
        """Send the answer as a stream."""
        first, chunks = split(parcel)
        if chunks is None:
            self.send(first)
            return
        core = self._core
        metadata = core.SendInitialMetadataOperation(self.metadata, 0)
        with self._lock:
            if self._gone or self.answered:
                return
            self.answered = True
            self._chunks = chunks
            self._start((metadata, core.SendMessageOperation(first, 0)), self._send_chunk)

    def _send_chunk(self, event: Any) -> None:
        """Send the next chunk of the answer, or its end."""
        core = self._core
        assert self._chunks is not None
        chunk = next(self._chunks, None)
        with self._lock:
            if chunk is None or self._gone:
                self._chunks = None
            if not self._gone and chunk is not None:
                self._start((core.SendMessageOperation(chunk, 0),), self._send_chunk)
            elif not self._gone:
                self._start((core.SendStatusFromServerOperation((), 0, b"", 0),), self._sent)
        self._done()

    def send_part(self, data: bytes) -> None:
        """Send a part of the answer, behind those before it."""
        core = self._core
        operations: tuple[Any, ...] = (core.SendMessageOperation(data, 0),)
        with self._lock:
            if self._gone or self.answered:
                return
            if self._parts is None:
                self._watch()
                self._parts = deque()
                operations = (core.SendInitialMetadataOperation(self.metadata, 0), *operations)
            self._send_behind(operations)

    def _send_behind(self, operations: tuple[Any, ...]) -> None:
        """Begin operations behind those of earlier parts, with the lock held."""
        assert self._parts is not None
        self._parts.append(operations)
        if not self._sends_part:
            self._sends_part = True
            self._start(self._parts.popleft(), self._part_sent)

    def _part_sent(self, event: Any) -> None:
        with self._lock:
            assert self._parts is not None
            if self._gone:
                self._parts.clear()
            if self._parts:
                self._start(self._parts.popleft(), self._part_sent)
            else:
                self._sends_part = False
        self._done()

    def refuse(self, code: int, details: str, metadata: Metadata = ()) -> None:
        """Answer with a status. metadata: sent behind it."""
        self._finish((), code, details, metadata)

    def _finish(self, body: tuple[Any, ...], code: int, details: str, metadata: Metadata) -> None:
        core = self._core
        operations = (
            core.SendInitialMetadataOperation(self.metadata, 0),
            *body,
            core.SendStatusFromServerOperation(tuple(metadata), code, details.encode(), 0),
        )
        with self._lock:
            if self._gone or self.answered:
                return
            self.answered = True
            sent = self._sent
            if not self._watches:
                sent = self._has_closed
                operations = (*operations, core.ReceiveCloseOnServerOperation(0))
            if self._parts is None:
                self._start(operations, sent)
            else:  # the metadata have gone with the first part
                self._send_behind(operations[1:])

    def _start(self, operations: tuple[Any, ...], tag: Callable[[Any], None]) -> None:
        """Begin operations, with the lock held."""
        self._due += 1
        self._call.start_server_batch(operations, tag)

    def _sent(self, event: Any) -> None:
        self._done()


__all__ = ["RpcCall"]
