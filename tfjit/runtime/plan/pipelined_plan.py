"""Run a plan in the stages of passes/partitioning/split_stages.py.

The dataflow executor runs the blocking nodes. Compiled steps run the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfjit.framework.op_defs.op_def import registry
from tfjit.framework.op_defs.op_traits import CALLS_PYTHON, VARIABLE
from tfjit.runtime.executor.dataflow_executor import copy_out
from tfjit.runtime.lowering.lowering import Lowered, NotStatic
from tfjit.runtime.plan.plan import Plan
from tfjit.runtime.plan.variant import Variant
from tfjit.runtime.resources.variables_and_resources import VARIABLE_EPOCH, Variable

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType
    from tfjit.framework.types.shape import Shape
    from tfjit.passes.partitioning.split_stages import Stage
    from tfjit.passes.pipeline import Partition, RunSpec
    from tfjit.runtime.host.inter_op_pool import ThreadPool
    from tfjit.runtime.kernel_api.op_kernel import StepContext
    from tfjit.runtime.plan.host import PlanHost

MAX_SHAPES: Final = 16
"""Number of shape tuples that a stage is compiled for.

Values of further shapes run node by node.
"""


class StagePlan(Plan):
    """Serve one stage of a run.

    dtypes, shapes: those of its feeds; the shapes as far as the graph knows them.
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
        self.waits = stage.waits
        self.size = len(stage.members)
        self.shapes = shapes
        self.note = note
        self._cut = stage.cut

    def spec(self, feed_shapes: Sequence[Shape]) -> RunSpec:
        return replace(super().spec(feed_shapes), cut=self._cut)

    def lower(self, partition: Partition, feed_shapes: Sequence[Shape]) -> Lowered:
        if self.waits:
            raise NotStatic("its nodes may wait")
        return super().lower(partition, feed_shapes)

    def variant(self, shapes: tuple[tuple[int, ...], ...]) -> Variant:
        found = self.variants.get(shapes)
        if found is not None:
            return found
        if self.waits or len(self.variants) >= MAX_SHAPES:
            # unknown sizes: one variant for all further shapes
            shapes = self.shapes  # type: ignore[assignment]
        return super().variant(shapes)


class StagedPlan(Plan):
    """Serve a run in stages.

    The plan's own variants serve runs with options, which observe the run as a whole.

    stages: in execution order; fetches of a stage feed later ones. variables: of all stages. While
    a variable has no value, the plan runs unstaged: such a run is an error or an initialisation,
    and neither has to wait for a queue.
    """

    def __init__(
        self,
        session: PlanHost,
        feeds: tuple[str, ...],
        fetches: tuple[str, ...],
        targets: tuple[str, ...],
        dtypes: Sequence[DType],
        stages: Sequence[StagePlan],
        variables: Sequence[Variable],
    ) -> None:
        super().__init__(session, feeds, fetches, targets, dtypes)
        self.stages = tuple(stages)
        self._variables = tuple(variables)
        self._known_buffers = 0  # `VARIABLE_EPOCH` when each variable was last seen to have a value

    @property
    def largest(self) -> StagePlan:
        """Return the non-blocking stage with the most nodes, for reports."""
        return max(
            (stage for stage in self.stages if not stage.waits),
            key=lambda stage: stage.size,
            default=self.stages[-1],
        )

    def run(
        self,
        values: Sequence[Any],
        context: StepContext | None = None,
        pool: ThreadPool | None = None,
    ) -> list[Any]:
        if context is not None or not self._initialized():
            return super().run(values, context, pool)
        with pool.working() if pool is not None and pool.slots is not None else nullcontext():
            return self._run_stages(dict(zip(self.feeds, values, strict=True)), pool)

    def lower(self, partition: Partition, feed_shapes: Sequence[Shape]) -> Lowered:
        raise NotStatic("its nodes may wait")

    def _initialized(self) -> bool:
        buffers = VARIABLE_EPOCH[0]
        if buffers != self._known_buffers:
            if any(variable.value is None for variable in self._variables):
                return False
            self._known_buffers = buffers
        return True

    def _run_stages(self, known: dict[str, Any], pool: ThreadPool | None) -> list[Any]:
        """Run all stages in order and return the fetched values.

        known: values by tensor name.
        """
        on_edges: set[str] = set()  # arrays that the runtime may hold as well
        for stage in self.stages:
            arrays = stage.check([_array(known[name]) for name in stage.feeds])
            variant = stage.variant(tuple([a.shape for a in arrays]))
            if stage.waits:
                with self.session.step_context() as context:
                    context.as_arrays = True
                    results = variant.run(arrays, context, pool)
                on_edges.update(stage.fetches)
            else:
                results = variant.run(arrays, None, pool)
            known.update(zip(stage.fetches, results, strict=True))
        return [copy_out(known[name]) if name in on_edges else known[name] for name in self.fetches]

    def held(self) -> list[Variant]:
        return [*super().held(), *(variant for stage in self.stages for variant in stage.held())]

    def after_fork(self) -> None:
        super().after_fork()
        for stage in self.stages:
            stage.after_fork()

    def drop_all(self) -> list[Variant]:
        return [
            *super().drop_all(),
            *(variant for stage in self.stages for variant in stage.drop_all()),
        ]


def _array(value: Any) -> np.ndarray:
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

    The caller holds the graph's lock.
    """
    from tfjit.passes.ir.run_spec import RunSpec, parse_tensor_name
    from tfjit.passes.partitioning.split_stages import split_stages
    from tfjit.runtime.kernel_api.op_kernel import is_blocking

    graph = session.graph
    assert graph is not None
    if not any(is_blocking(op) or registry.has_trait(op, CALLS_PYTHON) for op in graph.op_types):
        return None
    stages, _ = split_stages(
        graph,
        RunSpec(feeds, fetches, targets),
        lambda node: is_blocking(node.op),
        overlaps=session.pool().num_threads > 1,
    )
    if not stages:
        return None
    known = dict(zip(feeds, dtypes, strict=True))
    plans = []
    members = {name for stage in stages for name in stage.members}
    sources = {source for name in members for source, _ in graph.inputs(name)}
    variables = [
        session.find_variable(graph.node(name))
        for name in sorted(sources)
        if graph.node(name).has_trait(VARIABLE)
    ]
    for i, stage in enumerate(stages):
        tensors = [(graph.node(node), slot) for node, slot in map(parse_tensor_name, stage.feeds)]
        types = [
            known.get(name, node.output_dtypes[slot].base_dtype)
            for name, (node, slot) in zip(stage.feeds, tensors, strict=True)
        ]
        note = f"stage {i + 1} of {len(stages)}" + (
            f", behind {', '.join(sorted(stage.cut))[:80]}" if stage.cut else ""
        )
        plans.append(
            StagePlan(
                session,
                stage,
                types,
                tuple(node.output_shapes[slot] for node, slot in tensors),
                note,
            )
        )
    return StagedPlan(session, feeds, fetches, targets, dtypes, plans, variables)
