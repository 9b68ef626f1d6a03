"""A task of a cluster in this process.

A server runs any graph that a client sends, and a graph may read and write files. So it listens at
the loopback interface alone unless told otherwise, and TLS with an authority admits only clients
that the authority has signed.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import socket
import stat
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tfjit.distributed.channels.channels import SCHEME
from tfjit.distributed.protocol import credentials as known_credentials
from tfjit.distributed.protocol import local_tasks
from tfjit.distributed.protocol.credentials import Credentials
from tfjit.distributed.protocol.interfaces import MasterInterface, WorkerInterface
from tfjit.distributed.server.server_def import LOOPBACK, find_place, make_server_def
from tfjit.distributed.server.services import Services
from tfjit.framework import errors, settings

log = logging.getLogger("tfjit.server")


@dataclass(frozen=True, slots=True)
class TaskSetup:
    """The arguments of a task's master and worker.

    task: "/job:worker/replica:0/task:1". peers: task -> "host:port" of the whole cluster. config:
    ConfigProto, the default of sessions and the task's devices.
    """

    task: str
    peers: Mapping[str, str]
    config: Any


TaskFactory = Callable[[TaskSetup], tuple[MasterInterface, WorkerInterface]]


def make_task(setup: TaskSetup) -> tuple[MasterInterface, WorkerInterface]:
    """Return the master and the worker of a task."""
    from tfjit.distributed.master.master import Master
    from tfjit.distributed.worker.worker import Worker

    worker = Worker(setup.task, setup.config, setup.peers)
    gc_s = settings.integer("TFJIT_SESSION_GC_S")
    master = Master(
        setup.task,
        setup.peers,
        worker,
        setup.config,
        gc_s,
        channels=worker.channel,
        sequences=worker.step_sequences,
    )
    return master, worker


class Server:
    """A task of a cluster: its master and worker, behind a port.

    The server lives until `stop` or the end of the process, also without a reference to it. A
    forked child has none.
    """

    def __init__(
        self,
        server_or_cluster_def: Any,
        job_name: str | None = None,
        task_index: int | None = None,
        protocol: str | None = None,
        config: Any = None,
        start: bool = True,
        *,
        bind: str | None = None,
        credentials: Credentials | None = None,
        factory: TaskFactory | None = None,
    ) -> None:
        """Bind the task's port, and start to serve unless told otherwise.

        server_or_cluster_def: a ServerDef, or what ClusterSpec takes; job_name, task_index and
        protocol replace what it says. config: ConfigProto, the default of sessions. bind: the
        address of the interface to listen at, such as "0.0.0.0" for all; by default TFJIT_BIND, or
        the loopback interface. credentials: for TLS, with clients and with the other tasks.
        factory: makes the task's master and worker, `make_task` by default.

        Raises InternalError for a task that the cluster has not, InvalidArgumentError for an
        address that is none, UnknownError for a port in use.
        """
        self._server_def = make_server_def(
            server_or_cluster_def, job_name, task_index, protocol, config
        )
        place = find_place(self._server_def)
        bind = bind or settings.text("TFJIT_BIND") or None
        loopback = place.bind_host
        self._task = place.task
        self._pid = os.getpid()
        self._services = Services(
            bind or loopback or LOOPBACK,
            place.port,
            None if credentials is None else credentials.of_server(),
        )
        self._port = self._services.port
        if bind is None and loopback is None:
            log.warning(
                "The address of %s is %s:%d, but it listens at %s alone, so no other host reaches "
                "it. To admit other hosts, name the address of an interface: bind=, --bind or "
                "TFJIT_BIND, 0.0.0.0 for all. Whoever reaches a server runs any graph on it.",
                *(place.task, place.host, self._port, LOOPBACK),
            )
        host = place.host if bind or loopback else "localhost"
        self._address = f"{host}:{self._port}"
        peers = {**place.others, place.task: f"{place.host}:{self._port}"}
        self._names = {self._address, peers[place.task]}
        if credentials is not None:
            known_credentials.use({*peers.values(), self._address}, credentials)
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._started = False
        try:
            self._master, self._worker = (factory or make_task)(
                TaskSetup(place.task, peers, self._server_def.default_session_config)
            )
            if start:
                self.start()
        except BaseException:
            self._services.stop(0)
            raise

    @staticmethod
    def create_local_server(config: Any = None, start: bool = True) -> Server:
        """Return the only task of a cluster, at a free port."""
        return Server({"localhost": ["localhost:0"]}, protocol="grpc", config=config, start=start)

    @property
    def server_def(self) -> Any:
        """The ServerDef that the server was made with."""
        return self._server_def

    @property
    def task(self) -> str:
        """The name of the task: "/job:worker/replica:0/task:1"."""
        return self._task

    @property
    def target(self) -> str:
        """The target of sessions with this server: "grpc://host:port"."""
        return SCHEME + self._address

    def start(self) -> None:
        """Serve from now on; a second call does nothing.

        Raises FailedPreconditionError for a server that was stopped.
        """
        self._check_process()
        with self._lock:
            if self._over.is_set():
                raise errors.FailedPreconditionError(None, None, "The server was stopped.")
            if self._started:
                return
            self._services.start(self._master, self._worker)
            self._started = True
            for address in self._names:
                local_tasks.add(address, self._master, self._worker)
            _SERVERS.add(self)

    def join(self) -> None:
        """Wait until the server is stopped."""
        self._check_process()
        # Ctrl-C that another thread gets does not end a wait of this one
        while not self._over.wait(_LOOK_S):
            pass

    def stop(self, grace_s: float = 0.0) -> None:
        """Stop serving; a second call waits for the first.

        New sessions and steps are refused at once. Running steps have `grace_s` seconds, then they
        are cancelled.
        """
        if os.getpid() != self._pid:
            return
        with self._lock:
            if self._over.is_set():
                return
            self._services.stop(grace_s)
            for address in self._names:
                local_tasks.remove(address)
            _SERVERS.discard(self)
            with contextlib.ExitStack() as last:
                last.callback(self._over.set)
                last.callback(self._worker.close)
                self._master.close()

    def _check_process(self) -> None:
        """Raise FailedPreconditionError in a forked child."""
        if os.getpid() != self._pid:
            raise errors.FailedPreconditionError(
                None, None, "The server is of the process that this one was forked from."
            )

    def _leave_fork(self) -> None:
        """Close a forked child's copies of the sockets.

        Peers would not see that the parent has died.
        """
        for descriptor in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else ():
            with contextlib.suppress(OSError):
                number = int(descriptor)
                if not stat.S_ISSOCK(os.fstat(number).st_mode):
                    continue
                copy = socket.socket(fileno=os.dup(number))
                with copy:
                    inet = copy.family in (socket.AF_INET, socket.AF_INET6)
                    ours = inet and copy.getsockname()[1] in self._services.ports
                if ours:
                    os.close(number)


_LOOK_S: Final = 0.5
_SERVERS: Final[set[Server]] = set()


def _stop_all() -> None:
    for server in list(_SERVERS):
        server.stop(0)


def _in_child() -> None:
    for server in list(_SERVERS):
        server._leave_fork()
    _SERVERS.clear()


atexit.register(_stop_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)

__all__ = ["Server", "TaskFactory", "TaskSetup", "make_task"]
