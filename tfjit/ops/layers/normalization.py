"""Declare bias, normalisation, softmax."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.op_defs.op_traits import CANNOT_FAIL
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.types.shape import Shape
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import (
    Shapes,
    unchanged_of_rank,
    unchanged_of_rank_at_least,
)
from tfjit.ops.core.type_lists import HALF_TO_DOUBLE

if TYPE_CHECKING:
    pass


def bias_add_shape(c: ShapeContext) -> Shapes:
    """Infer the shape of a value with a bias a channel."""
    layout = c.attrs.get("data_format", b"NHWC")
    shape = c.with_rank_at_least(0, 3 if layout == b"NCHW" else 2)
    (bias,) = c.with_rank(1, 1)
    if shape is None:
        return [None]
    axis = 1 if layout == b"NCHW" else len(shape) - 1
    return [c.replace_dim(shape, axis, c.merge_dim(shape[axis], bias))]


def _bias_add_v1(c: ShapeContext) -> Shapes:
    shape = c.with_rank_at_least(0, 2)
    (bias,) = c.with_rank(1, 1)
    if shape is None:
        return [None]
    return [(*shape[:-1], c.merge_dim(shape[-1], bias))]


def _bias_add_grad(c: ShapeContext) -> Shapes:
    layout = c.attr("data_format")
    shape = c.with_rank_at_least(0, 3 if layout == b"NCHW" else 2)
    if shape is None:
        return [(None,)]
    return [(shape[1 if layout == b"NCHW" else -1],)]


def _channel_axis(c: ShapeContext, shape: tuple[int | None, ...]) -> int:
    return 1 if c.attrs.get("data_format", b"NHWC") in (b"NCHW", b"NCDHW") else len(shape) - 1


def _batch_norm(c: ShapeContext) -> Shapes:
    layout = c.attrs.get("data_format", b"NHWC")
    shape = c.with_rank(0, 5 if layout in (b"NDHWC", b"NCDHW") else 4)
    axis = _channel_axis(c, shape)
    channels = shape[axis]
    for i in (1, 2) if c.attr("is_training") else (1, 2, 3, 4):
        (size,) = c.with_rank(i, 1)
        channels = c.merge_dim(channels, size)
    vector: Shape = (channels,)
    return [c.replace_dim(shape, axis, channels), *[vector] * 4]


def batch_norm_v3_shape(c: ShapeContext) -> Shapes:
    return [*_batch_norm(c), None]


def _batch_norm_grad(c: ShapeContext) -> Shapes:
    layout = c.attrs.get("data_format", b"NHWC")
    rank = 5 if layout in (b"NDHWC", b"NCDHW") else 4
    upstream, shape = c.with_rank(0, rank), c.with_rank(1, rank)
    axis = _channel_axis(c, shape)
    channels = c.merge_dim(upstream[axis], shape[axis])
    for i in (2, 3, 4):
        (size,) = c.with_rank(i, 1)
        channels = c.merge_dim(channels, size)
    vector: Shape = (channels,)
    return [c.replace_dim(upstream, axis, channels), vector, vector, (0,), (0,)]


def _lrn_grad(c: ShapeContext) -> Shapes:
    shape: Shape = c.with_rank(0, 4)
    for i in (1, 2):
        shape = c.merge(shape, c.with_rank(i, 4))
    return [shape]


register_op(
    "BiasAdd",
    inputs=("value: T", "bias: T"),
    outputs=("output: T",),
    attrs=("T: numbertype", "data_format: {'NHWC', 'NCHW'} = 'NHWC'"),
    shape=bias_add_shape,
    traits=CANNOT_FAIL,
)
register_op(
    "BiasAddGrad",
    inputs=("out_backprop: T",),
    outputs=("output: T",),
    attrs=("T: numbertype", "data_format: {'NHWC', 'NCHW'} = 'NHWC'"),
    shape=_bias_add_grad,
)
register_op(
    "BiasAddV1",
    inputs=("value: T", "bias: T"),
    outputs=("output: T",),
    attrs=("T: numbertype",),
    shape=_bias_add_v1,
    traits=CANNOT_FAIL,
)
register_op(
    "FusedBatchNorm",
    inputs=("x: T", "scale: T", "offset: T", "mean: T", "variance: T"),
    outputs=(
        "y: T",
        "batch_mean: T",
        "batch_variance: T",
        "reserve_space_1: T",
        "reserve_space_2: T",
    ),
    attrs=(
        "T: {float}",
        "epsilon: float = 1e-04",
        "exponential_avg_factor: float = 1.0",
        "data_format: {'NHWC', 'NCHW'} = 'NHWC'",
        "is_training: bool = true",
    ),
    shape=_batch_norm,
)
register_op(
    "FusedBatchNormGrad",
    inputs=("y_backprop: T", "x: T", "scale: T", "reserve_space_1: T", "reserve_space_2: T"),
    outputs=(
        "x_backprop: T",
        "scale_backprop: T",
        "offset_backprop: T",
        "reserve_space_3: T",
        "reserve_space_4: T",
    ),
    attrs=(
        "T: {float}",
        "epsilon: float = 1e-04",
        "data_format: {'NHWC', 'NCHW'} = 'NHWC'",
        "is_training: bool = true",
    ),
    shape=_batch_norm_grad,
)
register_op(
    "FusedBatchNormGradV2",
    inputs=("y_backprop: T", "x: T", "scale: float", "reserve_space_1: U", "reserve_space_2: U"),
    outputs=(
        "x_backprop: T",
        "scale_backprop: U",
        "offset_backprop: U",
        "reserve_space_3: U",
        "reserve_space_4: U",
    ),
    attrs=(
        "T: {half, bfloat16, float}",
        "U: {float}",
        "epsilon: float = 1e-04",
        "data_format: {'NHWC', 'NCHW'} = 'NHWC'",
        "is_training: bool = true",
    ),
    shape=_batch_norm_grad,
)
register_op(
    "FusedBatchNormGradV3",
    inputs=(
        "y_backprop: T",
        "x: T",
        "scale: float",
        "reserve_space_1: U",
        "reserve_space_2: U",
        "reserve_space_3: U",
    ),
    outputs=(
        "x_backprop: T",
        "scale_backprop: U",
        "offset_backprop: U",
        "reserve_space_4: U",
        "reserve_space_5: U",
    ),
    attrs=(
        "T: {half, bfloat16, float}",
        "U: {float}",
        "epsilon: float = 1e-04",
        "data_format: {'NHWC', 'NCHW', 'NDHWC', 'NCDHW'} = 'NHWC'",
        "is_training: bool = true",
    ),
    shape=_batch_norm_grad,
)
register_op(
    "FusedBatchNormV2",
    inputs=("x: T", "scale: U", "offset: U", "mean: U", "variance: U"),
    outputs=(
        "y: T",
        "batch_mean: U",
        "batch_variance: U",
        "reserve_space_1: U",
        "reserve_space_2: U",
    ),
    attrs=(
        "T: {half, bfloat16, float}",
        "U: {float}",
        "epsilon: float = 1e-04",
        "exponential_avg_factor: float = 1.0",
        "data_format: {'NHWC', 'NCHW'} = 'NHWC'",
        "is_training: bool = true",
    ),
    shape=_batch_norm,
)
register_op(
    "FusedBatchNormV3",
    inputs=("x: T", "scale: U", "offset: U", "mean: U", "variance: U"),
    outputs=(
        "y: T",
        "batch_mean: U",
        "batch_variance: U",
        "reserve_space_1: U",
        "reserve_space_2: U",
        "reserve_space_3: U",
    ),
    attrs=(
        "T: {half, bfloat16, float}",
        "U: {bfloat16, float}",
        "epsilon: float = 1e-04",
        "exponential_avg_factor: float = 1.0",
        "data_format: {'NHWC', 'NCHW', 'NDHWC', 'NCDHW'} = 'NHWC'",
        "is_training: bool = true",
    ),
    shape=batch_norm_v3_shape,
)
register_op(
    "LogSoftmax",
    inputs=("logits: T",),
    outputs=("logsoftmax: T",),
    attrs=(f"T: {HALF_TO_DOUBLE}",),
    shape=unchanged_of_rank_at_least(1),
)
register_op(
    "LRN",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=(
        "depth_radius: int = 5",
        "bias: float = 1.0",
        "alpha: float = 1.0",
        "beta: float = 0.5",
        "T: {half, bfloat16, float} = DT_FLOAT",
    ),
    shape=unchanged_of_rank(4),
)
register_op(
    "LRNGrad",
    inputs=("input_grads: T", "input_image: T", "output_image: T"),
    outputs=("output: T",),
    attrs=(
        "depth_radius: int = 5",
        "bias: float = 1.0",
        "alpha: float = 1.0",
        "beta: float = 0.5",
        "T: {half, bfloat16, float} = DT_FLOAT",
    ),
    shape=_lrn_grad,
)
register_op(
    "Softmax",
    inputs=("logits: T",),
    outputs=("softmax: T",),
    attrs=(f"T: {HALF_TO_DOUBLE}",),
    shape=unchanged_of_rank_at_least(1),
)
