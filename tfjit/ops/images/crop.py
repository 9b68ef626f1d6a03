"""Declare crops, glimpses and projections of images."""

from __future__ import annotations

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import (
    Rule,
    Shapes,
    fail,
    same_as_input,
    size_input,
)


def projected(c: ShapeContext) -> Shapes:
    """Infer the shape of projected images.

    images [batch, h, w, c], transforms, output_shape [2] -> [batch, *output_shape, c].
    """
    images = c.with_rank(0, 4)
    return [(images[0], *size_input(c, 2), images[3])]


def crops(c: ShapeContext) -> Shapes:
    """Infer the shape of crops.

    image [batch, h, w, c], boxes [n, 4], box_ind [n], crop_size [2] -> [n, *crop_size, c].
    """
    image, boxes, index = c.with_rank(0, 4), c.with_rank(1, 2), c.with_rank(2, 1)
    count = c.merge_dim(boxes[0], index[0])
    c.with_value(boxes[1], 4)
    return [(count, *size_input(c, 3), image[3])]


def shape_of_input(index: int, rank: int) -> Rule:
    """Return a rule for the shape, of a rank, in input `index`."""

    def rule(c: ShapeContext) -> Shapes:
        return [c.with_rank(c.constant_as_shape(index), rank)]

    return rule


def glimpses(c: ShapeContext) -> Shapes:
    """Infer the shape of glimpses.

    input [batch, h, w, c], size [2], offsets [batch, 2] -> [batch, *size, c].
    """
    if c.attr("uniform_noise") and c.attr("noise") not in (b"", b"uniform"):
        raise fail("The uniform_noise should not be True when noise is not uniform")
    images, offsets = c.with_rank(0, 4), c.with_rank(2, 2)
    batch = c.merge_dim(images[0], offsets[0])
    c.with_value(offsets[1], 2)
    return [(batch, *size_input(c, 1), images[3])]


register_op(
    "CropAndResize",
    inputs=("image: T", "boxes: float", "box_ind: int32", "crop_size: int32"),
    outputs=("crops: float",),
    attrs=(
        "T: {uint8, uint16, int8, int16, int32, int64, half, float, double}",
        "method: {'bilinear', 'nearest'} = 'bilinear'",
        "extrapolation_value: float = 0.0",
    ),
    shape=crops,
)
register_op(
    "CropAndResizeGradBoxes",
    inputs=("grads: float", "image: T", "boxes: float", "box_ind: int32"),
    outputs=("output: float",),
    attrs=(
        "T: {uint8, uint16, int8, int16, int32, int64, half, float, double}",
        "method: {'bilinear'} = 'bilinear'",
    ),
    shape=same_as_input(2),
)
register_op(
    "CropAndResizeGradImage",
    inputs=("grads: float", "boxes: float", "box_ind: int32", "image_size: int32"),
    outputs=("output: T",),
    attrs=("T: {float, half, double}", "method: {'bilinear', 'nearest'} = 'bilinear'"),
    shape=shape_of_input(3, 4),
)
for _op_type in ("ExtractGlimpse", "ExtractGlimpseV2"):
    register_op(
        _op_type,
        inputs=("input: float", "size: int32", "offsets: float"),
        outputs=("glimpse: float",),
        attrs=(
            "centered: bool = true",
            "normalized: bool = true",
            "uniform_noise: bool = true",
            "noise: string = 'uniform'",
        ),
        shape=glimpses,
    )
register_op(
    "ImageProjectiveTransformV2",
    inputs=("images: dtype", "transforms: float", "output_shape: int32"),
    outputs=("transformed_images: dtype",),
    attrs=(
        "dtype: {uint8, int32, int64, half, bfloat16, float, double}",
        "interpolation: string",
        "fill_mode: string = 'CONSTANT'",
    ),
    shape=projected,
)
register_op(
    "ImageProjectiveTransformV3",
    inputs=("images: dtype", "transforms: float", "output_shape: int32", "fill_value: float"),
    outputs=("transformed_images: dtype",),
    attrs=(
        "dtype: {uint8, int32, int64, half, bfloat16, float, double}",
        "interpolation: string",
        "fill_mode: string = 'CONSTANT'",
    ),
    shape=projected,
)
