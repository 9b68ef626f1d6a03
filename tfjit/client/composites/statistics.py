"""Define moments of weighted and of partial data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.ops import nn
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.core.renamed import renamed
from tfjit.ops.core.shape_rules import product

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import AxisLike, TensorLike


def sufficient_statistics(
    x: TensorLike,
    axes: Iterable[int],
    shift: TensorLike | None = None,
    keep_dims: bool | None = None,
    name: str | None = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Return (count, sum, sum of squares, shift) over axes.

    Values are taken from `shift`, which makes the variance of `normalize_moments` exact where it is
    near the mean.
    """
    places = list(set(axes))
    keep = bool(renamed(keepdims, keep_dims, "keepdims", "keep_dims"))
    with name_scope(name, "sufficient_statistics", [x, shift]):
        values = convert_to_tensor(x, name="x")
        sizes = values.shape_tuple
        count = None if sizes is None else product([sizes[d] for d in places])
        if count is not None:
            counts = convert_to_tensor(count, dtype=values.dtype.base_dtype)
        else:
            rank = ops.rank(values)
            given = [axis + rank if axis < 0 else axis for axis in places]
            lengths = ops.cast(ops.shape(values), values.dtype.base_dtype)
            chosen = ops.gather(lengths, given)
            counts = ops.reduce_prod(chosen, name="count")
        origin = None if shift is None else convert_to_tensor(shift, name="shift")
        from_origin = values if origin is None else ops.subtract(values, origin)
        squares = ops.square(values) if origin is None else ops.squared_difference(values, origin)
        total = ops.reduce_sum(from_origin, places, keepdims=keep, name="mean_ss")
        of_squares = ops.reduce_sum(squares, places, keepdims=keep, name="var_ss")
    return counts, total, of_squares, origin


def normalize_moments(
    counts: TensorLike,
    mean_ss: TensorLike,
    variance_ss: TensorLike,
    shift: TensorLike | None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return (mean, variance) from the results of `sufficient_statistics`."""
    with name_scope(name, "normalize", [counts, mean_ss, variance_ss, shift]):
        divisor = ops.reciprocal(counts, name="divisor")
        if shift is not None:
            shifted = ops.multiply(mean_ss, divisor, name="shifted_mean")
            mean = ops.add(shifted, shift, name="mean")
        else:
            mean = shifted = ops.multiply(mean_ss, divisor, name="mean")
        variance = ops.subtract(
            ops.multiply(variance_ss, divisor), ops.square(shifted), name="variance"
        )
    return mean, variance


def weighted_moments(
    x: TensorLike,
    axes: AxisLike,
    frequency_weights: TensorLike,
    name: str | None = None,
    keep_dims: bool | None = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """Return (mean, variance) over axes, of weighted values.

    float16 is summed in float32. Both are 0 where all weights are.
    """
    keep = bool(renamed(keepdims, keep_dims, "keepdims", "keep_dims"))
    with name_scope(name, "weighted_moments", [x, frequency_weights, axes]):
        values = convert_to_tensor(x, name="x")
        weights = convert_to_tensor(frequency_weights, name="frequency_weights")
        narrow = values.dtype.base_dtype is dtypes.float16
        if narrow:
            values = ops.cast(values, dtypes.float32)
        if weights.dtype.base_dtype is not values.dtype.base_dtype:
            weights = ops.cast(weights, values.dtype.base_dtype)
        total = ops.reduce_sum(weights * values, axes, name="weighted_input_sum", keepdims=True)
        every_weight = weights + ops.zeros_like(values)
        total_weight = ops.reduce_sum(every_weight, axes, name="sum_of_weights", keepdims=True)
        mean = ops.div_no_nan(total, total_weight)
        distances = ops.reduce_sum(
            weights * ops.squared_difference(values, mean),
            axes,
            name="weighted_distsq",
            keepdims=True,
        )
        variance = ops.div_no_nan(distances, total_weight)
        if not keep:
            mean, variance = (ops.squeeze(t, axis=axes) for t in (mean, variance))
        if narrow:
            mean, variance = (ops.cast(t, dtypes.float16) for t in (mean, variance))
        return mean, variance


def batch_norm_with_global_normalization(
    t: TensorLike | None = None,
    m: TensorLike | None = None,
    v: TensorLike | None = None,
    beta: TensorLike | None = None,
    gamma: TensorLike | None = None,
    variance_epsilon: float | None = None,
    scale_after_normalization: bool | None = None,
    name: str | None = None,
    input: TensorLike | None = None,
    mean: TensorLike | None = None,
    variance: TensorLike | None = None,
) -> Tensor:
    """Normalise t [batch, h, w, c] by mean m and variance v.

    m, v, beta and gamma are [c]. gamma [c] scales the result if scale_after_normalization. input,
    mean, variance: other names of t, m, v.
    """
    t = renamed(input, t, "input", "t")
    m = renamed(mean, m, "mean", "m")
    v = renamed(variance, v, "variance", "v")
    scale = gamma if scale_after_normalization else None
    if variance_epsilon is None:
        raise ValueError("variance_epsilon must be given")
    return nn.batch_normalization(t, m, v, beta, scale, variance_epsilon, name)
