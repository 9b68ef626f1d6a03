"""Replace a variant's step by better ones while kernels arrive.

The jobs run on the background thread. A step of the present kernels comes at once, in place of the
unoptimised graph also where none is present, then one after 4 more kernels, 8 more, 16 more, and
the last one when all are settled. Kernels that save too little of a few runs are deferred
(runtime/schedule/compile_cost.py): they are compiled once the plan has run often enough, when a
caller waits for the fastest form, or in the next process that runs the plan.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Final

from tfjit.framework import settings
from tfjit.framework.gc_pause import collection_paused
from tfjit.kernels.jit.store import store
from tfjit.runtime.schedule.compile_cost import choose

if TYPE_CHECKING:
    from tfjit.kernels.source import KernelSource
    from tfjit.runtime.plan.lowered_kernels import LoweredKernels
    from tfjit.runtime.plan.variant import Variant
    from tfjit.runtime.schedule.compile_cost import MissingKernel

_FIRST_CHUNK: Final = 4
"""Kernels that are worth a step; each later step waits for twice as many."""


def upgrade(variant: Variant) -> None:
    """Install a step of present kernels, and request the others."""
    if variant.plan.session.closed:
        return
    try:
        with variant.timed():
            variant.select_kernels()
            kernels = _kernels(variant)
            kernels.load_present()
            missing = _worth_compiling(variant, kernels.missing())
        store.request(missing)
        _advance(variant, missing, _FIRST_CHUNK)
        if not variant.is_stable and not variant.is_restored:
            variant.storage.write_later(variant)  # kernels may take longer than the process lives
    # A builder's bug must not end the thread that serves all sessions.
    except BaseException as error:
        variant.fail(error)


def compile_deferred(variant: Variant) -> None:
    """Request deferred kernels that pay by now.

    All are requested if a caller waits for the fastest form.
    """
    if variant.plan.session.closed:
        variant.compile_done.set()
        return
    try:
        with variant.timed():
            kernels = _kernels(variant)
            kernels.load_present()
            missing = _worth_compiling(variant, kernels.missing())
        store.request(missing)
        _advance(variant, missing, len(missing))
    except BaseException as error:
        variant.fail(error)


def _worth_compiling(variant: Variant, missing: list[MissingKernel]) -> list[KernelSource]:
    """Return the kernels to request now; let the variant defer the others.

    A stored plan's are all requested: a program that runs again may run often.
    """
    if variant.is_restored or not variant.defers:
        variant.deferred_runs = 0.0
        return [kernel.source for kernel in missing]
    work_ns = _kernels(variant).reference_ns()
    choice = choose(missing, variant.runs.count, store.has_compiler(), work_ns)
    variant.deferred_runs = choice.runs if choice.deferred else 0.0
    if choice.deferred:
        settings.say(
            "kernels",
            "plan %s: %d of %d missing kernels are compiled after %.3g runs",
            variant.plan.name,
            choice.deferred,
            len(missing),
            choice.runs,
        )
    return choice.now


def _advance(variant: Variant, missing: list[KernelSource], count: int) -> None:
    """Install a step of arrived kernels; wait for `count` missing ones."""
    missing = [source for source in missing if not store.are_final([source])]
    try:
        if not missing:
            _finish(variant)
            return
        # even a step of references takes half the time of the unoptimised graph
        if variant.step is None or variant.installed != _kernels(variant).arrived():
            with collection_paused():
                variant.install_step(counts=True)
    except BaseException as error:
        variant.fail(error)
        return
    _advance_later(variant, missing[:count], missing[count:], 2 * count)


def _advance_later(
    variant: Variant, awaited: list[KernelSource], missing: list[KernelSource], count: int
) -> None:
    """Continue with a live variant once the awaited kernels are settled.

    Pending code must not keep a session alive.
    """
    found = weakref.ref(variant)

    def submit() -> None:
        variant = found()
        if variant is not None:
            variant.submit(lambda: _advance(variant, missing, count))

    store.when_ready(awaited, submit)


def _finish(variant: Variant) -> None:
    """Install the last step, with parts in the place of refused groups."""
    kernels = _kernels(variant)
    with variant.timed():
        before = kernels.lowered
        missing = kernels.divide_refused()
        if kernels.lowered is not before:
            variant.installed = -1
    if missing:
        store.request(missing)
        _advance(variant, missing, len(missing))
        return
    with variant.timed():
        if variant.installed != kernels.arrived() or variant.step is None:
            variant.install_step(counts=bool(variant.deferred_runs))
        elif not variant.plan.session.closed:
            variant.take(variant.step)
    kernels.drop_member_calls()
    variant.write_record()
    variant.storage.write_later(variant)  # with the names of all kernels
    variant.end_upgrade()


def _kernels(variant: Variant) -> LoweredKernels:
    """Return the kernels of a variant that is lowered."""
    assert variant.kernels is not None
    return variant.kernels


__all__ = ["compile_deferred", "upgrade"]
