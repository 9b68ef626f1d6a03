"""One ragged axis: the limits of rows among their values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tfjit import ops
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.graphs.static_value import constant_value
from tfjit.framework.types.dtypes import DType, as_dtype, int32, int64
from tfjit.ops.control_flow.control_flow import with_dependencies
from tfjit.ops.core.apply import call
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DTypeLike, TensorLike

SPLIT_TYPES = (int32, int64)


class RowPartition:
    """The division of `nvals` values into rows.

    row_splits, int32 or int64 [nrows + 1], has the first value of each row and `nvals`. The other
    tensors are known when the partition was made from them: row_lengths [nrows], value_rowids
    [nvals], and the scalars nrows, uniform_row_length and nvals, of the same dtype.
    """

    def __init__(
        self,
        row_splits: Tensor,
        *,
        row_lengths: Tensor | None = None,
        value_rowids: Tensor | None = None,
        nrows: Tensor | None = None,
        uniform_row_length: Tensor | None = None,
    ) -> None:
        row_splits.shape.assert_has_rank(1)
        row_splits.set_shape([None])
        self.row_splits = row_splits
        self.known_row_lengths = row_lengths
        self.known_value_rowids = value_rowids
        self.known_nrows = nrows
        self.uniform_row_length = uniform_row_length

    @property
    def dtype(self) -> DType:
        """The dtype of all tensors of the partition."""
        return self.row_splits.dtype

    @property
    def value_rowids(self) -> Tensor:
        """The row of each value."""
        if self.known_value_rowids is not None:
            return self.known_value_rowids
        return row_splits_to_segment_ids(self.row_splits)

    @property
    def nrows(self) -> Tensor:
        """The number of rows."""
        if self.known_nrows is not None:
            return self.known_nrows
        limits = self.row_splits.shape.dims
        if limits is not None and limits[0].value is not None:
            return ops.constant(limits[0].value - 1, dtype=self.dtype)
        return ops.shape(self.row_splits, out_type=self.dtype)[0] - 1

    @property
    def row_starts(self) -> Tensor:
        """The first value of each row."""
        return self.row_splits[:-1]

    @property
    def row_limits(self) -> Tensor:
        """The value behind each row."""
        return self.row_splits[1:]

    @property
    def row_lengths(self) -> Tensor:
        """The number of values of each row."""
        if self.known_row_lengths is not None:
            return self.known_row_lengths
        return self.row_splits[1:] - self.row_splits[:-1]

    @property
    def static_nrows(self) -> int | None:
        """The number of rows, if it is known before a run."""
        for vector, less in ((self.row_splits, 1), (self.known_row_lengths, 0)):
            if vector is not None and vector.shape.dims is not None:
                size = vector.shape.dims[0].value
                if size is not None:
                    return int(size) - less
        return _known(self.known_nrows)

    @property
    def static_uniform_row_length(self) -> int | None:
        """The length of all rows, if it is known before a run."""
        return _known(self.uniform_row_length)

    def after(self, checks: Sequence[Operation]) -> RowPartition:
        """Return the partition with splits that are produced after the checks."""
        return RowPartition(
            with_dependencies(checks, self.row_splits),
            row_lengths=self.known_row_lengths,
            value_rowids=self.known_value_rowids,
            nrows=self.known_nrows,
            uniform_row_length=self.uniform_row_length,
        )

    def with_dtype(self, dtype: DTypeLike) -> RowPartition:
        """Return the partition with all tensors of int32 or int64."""
        wanted = as_dtype(dtype)
        if wanted not in SPLIT_TYPES:
            raise ValueError("dtype must be int32 or int64")
        if self.dtype is wanted:
            return self

        def cast(value: Tensor | None) -> Tensor | None:
            return None if value is None else ops.cast(value, wanted)

        return RowPartition(
            ops.cast(self.row_splits, wanted),
            row_lengths=cast(self.known_row_lengths),
            value_rowids=cast(self.known_value_rowids),
            nrows=cast(self.known_nrows),
            uniform_row_length=cast(self.uniform_row_length),
        )


def _known(scalar: Tensor | None) -> int | None:
    value = None if scalar is None else constant_value(scalar)
    return None if value is None else int(value)


def row_splits_to_segment_ids(
    splits: TensorLike, name: str | None = None, out_type: DTypeLike | None = None
) -> Tensor:
    """Return the row of each value.

    [0, 2, 2, 3] gives [0, 0, 2].

    splits: int32 or int64 [nrows + 1]. out_type: of the result, by default the dtype of splits.
    Raises ValueError for no splits and for other dtypes.
    """
    with name_scope(name, "RaggedSplitsToSegmentIds", [splits]):
        limits = convert_to_tensor(splits, name="splits", preferred_dtype=int64)
        if limits.dtype not in SPLIT_TYPES:
            raise ValueError("splits must have dtype int32 or int64")
        limits.shape.assert_has_rank(1)
        if limits.shape.as_list() == [0]:
            raise ValueError("Invalid row_splits: []")
        dtype = limits.dtype if out_type is None else as_dtype(out_type)
        lengths = limits[1:] - limits[:-1]
        rows = ops.shape(limits, out_type=dtype)[-1] - 1
        return ops.repeat(ops.range(rows), lengths, axis=0)


def segment_ids_to_row_splits(
    segment_ids: TensorLike,
    num_segments: TensorLike | None = None,
    out_type: DTypeLike | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the splits of rows from the row of each value.

    The reverse of `row_splits_to_segment_ids`.

    segment_ids: sorted integers [nvals]. num_segments: the number of rows, by default that of the
    last value's row and one. out_type: of the result, by default the dtype of a tensor among the
    arguments, else int64.
    """
    if out_type is None:
        tensors = [value for value in (segment_ids, num_segments) if isinstance(value, Tensor)]
        dtype = tensors[0].dtype if tensors else int64
    else:
        dtype = as_dtype(out_type)
    with name_scope(name, "SegmentIdsToRaggedSplits", [segment_ids]):
        ids = int_tensor(segment_ids, "segment_ids", int32)
        ids.shape.assert_has_rank(1)
        rows = None
        if num_segments is not None:
            rows = int_tensor(num_segments, "num_segments", int32)
            rows.shape.assert_has_rank(0)
        lengths = ops.math.bincount(ids, minlength=rows, maxlength=rows, dtype=dtype)
        splits = lengths_to_splits(lengths)
        known = _known(rows)
        if known is not None:
            splits.set_shape([known + 1])
        return splits


def lengths_to_splits(lengths: Tensor) -> Tensor:
    """Return the splits of rows of these lengths."""
    return ops.concat([[0], ops.cumsum(lengths)], axis=-1)


def int_tensor(value: TensorLike, name: str, dtype: DType = int32) -> Tensor:
    """Convert integers to a tensor of an integer dtype.

    Raises TypeError for other values.
    """
    tensor = convert_to_tensor(value, name=name, preferred_dtype=dtype)
    if not tensor.dtype.is_integer:
        raise TypeError(f"{name} must be an integer; dtype={tensor.dtype}")
    return ops.cast(tensor, dtype)


def partition_tensor(value: TensorLike, name: str, hint: DType | None) -> Tensor:
    """Convert an argument of a partition to int64, or int32.

    hint: the dtype of the partitions inside. Raises ValueError for other dtypes.
    """
    if isinstance(value, np.ndarray) and value.dtype == np.int32:
        tensor = convert_to_tensor(value, name=name)
    else:
        tensor = convert_to_tensor(value, preferred_dtype=hint or int64, name=name)
    if tensor.dtype not in SPLIT_TYPES:
        raise ValueError(f"{name} must have dtype int32 or int64")
    return tensor


def offsets_in_rows(lengths: Tensor, dtype: DType) -> Tensor:
    """Return the place of each value in its row."""
    limits = ops.cast(lengths, dtype)
    zero, one = ops.constant(0, dtype), ops.constant(1, dtype)
    return call(
        "RaggedRange", None, starts=zero, limits=limits, deltas=one, Tsplits=dtype
    ).rt_dense_values


def repeat_ranges(params: Tensor, splits: Tensor, repeats: Tensor) -> Tensor:
    """Repeat each row of `params` a number of times.

    splits: of the rows. repeats: a scalar, or one number a row.
    """
    if repeats.shape.rank == 0:
        repeats = ops.fill(ops.shape(splits)[:1] - 1, repeats)
    starts = ops.repeat(splits[:-1], repeats, axis=0)
    limits = ops.repeat(splits[1:], repeats, axis=0)
    one = ops.ones((), starts.dtype)
    places = call("RaggedRange", None, starts=starts, limits=limits, deltas=one)
    return ops.gather(params, places.rt_dense_values)
