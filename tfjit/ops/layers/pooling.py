"""Declare pooling and its gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.types.shape import Shape
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes, fail, int_list_constant
from tfjit.ops.core.type_lists import HALF_TO_DOUBLE, INDEX

if TYPE_CHECKING:
    pass

# Attrs of windows that move over volumes.
WINDOWS_3D: Final = (
    "ksize: list(int) >= 5",
    "strides: list(int) >= 5",
    "padding: {'SAME', 'VALID'}",
    "data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'",
)


def _pool_axes(c: ShapeContext, spatial: int) -> tuple[int, list[int]]:
    layout = c.attrs.get("data_format", b"NHWC")
    if layout in (b"NCHW", b"NCDHW", b"NCHW_VECT_C"):
        return 1, list(range(2, 2 + spatial))
    return spatial + 1, list(range(1, spatial + 1))


def _pooled(
    c: ShapeContext,
    shape: tuple[int | None, ...],
    window: Sequence[int | None],
    strides: Sequence[int | None],
    spatial: int,
) -> Shape:
    channel, axes = _pool_axes(c, spatial)
    out = list(shape)
    pads = _pool_paddings(c, axes)
    for axis in axes:
        out[axis] = _pool_size(c, shape[axis], window[axis], strides[axis], pads.get(axis))
    if "MaxPool" in c.op and spatial == 2 and len(shape) == 4:
        out[channel] = _pool_size(
            c,
            shape[channel],
            window[channel],
            strides[channel],
            None if c.attr("padding") == b"SAME" else (0, 0),
        )
    return tuple(out)


def _pool_paddings(c: ShapeContext, axes: list[int]) -> dict[int, tuple[int, int]]:
    padding = c.attr("padding")
    if padding == b"SAME":
        return {}
    if padding == b"EXPLICIT":
        explicit = c.attr("explicit_paddings")
        if len(explicit) != 2 * (len(axes) + 2):
            raise fail(
                f"explicit_paddings attribute must contain {2 * (len(axes) + 2)} values, but got: "
                f"{len(explicit)}"
            )
        return {axis: (explicit[2 * axis], explicit[2 * axis + 1]) for axis in axes}
    return dict.fromkeys(axes, (0, 0))


def _pool_size(
    c: ShapeContext,
    size: int | None,
    window: int | None,
    stride: int | None,
    pads: tuple[int, int] | None,
) -> int | None:
    if stride is not None and stride <= 0:
        raise fail(f"Stride must be > 0, but got {stride}")
    if size is None or stride is None:
        return None
    if pads is None:
        return -(-size // stride)
    if window is None:
        return None
    padded = size + sum(pads)
    if padded < window:
        raise fail(f"Negative dimension size caused by subtracting {window} from {padded}")
    return (padded - window) // stride + 1


def _checked(c: ShapeContext, spatial: int) -> tuple[list[int], list[int]]:
    count = spatial + 2
    window, strides = list(c.attr("ksize")), list(c.attr("strides"))
    kind = c.op.removesuffix("3D")
    for what, values in (("stride", strides), ("ksize", window)):
        if len(values) != count:
            raise fail(
                f"{kind} requires the {what} attribute to contain {count} values, but got: "
                f"{len(values)}"
            )
    return window, strides


def pool_shape(c: ShapeContext) -> Shapes:
    """Infer the shape of images under windows."""
    shape = c.with_rank(0, 5 if c.attrs.get("data_format") == b"NCHW_VECT_C" else 4)
    window, strides = _checked(c, 2)
    return [_pooled(c, shape, window, strides, 2)]


def _pool_v2(c: ShapeContext) -> Shapes:
    shape = c.with_rank(0, 4)
    window: list[int | None] = [None] * 4
    strides: list[int | None] = [None] * 4
    if len(c.inputs) > 1:
        given = int_list_constant(c, 1), int_list_constant(c, 2)
        if given[0] is None or given[1] is None:
            return [(None,) * 4]
        window, strides = list(given[0]), list(given[1])
        for what, values in (("stride", strides), ("ksize", window)):
            if len(values) != 4:
                raise fail(
                    f"MaxPool requires the {what} attribute to contain 4 values, but got: "
                    f"{len(values)}"
                )
    return [_pooled(c, shape, window, strides, 2)]


def _pool_with_argmax(c: ShapeContext) -> Shapes:
    return [*pool_shape(c)] * 2


def _pool3d(c: ShapeContext) -> Shapes:
    shape = c.with_rank(0, 5)
    window, strides = _checked(c, 3)
    return [_pooled(c, shape, window, strides, 3)]


def _avg_pool_grad(c: ShapeContext) -> Shapes:
    return [c.with_rank(c.constant_as_shape(0), 4)]


def _avg_pool3d_grad(c: ShapeContext) -> Shapes:
    return [c.with_rank(c.constant_as_shape(0), 5)]


def _max_pool_grad(c: ShapeContext) -> Shapes:
    return [c.with_rank(0, 4)]


def _max_pool3d_grad(c: ShapeContext) -> Shapes:
    return [c.with_rank(0, 5)]


def _max_pool_grad_grad(c: ShapeContext) -> Shapes:
    shape: Shape = c.with_rank(1, 4)
    c.merge(c.inputs[0], c.inputs[2])
    return [shape]


def _max_pool3d_grad_grad(c: ShapeContext) -> Shapes:
    c.merge(c.inputs[0], c.inputs[2])
    return [c.with_rank(1, 5)]


register_op(
    "AvgPool",
    inputs=("value: T",),
    outputs=("output: T",),
    attrs=(
        "ksize: list(int) >= 4",
        "strides: list(int) >= 4",
        "padding: {'SAME', 'VALID'}",
        "data_format: {'NHWC', 'NCHW'} = 'NHWC'",
        f"T: {HALF_TO_DOUBLE}",
    ),
    shape=pool_shape,
)
register_op(
    "AvgPool3D",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=(
        *WINDOWS_3D,
        f"T: {HALF_TO_DOUBLE}",
    ),
    shape=_pool3d,
)
register_op(
    "AvgPool3DGrad",
    inputs=("orig_input_shape: int32", "grad: T"),
    outputs=("output: T",),
    attrs=(
        *WINDOWS_3D,
        f"T: {HALF_TO_DOUBLE}",
    ),
    shape=_avg_pool3d_grad,
)
register_op(
    "AvgPoolGrad",
    inputs=("orig_input_shape: int32", "grad: T"),
    outputs=("output: T",),
    attrs=(
        "ksize: list(int) >= 4",
        "strides: list(int) >= 4",
        "padding: {'SAME', 'VALID'}",
        "data_format: {'NHWC', 'NCHW'} = 'NHWC'",
        f"T: {HALF_TO_DOUBLE}",
    ),
    shape=_avg_pool_grad,
)
register_op(
    "MaxPool",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=(
        "T: {half, bfloat16, float, double, int32, int64, uint8, int16, int8, uint16, qint8} = "
        "DT_FLOAT",
        "ksize: list(int) >= 4",
        "strides: list(int) >= 4",
        "padding: {'SAME', 'VALID', 'EXPLICIT'}",
        "explicit_paddings: list(int) = []",
        "data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'",
    ),
    shape=pool_shape,
)
register_op(
    "MaxPool3D",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=(
        *WINDOWS_3D,
        "T: {half, bfloat16, float}",
    ),
    shape=_pool3d,
)
register_op(
    "MaxPool3DGrad",
    inputs=("orig_input: TInput", "orig_output: TInput", "grad: T"),
    outputs=("output: T",),
    attrs=(
        *WINDOWS_3D,
        "T: {half, bfloat16, float} = DT_FLOAT",
        "TInput: {half, bfloat16, float} = DT_FLOAT",
    ),
    shape=_max_pool3d_grad,
)
register_op(
    "MaxPool3DGradGrad",
    inputs=("orig_input: T", "orig_output: T", "grad: T"),
    outputs=("output: T",),
    attrs=(
        *WINDOWS_3D,
        "T: realnumbertype",
    ),
    shape=_max_pool3d_grad_grad,
)
register_op(
    "MaxPoolGrad",
    inputs=("orig_input: T", "orig_output: T", "grad: T"),
    outputs=("output: T",),
    attrs=(
        "ksize: list(int) >= 4",
        "strides: list(int) >= 4",
        "padding: {'SAME', 'VALID', 'EXPLICIT'}",
        "explicit_paddings: list(int) = []",
        "data_format: {'NHWC', 'NCHW'} = 'NHWC'",
        "T: realnumbertype = DT_FLOAT",
    ),
    shape=_max_pool_grad,
)
register_op(
    "MaxPoolGradGrad",
    inputs=("orig_input: T", "orig_output: T", "grad: T"),
    outputs=("output: T",),
    attrs=(
        "ksize: list(int) >= 4",
        "strides: list(int) >= 4",
        "padding: {'SAME', 'VALID'}",
        "data_format: {'NHWC', 'NCHW'} = 'NHWC'",
        "T: realnumbertype",
    ),
    shape=_max_pool_grad_grad,
)
register_op(
    "MaxPoolGradGradV2",
    inputs=("orig_input: T", "orig_output: T", "grad: T", "ksize: int32", "strides: int32"),
    outputs=("output: T",),
    attrs=(
        "padding: {'SAME', 'VALID'}",
        "data_format: {'NHWC', 'NCHW'} = 'NHWC'",
        "T: realnumbertype",
    ),
    shape=_max_pool_grad_grad,
)
register_op(
    "MaxPoolGradGradWithArgmax",
    inputs=("input: T", "grad: T", "argmax: Targmax"),
    outputs=("output: T",),
    attrs=(
        "ksize: list(int) >= 4",
        "strides: list(int) >= 4",
        "padding: {'SAME', 'VALID'}",
        "include_batch_in_index: bool = false",
        f"Targmax: {INDEX}",
        "T: realnumbertype",
    ),
)
register_op(
    "MaxPoolGradV2",
    inputs=("orig_input: T", "orig_output: T", "grad: T", "ksize: int32", "strides: int32"),
    outputs=("output: T",),
    attrs=(
        "padding: {'SAME', 'VALID'}",
        "data_format: {'NHWC', 'NCHW'} = 'NHWC'",
        "T: realnumbertype = DT_FLOAT",
    ),
    shape=_max_pool_grad,
)
register_op(
    "MaxPoolGradWithArgmax",
    inputs=("input: T", "grad: T", "argmax: Targmax"),
    outputs=("output: T",),
    attrs=(
        "ksize: list(int) >= 4",
        "strides: list(int) >= 4",
        "padding: {'SAME', 'VALID'}",
        "include_batch_in_index: bool = false",
        f"Targmax: {INDEX}",
        "T: realnumbertype",
    ),
    shape=_max_pool_grad,
)
register_op(
    "MaxPoolV2",
    inputs=("input: T", "ksize: int32", "strides: int32"),
    outputs=("output: T",),
    attrs=(
        "T: {half, bfloat16, float, double, int32, int64, uint8, int16, int8, uint16, qint8} = "
        "DT_FLOAT",
        "padding: {'SAME', 'VALID'}",
        "data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'",
    ),
    shape=_pool_v2,
)
register_op(
    "MaxPoolWithArgmax",
    inputs=("input: T",),
    outputs=("output: T", "argmax: Targmax"),
    attrs=(
        "ksize: list(int) >= 4",
        "strides: list(int) >= 4",
        f"Targmax: {INDEX} = DT_INT64",
        "padding: {'SAME', 'VALID'}",
        "include_batch_in_index: bool = false",
        "T: realnumbertype",
    ),
    shape=_pool_with_argmax,
)
