"""Give plans generic variants: start them, restore them, let them serve."""

from __future__ import annotations

import functools
import logging
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from tfjit.framework import settings
from tfjit.framework.errors import OpError
from tfjit.kernels.jit.store import store
from tfjit.runtime.plan import upgrades
from tfjit.runtime.plan.generic_variant import GenericVariant, Submit
from tfjit.runtime.plan.met_shapes import FIRST_SHAPES
from tfjit.runtime.plan.plan import Plan
from tfjit.runtime.plan.size_class import NotLoaded
from tfjit.runtime.sizes.size_formulas import NotGeneric
from tfjit.runtime.sizes.size_samples import LEAST, Shapes, SymbolicShapes
from tfjit.runtime.stored_plans import stored_generic

log = logging.getLogger("tfjit.plan")

MAX_NODES: Final = 3000
"""Largest graph with a generic variant, for the time of its passes."""


def are_enough(seen: Sequence[Shapes]) -> bool:
    """Return whether a generic variant would serve enough of these tuples."""
    try:
        shapes = SymbolicShapes(seen)
    except NotGeneric:
        return False
    within = [s for s in shapes.seen if min(s, default=0) >= LEAST]
    return len(within) >= FIRST_SHAPES


def start(
    plan: Plan,
    seen: Callable[[], Sequence[Shapes]],
    submit: Submit,
    generation: int = 0,
    at_once: bool = False,
    restores: bool = True,
) -> None:
    """Give a plan a generic variant.

    seen: returns the feed shapes that the plan has met. submit: queues a job of the background
    thread. at_once: build it on this thread. restores: take the first one from disk if it is
    stored. The variant serves from the time when its kernels are loaded.
    """

    def build() -> None:
        if plan.session.closed or plan.stages is not None:
            waiting.compile_done.set()
            return
        try:
            made = GenericVariant(plan, seen(), submit, functools.partial(start, plan), generation)
        except NotGeneric as why:
            plan.generic_refused = True
            waiting.compile_done.set()
            settings.say("executor", "plan %s: no generic variant: %s", plan.name, why)
            return
        waiting.compile_done.set()
        if restores and generation == 0 and restore(plan, made.met, submit):
            return
        with _guarded(made):
            made.build()
            _finish(made)

    waiting = upgrades.Job(plan)
    upgrades.started(waiting)
    if at_once:
        build()
    else:
        submit(build)


def restore(plan: Plan, seen: Sequence[Shapes], submit: Submit) -> bool:
    """Give a plan the generic variant that an earlier process stored.

    Return whether it serves the newest of these feed shapes.
    """
    stored = stored_generic.read(plan)
    if stored is None:
        return False
    if any(store.refused(source) for traced in stored.classes for source in traced.sources()):
        return False  # its groups are divided again
    made: GenericVariant | None = None
    try:
        made = GenericVariant(plan, stored.met, submit, functools.partial(start, plan))
        made.restore(stored, seen)
    except (NotGeneric, NotLoaded) as why:
        settings.say("executor", "plan %s: the stored form does not serve: %s", plan.name, why)
    # the passes meet a fault of the variant's own again, and report it
    except Exception as error:
        log.warning("the stored generic variant of %s is not used: %s", plan.name, error)
    else:
        _serve(made)
        return True
    if made is not None:
        made.pending.compile_done.set()
        made.release()
    return False


def _finish(made: GenericVariant) -> None:
    """Let a variant serve once its kernels are loaded."""
    missing = made.prepare()
    if any(store.refused(source) for source in missing):
        raise NotGeneric("the compiler refuses a kernel")
    if missing:
        # Pending code must not keep a session alive.
        found = weakref.ref(made)
        made.plan.pending_generic = made

        def go_on() -> None:
            variant = found()
            if variant is not None:
                variant.submit(lambda: resume(variant))

        def resume(variant: GenericVariant) -> None:
            with _guarded(variant):
                if any(store.refused(source) for source in missing):
                    variant.build()  # with the groups divided
                _finish(variant)

        store.when_ready(missing, go_on)
        return
    _serve(made)
    made.storage.store_later()


def _serve(made: GenericVariant) -> None:
    """Let runs find a variant that has a size class."""
    plan = made.plan
    plan.pending_generic = None
    with plan.generic_lock:
        if plan.session.closed:
            made.release()
            made.pending.compile_done.set()
            return
        old, plan.generic = plan.generic, made
        made.ready = True
    made.pending.compile_done.set()
    if old is not None:
        old.release()
    made.make_more_later()


@contextmanager
def _guarded(made: GenericVariant) -> Iterator[None]:
    """Give up where the block fails: ordinary variants serve all shapes."""
    try:
        yield
    except (NotGeneric, OpError) as why:
        made.give_up(why)
    except Exception as error:  # a bug must not end the thread of all sessions
        if not made.plan.session.closed:
            log.error("plan %s has no generic variant: %s", made.plan.name, error, exc_info=error)
        made.give_up(error)
    except BaseException:  # the run that builds the variant was interrupted
        made.give_up(NotGeneric("interrupted"))
        raise


__all__ = ["MAX_NODES", "are_enough", "restore", "start"]
