"""Sizes and axes of ragged tensors; repeated and reversed ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.ragged.handlers import handles
from tfjit.client.ragged.ragged_tensor import RaggedTensor, dense_or_ragged, positive_axis
from tfjit.client.ragged.row_partition import int_tensor, lengths_to_splits, repeat_ranges
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.graphs.static_value import constant_value
from tfjit.framework.types.dtypes import as_dtype, int32
from tfjit.ops.control_flow.control_flow import with_dependencies
from tfjit.ops.core.renamed import renamed

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import (
        AxisLike,
        DenseOrRagged,
        DTypeLike,
        ShapeLike,
        Structure,
        TensorLike,
    )


@handles(ops.size)
def size(input: DenseOrRagged, name: str | None = None, out_type: DTypeLike = int32) -> Tensor:
    """Return the number of elements."""
    return ops.size(dense_or_ragged(input).flat_values, name=name, out_type=out_type)


@handles(ops.rank)
def rank(input: DenseOrRagged, name: str | None = None) -> Tensor:
    """Return the number of axes."""
    with name_scope(name, "RaggedRank", [input]):
        ragged = dense_or_ragged(input)
        return ragged.ragged_rank + ops.rank(ragged.flat_values)


@handles(ops.identity)
def identity(input: DenseOrRagged, name: str | None = None) -> DenseOrRagged:
    """Return the same value, in other tensors."""
    with name_scope(name, "Identity", [input]):
        ragged = dense_or_ragged(input)
        flat = ops.identity(ragged.flat_values)
        splits = [ops.identity(limits) for limits in ragged.nested_row_splits]
        return RaggedTensor.from_nested_row_splits(flat, splits, validate=False)


@handles(ops.expand_dims)
def expand_dims(
    input: DenseOrRagged,
    axis: int | None = None,
    name: str | None = None,
    dim: int | None = None,
) -> DenseOrRagged:
    """Insert an axis of size 1; see `tf.expand_dims`."""
    with name_scope(name, "RaggedExpandDims", [input]):
        ragged = dense_or_ragged(input, name="input")
        known = ragged.shape.rank
        place = positive_axis(
            axis if dim is None else dim, None if known is None else known + 1, dims="rank(input)"
        )
        if place == 0:
            return RaggedTensor.from_uniform_row_length(
                ragged, ragged.nrows(), nrows=1, validate=False
            )
        if place == 1:
            return RaggedTensor.from_uniform_row_length(
                ragged, 1, nrows=ragged.nrows(), validate=False
            )
        return ragged.with_values(ops.expand_dims(ragged.values, place - 1))


@handles(ops.squeeze)
def squeeze(
    input: DenseOrRagged,
    axis: AxisLike | None = None,
    name: str | None = None,
    squeeze_dims: AxisLike | None = None,
) -> DenseOrRagged:
    """Drop axes of size 1; see `tf.squeeze`.

    Raises ValueError without axes, InvalidArgumentError in a run where a size differs.
    """
    given = renamed(axis, squeeze_dims, "axis", "squeeze_dims")
    with name_scope(name, "RaggedSqueeze", [input]):
        ragged = dense_or_ragged(input)
        if given is None:
            raise ValueError("Ragged.squeeze must have an axis argument.")
        wanted = [given] if isinstance(given, int) else given
        if not isinstance(wanted, (list, tuple)) or not all(isinstance(a, int) for a in wanted):
            raise TypeError("Axis must be a list or tuple of integers.")
        axes = {
            positive_axis(a, ragged.shape.rank, f"axis[{i}]", "rank(input)")
            for i, a in enumerate(wanted)
        }
        levels = ragged.ragged_rank
        flat = with_dependencies(_check_sizes(ragged, axes), ragged.flat_values)
        dense = [a - levels for a in sorted(axes) if a > levels]
        if dense:
            flat = ops.squeeze(flat, dense)
        splits = [limits for a, limits in enumerate(ragged.nested_row_splits, 1) if a not in axes]
        if splits and 0 in axes:
            splits.pop(0)
        made = RaggedTensor.from_nested_row_splits(flat, splits)
        if axes >= set(range(levels + 1)):
            made = ops.squeeze(made, [0], name)
        return made


def _check_sizes(ragged: RaggedTensor, axes: set[int]) -> list[Operation]:
    """Return checks that all rows along the axes have length 1."""
    one = ops.constant(1, dtype=ragged.row_splits.dtype)
    checks = [
        ops.Assert(
            ops.reduce_all(ops.equal(lengths, one)),
            [f"the given axis (axis = {axis}) is not squeezable!"],
        )
        for axis, lengths in enumerate(ragged.nested_row_lengths(), 1)
        if axis in axes
    ]
    if 0 in axes:
        text = "the given axis (axis = 0) is not squeezable!"
        checks.append(ops.Assert(ops.equal(ops.size(ragged.row_splits), 2), [text]))
    return checks


@handles(ops.one_hot)
def one_hot(
    indices: DenseOrRagged,
    depth: TensorLike,
    on_value: TensorLike | None = None,
    off_value: TensorLike | None = None,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    name: str | None = None,
) -> RaggedTensor:
    """Return a vector with one 1 for each index; see `tf.one_hot`.

    Raises ValueError for an axis among the ragged ones.
    """
    ragged = dense_or_ragged(indices)
    if isinstance(axis, int) and axis >= 0:
        if axis <= ragged.ragged_rank:
            raise ValueError(
                f"axis ({axis}) must be greater than indices.ragged_rank ({ragged.ragged_rank})."
            )
        axis -= ragged.ragged_rank
    with name_scope(name, "RaggedOneHot", [ragged, depth, on_value, off_value]):
        made: RaggedTensor = ragged.with_flat_values(
            ops.one_hot(ragged.flat_values, depth, on_value, off_value, axis, dtype, name)
        )
        return made


@handles(ops.reverse)
def reverse(tensor: DenseOrRagged, axis: AxisLike, name: str | None = None) -> DenseOrRagged:
    """Reverse the order along axes; see `tf.reverse`.

    Raises TypeError for axes that are no list and not known.
    """
    with name_scope(name, "Reverse", [tensor, axis]):
        axes: Structure = axis
        if isinstance(axis, Tensor):
            known = constant_value(axis)
            axes = None if known is None else known.tolist()
        if not isinstance(axes, (list, tuple)) or not all(isinstance(a, int) for a in axes):
            raise TypeError(
                "`axis` must be a list of int or a constant tensor"
                "when reversing axes in a ragged tensor"
            )
        ragged = dense_or_ragged(tensor, name="tensor")
        places = [
            positive_axis(a, ragged.shape.rank, f"axis[{i}]", "rank(tensor)")
            for i, a in enumerate(axes)
        ]
        keys = [slice(None)] * (max(places, default=-1) + 1)
        for place in places:
            keys[place] = slice(None, None, -1)
        return ragged[tuple(keys)]


@handles(ops.tile)
def tile(input: DenseOrRagged, multiples: TensorLike, name: str | None = None) -> RaggedTensor:
    """Repeat the tensor along each axis; see `tf.tile`."""
    with name_scope(name, "RaggedTile", [input, multiples]):
        ragged = dense_or_ragged(input, name="input")
        times = int_tensor(multiples, "multiples", ragged.row_splits.dtype)
        times.shape.assert_has_rank(1)
        known = constant_value(times)
        levels = ragged.ragged_rank
        # From the innermost axis: repeat the values of each row, and the lengths of the rows in it.
        inner = ragged.flat_values
        if known is None or (known[levels + 1 :] != 1).any():
            repeats = ops.concat([ops.ones([1], times.dtype), times[levels + 1 :]], axis=0)
            inner = ops.tile(inner, repeats)
        lengths: list[Tensor] = []
        for axis in range(levels, 0, -1):
            splits = ragged.nested_row_splits[axis - 1]
            own = splits[1:] - splits[:-1]
            if known is not None and known[axis] == 1:
                lengths.insert(0, own)
                continue
            # the limits of the rows in what is inside, which has grown
            limits = splits
            for level, counts in enumerate(lengths):
                grown = repeat_ranges(counts, limits, times[axis])
                limits = ops.gather(lengths_to_splits(counts), limits)
                lengths[level] = grown
            inner = repeat_ranges(inner, limits, times[axis])
            lengths.insert(0, own * times[axis])
        if known is None or known[0] != 1:
            inner = _repeated(inner, times[0])
            lengths = [_repeated(counts, times[0]) for counts in lengths]
        nested = [lengths_to_splits(counts) for counts in lengths]
        made: RaggedTensor = RaggedTensor.from_nested_row_splits(inner, nested, validate=False)
        return made


def _repeated(values: Tensor, times: Tensor) -> Tensor:
    """Repeat a tensor along its first axis."""
    ones = ops.ones_like(ops.shape(values, out_type=times.dtype)[1:])
    return ops.tile(values, ops.concat([ops.expand_dims(times, 0), ones], axis=0))


@handles(ops.bitcast)
def bitcast(input: DenseOrRagged, type: DTypeLike, name: str | None = None) -> DenseOrRagged:
    """Reinterpret the bits of the flat values; see `tf.bitcast`.

    Raises ValueError where the bits of several values would become one along a ragged axis.
    """
    wanted = as_dtype(type)
    with name_scope(name, "Bitcast", [input]):
        ragged = dense_or_ragged(input, name="input")
        flat = ragged.flat_values
        if ragged.dtype.size < wanted.size and flat.shape.rank < 2:
            raise ValueError(
                "`input.flat_values` is required to have rank >= 2 when input.dtype.size < "
                f"type.size. Actual rank: {flat.shape.rank}"
            )
        return ragged.with_flat_values(ops.bitcast(flat, wanted))


@handles(ops.reshape)
def reshape(tensor: DenseOrRagged, shape: ShapeLike, name: str | None = None) -> DenseOrRagged:
    """Return the flat values in another shape; see `tf.reshape`."""
    return ops.reshape(dense_or_ragged(tensor, name="tensor").values, shape, name)


def merge_dims(value: DenseOrRagged, outer: int, inner: int) -> DenseOrRagged:
    """Return a tensor with one axis for those from `outer` to `inner`."""
    if outer == inner:
        return value
    if not isinstance(value, RaggedTensor):
        sizes = ops.shape(value)
        return ops.reshape(value, ops.concat([sizes[:outer], [-1], sizes[inner + 1 :]], axis=0))
    if outer == 0:
        return merge_dims(value.values, 0, inner - 1)
    if outer > 1:
        return value.with_values(merge_dims(value.values, outer - 1, inner - 1))
    values, splits = value.values, value.row_splits
    for axis in range(1, inner):
        if isinstance(values, RaggedTensor):
            splits = ops.gather(values.row_splits, splits)
            values = values.values
            continue
        merged = inner - axis + 1  # the axes of the values that become one
        sizes = ops.shape(values, out_type=splits.dtype)
        splits = splits * ops.reduce_prod(sizes[1:merged])
        values = merge_dims(values, 0, merged - 1)
        break
    return RaggedTensor.from_row_splits(values, splits)
