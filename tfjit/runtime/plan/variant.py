"""Serve a plan for one tuple of feed shapes.

A variant starts with a step of the present kernels where first_run.py expects that to pay, and else
on reference kernels. After the first run, a background thread builds the native calls, loads the
present kernels and requests the others, the most valuable first. The variant's step is replaced by
a better one again and again while kernels arrive: after 4 of them, 8 more, 16 more.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework import errors, settings
from tfjit.framework.gc_pause import collection_paused
from tfjit.kernels.jit.store import store
from tfjit.runtime.host.fork_safety import release_lock
from tfjit.runtime.kernel_api.op_kernel import StepContext
from tfjit.runtime.lowering.lowering import Lowered, NotStatic
from tfjit.runtime.plan import first_run, upgrades
from tfjit.runtime.plan.background import BACKGROUND, HURRIED_SHARE, SHARE
from tfjit.runtime.plan.plan_cache_budget import NODE_BYTES
from tfjit.runtime.schedule.group_division import divide_refused, refused_instructions
from tfjit.runtime.schedule.kernel_priority import most_valuable_first
from tfjit.runtime.schedule.kernel_selection import (
    CallMemo,
    CallReport,
    add_member_calls,
    all_calls,
    drop_member_calls,
    finish_selection,
    select_kernels,
    sources,
)
from tfjit.runtime.step.step import Reroute, Step
from tfjit.runtime.step.step_osr import TierUp, TierUpWatch, is_restartable
from tfjit.runtime.stored_plans import plan_warm_start, stored_plan
from tfjit.runtime.stored_plans.plan_key import PlanKey, plan_key

if TYPE_CHECKING:
    from tfjit.framework.types.shape import Shape
    from tfjit.kernels.registry import NativeCall
    from tfjit.kernels.source import KernelSource
    from tfjit.passes.pipeline import Partition, PipelineReport
    from tfjit.runtime.executor.dataflow_executor import DataflowPlan
    from tfjit.runtime.host.inter_op_pool import ThreadPool
    from tfjit.runtime.plan.plan import Plan
    from tfjit.runtime.stored_plans.plan_warm_start import PlanRecord
    from tfjit.runtime.stored_plans.stored_plan import StoredPlan

log = logging.getLogger("tfjit.plan")

QUICK_NODES = 300  # above this size, the passes take longer than a first result should
_STORE_AFTER_S = 0.1
_FIRST_CHUNK = 4  # kernels that are worth a step; each later step waits for twice as many


def _is_loaded(source: KernelSource) -> bool:
    return store.lookup(source) is not None


def _lacks(call: NativeCall) -> bool:
    """Return whether code of a call is missing; load present code."""
    return not store.load_present(call.sources())


class Variant:
    """Serve a plan for known feed shapes.

    report: the passes' report. lowered: the instructions of the single static partition; None when
    the dataflow executor runs the variant, and then `dynamic_reason` gives the reason. calls: the
    compiled code of the instructions. compile_done: set once the variant has its fastest form.

    The dataflow executor serves a big graph's first runs over the unoptimised graph, and the passes
    run in the background too. No background work starts during the first run, which would have to
    share the interpreter with it: `upgrade` starts the work.
    """

    def __init__(self, plan: Plan, feed_shapes: tuple[Shape, ...]) -> None:
        self.plan = plan
        self.feed_shapes = feed_shapes
        self.partitions: list[Partition] = []
        self.report: PipelineReport | None = None
        self.lowered: Lowered | None = None
        self.calls: CallReport | None = None
        self.step: Step | None = None
        self.dataflow: DataflowPlan | None = None
        self.dynamic_reason = ""
        self.inline: Step | None = None  # the step if it runs without a context
        self.compile_done = threading.Event()
        self.failure: BaseException | None = None
        self.used = False  # used since the session's newest variant was added
        self.idle = 0  # number of variants added since the last use
        self._lock = threading.Lock()
        self._building = threading.Lock()
        self._slow_runs = 0  # runs without a compiled step since a background job last asked
        # the work left for after the first run
        self._later: Callable[[], None] | None = None
        self._fingerprint = ""
        self._once = False  # there may be no second run
        self._installed = 0  # kernels that were loaded when the newest step was made
        self._part_calls: CallMemo | None = None  # of the parts of refused groups
        self._made_ms = 0.0  # processor time of passes, builders and one layout
        self._slow_ms = float("inf")  # the fastest run without compiled code
        session = plan.session
        mode = session.jit
        known: PlanRecord | None = None
        self._key: PlanKey | None = None  # of the plan on disk, None if there is never one
        self._stored: StoredPlan | None = None
        if self._starts_stored():
            return
        if mode == "lazy" and session.straight_line and len(session.devices.devices) == 1:
            nodes, self._fingerprint, self._once = plan.survey(feed_shapes)
            if self._fingerprint:
                known = plan_warm_start.read(self._fingerprint)
            if nodes > QUICK_NODES and not self._passes_pay(known):
                self._later = self._optimize_and_upgrade
                return
        self._optimize()
        if self.lowered is None:
            self._later = self._split
        elif mode == "lazy":
            if not self._start_compiled(known):
                self.step = self._make_step()  # not `inline`: its runs are counted
            if not self.compile_done.is_set():
                self._later = self._upgrade
        else:
            if mode == "eager":
                self._compile()
            self._take(self._make_step())
            self.compile_done.set()

    def _starts_stored(self) -> bool:
        """Return whether a plan that an earlier process stored serves this variant."""
        plan, session = self.plan, self.plan.session
        if not (plan.may_be_stored and session.straight_line and session.jit != "off"):
            return False
        if not stored_plan.are_used():
            return False
        self._key = plan.take_key(self.feed_shapes)
        if self._key.reason:
            log.debug("plan %s is not stored: %s", plan.name, self._key.reason)
        try:
            with self._timed():
                found = stored_plan.read(session, self._key)
                if found is None:
                    return False
                self._stored = found
                self.lowered, self.calls = found.lowered, found.calls
                store.load_named(found.kernels, found.ir_names)
                missing = not all(map(_is_loaded, sources(all_calls(self.lowered))))
                if missing and session.jit == "eager":
                    self._compile()
                elif missing:
                    self._load_present()
                    missing = self._may_improve()
                arrived = self._arrived()
                step = self._make_step()
        # the passes meet a fault of the plan's own again, and report it
        except Exception as error:
            log.warning("the stored form of plan %s is not used: %s", plan.name, error)
            self._stored = self.lowered = self.calls = None
            return False
        self._installed = arrived
        if missing and session.jit == "lazy":
            self.step = step  # not `inline`: its first run starts the upgrade
            self._later = self._upgrade
        else:
            self._take(step)
            self.compile_done.set()
        return True

    def store(self) -> bool:
        """Store the plan for later processes; return whether it is stored.

        The key is made again: only a plan that today's session would make the same is stored.
        """
        key, session = self._key, self.plan.session
        if key is None or not key.name or self.lowered is None or self.calls is None:
            return False
        if self.lowered.divided:  # the next process may compile more
            return False
        if session.closed or (self._stored is None and len(self.partitions) != 1):
            return False
        with self._building, collection_paused():
            again = plan_key(session, self.plan.spec(self.feed_shapes))
            if again.name != key.name:
                return False
            data = stored_plan.to_bytes(
                self.lowered, self.calls, self._device, self._node_count, again
            )
            # so that no process reads it in vain
            stored_plan.from_bytes(memoryview(data), again, self.lowered.backend)
            # a closed session takes its graphs apart
            return not session.closed and stored_plan.write(again.name, data)

    def packed(self, name_of: Callable[[KernelSource], str]) -> tuple[str, bytes] | None:
        """Return the plan's name and contents for a pack, or None.

        name_of: the name of a kernel in the pack.
        """
        key = self._key
        if key is None or not key.name or self.lowered is None or self.calls is None:
            return None
        name = key.name_in_packs
        try:
            data = stored_plan.to_bytes(
                self.lowered, self.calls, self._device, self._node_count, key, name, name_of
            )
        except stored_plan.NotStorable as why:
            log.debug("plan %s is not packed: %s", self.plan.name, why)
            return None
        return name, data

    @property
    def _device(self) -> str:
        """Return the device of the only partition."""
        return self._stored.device if self._stored is not None else self.partitions[0].device

    @property
    def _node_count(self) -> int:
        """Return the number of nodes that passes left."""
        if self._stored is not None and not self.partitions:
            return self._stored.nodes
        return sum(len(partition.graph) for partition in self.partitions)

    def _store_later(self) -> None:
        """Store the plan in the background, behind the first run."""
        if self._key is None or not self._key.name or self._made_ms < stored_plan.LEAST_MS:
            return
        found = weakref.ref(self)

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
                variant._submit(store_it)

        timer = threading.Timer(_STORE_AFTER_S, submit)
        timer.daemon = True
        timer.start()

    def _passes_pay(self, known: PlanRecord | None) -> bool:
        """Return whether a big graph's first run waits for its passes.

        Else the unoptimised graph is made ready for the dataflow executor.
        """
        if known is not None and first_run.record_pays(known, self._once):
            return True
        plan, session = self.plan, self.plan.session
        with collection_paused():
            partitions, _ = plan.build(self.feed_shapes, quick=True)
            present: frozenset[str] = frozenset()
            if len(partitions) == 1:
                graph = partitions[0].graph
                backend = session.devices.lookup(partitions[0].device).backend
                try:
                    if backend.lowers:
                        if known is None and first_run.passes_pay(
                            graph, backend, self._batch(), self._once
                        ):
                            graph.dissolve()
                            return True
                        present = first_run.nodes_with_kernels(graph, backend)
                # a builder's bug must not fail a run that does not need the builder
                except Exception as error:
                    log.debug("plan %s: %s", plan.name, error)
            self.partitions = partitions
            self.dataflow = session.dataflow_plan(partitions, present)
        return False

    def _request_heavy(self) -> None:
        """Request the kernels of an unoptimised graph's heavy nodes, for other processes."""
        session = self.plan.session
        if session.closed or len(self.partitions) != 1:
            return
        backend = session.devices.lookup(self.partitions[0].device).backend
        if not backend.lowers:
            return
        try:
            calls = first_run.heavy_calls(self.partitions[0].graph, backend)
            session.node_kernels.request(sources(call for _, call in calls))
        # a builder's bug: the run was served without it
        except Exception as error:
            log.debug("plan %s: %s", self.plan.name, error)

    def _batch(self) -> int:
        """Return the first size of a feed, a guess of unknown sizes."""
        return next((shape[0] or 1 for shape in self.feed_shapes if shape), 1)

    def _start_compiled(self, known: PlanRecord | None) -> bool:
        """Take a step of the present kernels if that pays soon.

        known: the record of an earlier process.
        """
        assert self.lowered is not None
        try:
            with self._timed():
                if not (
                    first_run.record_pays(known, self._once)
                    if known is not None and self._once
                    else known is not None or self._builders_pay(self.lowered)
                ):
                    return False
                self.select_kernels()
                self._load_present()
                if not first_run.enough_is_loaded(self.lowered):
                    return False
                arrived = self._arrived()
                step = self._make_step()
        # a builder's bug: `_upgrade` meets the error again, and reports it
        except Exception as error:
            log.debug("plan %s: %s", self.plan.name, error)
            return False
        self._installed = arrived
        if self._may_improve():
            self.step = step  # not `inline`: its first run starts the upgrade
        else:
            self._take(step)
            drop_member_calls(self.lowered, _lacks)
            self.compile_done.set()
            self._store_later()
        return True

    def _builders_pay(self, lowered: Lowered) -> bool:
        """Return whether a first run without a record waits for calls."""
        return first_run.builders_pay(lowered, self._once)

    def _compile(self) -> None:
        """Build all calls and wait for their code."""
        assert self.lowered is not None
        self.select_kernels()
        store.compile(sources(all_calls(self.lowered)), refusals=True)
        while missing := self._divide_refused():
            store.compile(missing, refusals=True)

    @property
    def built_ms(self) -> float:
        """Return the processor time of passes, builders and layouts so far."""
        return self._made_ms

    def upgrade(self) -> None:
        """Start to replace the reference kernels, once; return at once."""
        with self._lock:
            job, self._later = self._later, None
        if job is None:
            return

        def unless_put_off() -> None:
            if not self._put_off(job):
                job()

        upgrades.started(self)
        self._submit(unless_put_off)

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

    def _submit(self, job: Callable[[], None]) -> None:
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

    def release(self) -> None:
        """Break the reference cycles of the variant after the session is closed.

        Reports stay readable.
        """
        with self._lock:
            self._later = None
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

    def _take(self, step: Step) -> None:
        self.step = step
        self.inline = None if step.needs_context else step

    @contextmanager
    def _timed(self) -> Iterator[None]:
        began = time.thread_time()
        try:
            with collection_paused():
                yield
        finally:
            self._made_ms += (time.thread_time() - began) * 1e3

    def _load_present(self) -> None:
        """Load present kernels, and those of members for groups without theirs."""
        assert self.lowered is not None
        store.load_present(sources(all_calls(self.lowered)))
        made = add_member_calls(self.lowered, _lacks)
        store.load_present(sources(made))
        if made and self.report is not None and self.report.folder is not None:
            from tfjit.runtime.step.dumps import dump_kernels

            dump_kernels(self.report.folder, self.lowered.instructions)

    def _arrived(self) -> int:
        """Return the number of loaded kernels that the variant's calls need."""
        assert self.lowered is not None
        calls = [*all_calls(self.lowered), *(i.unfused for i in self.lowered.instructions)]
        return sum(map(_is_loaded, sources(calls)))

    def _missing(self) -> list[KernelSource]:
        """Return the kernels that may still arrive, the most valuable first."""
        assert self.lowered is not None
        wanted = most_valuable_first(self.lowered, _is_loaded)
        return [source for source in wanted if not store.are_final([source])]

    def _may_improve(self) -> bool:
        """Return whether kernels may arrive, or others may replace refused ones."""
        assert self.lowered is not None
        return bool(self._missing()) or bool(refused_instructions(self.lowered, store))

    def _divide_refused(self) -> list[KernelSource]:
        """Divide refused groups; return the kernels of parts to wait for.

        With none to wait for, `lowered` holds the parts.
        """
        lowered = self.lowered
        assert lowered is not None
        if not refused_instructions(lowered, store):
            return []
        if self._part_calls is None:
            self._part_calls = CallMemo(lowered.backend)
        made, missing = divide_refused(lowered, self._part_calls, store)
        if made is not lowered:
            self.calls = finish_selection(made, self.plan.session.split_threads)
            self.lowered, self._part_calls, self._installed = made, None, -1
            if settings.flag("TFJIT_VERIFY"):
                from tfjit.runtime.lowering.verifier import verify_lowered

                verify_lowered(made)
            for group in made.divided:
                settings.say(
                    "kernels", "plan %s: %s is divided: %s", self.plan.name, group.node, group.parts
                )
            return [source for source in sources(all_calls(made)) if not store.are_final([source])]
        return missing

    def _optimize(self) -> None:
        """Run the passes and lower the result."""
        with self._timed():
            self._run_passes()

    def _run_passes(self) -> None:
        plan, session = self.plan, self.plan.session
        self.partitions, self.report = plan.build(self.feed_shapes)
        if not session.straight_line:
            self.dynamic_reason = "the straight-line step is turned off"
        elif len(self.partitions) > 1:
            self.dynamic_reason = f"{len(self.partitions)} partitions"
        elif not (backend := session.devices.lookup(self.partitions[0].device).backend).lowers:
            self.dynamic_reason = f"the {backend.name} backend runs node by node"
        else:
            try:
                self.lowered = plan.lower(self.partitions[0], self.feed_shapes)
            except NotStatic as why:
                self.dynamic_reason = str(why)
            else:
                if settings.flag("TFJIT_VERIFY"):
                    from tfjit.runtime.lowering.verifier import verify_lowered

                    verify_lowered(self.lowered)
                if self.report.folder is not None:
                    from tfjit.runtime.step.dumps import dump_lowered

                    dump_lowered(self.report.folder, self.lowered)
        if self.dynamic_reason:
            settings.say(
                "executor",
                "plan %s: run by the dataflow executor: %s",
                plan.name,
                self.dynamic_reason,
            )
        if self.dynamic_reason and session.config is not None and session.config.run_graph_mode:
            log.warning(
                "run_graph_mode: the dataflow executor runs plan %s: %s",
                plan.name,
                self.dynamic_reason,
            )

    def _split(self) -> None:
        """Find fed sizes; split the plan at nodes of unknown output sizes."""
        try:
            if not self.plan.session.closed:
                self.plan.find_fed_sizes(self.partitions, self.feed_shapes)
                self.plan.split(self.feed_shapes)
        except BaseException as error:
            self._fail(error)
        self.compile_done.set()

    def _optimize_and_upgrade(self) -> None:
        if self.plan.session.closed:
            return
        try:
            if self.plan.split(self.feed_shapes):
                self.compile_done.set()
                return
            self._optimize()
            if self.lowered is None:
                self.plan.find_fed_sizes(self.partitions, self.feed_shapes)
                self.dataflow = self.plan.session.dataflow_plan(self.partitions)
                self.compile_done.set()
                return
        # The unoptimised graph continues to serve, and reports a wrong node when it runs.
        except BaseException as error:
            self._fail(error)
            return
        if not self._put_off(self._upgrade):
            self._upgrade()

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
                self._later = self._upgrade if self.lowered is not None else None
            if self.lowered is None:
                self.dataflow = self.plan.session.dataflow_plan(self.partitions)
                self.compile_done.set()
        # the background thread is running the passes
        elif self.lowered is None and not self.dynamic_reason:
            self.compile_done.wait()
            if self.failure is not None:
                raise self.failure

    def select_kernels(self) -> None:
        """Ask the builders, once, for compiled code of the instructions.

        The selected kernels are dumped if dumps are on.
        """
        assert self.lowered is not None
        with self._building:
            if self.calls is not None:
                return
            self.calls = select_kernels(self.lowered, self.plan.session.split_threads)
        if self.report is not None and self.report.folder is not None:
            from tfjit.runtime.step.dumps import dump_kernels, dump_lowered

            dump_lowered(self.report.folder, self.lowered)
            dump_kernels(self.report.folder, self.lowered.instructions)

    def _make_step(self) -> Step:
        assert self.lowered is not None
        session = self.plan.session
        env = session.step_environment(self._device)
        folder = self.report.folder if self.report is not None else None
        step = Step(self.lowered, replace(env, dump_folder=folder), self.plan.name)
        if folder is not None:
            from tfjit.runtime.step.dumps import dump_step

            dump_step(folder, step)
        if settings.logs("kernels"):
            self._say_kernels(step)
        return step

    def _say_kernels(self, step: Step) -> None:
        """Log the kernel of each instruction of a step."""
        assert self.lowered is not None
        for instruction in self.lowered.instructions:
            if instruction.role is None:
                call = step.call(instruction)
                titles = (
                    dict.fromkeys(launch.source.title or launch.entry for launch in call.launches)
                    if call is not None
                    else ()
                )
                node = f"{instruction.node_path} ({instruction.node.op})"
                why = "; ".join(titles) or instruction.reason
                settings.say(
                    "kernels",
                    "plan %s: %s: %s %s",
                    self.plan.name,
                    node,
                    step.serving(instruction),
                    why,
                )

    def _upgrade(self) -> None:
        """Install a step of present kernels, and request the others."""
        if self.plan.session.closed:
            return
        try:
            with self._timed():
                self.select_kernels()
                self._load_present()
                missing = self._missing()
            store.request(missing)
            self._advance(missing, _FIRST_CHUNK)
            if not self.compile_done.is_set() and self._stored is None:
                self._store_later()  # kernels may take longer than the process lives
        # A builder's bug must not end the thread that serves all sessions.
        except BaseException as error:
            self._fail(error)

    def _advance(self, missing: list[KernelSource], count: int) -> None:
        """Install a step of arrived kernels; wait for `count` missing ones."""
        missing = [source for source in missing if not store.are_final([source])]
        try:
            if not missing:
                self._finish()
                return
            if self._installed != self._arrived():
                with collection_paused():
                    self._install_step()
        except BaseException as error:
            self._fail(error)
            return
        self._when_ready(missing[:count], Variant._advance, missing[count:], 2 * count)

    def _finish(self) -> None:
        """Install the last step, with parts in the place of refused groups."""
        assert self.lowered is not None
        with self._timed():
            missing = self._divide_refused()
        if missing:
            store.request(missing)
            self._advance(missing, len(missing))
            return
        with self._timed():
            if self._installed != self._arrived() or self.step is None:
                self._install_step()
            elif not self.plan.session.closed:
                self._take(self.step)
        drop_member_calls(self.lowered, _lacks)
        kernels = sources(all_calls(self.lowered))
        if self._fingerprint and kernels and all(map(_is_loaded, kernels)):
            plan_warm_start.write(self._fingerprint, kernels, self._made_ms, self._slow_ms)
        self._store_later()  # with the names of all kernels
        self.compile_done.set()

    def _when_ready(
        self, sources: list[KernelSource], job: Callable[..., None], *args: Any
    ) -> None:
        """Submit the job for a live variant once its sources are settled.

        Pending code must not keep a session alive.
        """
        found = weakref.ref(self)

        def submit() -> None:
            variant = found()
            if variant is not None:
                variant._submit(lambda: job(variant, *args))

        store.when_ready(sources, submit)

    def _install_step(self) -> None:
        if not self.plan.session.closed:
            arrived = self._arrived()
            self._take(self._make_step())
            self._installed = arrived
            if self.plan.variants.get(self.feed_shapes) is self:  # type: ignore[arg-type]
                self.charge()

    def _fail(self, error: BaseException) -> None:
        # In a closed session the job ran into the closing, and the error would keep freed objects
        # alive.
        if not self.plan.session.closed:
            self.failure = error
            log.error(
                "plan %s stays on reference kernels: %s", self.plan.name, error, exc_info=error
            )
        self.compile_done.set()

    def refused(self) -> list[tuple[str, str]]:
        """Return (node, reason) of each refused compilation.

        The parts of a divided group serve it. A node that is not divided is compiled in
        another way, or stays on its reference.
        """
        found = [
            (one.node, f"{one.reason}; {one.remedy}")
            for one in (self.lowered.divided if self.lowered is not None else ())
        ]
        for instruction in self.lowered.instructions if self.lowered is not None else ():
            for source in instruction.call.sources() if instruction.call is not None else ():
                why = store.refused(source)
                if why:
                    found.append((instruction.node.name, why))
        return found

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
                    self._submit(self._request_heavy)
                else:
                    self.upgrade()
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


__all__ = ["QUICK_NODES", "Variant"]
