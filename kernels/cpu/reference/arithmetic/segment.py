"""Compute segment reductions, histograms and joins of segments in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tfjit.framework.types import dtypes
from tfjit.kernels.cpu.reference.arithmetic.reduction import cut_quotient, highest, wide
from tfjit.kernels.cpu.reference.inputs import Arrays, invalid, shape_text
from tfjit.kernels.cpu.reference.records.string import as_strings, invalid_strings
from tfjit.kernels.cpu.reference.rows import run_starts, stable_order, update_rows
from tfjit.kernels.memory_limits import check_fits_in_memory
from tfjit.kernels.registry import NodeSpec, reference


def _finite_lowest(dtype: np.dtype[Any]) -> Any:
    """Return an empty segment's unsorted maximum: the lowest finite value."""
    if dtype.kind in "iu":
        return np.iinfo(dtype).min
    return dtype.type(dtypes.as_dtype(dtype).min)


def _finite_highest(dtype: np.dtype[Any]) -> Any:
    return highest(dtype) if dtype.kind in "iu" else -_finite_lowest(dtype)


_COMBINE: dict[str, Any] = {
    "Sum": np.add,
    "Mean": np.add,
    "Prod": np.multiply,
    "Max": np.maximum,
    "Min": np.minimum,
}


def _check_sorted(data: np.ndarray, ids: np.ndarray) -> None:
    if ids.ndim != 1:
        invalid("segment_ids should be a vector.")
    if data.ndim < 1:
        invalid("Shape must be at least rank 1")
    if ids.size != data.shape[0]:
        invalid("segment_ids should be the same size as dimension 0 of input.")
    if ids.size and ids[0] < 0:
        if ids[-1] < -1:
            invalid("segment ids must be >= 0")
        invalid(
            f"Segment id {ids[0]} out of range [0, {ids[-1] + 1}), possibly because 'segment_ids' "
            "input is not sorted."
        )
    if (np.diff(ids) < 0).any():
        invalid("segment ids are not increasing")


def _reduce_rows(
    kind: str, data: np.ndarray, ids: np.ndarray, count: int, start: Any, counts_in: bool = False
) -> np.ndarray:
    """Combine rows of `data` by id -> [count, ...].

    Segments without rows hold `start`; with counts_in the others are combined with `start`.
    """
    values = wide(data)
    check_fits_in_memory((count, *data.shape[1:]), values.dtype)
    out = np.full((count, *data.shape[1:]), start, values.dtype)
    if ids.size:
        if (ids[1:] < ids[:-1]).any():
            order = stable_order(ids)
            ids, values = ids[order], values[order]
        first = run_starts([ids], ids.size)
        used = ids[first]
        combine = _COMBINE[kind]
        found = combine.reduceat(values, first, axis=0, dtype=values.dtype)
        if kind == "Mean":
            counts = (
                np.diff(np.append(first, ids.size))
                .reshape(-1, *([1] * (data.ndim - 1)))
                .astype(values.dtype)
            )
            found = cut_quotient(found, counts) if values.dtype.kind in "iu" else found / counts
        out[used] = combine(found, values.dtype.type(start)) if counts_in else found
    return out.astype(data.dtype, copy=False)


@reference("SegmentSum", "SegmentMean", "SegmentProd", "SegmentMax", "SegmentMin")
def _segment(node: NodeSpec, inputs: Arrays) -> Arrays:
    data, ids = inputs
    _check_sorted(data, ids)
    kind = node.op.removeprefix("Segment")
    count = int(ids[-1]) + 1 if ids.size else 0
    return (_reduce_rows(kind, data, ids, count, 1 if kind == "Prod" else 0),)


def _id_error(ids: np.ndarray, count: int) -> None:
    bad = ids >= count
    if bad.any():
        first = int(np.flatnonzero(bad.reshape(-1))[0])
        place = ",".join(str(i) for i in np.unravel_index(first, ids.shape)) if ids.ndim else ""
        invalid(f"segment_ids[{place}] = {ids.reshape(-1)[first]} is out of range [0, {count})")


@reference("UnsortedSegmentSum", "UnsortedSegmentProd", "UnsortedSegmentMax", "UnsortedSegmentMin")
def _unsorted_segment(node: NodeSpec, inputs: Arrays) -> Arrays:
    data, ids, count_input = inputs
    if count_input.ndim:
        invalid(f"num_segments should be a scalar, not shape {shape_text(count_input)}")
    count = int(count_input)
    if count < 0:
        invalid(f"Input num_segments == {count} must not be negative.")
    if data.shape[: ids.ndim] != ids.shape:
        invalid(
            f"data.shape = {shape_text(data)} does not start with segment_ids.shape = "
            f"{shape_text(ids)}"
        )
    _id_error(ids, count)
    kind = node.op.removeprefix("UnsortedSegment")
    start = {"Sum": 0, "Prod": 1}.get(kind)
    if start is None:
        start = _finite_lowest(data.dtype) if kind == "Max" else _finite_highest(data.dtype)
    rows = data.reshape(ids.size, *data.shape[ids.ndim :])
    flat = ids.reshape(-1)
    keep = flat >= 0
    return (_reduce_rows(kind, rows[keep], flat[keep], count, start, counts_in=True),)


@reference("SegmentSumV2", "SegmentProdV2", "SegmentMaxV2", "SegmentMinV2")
def _segment_v2(node: NodeSpec, inputs: Arrays) -> Arrays:
    data, ids, count_input = inputs
    kind = node.op.removeprefix("Segment").removesuffix("V2")
    start = {"Sum": 0, "Prod": 1}.get(kind)
    if start is None:
        start = _finite_lowest(data.dtype) if kind == "Max" else _finite_highest(data.dtype)
    count = int(count_input)
    _id_error(ids, count)
    keep = ids >= 0
    return (_reduce_rows(kind, data[keep], ids[keep], count, start),)


def _sparse_rows(node: NodeSpec, inputs: Arrays) -> np.ndarray:
    data, indices, ids = inputs[:3]
    if indices.ndim != 1:
        invalid("indices should be a vector.")
    if ids.ndim != 1:
        invalid("segment_ids should be a vector.")
    if indices.size != ids.size:
        invalid("segment_ids and indices should have same size.")
    counted = len(inputs) > 3
    if counted and int(inputs[3]) < 0:
        invalid("segment ids must be >= 0")
    if ids.size and ids[0] < 0:
        invalid("segment ids must be >= 0")
    if (np.diff(ids) < 0).any():
        invalid("segment ids are not increasing")
    count = int(inputs[3]) if counted else int(ids[-1]) + 1 if ids.size else 0
    if ids.size and int(ids[-1]) >= count:
        invalid("segment ids must be < num_segments")
    bad = (indices < 0) | (indices >= data.shape[0])
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        invalid(f"Bad: indices[{first}] == {indices[first]} out of range [0, {data.shape[0]})")
    rows = wide(data)[indices]
    check_fits_in_memory((count, *data.shape[1:]), rows.dtype)
    out = np.zeros((count, *data.shape[1:]), rows.dtype)
    update_rows(np.add, out, ids, rows)
    kind = node.op.removeprefix("SparseSegment").removesuffix("WithNumSegments")
    if kind == "Sum":
        return out.astype(data.dtype, copy=False)
    scale = _SCALES[kind]
    counts = np.maximum(
        np.bincount(ids, minlength=count) if ids.size else np.zeros(count, np.int64), 1
    )
    return (out / scale(counts).astype(out.dtype).reshape(-1, *([1] * (data.ndim - 1)))).astype(
        data.dtype
    )


_SCALES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "Sum": np.ones_like,
    "Mean": lambda n: n,
    "SqrtN": np.sqrt,
}


@reference(
    "SparseSegmentSum",
    "SparseSegmentMean",
    "SparseSegmentSqrtN",
    "SparseSegmentSumWithNumSegments",
    "SparseSegmentMeanWithNumSegments",
    "SparseSegmentSqrtNWithNumSegments",
)
def _sparse_segment(node: NodeSpec, inputs: Arrays) -> Arrays:
    return (_sparse_rows(node, inputs),)


@reference("SparseSegmentSumGrad", "SparseSegmentMeanGrad", "SparseSegmentSqrtNGrad")
def _sparse_segment_grad(node: NodeSpec, inputs: Arrays) -> Arrays:
    _check_sparse_segments(inputs)
    return (_scattered_gradient(node, inputs, inputs[1], int(inputs[3])),)


@reference("SparseSegmentSumGradV2", "SparseSegmentMeanGradV2", "SparseSegmentSqrtNGradV2")
def _sparse_segment_grad_v2(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute the gradient's rows for distinct indices, and these indices.

    The rows are in the order of the indices.
    """
    _check_sparse_segments(inputs)
    indices = inputs[1]
    order = stable_order(indices)
    ascending = indices[order]
    starts = run_starts([ascending], indices.size)
    places = np.empty(indices.size, np.intp)
    places[order] = np.repeat(np.arange(starts.size), np.diff(np.append(starts, indices.size)))
    return _scattered_gradient(node, inputs, places, starts.size), ascending[starts]


def _check_sparse_segments(inputs: Arrays) -> None:
    dy, indices, ids, rows_input = inputs
    rows = int(rows_input)
    if indices.size != ids.size:
        invalid("segment_ids and indices should have same size.")
    if (ids < 0).any() or (ids >= dy.shape[0]).any():
        first = int(np.flatnonzero((ids < 0) | (ids >= dy.shape[0]))[0])
        invalid(f"Segment id {ids[first]} out of range [0, {dy.shape[0]}).")
    if (indices < 0).any() or (indices >= rows).any():
        first = int(np.flatnonzero((indices < 0) | (indices >= rows))[0])
        invalid(f"Index {indices[first]} out of range [0, {rows}).")


def _scattered_gradient(
    node: NodeSpec, inputs: Arrays, places: np.ndarray, rows: int
) -> np.ndarray:
    """Add each segment's gradient at its places to `rows` rows of zeros."""
    dy, _, ids, _ = inputs
    out = np.zeros((rows, *dy.shape[1:]), wide(dy).dtype)
    if not ids.size:
        return out.astype(dy.dtype)
    scale = _SCALES[node.op.removeprefix("SparseSegment").partition("Grad")[0]]
    counts = np.maximum(np.bincount(ids, minlength=dy.shape[0]), 1)
    weights = (1 / scale(counts)).astype(out.dtype).reshape(-1, *([1] * (dy.ndim - 1)))
    update_rows(np.add, out, places, (wide(dy) * weights)[ids])
    return out.astype(dy.dtype)


@reference("Bincount")
def _bincount(node: NodeSpec, inputs: Arrays) -> Arrays:
    values, size_input, weights = inputs
    if size_input.size != 1:
        invalid(f"Shape must be rank 0 but is rank {size_input.ndim}")
    size = int(size_input.reshape(()))
    if size < 0:
        invalid(f"size ({size}) must be non-negative")
    if weights.size and weights.shape != values.shape:
        invalid("Input indices and weights must have the same shape")
    flat = values.reshape(-1)
    if (flat < 0).any():
        invalid("Input arr must be non-negative!")
    keep = flat < size
    check_fits_in_memory((size,), weights.dtype, copies=2)
    if not weights.size:
        return (np.bincount(flat[keep], minlength=size).astype(weights.dtype),)
    out = np.zeros(size, weights.dtype)
    update_rows(np.add, out, flat[keep], weights.reshape(-1)[keep])
    return (out,)


@reference("DenseBincount")
def _dense_bincount(node: NodeSpec, inputs: Arrays) -> Arrays:
    values, size_input, weights = inputs
    size = int(size_input)
    binary = node.attrs.get("binary_output", False)
    if values.ndim > 2:
        invalid("Shape must be at most rank 2 but is rank " + str(values.ndim))
    if size < 0:
        invalid(f"size ({size}) must be non-negative")
    if (values < 0).any():
        invalid("Input arr must be non-negative!")
    if weights.size and weights.shape != values.shape:
        invalid("Input indices and weights must have the same shape")
    shape = (*values.shape[:-1], size) if values.ndim == 2 else (size,)
    check_fits_in_memory(shape, weights.dtype, copies=2)
    out = np.zeros(shape, weights.dtype)
    keep = values < size
    places = values[keep].astype(np.intp, copy=False)
    if values.ndim == 2:
        places = places + np.nonzero(keep)[0] * size
    flat = out.reshape(-1)
    if binary:
        flat[places] = 1
    elif weights.size:
        update_rows(np.add, flat, places, weights[keep])
    else:
        flat[:] = np.bincount(places, minlength=flat.size)
    return (out,)


@reference("HistogramFixedWidth")
def _histogram(node: NodeSpec, inputs: Arrays) -> Arrays:
    values, limits, bins_input = inputs
    if limits.shape != (2,):
        invalid("value_range should be a vector of 2 elements.")
    low, high = limits
    bins = int(bins_input)
    if not low < high:
        invalid(
            f"value_range should satisfy value_range[0] < value_range[1], but got '[{low:g}, "
            f"{high:g}]'"
        )
    if bins <= 0:
        invalid(f"nbins should be a positive number, but got '{bins}'")
    step = (np.float64(high) - np.float64(low)) / bins
    flat = values.reshape(-1).astype(np.float64)
    if np.isnan(flat).any():
        invalid("Histogram values must not contain NaN")
    place = np.clip(np.floor((flat - np.float64(low)) / step), 0, bins - 1).astype(np.int64)
    return (np.bincount(place, minlength=bins).astype(node.attrs["dtype"].as_numpy_dtype),)


@reference("UnsortedSegmentJoin")
def _unsorted_segment_join(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Join the strings of each segment in the order of the rows."""
    data, ids, wanted = np.asarray(inputs[0], object), np.asarray(inputs[1]), np.asarray(inputs[2])
    if wanted.ndim:
        raise invalid_strings("Number of segments must be a scalar")
    count = int(wanted)
    if count < 0:
        raise invalid_strings("Number of segments must be non-negative")
    if data.ndim < ids.ndim:
        raise invalid_strings(
            f"Invalid segment_id rank {ids.ndim} for input with {data.ndim} dimension(s)"
        )
    for rank, (size, expected) in enumerate(zip(ids.shape, data.shape)):
        if size != expected:
            raise invalid_strings(
                f"Segment dimension is {size} while input dimension is {expected} in rank {rank}"
            )
    rest = data.shape[ids.ndim :]
    rows = data.reshape(ids.size, int(np.prod(rest, dtype=np.int64)))
    joined: list[list[list[bytes]]] = [[[] for _ in range(rows.shape[1])] for _ in range(count)]
    for row, segment in zip(rows, ids.reshape(-1).tolist(), strict=True):
        if not 0 <= segment < count:
            raise invalid_strings(
                "segment_ids are not allowed to exceed num_segments or to have negative values."
            )
        for column, item in zip(joined[segment], row, strict=True):
            column.append(item)
    separator = node.attrs["separator"]
    return (
        as_strings(
            [separator.join(items) for columns in joined for items in columns], (count, *rest)
        ),
    )
