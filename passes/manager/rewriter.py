"""What rewriting passes ask of a tensor and do to a node."""

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


def tensor_shape(graph: DataflowGraph, src: str, slot: int) -> Shape:
    """The static shape of a tensor, as far as it is known."""
    return graph.node(src).output_shapes[slot]


def tensor_dtype(graph: DataflowGraph, src: str, slot: int) -> DType:
    """The dtype of a tensor, a reference dtype where it is one."""
    return graph.node(src).output_dtypes[slot]


def is_static(shape: Shape) -> bool:
    """Whether rank and every size are known."""
    return shape is not None and None not in shape


def same_shape(a: Shape, b: Shape) -> bool:
    """Whether two shapes are known to be equal."""
    return is_static(a) and a == b


def constant(graph: DataflowGraph, ctx: PassContext, src: str, slot: int) -> np.ndarray | None:
    """The value of a tensor that is a Const or is known by shape inference."""
    found = constant_value(graph, src, slot)
    return found if found is not None else ctx.values.get((src, slot))


def reads_reference(graph: DataflowGraph, name: str) -> bool:
    """Whether a node gives the memory of a reference variable, whose later values
    show through it.
    """
    while graph.node(name).is_view:
        name, slot = graph.inputs(name)[0]
        if graph.node(name).output_dtypes[slot].is_ref:
            return True
    return False


def drop(graph: DataflowGraph, node: Node, src: str, slot: int) -> str:
    """Remove a one-output node whose value is that of `src:slot`; its consumers take that. Returns
    what was done, for the log.

    Raises Declined where it would change more than the graph's text: a copy to another device, a
    reference.
    """
    source = graph.node(src)
    if (
        source.assigned_device != node.assigned_device
        and source.assigned_device
        and node.assigned_device
    ):
        raise Declined(f"it copies '{src}' to another device")
    if source.output_dtypes[slot] is not node.output_dtypes[0]:
        raise Declined(
            f"'{src}:{slot}' is {source.output_dtypes[slot].name}, it is "
            f"{node.output_dtypes[0].name}"
        )
    if any(
        output for output in range(1, len(node.output_dtypes)) if graph.consumers(node.name, output)
    ):
        raise Declined("another output of it is used")
    if not node.is_view and reads_reference(graph, src):
        raise Declined(f"its value is its own, that of '{src}' the variable's")
    known, found = source.output_shapes[slot], node.output_shapes[0]
    if known != found and is_compatible(known, found):
        shapes = list(source.output_shapes)
        shapes[slot] = merge(known, found)
        source.output_shapes = tuple(shapes)
    graph.bypass(node.name, src, slot)
    return f"dropped for '{src}'" if slot == 0 else f"dropped for '{src}:{slot}'"


def insert_constant(
    graph: DataflowGraph, like: Node, value: np.ndarray, role: str = "constant"
) -> tuple[str, int]:
    """Add a Const "<node>/<role>" beside a node and return its output.

    The Const has the node's device and origin; its value is frozen. In a graph with v1 control flow
    it waits for the node's first input, and so is in the same loop or branch.
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
