"""Define the interfaces of masters and workers to their callers.

A caller does not know whether a master or worker is in its process or behind a channel. Values are
arrays (strings: object arrays of bytes), messages are tfjit's. Methods raise the errors of the
protocol as exceptions of `tfjit.framework.errors`: a task that cannot be reached gives
UnavailableError.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfjit.framework import errors
from tfjit.runtime.collectives.buffer_table import Taken
from tfjit.runtime.host.cancellation import CancellableWait, CancellationManager
from tfjit.runtime.host.rendezvous import Received

Cancel = Callable[[], None]
"""Gives up a call; its `done` still runs, with an error."""


@dataclass(slots=True)
class StepCall:
    """A client's request for a step, or a part of one.

    feeds: (tensor name, value). options: RunOptions or None. partial_run: the handle of a step that
    is fed and fetched in parts, or "". request_id: 0, or unique among the calls of all clients.
    cancellation: cancels the step.
    """

    session: str
    feeds: Sequence[tuple[str, Any]]
    fetches: Sequence[str]
    targets: Sequence[str]
    options: Any = None
    partial_run: str = ""
    request_id: int = 0
    cancellation: CancellationManager | None = None


class MasterInterface(ABC):
    """Sessions over the devices of a cluster."""

    @abstractmethod
    def create_session(
        self,
        graph_def: Any,
        config: Any,
        target: str = "",
        cancellation: CancellationManager | None = None,
    ) -> tuple[str, int]:
        """Return (handle, graph version) of a new session.

        config: ConfigProto or None. cancellation: gives up waiting for tasks that are not up yet.
        """

    @abstractmethod
    def extend_session(self, session: str, graph_def: Any, version: int) -> int:
        """Add nodes to a graph of that version; return its new version.

        Raises AbortedError for another version.
        """

    @abstractmethod
    def run_step(self, call: StepCall) -> tuple[list[Any], Any]:
        """Run a step; return (values of the fetches, RunMetadata or None)."""

    @abstractmethod
    def partial_run_setup(
        self,
        session: str,
        feeds: Sequence[str],
        fetches: Sequence[str],
        targets: Sequence[str],
        request_id: int = 0,
    ) -> str:
        """Return the handle of a step in parts."""

    @abstractmethod
    def close_session(self, session: str) -> None:
        """End a session. Raises AbortedError for an unknown handle."""

    @abstractmethod
    def list_devices(
        self, session: str = "", cancellation: CancellationManager | None = None
    ) -> tuple[list[Any], list[Any]]:
        """Return DeviceAttributes (of the master's task, of all others).

        session: a handle, or "" for the devices of the whole cluster. cancellation: gives up
        waiting for tasks that are not up yet.
        """

    @abstractmethod
    def reset(self, containers: Sequence[str], device_filters: Sequence[str]) -> None:
        """Close all sessions and clear containers of all tasks."""

    @abstractmethod
    def make_callable(self, session: str, options: Any, request_id: int = 0) -> int:
        """Return the handle of a callable. options: CallableOptions."""

    @abstractmethod
    def run_callable(
        self,
        session: str,
        callable_handle: int,
        values: Sequence[Any],
        request_id: int = 0,
        cancellation: CancellationManager | None = None,
    ) -> tuple[list[Any], Any]:
        """Run a callable; return (values of its fetches, RunMetadata or None)."""

    @abstractmethod
    def release_callable(self, session: str, callable_handle: int) -> None:
        """Forget a callable."""

    def close(self) -> None:  # noqa: B027  # a task may have nothing to end
        """End the sessions; a server that stops calls it."""


@dataclass(slots=True)
class GraphCall:
    """A master's request to run a registered graph.

    feeds: the client's, by rendezvous key. fetches: keys of the client's fetches. options:
    ExecutorOpts or None. is_partial: feeds and fetches are a part of the step's;
    is_last_partial_run: the step ends with this call. deadline_s: seconds until the call is given
    up, or None. cancellation: cancels a call of `run_graph`.
    """

    session: str
    graph: str
    step_id: int
    feeds: Mapping[str, Any] = field(default_factory=dict)
    fetches: Sequence[str] = ()
    options: Any = None
    is_partial: bool = False
    is_last_partial_run: bool = False
    request_id: int = 0
    deadline_s: float | None = None
    cancellation: CancellationManager | None = None


@dataclass(slots=True)
class GraphResult:
    """The answer to a GraphCall.

    fetches: by rendezvous key. step_stats, cost_graph: messages, or None. partition_graphs:
    GraphDefs.
    """

    fetches: Mapping[str, Any]
    step_stats: Any = None
    cost_graph: Any = None
    partition_graphs: Sequence[Any] = ()


GraphDone = Callable[[BaseException | None, GraphResult | None], None]


@dataclass(slots=True)
class WorkerSessionCall:
    """A session that a master opens on a worker.

    server_def: ServerDef or None. isolated: variables, queues and tables are not shared with other
    sessions. devices: DeviceAttributes of the cluster. master_task, master_incarnation: sessions of
    an earlier incarnation of that master are dropped.
    """

    session: str
    server_def: Any = None
    isolated: bool = False
    devices: Sequence[Any] = ()
    master_task: str = ""
    master_incarnation: int = 0


MessageDone = Callable[[BaseException | None, Any], None]
"""Takes (error, None) or (None, the answer's message)."""

ReceivedSome = Callable[[BaseException | None, Sequence[tuple[int, Any, bool]]], None]
"""Takes (error, ()), once and last, or (None, [(position, value, is dead)])."""


class WorkerInterface(ABC):
    """Run the partitions of one task and exchange their tensors.

    A call that may wait takes a `done`, which runs once, on any thread.
    """

    @abstractmethod
    def get_status(self) -> list[Any]:
        """Return the DeviceAttributes of the task."""

    @abstractmethod
    def create_worker_session(self, call: WorkerSessionCall) -> None:
        """Open a session."""

    @abstractmethod
    def delete_worker_session(self, session: str) -> None:
        """Close a session; an unknown one is ignored."""

    @abstractmethod
    def register_graph(
        self,
        session: str,
        graph_def: Any,
        config: Any = None,
        graph_options: Any = None,
        collective_graph_key: int = 0,
    ) -> str:
        """Return the handle of a partition that is run often.

        collective_graph_key: of a graph with collectives, 0 for others.
        """

    @abstractmethod
    def deregister_graph(self, session: str, graph: str) -> None:
        """Forget a partition. Raises AbortedError for an unknown handle."""

    @abstractmethod
    def start_graph(self, call: GraphCall, done: GraphDone) -> Cancel:
        """Run a registered graph in a step; never waits."""

    def run_graph(self, call: GraphCall) -> GraphResult:
        """Run a registered graph in a step on this thread.

        The call's `cancellation` cancels the run.
        """
        over = threading.Event()
        outcome: list[Any] = []

        def done(error: BaseException | None, result: GraphResult | None) -> None:
            outcome[:] = [error, result]
            over.set()

        cancel = self.start_graph(call, done)
        with CancellableWait(call.cancellation, cancel):
            over.wait()
        error, result = outcome
        if error is not None:
            raise error
        return result

    @abstractmethod
    def cleanup_graph(self, step_id: int) -> None:
        """Drop the values of a step that is over; never waits."""

    def cleanup_graphs(self, step_ids: Sequence[int]) -> None:
        """Drop the values of several steps."""
        for step_id in step_ids:
            self.cleanup_graph(step_id)

    @abstractmethod
    def cleanup_all(self, containers: Sequence[str]) -> None:
        """Clear containers; without names, the default container."""

    @abstractmethod
    def receive_tensor(self, step_id: int, key: str, done: Received, request_id: int = 0) -> Cancel:
        """Ask for a tensor of a step; never waits."""

    def sends_batches(self, key: str) -> bool:
        """Return whether a tensor is better asked for with others."""
        return False

    def receive_tensors(
        self, step_id: int, keys: Sequence[str], done: ReceivedSome, request_id: int = 0
    ) -> Cancel:
        """Ask for several tensors of a step; never waits.

        `done` gets each tensor once, with those that are there at the same time. No tensor waits
        for another. The first error ends the call.
        """
        raise errors.UnimplementedError(None, None, "RecvTensors: the worker sends single tensors.")

    def logging(self, request: Any) -> Any:
        """Keep or return the record of steps: LoggingRequest to LoggingResponse.

        Raises UnimplementedError, unless the worker keeps one.
        """
        raise errors.UnimplementedError(None, None, "Logging: the worker keeps no record of steps.")

    def tracing(self, request: Any) -> Any:
        """Start profilers: TracingRequest to TracingResponse.

        Raises UnimplementedError, unless the worker has them.
        """
        raise errors.UnimplementedError(
            None, None, "Tracing: the worker has no profilers to start."
        )

    def receive_buffer(self, request: Any, done: Taken) -> Cancel:
        """Ask for a buffer of a collective: RecvBufRequest; never waits."""
        raise errors.UnimplementedError(None, None, "RecvBuf: the worker has no collectives.")

    def complete_group(self, request: Any, done: MessageDone) -> Cancel:
        """Add a device to a group that the task leads.

        It never waits: `done` gets the CompleteGroupResponse to a CompleteGroupRequest.
        """
        raise errors.UnimplementedError(None, None, "CompleteGroup: the worker leads no groups.")

    def complete_instance(self, request: Any, done: MessageDone) -> Cancel:
        """Describe a member's part to the leader of its group; never waits.

        `done` gets the CompleteInstanceResponse to a CompleteInstanceRequest.
        """
        raise errors.UnimplementedError(None, None, "CompleteInstance: the worker leads no groups.")

    def get_step_sequence(self, request: Any) -> Any:
        """Return the ids of steps with collectives: GetStepSequenceRequest to its response."""
        raise errors.UnimplementedError(None, None, "GetStepSequence: the worker leads no groups.")

    def close(self) -> None:  # noqa: B027  # a task may have nothing to end
        """End all steps; a server that stops calls it."""
