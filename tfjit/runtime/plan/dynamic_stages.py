"""Split a run at the nodes of unknown output sizes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from itertools import repeat
from typing import TYPE_CHECKING, Final

from tfjit.framework import settings
from tfjit.framework.gc_pause import collection_paused
from tfjit.passes.ir.run_spec import parse_tensor_name
from tfjit.passes.ir.subgraph import needed_nodes
from tfjit.runtime.kernel_api.op_kernel import is_blocking
from tfjit.runtime.plan.pipelined_plan import Stages, connected_stages

if TYPE_CHECKING:
    from tfjit.framework.types.shape import Shape
    from tfjit.passes.ir.dataflow_graph import DataflowGraph
    from tfjit.passes.ir.run_spec import RunSpec
    from tfjit.passes.partitioning.split_stages import Stage
    from tfjit.runtime.plan.plan import Plan

_SAMPLE: Final = 37
"""Size of every unknown dimension, for shape inference behind a split."""


def find_splits(plan: Plan, shapes: Sequence[Shape]) -> list[set[str]]:
    """Return the nodes of a plan's splits, one set a split.

    The passes say which output sizes stay unknown. shapes: of the feeds. The last stage is split
    again where its own nodes have unknown sizes.
    """
    from tfjit.passes.partitioning.split_dynamic import MAX_SPLITS

    spec: RunSpec | None = plan.spec(shapes)
    splits: list[set[str]] = []
    while spec is not None and len(splits) < MAX_SPLITS:
        with collection_paused():
            roots, spec = _next_split(plan, spec)
        if roots:
            splits.append(roots)
    return splits


def declared_stages(plan: Plan) -> Stages | None:
    """Return the stages at ops with the trait SIZED_BY_VALUES, or None.

    No pass runs.
    """
    from tfjit.passes.partitioning.split_dynamic import MAX_SPLITS, sized_by_values

    return _stages(plan, repeat(sized_by_values, MAX_SPLITS))


def recorded_stages(plan: Plan, splits: Sequence[Collection[str]]) -> Stages | None:
    """Return the stages of splits by `find_splits`, or None."""

    def recorded(names: Collection[str]) -> Callable[[DataflowGraph, RunSpec], set[str]]:
        return lambda graph, spec: set(names)

    return _stages(plan, map(recorded, splits))


def _stages(
    plan: Plan, splits: Iterable[Callable[[DataflowGraph, RunSpec], set[str]]]
) -> Stages | None:
    """Return the stages of a plan, or None."""
    from tfjit.passes.partitioning.split_dynamic import split_again

    session = plan.session
    with session.graph_lock:
        graph = session.graph
        if graph is None:
            return None
        spec = plan.spec_of_any_shapes()
        if any(is_blocking(graph.node(name).op) for name in needed_nodes(graph, spec)[0]):
            return None
        stages = split_again(graph, spec, splits)
        if not stages:
            return None
        made = connected_stages(plan, graph, stages)
    sizes = ", ".join(str(len(stage.members)) for stage in stages)
    settings.say("executor", "plan %s: %d stages of %s nodes", plan.name, len(stages), sizes)
    return made


def _next_split(plan: Plan, spec: RunSpec) -> tuple[set[str], RunSpec | None]:
    """Return the roots of a run, and the spec behind them.

    The run may be a stage. The set is empty, or the spec None, where nothing is left to split.
    """
    from tfjit.passes.partitioning.split_dynamic import dynamic_nodes, split_dynamic, with_merged

    session = plan.session
    partitions, _ = session.build_partitions(spec, fuses=False)
    try:
        optimized = partitions[0].graph
        why = f"{len(partitions)} partitions" if len(partitions) != 1 else ""
        for name in optimized.topological_order():
            if is_blocking(optimized.node(name).op):
                why = f"{name} may wait"
        with session.graph_lock:
            graph = session.graph
            if graph is None:
                return set(), None
            roots = with_merged(graph, spec, optimized, dynamic_nodes(optimized))
            found: list[Stage] = []
            if not why:
                found, why = split_dynamic(graph, spec, roots)
            if not found:
                settings.say("executor", "plan %s: no further stages: %s", plan.name, why)
                return set(), None
            return roots, None if found[-1].by_node else _sampled(graph, optimized, spec, found[-1])
    finally:
        for partition in partitions:
            partition.graph.dissolve()


def _sampled(graph: DataflowGraph, inferred: DataflowGraph, spec: RunSpec, stage: Stage) -> RunSpec:
    """Return the spec of a stage with samples of unknown sizes.

    inferred: the run's graph behind the passes.
    """
    types = {}
    for name in stage.feeds:
        known = spec.feed_types.get(name)
        if known is None:
            node, output = parse_tensor_name(name)
            source = (inferred if node in inferred else graph).node(node)
            shape = source.output_shapes[output]
            if shape is not None:
                shape = tuple(_SAMPLE if size is None else size for size in shape)
            known = source.output_dtypes[output].base_dtype, shape
        types[name] = known
    return replace(stage.spec(spec), feed_types=types)
