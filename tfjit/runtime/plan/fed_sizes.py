"""Serve a plan by one for each value of fed sizes.

A graph may be fed sizes: the shape of a sparse matrix, a number of elements to draw, a batch size.
No shape that depends on one is known while the plan is built. Once the values of such feeds recur,
a plan in which they are constants serves the runs with these values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from tfjit.framework import settings
from tfjit.runtime.stored_plans import plan_warm_start

if TYPE_CHECKING:
    from tfjit.passes.pipeline import Partition
    from tfjit.runtime.plan.plan import Plan

MAX_PLANS: Final = 8
"""Number of values that have a plan."""
_MAX_COUNTED: Final = 64
"""Different values after which no more are counted."""

_Shapes = tuple[tuple[int, ...], ...]


def find_fed_sizes(plan: Plan, partitions: Sequence[Partition]) -> None:
    """Look for feeds of a plan that decide shapes by their values.

    partitions: of a variant of unknown shapes.
    """
    if plan.fed_sizes is not None or plan.feed_values or len(partitions) != 1:
        return
    # stages look for themselves
    if plan.stages is not None or plan.connections or not plan.may_be_generic:
        return
    if "fed_sizes" in settings.names("TFJIT_DISABLE"):
        return
    from tfjit.passes.analysis.size_feeds import find_size_feeds

    found = find_size_feeds(partitions[0].graph)
    if found:
        names = ", ".join(plan.feeds[k] for k in found)
        settings.say("executor", "plan %s: shapes depend on the values of %s", plan.name, names)
        plan.fed_sizes = FedSizes(found)
        key = plan.fingerprint_of_any_shapes()
        if key:
            plan_warm_start.write_fed_sizes(key, found)


class FedSizes:
    """Hold the plans of a plan's fed sizes.

    positions: of the feeds that decide shapes. are_recorded: an earlier process has found them,
    and perhaps stored plans for values.
    """

    def __init__(self, positions: Sequence[int], are_recorded: bool = False) -> None:
        self.positions = tuple(positions)
        self._are_recorded = are_recorded
        self.plans: dict[tuple[bytes, ...], Plan] = {}
        self._seen: set[tuple[bytes, ...]] = set()

    def plan(self, plan: Plan, arrays: Sequence[np.ndarray], shapes: _Shapes) -> Plan | None:
        """Return the plan for the values of a run, once ready.

        plan: for any values. arrays: the feeds, of these shapes.
        """
        key = tuple([arrays[k].tobytes() for k in self.positions])
        found = self.plans.get(key)
        if found is None:
            if key not in self._seen:
                if len(self._seen) < _MAX_COUNTED:
                    self._seen.add(key)
                stored = self._stored(plan, arrays, shapes)
                if stored is not None:
                    return self.plans.setdefault(key, stored)
                return None
            if len(self.plans) >= MAX_PLANS:
                return None
            values = self._values(plan, arrays)
            found = self.plans.setdefault(key, plan.with_feed_values(values))
            settings.say("executor", "plan %s: a plan for %s", plan.name, _shown(values))
        return found if found.is_ready(shapes) else None

    def _values(self, plan: Plan, arrays: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        return {plan.feeds[k]: _frozen(arrays[k]) for k in self.positions}

    def _stored(self, plan: Plan, arrays: Sequence[np.ndarray], shapes: _Shapes) -> Plan | None:
        """Return the plan for values with a stored variant, or None."""
        if not self._are_recorded or len(self._seen) + len(self.plans) > MAX_PLANS:
            return None
        made = plan.with_feed_values(self._values(plan, arrays))
        return made if made.has_stored_variant(shapes) else None


def _frozen(array: np.ndarray) -> np.ndarray:
    copy = np.array(array)
    copy.setflags(write=False)
    return copy


def _shown(values: dict[str, np.ndarray]) -> str:
    return ", ".join(f"{name} = {value.tolist()}" for name, value in values.items())
