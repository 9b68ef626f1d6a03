"""A session of a master: its graph and steps over a cluster."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tfjit.distributed.channels.remote_worker import request_id
from tfjit.distributed.master.client_graph import (
    ClientGraph,
    Part,
    Signature,
    build_partitions,
    fetched_values,
    register,
    signature_of,
)
from tfjit.distributed.master.cluster import Cluster
from tfjit.distributed.master.cluster_devices import ClusterDevices, pass_options
from tfjit.distributed.master.graph_cache import GraphCache
from tfjit.distributed.master.running_step import RunningStep, error_from, new_step_id, run_parts
from tfjit.distributed.master.step_cleaner import StepCleaner
from tfjit.distributed.master.step_metadata import executor_options, merged
from tfjit.distributed.master.worker_sessions import (
    create_worker_sessions,
    delete_worker_sessions,
)
from tfjit.distributed.protocol.interfaces import GraphCall, GraphResult
from tfjit.distributed.worker.step_sequences import StepSequences
from tfjit.framework import errors
from tfjit.framework.gc_pause import collection_paused
from tfjit.runtime.host.cancellation import CancellationManager
from tfjit.runtime.session import rewriter_config
from tfjit.runtime.session.partial_run_names import PartialRunNames
from tfjit.runtime.session.run_options import check_run_options

if TYPE_CHECKING:
    from tfjit.distributed.master.partial_steps import PartialSteps
    from tfjit.passes.ir.dataflow_graph import DataflowGraph

log: Final = logging.getLogger("tfjit.distributed")

MAX_GRAPHS: Final = 256
_MAX_ORDERS: Final = 4 * MAX_GRAPHS  # of the names of a signature
_PATIENCE_S: Final = 60.0


@dataclass(slots=True)
class _Callable:
    """A signature that runs by a handle.

    feeds, fetches: in the order of its options.
    """

    signature: Signature
    feeds: tuple[str, ...]
    fetches: tuple[str, ...]
    options: Any


class MasterSession:
    """A session over the devices of a cluster.

    Thread-safe: steps run at the same time. An extension waits for steps that copy their part of
    the graph, and for no step that runs.
    """

    def __init__(
        self,
        handle: str,
        cluster: Cluster,
        devices: ClusterDevices,
        config: Any,
        cleaner: StepCleaner,
        max_graphs: int = MAX_GRAPHS,
        sequences: StepSequences | None = None,
    ) -> None:
        from tfjit.passes.ir.dataflow_graph import DataflowGraph

        if config is not None:
            if config.use_per_session_threads or config.session_inter_op_thread_pool:
                raise errors.InvalidArgumentError(
                    None, None, "Distributed session does not support session thread pool options."
                )
            rewriter_config.check_names(config.graph_options.rewrite_options)
            if config.graph_options.place_pruned_graph:
                log.warning("Distributed session does not support the place_pruned_graph option.")
        self.handle = handle
        self.cluster = cluster
        self.devices = devices
        self.config = config
        self.closed = False
        self.last_used_s = time.monotonic()
        self.cancellation = CancellationManager()
        self.graphs = GraphCache(max_graphs)
        self._cost_period = config.graph_options.build_cost_model if config is not None else 0
        limit_ms = config.operation_timeout_in_ms if config is not None else 0
        self._timeout_s = max(0.0, limit_ms / 1000)
        self._tasks: Sequence[str] = ()
        self._cleaner = cleaner
        self._sequences = sequences
        self._graph: DataflowGraph | None = DataflowGraph()
        self._version = 0
        self._graph_lock = threading.RLock()
        self._options = replace(pass_options(config, devices), partition_counter=itertools.count())
        # a step adds itself before it looks at `closed`, which is set before `close` looks here
        self._running: set[RunningStep] = set()
        self._idle = threading.Condition()
        self._signatures: dict[tuple[tuple[str, ...], ...], Signature] = {}
        self._callables: dict[int, _Callable] = {}
        self._callable_ids = itertools.count()
        self._partial_steps: PartialSteps | None = None

    # life

    def create(
        self,
        graph_def: Any,
        tasks: Sequence[str],
        cancellation: CancellationManager | None = None,
    ) -> int:
        """Take the first graph and open sessions on the workers.

        Returns the graph's version.
        """
        if graph_def is not None and (graph_def.node or graph_def.library.function):
            self._add(graph_def)
        create_worker_sessions(
            self.cluster, tasks, self.handle, self.config, self.devices, cancellation
        )
        self._tasks = tasks
        return self._version

    def extend(self, graph_def: Any, version: int) -> int:
        """Add nodes to the graph of that version; return its new version."""
        self.last_used_s = time.monotonic()
        self.check_open()
        with self._graph_lock:
            if version != self._version:
                raise errors.AbortedError(
                    None,
                    None,
                    f"Current version is {self._version} but caller expected {version}.",
                )
            self._add(graph_def)
            self._version += 1
            return self._version

    def _add(self, graph_def: Any) -> None:
        from tfjit.passes.partitioning.place import place_graph

        with collection_paused(), self._graph_lock:
            graph = self.open_graph()
            graph.extend(graph_def)
            place_graph(graph, self._options)

    def open_graph(self) -> DataflowGraph:
        """Return the session's graph. Raises FailedPreconditionError for a closed session."""
        if self._graph is None:
            self.check_open()
        assert self._graph is not None
        return self._graph

    def check_open(self) -> None:
        """Raise FailedPreconditionError if the session is closed."""
        if self.closed:
            raise errors.FailedPreconditionError(None, None, "Session is closed.")

    @property
    def is_idle(self) -> bool:
        """Return whether no step runs."""
        return not self._running

    def close(self) -> None:
        """Cancel and await all steps; close the workers' sessions."""
        with self._idle:
            if self.closed:
                return
            self.closed = True
        self.cancellation.cancel()
        with self._idle:
            if not self._idle.wait_for(lambda: not self._running, _PATIENCE_S):
                log.warning("a step of a closed session did not end within %d s", _PATIENCE_S)
        if self._partial_steps is not None:
            self._partial_steps.close()
            self._partial_steps = None
        self.graphs.clear()
        self._callables.clear()
        delete_worker_sessions(self.cluster, self._tasks, self.handle)
        with self._graph_lock:
            graph, self._graph = self._graph, None
        if graph is not None and not self._running:
            graph.dissolve()

    # steps

    def begin(
        self, step_id: int, client: CancellationManager | None, timeout_s: float
    ) -> RunningStep:
        """Begin a step, or a call of one in parts.

        `end` has to follow.
        """
        self.last_used_s = time.monotonic()
        step = RunningStep(step_id, self.cancellation, client, timeout_s)
        self._running.add(step)
        if self.closed:
            self.end(step)
            self.check_open()
        return step

    def end(self, step: RunningStep) -> None:
        """End what `begin` began."""
        step.end()
        self._running.discard(step)
        if self.closed:
            with self._idle:
                self._idle.notify_all()

    def hold_graph(self, signature: Signature, step: RunningStep) -> ClientGraph:
        """Return the client graph of a signature, held for a step."""
        step.check()
        known = self.graphs.find(signature)
        if known is not None:
            return known

        def build() -> ClientGraph:
            partitions = build_partitions(
                self.open_graph(), signature, self._options, self._graph_lock
            )
            step.check()
            workers = {
                task: (self.cluster.worker(task), self.cluster.is_local(task))
                for task in partitions
            }
            try:
                return register(
                    self.handle,
                    partitions,
                    workers,
                    self.config,
                    step.cancellation,
                    signature.collective_key,
                )
            finally:
                for graph in partitions.values():
                    graph.dissolve()

        try:
            found = self.graphs.hold(signature, build, step.cancellation)
        except errors.CancelledError:
            step.check()  # the reason, a deadline for example
            raise
        if found is None:
            step.check()
        assert found is not None
        return found

    def timeout_s(self, options: Any) -> float:
        """Return the limit of a step with these RunOptions, 0 for none."""
        if options is not None and options.timeout_in_ms > 0:
            return float(options.timeout_in_ms / 1000)
        return self._timeout_s

    def signature(
        self, feeds: tuple[str, ...], fetches: tuple[str, ...], targets: tuple[str, ...]
    ) -> Signature:
        """Return the signature of names in a client's order."""
        key = feeds, fetches, targets
        found = self._signatures.get(key)
        if found is None:
            found = signature_of(feeds, fetches, targets)
            if len(self._signatures) >= _MAX_ORDERS:
                self._signatures.clear()
            self._signatures[key] = found
        return found

    def run_step(
        self,
        signature: Signature,
        feeds: Mapping[str, Any],
        fetches: Sequence[str],
        options: Any,
        client: CancellationManager | None,
    ) -> tuple[list[Any], Any]:
        """Run a whole step; return (values of the fetches, RunMetadata or None)."""
        if options is not None:
            check_run_options(self.config, options)
            key = options.experimental.collective_graph_key
            if key:
                signature = replace(signature, collective_key=key)
        step = self.begin(new_step_id(), client, self.timeout_s(options))
        try:
            graph = self.hold_graph(signature, step)
            keeps_id = bool(graph.collective_key)  # a failed one does
            try:
                wanted = options
                if options is not None or self._cost_period > 0:
                    costs = self._cost_period > 0 and graph.measures(self._cost_period)
                    wanted = executor_options(options, costs)
                self._take_collective_id(graph, step)
                results = self._run(graph, step, feeds, wanted)
                if graph.collective_key and self._sequences is not None:
                    self._sequences.retire(graph.collective_key, step.id)
                    keeps_id = False
            finally:
                graph.release()
                self._cleaner.clean(graph, step.id, keeps_id)
        finally:
            self.end(step)
        values = fetched_values(graph, results, fetches)
        return values, merged(results) if wanted is not None or options is not None else None

    def _take_collective_id(self, graph: ClientGraph, step: RunningStep) -> None:
        """Give a step with collectives the id of other masters' steps."""
        if not graph.collective_key or self._sequences is None:
            return
        leader = ""
        if self.config is not None:  # merged with the server's
            leader = self.config.experimental.collective_group_leader
        if leader == self.cluster.task:
            leader = ""
        step.id = self._sequences.next(graph.collective_key, leader)

    def _run(
        self, graph: ClientGraph, step: RunningStep, feeds: Mapping[str, Any], options: Any
    ) -> list[GraphResult]:
        only = graph.only
        if only is None:
            if not graph.parts:  # no node is left to run, as of a target that is fed
                return []
            return run_parts(
                step, [(part, self.call(part, step, feeds, options)) for part in graph.parts]
            )
        call = self.call(only, step, feeds, options)
        call.cancellation = step.cancellation
        try:
            return [only.worker.run_graph(call)]
        except Exception as error:
            step.fail(error_from(only.task, error))
        step.check()
        return []

    def call(
        self, part: Part, step: RunningStep, feeds: Mapping[str, Any], options: Any
    ) -> GraphCall:
        """Return the call of a part, with all its fetches."""
        return GraphCall(
            self.handle,
            part.graph,
            step.id,
            {key: feeds[name] for name, key in part.feeds.items() if name in feeds},
            tuple(part.fetches.values()),
            options,
            request_id=0 if part.is_local else request_id(),
        )

    # callables

    def make_callable(self, options: Any) -> int:
        """Prepare the step of CallableOptions; return its handle."""
        if options.feed_devices or options.fetch_devices:
            raise errors.UnimplementedError(
                None,
                None,
                "CallableOptions::feed_devices and CallableOptions::fetch_devices to configure "
                "feeding/fetching tensors to/from device memory is not yet supported when using a "
                "remote session.",
            )
        run_options = options.run_options if options.HasField("run_options") else None
        check_run_options(self.config, run_options)
        feeds, fetches = tuple(options.feed), tuple(options.fetch)
        connections = tuple((c.from_tensor, c.to_tensor) for c in options.tensor_connection)
        if connections:
            from tfjit.passes.legalize.tensor_connections import check_connections

            with self._graph_lock:
                check_connections(self.open_graph(), connections, feeds, fetches)
        signature = signature_of(feeds, fetches, options.target, connections)
        step = self.begin(new_step_id(), None, self.timeout_s(run_options))
        try:
            self.hold_graph(signature, step).release()
        finally:
            self.end(step)
        handle = next(self._callable_ids)
        self._callables[handle] = _Callable(signature, feeds, fetches, run_options)
        return handle

    def run_callable(
        self, handle: int, values: Sequence[Any], client: CancellationManager | None
    ) -> tuple[list[Any], Any]:
        """Run a callable; return (values of its fetches, RunMetadata or None)."""
        found = self._find_callable(handle)
        if len(values) != len(found.feeds):
            raise errors.InvalidArgumentError(
                None, None, f"Expected {len(found.feeds)} feed tensors, but got {len(values)}"
            )
        feeds = dict(zip(found.feeds, values, strict=True))
        return self.run_step(found.signature, feeds, found.fetches, found.options, client)

    def release_callable(self, handle: int) -> None:
        """Forget a callable."""
        self._find_callable(handle)
        self._callables.pop(handle, None)

    def _find_callable(self, handle: int) -> _Callable:
        self.check_open()
        found = self._callables.get(handle)
        if found is None:
            raise errors.InvalidArgumentError(None, None, f"No such callable handle: {handle}")
        return found

    # steps in parts

    @property
    def partial_steps(self) -> PartialSteps:
        """Return the steps that are fed and fetched in parts."""
        if self._partial_steps is None:
            from tfjit.distributed.master.partial_steps import PartialSteps

            with self._graph_lock:
                if self._partial_steps is None:
                    self._partial_steps = PartialSteps(self)
        return self._partial_steps

    def partial_names(self, signature: Signature) -> PartialRunNames:
        """Return the names of a step in parts, none of them used."""
        with self._graph_lock:
            return PartialRunNames(self.open_graph(), signature.feeds, signature.fetches)

    def clean(self, graph: ClientGraph, step_id: int) -> None:
        """Have the workers drop a step's values, without waiting for them."""
        self._cleaner.clean(graph, step_id)


__all__ = ["MasterSession"]
