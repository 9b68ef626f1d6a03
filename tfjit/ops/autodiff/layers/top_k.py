"""Define gradients of the largest elements of rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.ops import raw_ops as raw
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients


@RegisterGradient("TopKV2")
@RegisterGradient("TopK")
def _top_k(op: Operation, grad: Tensor, _: object) -> Gradients:
    x, indices = op.inputs[0], op.outputs[1]
    shape = raw.Shape(input=x)
    width = shape[-1]
    k = raw.Shape(input=indices)[-1]
    rows = raw.Reshape(tensor=indices, shape=raw.Pack(values=[convert_to_tensor(-1), k]))
    starts = raw.ExpandDims(
        input=raw.Range(start=0, limit=raw.Shape(input=rows)[0] * width, delta=width), dim=1
    )
    flat = raw.Reshape(tensor=rows + starts, shape=convert_to_tensor([-1]))
    total = raw.Prod(input=shape, reduction_indices=0)
    summed = raw.UnsortedSegmentSum(
        data=raw.Reshape(tensor=grad, shape=convert_to_tensor([-1])),
        segment_ids=flat,
        num_segments=total,
    )
    gradient = raw.Reshape(tensor=summed, shape=shape)
    return (gradient, None) if len(op.inputs) == 2 else gradient


@RegisterGradient("ApproxTopK")
def _approximate_top_k(op: Operation, grad: Tensor, _: object) -> Gradients:
    """Scatter the gradient to the chosen elements.

    Shapes have to be known.
    """
    x, indices = op.inputs[0], op.outputs[1]
    sizes = x.shape.as_list()
    shape = [size or 0 for size in indices.shape.as_list()]
    rank = len(shape)
    axis = int(op.get_attr("reduction_dimension")) % rank
    columns = []
    for d, size in enumerate(shape):
        if d == axis:
            columns.append(raw.Reshape(tensor=indices, shape=[*shape, 1]))
            continue
        places = raw.Reshape(
            tensor=raw.Range(start=0, limit=size, delta=1),
            shape=[size if i == d else 1 for i in range(rank + 1)],
        )
        columns.append(raw.BroadcastTo(input=places, shape=[*shape, 1]))
    count = math.prod(shape)
    places = raw.Reshape(tensor=raw.ConcatV2(values=columns, axis=rank), shape=[count, rank])
    return raw.ScatterNd(
        indices=places, updates=raw.Reshape(tensor=grad, shape=[count]), shape=sizes
    )
