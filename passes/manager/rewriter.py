"""Query tensors and edit nodes, for rewriting passes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tfjit.framework.op_defs.op_traits import CONTROL_FLOW
from tfjit.framework.types.dtypes import DType, as_dtype
from tfjit.framework.types.shape import Shape, is_compatible, merge
from tfjit.passes.ir.constant_value import constant_value
from tfjit.passes.ir.dataflow_graph import SOURCE, DataflowGraph, Node
from tfjit.passes.ir.declined import Declined

if TYPE_CHECKING:
    from tfjit.passes.manager.pass_context import PassContext


def tensor_shape(graph: DataflowGraph, src: str, output: int) -> Shape:
    """Return the static shape of a tensor, None where unknown."""
    return graph.node(src).output_shapes[output]


def tensor_dtype(graph: DataflowGraph, src: str, output: int) -> DType:
    """Return the dtype of a tensor; references have reference dtypes."""
    return graph.node(src).output_dtypes[output]


def is_static(shape: Shape) -> bool:
    """Return whether rank and every size are known."""
    return shape is not None and None not in shape


def same_shape(a: Shape, b: Shape) -> bool:
    """Return whether two shapes are known to be equal."""
    return is_static(a) and a == b


def constant(graph: DataflowGraph, ctx: PassContext, src: str, output: int) -> np.ndarray | None:
    """Return the static value of a tensor, from a Const or inference."""
    found = constant_value(graph, src, output)
    return found if found is not None else ctx.values.get((src, output))


def reads_reference(graph: DataflowGraph, name: str) -> bool:
    """Return whether a node outputs the memory of a reference variable.

    Later values of the variable show through such an output.
    """
    while graph.node(name).is_view:
        name, output = graph.inputs(name)[0]
        if graph.node(name).output_dtypes[output].is_ref:
            return True
    return False


def drop(graph: DataflowGraph, node: Node, src: str, index: int) -> str:
    """Remove a one-output node with the value of `src:index`.

    The consumers of the node use `src:index`. Returns a description for the log.
    Raises Declined where more than the graph's text would change: a copy to another device, a
    reference, an order after a branch.
    """
    source = graph.node(src)
    if (
        source.assigned_device != node.assigned_device
        and source.assigned_device
        and node.assigned_device
    ):
        raise Declined(f"it copies '{src}' to another device")
    if source.output_dtypes[index] is not node.output_dtypes[0]:
        raise Declined(
            f"'{src}:{index}' is {source.output_dtypes[index].name}, it is "
            f"{node.output_dtypes[0].name}"
        )
    if source.has_trait(CONTROL_FLOW) and graph.control_consumers(node.name):
        # the control edges put constants into the branch
        raise Declined("control edges out of a branch hang on it")
    if any(
        output for output in range(1, len(node.output_dtypes)) if graph.consumers(node.name, output)
    ):
        raise Declined("another output of it is used")
    if not node.is_view and reads_reference(graph, src):
        raise Declined(f"its value is its own, that of '{src}' the variable's")
    known, found = source.output_shapes[index], node.output_shapes[0]
    if known != found and is_compatible(known, found):
        shapes = list(source.output_shapes)
        shapes[index] = merge(known, found)
        source.output_shapes = tuple(shapes)
    graph.bypass(node.name, src, index)
    return f"dropped for '{src}'" if index == 0 else f"dropped for '{src}:{index}'"


def insert_constant(
    graph: DataflowGraph, like: Node, value: np.ndarray, role: str = "constant"
) -> tuple[str, int]:
    """Add a Const "<node>/<role>" beside a node and return its output.

    The Const has the node's device and origin; its value is frozen. In a graph with v1 control flow
    the Const waits for the node's first input, and so is in the same loop or branch.
    """
    value = np.ascontiguousarray(value).reshape(value.shape)
    if value.flags.writeable:
        value.setflags(write=False)
    attrs = {"dtype": as_dtype(value.dtype), "value": value}
    made = graph.add_node_op(graph.new_name(f"{like.name}/{role}"), "Const", (), attrs, like=like)
    made.output_shapes = (value.shape,)
    inputs = graph.inputs(like.name) if graph.has_trait(CONTROL_FLOW) else ()
    graph.add_control_edge(inputs[0][0] if inputs else SOURCE, made.name)
    return made.name, 0
