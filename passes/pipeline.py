"""The order of the passes, with reasons, and the one runner that times, verifies, logs and dumps."""

from __future__ import annotations

import itertools
import logging
import re
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tfjit.framework import settings
from tfjit.framework.errors import InternalError, OpError
from tfjit.framework.gc_pause import collection_paused
from tfjit.passes.analysis.shape_inference import Given, infer_shapes
from tfjit.passes.canonicalize.canonicalize import simplify
from tfjit.passes.canonicalize.control_dependencies import drop_control_edges
from tfjit.passes.canonicalize.cse import eliminate_common_subexpressions
from tfjit.passes.canonicalize.fold_constants import fold_constants
from tfjit.passes.canonicalize.prune import prune
from tfjit.passes.canonicalize.strip_debug import strip_debug
from tfjit.passes.control_flow.functionalize import functionalize
from tfjit.passes.control_flow.prune_captures import trim_bodies
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.ir.function_library import CASES, IFS, WHILES, Function, indexed
from tfjit.passes.ir.pass_context import DeviceInfo, Pass, PassContext, PassOptions
from tfjit.passes.ir.run_spec import RunSpec
from tfjit.passes.ir.subgraph import extract
from tfjit.passes.ir.text_format import print_graph
from tfjit.passes.legalize.custom_kernels import custom_kernels
from tfjit.passes.legalize.inline_functions import inline_functions
from tfjit.passes.legalize.lower_feeds import lower_feeds
from tfjit.passes.partitioning.partition import Partition, partition
from tfjit.passes.partitioning.place import place, raise_unplaced
from tfjit.passes.partitioning.replicate_constants import replicate_constants

log: Final = logging.getLogger("tfjit.passes")


def fuse(graph: DataflowGraph, ctx: PassContext) -> None:
    """Group nodes that one kernel computes; see passes/fusion/fuse.py, imported when first needed."""
    from tfjit.passes.fusion.fuse import fuse as run

    run(graph, ctx)


def dense_lists(graph: DataflowGraph, ctx: PassContext) -> None:
    """Make lists and tensor arrays of known size dense; see passes/loops/densify_lists.py, imported when first needed."""
    if not graph.op_types.isdisjoint(WHILES | IFS | CASES) or any(op.startswith(("TensorList", "TensorArray")) for op in graph.op_types):
        from tfjit.passes.loops.densify_lists import dense_lists as run

        run(graph, ctx)


def size_slices(graph: DataflowGraph, ctx: PassContext) -> None:
    """Give slices that move with a loop's counter their size; see passes/loops/induction_slices.py, imported when first needed."""
    if not graph.op_types.isdisjoint(WHILES):
        from tfjit.passes.loops.induction_slices import size_slices as run

        run(graph, ctx)


def accumulators(graph: DataflowGraph, ctx: PassContext) -> None:
    """Index what loops keep for their gradients; see passes/loops/index_accumulators.py, imported when first needed."""
    if not graph.op_types.isdisjoint(WHILES):
        from tfjit.passes.loops.index_accumulators import accumulators as run

        run(graph, ctx)


def loop_sums(graph: DataflowGraph, ctx: PassContext) -> None:
    """Take sums of products out of loops; see passes/loops/sink_reductions.py, imported when first needed."""
    if not graph.op_types.isdisjoint(WHILES):
        from tfjit.passes.loops.sink_reductions import loop_sums as run

        run(graph, ctx)


def compile_loops(graph: DataflowGraph, ctx: PassContext) -> None:
    """Make loops that one kernel computes into nodes; see passes/loops/outline_loop_programs.py, imported when first needed."""
    if not graph.op_types.isdisjoint(WHILES):
        from tfjit.passes.loops.outline_loop_programs import compile_loops as run

        run(graph, ctx)


def specialize_bodies(graph: DataflowGraph, ctx: PassContext) -> None:
    """Ready the bodies of loops and branches for their places; see specialize_regions.py, imported when first needed."""
    if not graph.op_types.isdisjoint(WHILES | IFS | CASES):
        from tfjit.passes.control_flow.specialize_regions import specialize_bodies as run

        run(graph, ctx)


GRAPH_PASSES: Final[tuple[Pass, ...]] = (
    lower_feeds,  # first: later passes see feeds and fetches as _Arg and _Retval nodes
    prune,  # before anything costs: what nobody fetches is never looked at
    inline_functions,  # before all that looks at nodes: it shall see those of functions too
    place,  # for what the session has not placed; before rewriting, so that new nodes take over devices
    custom_kernels,  # before any optional pass, which then takes the node for what it is: unknown
    strip_debug,  # before loops take nodes into bodies
    functionalize,  # while every node is the user's own: later passes may rewrite what its patterns look for
    trim_bodies,  # constants that go into bodies are folded there
    replicate_constants,  # before folding: a constant folded on two devices stays one on each
    infer_shapes,  # before folding: Shape of a known shape is a constant, and the passes below ask for shapes
    simplify,  # before folding: no reads of frozen variables are evaluated that simply go
    fold_constants,
    simplify,  # after folding: its patterns ask for constants
    inline_functions,  # choices that have become constant
    place,  # what that has brought
    custom_kernels,  # for that too
    infer_shapes,  # simplify and folding make new nodes, and more values are known now
    size_slices,  # once limits of loops and array shapes are known; before lists: shapes of their elements may follow
    accumulators,  # once the lengths of loops are known; before what looks for lists of known length
    dense_lists,  # once lengths and element shapes are known; behind it more shapes are
    loop_sums,  # once lists are arrays; before folding: what leaves a loop may be constant
    fold_constants,  # simplify makes constants of constants
    trim_bodies,  # again, for what has become constant
    drop_control_edges,  # before CSE: equal expressions may wait for different nodes without need
    prune,  # CSE need not look at the constants that folding has used up
    eliminate_common_subexpressions,  # after simplifying: equal expressions look equal
    prune,  # what CSE replaced may leave inputs that nobody takes
)
# what makes a graph runnable, as it is
QUICK_PASSES: Final[tuple[Pass, ...]] = (lower_feeds, prune, inline_functions, place, custom_kernels)
PARTITION_PASSES: Final[tuple[Pass, ...]] = (
    compile_loops,  # after partition: a kernel never spans devices; first: what leaves a loop joins the graph around it
    specialize_bodies,  # after partition: a loop whose bodies are lowered is on one device
    fuse,  # after partition: a fused kernel never spans devices
)
# TFJIT_DISABLE does not reach these
REQUIRED: Final = frozenset({"lower_feeds", "prune", "inline_functions", "place", "custom_kernels", "infer_shapes"})
# L0 does not reach these: one acts only where a config asks for it, the other keeps constants on their devices
_NO_OPTIMIZATION: Final = frozenset({"strip_debug", "replicate_constants"})
# left out at L0
OPTIMIZATIONS: Final = frozenset(pass_.__name__ for pass_ in (*GRAPH_PASSES, *PARTITION_PASSES)) - REQUIRED - _NO_OPTIMIZATION


@dataclass(frozen=True, slots=True)
class PassReport:
    """What one pass did. where: "" for the whole graph, else the partition's device. messages: (node, text)."""

    name: str
    elapsed_us: float
    ops_before: int
    ops_after: int
    where: str = ""
    messages: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class PipelineReport:
    """What the passes did for one plan, in order. folder: of its dumps, where it is dumped."""

    passes: list[PassReport] = field(default_factory=list)
    folder: Path | None = None

    @property
    def elapsed_us(self) -> float:
        """Time of all passes."""
        return sum(entry.elapsed_us for entry in self.passes)

    def format(self, *, messages: bool = True) -> str:
        """A table of the passes: time, op count before and after; with messages, what each pass said of which node."""
        lines = [f"{'pass':<32} {'ms':>9} {'ops':>7} {'after':>7}"]
        for entry in self.passes:
            name = f"{entry.name} {entry.where.rpartition('/device:')[2]}".rstrip()
            lines.append(f"{name:<32} {entry.elapsed_us / 1000:9.3f} {entry.ops_before:7} {entry.ops_after:7}")
            if messages:
                lines += [f"    {node}: {text}" if node else f"    {text}" for node, text in entry.messages]
        return "\n".join(lines) + "\n"


def build(
    graph: DataflowGraph, spec: RunSpec, options: PassOptions | None = None, lock: AbstractContextManager[Any] | None = None
) -> tuple[list[Partition], PipelineReport]:
    """The partitions that one run of a session's graph executes, and what the passes did.

    graph: the whole graph; it is not changed, what the run needs is copied. Nodes without an assigned device are placed here.
    lock: held while the copy is made; who extends the graph waits no longer than that.
    Raises TensorFlow's errors for a spec that does not fit the graph and for nodes that cannot be placed or whose shapes
    contradict each other; a pass that breaks the graph or fails raises InternalError naming it.
    """
    with collection_paused():
        return _build(graph, PassContext(spec, options or PassOptions()), lock or nullcontext())


def build_body(function: Function, given: Sequence[Given], options: PassOptions | None = None) -> tuple[list[Partition], PipelineReport]:
    """The partitions of a body that is called with arguments of these shapes, by index; the body itself is not changed.

    Raises what `build` raises.
    """
    with collection_paused():
        ctx = PassContext(options=options or PassOptions())
        graph = function.graph.copy()
        graph.functions = function.graph.functions.child()
        graph.graph["given"] = {node.name: given[index] for index, node in indexed(graph, "_Arg").items()}
        passes = ctx.options.passes if ctx.options.passes is not None else GRAPH_PASSES
        return _finish(graph, ctx, [pass_ for pass_ in passes if pass_ is not lower_feeds], _Runner(ctx))


def _build(graph: DataflowGraph, ctx: PassContext, lock: AbstractContextManager[Any]) -> tuple[list[Partition], PipelineReport]:
    spec, options = ctx.spec, ctx.options
    runner = _Runner(ctx)
    began = time.perf_counter()
    with lock:
        working = extract(graph, spec)
        raise_unplaced(graph, working)
        whole = graph.num_op_nodes
    runner.note("extract", began, whole, working.num_op_nodes)
    return _finish(working, ctx, options.passes if options.passes is not None else GRAPH_PASSES, runner)


def _finish(working: DataflowGraph, ctx: PassContext, passes: Sequence[Pass], runner: _Runner) -> tuple[list[Partition], PipelineReport]:
    options = ctx.options
    runner.dump("input", working)
    for pass_ in passes:
        runner.run(pass_, working)
    for name, custom in options.custom_passes:
        working = runner.run_custom(name, custom, working)
    raise_unplaced(working, working)
    began = time.perf_counter()
    partitions = partition(working, ctx)
    after = sum(part.graph.num_op_nodes for part in partitions)
    runner.note("partition", began, working.num_op_nodes, after)
    for part in partitions:
        runner.check("partition", part.graph)
        runner.dump("partition", part.graph, part.device)
        for pass_ in options.partition_passes if options.partition_passes is not None else PARTITION_PASSES:
            runner.run(pass_, part.graph, part.device)
    return partitions, runner.report


def run_passes(graph: DataflowGraph, passes: Sequence[Pass], ctx: PassContext) -> PipelineReport:
    """Run a list of passes over one graph, in place, with all that the runner does. For tests and tools."""
    runner = _Runner(ctx)
    for pass_ in passes:
        runner.run(pass_, graph)
    return runner.report


class _Runner:
    """Runs passes one by one; the passes themselves neither time, verify nor dump."""

    _plans: Final = itertools.count()

    def __init__(self, ctx: PassContext) -> None:
        self.ctx = ctx
        self.report = PipelineReport()
        options = ctx.options
        self.verify = options.verify if options.verify is not None else settings.flag("TFJIT_VERIFY")
        self.disabled = options.disabled | settings.names("TFJIT_DISABLE")
        self.logs = settings.logs("passes")
        folder = Path(options.dump_dir) if options.dump_dir else settings.path("TFJIT_DUMP")
        self.folder = self.report.folder = folder / f"plan_{next(self._plans):03}" if folder else None
        self.bodies: dict[str, str] = {}  # function -> its text as it was last written
        self.dumped = 0
        self.done: set[tuple[str, str]] = set()  # passes that have run, by the graph's place
        self.small: bool | None = None  # whether the run's graph is too small to be optimised
        self.until = time.perf_counter() + options.time_limit_s if options.time_limit_s > 0 else float("inf")

    def leaves_out(self, name: str, graph: DataflowGraph, where: str) -> bool:
        """Whether a pass is not wanted."""
        options = self.ctx.options
        if name in self.disabled:
            return name not in REQUIRED
        if name not in OPTIMIZATIONS:
            return False
        if self.small is None:
            self.small = graph.num_op_nodes < options.min_nodes
        return not options.optimize or self.small or (options.once and (name, where) in self.done) or time.perf_counter() > self.until

    def run_custom(self, name: str, pass_: Pass, graph: DataflowGraph) -> DataflowGraph:
        """Run a user's own pass and what makes its graph whole again; the graph that goes on, as it was before where the pass failed."""
        ctx = self.ctx
        if name in self.disabled or not ctx.options.optimize:
            ctx.log("", f"{name} left out")
            return graph
        saved = None if ctx.options.fail_on_errors else graph.copy()

        def run_custom_pass(working: DataflowGraph, ctx: PassContext) -> None:
            pass_(working, ctx)
            working.verify()

        run_custom_pass.__name__ = name
        try:
            self.run(run_custom_pass, graph)
            ctx.scratch.pop("infer_shapes", None)
            self.run(prune, graph)
            self.run(infer_shapes, graph)
        except OpError as error:
            if saved is None:
                raise
            log.warning("custom optimizer %s failed and is left out: %s", name, error.message)
            ctx.scratch.pop("infer_shapes", None)
            return saved
        return graph

    def run(self, pass_: Pass, graph: DataflowGraph, where: str = "") -> None:
        """Run one pass, unless it is optional and not wanted."""
        ctx, name = self.ctx, pass_.__name__
        if self.leaves_out(name, graph, where):
            ctx.log("", f"{name} left out")
            return
        self.done.add((name, where))
        ctx.current = name
        said = len(ctx.messages)
        before = graph.num_op_nodes
        began = time.perf_counter()
        try:
            pass_(graph, ctx)
        except InternalError as error:
            raise InternalError(error.node_def, error.op, f"pass '{name}': {error.message}") from error
        except OpError:
            raise  # the user's graph is at fault, and the message says how
        except Exception as error:
            raise InternalError(None, None, f"pass '{name}' failed: {type(error).__name__}: {error}") from error
        self.note(name, began, before, graph.num_op_nodes, where, said)
        ctx.current = ""
        self.check(name, graph)
        self.dump(name, graph, where)

    def note(self, name: str, began: float, before: int, after: int, where: str = "", said: int | None = None) -> None:
        """Put a pass into the report, and into the log when that is wanted."""
        elapsed_us = (time.perf_counter() - began) * 1e6
        messages = tuple((node, text) for _, node, text in self.ctx.messages[said:]) if said is not None else ()
        self.report.passes.append(PassReport(name, elapsed_us, before, after, where, messages))
        if self.logs or log.isEnabledFor(logging.DEBUG):
            level = logging.WARNING if self.logs and not log.isEnabledFor(logging.INFO) else logging.INFO
            log.log(level, "%s: %.1f us, %d -> %d ops", name, elapsed_us, before, after)
            for node, text in messages:
                log.log(level, "%s: %s %s", name, node, text)

    def check(self, name: str, graph: DataflowGraph) -> None:
        """Verify the graph when that is wanted. Raises InternalError naming the pass."""
        if not self.verify:
            return
        try:
            graph.verify()
        except InternalError as error:
            raise InternalError(error.node_def, error.op, f"after pass '{name}': {error.message}") from error

    def dump(self, name: str, graph: DataflowGraph, where: str = "") -> None:
        """Write the graph's text to the next numbered file when that is wanted, and bodies that are new or changed beside it."""
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        device = "_" + where.rpartition("/device:")[2].replace(":", "_") if where else ""
        path = self.folder / f"{self.dumped:02}_{name}{device}.txt"
        path.write_text(print_graph(graph), encoding="utf-8")
        for ref in graph.functions.reachable(graph):
            try:
                text = print_graph(graph.functions.body(ref).graph)
            except OpError as error:  # the run that needs the body says so
                text = f"# {error.message}\n"
            if self.bodies.get(ref.name) != text:
                self.bodies[ref.name] = text
                body = re.sub(r"[^\w.-]", "_", ref.name)
                path.with_name(f"{path.stem}.body_{body}.txt").write_text(text, encoding="utf-8")
        self.dumped += 1


__all__ = [
    "GRAPH_PASSES",
    "PARTITION_PASSES",
    "REQUIRED",
    "DeviceInfo",
    "Partition",
    "PassContext",
    "PassOptions",
    "PassReport",
    "PipelineReport",
    "RunSpec",
    "build",
    "build_body",
    "run_passes",
]
