"""Count the feed shapes of a plan; start its generic variant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from tfjit.framework import settings
from tfjit.runtime.plan.background import BACKGROUND, HURRIED_SHARE
from tfjit.runtime.stored_plans import stored_plan

if TYPE_CHECKING:
    from tfjit.runtime.plan.host import PlanHost
    from tfjit.runtime.plan.plan import Plan

FIRST_SHAPES: Final = 2
"""Different tuples of feed shapes that start a generic variant."""
_AT_ONCE_NODES: Final = 1000
"""Largest graph with a generic variant built by the second run.

The passes for four samples take half a second there, less than variants for a few tuples.
"""
_MAX_SEEN: Final = 50
"""Different tuples of feed shapes that it is built for, at most."""

_Shapes = tuple[tuple[int, ...], ...]


class MetShapes:
    """Different feed shapes of a plan's runs.

    The generic variant is built for them. seen: None once no more are counted. starts_generic: the
    variant was started; it is started once, unless sizes leave its range. The plan is an argument,
    not a field: a reference cycle would outlive it.
    """

    def __init__(self) -> None:
        self.seen: list[_Shapes] | None = []
        self.starts_generic = False

    def count(self, plan: Plan, shapes: _Shapes) -> None:
        """Count feed shapes.

        Where they are enough, the generic variant is built in the background.
        """
        if self._are_enough(plan, shapes):
            self._start(plan, at_once=False)

    def meet(self, plan: Plan, shapes: _Shapes) -> None:
        """Count the feed shapes of a run.

        The run waits for a generic variant that is made quickly: a stored one, or one of a small
        graph.
        """
        if not self.seen and self._restore(plan, shapes):
            return
        if self._are_enough(plan, shapes):
            quick = plan.survey(shapes).nodes <= _AT_ONCE_NODES
            self._start(plan, at_once=quick and plan.session.jit == "lazy")

    def _restore(self, plan: Plan, shapes: _Shapes) -> bool:
        """Take the generic variant that an earlier process stored.

        Return whether it serves. A stored variant of these feed shapes goes before it.
        """
        if not (plan.may_be_generic and plan.may_be_stored and stored_plan.are_used()):
            return False
        if not allows_generic(plan.session) or not plan.feeds:
            return False
        with plan.session.settings():
            key = plan.new_key(shapes)
            if stored_plan.is_stored(key.name) or not stored_plan.is_stored(key.all_sizes):
                return False
        return self.take_stored(plan, shapes)

    def take_stored(self, plan: Plan, shapes: _Shapes) -> bool:
        """Take the stored generic variant; return whether it serves these feed shapes."""
        self.seen = [shapes]
        self._start(plan, at_once=True, only_restored=True)
        self.starts_generic = plan.generic is not None
        return self.starts_generic

    def _are_enough(self, plan: Plan, shapes: _Shapes) -> bool:
        """Count feed shapes; return whether to build the generic variant."""
        seen = self.seen
        if not plan.may_be_generic or seen is None or shapes in seen:
            return False
        seen.append(shapes)
        # the variant covers the shapes that are met until its build begins
        if len(seen) >= _MAX_SEEN:
            self.seen = None
            return False
        if len(seen) < FIRST_SHAPES or self.starts_generic:
            return False
        if not allows_generic(plan.session):
            return False
        from tfjit.runtime.plan import generic_start  # most plans need none of its modules

        if not generic_start.are_enough(seen):
            return False
        self.starts_generic = True
        return plan.survey(shapes).nodes <= generic_start.MAX_NODES

    def _start(self, plan: Plan, at_once: bool, only_restored: bool = False) -> None:
        """Build the generic variant, at once or in the background.

        only_restored: take a stored one or none.
        """
        from tfjit.runtime.plan import generic_start

        seen, session = self.seen or [], plan.session

        def submit(job: Callable[[], None], share: float = HURRIED_SHARE) -> None:
            def with_settings() -> None:
                with session.settings():
                    job()

            BACKGROUND.submit(with_settings, lambda: share)

        def first_shapes() -> Sequence[_Shapes]:
            self.seen = None
            return list(seen)

        with session.settings():
            if only_restored:
                generic_start.restore(plan, seen, submit)
            else:
                generic_start.start(plan, first_shapes, submit, at_once=at_once)


def allows_generic(session: PlanHost) -> bool:
    """Return whether a session may have generic variants."""
    return not (
        session.jit == "off"
        or not session.straight_line
        or len(session.devices.devices) > 1
        or "generic" in settings.names("TFJIT_DISABLE")
    )
