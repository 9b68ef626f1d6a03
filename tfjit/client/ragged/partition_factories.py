"""Row partitions from splits, lengths, rows of values, starts, limits, one length."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.ragged.row_partition import RowPartition, partition_tensor
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.graphs.static_value import constant_value
from tfjit.framework.types.dtypes import DType, int32, int64
from tfjit.ops.control_flow.control_flow import with_dependencies
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike


def partition_from_row_splits(
    row_splits: TensorLike, validate: bool = True, hint: DType | None = None
) -> RowPartition:
    """Return rows between successive splits."""
    if isinstance(row_splits, (list, tuple)) and not row_splits:
        raise ValueError("row_splits tensor may not be empty.")
    with name_scope(None, "RowPartitionFromRowSplits", [row_splits]):
        splits = partition_tensor(row_splits, "row_splits", hint)
        splits.shape.assert_has_rank(1)
        if validate:
            text = "Arguments to from_row_splits do not form a valid RaggedTensor:"
            checks = [
                ops.assert_rank(splits, 1, message=text + "rank"),
                _assert_zero(splits[0], text + "zero"),
                _assert_increasing(splits, text + "monotonic"),
            ]
            splits = with_dependencies(checks, splits)
        return RowPartition(splits)


def partition_from_row_lengths(
    row_lengths: TensorLike, validate: bool = True, hint: DType | None = None
) -> RowPartition:
    """Return rows of these lengths."""
    with name_scope(None, "RowPartitionFromRowLengths", [row_lengths]):
        lengths = partition_tensor(row_lengths, "row_lengths", hint)
        lengths.shape.assert_has_rank(1)
        if validate:
            text = "Arguments to from_row_lengths do not form a valid RowPartition"
            checks = [
                ops.assert_rank(lengths, 1, message=text),
                ops.assert_non_negative(lengths, message=text),
            ]
            lengths = with_dependencies(checks, lengths)
        limits = ops.cumsum(lengths)
        return RowPartition(ops.concat([[0], limits], axis=0), row_lengths=lengths)


def partition_from_row_starts(
    row_starts: TensorLike, nvals: Tensor, validate: bool = True, hint: DType | None = None
) -> RowPartition:
    """Return rows from these starts, the last one to `nvals`."""
    with name_scope(None, "RowPartitionFromRowStarts", [row_starts]):
        starts = partition_tensor(row_starts, "row_starts", hint)
        starts.shape.assert_has_rank(1)
        end = ops.cast(nvals, starts.dtype)
        if validate:
            text = "Arguments to from_row_starts do not form a valid RaggedTensor"
            checks = [
                ops.assert_rank(starts, 1, message=text),
                _assert_zero(starts[:1], text),
                _assert_increasing(starts, text),
                ops.assert_less_equal(starts[-1:], end, message=text),
            ]
            starts = with_dependencies(checks, starts)
        return RowPartition(ops.concat([starts, [end]], axis=0))


def partition_from_row_limits(
    row_limits: TensorLike, validate: bool = True, hint: DType | None = None
) -> RowPartition:
    """Return rows to these limits, the first one from 0."""
    with name_scope(None, "RowPartitionFromRowLimits", [row_limits]):
        limits = partition_tensor(row_limits, "row_limits", hint)
        limits.shape.assert_has_rank(1)
        if validate:
            text = "Arguments to from_row_limits do not form a valid RaggedTensor"
            checks = [
                ops.assert_rank(limits, 1, message=text),
                ops.assert_non_negative(limits[:1], message=text),
                _assert_increasing(limits, text),
            ]
            limits = with_dependencies(checks, limits)
        zero = ops.zeros([1], limits.dtype)
        return RowPartition(ops.concat([zero, limits], axis=0))


def partition_from_value_rowids(
    value_rowids: TensorLike,
    nrows: TensorLike | None = None,
    validate: bool = True,
    hint: DType | None = None,
) -> RowPartition:
    """Return rows of which each value's row is known.

    nrows: one more than the last value's row by default.
    """
    with name_scope(None, "RowPartitionFromValueRowIds", [value_rowids, nrows]):
        ids = partition_tensor(value_rowids, "value_rowids", hint)
        known_ids = constant_value(ids)
        known: int | None = None
        if nrows is None:
            if known_ids is None:
                rows = ops.concat([ids[-1:], [-1]], axis=0)[0] + 1
            else:
                known = int(known_ids[-1]) + 1 if known_ids.size else 0
                rows = convert_to_tensor(known, ids.dtype, name="nrows")
        else:
            rows = convert_to_tensor(nrows, ids.dtype, "nrows")
            value = constant_value(rows)
            known = None if value is None else int(value)
            if known is not None:
                _check_rows(known, None if known_ids is None else known_ids.tolist())
        ids.shape.assert_has_rank(1)
        rows.shape.assert_has_rank(0)
        if validate:
            text = "Arguments to from_value_rowids do not form a valid RowPartition"
            checks = [
                ops.assert_rank(ids, 1, message=text),
                ops.assert_rank(rows, 0, message=text),
                ops.assert_non_negative(ids[:1], message=text),
                _assert_increasing(ids, text),
                ops.assert_less(ids[-1:], rows, message=text),
            ]
            ids = with_dependencies(checks, ids)
        count = ops.cast(rows, int32)
        lengths = ops.math.bincount(
            ops.cast(ids, int32), minlength=count, maxlength=count, dtype=ids.dtype
        )
        splits = ops.concat([[0], ops.cumsum(lengths)], axis=0)
        if known is not None:
            lengths.set_shape([known])
            splits.set_shape([known + 1])
        return RowPartition(splits, row_lengths=lengths, value_rowids=ids, nrows=rows)


def _check_rows(nrows: int, ids: list[int] | None) -> None:
    if nrows < 0:
        raise ValueError(f"Expected nrows >= 0; got {nrows}")
    if ids and nrows <= ids[-1]:
        raise ValueError(
            f"Expected nrows >= value_rowids[-1] + 1; got nrows={nrows}, value_rowids[-1]={ids[-1]}"
        )


def partition_from_uniform_row_length(
    uniform_row_length: TensorLike,
    nvals: TensorLike,
    nrows: TensorLike | None = None,
    validate: bool = True,
    hint: DType | None = None,
) -> RowPartition:
    """Return rows of one length.

    nrows: needed for length 0, where it is 0 by default.
    """
    with name_scope(None, "RowPartitionFromUniformRowLength", [uniform_row_length, nrows]):
        tensors = [uniform_row_length, nvals, nrows]
        typed = [value for value in tensors if isinstance(value, Tensor)]
        kind = typed[0].dtype if typed else hint or int64
        length = partition_tensor(uniform_row_length, "uniform_row_length", kind)
        values = partition_tensor(nvals, "nvals", kind)
        length.shape.assert_has_rank(0)
        size = _number(length)
        if nrows is not None:
            rows = partition_tensor(nrows, "nrows", kind)
        elif size is None:
            rows = values // ops.maximum(length, ops.constant(1, length.dtype))
        else:
            rows = values // size if size else ops.constant(0, dtype=length.dtype)
        count, total = _number(rows), _number(values)
        checks: list[Operation] = []
        if total is None and count is not None and size is not None:
            total = count * size
            if validate:
                checks.append(ops.assert_equal(values, ops.constant(total, length.dtype)))
        if count is not None and size is not None:
            splits = ops.constant([row * size for row in range(count + 1)], length.dtype)
        else:
            splits = ops.range(rows + 1, dtype=length.dtype) * length
        if validate:
            if count is None or size is None or total is None:
                parts = ["uniform_row_length", length, "times nrows", rows]
                data = [*parts, "must equal nvals", values]
                checks.append(ops.assert_equal(rows * length, values, data=data))
            elif count * size != total:
                raise ValueError(
                    f"uniform_row_length={size} times nrows={count} must equal nvals={total}"
                )
            if size is None:
                zero = ops.constant(0, length.dtype)
                text = "uniform_row_length must be >= 0."
                checks.append(ops.assert_greater_equal(length, zero, message=text))
            elif size < 0:
                raise ValueError("uniform_row_length must be >= 0.")
            splits = with_dependencies(checks, splits)
        return RowPartition(splits, nrows=rows, uniform_row_length=length)


def _number(scalar: Tensor) -> int | None:
    value = constant_value(scalar)
    return None if value is None else int(value)


def _assert_increasing(vector: Tensor, message: str) -> Operation:
    return ops.assert_non_negative(vector[1:] - vector[:-1], message=message)


def _assert_zero(value: Tensor, message: str) -> Operation:
    return ops.assert_equal(value, ops.constant(0, dtype=value.dtype), message=message)
