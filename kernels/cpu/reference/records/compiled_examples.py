"""Stack the features that compiled functions find in Example messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tfjit.kernels.cpu.strings.examples import find_lists

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType


@dataclass(frozen=True, slots=True)
class WantedFeatures:
    """Describe the features that a parsing node reads.

    dense: (key, dtype, shape, default); sparse: (key, dtype); ragged: (key, dtype, dtype of
    splits).
    """

    dense: list[tuple[str, DType, tuple[int | None, ...], np.ndarray]]
    sparse: list[tuple[str, DType]]
    ragged: list[tuple[str, DType, DType]]


_Places = int | np.ndarray


def parsed_by_functions(serialized: np.ndarray, wanted: WantedFeatures) -> list[np.ndarray] | None:
    """Return the outputs of parsing, in the order of the ops.

    serialized: a vector of messages, or one. None where the functions are not compiled, and for
    messages with errors or rare forms.
    """
    kinds = [(key, dtype) for key, dtype, *_ in (*wanted.dense, *wanted.sparse, *wanted.ragged)]
    keys = [key.encode(errors="surrogateescape") for key, _ in kinds]
    if len(set(keys)) != len(keys):
        return None
    items = np.ascontiguousarray(serialized).reshape(-1)
    found = find_lists(items, keys, [np.dtype(dtype.as_numpy_dtype) for _, dtype in kinds])
    if found is None:
        return None
    batch = serialized.shape
    jobs: list[tuple[int, np.ndarray, _Places]] = []
    dense: list[np.ndarray] = []
    for feature, (_, dtype, shape, default) in enumerate(wanted.dense):
        counts, there = found.counts(feature), found.found(feature)
        made = _dense(dtype, shape, default, counts, there)
        if made is None:
            return None
        rows, row = made
        jobs.append((feature, rows, rows.shape[1]))
        dense.append(rows.reshape(batch + row))
    sparse, ragged = [], []
    for feature in range(len(dense), len(kinds)):
        counts = found.counts(feature)
        ends = np.cumsum(counts)
        starts = ends - counts
        values = np.empty(ends[-1] if ends.size else 0, kinds[feature][1].as_numpy_dtype)
        jobs.append((feature, values, starts))
        if feature < len(dense) + len(wanted.sparse):
            sparse.append(
                (_indices(counts, starts, values.size, batch), values, _sparse_shape(counts, batch))
            )
        else:
            splits = np.append(starts, values.size) if batch else np.empty(0)
            splits_dtype = wanted.ragged[len(ragged)][2].as_numpy_dtype
            ragged.append((values, splits.astype(splits_dtype)))
    if not found.read(jobs):
        return None
    outputs = [part for k in range(3) for part in (parts[k] for parts in sparse)]
    return [*outputs, *dense, *(parts[0] for parts in ragged), *(parts[1] for parts in ragged)]


def _dense(
    dtype: DType,
    shape: tuple[int | None, ...],
    default: np.ndarray,
    counts: np.ndarray,
    there: np.ndarray,
) -> tuple[np.ndarray, tuple[int, ...]] | None:
    """Return a row for each message, filled with its default, and the shape of a row.

    None for numbers of values that do not fit.
    """
    if shape and shape[0] is None:
        row = tuple(dim or 0 for dim in shape[1:])
        stride = int(np.prod(row, dtype=np.int64))
        if (counts % stride if stride else counts).any():
            return None
        longest = int(counts.max(initial=0))
        rows = np.empty((counts.size, longest), dtype.as_numpy_dtype)
        if (counts != longest).any():
            zero = b"" if dtype.name == "string" else 0
            rows[...] = default.reshape(-1)[0] if default.size else zero
        return rows, (longest // stride if stride else 0, *row)
    row = tuple(dim or 0 for dim in shape)
    stride = int(np.prod(row, dtype=np.int64))
    rows = np.empty((counts.size, stride), dtype.as_numpy_dtype)
    if not there.all():
        if default.size == 0 and stride > 0:
            return None
        given = default.reshape(row) if default.size == stride else default
        rows[~there] = np.broadcast_to(given, row).reshape(-1)
    return (rows, row) if (counts[there] == stride).all() else None


def _indices(
    counts: np.ndarray, starts: np.ndarray, total: int, batch: tuple[int, ...]
) -> np.ndarray:
    """Return the indices of all values, in the order of messages and values."""
    columns = np.arange(total)
    if not batch:
        return columns.reshape(-1, 1)
    indices = np.empty((total, 2), np.int64)
    indices[:, 0] = np.repeat(np.arange(counts.size), counts)
    indices[:, 1] = columns - np.repeat(starts, counts)
    return indices


def _sparse_shape(counts: np.ndarray, batch: tuple[int, ...]) -> np.ndarray:
    return np.array([counts.size, counts.max(initial=0)] if batch else counts, np.int64)
