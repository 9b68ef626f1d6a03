"""Bind a master and a worker to a port."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Final

from tfjit.distributed.parcels import parcel_stream
from tfjit.distributed.protocol import methods
from tfjit.distributed.protocol.grpc_library import import_grpc
from tfjit.distributed.protocol.interfaces import MasterInterface, WorkerInterface
from tfjit.distributed.protocol.methods import MASTER, PARCELS, WORKER
from tfjit.distributed.server import health
from tfjit.distributed.server.activity import Activity
from tfjit.distributed.server.calls import blocking, refuse, waiting
from tfjit.distributed.server.direct_listener import DirectListener
from tfjit.distributed.server.local_listener import LocalListener
from tfjit.distributed.server.master_service import MasterService
from tfjit.distributed.server.rpc_call import RpcCall
from tfjit.distributed.server.rpc_server import Route, RpcServer
from tfjit.distributed.server.thread_pool import MOST_THREADS, ThreadPool
from tfjit.distributed.server.worker_service import WorkerService
from tfjit.framework import errors, settings

log = logging.getLogger("tfjit.server")

MOST_CALLS: Final = MOST_THREADS - 64
"""The calls that may hold threads; the others are for answers."""
_MOST_PENDING: Final = 100_000
_OPTIONS: Final = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # a second server at the port is an error, and does not share its connections
    ("grpc.so_reuseport", 0),
    # gRPC would cancel calls at random from 1,000 on that wait for the thread of events
    ("grpc.server.max_pending_requests", _MOST_PENDING),
    ("grpc.server.max_pending_requests_hard_limit", _MOST_PENDING),
)
_STOP_S: Final = 10.0
"""The seconds that cancelled calls have to end."""


class Services:
    """The services of a task at one port of an interface."""

    def __init__(self, host: str, port: int, credentials: Any = None) -> None:
        """Bind a port, at which nothing answers before `start`.

        host: the interface's address. port: 0 for a free one. credentials: grpc.ServerCredentials
        for TLS, or None. Raises UnknownError for a port that cannot be bound.
        """
        import_grpc()
        self._pool = ThreadPool(f"tfjit server :{port}")
        self._server = RpcServer(self._pool, MOST_CALLS, _OPTIONS)
        self.activity = Activity()
        self._is_serving = False
        address = f"{host}:{port}"
        self.port = self._server.add_port(address, credentials)
        if not self.port:
            raise errors.UnknownError(
                None,
                None,
                f"Could not start gRPC server: {address} is in use or cannot be bound.",
            )
        # with TLS, clients are to show their certificates
        is_open = credentials is None
        self._local = self._listen_beside(host) if is_open else None
        self._direct = self._listen_directly(host) if is_open else None

    def _listen_beside(self, host: str) -> LocalListener | None:
        """Return the listener for clients on this host, or None."""
        if "local_channel" in settings.names("TFJIT_DISABLE"):
            return None
        try:
            return LocalListener(self.port, host, self._pool)
        except (OSError, AttributeError) as error:  # AttributeError: a system without such sockets
            log.info("port %d: clients on this host use gRPC, too: %s", self.port, error)
            return None

    def _listen_directly(self, host: str) -> DirectListener | None:
        """Return the listener for direct connections, or None."""
        if "direct_channel" in settings.names("TFJIT_DISABLE"):
            return None
        try:
            return DirectListener(host, self._pool)
        except OSError as error:
            log.info("port %d: tasks on other hosts use gRPC alone: %s", self.port, error)
            return None

    @property
    def ports(self) -> set[int]:
        """The ports of this process."""
        return {self.port} if self._direct is None else {self.port, self._direct.invitation.port}

    @property
    def busy_count(self) -> int:
        """The number of calls that hold a thread, or wait for one."""
        return self._server.busy_count

    def start(self, master: MasterInterface, worker: WorkerInterface) -> None:
        """Answer calls from now on."""
        of_worker = WorkerService(worker, self.activity)
        answering = {
            MASTER: MasterService(master, self.activity).methods(),
            WORKER: of_worker.methods(),
        }
        routes = {methods.path(health.SERVICE, health.METHOD): Route(self._check, False)}
        starting = of_worker.waiting_methods()
        for service, name, handler, may_wait in (
            *(
                (service, name, blocking(method, methods.request_class(name), self._pool), True)
                for service, found in answering.items()
                for name, method in found.items()
            ),
            *(
                (WORKER, name, waiting(start, methods.request_class(name), self._pool), False)
                for name, start in starting.items()
            ),
        ):
            routes[methods.path(service, name)] = Route(handler, may_wait)
            if name in parcel_stream.METHODS:
                path = methods.path(PARCELS, name)
                routes[path] = Route(handler, may_wait, methods.request_class(name))
        for name, start in of_worker.parcel_methods().items():
            handler = waiting(start, methods.request_class(name), self._pool)
            routes[methods.path(PARCELS, name)] = Route(handler, False)
        for listener in self._listeners():
            listener.start(answering, {WORKER: starting, PARCELS: of_worker.parcel_methods()})
        if self._direct is not None:
            invitation = self._direct.invitation.encode()
            path = methods.path(PARCELS, methods.INVITE)
            routes[path] = Route(lambda request, call: call.send(invitation), False)
        self._server.start(routes)
        self._is_serving = True

    def _listeners(self) -> Iterator[LocalListener]:
        yield from (listener for listener in (self._local, self._direct) if listener is not None)

    def _check(self, request: Any, call: RpcCall) -> None:
        """Answer whether new work is taken."""
        try:
            call.send(
                health.answer(request, lambda: self._is_serving and not self.activity.is_draining)
            )
        except errors.OpError as error:
            refuse(call, error)

    def stop(self, grace_s: float) -> None:
        """Refuse new work, wait for running steps, cancel other calls.

        Calls between tasks are answered until the running steps have ended.
        """
        if self._is_serving:
            self.activity.drain(grace_s)
            self._is_serving = False
        for listener in self._listeners():
            listener.close()
        self._server.stop(_STOP_S)


__all__ = ["MOST_CALLS", "Services"]
