"""Define gradients of patches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.framework.types import dtypes
from tfjit.ops import raw_ops as raw

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients


@RegisterGradient("ExtractImagePatches")
def _extract_image_patches(op: Operation, grad: Tensor) -> Gradients:
    """Return each patch value to its place in the image.

    Patches of the positions themselves tell the places; 0 is the border.
    """
    images = op.inputs[0]
    options = {name: op.get_attr(name) for name in ("ksizes", "strides", "rates", "padding")}
    shape = raw.Shape(input=images, out_type=dtypes.int64)
    sizes = [
        raw.StridedSlice(input=shape, begin=[i], end=[i + 1], strides=[1], shrink_axis_mask=1)
        for i in range(4)
    ]
    area, depth = sizes[1] * sizes[2], sizes[3]
    one = raw.OnesLike(x=area)
    positions = raw.Reshape(
        tensor=raw.Range(start=one, limit=area + one, delta=one),
        shape=raw.Pack(values=[one, sizes[1], sizes[2], one]),
    )
    places = raw.Reshape(tensor=raw.ExtractImagePatches(images=positions, **options), shape=[-1])
    count = raw.Size(input=places, out_type=dtypes.int64)
    by_place = raw.Reshape(tensor=grad, shape=raw.Pack(values=[sizes[0], count, depth]))
    by_place = raw.Transpose(x=by_place, perm=[1, 0, 2])
    summed = raw.UnsortedSegmentSum(data=by_place, segment_ids=places, num_segments=area + one)
    inner = raw.Slice(input=summed, begin=[1, 0, 0], size=[-1, -1, -1])
    return raw.Reshape(tensor=raw.Transpose(x=inner, perm=[1, 0, 2]), shape=shape)
