"""Define the context of a pass: specification, options, log and facts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tfjit.framework.types import device_spec
from tfjit.kernels.ir.backend import HOST, Backend, backend_for, device_types
from tfjit.passes.ir.region_path import region_path
from tfjit.passes.ir.run_spec import RunSpec

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType
    from tfjit.passes.history.events import Event
    from tfjit.passes.history.history import History
    from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
    from tfjit.passes.manager.event_budget import EventBudget
    from tfjit.passes.manager.pass_manager import PassManager, PipelineItem

DEFAULT_DEVICE: Final = "/job:localhost/replica:0/task:0/device:CPU:0"
DEFAULT_MAX_FOLDED_BYTES: Final = 10 << 20
LOOP_PROGRAM: Final = "loop program"
"""Part of the path of bodies copied for a loop's kernel."""


Pass = Callable[["DataflowGraph", "PassContext"], None]
# (op type, device type, dtypes of inputs and outputs) -> the device has a kernel for the op
HasKernel = Callable[[str, str, Sequence["DType"]], bool]


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """A device for placement.

    name: in full. incarnation: changes when its task restarts. priority: of two possible devices
    for a node, the one of higher priority is chosen. accelerates: parts of the client's partition
    are offloaded to the device.
    """

    name: str
    device_type: str
    incarnation: int = 1
    priority: int = 0
    accelerates: bool = False


@dataclass(frozen=True, slots=True)
class ClientRendezvous:
    """The rendezvous for feeds and fetches of partial and distributed runs.

    Feeds and fetches then go through a rendezvous with the client instead of `_Arg` and `_Retval`.
    device, incarnation: the client's device, which both ends of the keys name.
    """

    device: str = DEFAULT_DEVICE
    incarnation: int = 1


def no_kernel_query(op: str, device_type: str, dtypes: Sequence[DType]) -> bool:
    """Return whether the device is the host.

    This is the `HasKernel` of sessions that only have a CPU: every op has a kernel there and
    nowhere else.
    """
    return device_type == HOST


def registered_backend(device: str) -> Backend:
    """Return the registered backend for a device of that full name.

    A type that this process does not have gets the host's backend: its plans are only looked at
    here.
    """
    kind = device_spec.parse(device).device_type
    return backend_for(kind if kind is not None and kind in device_types() else HOST)


@dataclass(frozen=True, slots=True)
class PassOptions:
    """The options for the plans of one session.

    devices: the devices for placement; the first is the client device, on which feeds arrive and
    fetches leave.
    soft_placement: a device that cannot run the node is replaced by one that can.
    strict_placement: as in TensorFlow, one node that cannot be placed fails every run; else only
    runs that need the node fail.
    has_kernel: called while placing.
    backend_of: full name of a device -> its backend, for passes over partitions.
    kernel_creator: node -> the session's kernel for the node, or None; see
    passes/legalize/custom_kernels.py.
    location: node -> name of its partition; None means its device.
    client: set for partial and distributed runs.
    distributed_names: new nodes of a partition are `<src>_S<n>` as in distributed runs, not
    `<src>/_<n>`.
    partition_counter: the source of n: a session continues from plan to plan; None counts from 0 in
    each plan.
    max_folded_bytes: no constant larger than this is made by folding.
    strip_debug: remove assertions, prints and checks of numbers
    (passes/canonicalize/strip_debug.py).
    once: an optional pass runs once, not again where the list repeats the pass.
    min_nodes: a graph of fewer nodes gets no optional pass.
    time_limit_s: once the passes have run for that long, no further optional one runs; 0 sets no
    limit.
    custom_passes: (name, pass) of the user's own, after the standard graph passes; a pass that
    fails is undone and left out with a warning, unless fail_on_errors.
    optimize: False leaves out every optional pass (OptimizerOptions L0); the unfused mode leaves
    out `fuse` only, by `disabled`.
    disabled: names of optional passes to leave out, added to those of TFJIT_DISABLE.
    passes, partition_passes: the user's own lists in place of the standard ones.
    verify: check the graph after each pass; None means TFJIT_VERIFY.
    dump_dir: "" means TFJIT_DUMP.
    event_limit: the number of optional rewrites after which passes make no more, in each plan; a
    budget counts over all plans that share it; None means TFJIT_EVENT_LIMIT.
    history: a record of every pass and rewrite, filled while plans are built.
    """

    devices: tuple[DeviceInfo, ...] = (DeviceInfo(DEFAULT_DEVICE, HOST),)
    soft_placement: bool = False
    strict_placement: bool = False
    log_device_placement: bool = False
    has_kernel: HasKernel = no_kernel_query
    backend_of: Callable[[str], Backend] = registered_backend
    kernel_creator: Callable[[Node], Callable[..., Any] | None] | None = None
    location: Callable[[Node], str] | None = None
    client: ClientRendezvous | None = None
    distributed_names: bool = False
    partition_counter: Iterator[int] | None = None
    max_folded_bytes: int = DEFAULT_MAX_FOLDED_BYTES
    strip_debug: bool = False
    once: bool = False
    min_nodes: int = 0
    time_limit_s: float = 0.0
    custom_passes: tuple[tuple[str, Pass], ...] = ()
    fail_on_errors: bool = False
    optimize: bool = True
    disabled: frozenset[str] = frozenset()
    passes: tuple[PipelineItem | Pass | str, ...] | None = None
    partition_passes: tuple[PipelineItem | Pass | str, ...] | None = None
    verify: bool | None = None
    dump_dir: str = ""
    event_limit: int | EventBudget | None = None
    history: History | None = None

    @property
    def client_device(self) -> str:
        """Return the full name of the client device.

        Feeds arrive there and fetches leave from there.
        """
        return self.devices[0].name

    @property
    def accelerators(self) -> dict[str, Backend]:
        """Return the backends of accelerators by the devices' full names."""
        return {d.name: self.backend_of(d.name) for d in self.devices if d.accelerates}

    def partition_device(self, device: str) -> str:
        """Return the device of the partition that holds a device's nodes.

        For an accelerator, that is the client's.
        """
        accelerates = any(d.accelerates and d.name == device for d in self.devices)
        return self.client_device if accelerates else device


@dataclass(slots=True)
class PassContext:
    """The state of a pass besides the graph.

    messages: (pass, node, text) of every log entry; `current` is the pass that runs now.
    values: the static value of a tensor (node, output) that shape inference found; no Const's.
    handles: the shape of the variable behind a resource tensor.
    lists: facts of tensor lists (passes/analysis/list_shapes.py).
    where: the path of the region that the graph is (passes/ir/region_path.py), "" for the plan's
    own graph. purpose: the pass that made the copy of that region, "" for the plan's own graph.
    device: of the partition that the graph is or belongs to; "" before partitioning, and where
    partitions are no devices.
    inferred_bodies, bodies_in_progress: results and calls of shape inference inside functions.
    """

    spec: RunSpec = field(default_factory=RunSpec)
    options: PassOptions = field(default_factory=PassOptions)
    messages: list[tuple[str, str, str]] = field(default_factory=list)
    current: str = ""
    values: dict[tuple[str, int], Any] = field(default_factory=dict)
    handles: dict[tuple[str, int], Any] = field(default_factory=dict)
    lists: dict[tuple[str, int], Any] = field(default_factory=dict)
    where: str = ""
    purpose: str = ""
    device: str = ""
    inferred_bodies: dict[Any, Any] = field(default_factory=dict)
    bodies_in_progress: set[Any] = field(default_factory=set)
    _valid: dict[str, tuple[int, int] | None] = field(default_factory=dict)
    _manager: PassManager | None = None

    def log(self, name: str, reason: str) -> None:
        """Log a change to a node, or the reason against one.

        An example of a reason is "stays: it has 2 consumers".
        """
        self.messages.append((self.current, name, reason))

    # ---- events

    def may_rewrite(self, ahead: int = 0) -> bool:
        """Return whether the running pass may make a further rewrite.

        False for an optional pass once `PassOptions.event_limit` is reached. ahead: rewrites that
        are decided and not yet made.
        """
        manager = self._manager
        if manager is None or manager.budget is None:
            return True
        return not manager.counts(self) or manager.budget.allows(ahead)

    def begin_rewrite(self, name: str) -> Event | bool:
        """Count a rewrite of a node before other passes run for it.

        Their rewrites are counted after it. False where no further rewrite may be made. The result
        is passed to `rewrote`, unless the rewrite turns out not to apply.
        """
        if not self.may_rewrite():
            return False
        manager = self._manager
        if manager is None or not manager.records:
            return True
        return manager.record(self, name, "tried", "", None) or True

    def rewrote(
        self, name: str, reason: str, rule: str = "", begun: Event | bool | None = None
    ) -> None:
        """Log and count a change that the running pass has made.

        name: the changed node, "" for many. rule: the part of the pass. begun: of
        `begin_rewrite`.
        """
        self.messages.append((self.current, name, reason))
        manager = self._manager
        if manager is not None and manager.records:
            manager.record(self, name, reason, rule, begun)

    def watch(self, graph: DataflowGraph, is_scope: bool = False) -> None:
        """Record the changes of a copied body, where a history is recorded.

        The context is that of the body. is_scope: the body is rewritten together with the graph
        around it.
        """
        manager = self._manager
        if manager is not None and manager.history is not None:
            manager.history.watch(graph, self.where, self.purpose, is_scope=is_scope)

    # ---- running passes

    @property
    def manager(self) -> PassManager:
        """Return the manager that runs the passes of the plan."""
        if self._manager is None:
            from tfjit.passes.manager.pass_manager import PassManager

            self._manager = PassManager(self)
        return self._manager

    def child(self, node: str, part: str) -> PassContext:
        """Return the context of a part of a node."""
        return PassContext(
            options=self.options,
            where=region_path(self.where, node, part),
            purpose=self.current or self.purpose,
            device=self.device,
            _manager=self.manager,
        )

    @property
    def backend(self) -> Backend:
        """Return the backend of the partition's device."""
        return self.options.backend_of(self.device or self.options.client_device)

    def run(self, graph: DataflowGraph, *names: str) -> None:
        """Run registered passes, or named pipelines, for the running pass."""
        for name in names:
            self.manager.run_named(name, graph, self, self.where)

    # ---- analyses

    def validate(self, analysis: str, graph: DataflowGraph, *, complete: bool) -> None:
        """Record that an analysis has been computed.

        complete: the analysis left nothing open, and stays valid while passes that preserve that
        analysis change the graph. An incomplete one is valid until the graph changes.
        """
        self._valid[analysis] = None if complete else (id(graph), graph.changes)

    def invalidate(self, analysis: str) -> None:
        """Record that an analysis has to be computed anew."""
        self._valid.pop(analysis, None)

    def is_valid(self, analysis: str, graph: DataflowGraph) -> bool:
        """Return whether an analysis still holds for a graph."""
        if analysis not in self._valid:
            return False
        state = self._valid[analysis]
        return state is None or state == (id(graph), graph.changes)
