"""Cross feature columns, row by row.

A cross is a combination of one feature of every column. A column has its features in rows. Crosses
of a row are in lexicographic order; a row in which a column has no feature has none. A cross is the
joined text of its features, or the fingerprint of their hashes. Source of the hashes and of their
joining: TensorFlow 2.21, observed by running it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tfjit.framework.types.shape import format_shape
from tfjit.kernels.cpu.reference.records.hashing import fingerprint64, siphash
from tfjit.kernels.cpu.reference.sparse.sparse import refused
from tfjit.kernels.registry import NodeSpec, reference

Arrays = Sequence[Any]
_MULTIPLIER: Final = np.uint64(0xC6A4A7935BD1E995)
_LARGEST: Final = (1 << 63) - 1


class Column:
    """The features of one column: row i has flat[starts[i]:starts[i] + counts[i]]."""

    def __init__(self, flat: np.ndarray, starts: np.ndarray, counts: np.ndarray) -> None:
        self.flat = np.asarray(flat)
        self.starts, self.counts = np.asarray(starts, np.int64), np.asarray(counts, np.int64)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.counts)


def _sparse_column(indices: np.ndarray, values: np.ndarray, rows: int) -> Column:
    # a row beyond the dense shape has no crosses
    splits = np.searchsorted(indices[:, 0], np.arange(rows + 1))
    return Column(values, splits[:-1], np.diff(splits))


def _dense_column(values: np.ndarray) -> Column:
    rows, width = np.shape(values)
    return Column(np.reshape(values, -1), np.arange(rows) * width, np.full(rows, width))


def crossed(columns: Sequence[Column]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the number of crosses of each row, and their features.

    A feature is an index into the column's `flat`.
    """
    counts = np.prod([column.counts for column in columns], axis=0, dtype=np.int64)
    row = np.repeat(np.arange(len(counts)), counts)
    left = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    places = []
    for column in reversed(columns):  # the last column varies fastest
        size = column.counts[row]
        places.append(column.starts[row] + left % size)
        left = left // size
    return counts, places[::-1]


def _shifted(value: np.ndarray) -> np.ndarray:
    return value ^ value >> np.uint64(47)


def _joined_hashes(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the fingerprint of two fingerprints, uint64."""
    mixed = first ^ _MULTIPLIER ^ _shifted(second * _MULTIPLIER) * _MULTIPLIER
    return _shifted(_shifted(mixed * _MULTIPLIER) * _MULTIPLIER)


def _hashes(flat: np.ndarray, hashed: Callable[[bytes], int]) -> np.ndarray:
    """Return the hash of each feature; an integer is its own."""
    if flat.dtype != object:
        return flat.astype(np.int64).view(np.uint64)
    return np.fromiter((hashed(item) for item in flat), np.uint64, len(flat))


def _buckets(parts: Sequence[np.ndarray], buckets: int) -> np.ndarray:
    """Return the bucket of each tuple of hashes, int64.

    Without buckets it is the hash, not negative.
    """
    with np.errstate(over="ignore"):
        made = functools.reduce(_joined_hashes, parts)
    return (made % np.uint64(buckets or _LARGEST)).astype(np.int64)


def hash_crosses(
    columns: Sequence[Column], places: Sequence[np.ndarray], seed: int, buckets: int
) -> np.ndarray:
    """Return the bucket of each cross, int64.

    Without buckets it is the hash, not negative.
    """
    start = np.full(len(places[0]) if places else 0, seed & (1 << 64) - 1, np.uint64)
    hashes = [
        _hashes(column.flat, fingerprint64)[place]
        for column, place in zip(columns, places, strict=True)
    ]
    return _buckets([start, *hashes], buckets)


def join_crosses(
    columns: Sequence[Column], places: Sequence[np.ndarray], separator: bytes = b"_X_"
) -> np.ndarray:
    """Return the features of each cross as one text."""
    texts = [
        column.flat
        if column.flat.dtype == object
        else np.array([b"%d" % item for item in column.flat.tolist()], object)
        for column in columns
    ]
    made = np.empty(len(places[0]) if places else 0, object)
    picked = (text[place] for text, place in zip(texts, places, strict=True))
    made[:] = [separator.join(parts) for parts in zip(*picked, strict=True)]
    return made


def _checked(indices: Arrays, values: Arrays, shapes: Arrays, dense: Arrays) -> list[Column]:
    """Return the columns.

    Raises InvalidArgumentError for parts of other ranks, or numbers of rows that differ.
    """
    for k, places in enumerate(indices):
        if np.ndim(places) != 2:
            raise refused(
                "Input indices should be a matrix but received shape "
                f"{format_shape(np.shape(places))} at position {k}"
            )
        if places.shape[1] != 2:
            raise refused(f"Expected D2 of index to be 2 got {places.shape[1]} at position {k}")
    for k, (places, flat) in enumerate(zip(indices, values, strict=True)):
        if np.ndim(flat) != 1:
            raise refused(
                "Input values should be a vector but received shape "
                f"{format_shape(np.shape(flat))} at position {k}"
            )
        if len(places) != len(flat):
            raise refused(
                f"Expected size of values to be {len(places)} got {len(flat)} at position {k}"
            )
    for k, shape in enumerate(shapes):
        if np.ndim(shape) != 1:
            raise refused(
                "Input shapes should be a vector but received shape "
                f"{format_shape(np.shape(shape))} at position {k}"
            )
        if len(shape) != 2:
            raise refused(
                f"shape should imply a 2D tensor, but got {format_shape(np.shape(shape))} "
                f"at position {k}"
            )
    for k, table in enumerate(dense):
        if np.ndim(table) != 2:
            raise refused(
                "Dense inputs should be a matrix but received shape "
                f"{format_shape(np.shape(table))} at position {k}"
            )
    rows = int(shapes[0][0]) if len(shapes) else len(dense[0]) if len(dense) else 0
    for k, shape in enumerate(shapes):
        if shape[0] != rows:
            raise refused(f"Expected batch size {rows} got {shape[0]} at position {k}")
    for k, table in enumerate(dense):
        if len(table) != rows:
            raise refused(f"Expected batch size {rows} got {len(table)} at dense tensor {k}")
    sparse = [_sparse_column(*parts, rows) for parts in zip(indices, values, strict=True)]
    return [*sparse, *map(_dense_column, dense)]


def _sparse_result(counts: np.ndarray, values: np.ndarray) -> Arrays:
    row = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    shape = np.array([len(counts), counts.max(initial=0)], np.int64)
    return np.stack([row, place], 1).astype(np.int64), values, shape


def _parts(node: NodeSpec, inputs: Arrays) -> tuple[list[Column], Arrays]:
    """Return the columns and the inputs after them."""
    count, tables = int(node.attrs["N"]), len(node.attrs["dense_types"])
    indices, values, shapes = (inputs[k * count : (k + 1) * count] for k in range(3))
    rest = inputs[3 * count :]
    return _checked(indices, values, shapes, rest[:tables]), rest[tables:]


@reference("SparseCross")
def _cross(node: NodeSpec, inputs: Arrays) -> Arrays:
    columns, _ = _parts(node, inputs)
    counts, places = crossed(columns)
    if not node.attrs["hashed_output"]:
        return _sparse_result(counts, join_crosses(columns, places))
    attrs = node.attrs
    made = hash_crosses(columns, places, int(attrs["hash_key"]), int(attrs["num_buckets"]))
    return _sparse_result(counts, made)


@reference("SparseCrossV2")
def _cross_with_separator(node: NodeSpec, inputs: Arrays) -> Arrays:
    columns, (separator,) = _parts(node, inputs)
    counts, places = crossed(columns)
    return _sparse_result(counts, join_crosses(columns, places, np.asarray(separator).item()))


@reference("SparseCrossHashed")
def _cross_hashed(node: NodeSpec, inputs: Arrays) -> Arrays:
    columns, (buckets, strong, salt) = _parts(node, inputs)
    counts, places = crossed(columns)
    key = int(salt[0]), int(salt[1])
    hashed = (lambda item: siphash(item, key)) if bool(strong) else fingerprint64
    hashes = []
    for k, (column, place) in enumerate(zip(columns, places, strict=True)):
        flat = column.flat
        if k < int(node.attrs["N"]) and flat.dtype != object:
            # TensorFlow hashes the lower half of an integer, in sparse columns alone
            flat = np.array([item.tobytes()[:4] for item in flat.astype("<i8")] + [None], object)
            flat = flat[:-1]
        hashes.append(_hashes(flat, hashed)[place])
    return _sparse_result(counts, _buckets(hashes, int(buckets)))


@reference("RaggedCross")
def _ragged_cross(node: NodeSpec, inputs: Arrays) -> Arrays:
    attrs = node.attrs
    ragged, count = len(attrs["ragged_values_types"]), int(attrs["Nsparse"])
    values, splits, rest = inputs[:ragged], inputs[ragged : 2 * ragged], inputs[2 * ragged :]
    sparse = [rest[k * count : (k + 1) * count] for k in range(3)]
    dense = rest[3 * count :]
    queues = {
        "R": iter([Column(v, s[:-1], np.diff(s)) for v, s in zip(values, splits, strict=True)]),
        "S": iter([_sparse_column(i, v, int(s[0])) for i, v, s in zip(*sparse, strict=True)]),
        "D": iter([_dense_column(table) for table in dense]),
    }
    order = attrs["input_order"]
    letters = order.decode() if isinstance(order, bytes) else order
    columns = [next(queues[letter]) for letter in letters]
    if len({column.rows for column in columns}) > 1:
        raise refused("inputs must all have the same batch dimension size.")
    counts, places = crossed(columns)
    made = (
        hash_crosses(columns, places, int(attrs["hash_key"]), int(attrs["num_buckets"]))
        if attrs["hashed_output"]
        else join_crosses(columns, places)
    )
    kind = attrs["out_row_splits_type"].as_numpy_dtype
    return made, np.concatenate([[0], np.cumsum(counts)]).astype(kind)
