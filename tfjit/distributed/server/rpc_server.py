"""A gRPC server with threads that answer the calls which they read.

grpcio's own server gives each call from its thread of events to a thread of a pool and back, twice.
Here the thread that reads an event answers the call, and another one takes its place at the queue
of events where the answer may take long. It is made of the classes that grpcio's server is made of.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tfjit.distributed.parcels.parcels import Parcel
from tfjit.distributed.server.rpc_call import RpcCall
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

        if route is None:
            call.begin(received)
        else:
            call.begin(received, route.stream_of, route.may_wait)

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


__all__ = ["Handler", "Route", "RpcServer"]
