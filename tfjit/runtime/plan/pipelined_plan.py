"""Run a plan in stages.

The stages are those of passes/partitioning/split_stages.py and split_dynamic.py. The dataflow
executor runs the blocking nodes and those of unknown output sizes. Compiled steps run the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfjit.framework import settings
from tfjit.framework.op_defs.op_traits import VARIABLE
from tfjit.runtime.executor.dataflow_executor import copy_out
from tfjit.runtime.lowering.lowered import Lowered
from tfjit.runtime.lowering.lowering import NotStatic
from tfjit.runtime.plan.plan import Plan
from tfjit.runtime.plan.variant import Variant
from tfjit.runtime.resources.variables_and_resources import VARIABLE_EPOCH, Variable

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType
    from tfjit.framework.types.shape import Shape
    from tfjit.passes.ir.dataflow_graph import DataflowGraph
    from tfjit.passes.partitioning.split_stages import Stage
    from tfjit.passes.pipeline import Partition, RunSpec
    from tfjit.runtime.host.inter_op_pool import ThreadPool
    from tfjit.runtime.plan.host import PlanHost

MAX_SHAPES: Final = 16
"""Number of shape tuples that a stage is compiled for.

Values of further shapes run node by node.
"""
_MAX_COUNTED: Final = 1000
"""Number of shape tuples with a count of requests, at most."""


class StagePlan(Plan):
    """Serve one stage of a run.

    by_node: the dataflow executor runs the stage. varies: the stage is compiled for shapes that
    recur, and for symbolic sizes; other shapes run node by node until then. shapes: those of
    its feeds as far as the graph knows them.
    """

    def __init__(
        self,
        session: PlanHost,
        stage: Stage,
        dtypes: Sequence[DType],
        shapes: tuple[Shape, ...],
        note: str,
    ) -> None:
        super().__init__(session, stage.feeds, stage.fetches, stage.targets, dtypes)
        self.by_node = stage.by_node
        self.varies = stage.varies
        self.size = len(stage.members)
        self.shapes = shapes
        self.note = note
        self._stage = stage
        self._requests: dict[tuple[tuple[int, ...], ...], int] = {}

    def spec(self, feed_shapes: Sequence[Shape]) -> RunSpec:
        return replace(super().spec(feed_shapes), cut=self._stage.cut)

    def lower(self, partition: Partition, feed_shapes: Sequence[Shape]) -> Lowered:
        if self.by_node:
            raise NotStatic("a stage of nodes that may wait, or have outputs of unknown sizes")
        return super().lower(partition, feed_shapes)

    def may_be_split(self) -> bool:
        """Return False: a run is split as a whole."""
        return False

    def with_feed_values(self, values: Mapping[str, np.ndarray]) -> StagePlan:
        made = StagePlan(self.session, self._stage, self.dtypes, self.shapes, self.note)
        made.feed_values = values
        return made

    def is_ready(self, shapes: tuple[tuple[int, ...], ...]) -> bool:
        """Return whether compiled code serves these feed shapes.

        A question counts as a run of the stage with these shapes.
        """
        found = self.variants.get(shapes)
        if found is not None and found.inline is not None:
            return True
        if self.generic is not None and self.generic.ready:
            return True
        if not self.varies:
            return super().is_ready(shapes)
        if found is None and len(self.variants) < MAX_SHAPES:
            self._count_request(shapes)
        return False

    def run_stage(self, values: Sequence[Any], pool: ThreadPool | None) -> list[Any]:
        """Return the stage's results.

        values: in feed order, in the form of a run's results.
        """
        arrays = self.check([as_array(value) for value in values])
        shapes = tuple([array.shape for array in arrays])
        if self.by_node:
            with self.session.step_context() as context:
                context.as_arrays = True
                return self._open_variant().run(arrays, context, pool)
        if self.fed_sizes is not None:
            sized = self.fed_sizes.plan(self, arrays, shapes)
            if sized is not None:
                assert isinstance(sized, StagePlan)
                return sized.run_stage(arrays, pool)
        found = self.variants.get(shapes)
        if not self.varies:
            results = self._run_generic(shapes, arrays)
            if results is not None:
                return results
        generic = self.generic
        if generic is not None and generic.ready and (found is None or found.inline is None):
            results = generic.run(shapes, arrays)
            if results is not None:
                return results
        if found is None:
            found = self._variant_for_run(shapes)
        return found.run(arrays, None, pool)

    def _variant_for_run(self, shapes: tuple[tuple[int, ...], ...]) -> Variant:
        """Return a new variant for these shapes, or that for any."""
        if len(self.variants) >= MAX_SHAPES:
            self._count_shapes(shapes)
            return self._open_variant()
        if not self.varies:
            return self.variant(shapes)
        self._count_request(shapes)
        return self._open_variant()

    def _count_request(self, shapes: tuple[tuple[int, ...], ...]) -> None:
        """Count a run without a variant; prepare one for the second."""
        count = self._requests.get(shapes, 0) + 1
        if count > 1 or len(self._requests) < _MAX_COUNTED:
            self._requests[shapes] = count
        self._count_shapes(shapes)
        if count == 2:
            self.prepare(shapes)

    def _open_variant(self) -> Variant:
        """Return the variant for feeds of any sizes."""
        return self.variant(self.shapes)  # type: ignore[arg-type]

    def _count_shapes(self, shapes: tuple[tuple[int, ...], ...]) -> None:
        if shapes != self.shapes:
            super()._count_shapes(shapes)


class Stages:
    """Hold the stages of a run.

    plans: in execution order; fetches of a stage feed later ones. variables: of all stages.
    """

    def __init__(
        self,
        plan: Plan,
        plans: Sequence[StagePlan],
        variables: Sequence[Variable],
    ) -> None:
        self.plans = tuple(plans)
        self._feeds, self._fetches = plan.feeds, plan.fetches
        self._variables = tuple(variables)
        self._known_buffers = 0  # `VARIABLE_EPOCH` when each variable was last seen to have a value

    @property
    def largest(self) -> StagePlan:
        """Return the compiled stage with the most nodes, for reports."""
        return max(
            (stage for stage in self.plans if not stage.by_node),
            key=lambda stage: stage.size,
            default=self.plans[-1],
        )

    def are_initialized(self) -> bool:
        """Return whether each variable has a value.

        While a variable has none, the plan runs unstaged: such a run is an error or an
        initialisation, and neither has to wait for a queue.
        """
        buffers = VARIABLE_EPOCH[0]
        if buffers != self._known_buffers:
            if any(variable.value is None for variable in self._variables):
                return False
            self._known_buffers = buffers
        return True

    def run(self, values: Sequence[Any], pool: ThreadPool | None) -> list[Any]:
        """Run all stages in order; return the fetched values."""
        known = dict(zip(self._feeds, values, strict=True))
        on_edges: set[str] = set()  # arrays that the runtime may hold as well
        with pool.working() if pool is not None and pool.slots is not None else nullcontext():
            for stage in self.plans:
                results = stage.run_stage([known[name] for name in stage.feeds], pool)
                if stage.by_node:
                    on_edges.update(stage.fetches)
                known.update(zip(stage.fetches, results, strict=True))
        return [
            copy_out(known[name]) if name in on_edges else known[name] for name in self._fetches
        ]


class StagedPlan(Plan):
    """Serve a run in stages from the start.

    The plan's own variants serve runs with options, which observe the run as a whole.
    """

    def lower(self, partition: Partition, feed_shapes: Sequence[Shape]) -> Lowered:
        raise NotStatic("its nodes may wait")


def as_array(value: Any) -> np.ndarray:
    """Return a value in the form that a later stage is fed."""
    return (
        value
        if isinstance(value, np.ndarray)
        else np.array(value, object if isinstance(value, (bytes, str)) else None)
    )


def staged_plan(
    session: PlanHost,
    feeds: tuple[str, ...],
    fetches: tuple[str, ...],
    targets: tuple[str, ...],
    dtypes: Sequence[DType],
) -> StagedPlan | None:
    """Return the plan of a run that is worth splitting, else None.

    The caller holds the graph's lock, and has found an op that may start a stage.
    """
    from tfjit.passes.ir.run_spec import RunSpec
    from tfjit.passes.partitioning.split_dynamic import MAX_SPLITS, sized_by_values, split_again
    from tfjit.passes.partitioning.split_stages import split_stages
    from tfjit.runtime.kernel_api.op_kernel import is_blocking

    graph = session.graph
    assert graph is not None
    stages, why = split_stages(
        graph,
        RunSpec(feeds, fetches, targets),
        lambda node: is_blocking(node.op),
        overlaps=session.pool().num_threads > 1,
    )
    if not stages:
        settings.say("executor", "run of %s: not in stages: %s", ",".join(fetches)[:80], why)
        return None
    whole = RunSpec(feeds, fetches, targets)
    parts: list[Stage] = []
    for stage in stages:
        splits = repeat(sized_by_values, 0 if stage.by_node else MAX_SPLITS)
        parts += split_again(graph, stage.spec(whole), splits) or [stage]
    plan = StagedPlan(session, feeds, fetches, targets, dtypes)
    plan.stages = connected_stages(plan, graph, parts)
    return plan


def connected_stages(plan: Plan, graph: DataflowGraph, stages: Sequence[Stage]) -> Stages:
    """Return the stages of a plan.

    graph: the session's.
    """
    from tfjit.passes.ir.run_spec import parse_tensor_name

    known = dict(zip(plan.feeds, plan.dtypes, strict=True))
    plans = []
    for i, stage in enumerate(stages):
        tensors = [(graph.node(node), slot) for node, slot in map(parse_tensor_name, stage.feeds)]
        types = [
            known.get(name, node.output_dtypes[slot].base_dtype)
            for name, (node, slot) in zip(stage.feeds, tensors, strict=True)
        ]
        note = f"stage {i + 1} of {len(stages)}" + (
            f", behind {', '.join(sorted(stage.cut))[:80]}" if stage.cut else ""
        )
        made = StagePlan(
            plan.session,
            stage,
            types,
            tuple(node.output_shapes[slot] for node, slot in tensors),
            note,
        )
        made.feed_values = {
            name: value for name, value in plan.feed_values.items() if name in stage.feeds
        }
        plans.append(made)
    members = {name for stage in stages for name in stage.members}
    sources = {source for name in members for source, _ in graph.inputs(name)}
    variables = [
        plan.session.find_variable(graph.node(name))
        for name in sorted(sources)
        if graph.node(name).has_trait(VARIABLE)
    ]
    return Stages(plan, plans, variables)
