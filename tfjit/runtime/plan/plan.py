"""Serve one signature (feeds, fetches, targets) by variants for feed shapes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework import errors
from tfjit.framework.types.device_ends import ON_HOST, DeviceEnds
from tfjit.framework.types.dtypes import as_dtype
from tfjit.runtime.host.fork_safety import release_lock
from tfjit.runtime.kernel_api.op_kernel import StepContext
from tfjit.runtime.lowering.lowered import Lowered
from tfjit.runtime.lowering.lowering import lower
from tfjit.runtime.plan import upgrades
from tfjit.runtime.plan.background import BACKGROUND, HURRIED_SHARE
from tfjit.runtime.plan.met_shapes import MetShapes
from tfjit.runtime.plan.split_search import SplitSearch, split_before_runs
from tfjit.runtime.plan.variant import Variant
from tfjit.runtime.resources.device_allocation import AllocatedTensor, allocating
from tfjit.runtime.resources.device_tensor import DeviceTensor
from tfjit.runtime.stored_plans import stored_plan
from tfjit.runtime.stored_plans.plan_key import PlanKey, plan_key

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType
    from tfjit.framework.types.shape import Shape
    from tfjit.passes.ir.dataflow_graph import DataflowGraph
    from tfjit.passes.pipeline import Partition, PipelineReport, RunSpec
    from tfjit.runtime.host.inter_op_pool import ThreadPool
    from tfjit.runtime.plan.fed_sizes import FedSizes
    from tfjit.runtime.plan.generic_variant import GenericVariant
    from tfjit.runtime.plan.host import PlanHost, Survey
    from tfjit.runtime.plan.pipelined_plan import Stages

log = logging.getLogger("tfjit.plan")

MAX_VARIANTS = 64


class Plan:
    """Hold the variants of one signature.

    feeds and fetches are tensor names in a fixed order. dtypes are those of the feeds.
    feed_values: feeds that have the same value in all runs, by name. fed_sizes: the plans for
    values of feeds that decide shapes.
    """

    variant_class: type[Variant] = Variant
    max_variants = MAX_VARIANTS
    may_be_stored = True  # its variants follow from the graph, the spec and the session
    may_be_generic = True  # feed shapes are all that tells its variants apart
    has_shifted_sizes = False  # feeds' sizes may have constant differences
    specializes = True  # a size that recurs gets an ordinary variant beside the generic one

    def __init__(
        self,
        session: PlanHost,
        feeds: tuple[str, ...],
        fetches: tuple[str, ...],
        targets: tuple[str, ...],
        dtypes: Sequence[DType],
        connections: tuple[tuple[str, str], ...] = (),
        ends: DeviceEnds = ON_HOST,
    ) -> None:
        self.session = session
        self.feeds, self.fetches, self.targets = feeds, fetches, targets
        self.connections = connections
        self.ends = ends
        self.dtypes = tuple(dtypes)
        self._devices = dict(ends.feeds)
        self.np_dtypes = tuple(
            np.dtype(d.as_numpy_dtype)
            if d.is_numpy_compatible and name not in self._devices
            else None
            for name, d in zip(feeds, self.dtypes, strict=True)
        )
        if ends:
            self.may_be_stored = self.may_be_generic = False
        self.name = f"{','.join(feeds)}->{','.join(fetches)}/{','.join(targets)}"[:80]
        self.note = ""  # the part of a run that the plan serves, "" for the whole
        self.variants: dict[tuple[tuple[int, ...], ...], Variant] = {}
        self.observed_steps = 0
        self.generic: GenericVariant | None = None
        self.pending_generic: GenericVariant | None = None  # its code compiles
        self.generic_lock = threading.Lock()
        self.generic_refused = False  # no generic variant comes
        self.stages: Stages | None = None
        self.feed_values: Mapping[str, np.ndarray] = {}
        self.fed_sizes: FedSizes | None = None
        self._awaited: set[tuple[tuple[int, ...], ...]] = set()  # `is_ready` was asked for these
        self._is_new = True  # no run has looked for stages yet
        self.met = MetShapes()
        self._split_search = SplitSearch()
        # of the newest feed shapes, until a variant takes it
        self._key: tuple[tuple[Shape, ...], PlanKey] | None = None
        self._lock = threading.Lock()

    def spec(self, feed_shapes: Sequence[Shape]) -> RunSpec:
        """Return the RunSpec of a run with these feed shapes."""
        from tfjit.passes.ir.run_spec import RunSpec

        types = {
            name: (dtype, shape)
            for name, dtype, shape in zip(self.feeds, self.dtypes, feed_shapes, strict=True)
        }
        return RunSpec(
            feeds=self.feeds,
            fetches=self.fetches,
            targets=self.targets,
            feed_types=types,
            connections=self.connections,
            feed_values=self.feed_values,
            ends=self.ends,
        )

    def spec_of_any_shapes(self) -> RunSpec:
        """Return the RunSpec of runs with the shapes of the graph."""
        from tfjit.passes.ir.run_spec import RunSpec

        return RunSpec(
            self.feeds,
            self.fetches,
            self.targets,
            connections=self.connections,
            feed_values=self.feed_values,
            ends=self.ends,
        )

    def survey(self, feed_shapes: Sequence[Shape]) -> Survey:
        """Return the facts of a run that decide on its first run."""
        return self.session.survey(self.spec(feed_shapes))

    def build(
        self, feed_shapes: Sequence[Shape], quick: bool = False, sampled: bool = False
    ) -> tuple[list[Partition], PipelineReport]:
        """Return the partitions and the passes' report for these feed shapes.

        quick: run only the passes that make the graph runnable. sampled: the shapes stand for many.
        """
        spec = replace(self.spec(feed_shapes), sampled=sampled)
        return self.session.build_partitions(spec, quick)

    def shapes_of_nodes(
        self, samples: Sequence[Sequence[Shape]]
    ) -> tuple[DataflowGraph, list[dict[str, tuple[Shape, ...]]]]:
        """Return the run's unoptimised graph, and its nodes' shapes.

        samples: tuples of feed shapes; each has a mapping from nodes to the shapes of outputs.
        """
        from tfjit.passes.analysis.shape_inference import shapes_for
        from tfjit.passes.manager.pass_context import PassContext

        spec = replace(self.spec(samples[0]), feed_types={})
        partitions, _ = self.session.build_partitions(spec, quick=True)
        graph = partitions[0].graph
        context = PassContext(spec, self.session.pass_options())
        names = {node.attrs["index"]: node.name for node in graph.op_nodes() if node.op == "_Arg"}
        return graph, [
            shapes_for(graph, context, {names[k]: s for k, s in enumerate(shapes) if k in names})
            for shapes in samples
        ]

    def lower(self, partition: Partition, feed_shapes: Sequence[Shape]) -> Lowered:
        """Return the instructions of a run's only partition.

        Raises NotStatic.
        """
        backend = self.session.devices.lookup(partition.device).backend
        return lower(partition.graph, self.session.find_variable, len(self.feeds), backend=backend)

    def variant(self, shapes: tuple[tuple[int, ...], ...]) -> Variant:
        """Return the variant for these feed shapes; build a missing one."""
        found = self.variants.get(shapes)
        if found is not None:
            return found
        with self._lock:
            found = self.variants.get(shapes)
            if found is None:
                with self.session.settings():
                    found = self.variant_class(self, shapes)
                self.variants[shapes] = found
                found.charge()
                self._count_shapes(shapes)
                if len(self.variants) > self.max_variants:
                    others = [v for v in list(self.variants.values()) if v is not found]
                    dropped = max(others, key=lambda v: v.idle)
                    self.drop(dropped)
                    self.session.budget.forget(dropped)
            return found

    def has_stored_variant(self, shapes: tuple[tuple[int, ...], ...]) -> bool:
        """Return whether an earlier process stored a variant for these feed shapes."""
        if not (self.may_be_stored and stored_plan.are_used()):
            return False
        with self.session.settings():
            return stored_plan.is_stored(self.new_key(shapes).name)

    def new_key(self, shapes: tuple[Shape, ...]) -> PlanKey:
        """Return the key of these feed shapes, for `take_key`, too."""
        key = plan_key(self.session, self.spec(shapes))
        self._key = shapes, key
        return key

    def take_key(self, shapes: tuple[Shape, ...]) -> PlanKey:
        """Return the key of these feed shapes, perhaps one just made."""
        found, self._key = self._key, None
        if found is not None and found[0] == shapes:
            return found[1]
        return plan_key(self.session, self.spec(shapes))

    def key_of_all_sizes(self) -> PlanKey:
        """Return the key of the generic variant on disk.

        It has no `all_sizes` where none is ever stored.
        """
        if not self.may_be_stored:
            return PlanKey("")
        return plan_key(self.session, replace(self.spec_of_any_shapes(), sampled=True))

    def _count_shapes(self, shapes: tuple[tuple[int, ...], ...]) -> None:
        """Start the generic variant once the plan has met enough feed shapes."""
        self.met.count(self, shapes)

    def _meet(self, shapes: tuple[tuple[int, ...], ...]) -> None:
        """Count feed shapes; build the generic variant now if that is quick."""
        with self._lock:
            if shapes not in self.variants:
                self.met.meet(self, shapes)

    def with_feed_values(self, values: Mapping[str, np.ndarray]) -> Plan:
        """Return a new plan for runs that feed these values."""
        made = Plan(self.session, self.feeds, self.fetches, self.targets, self.dtypes)
        made.feed_values = values
        return made

    def is_ready(self, shapes: tuple[tuple[int, ...], ...]) -> bool:
        """Return whether a variant for these feed shapes is built.

        The first question starts to build it in the background.
        """
        found = self.variants.get(shapes)
        if found is not None:
            return found.inline is not None or found.compile_done.is_set()
        if self.stages is not None or (self.generic is not None and self.generic.ready):
            return True
        if shapes not in self._awaited and len(self._awaited) < self.max_variants:
            self._awaited.add(shapes)
            self.prepare(shapes)
        return False

    def may_be_split(self) -> bool:
        """Return whether the plan may be split at unknown sizes."""
        session = self.session
        return (
            self.stages is None
            and not self.connections
            and session.straight_line
            and session.stages
            and session.jit == "lazy"
            and len(session.devices.devices) == 1
        )

    def split(self, shapes: Sequence[Shape]) -> bool:
        """Split the plan at nodes of unknown output sizes.

        Returns whether runs go through stages from now on. shapes: of the feeds.
        """
        return self._split_search.split(self, shapes)

    def fingerprint_of_any_shapes(self) -> str:
        """Return the name of records that serve all feed shapes, or ""."""
        return self.session.survey(self.spec_of_any_shapes()).fingerprint

    def prepare(self, shapes: tuple[tuple[int, ...], ...]) -> None:
        """Build the variant for these feed shapes in the background.

        The compiled code is built too. Returns at once.
        """

        pending = upgrades.Job(self)

        def job() -> None:
            try:
                if not self.session.closed:
                    self.variant(shapes).upgrade(defers=True)
            # A run with these shapes meets the same error and reports it.
            except Exception as error:
                log.debug("plan %s: no variant for %s: %s", self.name, shapes, error)
            finally:
                pending.compile_done.set()

        upgrades.started(pending)
        BACKGROUND.submit(job, lambda: HURRIED_SHARE)

    def after_fork(self) -> None:
        """Reset locks in a forked child."""
        release_lock(self._lock)
        release_lock(self.generic_lock)
        self._split_search.after_fork()
        for generic in (self.generic, self.pending_generic):
            if generic is not None:
                generic.after_fork()
        for part in self._parts():
            part.after_fork()
        for variant in self.variants.values():
            variant.after_fork()

    def drop(self, variant: Variant) -> None:
        """Drop a variant; its shapes are built again when they recur."""
        self.variants.pop(variant.feed_shapes, None)  # type: ignore[arg-type]
        self._awaited.discard(variant.feed_shapes)

    def held(self) -> list[Variant]:
        """Return all variants as a copy.

        The copy is made in one step: `drop` takes no lock and is called from any thread.
        """
        return [
            *self.variants.values(),
            *(variant for part in self._parts() for variant in part.held()),
        ]

    def _parts(self) -> Sequence[Plan]:
        """Return the plans that belong to this one."""
        stages = self.stages.plans if self.stages is not None else ()
        sized = list(self.fed_sizes.plans.values()) if self.fed_sizes is not None else ()
        return *stages, *sized

    def drop_all(self) -> list[Variant]:
        """Drop all variants and return them."""
        with self.generic_lock:
            generics = self.generic, self.pending_generic
            self.generic = self.pending_generic = None
        for generic in generics:
            if generic is not None:
                generic.release()
        dropped = list(self.variants.values())
        for variant in dropped:
            self.drop(variant)
            self.session.budget.forget(variant)
        for part in self._parts():
            dropped += part.drop_all()
        return dropped

    def for_values(self, values: Sequence[object]) -> Plan:
        """Return the plan for feeds of which some are device tensors.

        values: in feed order. Raises InvalidArgumentError for a device that is not the session's.
        """
        devices = {
            name: self.session.devices.name_of(value.accelerator)
            for name, value in zip(self.feeds, values, strict=True)
            if isinstance(value, DeviceTensor) and name not in self._devices
        }
        if not devices:
            return self
        feeds = tuple(sorted({**self._devices, **devices}.items()))
        ends = DeviceEnds(feeds, self.ends.fetches)
        return self.session.plan(self.feeds, self.fetches, self.targets, self.connections, ends)

    def check(self, values: Sequence[Any]) -> list[Any]:
        """Return the values as C-contiguous arrays, or as device tensors.

        values: in feed order; ndarrays, or other edge values for resources and variants.

        Raises InvalidArgumentError when an array has another dtype than its feed.
        """
        checked = []
        for name, value, dtype, np_dtype in zip(
            self.feeds, values, self.dtypes, self.np_dtypes, strict=True
        ):
            if np_dtype is None:
                checked.append(self._on_device(name, value) if name in self._devices else value)
                continue
            if value.dtype is not np_dtype and value.dtype != np_dtype:
                raise errors.InvalidArgumentError(
                    None,
                    None,
                    f"the value fed for {name} has dtype {value.dtype}, expected {dtype.name}",
                )
            checked.append(value if value.flags.c_contiguous else np.array(value, order="C"))
        return checked

    def run(
        self,
        values: Sequence[Any],
        context: StepContext | None = None,
        pool: ThreadPool | None = None,
    ) -> list[Any]:
        """Run one step.

        values: in the form that `check` takes. pool: for runs that no static step serves; None
        selects the session's first pool.
        """
        plan = self.for_values(values)
        if plan is not self:
            return plan.run(values, context, pool)
        if self.fed_sizes is not None and context is None:
            values = self.check(values)
            sized = self.fed_sizes.plan(self, values, tuple([value.shape for value in values]))
            if sized is not None:
                return sized.run(values, None, pool)
        elif self._is_new and context is None:
            return self._first_run(self.check(values), pool)
        if self.stages is not None and context is None and self.stages.are_initialized():
            return self.stages.run(values, pool)
        arrays = self.check(values)
        shapes = tuple([getattr(a, "shape", ()) for a in arrays])
        if context is None and pool is None:
            results = self._run_generic(shapes, arrays)
            if results is not None:
                return results
            self._split_search.split_for_run(self, shapes)
            if self.stages is not None and self.stages.are_initialized():
                return self.stages.run(arrays, pool)
        variant = self.variant(shapes)
        if pool is None or pool.slots is None:
            return variant.run(arrays, context, pool)
        with pool.working():
            return variant.run(arrays, context, pool)

    def _first_run(self, arrays: Sequence[object], pool: ThreadPool | None) -> list[Any]:
        """Read the records of earlier processes, and run the first step."""
        self._is_new = False
        split_before_runs(self)
        return self.run(arrays, None, pool)

    def _run_generic(
        self, shapes: tuple[tuple[int, ...], ...], arrays: Sequence[np.ndarray]
    ) -> list[np.ndarray] | None:
        """Run one step by the generic variant.

        Return None where it does not serve these feed shapes, or an ordinary variant is faster.
        """
        known = self.variants.get(shapes)
        if known is not None and known.is_stable:
            return None
        if known is None and self.met.seen is not None:
            self._meet(shapes)
        generic = self.generic
        return generic.run(shapes, arrays) if generic is not None and generic.ready else None

    def _on_device(self, name: str, value: np.ndarray | DeviceTensor) -> DeviceTensor:
        """Return a value in the memory of its feed's device."""
        accelerator = self.session.devices.accelerator(self._devices[name])
        assert accelerator is not None
        if isinstance(value, DeviceTensor):
            if value.accelerator is accelerator:
                return value
            value = value.numpy()
        tensor = AllocatedTensor(value.shape, as_dtype(value.dtype), name.rpartition(":")[0])
        with allocating(tensor, accelerator, self._devices[name]):
            return DeviceTensor.of_array(accelerator, value)
