"""Declare decoding and encoding of images in files' formats."""

from __future__ import annotations

from typing import Final

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Rule, Shapes, fail

_JPEG_ATTRS: Final = (
    "channels: int = 0",
    "ratio: int = 1",
    "fancy_upscaling: bool = true",
    "try_recover_truncated: bool = false",
    "acceptable_fraction: float = 1",
    "dct_method: string = ''",
)


def _channels(c: ShapeContext) -> int | None:
    channels = int(c.attr("channels"))
    if channels < 0:
        raise fail(f"channels must be non-negative, got {channels}")
    return channels or None


def image(rank: int = 3) -> Rule:
    """Return the rule of a decoder: only the channels are known."""

    def rule(c: ShapeContext) -> Shapes:
        c.with_rank(0, 0)
        return [(*[None] * (rank - 1), _channels(c))]

    return rule


def any_image(c: ShapeContext) -> Shapes:
    """Infer an image, or frames of one."""
    c.with_rank(0, 0)
    channels = _channels(c)
    return [None if c.attr("expand_animations") else (None, None, channels)]


def frames(c: ShapeContext) -> Shapes:
    """Infer frames in RGB."""
    c.with_rank(0, 0)
    return [(None, None, None, 3)]


def cropped(c: ShapeContext) -> Shapes:
    """Infer the shape of a part from crop_window [4]."""
    c.with_rank(0, 0)
    channels = _channels(c)
    c.with_value(c.with_rank(1, 1)[0], 4)
    window = c.constant(1)
    if window is None:
        return [(None, None, channels)]
    height, width = int(window[2]), int(window[3])
    for size in (height, width):
        if size < 0:
            raise fail(f"Dimension {size} must be >= 0")
    return [(height, width, channels)]


def jpeg_shape(c: ShapeContext) -> Shapes:
    """Infer three numbers of a scalar."""
    c.with_rank(0, 0)
    return [(3,)]


def encoded(c: ShapeContext) -> Shapes:
    """Infer a scalar of one image."""
    c.with_rank(0, 3)
    return [()]


def each_encoded(c: ShapeContext) -> Shapes:
    """Infer a string an image."""
    shape = c.with_rank_at_least(0, 3)
    return [None if shape is None else shape[:-3]]


register_op(
    "DecodeAndCropJpeg",
    inputs=("contents: string", "crop_window: int32"),
    outputs=("image: uint8",),
    attrs=_JPEG_ATTRS,
    shape=cropped,
)
register_op(
    "DecodeBmp",
    inputs=("contents: string",),
    outputs=("image: uint8",),
    attrs=("channels: int = 0",),
    shape=image(),
)
register_op(
    "DecodeGif",
    inputs=("contents: string",),
    outputs=("image: uint8",),
    shape=frames,
)
register_op(
    "DecodeImage",
    inputs=("contents: string",),
    outputs=("image: dtype",),
    attrs=(
        "channels: int = 0",
        "dtype: {uint8, uint16, float} = DT_UINT8",
        "expand_animations: bool = true",
    ),
    shape=any_image,
)
register_op(
    "DecodeJpeg",
    inputs=("contents: string",),
    outputs=("image: uint8",),
    attrs=_JPEG_ATTRS,
    shape=image(),
)
register_op(
    "DecodeJxl",
    inputs=("contents: string",),
    outputs=("image: dtype",),
    attrs=("channels: int = 0", "dtype: {uint8} = DT_UINT8"),
    shape=image(),
)
register_op(
    "DecodePng",
    inputs=("contents: string",),
    outputs=("image: dtype",),
    attrs=("channels: int = 0", "dtype: {uint8, uint16} = DT_UINT8"),
    shape=image(),
)
register_op(
    "DecodeWebP",
    inputs=("contents: string",),
    outputs=("image: dtype",),
    attrs=("channels: int = 0", "dtype: {uint8} = DT_UINT8"),
    shape=image(4),
)
register_op(
    "EncodeJpeg",
    inputs=("image: uint8",),
    outputs=("contents: string",),
    attrs=(
        "format: {'', 'grayscale', 'rgb'} = ''",
        "quality: int = 95",
        "progressive: bool = false",
        "optimize_size: bool = false",
        "chroma_downsampling: bool = true",
        "density_unit: {'in', 'cm'} = 'in'",
        "x_density: int = 300",
        "y_density: int = 300",
        "xmp_metadata: string = ''",
    ),
    shape=encoded,
)
register_op(
    "EncodeJpegVariableQuality",
    inputs=("images: uint8", "quality: int32"),
    outputs=("contents: string",),
    shape=encoded,
)
register_op(
    "EncodePng",
    inputs=("image: T",),
    outputs=("contents: string",),
    attrs=("compression: int = -1", "T: {uint8, uint16} = DT_UINT8"),
    shape=each_encoded,
)
register_op(
    "ExtractJpegShape",
    inputs=("contents: string",),
    outputs=("image_shape: output_type",),
    attrs=("output_type: {int32, int64} = DT_INT32",),
    shape=jpeg_shape,
)
