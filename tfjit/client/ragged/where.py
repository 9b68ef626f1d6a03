"""Choose between ragged tensors, find true elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.ragged.broadcasting import broadcast
from tfjit.client.ragged.concat import concat
from tfjit.client.ragged.elementwise import map_flat_values
from tfjit.client.ragged.factories import number_of_rows
from tfjit.client.ragged.gather import gather
from tfjit.client.ragged.handlers import handles
from tfjit.client.ragged.ragged_tensor import RaggedTensor, dense_or_ragged, matched
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DenseOrRagged


@handles(ops.where)
def where(
    condition: DenseOrRagged,
    x: DenseOrRagged | None = None,
    y: DenseOrRagged | None = None,
    name: str | None = None,
) -> DenseOrRagged:
    """Return x where the condition is true, else y; see `tf.where`.

    All three have the same rows, or the condition is a vector that selects rows of x and y. Without
    both, the result is the index vectors of the true elements, int64 [n, rank]. Raises ValueError
    for other shapes.
    """
    _need_both_or_neither(x, y)
    with name_scope("RaggedWhere", name, [condition, x, y]):
        chosen = dense_or_ragged(condition, name="condition")
        if x is None:
            return _true_places(chosen)
        left, right = dense_or_ragged(x, name="x"), dense_or_ragged(y, name="y")
        matched(chosen, left, right)
        if all(isinstance(value, RaggedTensor) for value in (chosen, left, right)):
            return map_flat_values(ops.where, chosen, left, right)
        if isinstance(chosen, RaggedTensor):
            raise ValueError("Input shapes do not match.")
        chosen.shape.assert_has_rank(1)
        both = concat([left, right], axis=0)
        kind = both.row_splits.dtype
        rows = number_of_rows(left, kind)
        behind = rows + ops.range(number_of_rows(right, kind))
        return gather(both, ops.where(chosen, ops.range(rows), behind))


@handles(ops.where_v2)
def where_v2(
    condition: DenseOrRagged,
    x: DenseOrRagged | None = None,
    y: DenseOrRagged | None = None,
    name: str | None = None,
) -> DenseOrRagged:
    """Return x or y by a condition, broadcast to common rows."""
    _need_both_or_neither(x, y)
    with name_scope("RaggedWhere", name, [condition, x, y]):
        chosen = dense_or_ragged(condition, name="condition")
        if x is None:
            return _true_places(chosen)
        values = [chosen, dense_or_ragged(x, name="x"), dense_or_ragged(y, name="y")]
        partitions, flat = broadcast(values)
        made = ops.where_v2(*flat)
        return RaggedTensor._from_nested_row_partitions(made, partitions, validate=False)


def _need_both_or_neither(x: object, y: object) -> None:
    if (x is None) != (y is None):
        raise ValueError("x and y must be either both None or both non-None")


def _true_places(condition: DenseOrRagged) -> Tensor:
    """Return the index vectors of true elements, int64 [n, rank]."""
    if not isinstance(condition, RaggedTensor):
        return ops.where(condition)
    inner = _true_places(condition.values)
    ragged = condition.with_row_splits_dtype(inner.dtype)
    values = inner[:, 0]
    rows = ops.gather(ragged.value_rowids(), values)
    columns = values - ops.gather(ragged.row_splits, rows)
    outer = [ops.expand_dims(rows, 1), ops.expand_dims(columns, 1)]
    return ops.concat([*outer, inner[:, 1:]], axis=1)
