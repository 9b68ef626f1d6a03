"""Define the working graph of the passes.

A networkx multigraph of nodes and edges with ids is rewritten in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfjit.framework.cooperative_yield import yield_interpreter
from tfjit.framework.errors import InternalError
from tfjit.passes.ir.graph_storage import GraphStorage
from tfjit.passes.ir.node import CONTROL, SINK, SOURCE, Edge, Node

if TYPE_CHECKING:
    from tfjit.framework.graphs.graph import Graph
    from tfjit.framework.graphs.operation import Operation
    from tfjit.passes.ir.function_library import FunctionLibrary


__all__ = [
    "CONTROL",
    "SINK",
    "SOURCE",
    "DataflowGraph",
    "Edge",
    "Node",
]


class DataflowGraph(GraphStorage):
    """A TensorFlow graph in networkx's form, with construction, rewiring and copies.

    graph_storage.py has its contents and queries. `_SOURCE` (id 0) and `_SINK` (id 1) always exist
    and are tied by a control edge.
    """

    def __init__(self, incoming_graph_data: Any = None, **attr: Any) -> None:
        super().__init__(**attr)
        self._name_counter = 0
        # producer, min_consumer and bad_consumers of the GraphDef, passed on unread
        self.versions: tuple[int, int, tuple[int, ...]] | None = None
        self._functions: FunctionLibrary | None = None
        self._twin: Graph | None = None  # the framework Graph in which extensions are checked
        self.extracted_for: Any = None  # the RunSpec that `prune.extract` copied this graph for
        # nodes copied without their inputs, since all their needed outputs are fed
        self.shields: set[str] = set()
        # nodes for which the placer found no device, with its reason
        self.unplaced: dict[str, str] = {}
        if incoming_graph_data is not None:
            raise TypeError(
                "DataflowGraph is built by from_graph_def, from_graph or add_node_op, not from "
                "other graph data"
            )
        for name in (SOURCE, SINK):
            self._insert(Node(self, name, self._new_node_id(), "NoOp", {}, None))
        self._op_counts.clear()  # source and sink are no ops
        self._connect(SOURCE, CONTROL, SINK, CONTROL)

    @property
    def functions(self) -> FunctionLibrary:
        """Return the functions that nodes may name.

        Copies of the graph share the library (passes/ir/function_library.py).
        """
        if self._functions is None:
            from tfjit.passes.ir.function_library import FunctionLibrary

            self._functions = FunctionLibrary()
        return self._functions

    @functions.setter
    def functions(self, library: FunctionLibrary) -> None:
        self._functions = library

    # ---- building from and writing to the wire

    @classmethod
    def from_graph_def(cls, graph_def: Any) -> DataflowGraph:
        """Return a working graph of a GraphDef message.

        Raises the errors of the import (framework/graphs/graph_def.py).
        """
        graph = cls()
        graph.extend(graph_def)
        return graph

    @classmethod
    def from_graph(cls, graph: Graph) -> DataflowGraph:
        """Return a working graph of all operations of a framework Graph.

        No GraphDef is built on the way.
        """
        made = cls()
        made.add_operations(graph.get_operations())
        made.versions = graph.version_numbers
        made.functions.merge(graph.functions.values(), graph.function_gradients)
        return made

    def add_operations(self, operations: Sequence[Operation]) -> list[str]:
        """Add operations of a framework Graph; return their names.

        Their inputs must be among them or in the graph already.
        """
        from tfjit.passes.ir.graph_def import add_operations

        return add_operations(self, operations)

    def extend(self, graph_def: Any, internal_names: bool = False) -> list[str]:
        """Add the nodes of a GraphDef; return their names.

        The nodes may have nodes of the graph as inputs. internal_names: their names may begin with
        "_", as those of nodes that passes made. Nothing is added when the GraphDef is not
        valid.
        Raises the errors of the import.
        """
        from tfjit.passes.ir.graph_def import add_node_defs

        return add_node_defs(self, graph_def, internal_names)

    def to_graph_def(self) -> Any:
        """Return the graph as a GraphDef message, without `_SOURCE` and `_SINK`.

        The nodes are in id order.
        """
        from tfjit.passes.ir.graph_def import graph_def

        return graph_def(self)

    def verify(self) -> None:
        """Check every invariant of the graph.

        Raises InternalError with the node and the fault.
        """
        from tfjit.passes.ir.verifier import verify

        verify(self)

    # ---- adding

    def new_name(self, prefix: str) -> str:
        """Return an unused name: prefix + "/_" + the graph's counter."""
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
        """Add a node with its edges.

        The dtypes follow from op and attrs; missing attrs follow from inputs and defaults.
        like: the node that the new one replaces or belongs to; device, assigned_device and origin
        default to those of `like`.
        Raises InternalError when the name is in use or an input does not exist.
        """
        from tfjit.passes.ir.graph_def import complete_attrs, signature

        if name in self._node:
            raise InternalError(None, None, f"Node '{name}' is already in the graph")
        for src, output in inputs:
            if src not in self._node:
                raise InternalError(None, None, f"Node '{name}': unknown input node '{src}'")
            if not 0 <= output < len(self.node(src).output_dtypes):
                raise InternalError(
                    None,
                    None,
                    f"Node '{name}': input '{src}:{output}': '{src}' has no output {output}",
                )
        input_dtypes = tuple(self.node(src).output_dtypes[output] for src, output in inputs)
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
        for index, (src, output) in enumerate(inputs):
            self._connect(src, output, name, index)
        for src in dict.fromkeys(control_inputs):
            self.add_control_edge(src, name)
        return node

    def add_loose_node(self, name: str, op: str, attrs: Mapping[str, Any], like: Node) -> Node:
        """Add a node without edges, beside `like`.

        Its attrs are complete but for defaults. The caller connects the node.
        """
        from tfjit.passes.ir.graph_def import find_op_def, signature, with_defaults

        op_def = find_op_def(op, name)
        all_attrs = with_defaults(op_def, attrs)
        inputs, outputs = signature(op, op_def, all_attrs, name)
        node = Node(
            self,
            name,
            self._new_node_id(),
            op,
            all_attrs,
            op_def,
            inputs,
            outputs,
            like.device,
            like.assigned_device,
            like.origin,
        )
        if name in self._node:
            raise InternalError(None, None, f"Node '{name}' is already in the graph")
        self._insert(node)
        return node

    def add_data_edge(self, src: str, src_output: int, dst: str, dst_input: int) -> int:
        """Add a data edge and return its id."""
        return self._connect(src, src_output, dst, dst_input)

    def add_control_edge(self, src: str, dst: str) -> int | None:
        """Add a control edge from src to dst.

        Return the edge's id, or None when there is such an edge already.
        """
        keyed = self._succ[src].get(dst)
        if keyed is not None and any(data["dst_input"] == CONTROL for data in keyed.values()):
            return None
        return self._connect(src, CONTROL, dst, CONTROL)

    def add_edge(
        self, u_for_edge: str, v_for_edge: str, key: int | None = None, **attr: Any
    ) -> int:
        """Add an edge by networkx's interface; the key is the id.

        The attrs are `src_output` and `dst_input`; without them the edge is a control edge.
        """
        unknown = set(attr) - {"src_output", "dst_input"}
        if key is not None or unknown:
            raise TypeError(
                "an edge has an id of its own, src_output and dst_input, not "
                f"{sorted(unknown) or 'a key'}"
            )
        return self._connect(
            u_for_edge, attr.get("src_output", CONTROL), v_for_edge, attr.get("dst_input", CONTROL)
        )

    # ---- rewiring

    def replace_input(self, name: str, index: int, src: str, src_output: int) -> None:
        """Replace data input `index` of a node by another tensor."""
        for old, keyed in self._pred[name].items():
            for id, data in keyed.items():
                if data["dst_input"] == index:
                    self._disconnect(old, name, id)
                    self._connect(src, src_output, name, index)
                    return
        raise InternalError(None, None, f"Node '{name}' has no input {index}")

    def redirect_output(self, name: str, output: int, src: str, src_output: int) -> None:
        """Replace `name:output` by `src:src_output` in every data consumer but src."""
        moved = [
            (id, dst, data["dst_input"])
            for dst, keyed in self._succ[name].items()
            if dst != src
            for id, data in keyed.items()
            if data["src_output"] == output and data["dst_input"] != CONTROL
        ]
        moved.sort()
        for id, dst, dst_input in moved:
            self._disconnect(name, dst, id)
            self._connect(src, src_output, dst, dst_input)

    def redirect_control(self, name: str, src: str) -> None:
        """Replace control inputs `name` of other nodes by `src`.

        An edge to `_SINK` stays.
        """
        for edge in self.edges_out_of(name):
            if edge.is_control and edge.dst != src and edge.dst != SINK:
                self._disconnect(name, edge.dst, edge.id)
                self.add_control_edge(src, edge.dst)

    def bypass(self, name: str, src: str, src_output: int) -> None:
        """Remove a one-output node; its consumers use `src:src_output`.

        The consumers inherit the control inputs of the node.
        """
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
        self,
        name: str,
        op: str,
        inputs: Sequence[tuple[str, int]],
        attrs: Mapping[str, Any],
        control_inputs: Iterable[str] | None = None,
    ) -> Node:
        """Turn a node into another op in place.

        Name, id, consumers, devices and origin stay; inputs, attrs and dtypes are new.
        control_inputs: None keeps the present ones.
        Raises InternalError when the new op has fewer outputs than are used.
        """
        from tfjit.passes.ir.graph_def import complete_attrs, signature

        node = self.node(name)
        input_dtypes = tuple(self.node(src).output_dtypes[output] for src, output in inputs)
        all_attrs, op_def = complete_attrs(op, dict(attrs), input_dtypes)
        wanted_inputs, output_dtypes = signature(op, op_def, all_attrs, name)
        waited_for = (
            self.control_inputs(name)
            if control_inputs is None
            else list(dict.fromkeys(control_inputs))
        )
        for edge in self.edges_into(name):
            self._disconnect(edge.src, name, edge.id)
        for index, (src, output) in enumerate(inputs):
            self._connect(src, output, name, index)
        for src in waited_for:
            self.add_control_edge(src, name)
        used = max((edge.src_output for edge in self.edges_out_of(name)), default=-1)
        if used >= len(output_dtypes):
            raise InternalError(
                None,
                None,
                f"Node '{name}': as {op} it has {len(output_dtypes)} outputs, but output {used} is "
                "consumed",
            )
        shapes = (
            node.output_shapes
            if len(node.output_shapes) == len(output_dtypes)
            else (None,) * len(output_dtypes)
        )
        self._retype(node, op)
        node.op_def, node.attrs = op_def, all_attrs
        node.input_dtypes, node.output_dtypes, node.output_shapes = (
            wanted_inputs,
            output_dtypes,
            shapes,
        )
        return node

    # ---- source and sink

    def tie_ends(self) -> None:
        """Tie nodes without inputs to `_SOURCE`, nodes without outputs to `_SINK`.

        Other ties are dropped.
        """
        for name in list(self._node):
            yield_interpreter()
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
        """Return a graph of the same nodes, edges and ids.

        Nodes are copied; attr values are shared.
        """
        if as_view:
            raise TypeError("the passes work on real graphs, not on views of one")
        return self.copy_subset(self._node)

    def copy_subset(self, names: Iterable[str]) -> DataflowGraph:
        """Return a graph of those nodes and the edges between them.

        Ids stay. `_SOURCE` and `_SINK` are always in the copy.
        """
        made = DataflowGraph()
        made.graph.update(self.graph)
        made.versions, made._functions, made._name_counter = (
            self.versions,
            self.functions,
            self._name_counter,
        )
        self.functions.remember(made)
        keep = dict.fromkeys(names)
        keep.pop(SOURCE, None)
        keep.pop(SINK, None)
        nodes, made_succ, made_pred = self._node, made._succ, made._pred
        for name in keep:
            yield_interpreter()
            made._insert(nodes[name]["node"].copied_to(made))
        made_succ[SOURCE].clear()
        made_pred[SINK].clear()
        keep[SOURCE] = keep[SINK] = None
        total = 0
        for src in keep:
            yield_interpreter()
            successors = made_succ[src]
            for dst, keyed in self._succ[src].items():
                if dst in keep:
                    # edge data are never written to
                    successors[dst] = made_pred[dst][src] = keyed.copy()
                    total += len(keyed)
        made._num_edges = total
        made._next_node_id, made._next_edge_id = self._next_node_id, self._next_edge_id
        return made

    def dissolve(self, *, functions: bool = True) -> None:
        """Drop all contents of the graph.

        Nodes refer to their graph, so a graph that is only dropped would hold its constants until a
        garbage collection. functions: also dissolve the library; False for a graph with copies that
        still use the library. Neither the graph nor the operations of its twin may be used
        afterwards.
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
        self._forget_all()
