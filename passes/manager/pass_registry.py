"""Declare every pass: module, group, condition, and preserved analyses."""

from __future__ import annotations

import difflib
import functools
import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.op_defs.op_traits import CASE, ENTER, EXIT, IF, MERGE, WHILE

if TYPE_CHECKING:
    from tfjit.passes.ir.dataflow_graph import DataflowGraph
    from tfjit.passes.manager.pass_context import Pass

SHAPES: Final = "shapes"
"""The analysis that `infer_shapes` computes.

The results are output shapes, static values and variables' shapes.
"""


@dataclass(frozen=True, slots=True)
class PassInfo:
    """The declaration of one pass.

    name: of the function, and in TFJIT_DISABLE. home: its module below `tfjit.passes`.
    group: the name of TensorFlow's optimizer that does the same work, "" for none.
    required: no plan works without the pass; neither TFJIT_DISABLE nor a config leaves the pass
    out.
    at_l0: an optional pass that runs at OptimizerOptions L0 too.
    when: a condition on the graph, None for every graph.
    local: left to the workers of a cluster: the pass makes ops that TensorFlow lacks, or moves
    nodes that may be on several tasks into bodies, or depends on such passes.
    needs: analyses that have to be valid, which are computed where they are not, and passes that
    have to stand before it in a pipeline. preserves: analyses that stay valid where the pass
    changes the graph. aliases: short names for pipelines and TFJIT_DISABLE.
    """

    name: str
    home: str
    group: str = ""
    required: bool = False
    at_l0: bool = False
    local: bool = False
    when: Callable[[DataflowGraph], bool] | None = None
    needs: tuple[str, ...] = ()
    preserves: tuple[str, ...] = (SHAPES,)
    aliases: tuple[str, ...] = ()

    @property
    def is_optimization(self) -> bool:
        """Return whether the pass is left out at L0."""
        return not self.required and not self.at_l0

    def function(self) -> Pass:
        """Return the pass; its module is imported on the first call."""
        return _function(self.home, self.name)


@functools.cache
def _function(home: str, name: str) -> Any:
    return getattr(importlib.import_module(f"tfjit.passes.{home}"), name)


def _has_loops(graph: DataflowGraph) -> bool:
    return graph.has_trait(WHILE)


def _has_unique(graph: DataflowGraph) -> bool:
    return "Unique" in graph.op_types


def _has_v1_control_flow(graph: DataflowGraph) -> bool:
    return graph.has_trait(ENTER | EXIT | MERGE)


def _has_regions(graph: DataflowGraph) -> bool:
    return graph.has_trait(WHILE | IF | CASE)


def _has_lists(graph: DataflowGraph) -> bool:
    return _has_regions(graph) or any(
        op.startswith(("TensorList", "TensorArray")) for op in graph.op_types
    )


PASSES: Final[dict[str, PassInfo]] = {
    info.name: info
    for info in (
        PassInfo("lower_feeds", "legalize.lower_feeds", required=True),
        PassInfo("prune", "canonicalize.prune", required=True, needs=("lower_feeds",)),
        PassInfo(
            "inline_functions",
            "legalize.inline_functions",
            required=True,
            needs=("prune",),
            preserves=(),
        ),
        PassInfo("place", "partitioning.place", required=True, needs=("lower_feeds",)),
        PassInfo(
            "custom_kernels",
            "legalize.custom_kernels",
            required=True,
            local=True,
            needs=("prune", "place"),
        ),
        PassInfo("infer_shapes", "analysis.shape_inference", required=True, needs=("lower_feeds",)),
        PassInfo("strip_debug", "canonicalize.strip_debug", "debug_stripper", at_l0=True),
        PassInfo(
            "pad_unique",
            "canonicalize.pad_unique",
            "arithmetic",
            local=True,
            when=_has_unique,
            preserves=(),
        ),
        PassInfo(
            "replicate_constants",
            "partitioning.replicate_constants",
            at_l0=True,
            needs=("place",),
        ),
        PassInfo(
            "functionalize",
            "control_flow.functionalize",
            "loop",
            local=True,
            when=_has_v1_control_flow,
            needs=("place",),
        ),
        PassInfo("trim_bodies", "control_flow.prune_captures", "loop", local=True),
        PassInfo("simplify", "canonicalize.canonicalize", "arithmetic"),
        PassInfo("fold_constants", "canonicalize.fold_constants", "constfold", aliases=("fold",)),
        PassInfo("drop_control_edges", "canonicalize.control_dependencies", "dependency"),
        PassInfo(
            "eliminate_common_subexpressions",
            "canonicalize.cse",
            "common_subgraph_elimination",
            aliases=("cse",),
        ),
        PassInfo(
            "size_slices",
            "loops.induction_slices",
            "loop",
            local=True,
            when=_has_loops,
            needs=(SHAPES,),
            preserves=(),
        ),
        PassInfo(
            "accumulators",
            "loops.index_accumulators",
            "loop",
            local=True,
            when=_has_loops,
            needs=(SHAPES,),
            preserves=(),
        ),
        PassInfo(
            "dense_lists",
            "loops.densify_lists",
            "loop",
            local=True,
            when=_has_lists,
            needs=(SHAPES,),
            preserves=(),
        ),
        PassInfo(
            "loop_sums",
            "loops.sink_reductions",
            "loop",
            local=True,
            when=_has_loops,
            needs=(SHAPES,),
            preserves=(),
        ),
        PassInfo(
            "compile_loops",
            "loops.outline_loop_programs",
            "loop",
            when=_has_loops,
            preserves=(),
        ),
        PassInfo(
            "specialize_bodies",
            "control_flow.specialize_regions",
            "loop",
            when=_has_regions,
        ),
        PassInfo("fuse", "fusion.fuse", "remap"),
        PassInfo("offload_loops", "offload.offloadable_loops", "loop", when=_has_loops),
        PassInfo("offload", "offload.outline_offloaded", at_l0=True),
        PassInfo("keep_on_device", "offload.keep_on_device", required=True),
        PassInfo("keep_scalars", "offload.offloadable_loops", required=True),
    )
}

OPTIMIZATIONS: Final = frozenset(info.name for info in PASSES.values() if info.is_optimization)
"""Names of the passes that are left out at L0."""

ALIASES: Final[Mapping[str, str]] = {
    alias: info.name for info in PASSES.values() for alias in info.aliases
}
"""Short name -> the pass."""

ANALYSES: Final[Mapping[str, str]] = {SHAPES: "infer_shapes"}
"""Analysis -> the pass that computes it."""


def passes_of_group(group: str) -> tuple[str, ...]:
    """Return the names of a group's passes."""
    return tuple(info.name for info in PASSES.values() if info.group == group)


def find_name(name: str, found_in: str, others: Iterable[str] = ()) -> str:
    """Return the full name of a pass.

    found_in: begins the error. others: further names that may stand. Raises InvalidArgumentError
    for an unknown name, with names that are nearly the same.
    """
    others = list(others)
    full = ALIASES.get(name, name)
    if full in PASSES or full in others:
        return full
    near = near_names(name, [*PASSES, *ALIASES, *others])
    raise InvalidArgumentError(
        None, None, f"{found_in}: there is no pass of that name{near}; see `tfjit passes`"
    )


def near_names(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean ...?" with nearly equal names, or ""."""
    listed = list(dict.fromkeys(known))
    near = [other for other in listed if other.lower() == name.lower()]
    near = near or difflib.get_close_matches(name, listed, n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(repr(found) for found in near)}?" if near else ""
