"""The partitions of one signature, registered on their workers."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tfjit.distributed.master.concurrent_calls import Outcome, call_all, first_error
from tfjit.distributed.protocol.interfaces import GraphResult, WorkerInterface
from tfjit.framework import errors
from tfjit.runtime.host.cancellation import CancellationManager
from tfjit.runtime.host.rendezvous import create_key
from tfjit.runtime.kernel_api.op_kernel import DEAD

if TYPE_CHECKING:
    from tfjit.passes.ir.dataflow_graph import DataflowGraph
    from tfjit.passes.manager.pass_context import PassOptions

log: Final = logging.getLogger("tfjit.distributed")


@dataclass(frozen=True, slots=True)
class Signature:
    """The signature and options of a client graph.

    feeds, fetches, targets: names, sorted. connections: of a callable. collective_key: of
    RunOptions, 0 for that of the graph.
    """

    feeds: tuple[str, ...]
    fetches: tuple[str, ...]
    targets: tuple[str, ...]
    connections: tuple[tuple[str, str], ...] = ()
    collective_key: int = 0


def signature_of(
    feeds: Iterable[str],
    fetches: Iterable[str],
    targets: Iterable[str],
    connections: tuple[tuple[str, str], ...] = (),
) -> Signature:
    """Return the signature of names in any order.

    Raises InvalidArgumentError for a name that is fed more than once.
    """
    names = sorted(feeds)
    for name, following in itertools.pairwise(names):
        if name == following:
            raise errors.InvalidArgumentError(None, None, f'Endpoint "{name}" fed more than once.')
    return Signature(
        tuple(names), tuple(sorted({*fetches})), tuple(sorted({*targets})), connections
    )


@dataclass(frozen=True, slots=True)
class Part:
    """A partition on its worker.

    graph: the worker's handle. feeds, fetches: rendezvous keys by tensor name. is_local: a call
    needs no connection.
    """

    task: str
    worker: WorkerInterface
    graph: str
    feeds: Mapping[str, str]
    fetches: Mapping[str, str]
    is_local: bool


class ClientGraph:
    """The registered partitions of a signature.

    parts: at most one of them runs on the thread of a step, and that one is last. only: the single
    part if it runs there. Steps hold the graph while they run; `retire` deregisters the partitions
    when none does. collective_key: of a graph with collectives, else 0.
    """

    def __init__(self, session: str, parts: Sequence[Part], collective_key: int = 0) -> None:
        self._session = session
        self.collective_key = collective_key
        self.parts = tuple(sorted(parts, key=lambda part: part.is_local))
        self.only = parts[0] if len(parts) == 1 and parts[0].is_local else None
        self.fetch_keys = {name: key for part in parts for name, key in part.fetches.items()}
        self._lock = threading.Lock()
        self._steps = 0
        self._retired = False
        self._counted = 0

    def measures(self, period: int) -> bool:
        """Count a step; return whether it is measured, as each `period`th."""
        self._counted += 1
        return self._counted % period == 0

    def hold(self) -> bool:
        """Count a step as running; False if the graph is retired."""
        with self._lock:
            if self._retired:
                return False
            self._steps += 1
            return True

    def release(self) -> None:
        """Count a step as over."""
        with self._lock:
            self._steps -= 1
            last = self._retired and self._steps == 0
        if last:
            self._deregister()

    def retire(self) -> None:
        """Refuse further steps; deregister the partitions when none runs."""
        with self._lock:
            if self._retired:
                return
            self._retired = True
            last = self._steps == 0
        if last:
            self._deregister()

    def _deregister(self) -> None:
        """Have the workers forget the partitions, without waiting for other processes."""
        deregister(self._session, self.parts)


def deregister(session: str, parts: Sequence[Part]) -> None:
    """Have workers forget partitions, without waiting for other processes."""

    def forget(part: Part) -> None:
        try:
            part.worker.deregister_graph(session, part.graph)
        except Exception as error:  # a worker that was restarted has forgotten it already
            log.debug("DeregisterGraph of %s: %s", part.task, error)

    for part in parts:
        if part.is_local:
            forget(part)
        else:
            name = f"tfjit-deregister-{part.task}"
            threading.Thread(target=forget, args=(part,), name=name, daemon=True).start()


def build_partitions(
    graph: DataflowGraph,
    signature: Signature,
    options: PassOptions,
    lock: AbstractContextManager[Any],
) -> dict[str, DataflowGraph]:
    """Run a master's passes for a signature; return partitions by task.

    graph: the session's whole graph. lock: held while the needed nodes are copied.
    """
    from tfjit.passes.ir.run_spec import RunSpec
    from tfjit.passes.partitioning.place import raise_unplaced
    from tfjit.passes.pipeline import build
    from tfjit.runtime.session.session_config import strict_placement

    spec = RunSpec(
        signature.feeds, signature.fetches, signature.targets, connections=signature.connections
    )
    connected = None
    with lock:
        if strict_placement():
            raise_unplaced(graph, graph)
        if spec.connections:
            from tfjit.passes.legalize.tensor_connections import connect

            connected = connect(graph, spec)
    try:
        partitions, _ = build(graph if connected is None else connected, spec, options, lock)
    finally:
        if connected is not None:
            connected.dissolve(functions=False)
    return {part.device: part.graph for part in partitions if part.graph.num_op_nodes}


def register(
    session: str,
    partitions: Mapping[str, DataflowGraph],
    workers: Mapping[str, tuple[WorkerInterface, bool]],
    config: Any,
    cancellation: CancellationManager | None,
    collective_key: int = 0,
) -> ClientGraph:
    """Register partitions on their workers at the same time.

    workers: (worker, whether it is local) by task. collective_key: of the run, 0 to take that of
    the graph's collectives. Raises the first error of a worker, after the
    others have forgotten their partitions.
    """
    from tfjit.passes.analysis.collective_nodes import collective_graph_key

    graph_options = config.graph_options if config is not None else None
    collective_key = collective_key or collective_graph_key(list(partitions.values()))

    def registers(task: str) -> Callable[[], str]:
        worker, _ = workers[task]
        graph_def = partitions[task].to_graph_def()
        return lambda: worker.register_graph(
            session, graph_def, config, graph_options, collective_key
        )

    ends = {task: _client_keys(graph) for task, graph in partitions.items()}
    here = next((task for task in partitions if workers[task][1]), "")
    outcomes: dict[str, Outcome[str]] = call_all(
        {task: registers(task) for task in partitions}, here, cancellation
    )
    parts = [
        Part(task, workers[task][0], outcome.value, *ends[task], workers[task][1])
        for task, outcome in outcomes.items()
        if outcome.value is not None
    ]
    error = first_error(outcomes)
    if error is not None:
        deregister(session, parts)
        raise error
    return ClientGraph(session, parts, collective_key)


def _client_keys(graph: DataflowGraph) -> tuple[dict[str, str], dict[str, str]]:
    """Return the keys of a partition's feeds and fetches by tensor name."""
    feeds: dict[str, str] = {}
    fetches: dict[str, str] = {}
    for node in graph.op_nodes():
        attrs = node.attrs
        if not attrs.get("client_terminated"):
            continue
        name = attrs["tensor_name"].decode()
        key = create_key(
            attrs["send_device"].decode(),
            attrs["send_device_incarnation"],
            attrs["recv_device"].decode(),
            name,
        )
        (feeds if "tensor_type" in attrs else fetches)[name] = key
    return feeds, fetches


def fetched_values(
    graph: ClientGraph, results: Sequence[GraphResult], fetches: Sequence[str]
) -> list[Any]:
    """Return the values of fetches from the answers of workers, in order."""
    if len(results) == 1:
        found = results[0].fetches
    else:
        found = {key: value for result in results for key, value in result.fetches.items()}
    values = []
    for name in fetches:
        try:
            value = found[graph.fetch_keys[name]]
        except KeyError:
            raise errors.InternalError(
                None, None, f"No worker has answered with the value of {name}."
            ) from None
        if value is DEAD:
            raise errors.InvalidArgumentError(
                None, None, f"The tensor returned for {name} was not valid."
            )
        values.append(value)
    return values


__all__ = [
    "ClientGraph",
    "Part",
    "Signature",
    "build_partitions",
    "fetched_values",
    "register",
    "signature_of",
]
