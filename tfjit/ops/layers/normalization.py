"""Declare bias, normalisation, softmax."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.op_defs.op_traits import CANNOT_FAIL
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.types import dtypes
from tfjit.framework.types.shape import Shape
from tfjit.ops.arithmetic.reduction import axes_or_all
from tfjit.ops.core.apply import call, tensor
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.renamed import renamed
from tfjit.ops.core.shape_rules import (
    Shapes,
    unchanged_of_rank,
    unchanged_of_rank_at_least,
)
from tfjit.ops.core.type_lists import HALF_TO_DOUBLE

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import AxisLike, ShapeLike, TensorLike


def _bias_add(c: ShapeContext) -> Shapes:
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
    shape=_bias_add,
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


def bias_add(
    value: TensorLike, bias: TensorLike, data_format: str | None = None, name: str | None = None
) -> Tensor:
    """Add bias [c] to value [..., c] or [batch, c, ...].

    The second layout is of the formats NC... Raises ValueError for another layout.
    """
    with name_scope(name, "BiasAdd", [value, bias]) as scope:
        if data_format is not None and not data_format.startswith("N"):
            raise ValueError(
                "`data_format` must be of the form `N...C` or `NC...`. Received: "
                f"data_format={data_format}"
            )
        first = data_format is not None and data_format.startswith("NC")
        return tensor(
            "BiasAdd", scope, value=value, bias=bias, data_format="NCHW" if first else "NHWC"
        )


def _last_axis(op_type: str, logits: TensorLike, axis: int | None, name: str | None) -> Tensor:
    """Apply a row-wise op along an axis.

    Another axis than the last is swapped with the last.
    """
    axis = -1 if axis is None else axis
    value = convert_to_tensor(logits)
    rank = value.shape.rank
    if axis == -1 or (rank is not None and axis == rank - 1):
        return tensor(op_type, name, logits=value)
    if rank is None:
        with name_scope(name, op_type, [value]):
            last = tensor("Sub", None, x=tensor("Rank", None, input=value), y=1)
            place = tensor(
                "FloorMod",
                None,
                x=tensor("AddV2", None, x=last, y=1 + axis),
                y=tensor("AddV2", None, x=last, y=1),
            )
            ends, transposed = (
                tensor("Pack", None, values=[place, last]),
                tensor("Pack", None, values=[last, place]),
            )
            places = tensor(
                "Range", None, start=0, limit=tensor("AddV2", None, x=last, y=1), delta=1
            )
            perm = tensor("DynamicStitch", None, indices=[places, ends], data=[places, transposed])
            swapped = tensor(op_type, None, logits=tensor("Transpose", None, x=value, perm=perm))
            return tensor("Transpose", None, x=swapped, perm=perm)
    if not -rank <= axis < rank:
        raise ValueError(f"`axis` = {axis} is not in range [{-rank}, {rank})")
    order = list(range(rank))
    order[axis], order[-1] = order[-1], order[axis]
    with name_scope(name, op_type, [value]) as scope:
        swapped = tensor(op_type, None, logits=tensor("Transpose", None, x=value, perm=order))
        return tensor("Transpose", scope, x=swapped, perm=order)


def softmax(
    logits: TensorLike, axis: int | None = None, name: str | None = None, dim: int | None = None
) -> Tensor:
    """Return exp(x) / sum(exp(x)) along an axis."""
    return _last_axis("Softmax", logits, renamed(axis, dim, "axis", "dim"), name)


def log_softmax(
    logits: TensorLike, axis: int | None = None, name: str | None = None, dim: int | None = None
) -> Tensor:
    """Return log(softmax(x)) along an axis."""
    return _last_axis("LogSoftmax", logits, renamed(axis, dim, "axis", "dim"), name)


def local_response_normalization(
    input: TensorLike,
    depth_radius: int = 5,
    bias: float = 1.0,
    alpha: float = 1.0,
    beta: float = 0.5,
    name: str | None = None,
) -> Tensor:
    """Normalise by the squares of neighbouring channels.

    input / (bias + alpha * sum of squares of neighbouring channels) ** beta.
    """
    return tensor(
        "LRN", name, input=input, depth_radius=depth_radius, bias=bias, alpha=alpha, beta=beta
    )


lrn = local_response_normalization


def moments(
    x: TensorLike,
    axes: AxisLike,
    shift: TensorLike | None = None,
    name: str | None = None,
    keep_dims: bool | None = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """Return (mean, variance) over axes.

    float16 is summed in float32.
    """
    keep = bool(renamed(keepdims, keep_dims, "keepdims", "keep_dims"))
    with name_scope(name, "moments", [x, axes]):
        given = convert_to_tensor(x)
        y = (
            tensor("Cast", None, x=given, DstT=dtypes.float32)
            if given.dtype.base_dtype is dtypes.float16
            else given
        )
        mean = tensor("Mean", "mean", input=y, reduction_indices=axes, keep_dims=True)
        difference = tensor(
            "SquaredDifference", None, x=y, y=tensor("StopGradient", None, input=mean)
        )
        variance = tensor(
            "Mean", "variance", input=difference, reduction_indices=axes, keep_dims=True
        )
        if not keep:
            dims = [int(a) for a in np.reshape(axes, -1)]
            mean, variance = (
                tensor("Squeeze", None, input=t, squeeze_dims=dims) for t in (mean, variance)
            )
        if y is not given:
            mean, variance = (
                tensor("Cast", None, x=t, DstT=dtypes.float16) for t in (mean, variance)
            )
        return mean, variance


def batch_normalization(
    x: TensorLike,
    mean: TensorLike,
    variance: TensorLike,
    offset: TensorLike | None,
    scale: TensorLike | None,
    variance_epsilon: TensorLike,
    name: str | None = None,
) -> Tensor:
    """Return (x - mean) / sqrt(variance + epsilon) * scale + offset.

    scale and offset may be None.
    """
    with name_scope(name, "batchnorm", [x, mean, variance, scale, offset]):
        inverse = tensor("Rsqrt", None, x=tensor("AddV2", "add", x=variance, y=variance_epsilon))
        if scale is not None:
            inverse = tensor("Mul", "mul", x=inverse, y=scale)
        x = convert_to_tensor(x)
        scaled = tensor(
            "Mul",
            "mul",
            x=x,
            y=tensor("Cast", None, x=inverse, DstT=x.dtype.base_dtype)
            if inverse.dtype is not x.dtype
            else inverse,
        )
        shift = tensor("Mul", "mul", x=mean, y=inverse)
        rest = (
            tensor("Neg", None, x=shift)
            if offset is None
            else tensor("Sub", "sub", x=offset, y=shift)
        )
        return tensor(
            "AddV2",
            "add_1",
            x=scaled,
            y=rest
            if rest.dtype is x.dtype
            else tensor("Cast", None, x=rest, DstT=x.dtype.base_dtype),
        )


def fused_batch_norm(
    x: TensorLike,
    scale: TensorLike,
    offset: TensorLike,
    mean: TensorLike | None = None,
    variance: TensorLike | None = None,
    epsilon: float = 0.001,
    data_format: str = "NHWC",
    is_training: bool = True,
    name: str | None = None,
    exponential_avg_factor: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return (y, mean, variance) of x [batch, h, w, c].

    While training the batch's own statistics are used. Raises ValueError when mean and variance are
    needed and not given.
    """
    if (not is_training or exponential_avg_factor != 1.0) and (mean is None or variance is None):
        raise ValueError(
            "Both `mean` and `variance` must be a 1D tensor when `is_training` is False or "
            "`exponential_avg_factor` != 1.0."
        )
    x = convert_to_tensor(x, name="input")
    scale = convert_to_tensor(scale, name="scale")
    offset = convert_to_tensor(offset, name="offset")
    empty = np.zeros(0, np.float32)
    out = call(
        "FusedBatchNormV3",
        name,
        x=x,
        scale=scale,
        offset=offset,
        mean=empty if mean is None else mean,
        variance=empty if variance is None else variance,
        epsilon=epsilon,
        exponential_avg_factor=exponential_avg_factor,
        data_format=data_format,
        is_training=is_training,
    )
    return out[0], out[1], out[2]


def l2_normalize(
    x: TensorLike,
    axis: AxisLike | None = None,
    epsilon: float = 1e-12,
    name: str | None = None,
    dim: AxisLike | None = None,
) -> Tensor:
    """Return x / sqrt(max(sum(x * x), epsilon)) along axes."""
    axis = renamed(axis, dim, "axis", "dim")
    with name_scope(name, "l2_normalize", [x]) as scope:
        x = convert_to_tensor(x, name="x")
        total = tensor(
            "Sum",
            None,
            input=tensor("Square", None, x=x),
            reduction_indices=axes_or_all(x, axis),
            keep_dims=True,
        )
        inverse = tensor("Rsqrt", None, x=tensor("Maximum", None, x=total, y=epsilon))
        return tensor("Mul", scope, x=x, y=inverse)


def zero_fraction(value: TensorLike, name: str | None = None) -> Tensor:
    """Return the fraction of the elements that is zero."""
    with name_scope(name, "zero_fraction", [value]):
        x = convert_to_tensor(value, name="value")
        zero = tensor("Equal", None, x=x, y=tensor("ZerosLike", None, x=x))
        flat = tensor(
            "Reshape", None, tensor=tensor("Cast", None, x=zero, DstT=dtypes.float32), shape=[-1]
        )
        return tensor("Mean", "fraction", input=flat, reduction_indices=[0])


def xw_plus_b(
    x: TensorLike, weights: TensorLike, biases: TensorLike, name: str | None = None
) -> Tensor:
    """Return matmul(x, weights) + biases."""
    with name_scope(name, "xw_plus_b", [x, weights, biases]) as scope:
        return bias_add(tensor("MatMul", None, a=x, b=weights), biases, name=scope)


def relu_layer(
    x: TensorLike, weights: TensorLike, biases: TensorLike, name: str | None = None
) -> Tensor:
    """Return relu(matmul(x, weights) + biases)."""
    with name_scope(name, "relu_layer", [x, weights, biases]) as scope:
        return tensor(
            "Relu", scope, features=bias_add(tensor("MatMul", None, a=x, b=weights), biases)
        )


def dropout(
    x: Any,
    keep_prob: Any = None,
    noise_shape: ShapeLike | None = None,
    seed: int | None = None,
    name: str | None = None,
    rate: Any = None,
) -> Tensor:
    """Zero elements with probability `rate` and scale up the others.

    Raises ValueError without a rate or for one outside [0, 1).
    """
    from tfjit.ops.random_values.stateful_random import random_uniform

    if rate is None:
        if keep_prob is None:
            raise ValueError("You must provide a rate to dropout.")
        rate = 1 - keep_prob
    if isinstance(rate, str):
        raise ValueError(f"`rate` must be a scalar or scalar tensor. Received: rate={rate}")
    with name_scope(name, "dropout", [x]):
        x = convert_to_tensor(x, name="x")
        kind = x.dtype.base_dtype
        if not kind.is_floating:
            raise ValueError(
                "`x.dtype` must be a floating point tensor as `x` will be scaled. Received "
                f"x.dtype={kind}"
            )
        if not isinstance(rate, Tensor):
            if not 0 <= rate < 1:
                raise ValueError(
                    "`rate` must be a scalar tensor or a float in the range [0, 1). Received: "
                    f"rate={rate}"
                )
            if rate == 0:
                return x
            scaled = tensor("Mul", None, x=x, y=convert_to_tensor(1 / (1 - rate), kind))
        else:
            keep = tensor("Sub", None, x=convert_to_tensor(1, kind), y=rate)
            scaled = tensor(
                "Mul", None, x=x, y=tensor("RealDiv", None, x=convert_to_tensor(1, kind), y=keep)
            )
        shape = tensor("Shape", None, input=x) if noise_shape is None else noise_shape
        draw = random_uniform(shape, seed=seed, dtype=kind)
        kept = tensor("GreaterEqual", None, x=draw, y=convert_to_tensor(rate, kind))
        out = tensor("SelectV2", None, condition=kept, t=scaled, e=convert_to_tensor(0, kind))
        out.set_shape(x.shape)
        return out
