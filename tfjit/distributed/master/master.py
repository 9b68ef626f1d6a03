"""The master of a task: its sessions by handle."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from tfjit.distributed.channels.channels import SCHEME, Channel
from tfjit.distributed.master.cluster import SHORT_TIMEOUT_S, Cluster
from tfjit.distributed.master.cluster_devices import find_devices
from tfjit.distributed.master.concurrent_calls import GivenUp, call_all
from tfjit.distributed.master.master_session import MasterSession, signature_of
from tfjit.distributed.master.step_cleaner import StepCleaner
from tfjit.distributed.protocol.interfaces import MasterInterface, StepCall, WorkerInterface
from tfjit.distributed.protocol.recent_requests import RecentRequests
from tfjit.distributed.protocol.task_names import addresses_of
from tfjit.distributed.worker.step_sequences import StepSequences
from tfjit.framework import errors
from tfjit.runtime.host.cancellation import CancellationManager
from tfjit.runtime.session import session_config

log: Final = logging.getLogger("tfjit.distributed")

_HANDLES: Final = random.SystemRandom()
_GC_PERIOD_S: Final = 10.0


class Master(MasterInterface):
    """Sessions over the devices of the cluster that a task belongs to.

    task: its name, "/job:ps/replica:0/task:0". addresses: "host:port" of every task, or a
    ClusterDef. local_worker: the worker of the task, None to reach it by its address.
    default_config: what the ConfigProto of a client is merged into. session_gc_s: sessions that
    have been idle for longer are closed; 0 keeps them. credentials: gRPC's, for other tasks.
    channels: returns the channel to an address, which the worker has too: then one thread reads the
    answers for both. sequences: the ids of steps with collectives, the worker's; None where no
    other master takes part in them.
    """

    def __init__(
        self,
        task: str,
        addresses: Mapping[str, str] | Any,
        local_worker: WorkerInterface | None = None,
        default_config: Any = None,
        session_gc_s: float = 0,
        credentials: Any = None,
        channels: Callable[[str], Channel] | None = None,
        sequences: StepSequences | None = None,
    ) -> None:
        if not isinstance(addresses, Mapping):
            addresses = addresses_of(addresses)
        self.cluster = Cluster(task, addresses, local_worker, credentials, channels)
        self._default_config = default_config
        self._sequences = sequences
        self._lock = threading.Lock()
        self._sessions: dict[str, MasterSession] = {}
        self._cleaner = StepCleaner()
        self._requests = RecentRequests()
        self._ending = CancellationManager()  # cancelled by `close`
        if session_gc_s > 0:
            threading.Thread(
                target=self._collect, args=(session_gc_s,), name="tfjit-session-gc", daemon=True
            ).start()

    # sessions

    def create_session(
        self,
        graph_def: Any,
        config: Any,
        target: str = "",
        cancellation: CancellationManager | None = None,
    ) -> tuple[str, int]:
        config = self._merged(config)
        filters = tuple(config.device_filters) if config is not None else ()
        if config is not None:
            session_config.check_device_filters(config)
        cluster = self.cluster
        if config is not None and config.cluster_def.job:
            cluster = self._own_cluster(config.cluster_def, target)
        handle = f"{_HANDLES.getrandbits(64):016x}"
        try:
            with self._waiting(cancellation) as waiting:
                devices = find_devices(cluster, filters, waiting)
                session = MasterSession(
                    handle, cluster, devices, config, self._cleaner, sequences=self._sequences
                )
                try:
                    version = session.create(graph_def, cluster.tasks(filters), waiting)
                    self._keep(session)
                except BaseException:
                    session.close()
                    raise
        except BaseException:
            if cluster is not self.cluster:
                cluster.close()
            raise
        return handle, version

    @contextmanager
    def _waiting(self, client: CancellationManager | None) -> Iterator[CancellationManager]:
        """Give the cancellation of calls that wait for other tasks.

        The client's and the end of the master cancel it. Raises UnavailableError once the master
        is closed.
        """
        made = CancellationManager(self._ending)
        token = client.register(made.cancel) if client is not None else None
        if client is not None and token is None:
            made.cancel()
        try:
            yield made
        except errors.CancelledError:
            self._check_open()
            raise
        finally:
            made.release()
            if client is not None:
                client.deregister(token)

    def _keep(self, session: MasterSession) -> None:
        with self._lock:
            self._check_open()
            self._sessions[session.handle] = session

    def _check_open(self) -> None:
        if self._ending.cancelled:
            raise errors.UnavailableError(None, None, "The server is stopping.")

    def _merged(self, config: Any) -> Any:
        """Return a client's config in addition to the server's default."""
        if self._default_config is None:
            return config
        merged = type(self._default_config)()
        merged.CopyFrom(self._default_config)
        if config is not None:
            merged.MergeFrom(config)
        return merged

    def _own_cluster(self, cluster_def: Any, target: str) -> Cluster:
        """Return the cluster of a ConfigProto, whose tasks the client names."""
        address = target.removeprefix(SCHEME)
        addresses = addresses_of(cluster_def)
        own = [task for task, listed in addresses.items() if listed == address]
        if len(own) > 1:
            raise errors.InvalidArgumentError(
                None,
                None,
                "Found multiple matching tasks that correspond to to the master. Master target: "
                f"'{target}'. ClusterDef: {_short(cluster_def)}",
            )
        if not own:
            raise errors.InvalidArgumentError(
                None,
                None,
                "No task of the ConfigProto's cluster_def is the master, which the client calls "
                f"'{target}'. ClusterDef: {_short(cluster_def)}",
            )
        if own[0] == self.cluster.task:
            job, index = own[0].removeprefix("/job:").split("/replica:0/task:")
            raise errors.InvalidArgumentError(
                None,
                None,
                "The ClusterSpec names the job and task index to be the same names that were "
                "provided when the server booted. This is currently not allowed. Job: "
                f"{job}, task index: {index}",
            )
        return Cluster(own[0], addresses, self.cluster.local, self.cluster.credentials)

    def _find(self, handle: str) -> MasterSession:
        found = self._sessions.get(handle)
        if found is None:
            raise errors.AbortedError(None, None, f"Session {handle} is not found.")
        return found

    def extend_session(self, session: str, graph_def: Any, version: int) -> int:
        return self._find(session).extend(graph_def, version)

    def close_session(self, session: str) -> None:
        with self._lock:
            found = self._sessions.pop(session, None)
        if found is None:
            raise errors.AbortedError(None, None, _lost(session))
        self._end(found)

    def _end(self, session: MasterSession) -> None:
        session.close()
        if session.cluster is not self.cluster:
            session.cluster.close()

    def list_devices(
        self, session: str = "", cancellation: CancellationManager | None = None
    ) -> tuple[list[Any], list[Any]]:
        if not session:
            with self._waiting(cancellation) as waiting:
                devices = find_devices(self.cluster, (), waiting)
            return list(devices.own), list(devices.others)
        found = self._sessions.get(session)
        if found is None:
            raise errors.InvalidArgumentError(None, None, _lost(session))
        if found.cluster is not self.cluster:  # the client device is the only one that is local
            return [found.devices.client], list(found.devices.all[1:])
        return list(found.devices.all), []

    def reset(self, containers: Sequence[str], device_filters: Sequence[str]) -> None:
        with self._lock:
            sessions = list(self._sessions.values())
            self._sessions.clear()

        def clears(task: str) -> Callable[[], None]:
            worker = self.cluster.worker(task, SHORT_TIMEOUT_S)
            return lambda: worker.cleanup_all(containers)

        # first: a step that waits for a queue is cancelled, not told that its queue has closed
        for session in sessions:
            session.cancellation.cancel()
        tasks = self.cluster.tasks(device_filters)
        here = self.cluster.task if self.cluster.is_local(self.cluster.task) else ""
        for task, outcome in call_all({task: clears(task) for task in tasks}, here).items():
            if outcome.error is not None:
                log.warning("CleanupAll of %s: %s", task, outcome.error)
        for session in sessions:
            self._end(session)

    def close(self) -> None:
        """Close all sessions and the connections to other tasks."""
        self._ending.cancel()
        with self._lock:
            sessions = list(self._sessions.values())
            self._sessions.clear()
        for session in sessions:
            self._end(session)
        self._cleaner.close()
        self.cluster.close()

    def _collect(self, idle_s: float) -> None:
        """Close idle sessions now and then, until the master is closed."""
        over = GivenUp(self._ending)
        while not over.wait(min(_GC_PERIOD_S, idle_s / 2)):
            latest_s = time.monotonic() - idle_s
            with self._lock:
                idle = [
                    session
                    for session in self._sessions.values()
                    if session.last_used_s < latest_s and session.is_idle
                ]
                for session in idle:
                    del self._sessions[session.handle]
            for session in idle:
                log.warning("GC session %s after %g seconds", session.handle, idle_s)
                self._end(session)

    # steps

    def run_step(self, call: StepCall) -> tuple[list[Any], Any]:
        if call.request_id:
            self._requests.check(call.request_id, "RunStep (Master)")
        session = self._find(call.session)
        feeds = dict(call.feeds)
        if len(feeds) != len(call.feeds):
            signature_of([name for name, _ in call.feeds], (), ())
        if call.partial_run:
            steps = session.partial_steps
            return (
                steps.run(call.partial_run, feeds, call.fetches, call.options, call.cancellation),
                None,
            )
        signature = session.signature(tuple(feeds), tuple(call.fetches), tuple(call.targets))
        return session.run_step(signature, feeds, call.fetches, call.options, call.cancellation)

    def partial_run_setup(
        self,
        session: str,
        feeds: Sequence[str],
        fetches: Sequence[str],
        targets: Sequence[str],
        request_id: int = 0,
    ) -> str:
        self._requests.check(request_id, "PartialRunSetup (Master)")
        return self._find(session).partial_steps.set_up(feeds, fetches, targets)

    def make_callable(self, session: str, options: Any, request_id: int = 0) -> int:
        self._requests.check(request_id, "MakeCallable (Master)")
        return self._find(session).make_callable(options)

    def run_callable(
        self,
        session: str,
        callable_handle: int,
        values: Sequence[Any],
        request_id: int = 0,
        cancellation: CancellationManager | None = None,
    ) -> tuple[list[Any], Any]:
        self._requests.check(request_id, "RunCallable (Master)")
        return self._find(session).run_callable(callable_handle, values, cancellation)

    def release_callable(self, session: str, callable_handle: int) -> None:
        self._find(session).release_callable(callable_handle)


def _lost(session: str) -> str:
    return f"Session {session} is not found. Possibly, this master has restarted."


def _short(message: Any) -> str:
    from google.protobuf import text_format

    return text_format.MessageToString(message, as_one_line=True)


__all__ = ["Master"]
