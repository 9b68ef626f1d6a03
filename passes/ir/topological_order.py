"""Sort nodes topologically, without recursion."""

from __future__ import annotations

import heapq

from tfjit.framework.cooperative_yield import yield_interpreter
from tfjit.framework.errors import InternalError
from tfjit.framework.op_defs.op_traits import MERGE, NEXT_ITERATION
from tfjit.passes.ir.dataflow_graph import SINK, SOURCE, DataflowGraph


def topological_order(graph: DataflowGraph) -> list[str]:
    """Return node names in topological order, ties in id order.

    `_SOURCE` and `_SINK` are left out. The edge from NextIteration to Merge does not count.
    Raises InternalError with the nodes of a cycle.
    """
    succ, pred, node_data = graph._succ, graph._pred, graph._node
    loops = graph.has_trait(NEXT_ITERATION)
    pending: dict[str, int] = {}
    ready: list[tuple[int, str]] = []
    for name, data in node_data.items():
        yield_interpreter()
        if name in (SOURCE, SINK):
            continue
        node = data["node"]
        count = len(pred[name])  # distinct predecessors: parallel edges count once on both sides
        if SOURCE in pred[name]:
            count -= 1
        if loops and node.has_trait(MERGE):
            count -= sum(
                1 for src in pred[name] if node_data[src]["node"].has_trait(NEXT_ITERATION)
            )
        pending[name] = count
        if count == 0:
            ready.append((node.id, name))
    heapq.heapify(ready)
    order: list[str] = []
    while ready:
        yield_interpreter()
        _, name = heapq.heappop(ready)
        order.append(name)
        next_iteration = loops and node_data[name]["node"].has_trait(NEXT_ITERATION)
        for dst in succ[name]:
            if dst == SINK:
                continue
            dst_node = node_data[dst]["node"]
            if next_iteration and dst_node.has_trait(MERGE):
                continue
            left = pending[dst] - 1
            pending[dst] = left
            if left == 0:
                heapq.heappush(ready, (dst_node.id, dst))
    if len(order) != graph.num_op_nodes:
        raise InternalError(
            None, None, describe_cycle(graph, {name for name, left in pending.items() if left > 0})
        )
    return order


def describe_cycle(graph: DataflowGraph, stuck: set[str]) -> str:
    """Describe one cycle among nodes that no topological order reaches.

    The text is "N nodes in a cycle: a -> b -> a".
    """
    # every stuck node has a stuck predecessor, so walking backwards must meet a node again
    name = min(stuck, key=lambda candidate: graph.node(candidate).id)
    seen: dict[str, int] = {}
    path: list[str] = []
    while name not in seen:
        seen[name] = len(path)
        path.append(name)
        name = next(
            src
            for src in graph._pred[name]
            if src in stuck and not graph.is_back_edge(src, path[-1])
        )
    cycle = [name, *reversed(path[seen[name] :])]
    shown = cycle if len(cycle) <= 12 else [*cycle[:10], "...", cycle[-1]]
    return f"{len(cycle) - 1} nodes in a cycle: {' -> '.join(shown)}"
