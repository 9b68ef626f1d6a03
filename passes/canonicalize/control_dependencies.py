"""Remove control edges that order nothing.

Other edges keep both ends in order, or nothing before the edge has an effect.
"""

from __future__ import annotations

from typing import Final

from tfjit.framework.cooperative_yield import yield_interpreter
from tfjit.framework.op_defs.op_traits import CONTROL_FLOW, PLACEHOLDER, VARIABLE
from tfjit.passes.ir.dataflow_graph import CONTROL, SINK, SOURCE, DataflowGraph, Node
from tfjit.passes.manager.pass_context import PassContext

MAX_EFFECTS: Final = 4096  # sets of effects are bit masks: this bounds memory to 512 bytes a node


def drop_control_edges(graph: DataflowGraph, ctx: PassContext) -> None:
    """Remove control edges that add no effect before their destination.

    Every effect before such an edge precedes the destination by other edges too.

    Before: read -> a -> b -> y, a -> NoOp -> ^y
    After: read -> a -> b -> y
    Keeps: the order of any two effects, and the set of effects before each node.

    An effect is a stateful op, the read of a reference, or a check. Gradients are full of such
    edges (tf.tuple ties the gradients of one op together), and the edges keep nodes from fusing and
    buffers from dying. Graphs with control flow are left alone: there a control edge also decides
    whether a node runs.
    """
    if graph.has_trait(CONTROL_FLOW):
        return
    order = graph.topological_order()
    if not any(_is_taken_over(graph, ctx, src) for src in graph._pred[SINK]) and not any(
        map(graph.control_inputs, order)
    ):
        return  # nothing to drop, as in most graphs without gradients
    effects = {name: index for index, name in enumerate(_effects(graph, order))}
    if len(effects) > MAX_EFFECTS:
        ctx.log(
            "",
            f"control edges stay: {len(effects)} nodes with effects, above the limit of "
            f"{MAX_EFFECTS}",
        )
        return
    # node -> mask of the effects that have happened when the node has run
    done: dict[str, int] = {}
    changes = graph.changes
    for name in order:
        yield_interpreter()
        waits: list[str] = []
        before = 0
        for src, keyed in graph._pred[name].items():
            if src == SOURCE:
                continue
            inputs = [data["dst_input"] for data in keyed.values()]
            if max(inputs) != CONTROL:
                before |= done[src]
            if CONTROL in inputs:
                waits.append(src)
        before, loose = _cover(graph, waits, before, done)
        if loose and not ctx.may_rewrite():
            break
        for src in loose:
            graph.remove_control_edge(src, name)
        if loose:
            ctx.rewrote(name, f"{len(loose)} control edges dropped")
        if name in effects:
            before |= 1 << effects[name]
        done[name] = before
    else:
        _drop_ties(graph, ctx, done)
    if graph.changes != changes:
        _tie_loose_ends(graph)


def _drop_ties(graph: DataflowGraph, ctx: PassContext, done: dict[str, int]) -> None:
    """Drop ties to the sink that add no effect.

    done: node -> mask of the effects that have happened when the node has run.
    """
    # Of the ties to the sink, those of fetches and targets stay. A node that took over a tie from a
    # replaced node may lose the tie.
    asked: list[str] = []
    taken_over: list[str] = []
    for edge in graph.edges_into(SINK):
        if edge.src != SOURCE:
            (taken_over if _is_taken_over(graph, ctx, edge.src) else asked).append(edge.src)
    before = 0
    for name in asked:
        before |= done[name]
    loose = _cover(graph, taken_over, before, done)[1]
    if not loose or not ctx.may_rewrite():
        return
    for src in loose:
        graph.remove_control_edge(src, SINK)
    ctx.rewrote("", f"{len(loose)} ties of {', '.join(loose[:4])} to the run's end dropped")


def _is_taken_over(graph: DataflowGraph, ctx: PassContext, src: str) -> bool:
    """Return whether a node of the sink is no fetch or target."""
    if src == SOURCE or src in ctx.spec.targets:
        return False
    node = graph.node(src)
    return bool(node.output_dtypes) or node.op == "NoOp"


def _cover(
    graph: DataflowGraph, waits: list[str], before: int, done: dict[str, int]
) -> tuple[int, list[str]]:
    """Return (effects before a node, control inputs that add none).

    waits: the control inputs. The widest are taken first; ids break ties.
    """
    loose = []
    for src in sorted(waits, key=lambda src: (-done[src].bit_count(), graph.node(src).id)):
        if done[src] & ~before:
            before |= done[src]
        else:
            loose.append(src)
    return before, loose


def _effects(graph: DataflowGraph, order: list[str]) -> list[str]:
    """Return the nodes that are effects, in the given order."""
    by_type: dict[str, bool] = {}
    references = False
    for node in map(graph.node, order):
        if node.op not in by_type:
            by_type[node.op] = _is_effect(node)
        for dtype in node.output_dtypes:
            references = references or dtype.is_ref
    if references:
        return [name for name in order if _has_effect(graph, graph.node(name))]
    return [name for name in order if by_type[graph.node(name).op]]


def _has_effect(graph: DataflowGraph, node: Node) -> bool:
    if _is_pure(node):
        return False
    return _is_effect(node) or any(
        graph.node(src).output_dtypes[output].is_ref for src, output in graph.inputs(node.name)
    )


def _is_effect(node: Node) -> bool:
    """Return whether nodes of the op type are effects, for any input."""
    # an EnsureShape has no state, but runs for the error that it may raise
    return not _is_pure(node) and (
        node.is_stateful or node.op == "EnsureShape" or node.op_def is None
    )


def _is_pure(node: Node) -> bool:
    """Return whether an op is stateful only to prevent folding and merging."""
    return node.op == "_Arg" or node.has_trait(PLACEHOLDER | VARIABLE)


def _tie_loose_ends(graph: DataflowGraph) -> None:
    """Tie nodes that have lost their only input to the source.

    Ties to the sink mark fetches and targets: none are made.
    """
    for node in graph.op_nodes():
        if not graph._pred[node.name]:
            graph.add_control_edge(SOURCE, node.name)
