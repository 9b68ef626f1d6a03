"""Ragged tensors: values and the partition of their rows as one object."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

from tfjit import ops
from tfjit.client.ragged.factories import RaggedFactories
from tfjit.client.ragged.ragged_value import RaggedTensorValue, nested_value
from tfjit.client.ragged.row_partition import SPLIT_TYPES, RowPartition
from tfjit.client.session.fetches import register_session_run_conversion_functions
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.types.dtypes import DType, as_dtype, int64
from tfjit.framework.types.shape import TensorShape
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.core.dispatch import Dispatching, Kind

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import (
        DenseOrRagged,
        DTypeLike,
        ShapeLike,
        TensorLike,
    )


class RaggedTensor(RaggedFactories, Dispatching):
    """A tensor with rows of different lengths.

    values: a tensor [nvals, ...], or a RaggedTensor with a ragged axis less, divided into rows by a
    `RowPartition`. It is made by the class methods `from_row_splits`, `from_row_lengths`,
    `from_value_rowids`, `from_row_starts`, `from_row_limits`, `from_uniform_row_length` and those
    of nested axes, by `from_tensor`, `from_sparse`, or by `tf.ragged.constant`.
    """

    def __init__(
        self, values: DenseOrRagged, row_partition: RowPartition, internal: bool = False
    ) -> None:
        if not internal:
            raise ValueError(
                "RaggedTensor constructor is private; please use one of the factory methods "
                "instead (e.g., RaggedTensor.from_row_lengths())"
            )
        values.shape.with_rank_at_least(1)
        self._values = values
        self._row_partition = row_partition

    @property
    def dtype(self) -> DType:
        """The dtype of the flat values."""
        dtype: DType = self._values.dtype
        return dtype

    @property
    def shape(self) -> TensorShape:
        """The known sizes: None for each ragged axis."""
        partition = self._row_partition
        outer = [partition.static_nrows, partition.static_uniform_row_length]
        return TensorShape(outer).concatenate(self._values.shape[1:])

    def get_shape(self) -> TensorShape:
        """Return the known sizes: None for each ragged axis."""
        return self.shape

    @property
    def ragged_rank(self) -> int:
        """The number of partitions of rows."""
        return len(self._nested_row_partitions)

    @property
    def values(self) -> DenseOrRagged:
        """The values of all rows, one after another."""
        return self._values

    @property
    def flat_values(self) -> Tensor:
        """The values inside all partitions."""
        values = self._values
        while isinstance(values, RaggedTensor):
            values = values._values
        flat: Tensor = values
        return flat

    @property
    def _nested_row_partitions(self) -> tuple[RowPartition, ...]:
        inner = self._values
        nested = inner._nested_row_partitions if isinstance(inner, RaggedTensor) else ()
        return (self._row_partition, *nested)

    @property
    def row_splits(self) -> Tensor:
        """The first value of each row, and the number of values.

        [rows + 1]
        """
        return self._row_partition.row_splits

    @property
    def nested_row_splits(self) -> tuple[Tensor, ...]:
        """The splits of all partitions, from the outermost."""
        return tuple(partition.row_splits for partition in self._nested_row_partitions)

    @property
    def uniform_row_length(self) -> Tensor | None:
        """The length of all rows, where the tensor was made with one."""
        return self._row_partition.uniform_row_length

    def value_rowids(self, name: str | None = None) -> Tensor:
        """Return the row of each value: [nvals]."""
        with name_scope(name, "RaggedValueRowIds", [self]):
            return self._row_partition.value_rowids

    def nested_value_rowids(self, name: str | None = None) -> tuple[Tensor, ...]:
        """Return the rows of the values of all partitions, from the outermost."""
        with name_scope(name, "RaggedNestedValueRowIds", [self]):
            return tuple(level.value_rowids() for level in self._levels())

    def nrows(self, out_type: DTypeLike | None = None, name: str | None = None) -> Tensor:
        """Return the number of rows: a scalar."""
        with name_scope(name, "RaggedNRows", [self]):
            count = self._row_partition.nrows
            return count if out_type is None else ops.cast(count, out_type)

    def row_starts(self, name: str | None = None) -> Tensor:
        """Return the first value of each row: [rows]."""
        with name_scope(name, "RaggedRowStarts", [self]):
            return self._row_partition.row_starts

    def row_limits(self, name: str | None = None) -> Tensor:
        """Return the value behind each row: [rows]."""
        with name_scope(name, "RaggedRowLimits", [self]):
            return self._row_partition.row_limits

    def row_lengths(self, axis: int = 1, name: str | None = None) -> DenseOrRagged:
        """Return the lengths along an axis for each row before it.

        [rows] for axis 1, a RaggedTensor for inner axes, the number of rows for axis 0.
        """
        if axis == 0:
            return self._row_partition.nrows
        if axis == 1:
            return self._row_partition.row_lengths
        with name_scope(name, "RaggedRowLengths", [self]):
            place = positive_axis(axis, self.shape.rank, dims="rank(self)")
            if place == 0:
                return self.nrows()
            if place == 1:
                return self.row_splits[1:] - self.row_splits[:-1]
            if isinstance(self._values, RaggedTensor):
                return self.with_values(self._values.row_lengths(place - 1))
            sizes = ops.shape(self._values, out_type=self._row_partition.dtype)
            ones = ops.ones(sizes[: place - 1], self._row_partition.dtype)
            return self.with_values(ones * sizes[place - 1])

    def nested_row_lengths(self, name: str | None = None) -> tuple[Tensor, ...]:
        """Return the lengths of the rows of all partitions, from the outermost."""
        with name_scope(name, "RaggedNestedRowLengths", [self]):
            return tuple(level.row_lengths() for level in self._levels())

    def bounding_shape(
        self,
        axis: TensorLike | None = None,
        name: str | None = None,
        out_type: DTypeLike | None = None,
    ) -> Tensor:
        """Return the smallest shape that holds all values, or sizes of it.

        out_type: of the result, by default the dtype of the splits.
        """
        own = self._row_partition.dtype
        wanted = own if out_type is None else as_dtype(out_type)
        with name_scope(name, "RaggedBoundingBox", [self, axis]):
            splits = self.nested_row_splits
            if isinstance(axis, int) and axis == 0:
                return ops.shape(splits[0], out_type=wanted)[0] - 1
            if isinstance(axis, int) and axis == 1:
                longest = ops.maximum(ops.reduce_max(self.row_lengths()), 0)
                return longest if wanted is own else ops.cast(longest, wanted)
            rows = ops.shape(self.row_splits, out_type=wanted)[0] - 1
            inner = ops.shape(self.flat_values, out_type=wanted)[1:]
            sizes = [rows] + [
                ops.cast(ops.maximum(ops.reduce_max(limits[1:] - limits[:-1]), 0), wanted)
                for limits in splits
            ]
            box = ops.concat([ops.stack(sizes), inner], axis=0)
            return box if axis is None else ops.gather(box, axis)

    def with_values(self, new_values: DenseOrRagged) -> RaggedTensor:
        """Return the same rows of other values, as many as before.

        Raises ValueError for another number of values and for splits of another dtype.
        """
        values = ragged_values(new_values)
        values.shape.with_rank_at_least(1)
        self._values.shape[:1].assert_is_compatible_with(values.shape[:1])
        if isinstance(values, RaggedTensor) and values.row_splits.dtype != self.row_splits.dtype:
            raise ValueError(
                "self and new_values have mismatched row_splits dtypes; use "
                "RaggedTensor.with_row_splits_dtype() to convert them to compatible dtypes."
            )
        return RaggedTensor(values, self._row_partition, internal=True)

    def with_flat_values(self, new_values: DenseOrRagged) -> RaggedTensor:
        """Return the same rows of all partitions, of other flat values."""
        if isinstance(self._values, RaggedTensor):
            return self.with_values(self._values.with_flat_values(new_values))
        return self.with_values(new_values)

    def with_row_splits_dtype(self, dtype: DTypeLike) -> RaggedTensor:
        """Return the same tensor with splits of int32 or int64.

        Raises ValueError for another dtype.
        """
        wanted = as_dtype(dtype)
        if wanted not in SPLIT_TYPES:
            raise ValueError(
                f"Argument `row_splits` dtype must be int32 or int64. Received {wanted}."
            )
        if self._row_partition.dtype is wanted:
            return self
        inner = self._values
        if isinstance(inner, RaggedTensor):
            inner = inner.with_row_splits_dtype(wanted)
        return RaggedTensor(inner, self._row_partition.with_dtype(wanted), internal=True)

    def merge_dims(self, outer_axis: int, inner_axis: int) -> DenseOrRagged:
        """Return the tensor with one axis for those from outer_axis to inner_axis."""
        rank = self.shape.rank
        outer = positive_axis(outer_axis, rank, "outer_axis", "rank(self)")
        inner = positive_axis(inner_axis, rank, "inner_axis", "rank(self)")
        if outer > inner:
            raise ValueError(
                f"Expected outer_axis ({outer}) to be less than or equal to inner_axis ({inner})."
            )
        from tfjit.client.ragged.arrays import merge_dims

        return merge_dims(self, outer, inner)

    def _set_shape(self, shape: ShapeLike) -> None:
        """Note sizes that the caller knows.

        An axis of known length becomes uniform.

        Raises ValueError for a size that differs from a known one.
        """
        known = TensorShape(shape)
        if known.rank is None:
            return
        sizes = known.as_list()
        if sizes[0] is not None:
            self.row_splits.set_shape([sizes[0] + 1])
        for axis, partition in enumerate(self._nested_row_partitions, 1):
            size, before = sizes[axis], partition.static_uniform_row_length
            if size is None or size == before:
                continue
            if before is not None:
                raise ValueError(f"Inconsistent size for axis {axis}: {before} vs. {size}.")
            partition.known_nrows = partition.nrows
            partition.uniform_row_length = convert_to_tensor(size, partition.dtype)
        self.flat_values.set_shape([None, *sizes[self.ragged_rank + 1 :]])

    def consumers(self) -> list[Operation]:
        """Return the operations with a part of the tensor as input."""
        found = [op for part in _parts(self) for op in part.consumers()]
        return list(dict.fromkeys(found))

    def numpy(self) -> NoReturn:
        """Raise ValueError: values are known in a run alone."""
        raise ValueError("RaggedTensor.numpy() is only supported in eager mode.")

    def to_list(self) -> NoReturn:
        """Raise ValueError: values are known in a run alone."""
        raise ValueError("to_list can only be used in eager mode.")

    def __repr__(self) -> str:
        return f"tf.RaggedTensor(values={self._values}, row_splits={self.row_splits})"

    def _as_graph_element(self) -> Tensor:
        return self.flat_values

    def _tensors(self) -> list[Tensor]:
        return _parts(self)

    def _with_tensors(self, tensors: Sequence[Tensor]) -> RaggedTensor:
        *splits, flat = tensors
        made: RaggedTensor = RaggedTensor.from_nested_row_splits(flat, splits, validate=False)
        return made

    def _levels(self) -> list[RaggedTensor]:
        inner = self._values
        return [self, *(inner._levels() if isinstance(inner, RaggedTensor) else ())]

    def _handle(
        self,
        kind: Kind,
        function: Callable[..., object],
        args: tuple[object, ...],
        keywords: dict[str, object],
    ) -> object:
        from tfjit.client.ragged.handlers import handle

        return handle(kind, function, args, keywords)


def is_ragged(value: object) -> bool:
    """Return whether a value is a RaggedTensor or RaggedTensorValue."""
    return isinstance(value, (RaggedTensor, RaggedTensorValue))


def dense_or_ragged(
    value: DenseOrRagged,
    dtype: DType | None = None,
    preferred_dtype: DType | None = None,
    name: str | None = None,
) -> DenseOrRagged:
    """Return a RaggedTensor of a ragged value, a Tensor of any other."""
    if isinstance(value, RaggedTensor):
        if dtype is not None and not dtype.is_compatible_with(value.dtype):
            raise ValueError(
                f"Tensor conversion requested dtype {dtype.name} for RaggedTensor with dtype "
                f"{value.dtype.name}: {value}."
            )
        return value
    if isinstance(value, RaggedTensorValue):
        with name_scope(name, "ConvertToTensorOrRaggedTensor", []):
            flat = convert_to_tensor(
                value.flat_values, dtype, "flat_values", preferred_dtype=preferred_dtype
            )
            return RaggedTensor.from_nested_row_splits(
                flat, value.nested_row_splits, validate=False
            )
    return convert_to_tensor(value, dtype, name, preferred_dtype=preferred_dtype)


def ragged_values(values: DenseOrRagged) -> DenseOrRagged:
    """Convert the argument `values` of a factory."""
    return dense_or_ragged(values, name="values")


def matched(*tensors: DenseOrRagged) -> tuple[DType, list[DenseOrRagged]]:
    """Return the dtype of the splits of tensors, and the tensors.

    Raises ValueError for splits of both dtypes.
    """
    kinds = {t.row_splits.dtype for t in tensors if isinstance(t, RaggedTensor)}
    if len(kinds) > 1:
        raise ValueError(
            "Input RaggedTensors have mismatched row_splits dtypes; use "
            "RaggedTensor.with_row_splits_dtype() to convert them to compatible dtypes."
        )
    return (kinds.pop() if kinds else int64), list(tensors)


def positive_axis(axis: object, rank: int | None, name: str = "axis", dims: str = "ndims") -> int:
    """Return an axis counted from the first.

    Raises TypeError for no int, ValueError for one out of range, or negative and of unknown rank.
    """
    if not isinstance(axis, int):
        raise TypeError(f"{name} must be an int; got {type(axis).__name__}")
    if rank is not None:
        if 0 <= axis < rank:
            return axis
        if -rank <= axis < 0:
            return axis + rank
        raise ValueError(f"{name}={axis} out of bounds: expected {-rank}<={name}<{rank}")
    if axis < 0:
        raise ValueError(f"{name}={axis} may only be negative if {dims} is statically known.")
    return axis


def _parts(ragged: RaggedTensor) -> list[Tensor]:
    return [*ragged.nested_row_splits, ragged.flat_values]


def _fed(ragged: RaggedTensor, value: RaggedTensorValue) -> Sequence[tuple[Tensor, object]]:
    return list(zip(_parts(ragged), [*value.nested_row_splits, value.flat_values]))


register_session_run_conversion_functions(
    RaggedTensor, lambda x: (_parts(x), lambda v: nested_value(list(v))), _fed, _parts
)
