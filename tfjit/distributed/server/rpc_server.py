"""A gRPC server with threads that answer the calls which they read.

grpcio's own server gives each call from its thread of events to a thread of a pool and back, twice.
Here the thread that reads an event answers the call, and another one takes its place at the queue
of events where the answer may take long. It is made of the classes that grpcio's server is made of.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.message import DecodeError

from tfjit.distributed.protocol.parcel_stream import METADATA, Assembler, split
from tfjit.distributed.protocol.parcels import Parcel
from tfjit.distributed.server.thread_pool import ThreadPool
from tfjit.framework import errors

log: Final = logging.getLogger("tfjit.server")

_CALL: Final = "call"
_STOPPED: Final = "stopped"
_LARGE: Final = 1 << 16
"""Requests of as many bytes are parsed longer than a thread wakes."""
_POLL_S: Final = 3600.0
_LAST_ANSWERS_S: Final = 1.0
_LOOK_S: Final = 0.002

Metadata = Sequence[tuple[str, bytes]]


class RpcCall:
    """A client's call: a request, an answer in parts or whole.

    is_stream: both are streams of a parcel's parts. metadata: sent before the answer. Thread-safe.
    Nothing is sent to a client that has gone.
    """

    __slots__ = (
        *("_call", "_callbacks", "_core", "_deadline_s", "_due", "_gone", "_lock", "_over"),
        *("_assembler", "_chunks", "_received", "_server", "answered", "is_stream", "metadata"),
        *("_parts", "_sends_part"),
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
            return True

    def begin(
        self, received: Callable[[RpcCall, bytes | Parcel | None], None], stream_of: Any = None
    ) -> None:
        """Ask for the request.

        received: gets it, or None from a client that has gone. stream_of: the message class of a
        request that is a stream.
        """
        if stream_of is not None:
            self.is_stream, self._assembler = True, Assembler(stream_of)
        self._received = received
        with self._lock:
            self._start((self._core.ReceiveCloseOnServerOperation(0),), self._has_closed)
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
            if self._parts is None:
                self._start(operations, self._sent)
            else:  # the metadata have gone with the first part
                self._send_behind(operations[1:])

    def _start(self, operations: tuple[Any, ...], tag: Callable[[Any], None]) -> None:
        """Begin operations, with the lock held."""
        self._due += 1
        self._call.start_server_batch(operations, tag)

    def _sent(self, event: Any) -> None:
        self._done()


Handler = Callable[["bytes | Parcel", RpcCall], None]
"""Takes (request, call); that of a stream is a parcel."""


@dataclass(frozen=True, slots=True)
class Route:
    """The handler of a path.

    may_wait: it keeps its thread until other calls come. stream_of: the message class of requests
    that are streams.
    """

    handler: Handler
    may_wait: bool
    stream_of: Any = None


class RpcServer:
    """Handlers behind a port.

    pool: its threads read events and run handlers. most_calls: further ones are refused. options:
    gRPC's.
    """

    def __init__(
        self, pool: ThreadPool, most_calls: int, options: Sequence[tuple[str, Any]]
    ) -> None:
        from grpc._cython import cygrpc

        self.core: Final = cygrpc
        self._pool = pool
        self._most_calls = most_calls
        self._events = cygrpc.CompletionQueue()
        self._server = cygrpc.Server(tuple(options), False)
        self._server.register_completion_queue(self._events)
        self._routes: dict[bytes, Route] = {}
        self._lock = threading.Lock()
        self._calls: set[RpcCall] = set()
        self._blocked = 0  # handlers that may wait
        self._started = self._stopping = self._stopped = False
        self._jobs: list[Callable[[], None]] = []  # for the thread that reads
        self._over = threading.Event()

    def add_port(self, address: str, credentials: Any = None) -> int:
        """Bind "host:port"; return the port, or 0 where it cannot be bound.

        credentials: grpc.ServerCredentials for TLS.
        """
        try:
            if credentials is None:
                return int(self._server.add_http2_port(address.encode()))
            return int(self._server.add_http2_port(address.encode(), credentials._credentials))
        except RuntimeError:
            return 0

    def start(self, routes: Mapping[str, Route]) -> None:
        """Answer calls from now on. routes: by path."""
        self._routes.update((path.encode(), route) for path, route in routes.items())
        self._server.start()
        self._started = True
        self._server.request_call(self._events, self._events, _CALL)
        self._pool.submit(self._read)

    @property
    def busy_count(self) -> int:
        """The number of handlers that hold a thread."""
        return self._blocked

    # events

    def _read(self) -> None:
        """Read events until a call needs this thread or the server stops."""
        core = self.core
        while True:
            event = self._events.poll(time.time() + _POLL_S)
            if event.completion_type != core.CompletionType.queue_timeout:
                job = self._take(event)
                event = None  # it has a request, too
                if job is not None:
                    job()
                    return
                with self._lock:
                    if self._stopped and not self._calls:
                        self._server.destroy()
                        self._over.set()
                        return
            # an event has a reference to its call: not while this thread waits
            event = None

    def _take(self, event: Any) -> Callable[[], None] | None:
        """Handle an event; return a job for this thread, or None."""
        tag = event.tag
        if tag is _STOPPED:
            self._stopped = True
            return None
        if tag is _CALL:
            self._begin(event)
            return None
        jobs: list[Callable[[], None]] = []
        self._jobs = jobs
        try:
            tag(event)
        except Exception:  # a fault in a handler, which must not end the server
            log.exception("a call could not be handled")
        return jobs.pop() if jobs else None  # the server's list must not keep the request

    def _begin(self, event: Any) -> None:
        if not event.success:  # the server stops
            return
        with self._lock:
            if not self._stopping:
                self._server.request_call(self._events, self._events, _CALL)
        call = RpcCall(self, event)
        route = self._routes.get(event.call_details.method)
        with self._lock:
            self._calls.add(call)
            is_full = self._blocked >= self._most_calls

        def received(call: RpcCall, request: bytes | Parcel | None) -> None:
            if request is None:
                return
            if route is None:
                call.metadata = ()
                call.refuse(errors.UNIMPLEMENTED, "Method not found!")
            elif is_full and route.may_wait:
                call.refuse(errors.RESOURCE_EXHAUSTED, "Concurrent RPC limit exceeded!")
            elif route.may_wait or (isinstance(request, bytes) and len(request) > _LARGE):
                self._run(route.handler, request, call)
            else:
                self._answer(route.handler, request, call)

        call.begin(received, None if route is None else route.stream_of)

    @staticmethod
    def _answer(handler: Handler, request: bytes | Parcel, call: RpcCall) -> None:
        try:
            handler(request, call)
        except Exception as error:  # a fault in a handler, of which the client is to hear
            log.exception("a call could not be handled")
            call.refuse(errors.INTERNAL, f"{type(error).__name__}: {error}")

    def _run(self, handler: Handler, request: bytes | Parcel, call: RpcCall) -> None:
        """Run a handler here where another thread is free to read."""
        with self._lock:
            self._blocked += 1

        def job() -> None:
            self._answer(handler, request, call)
            with self._lock:
                self._blocked -= 1

        if self._pool.has_idle:
            self._jobs.append(job)  # first: the next thread that reads has another list
            self._pool.submit(self._read)
        else:
            self._pool.submit(job)

    def forget(self, call: RpcCall) -> None:
        """Drop a call that is over."""
        with self._lock:
            self._calls.discard(call)

    # the end

    def stop(self, timeout_s: float) -> None:
        """Close the port, cancel all calls, and wait until they are over.

        Answers that are under way have a second to be sent.
        """
        if not self._started:
            self._server.start()  # gRPC keeps the port of a server that was never started
            self._pool.submit(self._read)
        with self._lock:
            self._stopping = True
            self._server.shutdown(self._events, _STOPPED)
        until_s = time.monotonic() + _LAST_ANSWERS_S
        while self._is_answering() and time.monotonic() < until_s:
            time.sleep(_LOOK_S)
        with self._lock:
            if self._over.is_set():
                return
            self._server.cancel_all_calls()  # with the lock: the server must not be gone yet
        self._over.wait(timeout_s)

    def _is_answering(self) -> bool:
        with self._lock:
            return any(call.answered for call in self._calls)


__all__ = ["Handler", "Route", "RpcCall", "RpcServer"]
