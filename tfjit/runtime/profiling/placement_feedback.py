"""Placement by measured costs (ConfigProto.placement_period).

The module decides when to measure, when to move nodes, and when to stop.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tfjit.framework.op_defs.op_traits import TRANSFER
from tfjit.runtime.profiling.step_stats import NodeRecord

if TYPE_CHECKING:
    from tfjit.runtime.plan.host import PlanHost
    from tfjit.runtime.plan.plan import Plan
    from tfjit.runtime.plan.variant import Variant

log = logging.getLogger("tfjit.placement")

# with sends and receives: the time of a receive is waiting
_UNCOUNTED: Final = frozenset({"Const", "_Arg", "_Retval"})
# first steps of new plans run beside the compilation of their kernels and tell nothing of a
# placement
_TRIAL_STEPS: Final = 10
# two periods without a move: kernels may not be compiled yet in the first
_QUIET_PERIODS: Final = 2

Signature = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]


@dataclass(slots=True)
class _Times:
    """Of one signature in one period."""

    total_s: float = 0.0
    best_s: float = float("inf")


class Replacement:
    """Moves the nodes of one session by their measured costs.

    Not thread-safe: the step observer calls it under its lock. Every `period` steps the signature
    that took most time is measured at its next step, and its movable nodes are placed by their
    costs. A move is on trial for at least _TRIAL_STEPS steps: where the best step after it is
    slower than the best before it, the nodes go back, and all stays as it is. `stable` once that
    happened, or when no node wanted to move in _QUIET_PERIODS periods in a row.
    """

    def __init__(self, session: PlanHost, period: int) -> None:
        self.stable = False
        self._session = session
        self._period = period
        self._steps = 0
        self._quiet = 0
        self._times: dict[Signature, _Times] = {}
        self._wanted: Signature | None = None  # to be measured at its next step
        # signature, its best time before, and the old devices of its nodes
        self._trial: tuple[Signature, float, dict[str, str]] | None = None

    def wants(self, plan: Plan) -> bool:
        """Return whether this step of a plan is to be measured."""
        return not self.stable and self._wanted == _signature(plan)

    def step(
        self, variant: Variant, elapsed_s: float, records: Sequence[NodeRecord] | None
    ) -> None:
        """Take in a step. records: of a measured one.

        Steps before their kernels are compiled do not count.
        """
        plan = variant.plan
        if self.stable or not variant.is_stable:
            return
        if records is not None:
            self._wanted = None
            self._place(plan, records)
            return
        times = self._times.setdefault(_signature(plan), _Times())
        times.total_s += elapsed_s
        times.best_s = min(times.best_s, elapsed_s)
        self._steps += 1
        if self._trial is not None:
            if self._steps >= max(self._period, _TRIAL_STEPS):
                self._judge(self._trial)
        elif self._steps >= self._period and self._wanted is None:
            self._wanted = max(self._times, key=lambda signature: self._times[signature].total_s)

    def _place(self, plan: Plan, records: Sequence[NodeRecord]) -> None:
        from tfjit.passes.ir.subgraph import needed_nodes
        from tfjit.passes.partitioning.rebalance import Measured, rebalance

        session, signature = self._session, _signature(plan)
        measured = [
            Measured(
                r.node.origin or (r.node.name,),
                r.elapsed_ns / 1000,
                sum(t.nbytes for t in r.outputs if t is not None),
            )
            for r in records
            if r.node.op not in _UNCOUNTED and not r.node.has_trait(TRANSFER)
        ]
        with session.graph_lock:
            graph = session.graph
            if graph is None:
                return
            needed = needed_nodes(graph, plan.spec([None] * len(plan.feeds)))[0]
            decision = rebalance(
                graph, needed, measured, [device.name for device in session.devices.devices]
            )
            before = {name: graph.node(name).assigned_device for name in decision.moves}
            self._move(decision.moves)
        if decision.moves:
            log.info(
                "%d nodes move: a step is predicted at %.0f us, it was %.0f us",
                len(before),
                decision.after_us,
                decision.before_us,
            )
            self._trial = signature, self._times.setdefault(signature, _Times()).best_s, before
            self._quiet = 0
        else:
            self._quiet += 1
            if self._quiet >= _QUIET_PERIODS:
                log.info("placement is stable")
                self.stable = True
        self._begin_period()

    def _judge(self, trial: tuple[Signature, float, dict[str, str]]) -> None:
        signature, before_s, origins = trial
        after = self._times.get(signature)
        self._trial = None
        if after is not None and after.best_s > before_s:
            log.info(
                "steps take %.0f us, they took %.0f us: the nodes go back",
                after.best_s * 1e6,
                before_s * 1e6,
            )
            with self._session.graph_lock:
                self._move(origins)
            self.stable = True
        self._begin_period()

    def _move(self, moves: Any) -> None:
        graph = self._session.graph
        if graph is None or not moves:
            return
        for name, device in moves.items():
            node = graph.node(name)
            log.info("%s: (%s): moves from %s to %s", name, node.op, node.assigned_device, device)
            node.assigned_device = device
        self._session.forget_plans()

    def _begin_period(self) -> None:
        self._steps = 0
        self._times.clear()


def _signature(plan: Plan) -> Signature:
    return plan.feeds, plan.fetches, plan.targets
