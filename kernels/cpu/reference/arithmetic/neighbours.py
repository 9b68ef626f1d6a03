"""Find the nearest of points, and fit monotonic rows, in NumPy."""

from __future__ import annotations

import numpy as np

from tfjit.kernels.cpu.reference.inputs import Arrays, compute_dtype, invalid
from tfjit.kernels.registry import NodeSpec, reference

_BLOCK_BYTES = 16 << 20  # of distances at a time


@reference("NearestNeighbors")
def _nearest(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Return the k nearest centers of each point, the nearest first.

    points [n, d], centers [m, d], k -> indices int64 and squared distances float32 [n, min(k, m)].
    """
    points, centers, k = inputs
    for value, name in ((points, "points"), (centers, "centers")):
        if value.ndim != 2:
            invalid(f"Input {name} should be a matrix.")
    if k.ndim:
        invalid("Input k should be a scalar.")
    if points.shape[1] != centers.shape[1]:
        invalid(
            f"Expected point_dimensions == center_dimensions: {points.shape[1]} vs "
            f"{centers.shape[1]}."
        )
    if not len(points):
        invalid("Expected points.rows() > 0.")
    count = min(int(k), len(centers))
    if count < 0:
        invalid(f"Expected k >= 0, but got {count}.")
    places = np.zeros((len(points), count), np.int64)
    found = np.zeros((len(points), count), np.float32)
    if not count:
        return places, found
    step = max(1, _BLOCK_BYTES // (8 * len(centers)))
    wide = centers.astype(np.float64)
    norms = np.square(wide).sum(1)
    with np.errstate(all="ignore"):
        for start in range(0, len(points), step):
            block = points[start : start + step].astype(np.float64)
            distances = np.square(block).sum(1)[:, None] + norms - 2 * (block @ wide.T)
            order = np.argsort(distances, 1, kind="stable")[:, :count]
            places[start : start + step] = order
            nearest = np.maximum(np.take_along_axis(distances, order, 1), 0)
            found[start : start + step] = nearest
    return places, found


@reference("IsotonicRegression")
def _isotonic(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Fit each row by the nearest row that never rises.

    input [..., n] -> the fit, and the segment int32 of equal values that each element is in.
    Neighbours in the wrong order are pooled (Barlow et al. 1972, "pool adjacent violators").
    """
    x = inputs[0]
    if not x.ndim:
        invalid("input must be at least a vector")
    dtype = node.attrs["output_dtype"].as_numpy_dtype
    rows = x.reshape(-1, x.shape[-1]) if x.size else x.reshape(0, x.shape[-1])
    fit = np.zeros(rows.shape, compute_dtype(dtype))
    segments = np.zeros(rows.shape, np.int32)
    with np.errstate(all="ignore"):
        for row, out, segment in zip(rows.astype(np.float64), fit, segments, strict=True):
            lengths, means = _pools(row.tolist())
            out[:] = np.repeat(means, lengths)
            segment[:] = np.repeat(np.arange(len(lengths)), lengths)
    return fit.astype(dtype, copy=False).reshape(x.shape), segments.reshape(x.shape)


def _pools(values: list[float]) -> tuple[list[int], list[float]]:
    """Return the lengths and means of the pools of one row."""
    lengths: list[int] = []
    sums: list[float] = []
    for value in values:
        lengths.append(1)
        sums.append(value)
        while len(sums) > 1 and sums[-1] / lengths[-1] > sums[-2] / lengths[-2]:
            length, total = lengths.pop(), sums.pop()
            lengths[-1] += length
            sums[-1] += total
    return lengths, [total / length for total, length in zip(sums, lengths, strict=True)]
