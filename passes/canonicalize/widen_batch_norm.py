"""Compute batch norm of narrow floats in float32 on accelerators."""

from __future__ import annotations

from typing import Final

import numpy as np

from tfjit.framework.types import dtypes
from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
from tfjit.passes.ir.declined import Declined
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.manager.rewriter import insert_constant, tensor_shape

_Tensor = tuple[str, int]
_NARROW: Final = (dtypes.float16, dtypes.bfloat16)


def widen_batch_norm(graph: DataflowGraph, ctx: PassContext, node: Node) -> str | None:
    """Put casts around a FusedBatchNorm of narrow images, or its gradient.

    Before: FusedBatchNormV3(x, scale, offset, mean, variance; T=float16)
    After: Cast(FusedBatchNormV3(Cast(x), scale, offset, mean, variance; T=float32))

    The statistics are float32 in both, and kernels compute in float32 anyway: the Cast rounds as
    they do. The last Cast keeps the node's name. Fires for nodes of accelerators, which decompose
    the wide form. Raises Declined, with the reason, elsewhere.
    """
    narrow = node.attrs["T"]
    if narrow not in _NARROW or node.assigned_device not in ctx.options.accelerators:
        return None
    if graph.control_inputs(node.name):
        raise Declined("it waits for other nodes, as would all it became")
    inputs = list(graph.inputs(node.name))
    images = 2 if "Grad" in node.op else 1

    def widened(source: _Tensor) -> _Tensor:
        attrs = {"SrcT": narrow, "DstT": dtypes.float32, "Truncate": False}
        name = graph.new_name(f"{node.name}/cast")
        shapes = (tensor_shape(graph, *source),)
        return graph.add_node_op(
            name, "Cast", [source], attrs, like=node, output_shapes=shapes
        ).name, 0

    if len(inputs) == 6:
        # no kernel reads it, and a forward node whose output 5 is used is not decomposed
        inputs[5] = insert_constant(graph, node, np.zeros(0, np.float32), "reserve")
    wide = graph.add_node_op(
        graph.new_name(f"{node.name}/float32"),
        node.op,
        [*map(widened, inputs[:images]), *inputs[images:]],
        {**node.attrs, "T": dtypes.float32},
        like=node,
        output_shapes=node.output_shapes,
    ).name
    for output in range(1, len(node.output_dtypes)):
        graph.redirect_output(node.name, output, wide, output)
    shape = node.output_shapes[0]
    attrs = {"SrcT": dtypes.float32, "DstT": narrow, "Truncate": False}
    graph.change_op(node.name, "Cast", [(wide, 0)], attrs)
    node.output_shapes = (shape,)
    return "computed in float32"


__all__ = ["widen_batch_norm"]
