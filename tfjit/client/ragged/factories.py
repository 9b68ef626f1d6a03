"""Class methods that make ragged tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.ragged import conversions
from tfjit.client.ragged import partition_factories as partitions
from tfjit.client.ragged.row_partition import RowPartition, partition_tensor
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types.dtypes import DType, int32, int64
from tfjit.ops.core.dispatch import Dispatching

if TYPE_CHECKING:
    from tfjit.client.data.sparse_tensors import SparseTensor
    from tfjit.client.ragged.ragged_tensor import RaggedTensor
    from tfjit.framework.graphs.typing import DenseOrRagged, DTypeLike, ShapeLike, TensorLike


class RaggedFactories:
    """The class methods of RaggedTensor.

    validate: check the arguments, in the run where they are not known before. name: the scope of
    the new operations. Raises TypeError for a `validate` that is no bool, ValueError for arguments
    known to be wrong, InvalidArgumentError in a run that finds them wrong.
    """

    @classmethod
    def from_row_splits(
        cls,
        values: DenseOrRagged,
        row_splits: TensorLike,
        name: str | None = None,
        validate: bool = True,
    ) -> RaggedTensor:
        """Return rows between successive splits: row i is values[splits[i]:splits[i + 1]]."""
        _check_validate(validate)
        with name_scope(name, "RaggedFromRowSplits", [values, row_splits]):
            partition = partitions.partition_from_row_splits(row_splits, validate, _hint(values))
            return cls._from_row_partition(values, partition, validate)

    @classmethod
    def from_row_lengths(
        cls,
        values: DenseOrRagged,
        row_lengths: TensorLike,
        name: str | None = None,
        validate: bool = True,
    ) -> RaggedTensor:
        """Return successive rows of these lengths."""
        _check_validate(validate)
        with name_scope(name, "RaggedFromRowLengths", [values, row_lengths]):
            partition = partitions.partition_from_row_lengths(row_lengths, validate, _hint(values))
            return cls._from_row_partition(values, partition, validate)

    @classmethod
    def from_row_starts(
        cls,
        values: DenseOrRagged,
        row_starts: TensorLike,
        name: str | None = None,
        validate: bool = True,
    ) -> RaggedTensor:
        """Return rows that begin at these values."""
        _check_validate(validate)
        with name_scope(name, "RaggedFromRowStarts", [values, row_starts]):
            parts = _values(values)
            partition = partitions.partition_from_row_starts(
                row_starts, number_of_rows(parts), validate, _hint(parts)
            )
            return cls._from_row_partition(parts, partition, validate)

    @classmethod
    def from_row_limits(
        cls,
        values: DenseOrRagged,
        row_limits: TensorLike,
        name: str | None = None,
        validate: bool = True,
    ) -> RaggedTensor:
        """Return rows that end before these values."""
        _check_validate(validate)
        with name_scope(name, "RaggedFromRowLimits", [values, row_limits]):
            parts = _values(values)
            partition = partitions.partition_from_row_limits(row_limits, validate, _hint(parts))
            return cls._from_row_partition(parts, partition, validate)

    @classmethod
    def from_value_rowids(
        cls,
        values: DenseOrRagged,
        value_rowids: TensorLike,
        nrows: TensorLike | None = None,
        name: str | None = None,
        validate: bool = True,
    ) -> RaggedTensor:
        """Return rows of which each value's row is known, in ascending order.

        nrows: one more than the last value's row by default.
        """
        _check_validate(validate)
        with name_scope(name, "RaggedFromValueRowIds", [values, value_rowids, nrows]):
            partition = partitions.partition_from_value_rowids(
                value_rowids, nrows, validate, _hint(values)
            )
            return cls._from_row_partition(values, partition, validate)

    @classmethod
    def from_uniform_row_length(
        cls,
        values: DenseOrRagged,
        uniform_row_length: TensorLike,
        nrows: TensorLike | None = None,
        validate: bool = True,
        name: str | None = None,
    ) -> RaggedTensor:
        """Return rows of one length.

        nrows: needed for length 0, where it is 0 by default.
        """
        _check_validate(validate)
        scope = [values, uniform_row_length, nrows]
        with name_scope(name, "RaggedFromUniformRowLength", scope):
            parts = _values(values)
            length = partition_tensor(uniform_row_length, "UniformRowLength", _hint(parts))
            dims = parts.shape.dims
            known = None if dims is None else dims[0].value
            if known is not None:
                count = ops.constant(known, length.dtype)
            else:
                count = number_of_rows(parts, length.dtype)
            partition = partitions.partition_from_uniform_row_length(
                length, count, nrows, validate, _hint(parts)
            )
            return cls._from_row_partition(parts, partition, validate)

    @classmethod
    def from_nested_row_splits(
        cls,
        flat_values: DenseOrRagged,
        nested_row_splits: Sequence[TensorLike],
        name: str | None = None,
        validate: bool = True,
    ) -> DenseOrRagged:
        """Return rows of rows between splits, of the outermost axis first."""
        scope = "RaggedFromNestedRowSplits"
        return _nested(
            cls.from_row_splits, flat_values, nested_row_splits, "row_splits", scope, name, validate
        )

    @classmethod
    def from_nested_row_lengths(
        cls,
        flat_values: DenseOrRagged,
        nested_row_lengths: Sequence[TensorLike],
        name: str | None = None,
        validate: bool = True,
    ) -> DenseOrRagged:
        """Return rows of rows of these lengths, from the outermost axis."""
        scope = "RaggedFromNestedRowlengths"
        lengths = nested_row_lengths
        return _nested(
            cls.from_row_lengths, flat_values, lengths, "row_lengths", scope, name, validate
        )

    @classmethod
    def from_nested_value_rowids(
        cls,
        flat_values: DenseOrRagged,
        nested_value_rowids: Sequence[TensorLike],
        nested_nrows: Sequence[TensorLike | None] | None = None,
        name: str | None = None,
        validate: bool = True,
    ) -> DenseOrRagged:
        """Return rows of rows of which each value's row is known."""
        _check_validate(validate)
        _check_list(nested_value_rowids, "nested_value_rowids", "Tensors")
        if nested_nrows is None:
            nested_nrows = [None] * len(nested_value_rowids)
        _check_list(nested_nrows, "nested_nrows", "Tensors")
        if len(nested_nrows) != len(nested_value_rowids):
            raise ValueError(
                "Argument `nested_nrows` must have the same length as argument "
                f"`nested_value_rowids`. len(nested_nrows) = {len(nested_nrows)} vs. "
                f"len(nested_values_rowids) = {len(nested_value_rowids)}."
            )
        scope = [flat_values, *nested_value_rowids, *nested_nrows]
        with name_scope(name, "RaggedFromNestedValueRowIds", scope):
            made = flat_values
            for ids, rows in reversed(list(zip(nested_value_rowids, nested_nrows))):
                made = cls.from_value_rowids(made, ids, rows, validate=validate)
            return made

    @classmethod
    def _from_nested_row_partitions(
        cls, flat_values: DenseOrRagged, nested: Sequence[RowPartition], validate: bool = True
    ) -> DenseOrRagged:
        made = flat_values
        for partition in reversed(nested):
            made = cls._from_row_partition(made, partition, validate)
        return made

    @classmethod
    def _from_row_partition(
        cls, values: DenseOrRagged, partition: RowPartition, validate: bool = True
    ) -> RaggedTensor:
        """Return the rows of a partition.

        Raises ValueError for splits of another dtype than the inner ones.
        """
        parts = _values(values)
        inner = _hint(parts)
        if inner is not None and inner != partition.dtype:
            raise ValueError(
                "Argument `row_partition` of RaggedTensor with name: partition must have same "
                f"dtype as Argument `values`. ({partition.dtype} vs. {inner})."
            )
        if partition.known_value_rowids is not None:
            parts.shape[:1].assert_is_compatible_with(partition.known_value_rowids.shape)
        if validate:
            text = "Arguments to _from_row_partition do not form a valid RaggedTensor"
            count = number_of_rows(parts, partition.dtype)
            checks = [ops.assert_equal(partition.row_splits[-1], count, message=text)]
            if inner is None:
                checks.append(ops.assert_rank_at_least(parts, 1))
            partition = partition.after(checks)
        make: Callable[..., RaggedTensor] = cls  # type: ignore[assignment]
        return make(parts, partition, internal=True)

    @classmethod
    def from_tensor(
        cls,
        tensor: TensorLike,
        lengths: TensorLike | Sequence[TensorLike] | None = None,
        padding: TensorLike | None = None,
        ragged_rank: int = 1,
        name: str | None = None,
        row_splits_dtype: DTypeLike = int64,
    ) -> RaggedTensor:
        """Return a ragged tensor of a dense one or its rows' beginnings.

        tensor: [rows, columns, ...]. lengths: of the rows, or of the rows of several axes. padding:
        a value that rows end before. ragged_rank: the number of axes that become ragged.
        """
        return conversions.from_tensor(
            cls, tensor, lengths, padding, ragged_rank, name, row_splits_dtype
        )

    @classmethod
    def from_sparse(
        cls, st_input: SparseTensor, name: str | None = None, row_splits_dtype: DTypeLike = int64
    ) -> RaggedTensor:
        """Return a ragged tensor of a sparse matrix.

        The matrix has the beginning of each row.
        """
        return conversions.from_sparse(cls, st_input, name, row_splits_dtype)

    def to_tensor(
        self,
        default_value: TensorLike | None = None,
        name: str | None = None,
        shape: ShapeLike | None = None,
    ) -> Tensor:
        """Return the dense tensor of the bounding shape, or of `shape`.

        default_value: stands behind short rows; 0 or an empty string by default. shape: sizes are
        None where they follow from the tensor; rows are cut or padded to other sizes.
        """
        return conversions.to_tensor(self, default_value, name, shape)

    def to_sparse(self, name: str | None = None) -> SparseTensor:
        """Return the sparse tensor of the same values at the same places."""
        return conversions.to_sparse(self, name)

    @classmethod
    def _from_variant(
        cls,
        variant: TensorLike,
        dtype: DTypeLike,
        output_ragged_rank: int,
        input_ragged_rank: int | None = None,
        row_splits_dtype: DTypeLike = int64,
        name: str | None = None,
    ) -> DenseOrRagged:
        """Return the tensor of variants; a dense one where output_ragged_rank is 0."""
        return conversions.from_variant(
            cls, variant, dtype, output_ragged_rank, input_ragged_rank, row_splits_dtype, name
        )

    def _to_variant(self, batched_input: bool = False, name: str | None = None) -> Tensor:
        """Return a variant of the tensor; with batched_input, one a row."""
        return conversions.to_variant(self, batched_input, name)


def number_of_rows(values: DenseOrRagged, out_type: DType = int32) -> Tensor:
    """Return the size of the first axis."""
    if isinstance(values, RaggedFactories):
        rows: Tensor = values.nrows(out_type=out_type)  # type: ignore[attr-defined]
        return rows
    return ops.shape(values, out_type=out_type)[0]


def _values(values: DenseOrRagged) -> DenseOrRagged:
    if isinstance(values, (Tensor, RaggedFactories)):
        return values
    from tfjit.client.ragged.ragged_tensor import ragged_values

    return ragged_values(values)


def _hint(values: DenseOrRagged) -> DType | None:
    """Return the dtype of the splits of a ragged tensor."""
    if not isinstance(values, RaggedFactories):
        return None
    dtype: DType = values.row_splits.dtype  # type: ignore[attr-defined]
    return dtype


def _check_validate(validate: object) -> None:
    if not isinstance(validate, bool):
        raise TypeError(f"Argument `validate` must have type bool. Received {validate}.")


def _check_list(values: object, name: str, kind: str) -> None:
    if isinstance(values, (Tensor, Dispatching)):
        raise TypeError(f"Argument `{name}` must be a list of {kind}. Received {values}.")


def _nested(
    factory: Callable[..., RaggedTensor],
    flat_values: DenseOrRagged,
    nested: Sequence[TensorLike],
    what: str,
    scope: str,
    name: str | None,
    validate: bool,
) -> DenseOrRagged:
    """Divide values by the rows of each axis, from the innermost."""
    _check_validate(validate)
    _check_list(nested, f"nested_{what}", "Tensors")
    with name_scope(name, scope, [flat_values, *nested]):
        made = flat_values
        for rows in reversed(nested):
            made = factory(made, rows, validate=validate)
        return made
