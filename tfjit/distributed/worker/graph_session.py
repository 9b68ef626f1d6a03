"""The plans of one registered graph."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from tfjit.distributed.shared_memory.recycler import SharedRecycler
from tfjit.framework import errors
from tfjit.runtime.collectives.collective_manager import CollectiveManager
from tfjit.runtime.factory import SessionOptions
from tfjit.runtime.host.device import DeviceManager
from tfjit.runtime.kernel_api.op_kernel import StepContext
from tfjit.runtime.lowering.lowered import Lowered
from tfjit.runtime.lowering.lowering import NotStatic
from tfjit.runtime.plan.plan import Plan
from tfjit.runtime.resources.variables_and_resources import SessionState
from tfjit.runtime.session.direct_session import DirectSession
from tfjit.runtime.session.running_step import RunningStep
from tfjit.runtime.session.session_collectives import SessionCollectives
from tfjit.runtime.step.memory_planner import OutputRecycler

_CURRENT = threading.local()
_PLACE: Final = b"loc:@"


@contextmanager
def part_of(step: StepContext) -> Iterator[None]:
    """Make this thread's runs in the block parts of a step."""
    before = getattr(_CURRENT, "step", None)
    _CURRENT.step = step
    try:
        yield
    finally:
        _CURRENT.step = before


class GraphSession(DirectSession):
    """A session over one graph, with shared devices and state.

    devices: the worker's. state: that of the worker's session. collectives: the worker's, None to
    make some. collective_leader: the task that knows their groups, "" for this one.
    """

    internal_names = True
    collectives_by_step = False  # TensorFlow's tasks do not say the step

    def __init__(
        self,
        graph_def: Any,
        config: Any,
        devices: DeviceManager,
        state: SessionState,
        collectives: CollectiveManager | None = None,
        collective_leader: str = "",
    ) -> None:
        self._shared = devices, state
        self._shared_collectives = collectives
        self.collective_leader = collective_leader
        super().__init__(SessionOptions(config=config))
        self.create(_without_strangers(graph_def))
        assert self.graph is not None
        with self.graph_lock:
            for reason in self.graph.unplaced.values():
                raise errors.InvalidArgumentError(None, None, reason)

    def _make_devices(self, config: Any) -> DeviceManager:
        return self._shared[0]

    def _make_state(self, options: SessionOptions) -> SessionState:
        return self._shared[1]

    def _make_recycler(self) -> OutputRecycler:
        return SharedRecycler()

    def _free_state(self) -> None:
        """Keep the state: other graphs have it too."""

    def _make_collectives(self) -> SessionCollectives:
        return SessionCollectives(self.devices, self._shared_collectives)

    def step_context(self) -> RunningStep:
        return RunningStep(self, getattr(_CURRENT, "step", None))


def _without_strangers(graph_def: Any) -> Any:
    """Return a partition whose nodes are colocated with nodes of it alone.

    The master has placed them beside nodes that are in other partitions now.
    """
    names = {node.name.encode() for node in graph_def.node}

    def strange(place: bytes) -> bool:
        return place.startswith(_PLACE) and place.removeprefix(_PLACE) not in names

    found = [
        index
        for index, node in enumerate(graph_def.node)
        if "_class" in node.attr and any(map(strange, node.attr["_class"].list.s))
    ]
    if not found:
        return graph_def
    made = type(graph_def)()
    made.CopyFrom(graph_def)
    for index in found:
        places = made.node[index].attr["_class"].list
        kept = [place for place in places.s if not strange(place)]
        del places.s[:]
        places.s.extend(kept)
        if not kept:
            del made.node[index].attr["_class"]
    return made


class WholePlan(Plan):
    """Serve a graph with sends and receives, node by node.

    They meet the step's rendezvous, so a run needs its context.
    """

    may_be_stored = False
    may_be_generic = False

    def lower(self, partition: Any, feed_shapes: Any) -> Lowered:
        raise NotStatic("it exchanges tensors with other tasks while it runs")

    def may_be_split(self) -> bool:
        """Return False: only the run as a whole has a rendezvous."""
        return False

    def run_in(self, context: StepContext) -> None:
        """Run one step of the graph."""
        self.variant(()).run((), context, self.session.pool())


def graph_config(config: Any, session_config: Any, graph_options: Any) -> Any:
    """Return the ConfigProto of a registered graph, or None.

    config: the worker's, which decides on threads and memory. session_config, graph_options: of the
    master's session, or None; they decide on passes.
    """
    from tfjit.protos import ConfigProto

    if graph_options is None and session_config is not None:
        graph_options = session_config.graph_options
    if config is None and (graph_options is None or not graph_options.ByteSize()):
        return None
    made = ConfigProto()
    if config is not None:
        made.CopyFrom(config)
        for name in (
            *("session_inter_op_thread_pool", "use_per_session_threads", "placement_period"),
            *("device_filters", "cluster_def", "isolate_session_state"),
            *("operation_timeout_in_ms", "graph_options"),
        ):
            made.ClearField(name)
    if graph_options is not None:
        made.graph_options.CopyFrom(graph_options)
        # the master asks for measurements step by step
        options = made.graph_options
        options.ClearField("build_cost_model")
        options.ClearField("build_cost_model_after")
        options.ClearField("timeline_step")
        options.ClearField("place_pruned_graph")
    return made


__all__ = ["GraphSession", "WholePlan", "graph_config", "part_of"]
