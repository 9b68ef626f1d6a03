"""Store nodes and edges of a working graph, and answer queries.

The store is networkx's dictionaries, with counts beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, KeysView
from typing import Any, Final

from tfjit.framework.cooperative_yield import yield_interpreter
from tfjit.framework.errors import InternalError
from tfjit.framework.op_defs.op_registry import registry
from tfjit.framework.op_defs.op_traits import MERGE, NEXT_ITERATION
from tfjit.passes.ir.networkx_base import NetworkxGraph
from tfjit.passes.ir.node import CONTROL, SINK, SOURCE, Edge, Node

_EDGE_DATA: Final[dict[tuple[int, int], dict[str, int]]] = {}
"""The data of edges by output and input.

They are never written to, and shared by all edges of the same ends in every graph.
"""


def edge_data(src_output: int, dst_input: int) -> dict[str, int]:
    """Return the data of an edge between this output and input."""
    key = src_output, dst_input
    found = _EDGE_DATA.get(key)
    if found is None:
        found = _EDGE_DATA[key] = {"src_output": src_output, "dst_input": dst_input}
    return found


class GraphStorage(NetworkxGraph):
    """Nodes by name and edges by both ends, with ids and counts.

    Node keys are node names, and `graph.node(name)` is the `Node`. The key of an edge is its id;
    its data are `src_output` and `dst_input` (-1 and -1 for a control edge). Ids of nodes and edges
    grow and are never used again. `inputs` and `control_inputs` are cached until an edge into the
    node changes.
    """

    def __init__(self, **attr: Any) -> None:
        super().__init__(None, **attr)
        self._next_node_id = 0
        self._next_edge_id = 0
        self._num_edges = 0
        self._removals = 0  # of nodes and edges, and changed op types
        self._order: list[str] | None = None
        self._positions: dict[str, int] = {}  # of the nodes in that order, removed ones included
        self._op_counts: dict[str, int] = {}  # op type -> number of its nodes
        # node -> (inputs, control inputs)
        self._sources: dict[str, tuple[tuple[tuple[str, int], ...], tuple[str, ...]]] = {}

    # ---- queries

    def node(self, name: str) -> Node:
        """Return the node of that name.

        Raises KeyError when there is none.
        """
        return self._node[name]["node"]

    def op_nodes(self) -> Iterator[Node]:
        """Yield every node but `_SOURCE` and `_SINK`, in order of insertion.

        Other threads may run between nodes.
        """
        for name, data in self._node.items():
            if name != SOURCE and name != SINK:
                yield_interpreter()
                yield data["node"]

    @property
    def op_types(self) -> KeysView[str]:
        """Return the op types of the nodes.

        They are counted as nodes are added and removed; `verify` checks the counts.
        """
        return self._op_counts.keys()

    def has_trait(self, traits: int) -> bool:
        """Return whether an op of the graph has one of these traits."""
        # over a copy: a session's graph may grow in another thread
        return any(registry.loaded_traits(op) & traits for op in tuple(self._op_counts))

    @property
    def num_nodes(self) -> int:
        """Return the number of nodes, `_SOURCE` and `_SINK` included."""
        return len(self._node)

    @property
    def num_op_nodes(self) -> int:
        """Return the number of nodes without `_SOURCE` and `_SINK`."""
        return len(self._node) - 2

    @property
    def num_edges(self) -> int:
        """Return the number of edges, control edges included."""
        return self._num_edges

    @property
    def num_node_ids(self) -> int:
        """Return one more than the highest node id ever given."""
        return self._next_node_id

    @property
    def num_edge_ids(self) -> int:
        """Return one more than the highest edge id ever given."""
        return self._next_edge_id

    @property
    def changes(self) -> int:
        """Return a count that grows with each change of the graph."""
        return self._next_node_id + self._next_edge_id + self._removals

    def has_node(self, n: object) -> bool:
        """Return whether there is a node of that name."""
        return n in self._node

    def successors(self, n: str) -> Iterator[str]:
        """Yield the nodes that follow a node, maybe with `_SINK`."""
        return iter(self._succ[n])

    def predecessors(self, n: str) -> Iterator[str]:
        """Yield the nodes that precede a node, maybe with `_SOURCE`."""
        return iter(self._pred[n])

    def inputs(self, name: str) -> list[tuple[str, int]]:
        """Return (source node, output) of each data input, in order."""
        found = self._sources.get(name)
        return list((found or self._look_behind(name))[0])

    def control_inputs(self, name: str) -> list[str]:
        """Return the nodes with a control edge to this node.

        `_SOURCE` is left out. The order is the edges' order of creation.
        """
        found = self._sources.get(name)
        return list((found or self._look_behind(name))[1])

    def _look_behind(self, name: str) -> tuple[tuple[tuple[str, int], ...], tuple[str, ...]]:
        """Return (inputs, control inputs) of a node, and cache them."""
        inputs: list[tuple[int, str, int]] = []
        waits: list[tuple[int, str]] = []
        for src, keyed in self._pred[name].items():
            for id, data in keyed.items():
                index = data["dst_input"]
                if index != CONTROL:
                    inputs.append((index, src, data["src_output"]))
                elif src != SOURCE:
                    waits.append((id, src))
        if len(inputs) > 1:
            inputs.sort()
        if len(waits) > 1:
            waits.sort()
        found = (
            tuple([(src, output) for _, src, output in inputs]),
            tuple([src for _, src in waits]),
        )
        self._sources[name] = found
        return found

    def consumers(self, name: str, output: int | None = None) -> list[tuple[str, int]]:
        """Return (node, input index) of each data consumer.

        output: one output, None for all. The order is the edges' order of creation.
        """
        found = [
            (id, dst, data["dst_input"])
            for dst, keyed in self._succ[name].items()
            for id, data in keyed.items()
            if data["dst_input"] != CONTROL and (output is None or data["src_output"] == output)
        ]
        if len(found) > 1:
            found.sort()
        return [(dst, dst_input) for _, dst, dst_input in found]

    def control_consumers(self, name: str) -> list[str]:
        """Return the nodes with a control edge from this node.

        `_SINK` is left out. The order is the edges' order of creation.
        """
        found = [
            (id, dst)
            for dst, keyed in self._succ[name].items()
            if dst != SINK
            for id, data in keyed.items()
            if data["dst_input"] == CONTROL
        ]
        if len(found) > 1:
            found.sort()
        return [dst for _, dst in found]

    def edges_into(self, name: str) -> list[Edge]:
        """Return edges into a node: data edges by input, then control edges.

        Control edges are in id order.
        """
        found = [
            Edge(id, src, data["src_output"], name, data["dst_input"])
            for src, keyed in self._pred[name].items()
            for id, data in keyed.items()
        ]
        found.sort(key=lambda edge: (edge.dst_input == CONTROL, edge.dst_input, edge.id))
        return found

    def edges_out_of(self, name: str) -> list[Edge]:
        """Return the edges out of a node, by id."""
        found = [
            Edge(id, name, data["src_output"], dst, data["dst_input"])
            for dst, keyed in self._succ[name].items()
            for id, data in keyed.items()
        ]
        found.sort()
        return found

    def all_edges(self) -> Iterator[Edge]:
        """Yield every edge, grouped by source node."""
        for src, successors in self._succ.items():
            for dst, keyed in successors.items():
                for id, data in keyed.items():
                    yield Edge(id, src, data["src_output"], dst, data["dst_input"])

    def is_back_edge(self, src: str, dst: str) -> bool:
        """Return whether an edge between these nodes closes a loop.

        Only NextIteration -> Merge does.
        """
        return self.node(dst).has_trait(MERGE) and self.node(src).has_trait(NEXT_ITERATION)

    def topological_order(self) -> list[str]:
        """Return node names in topological order, ties in id order.

        `_SOURCE` and `_SINK` are left out. A new edge that agrees with the order found before
        leaves that order unchanged. The edge from NextIteration to Merge does not count.
        Raises InternalError with the nodes of a cycle.
        """
        if self._order is not None:
            if len(self._order) != self.num_op_nodes:
                self._order = [name for name in self._order if name in self._node]
            return list(self._order)
        from tfjit.passes.ir.topological_order import topological_order

        self._order = topological_order(self)
        self._positions = {name: position for position, name in enumerate(self._order)}
        return list(self._order)

    def forget_order(self) -> None:
        """Forget the order, so that the next query starts from id order."""
        self._order = None
        self._positions = {}

    # ---- removing

    def remove_op(self, name: str) -> None:
        """Remove a node and its edges.

        Raises InternalError for `_SOURCE` and `_SINK`.
        """
        self.remove_node(name)

    def remove_node(self, n: str) -> None:
        """Remove a node and its edges, by networkx's interface."""
        if n in (SOURCE, SINK):
            raise InternalError(None, None, f"{n} cannot be removed")
        succ, pred = self._succ[n], self._pred[n]
        gone = sum(len(keyed) for keyed in succ.values()) + sum(
            len(keyed) for keyed in pred.values()
        )
        if n in succ:
            gone -= len(succ[n])
        sources = self._sources
        sources.pop(n, None)
        for dst in succ:
            sources.pop(dst, None)
        self._discount(self._node[n]["node"].op)
        for dst in succ:
            if dst != n:
                del self._pred[dst][n]
        for src in pred:
            if src != n:
                del self._succ[src][n]
        del self._node[n], self._succ[n], self._pred[n]
        self._num_edges -= gone
        self._removals += 1

    def remove_nodes_from(self, nodes: Iterable[str]) -> None:
        """Remove nodes; unknown names are skipped, as in networkx."""
        for name in list(nodes):
            if name in self._node:
                self.remove_node(name)

    def remove_edge(self, u: str, v: str, key: int | None = None) -> None:
        """Remove one edge between two nodes, by default the newest."""
        if key is None:
            key = max(self._succ[u][v])
        self._disconnect(u, v, key)

    def remove_control_edge(self, src: str, dst: str) -> None:
        """Remove the control edge from src to dst, if there is one."""
        for id, data in list(self._succ[src].get(dst, {}).items()):
            if data["dst_input"] == CONTROL:
                self._disconnect(src, dst, id)

    # ---- the storage

    def _new_node_id(self) -> int:
        id = self._next_node_id
        self._next_node_id += 1
        return id

    def _insert(self, node: Node) -> None:
        """Insert a node without edges."""
        name, op = node.name, node.op
        self._succ[name] = {}
        self._pred[name] = {}
        self._node[name] = {"node": node}
        self._op_counts[op] = self._op_counts.get(op, 0) + 1
        self._order = None

    def _retype(self, node: Node, op: str) -> None:
        """Change a node's op type; the caller updates everything else."""
        self._discount(node.op)
        self._removals += 1
        node.op = op
        self._op_counts[op] = self._op_counts.get(op, 0) + 1

    def _discount(self, op: str) -> None:
        left = self._op_counts.get(op, 0) - 1
        if left > 0:
            self._op_counts[op] = left
        else:
            self._op_counts.pop(op, None)

    def _connect(self, src: str, src_output: int, dst: str, dst_input: int) -> int:
        """Insert an edge and return its id.

        networkx's own way is slower and not used.
        """
        id = self._next_edge_id
        self._next_edge_id = id + 1
        successors = self._succ[src]
        keyed = successors.get(dst)
        if keyed is None:
            keyed = successors[dst] = self._pred[dst][src] = {}
            if (
                self._order is not None
                and src != SOURCE
                and dst != SINK
                and self._positions[src] >= self._positions[dst]
            ):
                self._order = None
        keyed[id] = edge_data(src_output, dst_input)
        self._sources.pop(dst, None)
        self._num_edges += 1
        return id

    def _disconnect(self, src: str, dst: str, id: int) -> None:
        keyed = self._succ[src][dst]
        del keyed[id]
        if not keyed:
            del self._succ[src][dst]
            del self._pred[dst][src]
        self._sources.pop(dst, None)
        self._num_edges -= 1
        self._removals += 1

    def _forget_all(self) -> None:
        """Drop every node and edge."""
        for part in (self._node, self._succ, self._pred, self.graph):
            part.clear()
        self._sources.clear()
        self._op_counts.clear()
        self.forget_order()
