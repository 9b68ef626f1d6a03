"""Concatenate and stack ragged tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.ragged.gather import gather
from tfjit.client.ragged.handlers import handles
from tfjit.client.ragged.ragged_tensor import (
    RaggedTensor,
    dense_or_ragged,
    matched,
    positive_axis,
)
from tfjit.client.ragged.row_partition import lengths_to_splits
from tfjit.framework.graphs.default_graph import control_dependencies, name_scope
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.types.dtypes import DType

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DenseOrRagged


@handles(ops.concat)
def concat(values: Sequence[DenseOrRagged], axis: int, name: str | None = None) -> DenseOrRagged:
    """Concatenate tensors of one rank along an axis; see `tf.concat`.

    Axes may be ragged in some of them; the rows outside of the axis are as many in all.
    """
    return _joined_in_scope(values, axis, name, stacks=False)


@handles(ops.stack)
def stack(values: Sequence[DenseOrRagged], axis: int = 0, name: str | None = None) -> DenseOrRagged:
    """Stack tensors of one rank along a new axis: `tf.ragged.stack`.

    The shapes may differ; the result is ragged then.
    """
    return _joined_in_scope(values, axis, name, stacks=True)


def _joined_in_scope(
    values: Sequence[DenseOrRagged], axis: int, name: str | None, stacks: bool
) -> DenseOrRagged:
    given = list(values) if isinstance(values, (list, tuple)) else [values]
    with name_scope(name, "RaggedConcat", given):
        if not given:
            raise ValueError("rt_inputs may not be empty.")
        parts = [dense_or_ragged(value, name="rt_input") for value in given]
        return _joined(parts, axis, stacks)


def _joined(values: Sequence[DenseOrRagged], axis: int, stacks: bool) -> DenseOrRagged:
    kind, parts = matched(*values)
    if len(parts) == 1 and not stacks:
        return parts[0]
    ranks = [part.shape.rank for part in parts]
    rank: int | None = ranks[0]
    for part in parts[1:]:
        if rank is not None:
            part.shape.assert_has_rank(rank)
        else:
            rank = part.shape.rank
    out_rank = None if rank is None else rank + stacks
    place = positive_axis(axis, out_rank)
    ragged = [part for part in parts if isinstance(part, RaggedTensor)]
    if stacks and rank == 1 and place == 0:
        lengths = ops.concat([ops.shape(part) for part in parts], axis=0)
        return RaggedTensor.from_row_lengths(ops.concat(parts, axis=0), lengths)
    if not ragged and rank is not None and place in (rank - 1, rank - 1 + stacks):
        return ops.stack(parts, place) if stacks else ops.concat(parts, place)
    deepest = max([1, *(part.ragged_rank for part in ragged)])
    levelled = [_with_ragged_rank(part, deepest, kind) for part in parts]
    if place == 0:
        return _along_rows(levelled, stacks)
    if place == 1:
        return _within_rows(levelled, stacks)
    with control_dependencies(same_splits([[part.row_splits] for part in levelled])):
        inner = _joined([part.values for part in levelled], place - 1, stacks)
        return RaggedTensor.from_row_splits(inner, levelled[0].row_splits, validate=False)


def same_splits(nested: Sequence[Sequence[Tensor]]) -> list[Operation]:
    """Return checks that tensors have the splits of the first one.

    Raises ValueError for another number of ragged axes.
    """
    text = "Inputs must have identical ragged splits"
    if len({len(splits) for splits in nested}) > 1:
        raise ValueError(text)
    return [
        ops.assert_equal(first, other, message=text)
        for splits in nested[1:]
        for first, other in zip(nested[0], splits)
    ]


def _with_ragged_rank(value: DenseOrRagged, ragged_rank: int, kind: DType) -> DenseOrRagged:
    """Return the tensor with uniform axes as ragged ones."""
    if ragged_rank == 0:
        return value
    if not isinstance(value, RaggedTensor):
        value = RaggedTensor.from_tensor(value, row_splits_dtype=kind)
    if value.ragged_rank >= ragged_rank:
        return value
    return value.with_values(_with_ragged_rank(value.values, ragged_rank - 1, kind))


def _along_rows(parts: Sequence[RaggedTensor], stacks: bool) -> RaggedTensor:
    """Append the rows, or group them by tensor."""
    flat = ops.concat([part.flat_values for part in parts], axis=0)
    nested = [
        _appended(splits)
        for splits in zip(*(part.nested_row_splits for part in parts), strict=True)
    ]
    if stacks:
        nested.insert(0, lengths_to_splits(ops.stack([part.nrows() for part in parts])))
    made: RaggedTensor = RaggedTensor.from_nested_row_splits(flat, nested, validate=False)
    return made


def _appended(splits: Sequence[Tensor]) -> Tensor:
    pieces, before = [splits[0]], splits[0][-1]
    for limits in splits[1:]:
        pieces.append(limits[1:] + before)
        before = before + limits[-1]
    return ops.concat(pieces, axis=0)


def _within_rows(parts: Sequence[RaggedTensor], stacks: bool) -> RaggedTensor:
    """Append rows to rows, or group them."""
    number, rows = len(parts), parts[0].nrows()
    checks = [
        ops.assert_equal(
            rows,
            part.nrows(),
            message=f"Input tensors at index 0 (=x) and {index} (=y) have incompatible shapes.",
        )
        for index, part in enumerate(parts[1:], 1)
    ]
    with control_dependencies(checks):
        # rows of one tensor after another, then the rows with one number together
        order = ops.transpose(ops.reshape(ops.range(rows * number), [number, -1]))
        mixed = gather(_along_rows(parts, stacks=False), ops.reshape(order, [-1]))
        if stacks:
            splits, values = ops.range(0, rows * number + 1, number), mixed
        else:
            splits, values = mixed.row_splits[::number], mixed.values
        for part in parts:
            known = part.shape.as_list()[0]
            if known is not None:
                splits.set_shape([known + 1])
        return RaggedTensor.from_row_splits(values, splits, validate=False)
