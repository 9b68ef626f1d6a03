"""Index ragged tensors: integers, slices, `...` and new axes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from tfjit import ops
from tfjit.client.ragged.gather import gather
from tfjit.client.ragged.ragged_tensor import RaggedTensor
from tfjit.framework.graphs.default_graph import control_dependencies, name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.graphs.static_value import constant_value
from tfjit.framework.types import dtypes
from tfjit.ops.core.apply import call
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DenseOrRagged, Structure

Key: TypeAlias = "Structure"  # an index, a slice, ... or None
_ALL = slice(None)


def getitem(ragged: RaggedTensor, key: object) -> DenseOrRagged:
    """Return a part of a ragged tensor.

    An index of the first axis gives a row. Inner ragged axes take slices, which cut each row, and
    no index. `...` stands for all axes that the other keys leave out, None for a new axis of size
    1. Raises ValueError for an index of an inner ragged axis, IndexError for too many keys.
    """
    keys = list(key) if isinstance(key, (list, tuple)) else [key]
    with name_scope(None, "RaggedGetItem", [ragged, *_tensors(keys)]):
        return _rows(ragged, keys)


def _tensors(key: Key) -> Iterator[Tensor]:
    if isinstance(key, Tensor):
        yield key
    elif isinstance(key, (list, tuple)):
        for item in key:
            yield from _tensors(item)
    elif isinstance(key, slice):
        yield from _tensors([key.start, key.stop, key.step])


def _rows(ragged: RaggedTensor, keys: list[Key]) -> DenseOrRagged:
    """Apply the first key to the rows, the others inside."""
    if not keys:
        return ragged
    key, inner = keys[0], keys[1:]
    if key is Ellipsis:
        return _rows(ragged, _without_ellipsis(keys, ragged.shape.rank))
    if key is None:
        part = _rows(ragged, inner)
        return RaggedTensor.from_uniform_row_length(part, _count(part), nrows=1, validate=False)
    if isinstance(key, slice):
        part = _sliced_rows(ragged, key)
        length = ragged.uniform_row_length
        if length is not None:
            part = RaggedTensor.from_uniform_row_length(part.values, length, nrows=part.nrows())
        return _columns(part, inner)
    starts, limits = ragged.row_splits[:-1], ragged.row_splits[1:]
    row = ragged.values[starts[key] : limits[key]]
    return row[tuple(inner)] if inner else row


def _count(part: RaggedTensor) -> int | Tensor:
    """Return the number of rows, as an int where it is known."""
    dims = part.row_splits.shape.dims
    known = None if dims is None else dims[0].value
    if known is not None:
        return known - 1
    return ops.shape(part.row_splits, out_type=part.row_splits.dtype)[0] - 1


def _sliced_rows(ragged: RaggedTensor, key: slice) -> RaggedTensor:
    if key == _ALL:
        return ragged
    starts, limits = ragged.row_splits[:-1][key], ragged.row_splits[1:][key]
    if not (key.step is None or (isinstance(key.step, int) and key.step == 1)):
        return _from_ranges(starts, limits, 1, ragged.values)
    # without rows, the splits are one 0
    zero = ops.zeros([1], ragged.row_splits.dtype)[ops.size(starts) :]
    splits = ops.concat([zero, starts[:1], limits], axis=0)
    first, last = splits[0], splits[-1]
    return RaggedTensor.from_row_splits(ragged.values[first:last], splits - first, validate=False)


def _columns(part: DenseOrRagged, keys: list[Key]) -> DenseOrRagged:
    """Apply keys to the axes behind the first."""
    if not keys:
        return part
    if not isinstance(part, RaggedTensor):
        return part[(_ALL, *keys)]
    key, inner = keys[0], keys[1:]
    if key is Ellipsis:
        return _columns(part, _without_ellipsis(keys, part.values.shape.rank))
    if key is None:
        made = _columns(part, inner)
        rows = _count(made)
        return RaggedTensor.from_uniform_row_length(made, 1, nrows=rows, validate=False)
    if not isinstance(key, slice):
        return _index_of_uniform_axis(part, key, inner)
    if key == _ALL:
        return part.with_values(_columns(part.values, inner))
    made = _sliced_columns(part, key)
    length = part.uniform_row_length
    if length is not None:
        flags = ops.zeros(ops.expand_dims(length, 0), dtype=dtypes.bool)
        size = ops.size(flags[key], out_type=length.dtype)
        made = RaggedTensor.from_uniform_row_length(made.values, size, part.nrows())
    return made.with_values(_columns(made.values, inner))


def _sliced_columns(part: RaggedTensor, key: slice) -> RaggedTensor:
    """Cut each row by a slice."""
    for bound in (key.start, key.stop):
        if not (bound is None or isinstance(bound, (Tensor, int))):
            raise TypeError("slice offsets must be integers or None")
    starts, limits = part.row_splits[:-1], part.row_splits[1:]
    step = 1 if key.step is None else key.step
    # backwards, a row goes from the value before its limit to the one before its start
    low = _by_sign(step, starts, starts - 1)
    high = _by_sign(step, limits, limits - 1)

    def place(bound: Structure, default: Tensor) -> Tensor:
        if bound is None:
            return default
        offset = ops.cast(bound, starts.dtype)
        return _by_sign(
            bound, ops.minimum(starts + offset, high), ops.maximum(limits + offset, low)
        )

    first = place(key.start, _by_sign(step, starts, limits - 1))
    last = place(key.stop, _by_sign(step, limits, starts - 1))
    return _from_ranges(first, last, step, part.values)


def _by_sign(value: Structure, positive: Tensor, negative: Tensor) -> Tensor:
    """Return `positive` for a value of at least 0."""
    known = constant_value(value) if isinstance(value, Tensor) else value
    if known is None:
        return ops.where(ops.greater_equal(value, 0), positive, negative)
    return positive if known >= 0 else negative


def _from_ranges(
    starts: Tensor, limits: Tensor, step: object, values: DenseOrRagged
) -> RaggedTensor:
    """Return rows of the values from each start to its limit."""
    distance = convert_to_tensor(step, name="step")
    if not distance.dtype.is_integer:
        raise TypeError("slice strides must be integers or None")
    places = call(
        "RaggedRange",
        None,
        starts=starts,
        limits=limits,
        deltas=ops.cast(distance, starts.dtype),
        Tsplits=starts.dtype,
    )
    found = gather(values, places.rt_dense_values)
    return RaggedTensor.from_row_splits(found, places.rt_nested_splits, validate=False)


def _index_of_uniform_axis(part: RaggedTensor, key: object, inner: list[Key]) -> DenseOrRagged:
    """Return an element of each row."""
    length = part.uniform_row_length
    if length is None:
        raise ValueError("Cannot index into an inner ragged dimension.")
    place = ops.cast(key, length.dtype)
    text = "Index out of bounds when indexing into a ragged tensor"
    checks = [
        ops.assert_greater_equal(place, -length, message=text),
        ops.assert_less(place, length, message=text),
    ]
    with control_dependencies(checks):
        offset = _by_sign(place, place, length + place)
        return _columns(part.values[offset::length], inner)


def _without_ellipsis(keys: list[Key], axes: int | None) -> list[Key]:
    """Put a slice before a leading `...`, or remove it.

    axes: the number of axes that the keys are for.
    """
    if axes is None:
        raise ValueError("Ellipsis not supported for unknown shape RaggedTensors")
    used = sum(key is not None for key in keys)  # with the ellipsis
    if used > axes + 1:
        raise IndexError("Too many indices for RaggedTensor")
    return keys[1:] if used == axes + 1 else [_ALL, *keys]
