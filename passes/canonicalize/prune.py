"""Keep the nodes that a run needs and drop the others."""

from __future__ import annotations

from tfjit.passes.ir.dataflow_graph import SINK, SOURCE, DataflowGraph
from tfjit.passes.ir.subgraph import ancestors
from tfjit.passes.manager.pass_context import PassContext


def prune(graph: DataflowGraph, ctx: PassContext) -> None:
    """Drop every node that no fetch or target depends on.

    Before: x -> y -> _retval_y, x -> z
    After: x -> y -> _retval_y
    Keeps: every data and control ancestor of `_SINK`, with its name, id, device and attrs. An
    unused `_Arg` is dropped like any other node: the others keep their `index`.
    Needs: `lower_feeds`, which ties only fetches and targets to `_SINK`, and makes a feed shield
    the former producers of the fed tensor.
    """
    keep = ancestors(graph, [SINK])
    dropped = [name for name in graph if name not in keep and name != SOURCE]
    graph.remove_nodes_from(dropped)
    if dropped:
        ctx.rewrote("", f"{len(dropped)} nodes dropped")
