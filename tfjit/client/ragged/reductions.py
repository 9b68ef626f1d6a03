"""Reduce ragged tensors along axes, and by segments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tfjit import ops
from tfjit.client.ragged.concat import same_splits
from tfjit.client.ragged.elementwise import map_flat_values
from tfjit.client.ragged.handlers import handles
from tfjit.client.ragged.ragged_tensor import (
    RaggedTensor,
    dense_or_ragged,
    matched,
    positive_axis,
)
from tfjit.client.ragged.row_partition import lengths_to_splits, offsets_in_rows
from tfjit.framework.graphs.default_graph import control_dependencies, name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.graphs.static_value import constant_value
from tfjit.framework.types.dtypes import bool as bool_type
from tfjit.framework.types.dtypes import int32, int64
from tfjit.ops.control_flow.control_flow import with_dependencies
from tfjit.ops.core.apply import call
from tfjit.ops.core.renamed import renamed

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import (
        AxisLike,
        DenseOrRagged,
        DTypeLike,
        Structure,
        TensorLike,
    )


class Reduction(NamedTuple):
    """A function that reduces axes, and one that reduces segments."""

    of_axes: Callable[..., Tensor]
    of_segments: Callable[..., Tensor]


def reduced(
    reduction: Reduction,
    tensor: DenseOrRagged,
    axis: Structure,
    keepdims: bool | None,
    name: str | None = None,
) -> DenseOrRagged:
    """Reduce one axis, several or all of them.

    Raises ValueError for axes that only a run knows.
    """
    if not isinstance(tensor, RaggedTensor):
        return reduction.of_axes(tensor, axis, keepdims=keepdims, name=name)
    axes = constant_value(axis) if isinstance(axis, Tensor) else axis
    if isinstance(axis, Tensor):
        if axes is None:
            raise ValueError("axis must be known at graph construction time.")
        axes = axes.tolist()
    if axes is None:
        total = reduction.of_axes(tensor.flat_values, None, keepdims=keepdims, name=name)
        for _ in range(tensor.ragged_rank if keepdims else 0):
            total = ops.expand_dims(total, axis=0)
        return total
    with name_scope(name, "RaggedReduce", [tensor, axis]):
        if not isinstance(axes, (list, tuple)):
            return _along_axis(reduction, tensor, axes, keepdims)
        if len(axes) > 1:
            rank = tensor.shape.rank
            axes = [
                positive_axis(a, rank, f"axis[{i}]", "rank(input_tensor)")
                for i, a in enumerate(axes)
            ]
        made: DenseOrRagged = tensor
        for place in sorted(axes, reverse=True):
            made = reduced(reduction, made, place, keepdims)
        return made


def _along_axis(
    reduction: Reduction, tensor: RaggedTensor, axis: object, keepdims: bool | None
) -> DenseOrRagged:
    place = positive_axis(axis, tensor.shape.rank, dims="rank(input_tensor)")
    if place > 1:
        return tensor.with_values(reduced(reduction, tensor.values, place - 1, keepdims))
    if place == 1:
        segments = tensor._row_partition.value_rowids
        count = ops.shape(tensor.row_splits)[0] - 1
    else:
        lengths = tensor.row_splits[1:] - tensor.row_splits[:-1]
        known = constant_value(tensor.row_splits)
        if known is None:
            count = ops.maximum(ops.reduce_max(lengths), 0)
        else:
            count = ops.constant(np.diff(known).max(initial=0), lengths.dtype)
        segments = offsets_in_rows(lengths, lengths.dtype)
    made = by_segments(reduction.of_segments, tensor.values, segments, count)
    return ops.expand_dims(made, axis=place) if keepdims else made


def by_segments(
    of_segments: Callable[..., Tensor],
    data: DenseOrRagged,
    segment_ids: DenseOrRagged,
    num_segments: TensorLike,
    name: str | None = None,
) -> DenseOrRagged:
    """Combine the rows of each segment to one of the greatest length.

    Raises ValueError where segment_ids is no prefix of the shape of data.
    """
    if not isinstance(data, RaggedTensor) and not isinstance(segment_ids, RaggedTensor):
        return of_segments(data, segment_ids, num_segments, name=name)
    with name_scope(name, "RaggedSegment", [data, segment_ids, num_segments]):
        _, (rows, ids) = matched(
            dense_or_ragged(data, name="data"), dense_or_ragged(segment_ids, name="segment_ids")
        )
        if ids.dtype not in (int32, int64):
            raise ValueError("segment_ids must have dtype int32 or int64.")
        if isinstance(ids, RaggedTensor):
            if not isinstance(rows, RaggedTensor):
                raise ValueError(
                    "segment_ids.shape must be a prefix of data.shape, but segment_ids is ragged "
                    "and data is not."
                )
            text = "segment_ids.shape must be a prefix of data.shape"
            check = ops.assert_equal(ids.row_splits, rows.row_splits, message=text)
            with control_dependencies([check]):
                return by_segments(of_segments, rows.values, ids.values, num_segments)
        lengths = rows.row_splits[1:] - rows.row_splits[:-1]
        longest = ops.maximum(ops.unsorted_segment_max(lengths, ids, num_segments), 0)
        splits = lengths_to_splits(longest)
        starts = ops.gather(splits, ids)
        places = call(
            "RaggedRange",
            None,
            starts=starts,
            limits=starts + lengths,
            deltas=ops.constant(1, starts.dtype),
        ).rt_dense_values
        values = by_segments(of_segments, rows.values, places, splits[-1])
        return RaggedTensor.from_row_splits(values, splits, validate=False)


_SUM = Reduction(ops.reduce_sum, ops.unsorted_segment_sum)
_PRODUCT = Reduction(ops.reduce_prod, ops.unsorted_segment_prod)
_LEAST = Reduction(ops.reduce_min, ops.unsorted_segment_min)
_LARGEST = Reduction(ops.reduce_max, ops.unsorted_segment_max)


def _register(reduction: Reduction, scope: str, segment_scope: str) -> None:
    """Register the handlers of a reduction and of its segments."""

    @handles(reduction.of_axes)
    def reduce(
        input_tensor: DenseOrRagged,
        axis: AxisLike | None = None,
        keepdims: bool | None = None,
        name: str | None = None,
        reduction_indices: AxisLike | None = None,
        keep_dims: bool | None = None,
    ) -> DenseOrRagged:
        axes = renamed(axis, reduction_indices, "axis", "reduction_indices")
        keep = renamed(keepdims, keep_dims, "keepdims", "keep_dims")
        return reduced(reduction, dense_or_ragged(input_tensor), axes, keep, name or scope)

    @handles(reduction.of_segments)
    def segments(
        data: DenseOrRagged,
        segment_ids: DenseOrRagged,
        num_segments: TensorLike,
        name: str | None = None,
    ) -> DenseOrRagged:
        given = name or segment_scope
        return by_segments(reduction.of_segments, data, segment_ids, num_segments, given)


_register(_SUM, "RaggedReduceSum", "RaggedSegmentSum")
_register(_PRODUCT, "RaggedReduceProd", "RaggedSegmentProd")
_register(_LEAST, "RaggedReduceMin", "RaggedSegmentMin")
_register(_LARGEST, "RaggedReduceMax", "RaggedSegmentMax")


@handles(ops.reduce_mean)
def reduce_mean(
    input_tensor: DenseOrRagged,
    axis: AxisLike | None = None,
    keepdims: bool | None = None,
    name: str | None = None,
    reduction_indices: AxisLike | None = None,
    keep_dims: bool | None = None,
) -> DenseOrRagged:
    """Return the mean along axes: NaN of no values; integers as floats."""
    axes = renamed(axis, reduction_indices, "axis", "reduction_indices")
    keep = renamed(keepdims, keep_dims, "keepdims", "keep_dims")
    with name_scope(name, "RaggedReduceMean", [input_tensor, axes]):
        ragged = dense_or_ragged(input_tensor)
        ones = ragged.with_flat_values(ops.ones_like(ragged.flat_values))
        total, count = (reduced(_SUM, value, axes, keep) for value in (ragged, ones))
        return _divided(total, count)


def _divided(total: DenseOrRagged, count: DenseOrRagged) -> DenseOrRagged:
    if isinstance(total, RaggedTensor):
        return total.with_flat_values(total.flat_values / count.flat_values)
    return total / count


@handles(ops.math.reduce_variance)
def reduce_variance(
    input_tensor: DenseOrRagged,
    axis: AxisLike | None = None,
    keepdims: bool = False,
    name: str | None = None,
) -> DenseOrRagged:
    """Return the variance along axes; see `tf.math.reduce_variance`."""
    with name_scope(name, "RaggedReduceVariance", [input_tensor, axis]):
        ragged = dense_or_ragged(input_tensor, name="input_tensor")
        if ragged.dtype.is_complex:
            raise ValueError(
                "reduce_variance is not supported for RaggedTensors with complex dtypes."
            )
        mean_of_squares = reduce_mean(ops.square(ragged), axis, keepdims)
        square_of_mean = ops.square(reduce_mean(ragged, axis, keepdims))
        return ops.maximum(mean_of_squares - square_of_mean, 0)


@handles(ops.math.reduce_std)
def reduce_std(
    input_tensor: DenseOrRagged,
    axis: AxisLike | None = None,
    keepdims: bool = False,
    name: str | None = None,
) -> DenseOrRagged:
    """Return the standard deviation along axes; see `tf.math.reduce_std`."""
    with name_scope(name, "RaggedReduceStd", [input_tensor, axis]):
        return ops.sqrt(reduce_variance(input_tensor, axis, keepdims))


def _register_logical(function: Callable[..., object], reduction: Reduction, scope: str) -> None:
    """Register a reduction of bools as that of 0 and 1."""

    @handles(function)
    def reduce(
        input_tensor: DenseOrRagged,
        axis: AxisLike | None = None,
        keepdims: bool | None = None,
        name: str | None = None,
        reduction_indices: AxisLike | None = None,
        keep_dims: bool | None = None,
    ) -> DenseOrRagged:
        axes = renamed(axis, reduction_indices, "axis", "reduction_indices")
        keep = renamed(keepdims, keep_dims, "keepdims", "keep_dims")
        with name_scope(name, scope, [input_tensor, axes]):
            numbers = map_flat_values(ops.cast, input_tensor, int32)
            return ops.cast(reduced(reduction, numbers, axes, keep), bool_type)


_register_logical(ops.reduce_all, _PRODUCT, "RaggedReduceAll")
_register_logical(ops.reduce_any, _SUM, "RaggedReduceAny")


def _segment_mean(scope: str, divisor: Callable[[Tensor], Tensor]) -> Callable[..., DenseOrRagged]:
    """Return a function that divides sums by a function of sizes."""

    def mean(
        data: DenseOrRagged,
        segment_ids: DenseOrRagged,
        num_segments: TensorLike,
        name: str | None = None,
    ) -> DenseOrRagged:
        with name_scope(name, scope, [data, segment_ids, num_segments]):
            rows = dense_or_ragged(data)
            ones = rows.with_flat_values(ops.ones_like(rows.flat_values))
            total, count = (
                by_segments(ops.unsorted_segment_sum, value, segment_ids, num_segments)
                for value in (rows, ones)
            )
            if isinstance(count, RaggedTensor):
                return _divided(total, count.with_flat_values(divisor(count.flat_values)))
            return total / divisor(count)

    return mean


handles(ops.math.unsorted_segment_mean)(_segment_mean("RaggedSegmentMean", lambda n: n))
handles(ops.math.unsorted_segment_sqrt_n)(_segment_mean("RaggedSegmentSqrtN", ops.sqrt))


@handles(ops.cumsum)
def cumsum(
    x: DenseOrRagged,
    axis: int = 0,
    exclusive: bool = False,
    reverse: bool = False,
    name: str | None = None,
) -> RaggedTensor:
    """Return running sums along an axis; see `tf.cumsum`."""
    with name_scope(name, "RaggedCumSum", [x]):
        ragged = dense_or_ragged(x)
        levels = ragged.ragged_rank
        place = positive_axis(axis, ragged.shape.rank, dims="rank")
        made: RaggedTensor
        if place > levels:
            flat = ops.cumsum(ragged.flat_values, place - levels, exclusive, reverse)
            made = ragged.with_flat_values(flat)
        elif place == levels:
            made = ragged.with_flat_values(_sums_in_rows(ragged, exclusive, reverse))
        else:
            dense = ops.cumsum(ragged.to_tensor(), place, exclusive, reverse, name)
            lengths = ragged.nested_row_lengths()
            made = RaggedTensor.from_tensor(dense, lengths=lengths)
        return made


def _sums_in_rows(ragged: RaggedTensor, exclusive: bool, reverse: bool) -> Tensor:
    """Return running sums of the flat values in each innermost row."""
    values, rows = ragged.flat_values, ragged._nested_row_partitions[-1]
    sums = ops.cumsum(values, exclusive=True, reverse=reverse)
    first = (
        ops.gather(rows.row_splits, rows.value_rowids + 1) - 1
        if reverse
        else ops.gather(rows.row_splits, rows.value_rowids)
    )
    own = sums - ops.gather(sums, first)
    return own if exclusive else own + values


@handles(ops.add_n)
def add_n(inputs: list[DenseOrRagged], name: str | None = None) -> DenseOrRagged:
    """Return the sum of ragged tensors with the same rows."""
    with name_scope(name, "RaggedAddN", list(inputs)):
        return map_flat_values(ops.add_n, inputs)


@handles(ops.math.bincount)
def bincount(
    arr: DenseOrRagged,
    weights: DenseOrRagged | None = None,
    minlength: TensorLike | None = None,
    maxlength: TensorLike | None = None,
    dtype: DTypeLike = int32,
    name: str | None = None,
) -> Tensor:
    """Count each of 0, 1, .. among all values; see `tf.math.bincount`.

    Raises ValueError for weights that are not ragged.
    """
    values = dense_or_ragged(arr, name="arr")
    factors = None
    if weights is not None:
        given = dense_or_ragged(weights, name="weights")
        if not isinstance(given, RaggedTensor):
            raise ValueError(
                "`weights` must be a RaggedTensor if `values` is a RaggedTensor. Received argument "
                f"weights={weights} of type: {type(weights).__name__}."
            )
        checks = same_splits([values.nested_row_splits, given.nested_row_splits])
        factors = with_dependencies(checks, given.flat_values)
    return ops.math.bincount(values.flat_values, factors, minlength, maxlength, dtype, name)


@handles(ops.nn.dropout)
def dropout(
    x: DenseOrRagged,
    keep_prob: TensorLike | None = None,
    noise_shape: TensorLike | None = None,
    seed: int | None = None,
    name: str | None = None,
    rate: TensorLike | None = None,
) -> RaggedTensor:
    """Set random values to zero; see `tf.nn.dropout`. Raises ValueError for a noise_shape."""
    if noise_shape is not None:
        raise ValueError("noise_shape is not supported yet for RaggedTensor x")
    with name_scope(name, "RaggedNNDropout", [x, rate]):
        ragged = dense_or_ragged(x, name="x")
        flat = ops.nn.dropout(ragged.flat_values, keep_prob=keep_prob, seed=seed, rate=rate)
        made: RaggedTensor = ragged.with_flat_values(flat)
        return made
