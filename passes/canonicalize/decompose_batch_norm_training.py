"""Decompose batch norm of batch statistics, and its gradient.

They become reductions and elementwise operations, which fuse like others.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from tfjit.framework.types import dtypes
from tfjit.framework.types.shape import Shape
from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
from tfjit.passes.ir.declined import Declined
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.manager.rewriter import insert_constant, is_static, tensor_dtype, tensor_shape

_Tensor = tuple[str, int]
_CHANNELS_LAST = (b"NHWC", b"NDHWC")
_CHANNELS_FIRST = (b"NCHW", b"NCDHW")


class _Maker:
    """Adds float32 nodes beside a batch norm.

    shape: of x. vector: [channels]. kept: the shape that broadcasts a value of each channel over x.
    """

    def __init__(self, graph: DataflowGraph, ctx: PassContext, node: Node, x: _Tensor) -> None:
        shape = tensor_shape(graph, *x)
        layout = node.attrs.get("data_format", b"NHWC")
        if layout not in (*_CHANNELS_LAST, *_CHANNELS_FIRST):
            raise Declined(f"data format {layout.decode()}")
        if shape is None or not is_static(shape):
            raise Declined("the shape of x is not known")
        self.graph, self.ctx, self.node = graph, ctx, node
        self.shape: tuple[int, ...] = tuple(int(n or 0) for n in shape)
        channel = len(shape) - 1 if layout in _CHANNELS_LAST else 1
        self.axes = tuple(k for k in range(len(shape)) if k != channel)
        self.count = prod(self.shape[k] for k in self.axes)
        self.vector: tuple[int, ...] = (self.shape[channel],)
        self.kept = (
            self.vector if layout in _CHANNELS_LAST else (*self.vector, *(1,) * (len(shape) - 2))
        )
        if not self.count or not self.vector[0]:
            raise Declined("x is empty")
        self._axes = insert_constant(graph, node, np.array(self.axes, np.int32), "axes")

    def op(self, op: str, inputs: list[_Tensor], shape: Shape, **attrs: Any) -> _Tensor:
        """Add a node of that shape."""
        name = self.graph.new_name(f"{self.node.name}/{op.lower()}")
        attrs = {"T": dtypes.float32, **attrs}
        return self.graph.add_node_op(
            name, op, inputs, attrs, like=self.node, output_shapes=(shape,)
        ).name, 0

    def number(self, value: float) -> _Tensor:
        """Add a scalar constant."""
        return insert_constant(self.graph, self.node, np.array(value, np.float32), "number")

    def reduced(self, op: str, x: _Tensor) -> _Tensor:
        """Add a Sum or Mean over all axes but the channels."""
        return self.op(op, [x, self._axes], self.vector, keep_dims=False, Tidx=dtypes.int32)

    def beside(self, vector: _Tensor) -> _Tensor:
        """Return a [channels] vector as an operand beside x."""
        if self.kept == self.vector:
            return vector
        target = insert_constant(self.graph, self.node, np.array(self.kept, np.int32), "shape")
        return self.op("Reshape", [vector, target], self.kept, Tshape=dtypes.int32)

    def inverse_deviation(self, variance: _Tensor) -> _Tensor:
        """Add 1 / sqrt(variance + epsilon), of shape [channels]."""
        shifted = self.op(
            "AddV2", [variance, self.number(self.node.attrs.get("epsilon", 1e-4))], self.vector
        )
        return self.op("Rsqrt", [shifted], self.vector)


def _require_plain(graph: DataflowGraph, node: Node) -> None:
    inputs = graph.inputs(node.name)
    if any(tensor_dtype(graph, *source) is not dtypes.float32 for source in inputs):
        raise Declined("an input is not float32, or a variable itself: when it is read matters")
    if graph.control_inputs(node.name):
        raise Declined("it waits for other nodes, as would all it became")
    if "_activation" in node.attrs:
        raise Declined("it has an activation of its own")


def decompose_batch_norm_training(graph: DataflowGraph, ctx: PassContext, node: Node) -> str | None:
    """Rewrite FusedBatchNorm*(x, ..., is_training=True) to elementary operations.

    Before: FusedBatchNorm*(x, scale, offset, mean, variance; is_training=True)
    After: (x - m) * (scale / sqrt(v + epsilon)) + offset

    m and v are the Mean of x and of its squared distances from m, over all axes but the channels.
    One pass over x computes both. The running statistics (outputs 1 and 2, the variance times n /
    (n - 1)) are m and v mixed with the inputs mean and variance by exponential_avg_factor; outputs
    3 and 4 are m and v. The AddV2 keeps the node's name. Fires when all inputs are float32 and the
    shape of x is known and not empty.
    Raises Declined, with the reason, elsewhere.
    """
    if not node.attrs.get("is_training", True):
        return None
    _require_plain(graph, node)
    x, scale, offset, old_mean, old_variance = graph.inputs(node.name)
    make = _Maker(graph, ctx, node, x)
    mean = make.reduced("Mean", x)
    variance = make.reduced(
        "Mean", make.op("SquaredDifference", [x, make.beside(mean)], make.shape)
    )
    factor = make.op("Mul", [make.inverse_deviation(variance), scale], make.vector)
    centered = make.op("Sub", [x, make.beside(mean)], make.shape)
    scaled = make.op("Mul", [centered, make.beside(factor)], make.shape)

    def mixed(new: _Tensor, old: _Tensor) -> _Tensor:
        share = float(node.attrs.get("exponential_avg_factor", 1.0))
        if share == 1.0:
            return new
        kept = make.op(
            "Mul", [old, make.number(float(np.float32(1) - np.float32(share)))], make.vector
        )
        return make.op(
            "AddV2", [kept, make.op("Mul", [new, make.number(share)], make.vector)], make.vector
        )

    used = {edge.src_output for edge in node.out_edges if not edge.is_control}
    if 1 in used:
        graph.redirect_output(node.name, 1, *mixed(mean, old_mean))
    if 2 in used:
        unbiased = make.op(
            "Mul", [variance, make.number(make.count / max(make.count - 1, 1))], make.vector
        )
        graph.redirect_output(node.name, 2, *mixed(unbiased, old_variance))
    graph.redirect_output(node.name, 3, *mean)
    graph.redirect_output(node.name, 4, *variance)
    if 5 in used:  # the value that kernels of other devices pass to the gradient
        graph.redirect_output(
            node.name, 5, *insert_constant(graph, node, np.zeros(0, np.float32), "reserve")
        )
    graph.change_op(node.name, "AddV2", [scaled, make.beside(offset)], {"T": dtypes.float32})
    node.output_shapes = (make.shape,)
    return "mean and variance of the batch, and what they are used for"


def decompose_batch_norm_grad(graph: DataflowGraph, ctx: PassContext, node: Node) -> str | None:
    """Rewrite FusedBatchNormGrad to two sums and an elementwise expression.

    Before: FusedBatchNormGrad*(dy, x, scale, m, v, ...)
    After: the gradients of x, scale and offset below

    With r = 1 / sqrt(v + epsilon), n elements a channel, and sums over all axes but the channels:
    the offset's gradient is b = sum(dy), and the scale's is s = p * r with p = sum(dy * (x - m)).
    The gradient of x is scale * r * ((dy - b / n) - (x - m) * (p * r * r / n)), or dy * (scale * r)
    where is_training is False. The Mul keeps the node's name. Fires when all inputs are float32,
    the shape of x is known and not empty, and the reserved outputs are unused.
    Raises Declined, with the reason, elsewhere.
    """
    _require_plain(graph, node)
    used = {edge.src_output for edge in node.out_edges if not edge.is_control}
    if used - {0, 1, 2}:
        raise Declined("its reserved outputs are used")
    dy, x, scale, mean, variance = graph.inputs(node.name)[:5]
    make = _Maker(graph, ctx, node, x)
    if tensor_shape(graph, *dy) != make.shape:
        raise Declined("the shape of dy is not known to be that of x")
    inverse = make.inverse_deviation(variance)
    centered = make.op("Sub", [x, make.beside(mean)], make.shape)
    total = make.reduced("Sum", dy)
    projection = make.reduced("Sum", make.op("Mul", [dy, centered], make.shape))
    factor = make.beside(make.op("Mul", [inverse, scale], make.vector))
    if 1 in used:
        graph.redirect_output(node.name, 1, *make.op("Mul", [projection, inverse], make.vector))
    graph.redirect_output(node.name, 2, *total)
    rest = dy
    if node.attrs.get("is_training", True):
        share = make.number(1 / make.count)
        squared = make.op(
            "Mul", [make.op("Mul", [projection, inverse], make.vector), inverse], make.vector
        )
        slope = make.beside(make.op("Mul", [squared, share], make.vector))
        level = make.beside(make.op("Mul", [total, share], make.vector))
        away = make.op("Mul", [centered, slope], make.shape)
        rest = make.op("Sub", [make.op("Sub", [dy, level], make.shape), away], make.shape)
    graph.change_op(node.name, "Mul", [rest, factor], {"T": dtypes.float32})
    node.output_shapes = (make.shape,)
    return "two sums over the batch, and what they are used for"
