"""Read a variant from disk, and write it for later processes."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tfjit.framework.gc_pause import collection_paused
from tfjit.runtime.stored_plans import stored_plan
from tfjit.runtime.stored_plans.plan_key import PlanKey, plan_key

if TYPE_CHECKING:
    from tfjit.framework.types.shape import Shape
    from tfjit.kernels.source import KernelSource
    from tfjit.runtime.plan.lowered_kernels import LoweredKernels
    from tfjit.runtime.plan.plan import Plan
    from tfjit.runtime.plan.variant import Variant
    from tfjit.runtime.stored_plans.stored_plan import StoredPlan

log = logging.getLogger("tfjit.plan")

_STORE_AFTER_S: Final = 0.1


class VariantStorage:
    """Keep the stored form of a plan's variant.

    sets_variables: the variant was planned before a run that gives variables values.
    """

    def __init__(self, plan: Plan, feed_shapes: tuple[Shape, ...]) -> None:
        self._plan = plan
        self._feed_shapes = feed_shapes
        self._key: PlanKey | None = None  # of the plan on disk, None if there is never one
        self.sets_variables = False

    def is_used(self) -> bool:
        """Return whether the variant may be stored; make its key."""
        plan, session = self._plan, self._plan.session
        if not (plan.may_be_stored and session.straight_line and session.jit != "off"):
            return False
        if not stored_plan.are_used():
            return False
        self._key = plan.take_key(self._feed_shapes)
        if self._key.reason:
            log.debug("plan %s is not stored: %s", plan.name, self._key.reason)
        return True

    def read(self) -> StoredPlan | None:
        """Return what an earlier process stored, or None."""
        return stored_plan.read(self._plan.session, self._key) if self._key is not None else None

    def may_write(self, kernels: LoweredKernels) -> bool:
        """Return whether a variant with these kernels may be written."""
        if self._key is None or not self._key.name or kernels.calls is None:
            return False
        # with divided groups the next process may compile more
        return not kernels.lowered.divided and not self._plan.session.closed

    def write(self, kernels: LoweredKernels, nodes: int) -> bool:
        """Store the plan for later processes; return whether it is stored.

        The key is made again: only a plan that today's session would make the same is stored.
        nodes: the number that passes left. The caller keeps others from changing the kernels.
        """
        key, session = self._key, self._plan.session
        assert key is not None
        with collection_paused():
            again = plan_key(session, self._plan.spec(self._feed_shapes))
            if again.name != key.name and not (
                self.sets_variables and again.without_values == key.without_values
            ):
                return False
            data = stored_plan.to_bytes(
                kernels.lowered, kernels.calls, kernels.device, nodes, again, key.name
            )
            # so that no process reads it in vain
            stored_plan.from_bytes(memoryview(data), again, kernels.lowered.backend, key.name)
            # a closed session takes its graphs apart
            return not session.closed and stored_plan.write(key.name, data)

    def packed(
        self, kernels: LoweredKernels, nodes: int, name_of: Callable[[KernelSource], str]
    ) -> tuple[str, bytes] | None:
        """Return the plan's name and contents for a pack, or None.

        nodes: the number that passes left. name_of: the name of a kernel in the pack.
        """
        key = self._key
        if key is None or not key.name or kernels.calls is None:
            return None
        name = key.name_in_packs
        try:
            data = stored_plan.to_bytes(
                kernels.lowered, kernels.calls, kernels.device, nodes, key, name, name_of
            )
        except stored_plan.NotStorable as why:
            log.debug("plan %s is not packed: %s", self._plan.name, why)
            return None
        return name, data

    def write_later(self, variant: Variant) -> None:
        """Store the variant in the background, behind the first run."""
        if self._key is None or not self._key.name or variant.built_ms < stored_plan.LEAST_MS:
            return
        found = weakref.ref(variant)

        def store_it() -> None:
            variant = found()
            try:
                if variant is not None:
                    variant.store()
            # a fault here must not end the thread that serves all sessions
            except Exception as error:
                log.debug("a plan is not stored: %s", error)

        def submit() -> None:
            variant = found()
            if variant is not None:
                variant.submit(store_it)

        timer = threading.Timer(_STORE_AFTER_S, submit)
        timer.daemon = True
        timer.start()


__all__ = ["VariantStorage"]
