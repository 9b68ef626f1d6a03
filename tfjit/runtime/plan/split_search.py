"""Look for the splits of a plan into stages.

They are found before its first run, or when sizes turn out to be unknown.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfjit.framework.op_defs.op_traits import SIZED_BY_VALUES
from tfjit.runtime.host.fork_safety import release_lock
from tfjit.runtime.stored_plans import plan_warm_start

if TYPE_CHECKING:
    from tfjit.framework.types.shape import Shape
    from tfjit.runtime.plan.plan import Plan

log = logging.getLogger("tfjit.plan")


class SplitSearch:
    """The search for a plan's stages, which is made once.

    The plan is an argument, not a field: a reference cycle would outlive it.
    """

    def __init__(self) -> None:
        self._is_due = True
        self._lock = threading.Lock()  # held while the splits are searched

    def after_fork(self) -> None:
        """Release the lock in a forked child."""
        release_lock(self._lock)

    def split(self, plan: Plan, shapes: Sequence[Shape]) -> bool:
        """Split a plan at nodes of unknown output sizes.

        Returns whether runs go through stages from now on. The first stage is built already.
        shapes: of the feeds.
        """
        with self._lock:
            is_due, self._is_due = self._is_due, False
            if is_due and plan.may_be_split():
                _find_stages(plan, shapes)
        return plan.stages is not None

    def split_for_run(self, plan: Plan, shapes: tuple[tuple[int, ...], ...]) -> None:
        """Split a plan now if earlier feed shapes had unknown sizes.

        Passes over the whole run for these shapes would take as long, and serve them alone.
        """
        awaited = self._is_due or self._lock.locked()
        if not awaited or plan.stages is not None or shapes in plan.variants:
            return
        if not any(known.dynamic_reason for known in list(plan.variants.values())):
            return
        try:
            with plan.session.settings():
                self.split(plan, shapes)
        # the passes of the variant meet the error again, and report it
        except Exception as error:
            log.debug("plan %s is not split: %s", plan.name, error)


def _find_stages(plan: Plan, shapes: Sequence[Shape]) -> None:
    from tfjit.runtime.plan.dynamic_stages import find_splits, recorded_stages

    splits = find_splits(plan, shapes)
    made = recorded_stages(plan, splits) if splits else None
    if made is None:
        return
    key = plan.fingerprint_of_any_shapes()
    if key:
        plan_warm_start.write_splits(key, splits)
    first = made.plans[0]
    if not first.by_node:
        by_name = dict(zip(plan.feeds, shapes, strict=True))
        shapes = [by_name[name] for name in first.feeds]
        first.variant(tuple(shapes)).upgrade(defers=True)  # type: ignore[arg-type]
    plan.stages = made


def split_before_runs(plan: Plan) -> None:
    """Split a plan before its first run.

    Split at ops that are declared to be sized by values, or where an earlier process did.
    """
    graph = plan.session.graph
    if graph is None or not plan.may_be_split():
        return
    if graph.has_trait(SIZED_BY_VALUES):
        from tfjit.runtime.plan.dynamic_stages import declared_stages

        plan.stages = declared_stages(plan)
    key = plan.fingerprint_of_any_shapes() if plan.stages is None else ""
    splits = plan_warm_start.read_splits(key) if key else []
    if splits:
        from tfjit.runtime.plan.dynamic_stages import recorded_stages

        plan.stages = recorded_stages(plan, splits)
    found = plan_warm_start.read_fed_sizes(key) if key else ()
    if found and max(found) < len(plan.feeds) and not plan.feed_values:
        from tfjit.runtime.plan.fed_sizes import FedSizes

        plan.fed_sizes = FedSizes(found, are_recorded=True)
