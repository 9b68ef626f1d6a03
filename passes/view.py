"""The working graph of the passes: one networkx multigraph of nodes and edges with ids, rewritten in place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import networkx as nx

from tfjit.framework.errors import InternalError
from tfjit.framework.pace import breathe

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from tfjit.framework.dtypes import DType
    from tfjit.framework.graph import Graph
    from tfjit.framework.op_def import OpDef
    from tfjit.framework.operation import Operation
    from tfjit.passes.functions import FunctionLibrary

SOURCE: Final = "_SOURCE"
SINK: Final = "_SINK"
CONTROL: Final = -1  # both slots of a control edge

MERGES: Final = frozenset({"Merge", "RefMerge"})
NEXT_ITERATIONS: Final = frozenset({"NextIteration", "RefNextIteration"})


class Edge(NamedTuple):
    """One edge; a control edge has both slots -1. `src` and `dst` are node names."""

    id: int
    src: str
    src_output: int
    dst: str
    dst_input: int

    @property
    def is_control(self) -> bool:
        """Whether the edge orders only and carries no tensor."""
        return self.dst_input == CONTROL


class Node:
    """One node of a `DataflowGraph`.

    name, id: unique in the graph; an id is never used again after its node is gone.
    op, op_def, attrs: the op type, the registry's own immutable OpDef, and Python values (framework/attrs.py).
    device, assigned_device: what the user asked for, and where the placer put it ("" before).
    input_dtypes, output_dtypes: one an input or output, reference dtypes where the op has them.
    output_shapes: one an output: a tuple of sizes with None where unknown, or None for an unknown rank.
    origin: names of the user's nodes it stands for; its own name when the user made it.
    """

    __slots__ = (
        "_graph",
        "assigned_device",
        "attrs",
        "device",
        "id",
        "input_dtypes",
        "name",
        "op",
        "op_def",
        "origin",
        "output_dtypes",
        "output_shapes",
    )

    def __init__(
        self,
        graph: DataflowGraph,
        name: str,
        id: int,
        op: str,
        attrs: dict[str, Any],
        op_def: OpDef | None,
        input_dtypes: tuple[DType, ...] = (),
        output_dtypes: tuple[DType, ...] = (),
        device: str = "",
        assigned_device: str = "",
        origin: tuple[str, ...] = (),
        output_shapes: tuple[Any, ...] | None = None,
    ) -> None:
        self._graph = graph
        self.name = name
        self.id = id
        self.op = op
        self.attrs = attrs
        self.op_def = op_def
        self.input_dtypes = input_dtypes
        self.output_dtypes = output_dtypes
        self.device = device
        self.assigned_device = assigned_device
        self.origin = origin
        self.output_shapes = output_shapes if output_shapes is not None else (None,) * len(output_dtypes)

    def __repr__(self) -> str:
        return f"<Node {self.name!r} op={self.op} id={self.id}>"

    @property
    def in_edges(self) -> list[Edge]:
        """Edges that end here, data edges by input slot, then control edges by id."""
        return self._graph.edges_into(self.name)

    @property
    def out_edges(self) -> list[Edge]:
        """Edges that start here, by id."""
        return self._graph.edges_out_of(self.name)

    @property
    def is_op(self) -> bool:
        """Whether this is neither `_SOURCE` nor `_SINK`."""
        return self.id > 1

    @property
    def is_stateful(self) -> bool:
        """Whether the op has state or side effects, so that it may be neither folded nor merged with its like."""
        return self.op_def is not None and self.op_def.is_stateful


def _node_def(node: Node) -> Message:
    """The NodeDef of the node as it stands, made anew at each call."""
    from tfjit.passes.convert import node_def

    return node_def(node)


# `def` is a keyword, so the attribute of that name cannot be written in the class body.
setattr(Node, "def", property(_node_def, doc=_node_def.__doc__))


class DataflowGraph(nx.MultiDiGraph):
    """A TensorFlow graph in networkx's form.

    Node keys are node names, and `graph.node(name)` is the `Node`. The key of an edge is its id; its data are `src_output`
    and `dst_input` (-1 and -1 for a control edge). `_SOURCE` (id 0) and `_SINK` (id 1) are always there and tied by a control edge.
    Ids of nodes and edges grow and are never used again; `num_op_nodes` and `num_edges` count what is live.
    """

    def __init__(self, incoming_graph_data: Any = None, **attr: Any) -> None:
        super().__init__(None, **attr)
        self._next_node_id = 0
        self._next_edge_id = 0
        self._num_edges = 0
        self._name_counter = 0
        self._order: list[str] | None = None
        self.versions: Any = None  # the GraphDef's VersionDef, carried along unread
        self._functions: FunctionLibrary | None = None
        self._twin: Graph | None = None  # the framework Graph in which extensions are checked
        self.extracted_for: Any = None  # the RunSpec that `prune.extract` copied this graph for
        self.shields: set[str] = set()  # nodes copied without their inputs, since all that is needed of them is fed
        self.unplaced: dict[str, str] = {}  # nodes that the placer found no device for, with its reason
        if incoming_graph_data is not None:
            raise TypeError("DataflowGraph is built by from_graph_def, from_graph or add_node_op, not from other graph data")
        for name in (SOURCE, SINK):
            self._insert(Node(self, name, self._new_node_id(), "NoOp", {}, None))
        self._connect(SOURCE, CONTROL, SINK, CONTROL)

    @property
    def functions(self) -> FunctionLibrary:
        """The functions that nodes may name (passes/functions.py); shared by copies of the graph."""
        if self._functions is None:
            from tfjit.passes.functions import FunctionLibrary

            self._functions = FunctionLibrary()
        return self._functions

    @functions.setter
    def functions(self, library: FunctionLibrary) -> None:
        self._functions = library

    # ---- building from and writing to the wire

    @classmethod
    def from_graph_def(cls, graph_def: Any) -> DataflowGraph:
        """A working graph of a GraphDef message. Raises what importing it raises (framework/graph_def.py)."""
        graph = cls()
        graph.extend(graph_def)
        return graph

    @classmethod
    def from_graph(cls, graph: Graph) -> DataflowGraph:
        """A working graph of all operations of a framework Graph, without the way through a GraphDef."""
        made = cls()
        made.add_operations(graph.get_operations())
        made.versions = graph.graph_def_versions
        made.functions.merge(graph.functions.values(), graph.function_gradients)
        return made

    def add_operations(self, operations: Sequence[Operation]) -> list[str]:
        """Add operations of a framework Graph whose inputs are among them or here already; returns their names."""
        from tfjit.passes.convert import add_operations

        return add_operations(self, operations)

    def extend(self, graph_def: Any) -> list[str]:
        """Add the nodes of a GraphDef, which may name nodes already here as inputs. Nothing is added when it is not valid.

        Returns the new nodes' names. Raises what importing it raises.
        """
        from tfjit.passes.convert import add_node_defs

        return add_node_defs(self, graph_def)

    def to_graph_def(self) -> Any:
        """The graph as a GraphDef message, in id order, without `_SOURCE` and `_SINK`."""
        from tfjit.passes.convert import graph_def

        return graph_def(self)

    def verify(self) -> None:
        """Check every invariant of the graph. Raises InternalError that names the node and what is wrong with it."""
        from tfjit.passes.verify import verify

        verify(self)

    # ---- looking

    def node(self, name: str) -> Node:
        """The node of that name. Raises KeyError when there is none."""
        return self._node[name]["node"]

    def op_nodes(self) -> Iterator[Node]:
        """Every node but `_SOURCE` and `_SINK`, in the order they were added."""
        for name, data in self._node.items():
            if name != SOURCE and name != SINK:
                yield data["node"]

    @property
    def num_nodes(self) -> int:
        """Live nodes, `_SOURCE` and `_SINK` among them."""
        return len(self._node)

    @property
    def num_op_nodes(self) -> int:
        """Live nodes without `_SOURCE` and `_SINK`."""
        return len(self._node) - 2

    @property
    def num_edges(self) -> int:
        """Live edges, control edges among them."""
        return self._num_edges

    @property
    def num_node_ids(self) -> int:
        """One more than the highest node id ever given."""
        return self._next_node_id

    @property
    def num_edge_ids(self) -> int:
        """One more than the highest edge id ever given."""
        return self._next_edge_id

    def find_node_id(self, id: int) -> Node | None:
        """The live node of that id, or None. Linear: for tests and tools."""
        return next((data["node"] for data in self._node.values() if data["node"].id == id), None)

    def inputs(self, name: str) -> list[tuple[str, int]]:
        """(source node, its output slot) of each data input, by input slot."""
        breathe()  # every loop over nodes comes by here
        found = [
            (data["dst_input"], src, data["src_output"])
            for src, keyed in self._pred[name].items()
            for data in keyed.values()
            if data["dst_input"] != CONTROL
        ]
        if len(found) > 1:
            found.sort()
        return [(src, slot) for _, src, slot in found]

    def control_inputs(self, name: str) -> list[str]:
        """Nodes this one waits for without taking a tensor, `_SOURCE` left out, in the order the edges were made."""
        found = [
            (id, src)
            for src, keyed in self._pred[name].items()
            if src != SOURCE
            for id, data in keyed.items()
            if data["dst_input"] == CONTROL
        ]
        if len(found) > 1:
            found.sort()
        return [src for _, src in found]

    def consumers(self, name: str, slot: int | None = None) -> list[tuple[str, int]]:
        """(node, input slot) of each data consumer of one output, or of all outputs, in the order the edges were made."""
        found = [
            (id, dst, data["dst_input"])
            for dst, keyed in self._succ[name].items()
            for id, data in keyed.items()
            if data["dst_input"] != CONTROL and (slot is None or data["src_output"] == slot)
        ]
        if len(found) > 1:
            found.sort()
        return [(dst, dst_input) for _, dst, dst_input in found]

    def control_consumers(self, name: str) -> list[str]:
        """Nodes that wait for this one without taking a tensor, `_SINK` left out, in the order the edges were made."""
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
        """Edges that end at a node: data edges by input slot, then control edges by id."""
        found = [
            Edge(id, src, data["src_output"], name, data["dst_input"])
            for src, keyed in self._pred[name].items()
            for id, data in keyed.items()
        ]
        found.sort(key=lambda edge: (edge.dst_input == CONTROL, edge.dst_input, edge.id))
        return found

    def edges_out_of(self, name: str) -> list[Edge]:
        """Edges that start at a node, by id."""
        found = [
            Edge(id, name, data["src_output"], dst, data["dst_input"])
            for dst, keyed in self._succ[name].items()
            for id, data in keyed.items()
        ]
        found.sort()
        return found

    def all_edges(self) -> Iterator[Edge]:
        """Every edge, grouped by source node."""
        for src, successors in self._succ.items():
            for dst, keyed in successors.items():
                for id, data in keyed.items():
                    yield Edge(id, src, data["src_output"], dst, data["dst_input"])

    def is_back_edge(self, src: str, dst: str) -> bool:
        """Whether an edge between these two closes a loop: only NextIteration -> Merge does."""
        return self.node(dst).op in MERGES and self.node(src).op in NEXT_ITERATIONS

    def topological_order(self) -> list[str]:
        """Names of all nodes but `_SOURCE` and `_SINK`, inputs before consumers, in id order where the edges leave a choice.

        The edge from NextIteration to Merge does not count. Raises InternalError naming nodes of a cycle.
        """
        if self._order is not None:
            if len(self._order) != self.num_op_nodes:
                self._order = [name for name in self._order if name in self._node]
            return list(self._order)
        from tfjit.passes.order import topological_order

        self._order = topological_order(self)
        return list(self._order)

    # ---- adding

    def new_name(self, prefix: str) -> str:
        """A name not yet in the graph: prefix + "/_" + a counter of this graph."""
        while True:
            name = f"{prefix}/_{self._name_counter}"
            self._name_counter += 1
            if name not in self._node:
                return name

    def add_node_op(
        self,
        name: str,
        op: str,
        inputs: Sequence[tuple[str, int]] = (),
        attrs: Mapping[str, Any] | None = None,
        *,
        control_inputs: Iterable[str] = (),
        like: Node | None = None,
        device: str = "",
        assigned_device: str = "",
        origin: tuple[str, ...] | None = None,
        output_shapes: tuple[Any, ...] | None = None,
    ) -> Node:
        """Add a node with its edges. Its dtypes follow from op and attrs (missing attrs are taken from inputs and defaults).

        like: the node it stands for or belongs to: device, assigned_device and origin come from it where not given.
        Raises InternalError when the name is taken or an input does not exist.
        """
        from tfjit.passes.convert import complete_attrs, signature

        if name in self._node:
            raise InternalError(None, None, f"Node '{name}' is already in the graph")
        for src, slot in inputs:
            if src not in self._node:
                raise InternalError(None, None, f"Node '{name}': unknown input node '{src}'")
            if not 0 <= slot < len(self.node(src).output_dtypes):
                raise InternalError(None, None, f"Node '{name}': input '{src}:{slot}': '{src}' has no output {slot}")
        input_dtypes = tuple(self.node(src).output_dtypes[slot] for src, slot in inputs)
        all_attrs, op_def = complete_attrs(op, dict(attrs or {}), input_dtypes)
        wanted_inputs, output_dtypes = signature(op, op_def, all_attrs, name)
        node = Node(
            self,
            name,
            self._new_node_id(),
            op,
            all_attrs,
            op_def,
            wanted_inputs,
            output_dtypes,
            device or (like.device if like else ""),
            assigned_device or (like.assigned_device if like else ""),
            origin if origin is not None else (like.origin if like else (name,)),
            output_shapes,
        )
        self._insert(node)
        for index, (src, slot) in enumerate(inputs):
            self._connect(src, slot, name, index)
        for src in dict.fromkeys(control_inputs):
            self.add_control_edge(src, name)
        return node

    def add_loose_node(self, name: str, op: str, attrs: Mapping[str, Any], like: Node) -> Node:
        """Add a node without edges, beside `like`; its attrs are complete but for defaults. The caller connects it."""
        from tfjit.passes.convert import find_op_def, signature, with_defaults

        op_def = find_op_def(op, name)
        all_attrs = with_defaults(op_def, attrs)
        inputs, outputs = signature(op, op_def, all_attrs, name)
        node = Node(self, name, self._new_node_id(), op, all_attrs, op_def, inputs, outputs, like.device, like.assigned_device, like.origin)
        if name in self._node:
            raise InternalError(None, None, f"Node '{name}' is already in the graph")
        self._insert(node)
        return node

    def add_data_edge(self, src: str, src_output: int, dst: str, dst_input: int) -> int:
        """Add a data edge and return its id."""
        return self._connect(src, src_output, dst, dst_input)

    def add_control_edge(self, src: str, dst: str) -> int | None:
        """Let dst wait for src; returns the edge's id, or None when it already does."""
        keyed = self._succ[src].get(dst)
        if keyed is not None and any(data["dst_input"] == CONTROL for data in keyed.values()):
            return None
        return self._connect(src, CONTROL, dst, CONTROL)

    def add_edge(self, u_for_edge: str, v_for_edge: str, key: int | None = None, **attr: Any) -> int:
        """networkx's form of adding an edge: attrs `src_output` and `dst_input`, a control edge without them; the id is the key."""
        unknown = set(attr) - {"src_output", "dst_input"}
        if key is not None or unknown:
            raise TypeError(f"an edge has an id of its own, src_output and dst_input, not {sorted(unknown) or 'a key'}")
        return self._connect(u_for_edge, attr.get("src_output", CONTROL), v_for_edge, attr.get("dst_input", CONTROL))

    # ---- rewiring

    def replace_input(self, name: str, index: int, src: str, src_output: int) -> None:
        """Let data input `index` of a node come from another tensor."""
        for old, keyed in self._pred[name].items():
            for id, data in keyed.items():
                if data["dst_input"] == index:
                    self._disconnect(old, name, id)
                    self._connect(src, src_output, name, index)
                    return
        raise InternalError(None, None, f"Node '{name}' has no input {index}")

    def redirect_output(self, name: str, slot: int, src: str, src_output: int) -> None:
        """Let every data consumer of `name:slot` take `src:src_output` instead (src itself excepted)."""
        moved = [
            (id, dst, data["dst_input"])
            for dst, keyed in self._succ[name].items()
            if dst != src
            for id, data in keyed.items()
            if data["src_output"] == slot and data["dst_input"] != CONTROL
        ]
        moved.sort()
        for id, dst, dst_input in moved:
            self._disconnect(name, dst, id)
            self._connect(src, src_output, dst, dst_input)

    def redirect_control(self, name: str, src: str) -> None:
        """Let every node that waits for `name` by a control edge wait for `src` instead; an edge to `_SINK` stays."""
        for edge in self.edges_out_of(name):
            if edge.is_control and edge.dst != src and edge.dst != SINK:
                self._disconnect(name, edge.dst, edge.id)
                self.add_control_edge(src, edge.dst)

    def bypass(self, name: str, src: str, src_output: int) -> None:
        """Remove a one-output node: consumers take `src:src_output`, and what it waited for, they wait for."""
        waited_for = self.control_inputs(name)
        edges = self.edges_out_of(name)
        to_sink = any(edge.dst == SINK for edge in edges)
        self.remove_op(name)
        for edge in edges:
            if edge.dst == SINK:
                continue
            if edge.is_control:
                self.add_control_edge(src, edge.dst)
            else:
                self._connect(src, src_output, edge.dst, edge.dst_input)
            for waited in waited_for:
                if waited != edge.dst:
                    self.add_control_edge(waited, edge.dst)
        if to_sink:
            self.add_control_edge(src, SINK)
            for waited in waited_for:
                self.add_control_edge(waited, SINK)

    def change_op(
        self, name: str, op: str, inputs: Sequence[tuple[str, int]], attrs: Mapping[str, Any], control_inputs: Iterable[str] | None = None
    ) -> Node:
        """Turn a node into another op in place: name, id, consumers, devices and origin stay; inputs, attrs and dtypes are new.

        control_inputs: None keeps those it has. Raises InternalError when it would have fewer outputs than are consumed.
        """
        from tfjit.passes.convert import complete_attrs, signature

        node = self.node(name)
        input_dtypes = tuple(self.node(src).output_dtypes[slot] for src, slot in inputs)
        all_attrs, op_def = complete_attrs(op, dict(attrs), input_dtypes)
        wanted_inputs, output_dtypes = signature(op, op_def, all_attrs, name)
        waited_for = self.control_inputs(name) if control_inputs is None else list(dict.fromkeys(control_inputs))
        for edge in self.edges_into(name):
            self._disconnect(edge.src, name, edge.id)
        for index, (src, slot) in enumerate(inputs):
            self._connect(src, slot, name, index)
        for src in waited_for:
            self.add_control_edge(src, name)
        used = max((edge.src_output for edge in self.edges_out_of(name)), default=-1)
        if used >= len(output_dtypes):
            raise InternalError(None, None, f"Node '{name}': as {op} it has {len(output_dtypes)} outputs, but output {used} is consumed")
        shapes = node.output_shapes if len(node.output_shapes) == len(output_dtypes) else (None,) * len(output_dtypes)
        node.op, node.op_def, node.attrs = op, op_def, all_attrs
        node.input_dtypes, node.output_dtypes, node.output_shapes = wanted_inputs, output_dtypes, shapes
        return node

    # ---- removing

    def remove_op(self, name: str) -> None:
        """Remove a node and its edges. Raises InternalError for `_SOURCE` and `_SINK`."""
        self.remove_node(name)

    def remove_node(self, n: str) -> None:
        """networkx's form of removing a node; edges go with it."""
        if n in (SOURCE, SINK):
            raise InternalError(None, None, f"{n} cannot be removed")
        gone = sum(len(keyed) for keyed in self._succ[n].values()) + sum(len(keyed) for keyed in self._pred[n].values())
        if n in self._succ[n]:
            gone -= len(self._succ[n][n])
        super().remove_node(n)
        self._num_edges -= gone

    def remove_nodes_from(self, nodes: Iterable[str]) -> None:
        """Remove nodes; names not in the graph are passed over, as networkx does."""
        for name in list(nodes):
            if name in self._node:
                self.remove_node(name)

    def remove_edge(self, u: str, v: str, key: int | None = None) -> None:
        """Remove one edge between two nodes, the last made when no id is given."""
        if key is None:
            key = max(self._succ[u][v])
        self._disconnect(u, v, key)

    def remove_control_edge(self, src: str, dst: str) -> None:
        """Let dst no longer wait for src; nothing happens when it does not."""
        for id, data in list(self._succ[src].get(dst, {}).items()):
            if data["dst_input"] == CONTROL:
                self._disconnect(src, dst, id)

    # ---- source and sink

    def tie_ends(self) -> None:
        """Give every op node without inputs a control edge from `_SOURCE`, every one without outputs one to `_SINK`; drop the others."""
        for name in list(self._node):
            breathe()
            if name in (SOURCE, SINK):
                continue
            preds, succs = self._pred[name], self._succ[name]
            alone_in = not preds or (len(preds) == 1 and SOURCE in preds)
            alone_out = not succs or (len(succs) == 1 and SINK in succs)
            if alone_in and not preds:
                self._connect(SOURCE, CONTROL, name, CONTROL)
            elif not alone_in and SOURCE in preds:
                self.remove_control_edge(SOURCE, name)
            if alone_out and not succs:
                self._connect(name, CONTROL, SINK, CONTROL)
            elif not alone_out and SINK in succs:
                self.remove_control_edge(name, SINK)

    # ---- copying

    def copy(self, as_view: bool = False) -> DataflowGraph:
        """A graph of the same nodes and edges with the same ids; nodes are copied, attr values are shared."""
        if as_view:
            raise TypeError("the passes work on real graphs, not on views of one")
        return self.copy_subset(self._node)

    def copy_subset(self, names: Iterable[str]) -> DataflowGraph:
        """A graph of just those nodes and the edges between them, with the ids they have here; `_SOURCE` and `_SINK` are always in it."""
        made = type(self)()
        made.graph.update(self.graph)
        made.versions, made._functions, made._name_counter = self.versions, self.functions, self._name_counter
        self.functions.remember(made)
        keep = dict.fromkeys(names)
        keep.pop(SOURCE, None)
        keep.pop(SINK, None)
        for name in keep:
            breathe()
            node = self._node[name]["node"]
            made._insert(
                Node(
                    made,
                    name,
                    node.id,
                    node.op,
                    dict(node.attrs),
                    node.op_def,
                    node.input_dtypes,
                    node.output_dtypes,
                    node.device,
                    node.assigned_device,
                    node.origin,
                    node.output_shapes,
                )
            )
        made._succ[SOURCE].clear()
        made._pred[SINK].clear()
        made._num_edges = 0
        keep[SOURCE] = keep[SINK] = None
        made_succ, made_pred = made._succ, made._pred
        total = 0
        for src in keep:
            breathe()
            for dst, keyed in self._succ[src].items():
                if dst in keep:
                    made_succ[src][dst] = made_pred[dst][src] = dict(keyed)  # edge data are never written to
                    total += len(keyed)
        made._num_edges = total
        made._next_node_id, made._next_edge_id = self._next_node_id, self._next_edge_id
        return made

    def dissolve(self, *, functions: bool = True) -> None:
        """Let go of everything: nodes know their graph, so a graph merely dropped would hold its constants until a garbage collection.

        functions: with its library; without, for a graph whose copies live on with that.
        Nobody may use the graph afterwards, nor the operations of its twin.
        """
        twin, self._twin = self._twin, None
        if twin is not None:
            for operation in twin.get_operations():
                operation._attrs.clear()
        for bodies in self.graph.get("bodies", {}).values():
            for body in bodies:
                body.dissolve()
        library, self._functions = self._functions, None
        if library is not None and functions:
            library.dissolve()
        self.clear()
        self._order = None

    # ---- the storage

    def _new_node_id(self) -> int:
        id = self._next_node_id
        self._next_node_id += 1
        return id

    def _insert(self, node: Node) -> None:
        """Put a node without edges in."""
        name = node.name
        self._succ[name] = {}
        self._pred[name] = {}
        self._node[name] = {"node": node}
        self._order = None

    def _connect(self, src: str, src_output: int, dst: str, dst_input: int) -> int:
        """Put an edge in, past networkx's own slower way, and return its id."""
        id = self._next_edge_id
        self._next_edge_id = id + 1
        successors = self._succ[src]
        keyed = successors.get(dst)
        if keyed is None:
            keyed = successors[dst] = self._pred[dst][src] = {}
            if src != SOURCE and dst != SINK:
                self._order = None
        keyed[id] = {"src_output": src_output, "dst_input": dst_input}
        self._num_edges += 1
        return id

    def _disconnect(self, src: str, dst: str, id: int) -> None:
        keyed = self._succ[src][dst]
        del keyed[id]
        if not keyed:
            del self._succ[src][dst]
            del self._pred[dst][src]
        self._num_edges -= 1
