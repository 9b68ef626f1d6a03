"""Declare the built-in order of the passes, with reasons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tfjit.passes.manager.pass_registry import PASSES
from tfjit.passes.manager.steps import Fixpoint, Items, Step

_GRAPH: Final[Items] = (
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

_QUICK: Final[Items] = (
    Step("lower_feeds"),
    Step("prune"),
    Step("inline_functions"),
    Step("place"),
    Step("custom_kernels"),
    Step("infer_shapes", "for the decision about the first run"),
)

_PARTITION: Final[Items] = (
    Step(
        "compile_loops",
        "after partition: a kernel is for one device. First: hoisted nodes join the outer graph",
    ),
    Step("offload_loops", "after compile_loops: a loop over little work is one kernel of the host"),
    Step("offload", "before fuse: each device fuses its own nodes"),
    Step("specialize_bodies", "after partition: the bodies of a lowered loop are on one device"),
    Step("fuse", "after partition: a fused kernel is for one device"),
)

_BODY: Final[Items] = (
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

DEFAULT: Final[Mapping[str, Items]] = {
    "graph": _GRAPH,
    "quick": _QUICK,
    "partition": _PARTITION,
    "device": (Step("keep_on_device", "last: the edges that it makes are for the runtime alone"),),
    "body": _BODY,
    "offloaded": (
        Step("keep_scalars", "before fuse: the host knows these numbers"),
        Step("specialize_bodies", "of loops inside"),
        Step("fuse"),
    ),
    "fold_body": (
        Step("simplify"),
        Step("fold_constants"),
        Step("simplify", "after folding: its patterns match constants"),
        Step("infer_shapes"),
        Step("fold_constants", "after shapes: more of them are static"),
        Step("infer_shapes"),
    ),
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
"""Items of each section of the built-in pipeline."""

TITLES: Final[Mapping[str, str]] = {
    "graph": "over the whole graph of a run",
    "quick": "instead of 'graph', for a first run without optimization",
    "partition": "over each partition",
    "device": "over each partition with accelerators, after all others",
    "body": "over copies of a loop's bodies, to compile the loop to one kernel, by compile_loops",
    "offloaded": "over the same bodies of an offloaded graph after 'body', by specialize_bodies",
    "fold_body": "over bodies with new static shapes, by accumulators and dense_lists",
    "trim_loops": "over a graph with changed loops, by accumulators, dense_lists, loop_sums",
    "cluster": "instead of 'graph', by the master of a cluster: without the passes that make ops "
    "which TensorFlow lacks, since a worker may be TensorFlow's; workers run these",
    "region": "'body' then 'partition', over copies of bodies that are lowered with their "
    "partition, by specialize_bodies",
    "device_region": "'body' then 'offloaded'",
}
"""Section -> its graphs; the last three follow from others."""

COMPOSED: Final[Mapping[str, tuple[str, ...]]] = {
    "region": ("body", "partition"),
    "device_region": ("body", "offloaded"),
}
"""Sections that are others in turn."""


def is_for_master(step: Step) -> bool:
    """Return whether the master of a cluster runs a pass."""
    info = PASSES.get(step.name)
    return info is None or not info.local
