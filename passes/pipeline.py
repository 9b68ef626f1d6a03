"""Build a run's partitions by the passes of its pipeline."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from tfjit.framework.gc_pause import collection_paused
from tfjit.passes.analysis.argument_info import ArgumentInfo, copy_with_arguments
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.ir.function_library import Function
from tfjit.passes.ir.run_spec import RunSpec
from tfjit.passes.ir.subgraph import extract
from tfjit.passes.manager.pass_context import DeviceInfo, Pass, PassContext, PassOptions
from tfjit.passes.manager.pass_manager import PassManager, PassReport, PipelineReport
from tfjit.passes.manager.pipeline_spec import Pipeline, step_of
from tfjit.passes.manager.steps import Fixpoint, Item, Items, Step
from tfjit.passes.partitioning.partition import Partition, partition
from tfjit.passes.partitioning.place import raise_unplaced


def build(
    graph: DataflowGraph,
    spec: RunSpec,
    options: PassOptions | None = None,
    lock: AbstractContextManager[Any] | None = None,
) -> tuple[list[Partition], PipelineReport]:
    """Return the partitions of one run, with a report.

    graph: the session's whole graph, which stays unchanged; the nodes that the run needs are
    copied. Nodes without an assigned device are placed here.
    lock: held while the copy is made, so that a thread that extends the graph waits no longer
    than that.
    Raises TensorFlow's errors for a spec that does not fit the graph, and for nodes that cannot be
    placed or have contradictory shapes. A pass that breaks the graph or fails raises InternalError
    with the name of the pass.
    """
    with collection_paused():
        return _build(graph, PassContext(spec, options or PassOptions()), lock or nullcontext())


def build_body(
    function: Function, given: Sequence[ArgumentInfo], options: PassOptions | None = None
) -> tuple[list[Partition], PipelineReport]:
    """Return the partitions of a body for arguments of these shapes.

    The body itself stays unchanged. given: by index. Raises the errors that `build` raises.
    """
    with collection_paused():
        ctx = PassContext(options=options or PassOptions())
        graph = copy_with_arguments(function, given)
        # a body has its arguments and results as nodes
        passes = [item for item in _passes(ctx) if item != Step("lower_feeds")]
        return _finish(graph, ctx, passes, ctx.manager)


def shaped_body(
    function: Function, given: Sequence[ArgumentInfo], options: PassOptions | None = None
) -> DataflowGraph:
    """Return a copy of a body's graph with inferred shapes.

    given: as `build_body` takes it.
    """
    ctx = PassContext(options=options or PassOptions())
    graph = copy_with_arguments(function, given)
    inlined = [Step("inline_functions"), Step("functionalize"), Step("infer_shapes")]
    ctx.manager.run_pipeline(inlined, graph, ctx)
    return graph


def _build(
    graph: DataflowGraph, ctx: PassContext, lock: AbstractContextManager[Any]
) -> tuple[list[Partition], PipelineReport]:
    spec = ctx.spec
    runner = ctx.manager
    began = time.perf_counter()
    with lock:
        working = extract(graph, spec)
        raise_unplaced(graph, working)
        whole = graph.num_op_nodes
    runner.note("extract", began, whole, working.num_op_nodes)
    return _finish(working, ctx, _passes(ctx), runner)


def _passes(ctx: PassContext) -> Items:
    """Return the passes over a run's graph."""
    return ctx.manager.pipeline.section(ctx.options.section)


def _finish(
    working: DataflowGraph,
    ctx: PassContext,
    passes: Sequence[Item],
    runner: PassManager,
) -> tuple[list[Partition], PipelineReport]:
    options = ctx.options
    runner.dump("input", working)
    runner.run_pipeline(passes, working, ctx)
    raise_unplaced(working, working)
    began = time.perf_counter()
    partitions = partition(working, ctx)
    after = sum(part.graph.num_op_nodes for part in partitions)
    runner.note("partition", began, working.num_op_nodes, after)
    for part in partitions:
        ctx.device = part.device if options.location is None else ""
        runner.check("partition", part.graph)
        runner.dump("partition", part.graph, part.device)
        if options.over_partitions:
            partition_passes = runner.pipeline.section("partition")
            runner.run_pipeline(partition_passes, part.graph, ctx, part.device)
        if options.accelerators:
            runner.run_pipeline(runner.pipeline.section("device"), part.graph, ctx, part.device)
    if runner.history is not None:
        runner.history.close()
    return partitions, runner.report


def run_passes(
    graph: DataflowGraph, passes: Sequence[Item | Pass | str], ctx: PassContext
) -> PipelineReport:
    """Run passes over one graph, in place, by the pass manager.

    passes: items of a pipeline, names, or functions. For tests and tools.
    """
    items = [item if isinstance(item, (Step, Fixpoint)) else step_of(item) for item in passes]
    ctx.manager.run_pipeline(items, graph, ctx)
    return ctx.manager.report


__all__ = [
    "DeviceInfo",
    "Partition",
    "PassContext",
    "PassOptions",
    "PassReport",
    "Pipeline",
    "PipelineReport",
    "RunSpec",
    "build",
    "build_body",
    "run_passes",
    "shaped_body",
]
