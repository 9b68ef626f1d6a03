"""Decompose batch norm at inference into elementwise operations by vectors.

Most of the vectors are known while planning.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tfjit.framework.types import dtypes
from tfjit.framework.types.shape import Shape
from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
from tfjit.passes.ir.declined import Declined
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.manager.rewriter import constant, insert_constant, tensor_shape


def decompose_batch_norm(graph: DataflowGraph, ctx: PassContext, node: Node) -> str | None:
    """Rewrite FusedBatchNorm*(x, ..., is_training=False) to x * a + b.

    Before: FusedBatchNorm*(x, scale, offset, mean, variance; is_training=False)
    After: x * a + b, with a = scale / sqrt(variance + epsilon), b = offset - mean * a

    Both a and b are computed in float64 and rounded once. The AddV2 keeps the node's name. x is
    [batch, height, width, channels], or has the channels second in NCHW; a and b are [channels] (or
    [channels, 1, 1]).

    Where scale, offset, mean or variance are not constant (read from variables, for example), the
    node becomes (x - mean) * a + offset with a computed in float32 at run time. The difference
    comes first, since the rounding of mean * a could be larger than the result.

    Fires when x is float32, only the first output is used, and the channels of x and of the four
    vectors are known and equal. The node itself reports a mismatch best, and a vector of one
    element would be broadcast.
    Raises Declined, with the reason, where a condition does not hold.
    """
    if node.attrs.get("is_training", True):
        return None
    if node.attrs["T"] is not dtypes.float32:
        raise Declined(f"x is {node.attrs['T'].name}, which is computed in float32")
    used = sorted({edge.src_output for edge in node.out_edges if not edge.is_control} - {0})
    if used:
        raise Declined(f"its outputs {used} are used")
    x, *statistics = graph.inputs(node.name)
    values = [constant(graph, ctx, *tensor) for tensor in statistics[:4]]
    layout = node.attrs.get("data_format", b"NHWC")
    if layout not in (b"NHWC", b"NCHW", b"NDHWC", b"NCDHW"):
        raise Declined(f"data format {layout.decode()}")
    channels = _channels(graph, layout, x, statistics[:4])
    if any(value is None for value in values):
        return _from_run_time_statistics(graph, ctx, node, layout, channels, x, statistics[:4])
    scale, offset, mean, variance = (np.asarray(value, dtype=np.float64) for value in values)
    factor = scale / np.sqrt(variance + node.attrs["epsilon"])
    addend = offset - mean * factor
    rank = 5 if layout in (b"NDHWC", b"NCDHW") else 4
    shape = (-1,) if layout in (b"NHWC", b"NDHWC") else (-1,) + (1,) * (rank - 2)
    a = insert_constant(graph, node, factor.astype(np.float32).reshape(shape), "scale")
    b = insert_constant(graph, node, addend.astype(np.float32).reshape(shape), "offset")
    output = node.output_shapes[0]
    scaled = graph.add_node_op(
        graph.new_name(f"{node.name}/mul"),
        "Mul",
        [x, a],
        {"T": dtypes.float32},
        like=node,
        output_shapes=(output,),
    )
    graph.change_op(node.name, "AddV2", [(scaled.name, 0), b], {"T": dtypes.float32})
    node.output_shapes = (output,)
    return "multiply and add by constant vectors"


def _channels(
    graph: DataflowGraph, layout: bytes, x: tuple[str, int], statistics: Sequence[tuple[str, int]]
) -> int:
    """Return the number of channels that x and all statistics have.

    Raises Declined where the numbers are unknown or differ.
    """
    image = tensor_shape(graph, *x)
    if image is None or len(image) != len(layout):
        raise Declined("the rank of x is not known or wrong")
    channels = image[layout.index(b"C")]
    if channels is None or any(
        tensor_shape(graph, *tensor) != (channels,) for tensor in statistics
    ):
        raise Declined("the number of channels is not known everywhere, or not the same")
    return channels


def _from_run_time_statistics(
    graph: DataflowGraph,
    ctx: PassContext,
    node: Node,
    layout: bytes,
    count: int,
    x: tuple[str, int],
    statistics: Sequence[tuple[str, int]],
) -> str:
    """Rewrite batch norm of run-time vectors to elementwise operations.

    The form is (x - mean) * (scale * rsqrt(variance + epsilon)) + offset.
    """
    if graph.control_inputs(node.name):
        raise Declined("it waits for other nodes, as would all it became")
    for what, (source, src_output) in zip(("scale", "offset", "mean", "variance"), statistics):
        if graph.node(source).output_dtypes[src_output].is_ref:
            raise Declined(f"its {what} is a variable, whose time of reading matters")
    channels = (count,)

    def made(what: str, op: str, inputs: list[tuple[str, int]], output: Shape) -> tuple[str, int]:
        name = graph.new_name(f"{node.name}/{what}")
        return graph.add_node_op(
            name, op, inputs, {"T": dtypes.float32}, like=node, output_shapes=(output,)
        ).name, 0

    epsilon = insert_constant(graph, node, np.array(node.attrs["epsilon"], np.float32), "epsilon")
    scale, offset, mean, variance = statistics
    shifted = made("add", "AddV2", [variance, epsilon], channels)
    factor = made("mul", "Mul", [made("rsqrt", "Rsqrt", [shifted], channels), scale], channels)
    if layout in (b"NCHW", b"NCDHW"):
        aligned = (*channels, *(1,) * (2 if layout == b"NCHW" else 3))
        target = insert_constant(graph, node, np.array(aligned, np.int32), "shape")

        def moved(tensor: tuple[str, int]) -> tuple[str, int]:
            attrs = {"T": dtypes.float32, "Tshape": dtypes.int32}
            name = graph.new_name(f"{node.name}/reshape")
            inputs = [tensor, target]
            return graph.add_node_op(
                name, "Reshape", inputs, attrs, like=node, output_shapes=(aligned,)
            ).name, 0

        factor, offset, mean = moved(factor), moved(offset), moved(mean)
    output = node.output_shapes[0]
    centered = made("sub", "Sub", [x, mean], output)
    scaled = made("scaled", "Mul", [centered, factor], output)
    graph.change_op(node.name, "AddV2", [scaled, offset], {"T": dtypes.float32})
    node.output_shapes = (output,)
    return "subtract, multiply and add by vectors"
