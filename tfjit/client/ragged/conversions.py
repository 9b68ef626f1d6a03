"""Ragged tensors to and from dense and sparse tensors and variants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.data.sparse_tensors import SparseTensor
from tfjit.client.ragged.row_partition import SPLIT_TYPES, RowPartition, int_tensor
from tfjit.framework.graphs.default_graph import control_dependencies, name_scope
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType, as_dtype
from tfjit.framework.types.shape import TensorShape
from tfjit.ops.core.apply import call, tensor
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.client.ragged.factories import RaggedFactories
    from tfjit.client.ragged.ragged_tensor import RaggedTensor
    from tfjit.framework.graphs.typing import (
        DenseOrRagged,
        DTypeLike,
        ShapeLike,
        Structure,
        TensorLike,
    )


def from_tensor(
    make: type[RaggedFactories],
    dense: TensorLike,
    lengths: TensorLike | Sequence[TensorLike] | None,
    padding: TensorLike | None,
    ragged_rank: int,
    name: str | None,
    row_splits_dtype: DTypeLike,
) -> RaggedTensor:
    """Return a ragged tensor of a dense one; see `RaggedTensor.from_tensor`.

    Raises ValueError for a tensor of rank below 2 and for both lengths and padding.
    """
    kind = as_dtype(row_splits_dtype)
    if lengths is not None and padding is not None:
        raise ValueError("Specify argument `lengths` or `padding`, but not both.")
    if not isinstance(ragged_rank, int):
        raise TypeError(f"Argument `ragged_rank` must be an int. Received {ragged_rank}.")
    if ragged_rank <= 0:
        raise ValueError(f"Argument `ragged_rank` must be greater than 0. Received {ragged_rank}.")
    with name_scope(name, "RaggedFromTensor", [dense, lengths, padding]):
        value = convert_to_tensor(dense, name="tensor")
        rank = value.shape.rank
        if rank is not None and rank < 2:
            raise ValueError(
                "The rank of a RaggedTensor must be greater than 1, i.e., a list of scalars won't "
                f"have ragged dimensions. Received argument `tensor` with rank {rank}."
            )
        value.shape.with_rank_at_least(ragged_rank + 1)
        if _is_nested(lengths):
            return _masked_by_nested_lengths(make, value, lengths, ragged_rank)
        if ragged_rank > 1:
            return _of_several_axes(make, value, lengths, padding, ragged_rank, kind)
        sizes = ops.shape(value, out_type=kind)
        if padding is not None:
            lengths = _lengths_before_padding(value, padding, sizes[1], kind)
        if lengths is not None:
            return _with_row_lengths(make, value, lengths, sizes[1], kind)
        flat = ops.concat([[sizes[0] * sizes[1]], sizes[2:]], axis=0)
        rows, columns = (_size(value, axis, sizes, kind) for axis in (0, 1))
        return make.from_uniform_row_length(
            ops.reshape(value, flat), columns, nrows=rows, validate=False
        )


def _is_nested(lengths: Structure) -> bool:
    return (
        isinstance(lengths, (list, tuple))
        and len(lengths) > 0
        and not isinstance(lengths[0], (int, float))
    )


def _size(value: Tensor, axis: int, sizes: Tensor, kind: DType) -> Tensor:
    """Return a size as a constant, if it is known."""
    dims = value.shape.dims
    known = None if dims is None else dims[axis].value
    return sizes[axis] if known is None else ops.constant(known, kind)


def _masked_by_nested_lengths(
    make: type[RaggedFactories], value: Tensor, lengths: Structure, ragged_rank: int
) -> RaggedTensor:
    if ragged_rank not in (1, len(lengths)):
        raise ValueError(
            "If Argument `lengths` is a tuple of row_lengths, argument `ragged_rank` must be "
            f"len(lengths): {len(lengths)}. Received ragged_rank: {ragged_rank}."
        )
    value.shape.with_rank_at_least(len(lengths) + 1)
    ones = ops.ones([ops.reduce_sum(lengths[-1])], dtype=dtypes.bool)
    mask = make.from_nested_row_lengths(ones, lengths, validate=False)
    kept = ops.boolean_mask(value, mask.to_tensor(default_value=False))
    made: RaggedTensor = make.from_nested_row_lengths(kept, lengths, validate=False)
    return made


def _of_several_axes(
    make: type[RaggedFactories],
    value: Tensor,
    lengths: Structure,
    padding: TensorLike | None,
    ragged_rank: int,
    kind: DType,
) -> RaggedTensor:
    """Make the innermost axis ragged, and divide the others evenly."""
    sizes = ops.shape(value, out_type=kind)
    products = ops.cumprod(sizes)
    merged = ops.concat([[products[ragged_rank - 1]], sizes[ragged_rank:]], axis=0)
    flat = ops.reshape(value, merged)
    known = value.shape
    if known.rank is not None:
        flat.set_shape([known[:ragged_rank].num_elements(), *known.as_list()[ragged_rank:]])
    made = make.from_tensor(flat, lengths, padding, row_splits_dtype=kind)
    for axis in range(ragged_rank - 1, 0, -1):
        count = known[:axis].num_elements() if known.rank is not None else None
        rows = products[axis - 1] if count is None else ops.constant(count, kind)
        made = make.from_uniform_row_length(
            made, _size(value, axis, sizes, kind), nrows=rows, validate=False
        )
    return made


def _lengths_before_padding(
    value: Tensor, padding: TensorLike, columns: Tensor, kind: DType
) -> Tensor:
    """Return the lengths of rows without the padding at their ends."""
    pad = convert_to_tensor(padding, name="padding", dtype=value.dtype.base_dtype)
    pad.shape.assert_is_compatible_with(value.shape[2:])
    differs = ops.not_equal(pad, value)
    inner = ops.reduce_any(differs, axis=ops.range(2, ops.rank(value)))
    inner.set_shape(value.shape[:2])
    places = ops.expand_dims(ops.range(1, columns + 1), 0)
    longest = ops.reduce_max(ops.cast(inner, kind) * places, axis=1)
    return ops.maximum(longest, ops.constant(0, kind))


def _with_row_lengths(
    make: type[RaggedFactories], value: Tensor, lengths: Structure, columns: Tensor, kind: DType
) -> RaggedTensor:
    wanted = int_tensor(lengths, "lengths", kind)
    wanted.shape.assert_has_rank(1)
    kept = ops.maximum(ops.minimum(wanted, columns), 0)
    splits = ops.concat([ops.zeros([1], kind), ops.cumsum(kept)], axis=0)
    mask = ops.sequence_mask(kept, maxlen=columns)
    return make.from_row_splits(ops.boolean_mask(value, mask), splits, validate=False)


def to_tensor(
    ragged: DenseOrRagged,
    default_value: TensorLike | None,
    name: str | None,
    shape: ShapeLike | None,
) -> Tensor:
    """Return the dense tensor; see `RaggedTensor.to_tensor`."""
    with name_scope(name, "RaggedToTensor", [ragged, default_value, shape]):
        if default_value is not None:
            default = convert_to_tensor(
                default_value, name="default_value", dtype=ragged.dtype.base_dtype
            )
        else:
            default = ops.zeros((), ragged.dtype)
        first, *inner = ragged._nested_row_partitions
        kinds, tensors = [], []
        if first.known_value_rowids is not None:
            kinds, tensors = ["FIRST_DIM_SIZE"], [first.nrows]
        for partition in (first, *inner):
            kind, value = _encoded(partition)
            kinds.append(kind)
            tensors.append(value)
        wanted = shape
        if isinstance(shape, (list, tuple)) and any(isinstance(size, Tensor) for size in shape):
            wanted = ops.stack(list(shape))
        made = tensor(
            "RaggedTensorToTensor",
            None,
            shape=_sizes(wanted, tensors[0].dtype),
            values=ragged.flat_values,
            default_value=default,
            row_partition_types=kinds,
            row_partition_tensors=tensors,
        )
        if ragged.shape.rank is not None and not isinstance(wanted, Tensor):
            known = TensorShape(wanted)
            own = ragged.shape.as_list()
            given = own if known.rank is None else known.as_list()
            made.set_shape([b if a is None else a for a, b in zip(given, own)])
        return made


def _encoded(partition: RowPartition) -> tuple[str, Tensor]:
    """Return how a partition is passed to the op, and the tensor."""
    if partition.known_value_rowids is not None:
        return "VALUE_ROWIDS", partition.known_value_rowids
    return "ROW_SPLITS", partition.row_splits


def _sizes(shape: ShapeLike | None, kind: DType) -> Tensor:
    """Return a vector of sizes, or -1 for an unknown rank.

    Unknown sizes are -1.
    """
    if isinstance(shape, Tensor):
        return shape if shape.dtype in SPLIT_TYPES else ops.cast(shape, kind)
    known = TensorShape(shape)
    if not known.rank:  # of rank 0, too
        return ops.constant(-1, dtype=kind)
    return ops.constant([-1 if size is None else size for size in known.as_list()], dtype=kind)


def from_sparse(
    make: type[RaggedFactories],
    sparse: SparseTensor,
    name: str | None,
    row_splits_dtype: DTypeLike,
) -> RaggedTensor:
    """Return a ragged tensor of a sparse matrix; see `RaggedTensor.from_sparse`.

    Raises TypeError for no SparseTensor, ValueError for a rank other than 2.
    """
    kind = as_dtype(row_splits_dtype)
    if not hasattr(sparse, "dense_shape") or not hasattr(sparse, "indices"):
        raise TypeError(
            "Argument `st_input` must be of type SparseTensor, but is of type "
            f"{type(sparse).__name__}."
        )
    with name_scope(name, "RaggedFromSparse", [getattr(sparse, "values", None)]):
        matrix = SparseTensor.from_value(sparse)
        if 2 not in (_length(matrix.dense_shape, 0), _length(matrix.indices, 1)):
            raise ValueError("rank(st_input) must be 2.")
        with control_dependencies([_check_right_ragged(matrix.indices)]):
            rows = ops.cast(matrix.indices[:, 0], kind)
            count = ops.cast(matrix.dense_shape[0], kind)
            return make.from_value_rowids(matrix.values, rows, count, validate=False)


def _length(value: Tensor, axis: int) -> int | None:
    dims = value.shape.dims
    return None if dims is None else dims[axis].value


def _check_right_ragged(indices: Tensor) -> Operation:
    """Check that each row has values at its beginning, without gaps."""
    rows, columns = indices[:, :-1], indices[:, -1]
    new_row = ops.reduce_any(ops.not_equal(rows[1:], rows[:-1]), axis=1)
    adjacent = ops.where(
        new_row, ops.equal(columns[1:], 0), ops.equal(columns[1:], columns[:-1] + 1)
    )
    begins = ops.reduce_all(ops.equal(columns[:1], 0))
    text = ["SparseTensor is not right-ragged", "SparseTensor.indices =", indices]
    return ops.Assert(ops.logical_and(begins, ops.reduce_all(adjacent)), text)


def to_sparse(ragged: DenseOrRagged, name: str | None) -> SparseTensor:
    """Return the sparse tensor of the same values."""
    with name_scope(name, "RaggedToSparse", [ragged]):
        made = call(
            "RaggedTensorToSparse",
            name,
            rt_nested_splits=list(ragged.nested_row_splits),
            rt_dense_values=ragged.flat_values,
        )
        return SparseTensor(made.sparse_indices, made.sparse_values, made.sparse_dense_shape)


def from_variant(
    make: type[RaggedFactories],
    variant: TensorLike,
    dtype: DTypeLike,
    output_ragged_rank: int,
    input_ragged_rank: int | None,
    row_splits_dtype: DTypeLike,
    name: str | None,
) -> DenseOrRagged:
    """Return the tensor of variants: ragged, or dense where output_ragged_rank is 0."""
    encoded = convert_to_tensor(variant, name="variant", dtype=dtypes.variant)
    rank, inner = encoded.shape.rank, input_ragged_rank
    if rank is not None and inner is not None and output_ragged_rank != inner + rank:
        raise ValueError(
            f"Argument `output_ragged_rank` ({output_ragged_rank}) must be equal to "
            f"`input_ragged_rank` + `variant.shape.ndims` ({input_ragged_rank} + {rank})."
        )
    with name_scope(name, "RaggedFromVariant", [encoded]):
        made = call(
            "RaggedTensorFromVariant",
            name,
            encoded_ragged=encoded,
            input_ragged_rank=-1 if input_ragged_rank is None else input_ragged_rank,
            output_ragged_rank=max(output_ragged_rank, 0),
            Tvalues=as_dtype(dtype),
            Tsplits=as_dtype(row_splits_dtype),
        )
        return make.from_nested_row_splits(
            made.output_dense_values, made.output_nested_splits, validate=False
        )


def to_variant(ragged: DenseOrRagged, batched_input: bool, name: str | None) -> Tensor:
    """Return a variant of a tensor, or of each of its rows."""
    with name_scope(name, "RaggedToVariant", [ragged]):
        return tensor(
            "RaggedTensorToVariant",
            name,
            rt_nested_splits=list(ragged.nested_row_splits),
            rt_dense_values=ragged.flat_values,
            batched_input=batched_input,
        )


def dense_to_variant(value: TensorLike) -> Tensor:
    """Return a variant of a dense tensor."""
    return tensor(
        "RaggedTensorToVariant",
        None,
        rt_nested_splits=[],
        rt_dense_values=value,
        batched_input=False,
        Tsplits=dtypes.int64,
    )
