"""A master's session on a worker."""

from __future__ import annotations

import itertools
import threading
from typing import Any

from tfjit.distributed.worker.peers import Peers
from tfjit.distributed.worker.registered_graph import RegisteredGraph
from tfjit.distributed.worker.worker_collectives import WorkerCollectives
from tfjit.framework import errors
from tfjit.runtime.host.cancellation import CancellationManager
from tfjit.runtime.host.device import DeviceManager
from tfjit.runtime.resources.variables_and_resources import SessionState

MAX_GRAPHS = 10_000
"""Registered graphs of one session, at most."""


class WorkerSession:
    """The registered graphs of one master's session, and their state.

    state: its random streams; variables, queues and tables are those of the worker unless
    it is isolated. master: (task, incarnation), or ("", 0). collectives: the worker's.
    Thread-safe.
    """

    def __init__(
        self,
        handle: str,
        state: SessionState,
        devices: DeviceManager,
        peers: Peers,
        cancellation: CancellationManager,
        isolated: bool = False,
        master: tuple[str, int] = ("", 0),
        collectives: WorkerCollectives | None = None,
    ) -> None:
        self.handle, self.state, self.peers, self.master = handle, state, peers, master
        self.isolated = isolated
        self._devices, self._collectives = devices, collectives
        self.cancellation = CancellationManager(cancellation)
        self._numbers = itertools.count(1)
        self._graphs: dict[str, RegisteredGraph] = {}
        self._lock = threading.Lock()

    def register(self, graph_def: Any, config: Any, collective_leader: str = "") -> str:
        """Return the handle of a new graph.

        collective_leader: the task that knows the groups of its collectives, "" for this one.
        Raises the errors of a faulty one.
        """
        if len(self._graphs) >= MAX_GRAPHS:
            raise errors.ResourceExhaustedError(
                None, None, f"Session {self.handle} has {MAX_GRAPHS} registered graphs."
            )
        handle = f"{next(self._numbers):016x}"
        made = RegisteredGraph(
            handle,
            graph_def,
            config,
            self._devices,
            self.state,
            self._collectives,
            collective_leader,
        )
        with self._lock:
            closed = self.cancellation.cancelled
            if not closed:
                self._graphs[handle] = made
        if closed:
            made.retire()
            raise errors.CancelledError(None, None, f"Session {self.handle} has been closed.")
        return handle

    def graph(self, handle: str) -> RegisteredGraph:
        """Return a graph, kept for a run.

        Raises AbortedError for an unknown handle.
        """
        with self._lock:
            found = self._graphs.get(handle)
            if found is not None:
                found.acquire()
                return found
        raise errors.AbortedError(None, None, f"Graph handle is not found: {handle}")

    def deregister(self, handle: str) -> None:
        """Forget a graph; its runs continue.

        Raises AbortedError for an unknown handle.
        """
        with self._lock:
            found = self._graphs.pop(handle, None)
        if found is None:
            raise errors.AbortedError(
                None,
                None,
                f"Graph handle is not found: {handle}. Possibly, this worker just restarted.",
            )
        found.retire()

    def forget_plans(self) -> None:
        """Plan later runs anew."""
        with self._lock:
            graphs = list(self._graphs.values())
        for graph in graphs:
            graph.forget_plans()

    def close(self) -> None:
        """Cancel all runs and forget the graphs."""
        self.cancellation.cancel()
        self.cancellation.release()
        with self._lock:
            graphs, self._graphs = list(self._graphs.values()), {}
        for graph in graphs:
            graph.retire()
        self.state.close()
