"""Define gradients of patches."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.framework.types import dtypes
from tfjit.ops import raw_ops as raw
from tfjit.ops.autodiff.terms import attrs_of

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients


@RegisterGradient("ExtractImagePatches")
def _extract_image_patches(op: Operation, grad: Tensor) -> Gradients:
    options = attrs_of(op, "ksizes", "strides", "rates", "padding")
    return _to_places(op.inputs[0], grad, 2, lambda x: raw.ExtractImagePatches(images=x, **options))


@RegisterGradient("ExtractVolumePatches")
def _extract_volume_patches(op: Operation, grad: Tensor) -> Gradients:
    options = attrs_of(op, "ksizes", "strides", "padding")
    return _to_places(op.inputs[0], grad, 3, lambda x: raw.ExtractVolumePatches(input=x, **options))


def _to_places(x: Tensor, grad: Tensor, rank: int, extract: Callable[[Tensor], Tensor]) -> Tensor:
    """Add up patch values at their places in images or volumes.

    Patches of the positions themselves tell the places; 0 is the border. rank: 2 for images, 3 for
    volumes.
    """
    shape = raw.Shape(input=x, out_type=dtypes.int64)
    sizes = [
        raw.StridedSlice(input=shape, begin=[i], end=[i + 1], strides=[1], shrink_axis_mask=1)
        for i in range(rank + 2)
    ]
    batch, *space, depth = sizes
    area = raw.Prod(input=raw.Pack(values=space), reduction_indices=0)
    one = raw.OnesLike(x=area)
    positions = raw.Reshape(
        tensor=raw.Range(start=one, limit=area + one, delta=one),
        shape=raw.Pack(values=[one, *space, one]),
    )
    places = raw.Reshape(tensor=extract(positions), shape=[-1])
    count = raw.Size(input=places, out_type=dtypes.int64)
    by_place = raw.Reshape(tensor=grad, shape=raw.Pack(values=[batch, count, depth]))
    by_place = raw.Transpose(x=by_place, perm=[1, 0, 2])
    summed = raw.UnsortedSegmentSum(data=by_place, segment_ids=places, num_segments=area + one)
    inner = raw.Slice(input=summed, begin=[1, 0, 0], size=[-1, -1, -1])
    return raw.Reshape(tensor=raw.Transpose(x=inner, perm=[1, 0, 2]), shape=shape)
