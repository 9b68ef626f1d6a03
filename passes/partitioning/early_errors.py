"""Find the nodes of a stage that may fail before it starts.

A small group of nodes beside a receive is part of the stage behind the receive, so that a step has
few stages. An error of such a node would come with the tensor of the other task, or with the time
limit of the step. So these nodes can run by themselves, too, where the tensor is late.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from tfjit.framework.op_defs.op_traits import (
    CALLS_PYTHON,
    ELEMENTWISE,
    IDENTITY,
    READS_STATE,
    RUNS_FUNCTIONS,
    SHAPE_QUERY,
    VARIABLE,
    WRITES_VARIABLE,
)
from tfjit.passes.ir.dataflow_graph import SOURCE, DataflowGraph, Node


def early_groups(
    graph: DataflowGraph,
    stage: AbstractSet[str],
    early: Sequence[str],
    needs: Mapping[str, int],
) -> list[set[str]]:
    """Return nodes that may fail and those before them, by needs.

    stage: its nodes. early: those that need less than the stage and may run twice, in the order of
    their edges. needs: receives and blocking nodes before each node, as bits. A node behind an
    effect, or behind another node of the stage that may not run twice, is in no group.
    """
    before: dict[str, set[str]] = {}
    groups: dict[int, set[str]] = {}
    for name in early:
        if _has_effect(graph.node(name)):
            continue
        sources = {edge.src for edge in graph.edges_into(name) if edge.src != SOURCE} & stage
        if not sources <= before.keys():
            continue
        before[name] = {name}.union(*(before[source] for source in sources))
        if _may_fail(graph, graph.node(name)):
            groups.setdefault(needs[name], set()).update(before[name])
    return [groups[bits] for bits in sorted(groups, key=lambda bits: (bits.bit_count(), bits))]


def _has_effect(node: Node) -> bool:
    """Return whether a node may run just once in a step."""
    if node.op_def is None or node.has_trait(WRITES_VARIABLE | CALLS_PYTHON | RUNS_FUNCTIONS):
        return True
    # ops that take a reference, such as ApplyAdam, are not declared as stateful
    changes = node.op_def.is_stateful or any(given.is_ref for given in node.op_def.inputs)
    return changes and not node.has_trait(VARIABLE | READS_STATE)


def _may_fail(graph: DataflowGraph, node: Node) -> bool:
    """Return whether inputs or a variable may be an error."""
    sources = [(graph.node(source), output) for source, output in graph.inputs(node.name)]
    if node.has_trait(READS_STATE) or any(src.output_dtypes[i].is_ref for src, i in sources):
        return True
    if not node.is_speculatable:
        return not node.has_trait(VARIABLE)
    shapes = [source.output_shapes[output] for source, output in sources]
    if node.has_trait(ELEMENTWISE | IDENTITY | SHAPE_QUERY) and len(shapes) - shapes.count(()) < 2:
        return False
    return any(shape is None or None in shape for shape in shapes)


__all__ = ["early_groups"]
