"""Stack the features that compiled functions find in Example messages."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from tfjit.kernels.cpu.strings.examples import FoundLists, find_lists

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
_Parts = tuple[np.ndarray, ...]
_DTYPES: Final[dict[str, np.dtype]] = {
    "float32": np.dtype(np.float32),
    "int64": np.dtype(np.int64),
    "string": np.dtype(object),
}


def parsed_by_functions(serialized: np.ndarray, wanted: WantedFeatures) -> list[np.ndarray] | None:
    """Return the outputs of parsing, in the order of the ops.

    serialized: a vector of messages, or one. None where the functions are not compiled, and for
    messages with errors or rare forms.
    """
    asked = [
        *[(key, dtype) for key, dtype, _, _ in wanted.dense],
        *wanted.sparse,
        *[(key, dtype) for key, dtype, _ in wanted.ragged],
    ]
    dtypes = [_DTYPES[dtype.name] for _, dtype in asked]
    items = np.ascontiguousarray(serialized).reshape(-1)
    found = find_lists(items, tuple([key for key, _ in asked]), dtypes)
    if found is None:
        return None
    if not serialized.ndim:
        return _parsed_one(found, wanted, dtypes)
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
    sparse: list[_Parts] = []
    ragged: list[_Parts] = []
    for feature in range(len(dense), len(asked)):
        counts = found.counts(feature)
        ends = np.cumsum(counts)
        starts = ends - counts
        values = np.empty(ends[-1] if ends.size else 0, dtypes[feature])
        jobs.append((feature, values, starts))
        if feature < len(dense) + len(wanted.sparse):
            sparse.append((_indices(counts, starts, values.size), values, _sparse_shape(counts)))
        else:
            splits_dtype = wanted.ragged[len(ragged)][2].as_numpy_dtype
            ragged.append((values, np.append(starts, values.size).astype(splits_dtype)))
    return _in_order(sparse, dense, ragged) if found.read(jobs) else None


def _in_order(
    sparse: list[_Parts], dense: list[np.ndarray], ragged: list[_Parts]
) -> list[np.ndarray]:
    outputs = [parts[k] for k in range(3) for parts in sparse]
    return [*outputs, *dense, *[parts[k] for k in range(2) for parts in ragged]]


def _parsed_one(
    found: FoundLists, wanted: WantedFeatures, dtypes: list[np.dtype]
) -> list[np.ndarray] | None:
    """Return the outputs for one message, which have no dimension for messages."""
    jobs: list[tuple[int, np.ndarray, _Places]] = []
    dense: list[np.ndarray] = []
    sparse: list[_Parts] = []
    ragged: list[_Parts] = []
    lists = found.table.reshape(-1, 3).tolist()
    for feature, (_, _, shape, default) in enumerate(wanted.dense):
        first, _, count = lists[feature]
        varies = bool(shape) and shape[0] is None
        row = tuple([dim or 0 for dim in (shape[1:] if varies else shape)])
        stride = math.prod(row)
        if varies:
            if count % stride if stride else count:
                return None
            row = (count // stride if stride else 0, *row)
        elif not first:
            if default.size == 0 and stride > 0:
                return None
            given = default.reshape(row) if default.size == stride else default
            dense.append(np.broadcast_to(given, row).astype(dtypes[feature]))
            continue
        elif count != stride:
            return None
        dense.append(np.empty(row, dtypes[feature]))
        jobs.append((feature, dense[-1], 0))
    for feature in range(len(dense), len(lists)):
        count = lists[feature][2]
        values = np.empty(count, dtypes[feature])
        jobs.append((feature, values, 0))
        if feature < len(dense) + len(wanted.sparse):
            sparse.append((np.arange(count).reshape(-1, 1), values, np.array([count])))
        else:
            splits_dtype = wanted.ragged[len(ragged)][2].as_numpy_dtype
            ragged.append((values, np.empty(0, splits_dtype)))
    return _in_order(sparse, dense, ragged) if found.read(jobs) else None


def _dense(
    dtype: DType,
    shape: tuple[int | None, ...],
    default: np.ndarray,
    counts: np.ndarray,
    there: np.ndarray,
) -> tuple[np.ndarray, tuple[int, ...]] | None:
    """Return a row for each message, and the shape of a row.

    A message without the feature has the default. None for numbers of values that do not fit.
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


def _indices(counts: np.ndarray, starts: np.ndarray, total: int) -> np.ndarray:
    """Return the indices of all values, message by message."""
    indices = np.empty((total, 2), np.int64)
    indices[:, 0] = np.repeat(np.arange(counts.size), counts)
    indices[:, 1] = np.arange(total) - np.repeat(starts, counts)
    return indices


def _sparse_shape(counts: np.ndarray) -> np.ndarray:
    return np.array([counts.size, counts.max(initial=0)], np.int64)
