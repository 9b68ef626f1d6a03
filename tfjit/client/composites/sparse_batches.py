"""Define sparse identities, reductions, serialized rows and edit distances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.data.sparse_tensors import SparseTensor, SparseTensorValue
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.ops.core.apply import call, tensor
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.core.renamed import renamed

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import AxisLike, DTypeLike, TensorLike


def _sparse(value: SparseTensor | SparseTensorValue) -> SparseTensor:
    """Return a sparse tensor; raise TypeError for anything else."""
    if isinstance(value, SparseTensorValue):
        return SparseTensor(*value)
    if not isinstance(value, SparseTensor):
        raise TypeError("Input must be a SparseTensor.")
    return value


def eye(
    num_rows: TensorLike,
    num_columns: TensorLike | None = None,
    dtype: DTypeLike = dtypes.float32,
    name: str | None = None,
) -> SparseTensor:
    """Return a sparse matrix with ones on its diagonal.

    It is square by default.
    """
    with name_scope(name, "eye", [num_rows, num_columns]):
        rows = ops.cast(convert_to_tensor(num_rows, name="num_rows"), dtypes.int64)
        columns = rows
        if num_columns is not None:
            columns = ops.cast(convert_to_tensor(num_columns, name="num_columns"), dtypes.int64)
        size = ops.minimum(rows, columns)
        places = ops.range(size, dtype=dtypes.int64)
        return SparseTensor(
            ops.stack([places, places], axis=1),
            ops.ones(ops.stack([size]), dtype=dtype),
            ops.stack([rows, columns]),
        )


def _reduced(
    op_type: str,
    sp_input: SparseTensor | SparseTensorValue,
    axis: AxisLike | None,
    keepdims: bool | None,
) -> SparseTensor:
    sparse = _sparse(sp_input)
    axes: object = ops.range(ops.size(sparse.dense_shape)) if axis is None else axis
    return SparseTensor(
        *call(
            op_type,
            None,
            input_indices=sparse.indices,
            input_values=sparse.values,
            input_shape=sparse.dense_shape,
            reduction_axes=axes,
            keep_dims=bool(keepdims),
        )
    )


def reduce_max_sparse(
    sp_input: SparseTensor | SparseTensorValue,
    axis: AxisLike | None = None,
    keepdims: bool | None = None,
    reduction_axes: AxisLike | None = None,
    keep_dims: bool | None = None,
) -> SparseTensor:
    """Return the largest value along axes as a sparse tensor.

    axis: all axes by default. reduction_axes, keep_dims: former names.
    """
    return _reduced(
        "SparseReduceMaxSparse",
        sp_input,
        renamed(axis, reduction_axes, "axis", "reduction_axes"),
        renamed(keepdims, keep_dims, "keepdims", "keep_dims"),
    )


def reduce_sum_sparse(
    sp_input: SparseTensor | SparseTensorValue,
    axis: AxisLike | None = None,
    keepdims: bool | None = None,
    reduction_axes: AxisLike | None = None,
    keep_dims: bool | None = None,
) -> SparseTensor:
    """Return the sum along axes as a sparse tensor, as `reduce_max_sparse`."""
    return _reduced(
        "SparseReduceSumSparse",
        sp_input,
        renamed(axis, reduction_axes, "axis", "reduction_axes"),
        renamed(keepdims, keep_dims, "keepdims", "keep_dims"),
    )


def serialize_sparse(
    sp_input: SparseTensor | SparseTensorValue,
    name: str | None = None,
    out_type: DTypeLike = dtypes.string,
) -> Tensor:
    """Return a sparse tensor as three strings: indices, values, shape.

    Raises TypeError for anything but a sparse tensor.
    """
    sparse = _sparse(sp_input)
    return tensor(
        "SerializeSparse",
        name,
        sparse_indices=sparse.indices,
        sparse_values=sparse.values,
        sparse_shape=sparse.dense_shape,
        out_type=out_type,
    )


def serialize_many_sparse(
    sp_input: SparseTensor | SparseTensorValue,
    name: str | None = None,
    out_type: DTypeLike = dtypes.string,
) -> Tensor:
    """Return each row of a sparse tensor as three strings, [rows, 3].

    Raises TypeError for anything but a sparse tensor.
    """
    sparse = _sparse(sp_input)
    return tensor(
        "SerializeManySparse",
        name,
        sparse_indices=sparse.indices,
        sparse_values=sparse.values,
        sparse_shape=sparse.dense_shape,
        out_type=out_type,
    )


def deserialize_many_sparse(
    serialized_sparse: TensorLike,
    dtype: DTypeLike,
    rank: int | None = None,
    name: str | None = None,
) -> SparseTensor:
    """Return a sparse tensor of rows that `serialize_many_sparse` gave.

    serialized_sparse: string [rows, 3]. dtype: of the values. rank: of the result, if known.
    """
    indices, values, shape = call(
        "DeserializeManySparse", name, serialized_sparse=serialized_sparse, dtype=dtype
    )
    indices.set_shape([None, rank])
    shape.set_shape([rank])
    return SparseTensor(indices, values, shape)


def edit_distance(
    hypothesis: SparseTensor | SparseTensorValue,
    truth: SparseTensor | SparseTensorValue,
    normalize: bool = True,
    name: str | None = "edit_distance",
) -> Tensor:
    """Return the Levenshtein distance of each row of two sparse tensors.

    hypothesis, truth [..., labels] -> float32 [...]. normalize: divide by the length of the truth.
    Raises TypeError for anything but sparse tensors.
    """
    for what, value in (("Hypothesis", hypothesis), ("Truth", truth)):
        if not isinstance(value, (SparseTensor, SparseTensorValue)):
            raise TypeError(f"{what} must be a SparseTensor.")
    return tensor(
        "EditDistance",
        name,
        hypothesis_indices=hypothesis.indices,
        hypothesis_values=hypothesis.values,
        hypothesis_shape=hypothesis.dense_shape,
        truth_indices=truth.indices,
        truth_values=truth.values,
        truth_shape=truth.dense_shape,
        normalize=normalize,
    )
