"""Keep what a run needs and drop the rest."""

from __future__ import annotations

from tfjit.passes.ir.dataflow_graph import SINK, SOURCE, DataflowGraph
from tfjit.passes.ir.subgraph import ancestors
from tfjit.passes.manager.pass_context import PassContext


def prune(graph: DataflowGraph, ctx: PassContext) -> None:
    """Drop every node that no fetch or target depends on.

    Before:  x -> y -> _retval_y    x -> z      After:  x -> y -> _retval_y
    Keeps: every data and control ancestor of `_SINK`, with its name, id, device and attrs. An
    `_Arg` that nothing uses goes like any other node: the others keep their `index`.
    Needs: `lower_feeds` has run: it ties what the run asks for, and nothing else, to `_SINK`, and a
    feed shields what used to feed it.
    """
    keep = ancestors(graph, [SINK])
    dropped = [name for name in graph.nodes if name not in keep and name != SOURCE]
    graph.remove_nodes_from(dropped)
    if dropped:
        ctx.log("", f"{len(dropped)} nodes dropped")
