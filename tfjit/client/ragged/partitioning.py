"""Divide tensors into ragged parts: masks, ranges, dynamic partitions, splits, crosses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tfjit import ops
from tfjit.client.data.sparse_tensors import SparseTensor, SparseTensorValue
from tfjit.client.ragged.concat import same_splits
from tfjit.client.ragged.handlers import handles
from tfjit.client.ragged.ragged_tensor import RaggedTensor, dense_or_ragged, matched, positive_axis
from tfjit.client.ragged.row_partition import lengths_to_splits
from tfjit.framework.graphs.default_graph import control_dependencies, name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.graphs.static_value import constant_value
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType, as_dtype, int64
from tfjit.ops.control_flow.control_flow import with_dependencies
from tfjit.ops.core.apply import call
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfjit.framework.graphs.typing import DenseOrRagged, DTypeLike, Structure, TensorLike

_CROSS_HASH_KEY = 956888297470  # TensorFlow's default
_RANGE_TYPES = (dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64)


def range_of_rows(
    starts: TensorLike,
    limits: TensorLike | None = None,
    deltas: TensorLike = 1,
    dtype: DTypeLike | None = None,
    name: str | None = None,
    row_splits_dtype: DTypeLike = int64,
) -> RaggedTensor:
    """Return rows of numbers from starts to limits, deltas apart: `tf.ragged.range`.

    With one argument, rows start at 0. Each argument is a scalar or a vector [rows]. dtype: int32,
    int64, float32 or float64; the widest of the arguments' by default.
    """
    first, last = (0, starts) if limits is None else (starts, limits)
    with name_scope(name, "RaggedRange", [first, last, deltas]) as scope:
        given = (first, last, deltas)
        kinds = ("starts", "limits", "deltas")
        parts = [convert_to_tensor(v, dtype=dtype, name=k) for v, k in zip(given, kinds)]
        if dtype is None:
            widest = max((part.dtype for part in parts), key=_RANGE_TYPES.index)
            parts = [ops.cast(part, widest) for part in parts]
        made = call(
            "RaggedRange",
            scope,
            starts=parts[0],
            limits=parts[1],
            deltas=parts[2],
            Tsplits=as_dtype(row_splits_dtype),
        )
        return RaggedTensor.from_row_splits(
            made.rt_dense_values, made.rt_nested_splits, validate=False
        )


def boolean_mask(
    data: DenseOrRagged, mask: DenseOrRagged, name: str | None = None
) -> DenseOrRagged:
    """Return the elements for which the mask is true: `tf.ragged.boolean_mask`.

    mask: bool, its shape begins that of data. The axes of the mask stay: its last one becomes
    ragged. Raises ValueError for a mask of unknown rank or without axes.
    """
    with name_scope(name, "RaggedMask", [data, mask]):
        kind, (values, chosen) = matched(
            dense_or_ragged(data, name="data"), dense_or_ragged(mask, dtypes.bool, name="mask")
        )
        axes = chosen.shape.rank
        if axes is None:
            raise ValueError("mask.shape.ndims must be known statically.")
        if axes == 0:
            raise ValueError("mask cannot be scalar.")
        if isinstance(chosen, RaggedTensor):
            return _masked_by_ragged(values, chosen, kind)
        if isinstance(values, RaggedTensor) and axes > 1:
            levels = min(values.ragged_rank, axes - 1)
            chosen = RaggedTensor.from_tensor(chosen, ragged_rank=levels, row_splits_dtype=kind)
            return boolean_mask(values, chosen)
        if isinstance(values, RaggedTensor):
            lengths = ops.boolean_mask(values.row_lengths(), chosen)
            inner = ops.gather(chosen, values._row_partition.value_rowids)
            return RaggedTensor.from_row_splits(
                boolean_mask(values.values, inner), lengths_to_splits(lengths), validate=False
            )
        return _masked_dense(values, chosen, axes, kind)


def _masked_by_ragged(data: DenseOrRagged, mask: RaggedTensor, kind: DType) -> RaggedTensor:
    if not isinstance(data, RaggedTensor):
        data = RaggedTensor.from_tensor(data, ragged_rank=mask.ragged_rank, row_splits_dtype=kind)
    own = [mask.nested_row_splits, data.nested_row_splits[: mask.ragged_rank]]
    with control_dependencies(same_splits(own)):
        splits = []
        values, chosen = data, mask
        while isinstance(chosen, RaggedTensor):
            if (chosen.shape.rank or 0) > 2:
                splits.append(chosen.row_splits)
            else:
                ones = ops.reduce_sum(ops.cast(chosen, kind), axis=1)
                splits.append(lengths_to_splits(ones))
            values, chosen = values.values, chosen.values
        made: RaggedTensor = RaggedTensor.from_nested_row_splits(
            boolean_mask(values, chosen), splits, validate=False
        )
        return made


def _masked_dense(data: Tensor, mask: Tensor, axes: int, kind: DType) -> DenseOrRagged:
    found = ops.boolean_mask(data, mask)
    if axes < 2:
        return found
    lengths = ops.reshape(ops.count_nonzero(mask, axis=-1, dtype=kind), [-1])
    made = RaggedTensor.from_row_lengths(found, lengths, validate=False)
    sizes = ops.shape(mask, out_type=kind)
    counts = ops.cumprod(sizes) + 1
    for axis in range(axes - 3, -1, -1):
        splits = ops.range(counts[axis]) * sizes[axis + 1]
        rows = mask.shape[: axis + 1].num_elements()
        splits.set_shape([None if rows is None else rows + 1])
        made = RaggedTensor.from_row_splits(made, splits, validate=False)
    return made


def stack_dynamic_partitions(
    data: DenseOrRagged,
    partitions: DenseOrRagged,
    num_partitions: TensorLike,
    name: str | None = None,
) -> RaggedTensor:
    """Return a row of the elements of each partition: `tf.ragged.stack_dynamic_partitions`.

    partitions: the number of each element's partition; its shape begins that of data. Raises
    ValueError for partitions of unknown rank.
    """
    with name_scope(name, "SegmentStack", [data, partitions, num_partitions]):
        values = dense_or_ragged(data, name="data")
        kind = values.row_splits.dtype if isinstance(values, RaggedTensor) else None
        parts = dense_or_ragged(partitions, name="partitions", preferred_dtype=kind)
        count = convert_to_tensor(num_partitions, None, "num_partitions", parts.dtype)
        if kind is not None:
            parts = ops.cast(parts, kind)
        count = ops.cast(count, parts.dtype)
        axes = parts.shape.rank
        if axes is None:
            raise ValueError("partitions must have known rank.")
        count.shape.assert_has_rank(0)
        parts.shape.assert_is_compatible_with(values.shape[:axes])
        if axes == 0:
            return RaggedTensor.from_value_rowids(
                ops.stack([values]), ops.stack([parts]), nrows=count, validate=False
            )
        if axes == 1:
            return _sorted_partitions(values, parts, count)
        if not isinstance(values, RaggedTensor):
            values = RaggedTensor.from_tensor(values, row_splits_dtype=parts.dtype)
        if not isinstance(parts, RaggedTensor):
            levels = max(values.ragged_rank, axes - 1)
            parts = RaggedTensor.from_tensor(
                parts, ragged_rank=levels, row_splits_dtype=parts.dtype
            )
        text = "data and partitions have incompatible ragged shapes"
        check = ops.assert_equal(values.row_splits, parts.row_splits, message=text)
        with control_dependencies([check]):
            return stack_dynamic_partitions(values.values, parts.values, count)


def _sorted_partitions(data: DenseOrRagged, partitions: Tensor, count: Tensor) -> RaggedTensor:
    order = ops.argsort(partitions, stable=True)
    rows = ops.gather(partitions, order)
    values = ops.gather(data, order)
    checks = [
        ops.assert_less(rows[-1:], count, message="partitions must be less than num_partitions"),
        ops.assert_non_negative(partitions, message="partitions must be non-negative."),
    ]
    with control_dependencies(checks):
        return RaggedTensor.from_value_rowids(values, rows, nrows=count, validate=False)


@handles(ops.dynamic_partition)
def dynamic_partition(
    data: DenseOrRagged,
    partitions: DenseOrRagged,
    num_partitions: int,
    name: str | None = None,
) -> list[DenseOrRagged]:
    """Return the elements of each partition; see `tf.dynamic_partition`."""
    if not isinstance(num_partitions, int) or num_partitions < 0:
        raise TypeError("num_partitions must be a non-negative integer")
    stacked: DenseOrRagged = stack_dynamic_partitions(data, partitions, num_partitions, name)
    return [stacked[row] for row in range(num_partitions)]


@handles(ops.split)
def split(
    value: DenseOrRagged,
    num_or_size_splits: Structure,
    axis: int = 0,
    num: int | None = None,
    name: str | None = None,
) -> list[DenseOrRagged]:
    """Split a tensor along a uniform axis; see `tf.split`.

    Raises ValueError for a ragged axis and an unknown number of parts.
    """
    with name_scope(name, "RaggedSplit", [value]):
        ragged = dense_or_ragged(value, name="value")
        if isinstance(num_or_size_splits, int) and num_or_size_splits == 1:
            return [ragged]
        place = positive_axis(axis, ragged.shape.rank)
        size = _uniform_size(ragged, place)
        if isinstance(num_or_size_splits, int):
            parts = num_or_size_splits
            if parts < 1:
                raise ValueError(
                    "`num_or_size_splits` must be >=1 if it is an `int`."
                    f"Received {num_or_size_splits}."
                )
            lengths = ops.fill([parts], ops.floordiv(size, parts))
        else:
            lengths = convert_to_tensor(num_or_size_splits)
            parts = _number_of_parts(lengths, num)
        splits = ops.concat([[0], ops.cumsum(lengths)], axis=0)
        checks = [
            ops.assert_non_negative(
                convert_to_tensor(num_or_size_splits),
                message="`num_or_size_splits` must be non-negative.",
            ),
            ops.assert_equal(
                parts,
                ops.shape(lengths)[0],
                message="`num` is inconsistent with `num_or_size_split.shape[0]`.",
            ),
            ops.assert_equal(
                ops.cast(size, splits.dtype),
                splits[-1],
                message="Cannot exactly split the `axis` dimension of `value` with the given "
                "`num_or_size_split`.",
            ),
        ]
        limits: Structure = with_dependencies(checks, splits)
        known, total = constant_value(lengths), constant_value(size)
        if known is not None and total is not None and known.sum() == total:
            limits = np.cumsum([0, *known]).tolist()
        outer = [slice(None)] * place
        return [ragged[(*outer, slice(limits[i], limits[i + 1]))] for i in range(parts)]


def _uniform_size(ragged: RaggedTensor, axis: int) -> Tensor:
    """Return the size of an axis. Raises ValueError for a ragged one."""
    if axis == 0:
        return ragged.nrows()
    partitions = ragged._nested_row_partitions
    if axis > len(partitions):
        sizes = ops.shape(ragged.flat_values, out_type=ragged.row_splits.dtype)
        return sizes[axis - len(partitions)]
    length = partitions[axis - 1].uniform_row_length
    if length is None:
        raise ValueError(
            "Cannot split a ragged dimension. Got `value` with shape <DynamicRaggedShape "
            f"lengths={ragged.shape.as_list()} num_row_partitions={ragged.ragged_rank}> and `axis` "
            f"{axis}."
        )
    return length


def _number_of_parts(lengths: Tensor, num: int | None) -> int:
    if lengths.shape.rank not in (None, 1):
        raise TypeError(
            f"`num_or_size_splits` must be an `int` or 1-D list or `Tensor`. Received {lengths}."
        )
    known = None if lengths.shape.rank is None else lengths.shape.as_list()[0]
    if known is None and num is None:
        raise ValueError(
            "`num` must be specified as an `int` when the size of `num_or_size_split` is "
            f"statically unknown. Received `num`: {num} and `num_or_size_split`: {lengths}."
        )
    if None not in (known, num) and known != num:
        raise ValueError(
            "`num` does not match the size of `num_or_size_split`. Received `num`: "
            f"{num} and size of `num_or_size_split`: {known}."
        )
    parts: int = num if known is None else known  # type: ignore[assignment]
    return parts


def cross(inputs: Sequence[DenseOrRagged], name: str | None = None) -> RaggedTensor:
    """Return all combinations of a row's values, joined by "_X_": `tf.ragged.cross`.

    inputs: ragged, sparse and dense matrices with the same number of rows, of strings or integers.
    Raises TypeError for no list, ValueError for other dtypes and ranks.
    """
    return _crossed(inputs, False, 0, None, name)


def cross_hashed(
    inputs: Sequence[DenseOrRagged],
    num_buckets: int = 0,
    hash_key: int | None = None,
    name: str | None = None,
) -> RaggedTensor:
    """Return the buckets of all combinations of a row's values: `tf.ragged.cross_hashed`.

    num_buckets: 0 means that fingerprints are not reduced. See `cross`.
    """
    return _crossed(inputs, True, num_buckets, hash_key, name)


def _crossed(
    inputs: Sequence[DenseOrRagged],
    hashed: bool,
    num_buckets: int,
    hash_key: int | None,
    name: str | None,
) -> RaggedTensor:
    if not isinstance(inputs, (tuple, list)):
        raise TypeError("Inputs must be a list")
    with name_scope(name, "RaggedCross", list(inputs)):
        columns = [_column(value, index) for index, value in enumerate(inputs)]
        ragged = [c for c in columns if isinstance(c, RaggedTensor)]
        sparse = [c for c in columns if isinstance(c, SparseTensor)]
        small = bool(ragged) and all(c.row_splits.dtype == dtypes.int32 for c in ragged)
        key = _CROSS_HASH_KEY if hash_key is None else hash_key
        values, splits = call(
            "RaggedCross",
            name,
            ragged_values=[c.values for c in ragged],
            ragged_row_splits=[c.row_splits for c in ragged],
            sparse_indices=[c.indices for c in sparse],
            sparse_values=[c.values for c in sparse],
            sparse_shape=[c.dense_shape for c in sparse],
            dense_inputs=[c for c in columns if isinstance(c, Tensor)],
            input_order="".join(_letter(c) for c in columns),
            hashed_output=hashed,
            num_buckets=num_buckets,
            hash_key=key - 2**64 if key > 2**63 else key,
            out_values_type=dtypes.int64 if hashed else dtypes.string,
            out_row_splits_type=dtypes.int32 if small else dtypes.int64,
        )
        return RaggedTensor.from_row_splits(values, splits, validate=False)


def _column(value: Structure, index: int) -> Structure:
    """Convert an input of a cross; integers become int64."""
    if isinstance(value, (SparseTensor, SparseTensorValue)):
        column: Structure = SparseTensor.from_value(value)
    else:
        column = dense_or_ragged(value)
    if column.dtype.is_integer:
        column = ops.cast(column, int64)
    elif column.dtype != dtypes.string:
        raise ValueError(f"Unexpected dtype for inputs[{index}]: {column.dtype}")
    if isinstance(column, RaggedTensor) and column.ragged_rank != 1:
        raise ValueError("tf.ragged.cross only supports inputs with rank=2")
    return column


def _letter(column: object) -> str:
    if isinstance(column, RaggedTensor):
        return "R"
    return "S" if isinstance(column, SparseTensor) else "D"
