"""Define gradients of the largest elements of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.ops import raw_ops as raw
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients


@RegisterGradient("ApproxTopK")
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
