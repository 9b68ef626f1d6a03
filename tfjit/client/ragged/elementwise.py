"""Apply functions of elements to the values of ragged tensors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tfjit.client.ragged.broadcasting import broadcast
from tfjit.client.ragged.handlers import handles_kind
from tfjit.client.ragged.ragged_tensor import RaggedTensor, dense_or_ragged, is_ragged, matched
from tfjit.client.ragged.row_partition import RowPartition
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.ops.core.dispatch import Kind

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DenseOrRagged, Structure


@handles_kind(Kind.UNARY)
def unary(
    function: Callable[..., Structure], args: tuple[object, ...], keywords: dict[str, Structure]
) -> DenseOrRagged:
    """Return the function of the first argument's values, in its rows."""
    if args:
        if not is_ragged(args[0]):
            return NotImplemented
        ragged = dense_or_ragged(args[0])
        return ragged.with_values(function(ragged.values, *args[1:], **keywords))
    first = next((name for name, value in keywords.items() if is_ragged(value)), None)
    if first is None:
        return NotImplemented
    ragged = dense_or_ragged(keywords[first])
    return ragged.with_values(function(**{**keywords, first: ragged.values}))


@handles_kind(Kind.BINARY, Kind.ASSERTION)
def binary(
    function: Callable[..., Structure], args: tuple[object, ...], keywords: dict[str, Structure]
) -> DenseOrRagged:
    """Return the function of two arguments' values, broadcast to common rows."""
    names = list(inspect.signature(function).parameters)[:2]
    given = {**dict(zip(names, args)), **keywords}
    if not set(names) <= set(given):
        return NotImplemented
    x, y = _converted(given[names[0]], given[names[1]])
    if not (isinstance(x, RaggedTensor) or isinstance(y, RaggedTensor)):
        return NotImplemented
    others = {name: value for name, value in keywords.items() if name not in names}

    def apply(left: DenseOrRagged, right: DenseOrRagged) -> DenseOrRagged:
        return function(**{names[0]: left, names[1]: right, **_by_name(function, args), **others})

    if _inside(x, y):
        partitions, left, right = x._nested_row_partitions, x.flat_values, y
    elif _inside(y, x):
        partitions, left, right = y._nested_row_partitions, x, y.flat_values
    else:
        partitions, (left, right) = broadcast([x, y])
    made = apply(left, right)
    if isinstance(made, Operation):  # an assertion
        return made
    return RaggedTensor._from_nested_row_partitions(made, partitions, validate=False)


def _by_name(function: Callable[..., object], args: tuple[object, ...]) -> dict[str, object]:
    """Return the arguments behind the first two by their names."""
    names = list(inspect.signature(function).parameters)
    return dict(zip(names[2:], args[2:]))


def _converted(x: DenseOrRagged, y: DenseOrRagged) -> tuple[DenseOrRagged, DenseOrRagged]:
    """Convert two arguments; a ragged one decides for the dtype of numbers."""
    left = dense_or_ragged(x, preferred_dtype=dense_or_ragged(y).dtype if is_ragged(y) else None)
    right = dense_or_ragged(y, preferred_dtype=left.dtype.base_dtype)
    matched(left, right)
    return left, right


def _inside(ragged: DenseOrRagged, dense: DenseOrRagged) -> bool:
    """Return whether a dense tensor is broadcast along inner axes alone."""
    if not isinstance(ragged, RaggedTensor) or isinstance(dense, RaggedTensor):
        return False
    inner, rank = ragged.flat_values.shape.rank, dense.shape.rank
    return rank == 0 or (inner is not None and rank is not None and bool(inner > rank))


def map_flat_values(
    op: Callable[..., Structure], *args: Structure, **kwargs: Structure
) -> DenseOrRagged:
    """Apply a function to the flat values of all ragged arguments.

    They have the same rows.

    Ragged tensors in lists, tuples and dicts count, too. The result has their rows. Raises
    ValueError where ragged ranks, dtypes of splits or numbers of flat values differ, and where the
    result has another number of values.
    """
    found: list[RaggedTensor] = []
    inner_args, inner_kwargs = _flat(args, found), _flat(kwargs, found)
    if not found:
        return op(*args, **kwargs)
    sizes = {value.flat_values.shape[:1].as_list()[0] for value in found} - {None}
    if len(sizes) > 1:
        raise ValueError(
            "Input RaggedTensors' flat_values must all have the same outer-dimension size.  Got "
            f"sizes: {sizes}"
        )
    if len({value.row_splits.dtype for value in found}) > 1:
        raise ValueError(
            "Input RaggedTensors have mismatched row partition dtypes; use "
            "RaggedTensor.with_row_splits_dtype() to convert them to compatible dtypes."
        )
    made = op(*inner_args, **inner_kwargs)
    size = next(iter(sizes), None)
    if size is not None and not made.shape[:1].is_compatible_with([size]):
        raise ValueError(
            "tf.ragged.map_flat_values requires that the output of `op` have the same "
            f"outer-dimension size as flat_values of any ragged inputs. (output shape: {made.shape}"
            f"; expected outer dimension size: {size})"
        )
    partitions = _merged([value._nested_row_partitions for value in found])
    return RaggedTensor._from_nested_row_partitions(made, partitions, validate=False)


def _flat(value: Structure, found: list[RaggedTensor]) -> Structure:
    """Replace ragged tensors in a structure by their flat values."""
    if is_ragged(value):
        ragged = dense_or_ragged(value)
        found.append(ragged)
        return ragged.flat_values
    if isinstance(value, (list, tuple)):
        return type(value)([_flat(item, found) for item in value])
    if isinstance(value, dict):
        return {key: _flat(item, found) for key, item in value.items()}
    return value


def _merged(nested: Sequence[Sequence[RowPartition]]) -> Sequence[RowPartition]:
    """Return the first tensor's partitions with all that is known."""
    if len({len(partitions) for partitions in nested}) > 1:
        raise ValueError("All ragged inputs must have the same ragged_rank.")
    made = []
    for level in zip(*nested, strict=True):
        first = level[0]

        def known(name: str, level: Sequence[RowPartition] = level) -> Tensor | None:
            values = (getattr(partition, name) for partition in level)
            return next((value for value in values if value is not None), None)

        made.append(
            RowPartition(
                first.row_splits,
                row_lengths=known("known_row_lengths"),
                value_rowids=known("known_value_rowids"),
                nrows=known("known_nrows"),
                uniform_row_length=known("uniform_row_length"),
            )
        )
    return made
