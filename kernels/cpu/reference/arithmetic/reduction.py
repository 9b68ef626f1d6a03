"""Compute reductions and scans in NumPy.

Empty input, NaN and integers give TensorFlow's answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tfjit.kernels.cpu.reference.inputs import Arrays, contiguous, invalid, shape_text
from tfjit.kernels.registry import NodeSpec, reference


def wide(x: np.ndarray) -> np.ndarray:
    """Return float16 and bfloat16 as float32, in which they are summed."""
    return x.astype(np.float32) if x.dtype.itemsize == 2 and is_float(x) else x


def is_float(x: np.ndarray) -> bool:
    """Return whether the array holds real floating point numbers.

    bfloat16 is included.
    """
    kind = x.dtype.kind  # before the name, which takes NumPy microseconds to make
    return kind == "f" or (kind == "V" and x.dtype.name == "bfloat16")


def reduction_axes(axes: np.ndarray, rank: int) -> tuple[int, ...]:
    """Return axes counted from the front.

    Raises InvalidArgumentError for one outside [-rank, rank) and for one that comes twice.
    """
    out = []
    for axis in axes.reshape(-1).tolist():
        if not -rank <= axis < rank:
            invalid(f"Invalid reduction dimension ({axis} for input with {rank} dimension(s)")
        if axis % rank in out:
            invalid(
                f"Invalid reduction arguments: Axes contains duplicate dimension: {axis % rank}"
            )
        out.append(axis % rank)
    return tuple(sorted(out))


def lowest(dtype: np.dtype[Any]) -> Any:
    """Return the maximum over an empty set: -inf, or the lowest integer."""
    return np.iinfo(dtype).min if dtype.kind in "iu" else dtype.type(-np.inf)


def highest(dtype: np.dtype[Any]) -> Any:
    """Return the minimum over an empty set: inf, or the highest integer."""
    return np.iinfo(dtype).max if dtype.kind in "iu" else dtype.type(np.inf)


def cut_quotient(values: np.ndarray, divisor: Any) -> np.ndarray:
    """Return values / divisor of integers, cut towards zero.

    The divisor is positive.
    """
    quotient = np.abs(values) // divisor
    return (
        np.where(values < 0, -quotient, quotient) if values.dtype.kind == "i" else values // divisor
    )


def _sum(x: np.ndarray, axes: tuple[int, ...], keep: bool) -> np.ndarray:
    return np.sum(wide(x), axis=axes, keepdims=keep, dtype=wide(x).dtype).astype(x.dtype)


def _mean(x: np.ndarray, axes: tuple[int, ...], keep: bool) -> np.ndarray:
    count = 1
    for axis in axes:
        count *= x.shape[axis]
    if x.dtype.kind in "iu":
        sums = np.asarray(
            np.sum(
                x, axis=axes, keepdims=keep, dtype=np.uint64 if x.dtype == np.uint64 else np.int64
            )
        )
        return cut_quotient(sums, max(count, 1)).astype(x.dtype)
    total = np.sum(wide(x), axis=axes, keepdims=keep, dtype=wide(x).dtype)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (total / total.dtype.type(count)).astype(x.dtype)


def _euclidean_norm(x: np.ndarray, axes: tuple[int, ...], keep: bool) -> np.ndarray:
    values = wide(x)
    if x.dtype.kind in "iu":
        return np.sqrt(np.sum(values.astype(np.float64) ** 2, axis=axes, keepdims=keep)).astype(
            x.dtype
        )
    return np.sqrt(
        np.sum(values * np.conj(values), axis=axes, keepdims=keep, dtype=values.dtype)
    ).astype(x.dtype)


def _max(x: np.ndarray, axes: tuple[int, ...], keep: bool) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return np.max(x, axis=axes, keepdims=keep, initial=lowest(x.dtype)).astype(x.dtype)


def _min(x: np.ndarray, axes: tuple[int, ...], keep: bool) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return np.min(x, axis=axes, keepdims=keep, initial=highest(x.dtype)).astype(x.dtype)


def _prod(x: np.ndarray, axes: tuple[int, ...], keep: bool) -> np.ndarray:
    return np.prod(wide(x), axis=axes, keepdims=keep, dtype=wide(x).dtype).astype(x.dtype)


def _all(x: np.ndarray, axes: tuple[int, ...], keep: bool) -> np.ndarray:
    return np.asarray(np.all(x, axis=axes, keepdims=keep))


def _any(x: np.ndarray, axes: tuple[int, ...], keep: bool) -> np.ndarray:
    return np.asarray(np.any(x, axis=axes, keepdims=keep))


_REDUCTIONS: dict[str, Callable[[np.ndarray, tuple[int, ...], bool], np.ndarray]] = {
    "Sum": _sum,
    "Mean": _mean,
    "Max": _max,
    "Min": _min,
    "Prod": _prod,
    "All": _all,
    "Any": _any,
    "EuclideanNorm": _euclidean_norm,
}


@reference(*_REDUCTIONS)
def _reduce(node: NodeSpec, inputs: Arrays) -> Arrays:
    x, axes = inputs
    with np.errstate(over="ignore"):
        return (
            np.asarray(
                _REDUCTIONS[node.op](
                    x, reduction_axes(axes, x.ndim), node.attrs.get("keep_dims", False)
                )
            ),
        )


@reference("ReduceJoin")
def _reduce_join(node: NodeSpec, inputs: Arrays) -> Arrays:
    x, axis_input = inputs
    separator = node.attrs.get("separator", b"")
    axes = [
        a % x.ndim if -x.ndim <= a < x.ndim else invalid(f"Invalid reduction dimension {a}")
        for a in axis_input.reshape(-1).tolist()
    ]
    if len(set(axes)) != len(axes):
        invalid("Duplicate reduction dimension")
    if not axes:
        return (x.copy(),)
    rest = [i for i in range(x.ndim) if i not in axes]
    # The first of the axes runs fastest.
    rows = np.transpose(x, rest + axes[::-1]).reshape([x.shape[i] for i in rest] + [-1])
    out = np.empty(rows.shape[:-1], object)
    for place in np.ndindex(out.shape):
        out[place] = separator.join(rows[place])
    return (
        out.reshape([1 if i in axes else x.shape[i] for i in range(x.ndim)])
        if node.attrs.get("keep_dims")
        else out,
    )


@reference("ArgMax", "ArgMin")
def _arg_extreme(node: NodeSpec, inputs: Arrays) -> Arrays:
    x, axis_input = inputs
    if axis_input.ndim:
        invalid(f"dim must be a scalar, but received tensor of shape: {shape_text(axis_input)}")
    if x.ndim == 0:
        invalid("Expected dimension in the range [0, 0), but got " + str(int(axis_input)))
    axis = int(axis_input)
    if not -x.ndim <= axis < x.ndim:
        invalid(f"Expected dimension in the range [{-x.ndim}, {x.ndim}), but got {axis}")
    axis %= x.ndim
    if x.shape[axis] == 0:
        invalid(f"Reduction axis {axis} is empty in shape {shape_text(x)}")
    if is_float(x):
        # The search starts from the lowest (highest) finite value at index 0 and takes values that
        # are strictly better: NaN never is.
        limits = np.finfo(np.float32 if x.dtype.name == "bfloat16" else x.dtype)
        values = wide(x)
        x = (
            np.maximum(np.where(np.isnan(values), limits.min, values), limits.min)
            if node.op == "ArgMax"
            else values
        )
        if node.op == "ArgMin":
            x = np.minimum(np.where(np.isnan(values), limits.max, values), limits.max)
    found = (np.argmax if node.op == "ArgMax" else np.argmin)(x, axis)
    return (np.asarray(found).astype(node.attrs["output_type"].as_numpy_dtype),)


def _scan(
    node: NodeSpec, inputs: Arrays, scan: Callable[[np.ndarray], np.ndarray], start: Any
) -> np.ndarray:
    """Scan along an axis, inclusive or exclusive, forward or reverse."""
    x, axis_input = inputs
    axis = int(axis_input.reshape(()))
    if not -x.ndim <= axis < x.ndim:
        invalid(f"ScanOp: Expected scan axis in the range [{-x.ndim}, {x.ndim}), but got {axis}")
    rows = np.moveaxis(x, axis, 0)
    if node.attrs.get("reverse", False):
        rows = rows[::-1]
    out = scan(rows)
    if node.attrs.get("exclusive", False) and out.shape[0]:
        out = np.concatenate([np.full_like(out[:1], start), out[:-1]])
    if node.attrs.get("reverse", False):
        out = out[::-1]
    return contiguous(np.moveaxis(out, 0, axis))


@reference("Cumsum")
def _cumsum(node: NodeSpec, inputs: Arrays) -> Arrays:
    return (_scan(node, inputs, lambda rows: np.cumsum(rows, 0, dtype=rows.dtype), 0),)


@reference("Cumprod")
def _cumprod(node: NodeSpec, inputs: Arrays) -> Arrays:
    return (_scan(node, inputs, lambda rows: np.cumprod(rows, 0, dtype=rows.dtype), 1),)


@reference("CumulativeLogsumexp")
def _cumulative_logsumexp(node: NodeSpec, inputs: Arrays) -> Arrays:
    x = inputs[0]

    def scan(rows: np.ndarray) -> np.ndarray:
        values = wide(rows)
        return np.logaddexp.accumulate(values, 0).astype(x.dtype) if rows.shape[0] else rows.copy()

    return (_scan(node, inputs, scan, -np.inf),)
