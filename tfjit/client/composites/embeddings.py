"""Look up rows of tables, and sums of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.data.sparse_steps import filled, reshaped, retained
from tfjit.client.data.sparse_tensors import SparseTensor
from tfjit.client.variables.partitioned_variable import PartitionedVariable
from tfjit.client.variables.resource_variables import ResourceVariable
from tfjit.framework.graphs.default_graph import colocate_with, name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.framework.types.shape import TensorShape
from tfjit.ops.core.apply import call
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.core.dispatch import dispatched

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike

_COMBINERS = ("mean", "sqrtn", "sum")


@dispatched
def embedding_lookup(
    params: TensorLike,
    ids: TensorLike,
    partition_strategy: str = "mod",
    name: str | None = None,
    validate_indices: bool = True,
    max_norm: TensorLike | None = None,
) -> Tensor:
    """Return rows of a table by number: ids [...] -> [..., *row].

    params: the table [rows, *row], or its partitions, as a list or a PartitionedVariable.
    partition_strategy: "mod" puts row i into partition i mod n, "div" gives each partition rows
    that follow each other, the first ones one more if they do not divide. max_norm: scale longer
    rows to this length. Raises ValueError for another strategy and for an empty list.
    """
    del validate_indices
    if params is None:
        raise ValueError("params must be specified")
    tables = tables_of(params)
    if not tables:
        raise ValueError("Length of params is currently 0. Need at least one param.")
    with name_scope(name, "embedding_lookup", [*tables, ids]) as scope:
        if len(tables) == 1:
            (given,) = tables
            resource = isinstance(given, ResourceVariable)
            table = (
                given
                if isinstance(given, ResourceVariable)
                else convert_to_tensor(given, name="params_0")
            )
            places = convert_to_tensor(ids, name="ids")
            with colocate_with(table):
                rows = _clipped(_gathered(table, places, scope), places, max_norm)
            return rows if resource else ops.identity(rows)
        places = convert_to_tensor(ids, name="ids")
        return _clipped(
            _from_partitions(tables, places, partition_strategy, scope), places, max_norm
        )


def tables_of(params: TensorLike) -> list[TensorLike]:
    """Return the partitions of a table."""
    return list(params) if isinstance(params, (list, tuple, PartitionedVariable)) else [params]


def _gathered(table: Tensor | ResourceVariable, ids: Tensor, name: str | None) -> Tensor:
    """Return rows of a table, or of a resource variable."""
    if isinstance(table, ResourceVariable):
        return table.sparse_read(ids, name=name)
    return ops.gather(table, ids, name=name)


def _from_partitions(parts: list[TensorLike], ids: Tensor, strategy: str, scope: str) -> Tensor:
    """Gather rows from each partition and stitch them together."""
    tables = [
        part if isinstance(part, ResourceVariable) else convert_to_tensor(part, name=f"params_{i}")
        for i, part in enumerate(parts)
    ]
    flat = ops.reshape(ids, [-1])
    order = ops.range(ops.size(flat))
    if strategy == "mod":
        partitions, places = flat % len(tables), flat // len(tables)
    elif strategy == "div":
        partitions, places = _ranges(tables, flat)
    else:
        raise ValueError(
            f"Unrecognized partition strategy: {strategy}.Must be one of either `mod` or `div`."
        )
    partitions = ops.cast(partitions, dtypes.int32)
    places_of = ops.dynamic_partition(places, partitions, len(tables))
    order_of = ops.dynamic_partition(order, partitions, len(tables))
    found = []
    for table, rows in zip(tables, places_of, strict=True):
        with colocate_with(table):
            found.append(_gathered(table, rows, None))
    stitched: Tensor = call("ParallelDynamicStitch", scope, indices=order_of, data=found)
    row = TensorShape(None)
    for table in tables:
        row = row.merge_with(table.shape[1:])
    if row.is_fully_defined():
        sizes: object = row.as_list()
    else:
        with colocate_with(tables[0]):
            sizes = ops.shape(tables[0])[1:]
    result = ops.reshape(stitched, ops.concat([ops.shape(ids), sizes], 0))
    result.set_shape(ids.shape.concatenate(row))
    return result


def _ranges(tables: list[Tensor | ResourceVariable], flat: Tensor) -> tuple[Tensor, Tensor]:
    """Return (partition, row in it) of ids in partitions of successive rows."""
    rows = [None if table.shape.rank is None else table.shape.as_list()[0] for table in tables]
    if None not in rows:
        total = ops.constant(sum(r for r in rows if r is not None), flat.dtype)
    else:
        lengths = [
            ops.shape(table)[0] if size is None else size
            for size, table in zip(rows, tables, strict=True)
        ]
        total = ops.reduce_sum(ops.cast(ops.stack(lengths), flat.dtype))
    each, larger = total // len(tables), total % len(tables)
    partitions = ops.maximum(flat // (each + 1), (flat - larger) // each)
    places = ops.where(partitions < larger, flat % (each + 1), (flat - larger) % each)
    return partitions, places


def _clipped(rows: Tensor, ids: Tensor, max_norm: TensorLike | None) -> Tensor:
    """Scale rows that are longer than `max_norm` to that length."""
    if max_norm is None:
        return rows
    first, last = ids.shape.rank, rows.shape.rank
    if first and last:
        return ops.clip_by_norm(rows, max_norm, axes=list(range(first, last)))
    return ops.clip_by_norm(rows, max_norm, axes=ops.range(ops.rank(ids), ops.rank(rows)))


@dispatched
def embedding_lookup_sparse(
    params: TensorLike,
    sp_ids: SparseTensor,
    sp_weights: SparseTensor | None,
    partition_strategy: str = "mod",
    name: str | None = None,
    combiner: str | None = None,
    max_norm: TensorLike | None = None,
    allow_fast_lookup: bool = False,
) -> Tensor:
    """Combine the embeddings of each row of ids.

    sp_ids: sparse [batch, ids] -> [batch, *row]. sp_weights: a weight for each id, 1 by default.
    combiner: "sum", "mean" (by the sum of weights; the default), or "sqrtn" (by the root of the sum
    of their squares). Each row from the first to the last has to have an id, or is zero.
    partition_strategy, max_norm: as for `embedding_lookup`. allow_fast_lookup: do not look for
    repeated ids. Raises ValueError for another combiner, TypeError for ids or weights that are not
    sparse.
    """
    combiner = "mean" if combiner is None else combiner
    if combiner not in _COMBINERS:
        raise ValueError(f"combiner must be one of 'mean', 'sqrtn' or 'sum', got {combiner}")
    tables = tables_of(params)
    if not isinstance(sp_ids, SparseTensor):
        raise TypeError(f"sp_ids must be SparseTensor, got {type(sp_ids)}")
    if sp_weights is not None:
        if not isinstance(sp_weights, SparseTensor):
            raise TypeError(
                f"sp_weights must be either None or SparseTensor,got {type(sp_weights)}"
            )
        for part in ("values", "indices", "dense_shape"):
            getattr(sp_ids, part).shape.assert_is_compatible_with(getattr(sp_weights, part).shape)
    with name_scope(name, "embedding_lookup_sparse", [*tables, sp_ids.values]) as scope:
        rows = sp_ids.indices[:, 0]
        table, places, found_twice = _rows_of_ids(
            tables, sp_ids, sp_weights is None, partition_strategy, max_norm, allow_fast_lookup
        )
        if sp_weights is None:
            reduce = {
                "sum": ops.sparse_segment_sum,
                "mean": ops.sparse_segment_mean,
                "sqrtn": ops.sparse_segment_sqrt_n,
            }[combiner]
            return reduce(table, places, rows, name=scope, sparse_gradient=found_twice)
        if rows.dtype is not dtypes.int32:
            rows = ops.cast(rows, dtypes.int32)
        return _weighted(ops.gather(table, places), sp_weights.values, rows, combiner, scope)


def _rows_of_ids(
    tables: list[TensorLike],
    sp_ids: SparseTensor,
    no_weights: bool,
    strategy: str,
    max_norm: TensorLike | None,
    fast: bool,
) -> tuple[Tensor, Tensor, bool]:
    """Return (table, the ids' rows in it, whether its gradient is sparse).

    It is the given table, or one with a row for each of the different ids.
    """
    if len(tables) == 1 and not isinstance(tables[0], ResourceVariable):
        table = convert_to_tensor(tables[0], name="params")
        same_device = table.device == sp_ids.indices.device
        if same_device and max_norm is None and (fast or no_weights):
            return table, sp_ids.values, not fast
        tables = [table]
    unique, places = ops.unique(sp_ids.values)
    found = embedding_lookup(tables, unique, partition_strategy=strategy, max_norm=max_norm)
    return found, places, False


def _weighted(rows: Tensor, weights: Tensor, row: Tensor, combiner: str, scope: str) -> Tensor:
    """Return the combined rows of each row of ids, with weights."""
    kind = rows.dtype
    if kind in (dtypes.float16, dtypes.bfloat16):
        rows = ops.cast(rows, dtypes.float32)
    if weights.dtype is not rows.dtype:
        weights = ops.cast(weights, rows.dtype)
    inner = ops.expand_dims(ops.rank(rows) - 1, 0)
    shape = ops.shape(weights)
    ones = ops.ones(inner, dtype=shape.dtype)
    known = weights.shape
    weights = ops.reshape(weights, ops.concat([shape, ones], 0))
    if rows.shape.rank is not None:
        weights.set_shape(known.concatenate([1] * (rows.shape.rank - 1)))
    rows *= weights
    if combiner == "sum":
        rows = ops.segment_sum(rows, row, name=scope)
    else:
        rows = ops.segment_sum(rows, row)
        if combiner == "mean":
            rows = ops.div_no_nan(rows, ops.segment_sum(weights, row), name=scope)
        else:
            squares = ops.segment_sum(ops.pow(weights, 2), row)
            rows = ops.div_no_nan(rows, ops.sqrt(squares), name=scope)
    return rows if rows.dtype is kind else ops.cast(rows, kind)


@dispatched
def safe_embedding_lookup_sparse(
    embedding_weights: TensorLike | Sequence[TensorLike],
    sparse_ids: SparseTensor,
    sparse_weights: SparseTensor | None = None,
    combiner: str = "mean",
    default_id: int | None = None,
    name: str | None = None,
    partition_strategy: str = "div",
    max_norm: TensorLike | None = None,
    allow_fast_lookup: bool = False,
) -> Tensor:
    """Combine embeddings as `embedding_lookup_sparse`, of batches with gaps.

    sparse_ids [d0, ..., dn, ids] -> [d0, ..., dn, *row]. Negative ids are left out, and ids of
    weights that are not positive unless the combiner is "sum". A row without ids has the embedding
    of `default_id`, or zeros. Raises ValueError where there are no tables.
    """
    if embedding_weights is None:
        raise ValueError(f"Missing embedding_weights {embedding_weights}.")
    tables = tables_of(embedding_weights)
    if not tables:
        raise ValueError(f"Missing embedding_weights {tables}.")
    kind = None if sparse_weights is None else sparse_weights.dtype
    tables = [
        table
        if isinstance(table, ResourceVariable) and kind in (None, table.dtype)
        else convert_to_tensor(table, dtype=kind)
        for table in tables
    ]
    values = [*tables, sparse_ids.values]
    values += [] if sparse_weights is None else [sparse_weights.values]
    with name_scope(name, "embedding_lookup", values) as scope:
        outer_shape = sparse_ids.dense_shape
        sizes = outer_shape.shape_tuple
        known_rank = sizes[0] if sizes else None
        rank: Tensor | int = ops.size(outer_shape) if known_rank is None else known_rank
        matrix = [
            ops.reduce_prod(ops.slice(outer_shape, [0], [rank - 1])),
            ops.gather(outer_shape, rank - 1),
        ]
        ids = reshaped(sparse_ids, matrix)
        weights = None
        if sparse_weights is not None:
            weights = SparseTensor(ids.indices, sparse_weights.values, ids.dense_shape)
        ids, weights = _valid(ids, weights, combiner)
        ids, empty = filled(ids, default_id or 0)
        if weights is not None:
            weights, _ = filled(weights, 1.0)
        result = embedding_lookup_sparse(
            tables,
            ids,
            weights,
            combiner=combiner,
            partition_strategy=partition_strategy,
            name=None if default_id is None else scope,
            max_norm=max_norm,
            allow_fast_lookup=allow_fast_lookup,
        )
        if default_id is None:
            wide = ops.tile(ops.reshape(empty, [-1, 1]), ops.stack([1, ops.shape(result)[1]]))
            result = ops.where(wide, ops.zeros_like(result), result, name=scope)
        outer = ops.slice(ops.cast(outer_shape, dtypes.int32), [0], [rank - 1])
        inner = ops.slice(ops.shape(result), [1], [-1])
        final = ops.reshape(result, ops.concat([outer, inner], 0))
        before = TensorShape(None if known_rank is None else [None] * (known_rank - 1))
        final.set_shape(before.concatenate(result.shape[1:]))
        return final


def _valid(
    ids: SparseTensor, weights: SparseTensor | None, combiner: str
) -> tuple[SparseTensor, SparseTensor | None]:
    """Leave out negative ids, and ids of useless weights."""
    valid = ops.greater_equal(ids.values, 0)
    if weights is None:
        return retained(ids, valid), None
    valid = ops.logical_and(valid, ops.ones_like(weights.values, dtype=dtypes.bool))
    ids, weights = retained(ids, valid), retained(weights, valid)
    if combiner != "sum":
        positive = ops.greater(weights.values, 0)
        ids, weights = retained(ids, positive), retained(weights, positive)
    return ids, weights
