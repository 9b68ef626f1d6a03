"""Define the interface of a session for its plans."""

from __future__ import annotations

from collections.abc import Sequence, Set
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tfjit.framework.types.device_ends import ON_HOST, DeviceEnds
from tfjit.runtime.stored_plans.keyed_session import KeyedSession

if TYPE_CHECKING:
    from tfjit.framework.env import Env
    from tfjit.passes.history.history import History
    from tfjit.passes.ir.run_spec import RunSpec
    from tfjit.passes.pipeline import Partition, PipelineReport
    from tfjit.runtime.executor.dataflow_executor import DataflowPlan
    from tfjit.runtime.executor.requested_kernels import RequestedKernels
    from tfjit.runtime.host.cancellation import CancellationManager
    from tfjit.runtime.host.inter_op_pool import ThreadPool
    from tfjit.runtime.kernel_api.op_kernel import StepContext
    from tfjit.runtime.plan.plan import Plan
    from tfjit.runtime.plan.plan_cache_budget import VariantBudget
    from tfjit.runtime.plan.renewals import Renewals
    from tfjit.runtime.plan.shared_bodies import SharedBodies
    from tfjit.runtime.resources.variables_and_resources import SessionState
    from tfjit.runtime.step.arena import ArenaPool


class Survey(NamedTuple):
    """Facts of a run before its plan is built.

    nodes: their number. fingerprint: "" of a run that is not recorded. once: the run initialises
    variables, so that there is seldom another one.
    """

    nodes: int
    fingerprint: str = ""
    once: bool = False


class PlanHost(KeyedSession, Protocol):
    """Describe a session to plans, function kernels and step observers."""

    env: Env
    handle: str
    logs_rendezvous: bool
    budget: VariantBudget
    state: SessionState
    node_kernels: RequestedKernels
    renewals: Renewals
    bodies: SharedBodies
    cancellation: CancellationManager

    @property
    def arenas(self) -> ArenaPool:
        """Return the arenas of all steps."""

    def check_open(self) -> None:
        """Raise CancelledError once the session is closed."""

    def build_partitions(
        self,
        spec: RunSpec,
        quick: bool = False,
        fuses: bool = True,
        history: History | None = None,
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

    def dataflow_plan(
        self, partitions: Sequence[Partition], compiled: Set[str] | None = None
    ) -> DataflowPlan:
        """Return the partitions as a plan of the dataflow executor."""

    def pool(self, index: int = 0) -> ThreadPool:
        """Return the inter-op pool of an index."""

    def step_context(self) -> AbstractContextManager[StepContext]:
        """Return a block that is one step: its id, rendezvous and cancellation."""
