"""Sort, check and update rows by integer keys.

The references of many families use them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

_BLOCK: Final = 1 << 14
"""Elements that `update_rows` updates at a time.

Their places stay in the cache.
"""
_LONG_ROW: Final = 1024
"""Least elements of a row that has a NumPy call for itself."""


def update_rows(
    combine: np.ufunc, target: np.ndarray, rows: np.ndarray, updates: np.ndarray
) -> None:
    """Combine each update with its row of the target, in place.

    target [n, ...], rows int [k] in [0, n), updates [k, ...] of the target's dtype. A row that
    comes several times has all its updates, in order.
    """
    inner = target.size // max(len(target), 1)
    if not inner or not rows.size:
        return
    if inner >= _LONG_ROW:
        for row, update in zip(rows.tolist(), updates, strict=True):
            combine(target[row], update, out=target[row, ...])
        return
    if not target.flags.c_contiguous:
        combine.at(target, rows, updates)
        return
    # NumPy updates a vector by single elements ten times as fast as a matrix by rows.
    flat, flat_updates = target.reshape(-1), updates.reshape(-1)
    starts = rows.astype(np.intp, copy=False)
    if inner == 1:
        combine.at(flat, starts, flat_updates)
        return
    columns, step = np.arange(inner), max(1, _BLOCK // inner)
    for first in range(0, len(rows), step):
        places = starts[first : first + step, None] * inner + columns
        combine.at(
            flat, places.reshape(-1), flat_updates[first * inner : first * inner + places.size]
        )


def stable_order(keys: np.ndarray) -> np.ndarray:
    """Return the permutation that sorts integer keys.

    Equal keys keep their order.
    """
    count = len(keys)
    if (keys[1:] >= keys[:-1]).all():
        return np.arange(count)
    low = keys.min()
    bits = (count - 1).bit_length()
    if (int(keys.max()) - int(low)).bit_length() + bits > 63:
        return np.argsort(keys, kind="stable")
    # Numbers of 64 bits sort several times as fast as their permutation is found.
    wide = keys - low if keys.dtype == np.uint64 else keys.astype(np.int64) - np.int64(low)
    packed = wide.astype(np.int64, copy=False) << bits
    packed |= np.arange(count)
    packed.sort()
    packed &= (1 << bits) - 1
    return packed


def row_keys(indices: np.ndarray) -> np.ndarray | None:
    """Return a key for each row of an int matrix.

    Keys compare as their rows do. The first column is the major one. None where the rows' extents
    do not fit into 63 bits.
    """
    keys = np.zeros(len(indices), np.int64)
    if not len(indices):
        return keys
    extents = 1
    for column in indices.T:
        low, high = int(column.min()), int(column.max())
        extent = high - low + 1
        extents *= extent
        if extents >= 1 << 63:
            return None
        keys *= extent
        keys += column - low
    return keys


def run_starts(columns: Sequence[np.ndarray], count: int) -> np.ndarray:
    """Return the places where a row differs from the previous row.

    columns: vectors of `count` elements. The first place is one of them where there is any.
    """
    changed = np.zeros(count, np.bool_)
    changed[:1] = True
    for column in columns:
        changed[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changed)


def outside(indices: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Return a mask of index vectors [..., depth] outside a shape."""
    found = np.zeros(indices.shape[:-1], np.bool_)
    for k, size in enumerate(shape[: indices.shape[-1]]):
        column = indices[..., k]
        found |= (column < 0) | (column >= size)
    return found
