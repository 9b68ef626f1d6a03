"""Sparse tensors whose values are indices of others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.data.sparse_tensors import SparseTensor
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.types import dtypes
from tfjit.ops.core.apply import call

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike


def merged(
    ids: Sequence[SparseTensor],
    values: SparseTensor,
    sizes: Sequence[TensorLike],
    already_sorted: bool = False,
    name: str | None = None,
) -> SparseTensor:
    """Return the values at the places that ids name, below the sizes.

    ids: [batch, n], one for each dimension after the first, with the values' own places. The result
    [batch, *sizes] has its indices in order, as they come with `already_sorted`.
    """
    with name_scope(name, "SparseMerge", [*(part.values for part in ids), values.values]):
        columns = []
        for part in ids:
            numbers = part.values
            if part.dtype != dtypes.int64:
                numbers = ops.cast(numbers, dtypes.int64)
            columns.append(ops.expand_dims(numbers, axis=1))
        ends = [ops.cast(size, dtypes.int64) for size in sizes]
        indices = ops.concat([ids[0].indices[:, :-1], *columns], 1)
        shape = ops.concat([ids[0].dense_shape[:-1], ends], 0)
        made = SparseTensor(indices, values.values, shape)
        if already_sorted:
            return made
        places, numbers = call(
            "SparseReorder",
            None,
            input_indices=made.indices,
            input_values=made.values,
            input_shape=made.dense_shape,
        )
        ordered = SparseTensor(places, numbers, ops.identity(made.dense_shape))
        return SparseTensor(ordered.indices, ordered.values, shape)
