"""Serve a plan for one tuple of feed shapes.

A variant starts with a step of the present kernels where first_run.py expects that to pay, and else
on reference kernels. After the first run, a background thread builds the native calls, loads the
present kernels and requests the others, the most valuable first. The variant's step is replaced by
a better one again and again while kernels arrive (tier_up.py).
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfjit.framework import errors, settings
from tfjit.framework.gc_pause import collection_paused
from tfjit.kernels.jit.store import store
from tfjit.runtime.host.fork_safety import release_lock
from tfjit.runtime.kernel_api.op_kernel import StepContext
from tfjit.runtime.lowering.lowered import Lowered
from tfjit.runtime.plan import first_run, tier_up, upgrades
from tfjit.runtime.plan.background import BACKGROUND, HURRIED_SHARE, SHARE
from tfjit.runtime.plan.fed_sizes import find_fed_sizes
from tfjit.runtime.plan.lowered_kernels import LoweredKernels
from tfjit.runtime.plan.plan_cache_budget import NODE_BYTES
from tfjit.runtime.plan.static_partition import lower_static
from tfjit.runtime.plan.unoptimised_graph import request_heavy, unoptimised
from tfjit.runtime.plan.variant_storage import VariantStorage
from tfjit.runtime.step.run_count import RunCount
from tfjit.runtime.step.step import Reroute, Step
from tfjit.runtime.step.step_osr import TierUp, TierUpWatch, is_restartable
from tfjit.runtime.stored_plans import plan_warm_start

if TYPE_CHECKING:
    from tfjit.framework.types.shape import Shape
    from tfjit.kernels.source import KernelSource
    from tfjit.passes.pipeline import Partition, PipelineReport
    from tfjit.runtime.executor.dataflow_executor import DataflowPlan
    from tfjit.runtime.host.inter_op_pool import ThreadPool
    from tfjit.runtime.plan.plan import Plan
    from tfjit.runtime.schedule.kernel_selection import CallReport
    from tfjit.runtime.stored_plans.plan_warm_start import PlanRecord
    from tfjit.runtime.stored_plans.stored_plan import StoredPlan

log = logging.getLogger("tfjit.plan")

QUICK_NODES: Final = 300  # above this size, the passes take longer than a first result should


class Variant:
    """Serve a plan for known feed shapes.

    report: the passes' report. kernels: the instructions of the single static partition with their
    calls; None when the dataflow executor runs the variant, and then `dynamic_reason` gives the
    reason. compile_done: set once the variant has its fastest form. installed: the number of
    kernels that were loaded when the newest step was made. runs: counts the runs of steps that are
    not the last. deferred_runs: the number of runs after which deferred kernels are requested, 0
    where none are deferred.

    The dataflow executor serves a big graph's first runs over the unoptimised graph, and the passes
    run in the background too. No background work starts during the first run, which would have to
    share the interpreter with it: `upgrade` starts the work.
    """

    def __init__(self, plan: Plan, feed_shapes: tuple[Shape, ...]) -> None:
        self.plan = plan
        self.feed_shapes = feed_shapes
        self.partitions: list[Partition] = []
        self.report: PipelineReport | None = None
        self.kernels: LoweredKernels | None = None
        self.step: Step | None = None
        self.installed = 0
        self.dataflow: DataflowPlan | None = None
        self.dynamic_reason = ""
        self.inline: Step | None = None  # the final step if it runs without a context
        self.in_context: Step | None = None  # the final step if it needs one
        self.compile_done = threading.Event()
        self.failure: BaseException | None = None
        self.used = False  # used since the session's newest variant was added
        self.idle = 0  # number of variants added since the last use
        self.storage = VariantStorage(plan, feed_shapes)
        self._lock = threading.Lock()
        self._building = threading.Lock()
        self._slow_runs = 0  # runs without a compiled step since a background job last asked
        # the work left for after the first run
        self._later: Callable[[], None] | None = None
        self.runs = RunCount()
        self.deferred_runs = 0.0
        self.defers = True  # no caller waits for the fastest form
        self._has_deferred = False  # settled but for deferred kernels
        self._fingerprint = ""
        self._once = False  # there may be no second run
        self._made_ms = 0.0  # processor time of passes, builders and one layout
        self._slow_ms = float("inf")  # the fastest run without compiled code
        self._stored: StoredPlan | None = None
        if not self._starts_stored():
            self._start()

    def _start(self) -> None:
        """Find the form that serves the first run."""
        plan, session = self.plan, self.plan.session
        mode = session.jit
        known: PlanRecord | None = None
        if mode == "lazy" and session.straight_line and len(session.devices.devices) == 1:
            nodes, self._fingerprint, self._once = plan.survey(self.feed_shapes)
            if self._fingerprint:
                known = plan_warm_start.read(self._fingerprint)
            # a user's pass may change results, which those of the first run have to show
            if nodes > QUICK_NODES and not session.pass_options().pipeline.users:
                quick = unoptimised(plan, self.feed_shapes, known, self._once)
                if quick is not None:
                    self.partitions, self.dataflow = quick
                    self._later = self._optimize_and_upgrade
                    return
        self.storage.sets_variables = self._once
        self._optimize()
        if self.kernels is None:
            self._later = self._split
        elif mode == "lazy":
            if not self._start_compiled(known):
                self.step = self.kernels.make_step()  # not `inline`: its runs are counted
            if not self.compile_done.is_set():
                self._later = self._upgrade
        else:
            if mode == "eager":
                self._compile()
            self.take(self.kernels.make_step())
            self.compile_done.set()

    def _starts_stored(self) -> bool:
        """Return whether a plan that an earlier process stored serves this variant."""
        plan, session = self.plan, self.plan.session
        if not self.storage.is_used():
            return False
        try:
            with self.timed():
                found = self.storage.read()
                if found is None:
                    return False
                self._stored = found
                self.kernels = LoweredKernels(
                    session, plan.name, found.lowered, found.device, found.calls
                )
                store.load_named(found.kernels, found.assembly_names)
                missing = not self.kernels.are_loaded()
                if missing and session.jit == "eager":
                    self._compile()
                elif missing:
                    self.kernels.load_present()
                    missing = self.kernels.may_improve()
                arrived = self.kernels.arrived()
                step = self.kernels.make_step()
        # the passes meet a fault of the plan's own again, and report it
        except Exception as error:
            log.warning("the stored form of plan %s is not used: %s", plan.name, error)
            self._stored = self.kernels = None
            return False
        self.installed = arrived
        if missing and session.jit == "lazy":
            self.step = step  # not `inline`: its first run starts the upgrade
            self._later = self._upgrade
        else:
            self.take(step)
            self.compile_done.set()
        return True

    def _start_compiled(self, known: PlanRecord | None) -> bool:
        """Take a step of the present kernels if that pays soon.

        known: the record of an earlier process.
        """
        kernels = self.kernels
        assert kernels is not None
        try:
            with self.timed():
                if not (
                    first_run.record_pays(known, self._once)
                    if known is not None and self._once
                    else known is not None or self._builders_pay(kernels.lowered)
                ):
                    return False
                self.select_kernels()
                kernels.load_present()
                if not first_run.enough_is_loaded(kernels.lowered):
                    return False
                arrived = kernels.arrived()
                may_improve = kernels.may_improve()
                step = kernels.make_step(self.runs if may_improve else None)
        # a builder's bug: `_upgrade` meets the error again, and reports it
        except Exception as error:
            log.debug("plan %s: %s", self.plan.name, error)
            return False
        self.installed = arrived
        if may_improve:
            self.step = step  # not `inline`: its first run starts the upgrade
        else:
            self.take(step)
            kernels.drop_member_calls()
            self.compile_done.set()
            self.storage.write_later(self)
        return True

    def _builders_pay(self, lowered: Lowered) -> bool:
        """Return whether a first run without a record waits for calls."""
        return first_run.builders_pay(lowered, self._once)

    def _compile(self) -> None:
        """Build all calls and wait for their code."""
        assert self.kernels is not None
        self.select_kernels()
        self.kernels.compile()

    @property
    def lowered(self) -> Lowered | None:
        """Return the instructions, None when the dataflow executor runs the variant."""
        return self.kernels.lowered if self.kernels is not None else None

    @property
    def calls(self) -> CallReport | None:
        """Return the report of the builders, None before they have run."""
        return self.kernels.calls if self.kernels is not None else None

    @property
    def is_restored(self) -> bool:
        """Return whether the variant is one that an earlier process stored."""
        return self._stored is not None

    @property
    def built_ms(self) -> float:
        """Return the processor time of passes, builders and layouts so far."""
        return self._made_ms

    @property
    def _node_count(self) -> int:
        """Return the number of nodes that passes left."""
        if self._stored is not None and not self.partitions:
            return self._stored.nodes
        return sum(len(partition.graph) for partition in self.partitions)

    def refused(self) -> list[tuple[str, str]]:
        """Return (node, reason) of each refused compilation."""
        return self.kernels.refused() if self.kernels is not None else []

    def charge(self) -> None:
        """Report the memory of this variant to the session."""
        session, step, lowered = self.plan.session, self.step, self.lowered
        constants = (
            [v.array for v in lowered.values if v.array is not None] if lowered is not None else []
        )
        own = step.own_bytes if step is not None else 0
        session.budget.charge(
            self,
            self._node_count * NODE_BYTES + own,
            [*constants, *(step.layout.constants if step is not None else ())],
        )

    def store(self) -> bool:
        """Store the plan for later processes; return whether it is stored."""
        kernels = self.kernels
        if kernels is None or not self.storage.may_write(kernels):
            return False
        if not self.is_restored and len(self.partitions) != 1:
            return False
        with self._building:
            return self.storage.write(kernels, self._node_count)

    def packed(self, name_of: Callable[[KernelSource], str]) -> tuple[str, bytes] | None:
        """Return the plan's name and contents for a pack, or None.

        name_of: the name of a kernel in the pack.
        """
        if self.kernels is None:
            return None
        return self.storage.packed(self.kernels, self._node_count, name_of)

    def write_record(self) -> None:
        """Record the variant's times, once its kernels are loaded, for later processes."""
        assert self.kernels is not None
        sources = self.kernels.sources()
        if self._fingerprint and sources and self.kernels.are_loaded():
            plan_warm_start.write(self._fingerprint, sources, self._made_ms, self._slow_ms)

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count the block's processor time among that of building the variant."""
        began = time.thread_time()
        try:
            with collection_paused():
                yield
        finally:
            self._made_ms += (time.thread_time() - began) * 1e3

    def _optimize(self) -> None:
        """Run the passes and lower the result."""
        plan = self.plan
        with self.timed():
            self.partitions, self.report = plan.build(self.feed_shapes)
            lowered, self.dynamic_reason = lower_static(
                plan, self.feed_shapes, self.partitions, self.report
            )
            if lowered is not None:
                self.kernels = LoweredKernels(
                    plan.session,
                    plan.name,
                    lowered,
                    self.partitions[0].device,
                    folder=self.report.folder,
                )

    def select_kernels(self) -> None:
        """Ask the builders, once, for compiled code of the instructions."""
        assert self.kernels is not None
        with self._building:
            self.kernels.select()

    def show_passes(self) -> None:
        """Run the passes of a stored plan, for reports."""
        if self._stored is None:
            return
        with self._building, self.plan.session.settings():
            if not self.partitions:
                self.partitions, self.report = self.plan.build(self.feed_shapes)

    def finish_passes(self) -> None:
        """Run the passes now, if they have not run yet."""
        if self._stored is not None:
            self.show_passes()
            return
        with self._lock:
            waits = self._later == self._optimize_and_upgrade
            if waits:
                self._later = None
        if waits or (self.report is None and self.plan.stages is not None):
            try:
                self._optimize()
            except BaseException:
                with self._lock:
                    self._later = self._optimize_and_upgrade
                raise
            with self._lock:
                self._later = self._upgrade if self.kernels is not None else None
            if self.kernels is None:
                self.dataflow = self.plan.session.dataflow_plan(self.partitions)
                self.compile_done.set()
        # the background thread is running the passes
        elif self.kernels is None and not self.dynamic_reason:
            self.compile_done.wait()
            if self.failure is not None:
                raise self.failure

    def upgrade(self, defers: bool = False) -> None:
        """Start to replace the reference kernels, once; return at once.

        defers: kernels that save little may be compiled after many runs, or never.
        """
        with self._lock:
            self.defers = self.defers and defers
            job, self._later = self._later, None
            if job is None and self._has_deferred and not defers:
                job, self._has_deferred = self._compile_deferred, False
        if job is None:
            return

        def unless_put_off() -> None:
            if not self._put_off(job):
                job()

        upgrades.started(self)
        self.submit(unless_put_off)

    def end_upgrade(self) -> None:
        """End the upgrade: all kernels have come, or are deferred."""
        if not self.deferred_runs:
            self.compile_done.set()
            return
        with self._lock:
            self._has_deferred = True
        if not self.defers:  # a caller came meanwhile
            self.upgrade()
            return
        upgrades.deferred(self)
        found = weakref.ref(self)  # the count belongs to the steps of this variant

        def reached() -> None:
            variant = found()
            if variant is not None:
                variant.submit(variant._compile_worthwhile)

        self.runs.call_at(self.deferred_runs, reached)

    @property
    def is_stable(self) -> bool:
        """Return whether no better step is under way."""
        return self.compile_done.is_set() or self._has_deferred

    def _compile_worthwhile(self) -> None:
        with self._lock:
            due, self._has_deferred = self._has_deferred, False
        if due:
            upgrades.started(self)
            self._compile_deferred()

    def _compile_deferred(self) -> None:
        tier_up.compile_deferred(self)

    def _put_off(self, job: Callable[[], None]) -> bool:
        """Leave an upgrade for later where the generic variant runs.

        Return whether it does.
        """
        generic = self.plan.generic
        if generic is None or not generic.serves(self.feed_shapes):  # type: ignore[arg-type]
            return False
        upgrades.put_off(self)
        with self._lock:
            self._later = job
        return True

    def submit(self, job: Callable[[], None]) -> None:
        """Queue a job of the background thread."""

        def with_settings() -> None:
            with self.plan.session.settings():
                job()

        BACKGROUND.submit(with_settings, self._share)

    def _share(self) -> float:
        """Return the share of the interpreter's time that an upgrade may take.

        A caller that runs this variant on reference kernels gains most from an early compiled step.
        """
        slow, self._slow_runs = self._slow_runs, 0
        return HURRIED_SHARE if slow else SHARE

    def _split(self) -> None:
        """Find fed sizes; split the plan at nodes of unknown output sizes."""
        try:
            if not self.plan.session.closed:
                find_fed_sizes(self.plan, self.partitions)
                self.plan.split(self.feed_shapes)
        except BaseException as error:
            self.fail(error)
        self.compile_done.set()

    def _optimize_and_upgrade(self) -> None:
        if self.plan.session.closed:
            return
        try:
            if self.plan.split(self.feed_shapes):
                self.compile_done.set()
                return
            self._optimize()
            if self.kernels is None:
                find_fed_sizes(self.plan, self.partitions)
                self.dataflow = self.plan.session.dataflow_plan(self.partitions)
                self.compile_done.set()
                return
        # The unoptimised graph continues to serve, and reports a wrong node when it runs.
        except BaseException as error:
            self.fail(error)
            return
        if not self._put_off(self._upgrade):
            self._upgrade()

    def _upgrade(self) -> None:
        tier_up.upgrade(self)

    def install_step(self, counts: bool = False) -> None:
        """Replace the step by one of the kernels that are loaded now.

        counts: its runs are counted.
        """
        if not self.plan.session.closed:
            assert self.kernels is not None
            arrived = self.kernels.arrived()
            self.take(self.kernels.make_step(self.runs if counts else None))
            self.installed = arrived
            if self.plan.variants.get(self.feed_shapes) is self:  # type: ignore[arg-type]
                self.charge()

    def take(self, step: Step) -> None:
        """Let runs use this step."""
        self.step = step
        self.inline = None if step.needs_context else step
        self.in_context = step if step.needs_context else None

    def _request_heavy(self) -> None:
        request_heavy(self.plan, self.partitions)

    def fail(self, error: BaseException) -> None:
        """Stay on the present step after an error of the background work."""
        # In a closed session the job ran into the closing, and the error would keep freed objects
        # alive.
        if not self.plan.session.closed:
            self.failure = error
            log.error(
                "plan %s stays on reference kernels: %s", self.plan.name, error, exc_info=error
            )
        self.compile_done.set()

    def run(
        self,
        values: Sequence[np.ndarray],
        context: StepContext | None = None,
        pool: ThreadPool | None = None,
    ) -> list[Any]:
        """Run one step.

        values: arrays in the plan's feed order. context: given by a run with options, which also
        chooses the pool.
        """
        self.used = True
        if context is None:
            step = self.inline
            if step is not None:
                try:
                    return step.run(values)
                except Reroute as why:
                    settings.say(
                        "executor", "plan %s: run by the dataflow executor: %s", self.plan.name, why
                    )
            with self.plan.session.step_context() as made:
                return self.run(values, made, pool)
        self._slow_runs += 1
        began = time.perf_counter()
        try:
            return self._run_in(context, values, pool)
        finally:
            self._slow_ms = min(self._slow_ms, (time.perf_counter() - began) * 1e3)
            if self._later is not None:
                if self._once and self.dataflow is not None:
                    self.submit(self._request_heavy)
                else:
                    self.upgrade(defers=True)
                self._once = False

    def _run_in(
        self, context: StepContext, values: Sequence[np.ndarray], pool: ThreadPool | None
    ) -> list[Any]:
        step = self.step
        is_bounded = pool is not None and pool.slots is not None
        if step is not None and context.collector is None and not (step.may_block and is_bounded):
            try:
                if (
                    not self.compile_done.is_set()
                    and self.lowered is not None
                    and is_restartable(self.lowered)
                ):
                    context.watch = TierUpWatch(
                        self.upgrade, lambda: self.compile_done.is_set() and self.step is not step
                    )
                try:
                    return step.run(values, context)
                except TierUp:
                    context.watch, step = None, self.step
                    assert step is not None
                    return step.run(values, context)
            except Reroute as why:
                settings.say(
                    "executor", "plan %s: run by the dataflow executor: %s", self.plan.name, why
                )
        dataflow = self._dataflow()
        results = dataflow.run(
            values, context, pool if pool is not None else self.plan.session.pool()
        )
        if dataflow.returns_variant:
            raise errors.InternalError(
                None, None, "Tensorflow type 21 not convertible to numpy dtype."
            )
        return results

    def _dataflow(self) -> DataflowPlan:
        self.show_passes()
        with self._lock:
            if self.dataflow is None:
                self.dataflow = self.plan.session.dataflow_plan(self.partitions)
            return self.dataflow

    def release(self) -> None:
        """Break the reference cycles of the variant after the session is closed.

        Reports stay readable.
        """
        with self._lock:
            self._later = None
            self._has_deferred = False
        for partition in self.partitions:
            partition.graph.dissolve()
        self.compile_done.set()

    def after_fork(self) -> None:
        """Reset locks in a forked child."""
        release_lock(self._lock)
        release_lock(self._building)
        for part in (self.step, self.dataflow):
            if part is not None:
                part.after_fork()


__all__ = ["QUICK_NODES", "Variant"]
