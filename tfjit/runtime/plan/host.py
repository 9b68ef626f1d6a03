"""Define the interface of a session for its plans."""

from __future__ import annotations

from collections.abc import Sequence, Set
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from tfjit.framework.types.device_ends import ON_HOST, DeviceEnds

if TYPE_CHECKING:
    import threading

    from tfjit.framework.env import Env
    from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
    from tfjit.passes.ir.run_spec import RunSpec
    from tfjit.passes.manager.pass_context import PassOptions
    from tfjit.passes.pipeline import Partition, PipelineReport
    from tfjit.runtime.executor.dataflow_executor import DataflowPlan
    from tfjit.runtime.executor.requested_kernels import RequestedKernels
    from tfjit.runtime.host.device import DeviceManager
    from tfjit.runtime.host.inter_op_pool import ThreadPool
    from tfjit.runtime.kernel_api.op_kernel import StepContext
    from tfjit.runtime.plan.plan import Plan
    from tfjit.runtime.plan.plan_cache_budget import VariantBudget
    from tfjit.runtime.plan.shared_bodies import SharedBodies
    from tfjit.runtime.resources.variables_and_resources import SessionState, Variable
    from tfjit.runtime.step.arena import ArenaPool
    from tfjit.runtime.step.step import StepEnvironment


JitMode = Literal["off", "lazy", "eager"]
"""When plans are compiled.

off: never. lazy: in the background of the first runs. eager: before the first result.
"""


class Survey(NamedTuple):
    """Facts of a run before its plan is built.

    nodes: their number. fingerprint: "" of a run that is not recorded. once: the run initialises
    variables, so that there is seldom another one.
    """

    nodes: int
    fingerprint: str = ""
    once: bool = False


class PlanHost(Protocol):
    """Describe a session to plans, function kernels and step observers.

    config: the session's ConfigProto, or None. graph: the whole placed graph, None before it is
    created and after the session is destroyed; hold `graph_lock` while reading or changing it.
    straight_line: static partitions run as steps. stages: runs may be split into stages. observer:
    measures steps, None when nothing is left to measure.
    """

    config: Any
    env: Env
    handle: str
    devices: DeviceManager
    graph: DataflowGraph | None
    graph_lock: threading.RLock
    closed: bool
    jit: JitMode
    straight_line: bool
    stages: bool
    logs_rendezvous: bool
    budget: VariantBudget
    arenas: ArenaPool
    state: SessionState
    observer: Any
    node_kernels: RequestedKernels
    bodies: SharedBodies

    @property
    def split_threads(self) -> int:
        """Return the number of threads that may divide a loop's batch."""

    def check_open(self) -> None:
        """Raise CancelledError once the session is closed."""

    def settings(self) -> AbstractContextManager[None]:
        """Return a block in which TFJIT_* settings are the session's."""

    def pass_options(self) -> PassOptions:
        """Return the pass options of the session's plans."""

    def build_partitions(
        self, spec: RunSpec, quick: bool = False, fuses: bool = True
    ) -> tuple[list[Partition], PipelineReport]:
        """Run the passes for one signature and feed shapes."""

    def survey(self, spec: RunSpec) -> Survey:
        """Return the facts of a run that decide on its first run."""

    def plan(
        self,
        feeds: Sequence[str],
        fetches: Sequence[str],
        targets: Sequence[str],
        connections: tuple[tuple[str, str], ...] = (),
        ends: DeviceEnds = ON_HOST,
    ) -> Plan:
        """Return the plan of a signature; make a missing one."""

    def forget_plans(self) -> None:
        """Drop all plans: nodes have moved to other devices."""

    def find_variable(self, node: Node) -> Variable:
        """Return the Variable of a variable node."""

    def step_environment(self, device: str) -> StepEnvironment:
        """Return the environment of static steps on a device."""

    def dataflow_plan(
        self, partitions: Sequence[Partition], compiled: Set[str] | None = None
    ) -> DataflowPlan:
        """Return the partitions as a plan of the dataflow executor."""

    def pool(self, index: int = 0) -> ThreadPool:
        """Return the inter-op pool of an index."""

    def step_context(self) -> AbstractContextManager[StepContext]:
        """Return a block that is one step: its id, rendezvous and cancellation."""
