"""Batch norm at inference is a multiply and an add by vectors that are known while planning."""

from __future__ import annotations

import numpy as np

from tfjit.framework import dtypes
from tfjit.passes.context import PassContext
from tfjit.passes.rewrite import NotSimplified, add_constant, constant
from tfjit.passes.view import DataflowGraph, Node


def decompose_batch_norm(graph: DataflowGraph, ctx: PassContext, node: Node) -> str | None:
    """FusedBatchNorm*(x, scale, offset, mean, variance; is_training=False)  becomes  x * a + b.

    a = scale / sqrt(variance + epsilon), b = offset - mean * a, both worked out in float64 and rounded once. The AddV2 keeps the
    node's name. x [batch, height, width, channels], or with channels second in NCHW; a and b [channels] (or [channels, 1, 1]).
    Fires when scale, offset, mean and variance are constants, x is float32 and only the first output is used.
    Raises NotSimplified, with the reason, where something is in the way.
    """
    if node.attrs.get("is_training", True):
        return None
    if node.attrs["T"] is not dtypes.float32:
        raise NotSimplified(f"x is {node.attrs['T'].name}, which is computed in float32")
    used = sorted({edge.src_output for edge in node.out_edges if not edge.is_control} - {0})
    if used:
        raise NotSimplified(f"its outputs {used} are used")
    x, *statistics = graph.inputs(node.name)
    values = [constant(graph, ctx, *tensor) for tensor in statistics[:4]]
    for what, value in zip(("scale", "offset", "mean", "variance"), values):
        if value is None:
            raise NotSimplified(f"its {what} is not constant")
    scale, offset, mean, variance = (np.asarray(value, dtype=np.float64) for value in values)
    layout = node.attrs.get("data_format", b"NHWC")
    if layout not in (b"NHWC", b"NCHW", b"NDHWC", b"NCDHW"):
        raise NotSimplified(f"data format {layout.decode()}")
    factor = scale / np.sqrt(variance + node.attrs["epsilon"])
    addend = offset - mean * factor
    rank = 5 if layout in (b"NDHWC", b"NCDHW") else 4
    shape = (-1,) if layout in (b"NHWC", b"NDHWC") else (-1,) + (1,) * (rank - 2)
    a = add_constant(graph, ctx, node, "scale", factor.astype(np.float32).reshape(shape))
    b = add_constant(graph, ctx, node, "offset", addend.astype(np.float32).reshape(shape))
    output = node.output_shapes[0]
    scaled = graph.add_node_op(
        graph.new_name(f"{node.name}/mul"), "Mul", [x, (a.name, 0)], {"T": dtypes.float32}, like=node, output_shapes=(output,)
    )
    graph.change_op(node.name, "AddV2", [(scaled.name, 0), (b.name, 0)], {"T": dtypes.float32})
    node.output_shapes = (output,)
    return "multiply and add by constant vectors"
