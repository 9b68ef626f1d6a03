"""Broadcast ragged tensors to common rows.

Axes are aligned from the innermost one. An axis that is known to be uniform, of length 1, takes the
rows of the others; ragged axes must have equal rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.ragged.factories import number_of_rows
from tfjit.client.ragged.partition_factories import partition_from_uniform_row_length
from tfjit.client.ragged.ragged_tensor import RaggedTensor, matched
from tfjit.client.ragged.row_partition import RowPartition, lengths_to_splits, offsets_in_rows
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.graphs.static_value import constant_value
from tfjit.framework.types.dtypes import DType
from tfjit.ops.control_flow.control_flow import with_dependencies

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DenseOrRagged

# For each row of the result, the row of an operand; None where they are the same.
Places = Tensor | None


def broadcast(values: Sequence[DenseOrRagged]) -> tuple[list[RowPartition], list[Tensor]]:
    """Return the common partitions and the operands' flat values in their order.

    The axes inside the partitions are not broadcast. Raises ValueError for a rank that is not
    known; the flat values fail in a run where rows differ.
    """
    kind, operands = matched(*values)
    aligned, inner = _aligned(operands, kind)
    nested = [value._nested_row_partitions for value in aligned]
    checks: list[Operation] = []
    if _identical(nested):
        return list(nested[0]), _in_order([value.flat_values for value in aligned], inner)
    rows, places = _outermost([value.nrows() for value in aligned], checks)
    partitions = []
    for level in zip(*nested, strict=True):
        partition, places = _next_axis(level, places, rows, checks)
        partitions.append(partition)
        rows = partition.row_splits[-1]
    flat = [
        value.flat_values if place is None else ops.gather(value.flat_values, place)
        for value, place in zip(aligned, places, strict=True)
    ]
    if checks:
        partitions = [partition.after(checks) for partition in partitions]
        flat = [with_dependencies(checks, values) for values in flat]
    return partitions, _in_order(flat, inner)


def _identical(nested: Sequence[Sequence[RowPartition]]) -> bool:
    """Return whether all operands have the same splits."""
    return all(
        len({id(partition.row_splits) for partition in level}) == 1
        for level in zip(*nested, strict=True)
    )


def _in_order(flat: list[Tensor], inner: dict[int, Tensor]) -> list[Tensor]:
    """Insert the operands that have inner axes alone at their places."""
    for place, value in sorted(inner.items()):
        flat.insert(place, value)
    return flat


def _aligned(
    values: Sequence[DenseOrRagged], kind: DType
) -> tuple[list[RaggedTensor], dict[int, Tensor]]:
    """Return ragged tensors of one rank and one ragged rank.

    Beside them, by their places, the tensors that are broadcast along axes inside of all rows.
    """
    ranks = [value.shape.rank for value in values]
    if None in ranks:
        raise ValueError("Unable to broadcast: unknown rank")
    rank = max(ranks)
    ragged = max(
        rank - own + value.ragged_rank
        for own, value in zip(ranks, values)
        if isinstance(value, RaggedTensor)
    )
    made: list[RaggedTensor] = []
    inside: dict[int, Tensor] = {}
    for place, (own, value) in enumerate(zip(ranks, values)):
        axes = ragged - (rank - own)  # partitions inside the new outer axes
        if axes < 0:
            inside[place] = value
            continue
        before = value.ragged_rank if isinstance(value, RaggedTensor) else 0
        if axes > before:
            flat = value.flat_values if before else value
            inner = RaggedTensor.from_tensor(flat, ragged_rank=axes - before, row_splits_dtype=kind)
            value = value.with_flat_values(inner) if before else inner
        for _ in range(rank - own):
            value = RaggedTensor.from_uniform_row_length(
                value, number_of_rows(value, kind), nrows=1, validate=False
            )
        made.append(value)
    return made, inside


def _number(scalar: Tensor) -> int | None:
    value = constant_value(scalar)
    return None if value is None else int(value)


def _common(sizes: Sequence[Tensor], checks: list[Operation]) -> Tensor:
    """Return the size to which sizes of 1 are broadcast.

    checks: take those of the other sizes.
    """
    known = [_number(size) for size in sizes]
    fixed = [(value, size) for value, size in zip(known, sizes) if value not in (None, 1)]
    if fixed:
        common = fixed[0][1]
    else:
        unknown = [size for value, size in zip(known, sizes) if value is None] or [sizes[0]]
        common = unknown[0]
        for size in unknown[1:]:
            common = ops.where(ops.equal(common, 1), size, common)
    for value, size in zip(known, sizes):
        if size is common or value == 1 or (fixed and value == fixed[0][0]):
            continue
        fits = ops.logical_or(ops.equal(size, 1), ops.equal(size, common))
        text = "Unable to broadcast: dimension size mismatch in dimension"
        checks.append(ops.Assert(fits, [text, size, common]))
    return common


def _is_broadcast(size: Tensor, common: Tensor) -> bool | None:
    """Return whether 1 becomes another size; None where only a run knows."""
    if size is common:
        return False
    own, wanted = _number(size), _number(common)
    if own is None:
        return None
    if own != 1:
        return False
    return None if wanted is None else wanted != 1


def _outermost(sizes: Sequence[Tensor], checks: list[Operation]) -> tuple[Tensor, list[Places]]:
    common = _common(sizes, checks)
    places: list[Places] = []
    for size in sizes:
        if _is_broadcast(size, common) is False:
            places.append(None)
        else:
            places.append(ops.range(common) * _unless_one(size))
    return common, places


def _unless_one(size: Tensor) -> Tensor:
    """Return 0 for size 1, else 1."""
    return ops.cast(ops.not_equal(size, 1), size.dtype)


def _next_axis(
    level: Sequence[RowPartition], places: list[Places], rows: Tensor, checks: list[Operation]
) -> tuple[RowPartition, list[Places]]:
    """Return an axis' common partition, and places of the operands' values."""
    lengths = [partition.uniform_row_length for partition in level]
    uniform = [length for length in lengths if length is not None]
    if len(uniform) == len(level):
        common = _common(uniform, checks)
        made = partition_from_uniform_row_length(common, rows * common, rows, validate=False)
        stays = [_is_broadcast(length, common) is False for length in uniform]
    else:
        made, stays = _ragged_axis(level, places, checks)
    new_places: list[Places] = []
    for partition, place, stay in zip(level, places, stays, strict=True):
        if stay and place is None:
            new_places.append(None)
            continue
        starts = partition.row_starts if place is None else ops.gather(partition.row_starts, place)
        offsets = offsets_in_rows(made.row_lengths, made.dtype)
        if partition.uniform_row_length is not None:
            offsets = offsets * _unless_one(partition.uniform_row_length)
        new_places.append(ops.gather(starts, made.value_rowids) + offsets)
    return made, new_places


def _ragged_axis(
    level: Sequence[RowPartition], places: list[Places], checks: list[Operation]
) -> tuple[RowPartition, list[bool]]:
    """Return the partition of a ragged axis, and which operands have it."""

    def lengths_of(index: int) -> Tensor:
        lengths, place = level[index].row_lengths, places[index]
        return lengths if place is None else ops.gather(lengths, place)

    ragged = [k for k, partition in enumerate(level) if partition.uniform_row_length is None]
    # an operand whose rows are the result's keeps its splits
    first = next((k for k in ragged if places[k] is None), ragged[0])
    lengths = lengths_of(first)
    made = level[first]
    if places[first] is not None:
        made = RowPartition(lengths_to_splits(lengths), row_lengths=lengths)
    text = "Unable to broadcast: dimension size mismatch in dimension"
    stays = []
    for k, partition in enumerate(level):
        length = partition.uniform_row_length
        if length is None:
            stays.append(True)
            if partition.row_splits is not made.row_splits or places[k] is not places[first]:
                checks.append(ops.assert_equal(lengths_of(k), lengths, message=text))
            continue
        known = _number(length)
        stays.append(known not in (None, 1))
        if known != 1:
            fits = ops.logical_or(ops.equal(length, 1), ops.equal(length, lengths))
            checks.append(ops.Assert(ops.reduce_all(fits), [text, length, lengths]))
    return made, stays
