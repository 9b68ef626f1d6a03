"""Compute ragged tensors in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfjit.framework.types.shape import format_shape
from tfjit.kernels.cpu.reference.sparse.sparse import fill_empty_rows_grad, filled_rows, refused
from tfjit.kernels.registry import NodeSpec, reference

Arrays = Sequence[Any]


@reference("RaggedFillEmptyRows")
def _ragged_fill_empty_rows(node: NodeSpec, inputs: Arrays) -> Arrays:
    rows, values, wanted, default = (np.asarray(v) for v in inputs)
    if rows.ndim != 1:
        raise refused(f"value_rowids must be a vector, saw: {format_shape(rows.shape)}")
    if values.ndim != 1:
        raise refused(f"values must be a vector, saw: {format_shape(values.shape)}")
    if len(rows) != len(values):
        raise refused(
            f"The length of `values` ({len(values)}) must match the first dimension of "
            f"`value_rowids` ({len(rows)})."
        )
    if wanted.ndim:
        raise refused(f"nrows must be a scalar, saw: {format_shape(wanted.shape)}")
    if default.ndim:
        raise refused(f"default_value must be a scalar, saw: {format_shape(default.shape)}")
    count = int(wanted)
    if count == 0:
        if len(rows):
            raise refused(
                f"Received RaggedTensor with nrows = 0 but value_rowids.shape[0] = {len(rows)}"
            )
        return rows.copy(), values.copy(), np.zeros(0, np.bool_), np.zeros(0, np.int64)
    for k in np.flatnonzero((rows < 0) | (rows >= count))[:1]:
        raise refused(
            f"value_rowids({k}) is invalid: {rows[k]} {'< 0' if rows[k] < 0 else f'>= {count}'}"
        )
    place, empty, new = filled_rows(rows, count)
    out, filled = (
        np.empty(len(rows) + len(new), np.int64),
        np.empty(len(rows) + len(new), values.dtype),
    )
    out[place], filled[place] = rows, values
    out[new], filled[new] = np.flatnonzero(empty), default[()]
    return out, filled, empty, place


@reference("RaggedFillEmptyRowsGrad")
def _ragged_fill_empty_rows_grad(node: NodeSpec, inputs: Arrays) -> Arrays:
    return fill_empty_rows_grad(node, inputs)


@reference("RaggedRange")
def _ragged_range(node: NodeSpec, inputs: Arrays) -> Arrays:
    names = ("starts", "limits", "deltas")
    parts = [np.asarray(v) for v in inputs]
    for name, part in zip(names, parts, strict=True):
        if part.ndim > 1:
            raise refused(f"{name} must be a scalar or vector")
    sizes = {part.size for part in parts if part.ndim}
    if len(sizes) > 1:
        raise refused("starts, limits, and deltas must have the same shape")
    starts, limits, deltas = (np.broadcast_to(part, (*sizes,) or (1,)) for part in parts)
    if not deltas.all():
        raise refused("Requires delta != 0")
    rows = [_row_of_range(*row) for row in zip(starts, limits, deltas, strict=True)]
    splits = np.cumsum([0, *map(len, rows)])
    kind = node.attrs["Tsplits"].as_numpy_dtype
    return splits.astype(kind), np.concatenate([np.zeros(0, starts.dtype), *rows])


def _row_of_range(start: np.number, limit: np.number, delta: np.number) -> np.ndarray:
    if (start < limit) == (delta < 0):
        return np.zeros(0, start.dtype)
    if start.dtype.kind in "iu":
        return np.array(range(int(start), int(limit), int(delta)), start.dtype)
    count = int(np.ceil(np.abs((limit - start) / delta)))
    steps = np.full(count, delta, start.dtype)
    steps[:1] = start
    return np.add.accumulate(steps, dtype=start.dtype)  # as TensorFlow rounds


@reference("RaggedGather")
def _ragged_gather(node: NodeSpec, inputs: Arrays) -> Arrays:
    *params, values, indices = (np.asarray(v) for v in inputs)
    _check_splits(params, len(values))
    count = len(params[0]) - 1
    flat = indices.reshape(-1)
    for k in np.flatnonzero((flat < 0) | (flat >= count))[:1]:
        place = ",".join(map(str, np.unravel_index(k, indices.shape)))
        raise refused(f"indices[{place}] = {flat[k]} is not in [0, {count})")
    out = []
    rows = 1
    for size, width in zip(indices.shape, indices.shape[1:]):
        rows *= size
        out.append(np.arange(rows + 1) * width)
    picked = flat
    for k, splits in enumerate(params):
        picked, lengths = _elements(splits, picked)
        if k or indices.ndim:  # a row by itself has no splits
            out.append(np.concatenate([[0], np.cumsum(lengths)]))
    kind = node.attrs["Tsplits"].as_numpy_dtype
    return *(splits.astype(kind) for splits in out), values[picked]


def _elements(splits: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of the rows' elements, and the rows' lengths."""
    starts, lengths = splits[rows], (splits[1:] - splits[:-1])[rows]
    before = np.cumsum(lengths) - lengths
    places = np.arange(int(lengths.sum())) - np.repeat(before, lengths) + np.repeat(starts, lengths)
    return places.astype(np.int64), lengths.astype(np.int64)


def _check_splits(nested: Sequence[np.ndarray], count: int) -> None:
    """Raise InvalidArgumentError for splits of no ragged tensor with that many values."""
    sizes = [*(len(splits) - 1 for splits in nested[1:]), count]
    for splits, size in zip(nested, sizes, strict=True):
        if not len(splits):
            raise refused("Ragged splits may not be empty")
        if splits[0] < 0:
            raise refused("Ragged splits must be non-negative")
        if splits[-1] > size:
            raise refused("Ragged splits must not point past values")
        if (np.diff(splits) < 0).any():
            raise refused("Ragged splits must be sorted")


@reference("RaggedTensorToSparse")
def _ragged_tensor_to_sparse(node: NodeSpec, inputs: Arrays) -> Arrays:
    *nested, values = (np.asarray(v) for v in inputs)
    _check_nested(nested, values)
    columns: list[np.ndarray] = []
    places = np.arange(len(nested[0]) - 1)
    columns.append(places)
    sizes = [len(places)]
    for splits in nested:
        lengths = np.diff(splits)
        columns = [np.repeat(column, lengths) for column in columns]
        columns.append(np.arange(lengths.sum()) - np.repeat(splits[:-1] - splits[0], lengths))
        sizes.append(int(lengths.max(initial=0)))
    inner = values.shape[1:]
    count = int(np.prod(inner, dtype=np.int64))
    columns = [np.repeat(column, count) for column in columns]
    within = np.indices(inner).reshape(len(inner), count)
    columns += [np.tile(axis, len(values)) for axis in within]
    indices = np.stack(columns, 1).astype(np.int64)
    return indices, values.reshape(-1), np.array([*sizes, *inner], np.int64)


def _check_nested(nested: Sequence[np.ndarray], values: np.ndarray) -> None:
    if not all(splits.size for splits in nested):
        raise refused("ragged splits may not be empty.")
    counts = [*(len(splits) - 1 for splits in nested[1:]), len(values)]
    for splits, count in zip(nested, counts, strict=True):
        if splits[0] != 0:
            raise refused("First value of ragged splits must be 0.")
        for k in np.flatnonzero(np.diff(splits) < 0)[:1]:
            raise refused(
                f"Ragged splits should be non decreasing, but we got {splits[k]} followed by "
                f"{splits[k + 1]}"
            )
        if splits[-1] != count:
            raise refused(
                "Final value of ragged splits must match the length the corresponding ragged "
                "values."
            )


@reference("RaggedBincount")
def _ragged_bincount(node: NodeSpec, inputs: Arrays) -> Arrays:
    splits, values, size, weights = (np.asarray(v) for v in inputs)
    if size.ndim:
        raise refused(f"Shape must be rank 0 but is rank {size.ndim}")
    bins = int(size)
    if bins < 0:
        raise refused(f"size ({bins}) must be non-negative")
    if not splits.size:
        raise refused("Splits must be non-empty")
    if splits[0] != 0:
        raise refused(f"Splits must start with 0, not with {splits[0]}")
    if splits[-1] != len(values):
        raise refused(
            f"Splits must end with the number of values, got {splits[-1]} instead of {len(values)}"
        )
    if (values < 0).any():
        raise refused("Input must be non-negative")
    if weights.size not in (0, len(values)):
        raise refused(f"There are {weights.size} weights for {len(values)} values")
    # splits need not be sorted
    ends = np.maximum.accumulate(splits)
    rows = np.searchsorted(ends, np.arange(len(values)), "right") - 1
    kept = values < bins
    out = np.zeros((len(splits) - 1, bins), weights.dtype)
    places = rows[kept], values[kept]
    if node.attrs["binary_output"]:
        out[places] = 1
    else:
        np.add.at(out, places, weights[kept] if weights.size else weights.dtype.type(1))
    return (out,)


@reference("RaggedTensorToTensor")
def _ragged_tensor_to_tensor(node: NodeSpec, inputs: Arrays) -> Arrays:
    shape, values, default, *partitions = (np.asarray(v) for v in inputs)
    kinds = [
        kind.decode() if isinstance(kind, bytes) else kind
        for kind in node.attrs["row_partition_types"]
    ]
    if kinds[0] == "FIRST_DIM_SIZE":
        count = int(partitions[0])
        partitions, kinds = partitions[1:], kinds[1:]
    elif kinds[0] == "ROW_SPLITS":
        count = len(partitions[0]) - 1
    else:
        raise refused("Cannot handle VALUE_ROWIDS in first dimension.")
    _check_default(default.shape, values.shape)
    sizes = _output_sizes(shape, len(kinds), values.shape)
    lengths = [
        _row_lengths(kind, partition) for kind, partition in zip(kinds, partitions, strict=True)
    ]
    dims = [count, *(int(length.max(initial=0)) for length in lengths)]
    dims = [own if size < 0 else size for own, size in zip(dims, sizes)]
    inner = values.shape[1:]
    if not np.prod(dims):
        return (np.empty((*dims, *inner), values.dtype),)
    places = np.arange(count)
    places[dims[0] :] = -1
    for kind, partition, width in zip(kinds, partitions, dims[1:], strict=True):
        places = _places(kind, partition, places, width)
    if len(places) > len(values):
        raise refused(f"The rows have {len(places)} values, but there are {len(values)}")
    out = np.empty((int(np.prod(dims, dtype=np.int64)), *inner), values.dtype)
    out[...] = default
    kept = places >= 0
    out[places[kept]] = values[: len(places)][kept]
    return (out.reshape(*dims, *inner),)


def _row_lengths(kind: str, partition: np.ndarray) -> np.ndarray:
    if kind == "ROW_SPLITS":
        return np.diff(partition)
    return np.bincount(partition) if partition.size else np.zeros(0, np.int64)


def _places(kind: str, partition: np.ndarray, parents: np.ndarray, width: int) -> np.ndarray:
    """Return the place of each element, -1 for none.

    parents: places of the rows.
    """
    if kind == "ROW_SPLITS":
        if len(partition) - 1 != len(parents):
            raise refused(f"Row partition size is greater than output size: {len(parents)}")
        lengths = np.diff(partition)
        rows = np.repeat(np.arange(len(lengths)), lengths)
        starts = partition[:-1]
    else:
        rows = partition
        starts = np.searchsorted(rows, np.arange(len(parents)))
        if rows.size and rows[-1] >= len(parents):
            raise refused(f"Got next_value_rowid={rows[-1]} which is not less than {len(parents)}")
    columns = np.arange(len(rows)) - starts[rows]
    found = parents[rows] * width + columns
    found[(columns >= width) | (parents[rows] < 0)] = -1
    return found


def _output_sizes(shape: np.ndarray, ragged: int, values: tuple[int, ...]) -> list[int]:
    """Return the wanted sizes of outer and ragged dimensions, -1 for any."""
    if not shape.ndim:
        if int(shape) != -1:
            raise refused(
                "The only valid scalar shape tensor is the fully unknown shape specified as -1."
            )
        return [-1] * (ragged + 1)
    sizes = shape.tolist()
    if len(sizes) != ragged + len(values):
        raise refused(
            f"rt_input.shape and shape={format_shape(sizes)} are incompatible: rt_input.rank = "
            f"{ragged + len(values)} but shape.rank = {len(sizes)}"
        )
    for size, own in zip(sizes[ragged + 1 :], values[1:], strict=True):
        if size not in (-1, own):
            raise refused(
                f"shape {format_shape(sizes)} does not fit values of shape {format_shape(values)}"
            )
    return sizes[: ragged + 1]


def _check_default(default: tuple[int, ...], values: tuple[int, ...]) -> None:
    """Raise InvalidArgumentError for a default that an element cannot be filled with."""
    text = (
        f"default_value.shape={format_shape(default)} and "
        f"rt_input.flat_values.shape={format_shape(values)} are incompatible: default_value"
    )
    if len(default) >= len(values):
        raise refused(
            f"{text}.rank = {len(default)}  must be less than rt_input.flat_values.rank = "
            f"{len(values)}"
        )
    for k in range(1, len(default) + 1):
        if default[-k] not in (1, values[-k]):
            raise refused(
                f"{text}.shape[-{k}] = {default[-k]} but rt_input.flat_values.shape[-{k}] = "
                f"{values[-k]}"
            )
