"""Run a known plan with little overhead.

A run is one dictionary look-up by feed shapes, an instance from the step's free list and one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tfjit.runtime.session_interface import Runner
from tfjit.runtime.step.step import Reroute

if TYPE_CHECKING:
    from tfjit.runtime.plan.host import PlanHost
    from tfjit.runtime.plan.plan import Plan
    from tfjit.runtime.plan.variant import Variant


def plan_runner(
    session: PlanHost, plan: Plan, feeds: Sequence[str], fetches: Sequence[str], pool_index: int = 0
) -> Runner:
    """Return a runner of the plan in the caller's order.

    The runner takes values in the order of `feeds` and returns values in the order of `fetches`.
    The values are those that `plan.run` takes. Of an array, only dtype, memory order and
    shape are checked before the run.
    """
    runner = _in_plan_order(session, plan, pool_index)
    feed_order = [list(feeds).index(name) for name in plan.feeds]
    fetch_order = [plan.fetches.index(name) for name in fetches]
    sorted_feeds = feed_order == list(range(len(feeds)))
    if fetch_order == list(range(len(plan.fetches))):
        if sorted_feeds:
            return runner
        if feed_order == [1, 0]:
            return lambda values: runner((values[1], values[0]))
        return lambda values: runner([values[i] for i in feed_order])
    return lambda values: [
        results[i] for results in (runner([values[j] for j in feed_order]),) for i in fetch_order
    ]


def _in_plan_order(session: PlanHost, plan: Plan, pool_index: int) -> Runner:
    variants = plan.variants
    bounded = session.pool(pool_index).slots is not None
    dtypes = plan.np_dtypes

    def slow(values: Sequence[Any]) -> list[Any]:
        session.check_open()
        return plan.run(values, pool=session.pool(pool_index) if pool_index or bounded else None)

    def in_context(variant: Variant, values: Sequence[Any]) -> list[Any]:
        """Run a step that needs a context, such as one that waits."""
        step = variant.in_context
        if step is None or pool_index:
            return slow(values)
        variant.used = True
        try:
            with session.step_context() as context:
                return step.run(values, context)
        except Reroute:
            return slow(values)

    if any(dtype is None for dtype in dtypes) or bounded:
        return slow
    if len(dtypes) == 1:
        dtype0 = dtypes[0]

        # run_n repeats the end of this function: a shared call would cost a run of 2 us a fortieth
        # of its time.
        def run_1(values: Sequence[Any]) -> list[Any]:
            (a,) = values
            variant = (
                variants.get((a.shape,)) if a.dtype is dtype0 and a.flags.c_contiguous else None
            )
            if variant is None or session.closed:
                return slow(values)
            step = variant.inline
            if step is None:
                return in_context(variant, values)
            variant.used = True
            free = step.free
            try:
                instance = free.pop()
            except IndexError:
                instance = step.instance()
            try:
                return instance(values, None)
            except Reroute:
                return slow(values)
            finally:
                free.append(instance)

        return run_1

    def run_n(values: Sequence[Any]) -> list[Any]:
        variant = variants.get(tuple([a.shape for a in values]))
        if variant is None or session.closed:
            return slow(values)
        for a, dtype in zip(values, dtypes, strict=True):
            if a.dtype is not dtype or not a.flags.c_contiguous:
                return slow(values)
        step = variant.inline
        if step is None:
            return in_context(variant, values)
        variant.used = True
        free = step.free
        try:
            instance = free.pop()
        except IndexError:
            instance = step.instance()
        try:
            return instance(values, None)
        except Reroute:
            return slow(values)
        finally:
            free.append(instance)

    return run_n
