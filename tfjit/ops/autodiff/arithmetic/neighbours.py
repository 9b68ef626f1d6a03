"""Define gradients of monotonic fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.ops import raw_ops as raw
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients


@RegisterGradient("IsotonicRegression")
def _isotonic(op: Operation, grad: Tensor, _: object) -> Gradients:
    """Return the mean of the gradients of each segment."""
    segments = op.outputs[1]
    shape = raw.Shape(input=segments)
    total = raw.Prod(input=shape, reduction_indices=0)
    flat = convert_to_tensor([-1])
    # the first element of each element's row
    width = raw.Maximum(x=shape[-1], y=1)
    first = raw.FloorDiv(x=raw.Range(start=0, limit=total, delta=1), y=width) * width
    places = raw.Reshape(tensor=segments, shape=flat) + first
    given = raw.Reshape(tensor=grad, shape=flat)
    sums, counts = (
        raw.UnsortedSegmentSum(data=data, segment_ids=places, num_segments=total)
        for data in (given, raw.OnesLike(x=given))
    )
    means = raw.GatherV2(params=sums, indices=places, axis=0) / raw.GatherV2(
        params=counts, indices=places, axis=0
    )
    return raw.Reshape(tensor=means, shape=shape)
