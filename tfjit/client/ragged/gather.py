"""Gather parts of ragged tensors, and by ragged indices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.ragged.handlers import handles
from tfjit.client.ragged.ragged_tensor import (
    RaggedTensor,
    dense_or_ragged,
    is_ragged,
    matched,
    positive_axis,
)
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types.dtypes import DType, int32
from tfjit.ops.core.apply import call

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DenseOrRagged


@handles(ops.gather)
def gather(
    params: DenseOrRagged,
    indices: DenseOrRagged,
    validate_indices: object = None,
    name: str | None = None,
    axis: int | None = None,
    batch_dims: int = 0,
) -> DenseOrRagged:
    """Return slices along an axis; see `tf.gather`.

    Each axis of params in front of it and of indices may be ragged, where ragged batch axes have
    the same rows in both.
    """
    del validate_indices
    with name_scope(name, "RaggedGather", [params, indices]):
        _, (values, places) = matched(
            dense_or_ragged(params, name="params"), dense_or_ragged(indices, name="indices")
        )
        rank, places_rank = values.shape.rank, places.shape.rank
        batches = batch_dims
        if batches != places_rank:
            batches = positive_axis(batches, places_rank, "batch_dims", "rank(indices)")
        if rank is not None and batches >= rank:
            raise ValueError("batch_dims must be less than rank(params)")
        along = positive_axis(batches if axis is None else axis, rank, dims="rank(params)")
        if along < batches:
            raise ValueError("axis must be greater than or equal to batch_dims")
        return _gather(values, places, along, batches)


def _gather(
    params: DenseOrRagged, indices: DenseOrRagged, axis: int, batches: int
) -> DenseOrRagged:
    if not isinstance(params, RaggedTensor) and not isinstance(indices, RaggedTensor):
        return ops.gather(params, indices, axis=axis, batch_dims=batches)
    if batches > 0:
        return _batch_gather(params, indices, axis, batches)
    if axis > 1:
        if not isinstance(params, RaggedTensor):
            params = RaggedTensor.from_tensor(params, row_splits_dtype=indices.row_splits.dtype)
        return params.with_values(_gather(params.values, indices, axis - 1, 0))
    if axis == 1:
        return _gather_in_rows(params, indices, _rank(indices) + 1)
    if isinstance(indices, RaggedTensor):
        return indices.with_values(_gather(params, indices.values, 0, 0))
    made = call(
        "RaggedGather",
        None,
        params_nested_splits=list(params.nested_row_splits),
        params_dense_values=params.flat_values,
        indices=indices,
        OUTPUT_RAGGED_RANK=_rank(indices) + params.ragged_rank - 1,
    )
    return RaggedTensor.from_nested_row_splits(
        made.output_dense_values, made.output_nested_splits, validate=False
    )


def _rank(indices: DenseOrRagged) -> int:
    rank: int | None = indices.shape.rank
    if rank is None:
        raise ValueError("rank(indices) must be known statically")
    return rank


def _batch_gather(
    params: DenseOrRagged, indices: DenseOrRagged, axis: int, batches: int
) -> DenseOrRagged:
    if not params.shape[:batches].is_compatible_with(indices.shape[:batches]):
        raise ValueError(
            f"batch shape from indices {indices.shape[:batches]} does not match params shape "
            f"{params.shape}"
        )
    if batches > 1:
        params, indices = _both_ragged(params, indices)
        return params.with_values(_gather(params.values, indices.values, axis - 1, batches - 1))
    if axis > 1:
        return _batch_gather(*_indices_for_rows(params, indices), axis, batches + 1)
    return _gather_in_rows(params, indices, _rank(indices))


def _both_ragged(
    params: DenseOrRagged, indices: DenseOrRagged
) -> tuple[RaggedTensor, RaggedTensor]:
    """Return both with ragged rows.

    A dense one fits rows of one length alone.
    """
    if not isinstance(params, RaggedTensor):
        if indices.uniform_row_length is None:
            raise ValueError(
                "batch shape from indices does not match params shape: ragged indices dimension "
                "corresponds to uniform params dimension"
            )
        params = RaggedTensor.from_tensor(params, row_splits_dtype=indices.row_splits.dtype)
    if not isinstance(indices, RaggedTensor):
        if params.uniform_row_length is None:
            raise ValueError(
                "batch shape from indices does not match params shape: ragged params dimension "
                "corresponds to uniform indices dimension"
            )
        indices = RaggedTensor.from_tensor(indices, row_splits_dtype=params.row_splits.dtype)
    return params, indices


def _indices_for_rows(
    params: DenseOrRagged, indices: DenseOrRagged
) -> tuple[RaggedTensor, DenseOrRagged]:
    """Repeat the indices of each batch for its rows of params."""
    if not isinstance(indices, RaggedTensor):
        repeated = ops.repeat(indices, params.row_lengths(), 0)
        return params, params.with_values(repeated)
    if not isinstance(params, RaggedTensor):
        params = RaggedTensor.from_tensor(params, row_splits_dtype=indices.row_splits.dtype)
    batches = ops.repeat(ops.range(params.nrows()), params.row_lengths())
    return params, _gather(indices, params.with_values(batches), 0, 0)


def _gather_in_rows(params: DenseOrRagged, indices: DenseOrRagged, rank: int) -> DenseOrRagged:
    """Gather within each row: add its start to the indices."""
    if isinstance(params, RaggedTensor):
        flat, starts = params.values, ops.cast(params.row_starts(), indices.dtype)
    else:
        sizes = ops.shape(params)
        flat = ops.reshape(params, ops.concat([[-1], sizes[2:]], axis=0))
        sizes = ops.cast(sizes, indices.dtype)
        starts = ops.range(sizes[0]) * sizes[1]
    starts = ops.reshape(starts, [-1, *[1] * (rank - 1)])
    return _gather(flat, indices + starts, 0, 0)


@handles(ops.batch_gather)
def batch_gather(
    params: DenseOrRagged, indices: DenseOrRagged, name: str | None = None
) -> DenseOrRagged:
    """Gather within rows; see `tf.batch_gather`."""
    return gather(params, indices, name=name, axis=None, batch_dims=-1)


@handles(ops.gather_nd)
def gather_nd(
    params: DenseOrRagged,
    indices: DenseOrRagged,
    name: str | None = None,
    batch_dims: int = 0,
    bad_indices_policy: str = "",
) -> DenseOrRagged:
    """Return the parts at index vectors; see `tf.gather_nd`.

    Raises ValueError for batches and for index vectors of unknown or ragged length.
    """
    if not isinstance(batch_dims, int) or batch_dims != 0:
        raise ValueError("batch_dims != 0 is not supported for ragged gather yet.")
    if bad_indices_policy not in ("", "DEFAULT"):
        raise ValueError("non-default bad_indices_policy not supported for ragged gather")
    with name_scope(name, "RaggedGatherNd", [params, indices]):
        kind, (values, places) = matched(
            dense_or_ragged(params, name="params"), dense_or_ragged(indices, name="indices")
        )
        rank = places.shape.rank
        if rank is None:
            raise ValueError("indices.rank be statically known.")
        if rank == 0:
            raise ValueError("indices.rank must be at least 1.")
        if isinstance(places, RaggedTensor) and rank == places.ragged_rank + 1:
            raise ValueError("The innermost dimension of indices may not be ragged")
        length = places.shape.as_list()[-1]
        if length is None:
            raise ValueError("indices.shape[-1] must be statically known.")
        if rank > 2:
            return _gather_nd_of_rows(values, places, rank, kind)
        if length == 0:
            return _copies(values, places, rank)
        return _at_vectors(values, places, length)


def _gather_nd_of_rows(
    params: DenseOrRagged, indices: DenseOrRagged, rank: int, kind: DType
) -> DenseOrRagged:
    dense = not isinstance(indices, RaggedTensor)
    if dense:
        indices = RaggedTensor.from_tensor(indices, ragged_rank=rank - 2, row_splits_dtype=kind)
    found = ops.gather_nd(params, indices.flat_values)
    made = indices.with_flat_values(found)
    return made.to_tensor() if dense and made.ragged_rank == rank - 2 else made


def _copies(params: RaggedTensor, indices: Tensor, rank: int) -> DenseOrRagged:
    """Return params for each empty index vector."""
    axes = params.ragged_rank + ops.rank(params.flat_values)
    made: DenseOrRagged = params
    for _ in range(rank - 1):
        made = ops.expand_dims(made, axis=0)
    multiples = ops.concat(
        [ops.shape(indices)[:-1], ops.ones(ops.expand_dims(axes, 0), int32)], axis=0
    )
    return ops.tile(made, multiples)


def _at_vectors(params: RaggedTensor, indices: Tensor, length: int) -> DenseOrRagged:
    """Follow the index vectors from axis to axis."""
    if length == 1:
        return gather(params, ops.reshape(indices, [-1]))
    places = ops.cast(indices, params.row_splits.dtype)
    found = ops.gather(params.row_splits, places[..., 0]) + places[..., 1]
    values = params.values
    for axis in range(2, length):
        if not is_ragged(values):
            rest = ops.concat([ops.expand_dims(found, axis=-1), places[..., axis:]], axis=-1)
            return ops.gather_nd(values, rest)
        found = ops.gather(values.row_starts(), found) + places[..., axis]
        values = values.values
    return gather(values, found)
