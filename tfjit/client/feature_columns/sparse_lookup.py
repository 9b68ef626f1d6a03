"""Look up and combine rows of a table by sparse ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.data.sparse_tensors import SparseTensor
from tfjit.client.feature_columns.sparse_steps import filled, reshaped, retained
from tfjit.client.variables.resource_variables import ResourceVariable
from tfjit.client.variables.variables import Variable
from tfjit.framework.graphs.default_graph import colocate_with, name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.framework.types.shape import TensorShape
from tfjit.ops.core.apply import tensor
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    pass

_SUMS = {
    "sum": ops.sparse_segment_sum,
    "mean": ops.sparse_segment_mean,
    "sqrtn": ops.sparse_segment_sqrt_n,
}


def lookup(
    table: Variable | Tensor,
    ids: SparseTensor,
    weights: SparseTensor | None,
    combiner: str,
    max_norm: float | None = None,
    name: str | None = None,
) -> Tensor:
    """Return a row for each row of ids: its table rows combined.

    The result is [rows, size]. combiner: "sum", "mean" or "sqrtn". Raises ValueError for another
    one.
    """
    if combiner not in _SUMS:
        raise ValueError(f"combiner must be one of 'mean', 'sqrtn' or 'sum', got {combiner}")
    with name_scope(name, "embedding_lookup_sparse", [table, ids.values]) as scope:
        rows = ids.indices[:, 0]
        if not isinstance(table, (Tensor, ResourceVariable)):
            table = convert_to_tensor(table, name="params")
        # TensorFlow takes the short way for tensors alone
        if weights is None and max_norm is None and _is_near(table, rows):
            return _SUMS[combiner](table, ids.values, rows, name=scope, sparse_gradient=True)
        distinct, places = ops.unique(ids.values)
        found = _rows(table, distinct, max_norm)
        if weights is None:
            return _SUMS[combiner](found, places, rows, name=scope)
        return _weighted(found, places, ops.cast(rows, dtypes.int32), weights, combiner, scope)


def _is_near(table: Variable | Tensor, rows: Tensor) -> bool:
    return isinstance(table, Tensor) and table.device == rows.device


def _rows(table: Variable | Tensor, numbers: Tensor, max_norm: float | None) -> Tensor:
    """Return rows of the table by number.

    Rows longer than max_norm are scaled to it.
    """
    with name_scope(None, "embedding_lookup", [table, numbers]) as scope:
        with colocate_with(table):
            if isinstance(table, ResourceVariable):
                found = table.sparse_read(numbers, name=scope)
            else:
                found = tensor("GatherV2", scope, params=table, indices=numbers, axis=0)
            if max_norm is not None:
                rank = table.shape.rank
                axes = ops.range(1, ops.rank(table)) if rank is None else list(range(1, rank))
                found = ops.clip_by_norm(found, max_norm, axes=axes)
        return ops.identity(found)


def _weighted(
    table: Tensor,
    places: Tensor,
    rows: Tensor,
    sparse_weights: SparseTensor,
    combiner: str,
    name: str,
) -> Tensor:
    found = ops.gather(table, places)
    weights, kind = sparse_weights.values, found.dtype
    if kind in (dtypes.float16, dtypes.bfloat16):
        found = ops.cast(found, dtypes.float32)
    if weights.dtype != found.dtype:
        weights = ops.cast(weights, found.dtype)
    ranks = ops.expand_dims(ops.rank(found) - 1, 0)
    sizes = ops.shape(weights)
    ones = ops.ones(ranks, dtype=sizes.dtype)
    wide_shape = ops.concat([sizes, ones], 0)
    known = weights.shape
    weights = ops.reshape(weights, wide_shape)
    if found.shape.rank is not None:
        weights.set_shape(known.concatenate([1] * (found.shape.rank - 1)))
    found = ops.multiply(found, weights, name="mul")
    if combiner == "sum":
        made = ops.segment_sum(found, rows, name=name)
    else:
        total = ops.segment_sum(found, rows)
        if combiner == "mean":
            scale = ops.segment_sum(weights, rows)
        else:
            scale = ops.sqrt(ops.segment_sum(ops.pow(weights, 2), rows))
        made = ops.div_no_nan(total, scale, name=name)
    return made if made.dtype == kind else ops.cast(made, kind)


def safe_lookup(
    table: Variable,
    ids: SparseTensor,
    weights: SparseTensor | None,
    combiner: str,
    max_norm: float | None = None,
    name: str | None = None,
) -> Tensor:
    """Return `lookup` of ids of any rank: [..., n] -> [..., size].

    Negative ids are left out, and so are ids of weight 0 or less unless they are summed. A row
    without ids is zero.
    """
    kind = None if weights is None else weights.dtype
    rows_of: Variable | Tensor = table
    if not isinstance(table, ResourceVariable) or kind not in (None, table.dtype):
        rows_of = convert_to_tensor(table, dtype=kind)
    with name_scope(name, "embedding_lookup", [rows_of, ids.values]) as scope:
        shape = ids.dense_shape
        rank = shape.shape.dims_tuple[0] if shape.shape.dims_tuple else None
        last = (ops.size(shape) if rank is None else rank) - 1
        rows = ops.reduce_prod(ops.slice(shape, [0], [last]))
        ids = reshaped(ids, [rows, ops.gather(shape, last)])
        if weights is not None:
            weights = SparseTensor(ids.indices, weights.values, ids.dense_shape)
        ids, weights = _valid(ids, weights, combiner)
        ids, is_empty = filled(ids, 0)
        if weights is not None:
            weights, _ = filled(weights, 1.0)
        found = lookup(rows_of, ids, weights, combiner, max_norm)
        is_empty = ops.tile(ops.reshape(is_empty, [-1, 1]), ops.stack([1, ops.shape(found)[1]]))
        found = ops.where(is_empty, ops.zeros_like(found), found, name=scope)
        outer = ops.slice(ops.cast(shape, dtypes.int32), [0], [last])
        inner = ops.slice(ops.shape(found), [1], [-1])
        made = ops.reshape(found, ops.concat([outer, inner], 0))
        known = TensorShape(None if rank is None else [None] * (rank - 1))
        made.set_shape(known.concatenate(found.shape[1:]))
        return made


def _valid(
    ids: SparseTensor, weights: SparseTensor | None, combiner: str
) -> tuple[SparseTensor, SparseTensor | None]:
    """Return the ids and weights that are to be looked up."""
    valid = ops.greater_equal(ids.values, 0)
    if weights is None:
        return retained(ids, valid), None
    valid = ops.logical_and(valid, ops.ones_like(weights.values, dtype=dtypes.bool))
    ids, weights = retained(ids, valid), retained(weights, valid)
    if combiner == "sum":
        return ids, weights
    positive = ops.greater(weights.values, 0)
    return retained(ids, positive), retained(weights, positive)
