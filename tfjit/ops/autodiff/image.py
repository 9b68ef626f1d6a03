"""Gradients of resized images, crops and patches."""

from __future__ import annotations

from typing import Any

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import NotDifferentiable, RegisterGradient
from tfjit.framework.types import dtypes
from tfjit.ops import raw_ops as raw

_FLOATS = (dtypes.float16, dtypes.float32, dtypes.float64)


def _corners(op: Operation) -> dict[str, Any]:
    return {name: op.get_attr(name) for name in ("align_corners", "half_pixel_centers")}


@RegisterGradient("ResizeNearestNeighbor")
def _resize_nearest(op: Operation, grad: Tensor) -> Any:
    size = raw.Slice(input=raw.Shape(input=op.inputs[0]), begin=[1], size=[2])
    return raw.ResizeNearestNeighborGrad(grads=grad, size=size, **_corners(op)), None


@RegisterGradient("ResizeBilinear")
def _resize_bilinear(op: Operation, grad: Tensor) -> Any:
    return raw.ResizeBilinearGrad(grads=grad, original_image=op.inputs[0], **_corners(op)), None


@RegisterGradient("ResizeBicubic")
def _resize_bicubic(op: Operation, grad: Tensor) -> Any:
    images = op.inputs[0]
    if images.dtype not in (dtypes.float32, dtypes.float64):
        return None, None
    return raw.ResizeBicubicGrad(grads=grad, original_image=images, **_corners(op)), None


@RegisterGradient("ScaleAndTranslate")
def _scale_and_translate(op: Operation, grad: Tensor) -> Any:
    images, _, scale, translation = op.inputs
    options = {name: op.get_attr(name) for name in ("kernel_type", "antialias")}
    found = raw.ScaleAndTranslateGrad(
        grads=grad, original_image=images, scale=scale, translation=translation, **options
    )
    return found, None, None, None


@RegisterGradient("CropAndResize")
def _crop_and_resize(op: Operation, grad: Tensor) -> Any:
    image, boxes, index, _ = op.inputs
    method = op.get_attr("method")
    for_image = None
    if image.dtype in _FLOATS:
        size = raw.Shape(input=image)
        for_image = raw.CropAndResizeGradImage(
            grads=grad, boxes=boxes, box_ind=index, image_size=size, T=image.dtype, method=method
        )
    # of the nearest pixel, too, boxes have the gradient of the bilinear method
    for_boxes = raw.CropAndResizeGradBoxes(grads=grad, image=image, boxes=boxes, box_ind=index)
    return for_image, for_boxes, None, None


@RegisterGradient("ExtractImagePatches")
def _extract_image_patches(op: Operation, grad: Tensor) -> Any:
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


for _op_type in (
    "NonMaxSuppressionV4",
    "NonMaxSuppressionV5",
    "NonMaxSuppressionWithOverlaps",
    "DrawBoundingBoxes",
    "DrawBoundingBoxesV2",
):
    NotDifferentiable(_op_type)
