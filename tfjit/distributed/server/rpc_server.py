"""A gRPC server whose threads answer calls without handing them to each other.

grpcio's own server gives each call from its thread of events to a thread of a pool and back, twice.
Here the thread that reads an event answers the call, and another one takes its place at the queue
of events where the answer may take long. It is made of the classes that grpcio's server is made of.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tfjit.distributed.server.thread_pool import ThreadPool

log: Final = logging.getLogger("tfjit.server")

_CALL: Final = "call"
_STOPPED: Final = "stopped"
_UNIMPLEMENTED: Final = 12
_RESOURCE_EXHAUSTED: Final = 8
_LARGE: Final = 1 << 16
"""The bytes of a request from which on to parse it takes longer than to wake a thread."""
_POLL_S: Final = 3600.0

Metadata = Sequence[tuple[str, bytes]]


class RpcCall:
    """A call of a client: one request, one answer.

    Thread-safe. Nothing is sent to a client that has gone.
    """

    __slots__ = (
        *("_call", "_callbacks", "_core", "_deadline_s", "_due", "_gone", "_lock", "_over"),
        *("_server", "answered"),
    )

    def __init__(self, server: RpcServer, event: Any) -> None:
        self._server = server  # its queue of events must outlive the call
        self._core = server.core
        self._call = event.call
        self._deadline_s = event.call_details.deadline
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []
        self._due = 0
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
        """Call a function at the end of the call; return False if it is over."""
        with self._lock:
            if self._gone:
                return False
            self._callbacks.append(function)
            return True

    def begin(self, received: Callable[[RpcCall, bytes | None], None]) -> None:
        """Ask for the request; `received` gets it, or None from a client that has gone."""
        core = self._core

        def has_request(event: Any) -> None:
            data = event.batch_operations[0].message()
            self._done()
            received(self, data)

        with self._lock:
            self._due += 2
            self._call.start_server_batch(
                (core.ReceiveCloseOnServerOperation(0),), self._has_closed
            )
            self._call.start_server_batch((core.ReceiveMessageOperation(0),), has_request)

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

    def refuse(self, code: int, details: str, metadata: Metadata = ()) -> None:
        """Answer with a status. metadata: sent behind it."""
        self._finish((), code, details, metadata)

    def _finish(self, body: tuple[Any, ...], code: int, details: str, metadata: Metadata) -> None:
        core = self._core
        operations = (
            core.SendInitialMetadataOperation(None, 0),
            *body,
            core.SendStatusFromServerOperation(tuple(metadata), code, details.encode(), 0),
        )
        with self._lock:
            if self._gone or self.answered:
                return
            self.answered = True
            self._due += 1
            self._call.start_server_batch(operations, self._sent)

    def _sent(self, event: Any) -> None:
        self._done()


Handler = Callable[[bytes, RpcCall], None]
"""Takes (request, call). It answers by the call, then or later."""


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
        self._handlers: dict[bytes, tuple[Handler, bool]] = {}
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

    def start(self, waiting: Mapping[str, Handler], blocking: Mapping[str, Handler]) -> None:
        """Answer calls from now on.

        waiting: handlers by path that never wait. blocking: those that may.
        """
        self._handlers.update((path.encode(), (made, False)) for path, made in waiting.items())
        self._handlers.update((path.encode(), (made, True)) for path, made in blocking.items())
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
        """Read events until this thread is needed for a call, or the server has stopped."""
        core = self.core
        while True:
            event = self._events.poll(time.time() + _POLL_S)
            if event.completion_type != core.CompletionType.queue_timeout:
                job = self._take(event)
                if job is not None:
                    job()
                    return
                with self._lock:
                    if self._stopped and not self._calls:
                        self._server.destroy()
                        break
            # an event has a reference to its call: not while this thread waits
            event = None
        self._over.set()

    def _take(self, event: Any) -> Callable[[], None] | None:
        """Handle an event; return a job that this thread is needed for, or None."""
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
        return jobs[0] if jobs else None

    def _begin(self, event: Any) -> None:
        if not event.success:  # the server stops
            return
        with self._lock:
            if not self._stopping:
                self._server.request_call(self._events, self._events, _CALL)
        call = RpcCall(self, event)
        known = self._handlers.get(event.call_details.method)
        with self._lock:
            self._calls.add(call)
            is_full = self._blocked >= self._most_calls

        def received(call: RpcCall, data: bytes | None) -> None:
            if data is None:
                return
            if known is None:
                call.refuse(_UNIMPLEMENTED, "Method not found!")
            elif is_full and known[1]:
                call.refuse(_RESOURCE_EXHAUSTED, "Concurrent RPC limit exceeded!")
            elif known[1] or len(data) > _LARGE:
                self._run(known[0], data, call)
            else:
                known[0](data, call)

        call.begin(received)

    def _run(self, handler: Handler, data: bytes, call: RpcCall) -> None:
        """Run a handler on this thread where another is free to read events."""
        with self._lock:
            self._blocked += 1

        def job() -> None:
            try:
                handler(data, call)
            except Exception:  # a fault in a handler
                log.exception("a call could not be handled")
            finally:
                with self._lock:
                    self._blocked -= 1

        if self._pool.has_idle:
            self._jobs.append(job)  # first: the next thread that reads has a list of its own
            self._pool.submit(self._read)
        else:
            self._pool.submit(job)

    def forget(self, call: RpcCall) -> None:
        """Drop a call that is over."""
        with self._lock:
            self._calls.discard(call)

    # the end

    def stop(self, timeout_s: float) -> None:
        """Close the port, cancel all calls, and wait until they are over."""
        if not self._started:
            self._server.start()  # gRPC keeps the port of a server that was never started
            self._pool.submit(self._read)
        with self._lock:
            self._stopping = True
            self._server.shutdown(self._events, _STOPPED)
            self._server.cancel_all_calls()  # with the lock: the server must not be gone yet
        self._over.wait(timeout_s)


__all__ = ["RpcCall", "RpcServer"]
