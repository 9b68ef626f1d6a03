"""Define the nodes and edges of a working graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tfjit.framework.op_defs.op_traits import VIEW
from tfjit.framework.types.dtypes import variant

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from tfjit.framework.op_defs.op_def import OpDef
    from tfjit.framework.types.dtypes import DType
    from tfjit.passes.ir.dataflow_graph import DataflowGraph

SOURCE: Final = "_SOURCE"
SINK: Final = "_SINK"
CONTROL: Final = -1  # the output and the input of a control edge


class Edge(NamedTuple):
    """One edge; a control edge has -1 for output and input.

    `src` and `dst` are node names.
    """

    id: int
    src: str
    src_output: int
    dst: str
    dst_input: int

    @property
    def is_control(self) -> bool:
        """Return whether the edge only orders nodes and carries no tensor."""
        return self.dst_input == CONTROL


class Node:
    """One node of a `DataflowGraph`.

    name, id: unique in the graph; the id of a removed node is never used again.
    op, op_def, attrs: the op type, the registry's own immutable OpDef, and Python values
    (framework/op_defs/attrs.py).
    device, assigned_device: the user's request, and the placer's choice ("" before).
    input_dtypes, output_dtypes: one an input or output, reference dtypes where the op has them.
    output_shapes: one an output: a tuple of sizes with None where unknown, or None for an unknown
    rank.
    origin: names of the user's nodes that the node implements; its own name when the user made the
    node.
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
        self.output_shapes = (
            output_shapes if output_shapes is not None else (None,) * len(output_dtypes)
        )

    def copied_to(self, graph: DataflowGraph) -> Node:
        """Return the same node for another graph, with copied attrs.

        The caller inserts the copy.
        """
        return Node(
            graph,
            self.name,
            self.id,
            self.op,
            self.attrs.copy(),
            self.op_def,
            self.input_dtypes,
            self.output_dtypes,
            self.device,
            self.assigned_device,
            self.origin,
            self.output_shapes,
        )

    def __repr__(self) -> str:
        return f"<Node {self.name!r} op={self.op} id={self.id}>"

    @property
    def in_edges(self) -> list[Edge]:
        """Return edges into the node: data edges by input, then control edges.

        Control edges are in id order.
        """
        return self._graph.edges_into(self.name)

    @property
    def out_edges(self) -> list[Edge]:
        """Return the edges out of the node, by id."""
        return self._graph.edges_out_of(self.name)

    @property
    def is_stateful(self) -> bool:
        """Return whether the op has state or side effects.

        Such a node may be neither folded nor merged with an equal one.
        """
        return self.op_def is not None and self.op_def.is_stateful

    def has_trait(self, traits: int) -> bool:
        """Return whether the op has one of these traits (op_traits.py)."""
        op_def = self.op_def
        return op_def is not None and op_def.traits & traits != 0

    @property
    def is_view(self) -> bool:
        """Return whether output 0 may have the memory of input 0."""
        return self.has_trait(VIEW)

    @property
    def is_speculatable(self) -> bool:
        """Return whether the node has no errors and no effects.

        Such a node may run needlessly.
        """
        dtype = self.input_dtypes[0] if self.input_dtypes else None
        return self.op_def is not None and self.op_def.is_speculatable(dtype)

    @property
    def has_variant(self) -> bool:
        """Return whether an input or output is a variant."""
        for types in (self.input_dtypes, self.output_dtypes):
            for dtype in types:
                if dtype is variant:
                    return True
        return False


def _node_def(node: Node) -> Message:
    """Return the NodeDef of the node in its present state, made anew."""
    from tfjit.passes.ir.graph_def import node_def

    return node_def(node)


# `def` is a keyword, so the attribute of that name cannot be written in the class body.
setattr(Node, "def", property(_node_def, doc=_node_def.__doc__))
