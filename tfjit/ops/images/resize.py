"""Declare resizing of images."""

from __future__ import annotations

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import (
    Shapes,
    require_scalars,
    same_as_input,
    size_input,
)


def resized(c: ShapeContext) -> Shapes:
    """Infer the shape of resized images; further outputs are scalars.

    images [batch, h, w, c], size [2] -> [batch, *size, c].
    """
    images = c.with_rank(0, 4)
    out = (images[0], *size_input(c, 1), images[3])
    return [out, *[()] * (c.num_outputs - 1)]


def quantized_resized(c: ShapeContext) -> Shapes:
    """Infer shapes as `resized`, with the scalars min and max."""
    require_scalars(c, 2, 3)
    return resized(c)


register_op(
    "QuantizedResizeBilinear",
    inputs=("images: T", "size: int32", "min: float", "max: float"),
    outputs=("resized_images: T", "out_min: float", "out_max: float"),
    attrs=(
        "T: {quint8, qint32, float}",
        "align_corners: bool = false",
        "half_pixel_centers: bool = false",
    ),
    shape=quantized_resized,
)
register_op(
    "ResizeArea",
    inputs=("images: T", "size: int32"),
    outputs=("resized_images: float",),
    attrs=(
        "T: {int8, uint8, int16, uint16, int32, int64, half, float, double, bfloat16}",
        "align_corners: bool = false",
    ),
    shape=resized,
)
register_op(
    "ResizeBicubic",
    inputs=("images: T", "size: int32"),
    outputs=("resized_images: float",),
    attrs=(
        "T: {int8, uint8, int16, uint16, int32, int64, half, float, double, bfloat16}",
        "align_corners: bool = false",
        "half_pixel_centers: bool = false",
    ),
    shape=resized,
)
register_op(
    "ResizeBicubicGrad",
    inputs=("grads: float", "original_image: T"),
    outputs=("output: T",),
    attrs=("T: {float, double}", "align_corners: bool = false", "half_pixel_centers: bool = false"),
    shape=same_as_input(1),
)
register_op(
    "ResizeBilinear",
    inputs=("images: T", "size: int32"),
    outputs=("resized_images: float",),
    attrs=(
        "T: {int8, uint8, int16, uint16, int32, int64, bfloat16, half, float, double, bfloat16}",
        "align_corners: bool = false",
        "half_pixel_centers: bool = false",
    ),
    shape=resized,
)
register_op(
    "ResizeBilinearGrad",
    inputs=("grads: float", "original_image: T"),
    outputs=("output: T",),
    attrs=(
        "T: {float, bfloat16, half, double}",
        "align_corners: bool = false",
        "half_pixel_centers: bool = false",
    ),
    shape=same_as_input(1),
)
register_op(
    "ResizeNearestNeighbor",
    inputs=("images: T", "size: int32"),
    outputs=("resized_images: T",),
    attrs=(
        "T: {int8, uint8, int16, uint16, int32, int64, half, float, double, bfloat16}",
        "align_corners: bool = false",
        "half_pixel_centers: bool = false",
    ),
    shape=resized,
)
register_op(
    "ResizeNearestNeighborGrad",
    inputs=("grads: T", "size: int32"),
    outputs=("output: T",),
    attrs=(
        "T: {uint8, int8, int32, half, float, double, bfloat16}",
        "align_corners: bool = false",
        "half_pixel_centers: bool = false",
    ),
    shape=resized,
)
register_op(
    "ScaleAndTranslate",
    inputs=("images: T", "size: int32", "scale: float", "translation: float"),
    outputs=("resized_images: float",),
    attrs=(
        "T: {int8, uint8, int16, uint16, int32, int64, bfloat16, half, float, double}",
        "kernel_type: string = 'lanczos3'",
        "antialias: bool = true",
    ),
    shape=resized,
)
register_op(
    "ScaleAndTranslateGrad",
    inputs=("grads: T", "original_image: T", "scale: float", "translation: float"),
    outputs=("output: T",),
    attrs=("T: {float}", "kernel_type: string = 'lanczos3'", "antialias: bool = true"),
    shape=same_as_input(1),
)
