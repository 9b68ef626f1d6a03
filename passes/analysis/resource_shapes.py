"""Propagate what is known of the resources behind handles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tfjit.framework.types.shape import TensorShape

if TYPE_CHECKING:
    from tfjit.framework.types.shape import Shape
    from tfjit.passes.analysis.static_values import StaticValues
    from tfjit.passes.ir.dataflow_graph import Node

    Tensor = tuple[str, int]

TABLE_OPS: Final = frozenset(
    {"HashTable", "MutableHashTable", "MutableHashTableOfTensors", "MutableDenseHashTable"}
)
QUEUE_OPS: Final = frozenset({"FIFOQueue", "PaddingFIFOQueue", "RandomShuffleQueue"})


class ResourceShapes:
    """Holds the shapes of the resources of one graph, by handle.

    static: shapes and values of the graph's tensors. variables: shapes of variables. tables: rank
    of a key and shape of a value. queues: shapes of an element's components.
    """

    def __init__(self, static: StaticValues) -> None:
        self.static, self.shapes = static, static.shapes
        self.variables: dict[Tensor, Shape] = {}
        self.tables: dict[Tensor, tuple[int, Shape]] = {}
        self.queues: dict[Tensor, tuple[Shape, ...]] = {}

    def read(self, node: Node, inputs: list[Tensor]) -> tuple[Shape, ...] | None:
        """Return output shapes of a read from a resource of known shapes.

        None for other nodes.
        """
        op = node.op
        if op == "ReadVariableOp" and inputs[0] in self.variables:
            return (self.variables[inputs[0]],)
        if op in ("ResourceGather", "ResourceGatherNd"):
            indices = self.shapes[inputs[1][0]][inputs[1][1]]
            return (_gathered(node, self.variables.get(inputs[0]), indices),)
        if op == "VariableShape":
            variable = self.variables.get(inputs[0])
            return None if variable is None else ((len(variable),),)
        if op in ("LookupTableFind", "LookupTableFindV2") and inputs[0] in self.tables:
            rank, value_shape = self.tables[inputs[0]]
            keys = self.shapes[inputs[1][0]][inputs[1][1]]
            if keys is None or value_shape is None:
                return (None,)
            return ((*keys[: len(keys) - rank], *value_shape),)
        if op in ("QueueDequeueV2", "QueueDequeueManyV2") and inputs[0] in self.queues:
            elements = self.queues[inputs[0]]
            if len(elements) == len(node.output_dtypes):
                batch = (self.static.elements(inputs[1]) or (None,)) if len(inputs) > 1 else ()
                return tuple(None if each is None else (*batch, *each) for each in elements)
        return None

    def propagate(self, node: Node, inputs: list[Tensor]) -> None:
        """Propagate shapes of resources to the output handles of a node."""
        if node.op == "VarHandleOp":
            shape = node.attrs.get("shape")
            if isinstance(shape, TensorShape):
                self.variables[node.name, 0] = shape.dims_tuple
        elif node.op.removesuffix("V2") in TABLE_OPS:
            marks = self.shapes[inputs[0][0]][inputs[0][1]] if inputs else ()
            value = node.attrs.get("value_shape")
            if marks is not None:
                self.tables[node.name, 0] = (
                    len(marks),
                    value.dims_tuple if isinstance(value, TensorShape) else (),
                )
        elif node.op.removesuffix("V2") in QUEUE_OPS:
            self.queues[node.name, 0] = tuple(
                shape.dims_tuple for shape in node.attrs.get("shapes", ())
            )
        elif node.op in ("Identity", "RefIdentity", "Enter", "Switch", "Exit", "NextIteration"):
            for output in range(len(node.output_dtypes)):
                if inputs[0] in self.variables:
                    self.variables[node.name, output] = self.variables[inputs[0]]
                if inputs[0] in self.tables:
                    self.tables[node.name, output] = self.tables[inputs[0]]
                if inputs[0] in self.queues:
                    self.queues[node.name, output] = self.queues[inputs[0]]


def _gathered(node: Node, variable: Shape, indices: Shape) -> Shape:
    """Return the shape of a variable's rows at indices.

    It is None where the shape is open.
    """
    if variable is None or indices is None:
        return None
    if node.op == "ResourceGatherNd":
        depth = indices[-1] if indices else None
        if depth is None or depth > len(variable):
            return None
        return (*indices[:-1], *variable[depth:])
    batch = int(node.attrs.get("batch_dims", 0))
    batch += len(indices) if batch < 0 else 0
    if not 0 <= batch <= len(indices) or batch >= len(variable):
        return None
    return (*variable[:batch], *indices[batch:], *variable[batch + 1 :])
