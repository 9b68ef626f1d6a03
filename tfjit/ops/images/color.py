"""Declare color spaces and adjustments of images."""

from __future__ import annotations

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import (
    Shapes,
    require_scalars,
    unchanged_of_rank_at_least,
)
from tfjit.ops.core.type_lists import HALF_TO_DOUBLE


def adjusted(c: ShapeContext) -> Shapes:
    """Infer the images' shape; every other input is a scalar."""
    images = c.with_rank_at_least(0, 3)
    require_scalars(c, *range(1, len(c.inputs)))
    return [images]


def colors(c: ShapeContext) -> Shapes:
    """Infer the images' shape; the last axis has three channels."""
    images = c.with_rank_at_least(0, 1)
    if images is None:
        return [None]
    return [(*images[:-1], c.with_value(images[-1], 3))]


register_op(
    "AdjustContrast",
    inputs=("images: T", "contrast_factor: float", "min_value: float", "max_value: float"),
    outputs=("output: float",),
    attrs=("T: {uint8, int8, int16, int32, int64, float, double}",),
    deprecated=(2, "Use AdjustContrastv2 instead"),
    shape=adjusted,
)
register_op(
    "AdjustContrastv2",
    inputs=("images: T", "contrast_factor: float"),
    outputs=("output: T",),
    attrs=("T: {half, float} = DT_FLOAT",),
    shape=adjusted,
)
register_op(
    "AdjustHue",
    inputs=("images: T", "delta: float"),
    outputs=("output: T",),
    attrs=("T: {half, float} = DT_FLOAT",),
    shape=unchanged_of_rank_at_least(3),
)
register_op(
    "AdjustSaturation",
    inputs=("images: T", "scale: float"),
    outputs=("output: T",),
    attrs=("T: {half, float} = DT_FLOAT",),
    shape=unchanged_of_rank_at_least(3),
)
for _op_type in (
    "HSVToRGB",
    "RGBToHSV",
):
    register_op(
        _op_type,
        inputs=("images: T",),
        outputs=("output: T",),
        attrs=(f"T: {HALF_TO_DOUBLE} = DT_FLOAT",),
        shape=colors,
    )
