"""Compute operations on sets, the last axis of tensors, in NumPy.

A dense tensor [..., n] has n members in each set, equal ones count once. A sparse tensor has in
each set the values of one row. Results are sparse, their members in ascending order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tfjit.framework.errors import InternalError
from tfjit.kernels.cpu.reference.sparse.sparse import (
    check_bounds,
    check_indices,
    check_sparse,
    listed,
    refused,
)
from tfjit.kernels.memory_limits import check_fits_in_memory
from tfjit.kernels.registry import NodeSpec, reference

Arrays = Sequence[Any]
# The members of all sets: the set's number and the value of each.
Members = tuple[np.ndarray, np.ndarray]
_Combine = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _distinct(keys: np.ndarray) -> np.ndarray:
    """Return the different ones of integers, sorted.

    `np.unique` puts integers into a hash table, which takes several times as long as the sort.
    """
    found = np.sort(keys, kind="stable")
    kept = np.ones(len(found), np.bool_)
    np.not_equal(found[1:], found[:-1], out=kept[1:])
    return found[kept]


# Operations on sorted integers without repeats.


def _difference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if not b.size:
        return a
    at = np.minimum(np.searchsorted(b, a), len(b) - 1)
    return a[b[at] != a]


def _intersection(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    found = np.sort(np.concatenate([a, b]), kind="stable")
    return found[1:][found[1:] == found[:-1]]


def _union(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return _distinct(np.concatenate([a, b]))


_OPERATIONS: Final[dict[str, _Combine]] = {
    "a-b": _difference,
    "b-a": lambda a, b: _difference(b, a),
    "intersection": _intersection,
    "union": _union,
}


def _operation(node: NodeSpec) -> _Combine:
    name = node.attrs["set_operation"]
    text = name.decode() if isinstance(name, bytes) else str(name)
    found = _OPERATIONS.get(text.lower())
    if found is None:
        raise refused(f"Invalid set_operation {text}.")
    return found


def _dense(values: np.ndarray) -> tuple[Members, tuple[int, ...]]:
    """Return members and shape of a dense tensor's sets."""
    if values.ndim < 2:
        raise refused(f"Shape {listed(values.shape)} has rank {values.ndim} < 2")
    shape = values.shape[:-1]
    numbers = np.repeat(np.arange(int(np.prod(shape))), values.shape[-1])
    return (numbers, values.reshape(-1)), shape


def _sparse(parts: list[np.ndarray], validate: bool) -> tuple[Members, tuple[int, ...]]:
    """Return members and shape of a sparse tensor's sets."""
    indices, values, shape = parts
    check_sparse(indices, values, shape)
    if validate:
        check_indices(indices, tuple(shape.tolist()))
    if shape.size < 2:
        raise refused(f"Invalid rank {shape.size}.")
    sizes = tuple(shape[:-1].tolist())
    if not validate:
        check_bounds(indices[:, :-1], shape[:-1])
    numbers = np.zeros(len(indices), np.int64)
    for axis, size in enumerate(sizes):
        numbers = numbers * size + indices[:, axis]
    return (numbers, values), sizes


def _coded(
    values: np.ndarray, sets: int
) -> tuple[np.ndarray, int, Callable[[np.ndarray], np.ndarray]]:
    """Return codes of values, their number, and the way back.

    Codes have the order of the values.

    Integers of a small range are their own codes; others are numbered, which takes a sort.
    """
    if values.size and values.dtype.kind in "iu":
        low, high = int(values.min()), int(values.max())
        extent = high - low + 1
        if extent * max(sets, 1) < 1 << 62 and high < 1 << 62:
            codes = values.astype(np.int64) - low
            return codes, extent, lambda found: (found + low).astype(values.dtype)
    members, codes = np.unique(values, return_inverse=True)
    # NumPy 2.0 keeps the shape
    return codes.reshape(-1), max(len(members), 1), lambda found: members[found]


def _combined(a: Members, b: Members, shape: tuple[int, ...], combine: _Combine) -> Arrays:
    """Combine each pair of sets; return indices, values and dense shape."""
    count = int(np.prod(shape))
    values = np.concatenate([a[1], b[1]])
    codes, kinds, decode = _coded(values, count)
    border = len(a[1])
    found = combine(
        _distinct(a[0] * kinds + codes[:border]), _distinct(b[0] * kinds + codes[border:])
    )
    numbers = found // kinds
    chosen = decode(found - numbers * kinds)
    lengths = np.bincount(numbers, minlength=count)
    starts = np.cumsum(lengths) - lengths
    places = np.arange(len(found)) - starts[numbers]
    check_fits_in_memory((len(found), len(shape) + 1), np.dtype(np.int64))
    indices = np.empty((len(found), len(shape) + 1), np.int64)
    if shape:
        indices[:, :-1] = np.stack(np.unravel_index(numbers, shape), 1) if len(found) else 0
    indices[:, -1] = places
    widest = int(lengths.max()) if count else 0
    return indices, chosen, np.array([*shape, widest], np.int64)


def _check_same(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    if first != second:
        raise refused(f"Mismatched shapes {listed(first)} vs {listed(second)}")


@reference("DenseToDenseSetOperation")
def _dense_to_dense(node: NodeSpec, inputs: Arrays) -> Arrays:
    combine = _operation(node)
    a, shape = _dense(np.asarray(inputs[0]))
    b, other = _dense(np.asarray(inputs[1]))
    _check_same(shape, other)
    return _combined(a, b, shape, combine)


@reference("DenseToSparseSetOperation")
def _dense_to_sparse(node: NodeSpec, inputs: Arrays) -> Arrays:
    combine = _operation(node)
    dense, *parts = (np.asarray(v) for v in inputs)
    b, other = _sparse(parts, bool(node.attrs["validate_indices"]))
    a, shape = _dense(dense)
    _check_same(shape, other)
    return _combined(a, b, shape, combine)


@reference("SparseToSparseSetOperation")
def _sparse_to_sparse(node: NodeSpec, inputs: Arrays) -> Arrays:
    combine, validate = _operation(node), bool(node.attrs["validate_indices"])
    parts = [np.asarray(v) for v in inputs]
    a, shape = _sparse(parts[:3], validate)
    b, other = _sparse(parts[3:], validate)
    _check_same(shape, other)
    return _combined(a, b, shape, combine)


@reference("SetSize")
def _set_size(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Count the values of each row that differ."""
    indices, values, shape = (np.asarray(v) for v in inputs)
    validate = bool(node.attrs["validate_indices"])
    if not validate and indices.ndim == 2 and indices.shape[1] == shape.size:
        for axis, size in enumerate(shape.tolist()):
            wrong = (indices[:, axis] < 0) | (indices[:, axis] >= size)
            if wrong.any():
                found = int(indices[int(wrong.argmax()), axis])
                raise InternalError(
                    None, None, f"indices[0, {axis}] expected < {size}, got {found}."
                )
    (numbers, members), sizes = _sparse([indices, values, shape], validate)
    count = int(np.prod(sizes))
    codes, kinds, _ = _coded(members, count)
    counts = np.bincount(_distinct(numbers * kinds + codes) // kinds, minlength=count)
    return (counts.astype(np.int32).reshape(sizes),)
