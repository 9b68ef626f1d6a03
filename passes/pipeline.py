"""Declare the order of the passes, and build a run's partitions."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from tfjit.framework.errors import OpError
from tfjit.framework.gc_pause import collection_paused
from tfjit.passes.analysis.shape_inference import ArgumentInfo, copy_with_arguments
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.ir.function_library import Function
from tfjit.passes.ir.run_spec import RunSpec
from tfjit.passes.ir.subgraph import extract
from tfjit.passes.manager.pass_context import DeviceInfo, Pass, PassContext, PassOptions
from tfjit.passes.manager.pass_manager import (
    Fixpoint,
    PassManager,
    PassReport,
    Pipeline,
    PipelineItem,
    PipelineReport,
    Step,
)
from tfjit.passes.manager.pass_registry import PASSES, SHAPES
from tfjit.passes.partitioning.partition import Partition, partition
from tfjit.passes.partitioning.place import raise_unplaced

log: Final = logging.getLogger("tfjit.passes")

GRAPH_PASSES: Final[Pipeline] = (
    Step("lower_feeds", "first: later passes expect feeds and fetches as _Arg and _Retval nodes"),
    Step("prune", "before all other passes: they visit only nodes that the run needs"),
    Step("inline_functions", "before the passes over nodes: they also rewrite inlined nodes"),
    Step("place", "before rewriting: a new node inherits the device of the replaced node"),
    Step("custom_kernels", "before optional passes: they do not rewrite a _CustomKernel"),
    Step("strip_debug", "before functionalize: it moves nodes into bodies"),
    Step("functionalize", "before rewriting: its patterns are those of the user's graph"),
    Step("trim_bodies", "before folding: constants are moved into bodies and folded there"),
    Step("replicate_constants", "before folding: each device keeps its own copy of a constant"),
    Step("pad_unique", "before shapes: it makes unknown ones static. After functionalize"),
    Step("infer_shapes", "before folding: the Shape of a static shape is a constant"),
    Step("simplify", "before folding: it removes reads of frozen variables"),
    Step("fold_constants"),
    Step("drop_control_edges", "before simplify: it leaves most nodes alone that wait for others"),
    Step("simplify", "after folding: its patterns match constants"),
    Step("inline_functions", "after folding: the selectors of more branches are constants"),
    Step("place", "after inlining: the inlined nodes have no device"),
    Step("custom_kernels", "after inlining: inlined nodes may have custom kernels"),
    Step("infer_shapes", "after folding: there are new nodes and more static values"),
    Step(
        "size_slices",
        "after shapes: it needs trip counts and array shapes. Before lists: it gives them element "
        "shapes",
    ),
    Step(
        "accumulators",
        "after shapes: it needs trip counts. Before dense_lists: it rewrites some lists",
    ),
    Step("dense_lists", "after shapes: it needs list lengths and element shapes"),
    Step("loop_sums", "after lists are arrays. Before folding: a hoisted node may be constant"),
    Step("infer_shapes", "after loop_sums: of the nodes outside the loops"),
    Step("fold_constants", "after simplify: it makes nodes whose inputs are constants"),
    Step("infer_shapes", "after folding: axes of the sums of gradients are constants"),
    Step("trim_bodies", "after folding: more inputs of bodies are constants"),
    Step("drop_control_edges", "before CSE: equal nodes must have equal control inputs"),
    Step("prune", "before CSE: it does not visit the inputs of folded nodes"),
    Step("eliminate_common_subexpressions", "after simplify: equal nodes have equal forms"),
    Step("prune", "after CSE: replaced nodes leave unused inputs"),
)
"""Passes over the whole graph of a run."""

CLUSTER_PASSES: Final[Pipeline] = tuple(
    step for step in GRAPH_PASSES if not (isinstance(step, Step) and PASSES[step.name].local)
)
"""Passes of a master over the whole graph of a run.

Its partitions have ops of TensorFlow alone, since a worker may be TensorFlow's. Workers run the
other passes over their partitions.
"""

QUICK_PASSES: Final[Pipeline] = (
    Step("lower_feeds"),
    Step("prune"),
    Step("inline_functions"),
    Step("place"),
    Step("custom_kernels"),
    Step("infer_shapes", "for the decision about the first run"),
)
"""Passes that make a graph runnable as it is."""

PARTITION_PASSES: Final[Pipeline] = (
    Step(
        "compile_loops",
        "after partition: a kernel is for one device. First: hoisted nodes join the outer graph",
    ),
    Step("offload_loops", "after compile_loops: a loop over little work is one kernel of the host"),
    Step("offload", "before fuse: each device fuses its own nodes"),
    Step("specialize_bodies", "after partition: the bodies of a lowered loop are on one device"),
    Step("fuse", "after partition: a fused kernel is for one device"),
)
"""Passes over each partition."""

DEVICE_PASSES: Final[Pipeline] = (
    Step("keep_on_device", "last: the edges that it makes are for the runtime alone"),
)
"""Passes over each partition with accelerators, after all others."""

_BODY: Final[Pipeline] = (
    Step("infer_shapes", "first: the shapes of the arguments are static"),
    Step("simplify"),
    Step("fold_constants"),
    Step("simplify", "after folding: its patterns match constants"),
    Step("infer_shapes", "after folding: there are new nodes and more static values"),
    Step("fold_constants"),
    Step("drop_control_edges", "before CSE: equal nodes must have equal control inputs"),
    Step("prune"),
    Step("eliminate_common_subexpressions"),
    Step("prune", "after CSE: replaced nodes leave unused inputs"),
)

PIPELINES: Final[Mapping[str, Pipeline]] = {
    "graph": GRAPH_PASSES,
    "quick": QUICK_PASSES,
    "cluster": CLUSTER_PASSES,
    "partition": PARTITION_PASSES,
    "device": DEVICE_PASSES,
    # over copies of bodies that become one kernel with their loop
    "body": _BODY,
    # over copies of bodies that are lowered into the partition around them
    "region": (*_BODY, *PARTITION_PASSES),
    # the same, of a graph that an accelerator runs
    "device_region": (
        *_BODY,
        Step("keep_scalars", "before fuse: the host knows these numbers"),
        Step("specialize_bodies", "of loops inside"),
        Step("fuse"),
    ),
    # over bodies of loops with lists that have become arrays
    "fold_body": (
        Step("simplify"),
        Step("fold_constants"),
        Step("simplify", "after folding: its patterns match constants"),
        Step("infer_shapes"),
        Step("fold_constants", "after shapes: more of them are static"),
        Step("infer_shapes"),
    ),
    # over a graph with loops that have changed
    "trim_loops": (
        Fixpoint(
            (
                Step("prune"),
                Step("trim_bodies", "after prune: earlier loops have fewer used outputs"),
            ),
            2,
        ),
        Step("prune"),
    ),
}
"""Every pipeline by name.

Passes run the last five over bodies, by `PassContext.run`.
"""

_TITLES: Final = {
    "graph": "over the whole graph of a run",
    "quick": "instead of 'graph', for a first run without optimization",
    "cluster": "instead of 'graph', by the master of a cluster, whose workers run the others",
    "partition": "over each partition",
    "device": "over each partition with accelerators, after all others",
    "body": "over copies of a loop's bodies, to compile the loop to one kernel, by compile_loops",
    "region": "over copies of bodies that are lowered with their partition, by specialize_bodies",
    "device_region": "over the same bodies of an offloaded graph, by specialize_bodies",
    "fold_body": "over bodies with new static shapes, by accumulators and dense_lists",
    "trim_loops": "over a graph with changed loops, by accumulators, dense_lists, loop_sums",
}


def describe() -> str:
    """Return the pipelines as text: each step with its group and reason."""
    lines: list[str] = []
    for name, pipeline in PIPELINES.items():
        lines += [f"{name}: {_TITLES[name]}", *_described(pipeline, 1), ""]
    return "\n".join(lines)


def _described(items: Sequence[PipelineItem], indent: int) -> list[str]:
    lines = []
    for item in items:
        if isinstance(item, Fixpoint):
            lines.append(f"{'  ' * indent}until nothing changes, {item.limit} times at most:")
            lines += _described(item.steps, indent + 1)
            continue
        info = PASSES[item.name]
        group = "required" if info.required else info.group or "-"
        lines.append(f"{'  ' * indent}{item.name:<32} {group:<28} {item.why}".rstrip())
    return lines


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
        passes = _items(ctx.options.passes, GRAPH_PASSES)
        return _finish(
            graph,
            ctx,
            [
                item
                for item in passes
                if not (isinstance(item, Step) and item.name == "lower_feeds")
            ],
            ctx.manager,
        )


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
    spec, options = ctx.spec, ctx.options
    runner = ctx.manager
    began = time.perf_counter()
    with lock:
        working = extract(graph, spec)
        raise_unplaced(graph, working)
        whole = graph.num_op_nodes
    runner.note("extract", began, whole, working.num_op_nodes)
    return _finish(working, ctx, _items(options.passes, GRAPH_PASSES), runner)


def _finish(
    working: DataflowGraph,
    ctx: PassContext,
    passes: Sequence[PipelineItem | Pass],
    runner: PassManager,
) -> tuple[list[Partition], PipelineReport]:
    options = ctx.options
    runner.dump("input", working)
    runner.run_pipeline(passes, working, ctx)
    for name, custom in options.custom_passes:
        working = _run_custom(name, custom, working, ctx)
    raise_unplaced(working, working)
    began = time.perf_counter()
    partitions = partition(working, ctx)
    after = sum(part.graph.num_op_nodes for part in partitions)
    runner.note("partition", began, working.num_op_nodes, after)
    for part in partitions:
        ctx.device = part.device if options.location is None else ""
        runner.check("partition", part.graph)
        runner.dump("partition", part.graph, part.device)
        runner.run_pipeline(
            _items(options.partition_passes, PARTITION_PASSES), part.graph, ctx, part.device
        )
        if options.accelerators:
            runner.run_pipeline(DEVICE_PASSES, part.graph, ctx, part.device)
    if runner.history is not None:
        runner.history.close()
    return partitions, runner.report


def run_passes(
    graph: DataflowGraph, passes: Sequence[PipelineItem | Pass | str], ctx: PassContext
) -> PipelineReport:
    """Run passes over one graph, in place, by the pass manager.

    passes: items of a pipeline, names of registered passes, or functions. For tests and tools.
    """
    ctx.manager.run_pipeline(_items(passes, ()), graph, ctx)
    return ctx.manager.report


def _items(
    passes: Sequence[PipelineItem | Pass | str] | None, standard: Pipeline
) -> Sequence[PipelineItem | Pass]:
    """Return a session's own items, or else the standard ones."""
    return (
        standard
        if passes is None
        else [Step(item) if isinstance(item, str) else item for item in passes]
    )


def _run_custom(name: str, pass_: Pass, graph: DataflowGraph, ctx: PassContext) -> DataflowGraph:
    """Run a user's pass, and the passes that repair its graph.

    Return the graph to continue with: the one from before where the pass failed.
    """
    manager = ctx.manager
    if name in manager.disabled or not ctx.options.optimize:
        ctx.log("", f"{name} left out")
        return graph
    saved = None if ctx.options.fail_on_errors else graph.copy()

    def run_custom_pass(working: DataflowGraph, ctx: PassContext) -> None:
        pass_(working, ctx)
        working.verify()

    run_custom_pass.__name__ = name
    try:
        manager.run(run_custom_pass, graph, ctx)
        ctx.invalidate(SHAPES)
        manager.run_pipeline((Step("prune"), Step("infer_shapes")), graph, ctx)
    except OpError as error:
        if saved is None:
            raise
        log.warning("custom optimizer %s failed and is left out: %s", name, error.message)
        ctx.invalidate(SHAPES)
        return saved
    return graph


__all__ = [
    "CLUSTER_PASSES",
    "GRAPH_PASSES",
    "PARTITION_PASSES",
    "PIPELINES",
    "QUICK_PASSES",
    "DeviceInfo",
    "Partition",
    "PassContext",
    "PassOptions",
    "PassReport",
    "PipelineReport",
    "RunSpec",
    "build",
    "build_body",
    "describe",
    "run_passes",
    "shaped_body",
]
