"""Declare convolutions, their gradients, dilations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes, fail, same_as_input, unchanged
from tfjit.ops.core.type_lists import HALF_TO_DOUBLE, INDEX

if TYPE_CHECKING:
    pass

# Attrs of windows that move over images.
WINDOWS: Final = (
    "padding: {'SAME', 'VALID', 'EXPLICIT'}",
    "explicit_paddings: list(int) = []",
    "data_format: {'NHWC', 'NCHW'} = 'NHWC'",
    "dilations: list(int) = [1, 1, 1, 1]",
)
_DEPTHWISE: Final = ("strides: list(int)", *WINDOWS)
_CONV_2D: Final = ("strides: list(int)", "use_cudnn_on_gpu: bool = true", *WINDOWS)
CONV_3D: Final = (
    "strides: list(int) >= 5",
    "padding: {'SAME', 'VALID'}",
    "data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'",
    "dilations: list(int) = [1, 1, 1, 1, 1]",
)


def _axes(c: ShapeContext, spatial: int) -> tuple[int, int, list[int]]:
    """Return (batch axis, channel axis, spatial axes) of the op's data_format."""
    layout = c.attrs.get("data_format", b"NHWC")
    if layout in (b"NCHW", b"NCDHW"):
        return 0, 1, list(range(2, 2 + spatial))
    return 0, spatial + 1, list(range(1, spatial + 1))


def _four(c: ShapeContext, name: str, spatial: int) -> list[int]:
    values = list(c.attr(name))
    if len(values) != spatial + 2:
        what = "stride" if name == "strides" else "dilation"
        raise fail(
            f"Conv{spatial}D requires the {what} attribute to contain {spatial + 2} values, but "
            f"got: {len(values)}"
        )
    return values


def _windowed(
    c: ShapeContext,
    size: int | None,
    window: int | None,
    dilation: int,
    stride: int,
    pads: tuple[int, int] | None,
) -> int | None:
    """Return the output size of one spatial axis.

    `pads` None means SAME.
    """
    if stride <= 0:
        raise fail(f"Stride must be > 0, but got {stride}")
    if dilation < 1:
        raise fail(f"Dilation rate must be >= 1, but got {dilation}")
    if size is None or window is None:
        if pads is None and size is not None:
            return -(-size // stride)
        return None
    if pads is None:
        return -(-size // stride)
    reach = (window - 1) * dilation + 1
    padded = size + pads[0] + pads[1]
    if padded < reach:
        raise fail(f"Negative dimension size caused by subtracting {reach} from {padded}")
    return (padded - reach) // stride + 1


def _paddings(c: ShapeContext, axes: list[int]) -> list[tuple[int, int] | None]:
    padding = c.attr("padding")
    if padding == b"SAME":
        return [None] * len(axes)
    if padding == b"VALID":
        return [(0, 0)] * len(axes)
    explicit = c.attr("explicit_paddings")
    rank = len(axes) + 2
    if len(explicit) != 2 * rank:
        raise fail(
            f"explicit_paddings attribute must contain {2 * rank} values, but got: {len(explicit)}"
        )
    if any(p < 0 for p in explicit):
        raise fail("All elements of explicit_paddings must be nonnegative")
    for axis in range(rank):
        if axis not in axes and (explicit[2 * axis] or explicit[2 * axis + 1]):
            raise fail("Nonzero explicit padding in the batch or depth dimensions is not supported")
    return [(explicit[2 * a], explicit[2 * a + 1]) for a in axes]


def _conv(c: ShapeContext, spatial: int) -> Shapes:
    rank = spatial + 2
    shape, kernel = c.with_rank(0, rank), c.with_rank(1, rank)
    batch, channel, axes = _axes(c, spatial)
    dilations, strides = _four(c, "dilations", spatial), _four(c, "strides", spatial)
    in_channels, out_channels = kernel[-2], kernel[-1]
    depth = shape[channel]
    # A filter of fewer input channels is a grouped convolution.
    if depth is not None and in_channels is not None:
        if in_channels == 0:
            raise fail("Depth of filter must not be 0")
        if depth % in_channels:
            raise fail(
                f"Depth of input ({depth}) is not a multiple of input depth of filter "
                f"({in_channels})"
            )
        groups = depth // in_channels
        if out_channels is not None and groups > 1 and out_channels % groups:
            raise fail(
                f"Depth of output ({out_channels}) is not a multiple of the number of groups "
                f"({groups})"
            )
    out: list[int | None] = [None] * rank
    out[batch], out[channel] = shape[batch], out_channels
    pads = (
        _paddings(c, axes)
        if "explicit_paddings" in c.attrs
        else [None if c.attr("padding") == b"SAME" else (0, 0)] * spatial
    )
    for i, axis in enumerate(axes):
        out[axis] = _windowed(c, shape[axis], kernel[i], dilations[axis], strides[axis], pads[i])
    return [tuple(out)]


def conv2d_shape(c: ShapeContext) -> Shapes:
    return _conv(c, 2)


def conv3d_shape(c: ShapeContext) -> Shapes:
    return _conv(c, 3)


def _depthwise(c: ShapeContext) -> Shapes:
    shape, kernel = c.with_rank(0, 4), c.with_rank(1, 4)
    strides = c.attr("strides")
    if len(strides) != 4:
        raise fail(
            "DepthwiseConv2D requires the stride attribute to contain 4 values, but got: "
            f"{len(strides)}"
        )
    dilations = c.attr("dilations")
    if len(dilations) != 4:
        raise fail(
            "DepthwiseConv2D requires the dilations attribute to contain 4 values, but got: "
            f"{len(dilations)}"
        )
    batch, channel, axes = _axes(c, 2)
    depth = c.merge_dim(shape[channel], kernel[2])
    out: list[int | None] = [None] * 4
    out[batch], out[channel] = shape[batch], c.multiply(depth, kernel[3])
    pads = _paddings(c, axes)
    for i, axis in enumerate(axes):
        out[axis] = _windowed(c, shape[axis], kernel[i], dilations[axis], strides[axis], pads[i])
    return [tuple(out)]


def _backprop_input(c: ShapeContext) -> Shapes:
    shape = c.with_rank(c.constant_as_shape(0), 4)
    kernel, upstream = c.with_rank(1, 4), c.with_rank(2, 4)
    batch, channel, _ = _axes(c, 2)
    c.merge_dim(shape[batch], upstream[batch])
    sizes = list(shape)
    sizes[batch] = upstream[batch]
    if (
        kernel[2] is not None
        and sizes[channel] is not None
        and (kernel[2] == 0 or sizes[channel] % kernel[2])  # type: ignore[operator]
    ):
        raise fail(
            f"Depth of output ({sizes[channel]}) is not a multiple of input depth of filter "
            f"({kernel[2]})"
        )
    return [tuple(sizes)]


def _backprop_filter(c: ShapeContext) -> Shapes:
    return [c.with_rank(c.constant_as_shape(1), 4)]


def _conv3d_backprop_input(c: ShapeContext) -> Shapes:
    return [c.with_rank(0, 5)]


def _conv3d_backprop_filter(c: ShapeContext) -> Shapes:
    return [c.with_rank(1, 5)]


def _depthwise_backprop_input(c: ShapeContext) -> Shapes:
    return [c.with_rank(c.constant_as_shape(0), 4)]


def _conv3d_backprop_input_v2(c: ShapeContext) -> Shapes:
    return [c.with_rank(c.constant_as_shape(0), 5)]


def _conv3d_backprop_filter_v2(c: ShapeContext) -> Shapes:
    return [c.with_rank(c.constant_as_shape(1), 5)]


register_op(
    "Conv2D",
    inputs=("input: T", "filter: T"),
    outputs=("output: T",),
    attrs=(
        "T: {half, bfloat16, float, double, int32}",
        *_CONV_2D,
    ),
    shape=conv2d_shape,
)
register_op(
    "Conv2DBackpropFilter",
    inputs=("input: T", "filter_sizes: int32", "out_backprop: T"),
    outputs=("output: T",),
    attrs=(
        f"T: {HALF_TO_DOUBLE}",
        *_CONV_2D,
    ),
    shape=_backprop_filter,
)
register_op(
    "Conv2DBackpropFilterV2",
    inputs=("input: T", "filter: T", "out_backprop: T"),
    outputs=("output: T",),
    attrs=(
        f"T: {HALF_TO_DOUBLE}",
        *_CONV_2D,
    ),
    shape=same_as_input(1),
)
register_op(
    "Conv2DBackpropInput",
    inputs=("input_sizes: int32", "filter: T", "out_backprop: T"),
    outputs=("output: T",),
    attrs=(
        "T: {half, bfloat16, float, double, int32}",
        *_CONV_2D,
    ),
    shape=_backprop_input,
)
register_op(
    "Conv2DBackpropInputV2",
    inputs=("input: T", "filter: T", "out_backprop: T"),
    outputs=("output: T",),
    attrs=(
        "T: {half, bfloat16, float, double, int32}",
        *_CONV_2D,
    ),
    shape=same_as_input(0),
)
register_op(
    "Conv3D",
    inputs=("input: T", "filter: T"),
    outputs=("output: T",),
    attrs=(
        f"T: {HALF_TO_DOUBLE}",
        *CONV_3D,
    ),
    shape=conv3d_shape,
)
register_op(
    "Conv3DBackpropFilter",
    inputs=("input: T", "filter: T", "out_backprop: T"),
    outputs=("output: T",),
    attrs=(
        "T: {half, float, double}",
        "strides: list(int) >= 5",
        "padding: {'SAME', 'VALID'}",
        "dilations: list(int) = [1, 1, 1, 1, 1]",
    ),
    deprecated=(10, "Use Conv3DBackpropFilterV2"),
    shape=_conv3d_backprop_filter,
)
register_op(
    "Conv3DBackpropFilterV2",
    inputs=("input: T", "filter_sizes: int32", "out_backprop: T"),
    outputs=("output: T",),
    attrs=(
        f"T: {HALF_TO_DOUBLE}",
        *CONV_3D,
    ),
    shape=_conv3d_backprop_filter_v2,
)
register_op(
    "Conv3DBackpropInput",
    inputs=("input: T", "filter: T", "out_backprop: T"),
    outputs=("output: T",),
    attrs=(
        "T: {half, float, double}",
        "strides: list(int) >= 5",
        "padding: {'SAME', 'VALID'}",
        "dilations: list(int) = [1, 1, 1, 1, 1]",
    ),
    deprecated=(10, "Use Conv3DBackpropInputV2"),
    shape=_conv3d_backprop_input,
)
register_op(
    "Conv3DBackpropInputV2",
    inputs=("input_sizes: Tshape", "filter: T", "out_backprop: T"),
    outputs=("output: T",),
    attrs=(
        f"T: {HALF_TO_DOUBLE}",
        *CONV_3D,
        f"Tshape: {INDEX} = DT_INT32",
    ),
    shape=_conv3d_backprop_input_v2,
)
for _op_type in (
    "DataFormatDimMap",
    "DataFormatVecPermute",
):
    register_op(
        _op_type,
        inputs=("x: T",),
        outputs=("y: T",),
        attrs=(
            f"T: {INDEX} = DT_INT32",
            "src_format: string = 'NHWC'",
            "dst_format: string = 'NCHW'",
        ),
        shape=unchanged,
    )
register_op(
    "DepthwiseConv2dNative",
    inputs=("input: T", "filter: T"),
    outputs=("output: T",),
    attrs=(
        f"T: {HALF_TO_DOUBLE}",
        *_DEPTHWISE,
    ),
    shape=_depthwise,
)
register_op(
    "DepthwiseConv2dNativeBackpropFilter",
    inputs=("input: T", "filter_sizes: int32", "out_backprop: T"),
    outputs=("output: T",),
    attrs=(
        f"T: {HALF_TO_DOUBLE}",
        *_DEPTHWISE,
    ),
    shape=_backprop_filter,
)
register_op(
    "DepthwiseConv2dNativeBackpropInput",
    inputs=("input_sizes: int32", "filter: T", "out_backprop: T"),
    outputs=("output: T",),
    attrs=(
        f"T: {HALF_TO_DOUBLE}",
        *_DEPTHWISE,
    ),
    shape=_depthwise_backprop_input,
)
