"""Define the public functions of the family `normalization`: `bias_add`, `softmax`, `moments`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.ops.arithmetic.reduction import axes_or_all
from tfjit.ops.core.apply import call, tensor
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.core.dispatch import unary_elementwise
from tfjit.ops.core.renamed import renamed

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import AxisLike, TensorLike


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


@unary_elementwise
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
