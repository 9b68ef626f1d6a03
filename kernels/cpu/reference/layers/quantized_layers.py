"""Compute layers of quantised tensors in NumPy.

Products and sums are of 32-bit integers, which wrap around as TensorFlow's do.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tfjit.framework.errors import UnimplementedError
from tfjit.kernels.cpu.conv.window import layout_of
from tfjit.kernels.cpu.reference.inputs import Arrays, invalid, shape_text
from tfjit.kernels.cpu.reference.layers.convolution import convolve
from tfjit.kernels.cpu.reference.layers.pooling import max_pool, window_sums
from tfjit.kernels.cpu.reference.layers.quantization import Range
from tfjit.kernels.cpu.reference.quantized_values import (
    Array,
    f32,
    f64,
    integer,
    levels,
    quantized,
    scalar,
)
from tfjit.kernels.executor.blas_threads import on_free_cores
from tfjit.kernels.registry import NodeSpec, reference


def _range(low: Array, high: Array, dtype: npt.DTypeLike, high_name: str, low_name: str) -> Range:
    """Return a range that is not empty; the names are for messages."""
    ends = scalar(low, low_name), scalar(high, high_name)
    if not ends[1] > ends[0]:
        invalid(f"{high_name} must be larger than {low_name}.")
    return Range(*ends, dtype)


def _zero(given: Range) -> int:
    """Return the integer of 0, perhaps outside of the type."""
    return int(given.unclamped(np.zeros((), f32)))


def _wrapped(values: Array, dtype: npt.DTypeLike) -> Array:
    return quantized(values.astype(np.int32), dtype)


def _product_range(a: Range, b: Range, dtype: npt.DTypeLike) -> tuple[Array, Array]:
    """Return the ends of the range of products.

    A level is the product of both levels.
    """
    with np.errstate(all="ignore"):
        level = f32(1)
        for given in (a, b):
            level = level * ((given.high - given.low) / f32(given.info.max - int(given.info.min)))
        out = integer(dtype)
        return np.asarray(level * f32(out.min)), np.asarray(level * f32(out.max))


@reference("QuantizedMatMul")
@on_free_cores
def _matmul(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Multiply matrices.

    a [n, k], b [k, m] (transposed where the attrs say so), min_a, max_a, min_b, max_b -> qint32
    [n, m], and its range.
    """
    a, b = inputs[:2]
    range_a = _range(inputs[2], inputs[3], a.dtype, "max_a", "min_a")
    range_b = _range(inputs[4], inputs[5], b.dtype, "max_b", "min_b")
    for index, value in enumerate((a, b)):
        if value.ndim != 2:
            invalid(f"In[{index}] is not a matrix")
    left = levels(a.T if node.attrs["transpose_a"] else a).astype(np.int64) - _zero(range_a)
    right = levels(b.T if node.attrs["transpose_b"] else b).astype(np.int64) - _zero(range_b)
    if left.shape[1] != right.shape[0]:
        invalid(f"Matrix size-incompatible: In[0]: {shape_text(a)}, In[1]: {shape_text(b)}")
    dtype = node.attrs["Toutput"].as_numpy_dtype
    return _wrapped(_exact(left, right), dtype), *_product_range(range_a, range_b, dtype)


def _exact(left: Array, right: Array) -> Array:
    """Return the exact product of integer matrices.

    BLAS computes it where floats hold each sum exactly.
    """
    largest = [int(np.abs(m).max(initial=0)) for m in (left, right)]
    bound = left.shape[1] * largest[0] * largest[1]
    for kind, digits in ((np.float32, 24), (np.float64, 53)):
        if bound < 1 << digits:
            return (left.astype(kind) @ right.astype(kind)).astype(np.int64)
    return left @ right


def _operands(inputs: Arrays, names: Sequence[str]) -> tuple[Range, Range]:
    """Return the ranges of x and y; their shapes have to broadcast.

    names: of both ends of both ranges, for messages.
    """
    x, y = inputs[:2]
    try:
        np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        invalid(f"Incompatible shapes: {shape_text(x)} vs. {shape_text(y)}")
    return (
        _range(inputs[2], inputs[3], x.dtype, *names[:2]),
        _range(inputs[4], inputs[5], y.dtype, *names[2:]),
    )


@reference("QuantizedAdd")
def _add(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Add with broadcasting.

    x, y, min_x, max_x, min_y, max_y -> qint32, and its range: symmetric, with much room.
    """
    given = _operands(inputs, ("max_x", "min_x", "max_y", "min_y"))
    dtype = node.attrs["Toutput"].as_numpy_dtype
    with np.errstate(all="ignore"):
        high = max(abs(end) for r in given for end in (r.low, r.high)) * f32(1 << 14)
        out = Range(-high, high, dtype)
        one = 0 if inputs[0].size == 1 else 1 if inputs[1].size == 1 else None
        x, y = (
            _moved_by_steps(r, out, levels(v), exact=i == one)
            for i, (r, v) in enumerate(zip(given, inputs[:2], strict=True))
        )
        return _wrapped(x + y, dtype), np.asarray(-high), np.asarray(high)


def _moved_by_steps(given: Range, out: Range, whole: Array, *, exact: bool) -> Array:
    """Convert integers of one range to another's.

    A step is a whole number unless `exact`.
    """
    if exact:
        return out.integers(given.floats(whole))
    zero, one = out.unclamped(given.floats(np.arange(2)))
    return zero + whole.astype(np.int64) * (one - zero)


@reference("QuantizedMul")
def _mul(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Multiply elements with broadcasting.

    x, y, min_x, max_x, min_y, max_y -> qint32, and its range.
    """
    given = _operands(inputs, ("max_x", "min_a", "max_x", "min_b"))  # TensorFlow's names
    dtype = node.attrs["Toutput"].as_numpy_dtype
    x, y = (levels(v).astype(np.int64) - _zero(r) for r, v in zip(given, inputs[:2], strict=True))
    return _wrapped(x * y, dtype), *_product_range(*given, dtype)


class _Eigen:
    """Convert integers to floats and back in float32.

    TensorFlow's vectorised code does so.
    """

    def __init__(
        self, low: Array | np.float32, high: Array | np.float32, dtype: npt.DTypeLike
    ) -> None:
        self.low, self.high, self.info = f32(low), f32(high), integer(dtype)
        steps = 2.0**self.info.bits
        width = f64(self.high - self.low) * (steps / (steps - 1))
        self.empty = bool(low == high)
        with np.errstate(all="ignore"):
            self.step = f32(width / steps)
            self.per_unit = f32(steps / width)
            self.first = f32(np.round(f64(self.low) / f64(self.step))) * self.step

    def floats(self, whole: Array) -> Array:
        if self.empty:
            return np.full(whole.shape, self.low)
        with np.errstate(all="ignore"):
            offset = self.first - f32(self.info.min) * self.step
            return offset + whole.astype(f32) * self.step

    def integers(self, values: Array) -> Array:
        if self.empty:
            return np.full(values.shape, self.info.min)
        with np.errstate(all="ignore"):
            zero = np.round(self.low * self.per_unit) - f32(self.info.min)
            moved = np.round(values * self.per_unit) - zero
            return np.nan_to_num(np.clip(moved.astype(f64), self.info.min, self.info.max)).astype(
                np.int64
            )


@reference("QuantizedBiasAdd")
def _bias_add(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Add a bias a channel.

    input [..., c], bias [c], min_input, max_input, min_bias, max_bias -> qint32, and its range.
    """
    x, bias = inputs[:2]
    ends = [
        scalar(value, name)
        for value, name in zip(
            inputs[2:], ("min_input", "max_input", "min_bias", "max_bias"), strict=True
        )
    ]
    if x.ndim < 2:
        invalid(f"Input tensor must be at least 2D: {shape_text(x)}")
    if bias.ndim != 1:
        invalid(f"Biases must be 1D: {shape_text(bias)}")
    if bias.shape[0] != x.shape[-1]:
        invalid(
            "Must provide as many biases as the last dimension of the input tensor: "
            f"{shape_text(bias)} vs. {shape_text(x)}"
        )
    if not bias.size:
        invalid("Must provide at least 1 bias")
    dtype = node.attrs["out_type"].as_numpy_dtype
    with np.errstate(all="ignore"):
        high = max(ends[1], -ends[0], ends[3], -ends[2]) * f32(1 << 17)
        out = _Eigen(-high, high, dtype)
        total = out.integers(_Eigen(ends[0], ends[1], x.dtype).floats(levels(x))) + out.integers(
            _Eigen(ends[2], ends[3], bias.dtype).floats(levels(bias))
        )
        zero = int(Range(-high, high, dtype).integers(np.zeros((), f32)))
    return _wrapped(total + zero, dtype), np.asarray(-high), np.asarray(high)


@reference("QuantizedRelu", "QuantizedRelu6")
def _relu(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Bound quantised values below by 0, and above by 6 for `Relu6`.

    features, min_features, max_features -> the values, and the range as it was.
    """
    x = inputs[0]
    low, high = scalar(inputs[1], "min_features"), scalar(inputs[2], "max_features")
    given = Range(low, high, x.dtype)
    out = np.maximum(levels(x), given.integers(np.zeros((), f32)))
    if node.op == "QuantizedRelu6":
        out = np.minimum(out, given.integers(np.full((), 6, f32)))
    return quantized(out, x.dtype), np.asarray(low), np.asarray(high)


@reference("QuantizedAvgPool")
def _avg_pool(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Average windows; padding is left out, and means are rounded to even.

    input [b, h, w, c], min_input, max_input -> [b, out_h, out_w, c], and the range.
    """
    x = inputs[0]
    _check_window(node, x)
    low, high = scalar(inputs[1], "min_input"), scalar(inputs[2], "max_input")
    total, counts = window_sums(layout_of(node.attrs), levels(x).astype(np.int64))
    return (
        quantized(np.rint(total / counts), x.dtype),
        np.asarray(low),
        np.asarray(high),
    )


@reference("QuantizedMaxPool")
def _max_pool(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Take the largest value of each window.

    input [b, h, w, c], min_input, max_input -> [b, out_h, out_w, c], and the range.
    """
    x = inputs[0]
    _check_window(node, x)
    low, high = scalar(inputs[1], "min_input"), scalar(inputs[2], "max_input")
    (out,) = max_pool(node, [levels(x)])
    return quantized(out, x.dtype), np.asarray(low), np.asarray(high)


def _check_window(node: NodeSpec, x: Array) -> None:
    for name, what in (("ksize", "window"), ("strides", "stride")):
        if len(node.attrs[name]) != 4:
            invalid(f"Sliding window {name} field must specify 4 dimensions")
        if node.attrs[name][0] != 1:
            invalid(f"Pooling is not yet supported on the batch dimension ({what}).")
    if x.ndim != 4:
        invalid("tensor_in must be 4-dimensional")


def _concat(
    values: Arrays, axis: Array, lows: Arrays, highs: Arrays, *, v1: bool = False
) -> Arrays:
    """Join tensors in one range.

    For signed types it is symmetric. Else it covers 0 and, in version 1, all of theirs; in version
    2 it starts at 0.
    """
    first = values[0]
    rank = first.ndim
    least = 0 if v1 else -rank
    if axis.ndim:
        invalid(f"{'concat_dim' if v1 else 'axis'} must be a scalar")
    if not least <= axis < rank:
        invalid(
            f"ConcatOp : Expected concatenating dimensions in the range [{least}, {rank}), but got "
            f"{int(axis)}"
        )
    place = int(axis) % rank
    for i, value in enumerate(values):
        if value.ndim != rank or any(
            p != place and a != b
            for p, (a, b) in enumerate(zip(value.shape, first.shape, strict=True))
        ):
            invalid(
                "ConcatOp : Dimensions of inputs should match: shape[0] = "
                f"{shape_text(first)} vs. shape[{i}] = {shape_text(value)}"
            )
    lowest = min([f32(0), *(scalar(v, "input_min") for v in lows)])
    high = max(scalar(v, "input_max") for v in highs)
    low = lowest if v1 else f32(0)
    if integer(first.dtype).min < 0:
        high = max(abs(lowest), abs(high))
        low = -high
    out = _Eigen(low, high, first.dtype)
    parts = []
    for value, given_low, given_high in zip(values, lows, highs, strict=True):
        whole = levels(value)
        if given_low != low or given_high != high:
            whole = out.integers(_Eigen(given_low[()], given_high[()], first.dtype).floats(whole))
        parts.append(whole)
    return (
        quantized(np.concatenate(parts, place), first.dtype),
        np.asarray(low, f32),
        np.asarray(high, f32),
    )


@reference("QuantizedConcat")
def _concat_v1(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Join quantised tensors along an axis.

    concat_dim, N values, N minima, N maxima -> the values in one range, and that range.
    """
    n = node.attrs["N"]
    return _concat(
        inputs[1 : 1 + n], inputs[0], inputs[1 + n : 1 + 2 * n], inputs[1 + 2 * n :], v1=True
    )


@reference("QuantizedConcatV2")
def _concat_v2(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Join quantised tensors along an axis.

    N values, axis, N minima, N maxima -> the values in one range, and that range.
    """
    n = node.attrs["N"]
    return _concat(inputs[:n], inputs[n], inputs[1 + n : 1 + 2 * n], inputs[1 + 2 * n :])


@reference("QuantizedInstanceNorm")
def _instance_norm(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Normalise each channel of each image.

    x [b, h, w, c], x_min, x_max -> quint8, and the range that the attrs give or the values use.
    """
    x = inputs[0]
    given = _range_of_norm(inputs, x.dtype)
    whole = levels(x).astype(f32)
    with np.errstate(all="ignore"):
        mean = whole.mean((1, 2), keepdims=True, dtype=f32)
        variance = np.square(whole - mean).mean((1, 2), keepdims=True, dtype=f32)
        scale = f32((given[1] - given[0]) / f32(255))
        epsilon = f32(node.attrs["variance_epsilon"])
        normal = (whole - mean) * scale / np.sqrt(variance * scale * scale + epsilon)
    if node.attrs["output_range_given"]:
        low, high = f32(node.attrs["given_y_min"]), f32(node.attrs["given_y_max"])
    else:
        low, high = (normal.min(), normal.max()) if normal.size else (f32(0), f32(0))
        if high - low < f32(node.attrs["min_separation"]):
            high = low + f32(node.attrs["min_separation"])
    out = _Eigen(low, high, x.dtype).integers(normal)
    return quantized(out, x.dtype), np.asarray(low, f32), np.asarray(high, f32)


def _range_of_norm(inputs: Arrays, dtype: npt.DTypeLike) -> tuple[np.float32, np.float32]:
    if inputs[0].ndim != 4:
        invalid(f"input must be 4-dimensional: {shape_text(inputs[0])}")
    low, high = scalar(inputs[1], "x_min"), scalar(inputs[2], "x_max")
    if not high > low:
        invalid("x_max must be larger than x_min.")
    return low, high


@reference("QuantizedConv2D")
def _conv(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Convolve images.

    input [b, h, w, in_c], filter [k_h, k_w, in_c, out_c], min_input, max_input, min_filter,
    max_filter -> qint32 [b, out_h, out_w, out_c], and its range. Raises UnimplementedError for
    filters of other types than quint8, for which TensorFlow has oneDNN's rules.
    """
    x, w = inputs[:2]
    if integer(w.dtype).min < 0 or integer(x.dtype).min < 0:
        raise UnimplementedError(
            None, None, "QuantizedConv2D has a kernel for input and filter of quint8 alone"
        )
    strides = node.attrs["strides"]
    if tuple(node.attrs["dilations"][1:3]) != (1, 1):
        invalid(
            "Current implementation only supports dilated rate as 1 in the row and column "
            "dimensions."
        )
    if len(strides) != 4:
        invalid("Sliding window strides field must specify 4 dimensions")
    if strides[1] != strides[2]:
        invalid(
            "Current implementation only supports equal length strides in the row and column "
            "dimensions."
        )
    if strides[0] != 1 or strides[3] != 1:
        invalid(
            "Current implementation does not yet support strides in the batch and depth dimensions."
        )
    ranges = (
        Range(scalar(inputs[2], "min_input"), scalar(inputs[3], "max_input"), x.dtype),
        Range(scalar(inputs[4], "min_filter"), scalar(inputs[5], "max_filter"), w.dtype),
    )
    for value, name in ((x, "input"), (w, "filter")):
        if value.ndim != 4:
            invalid(f"{name} must be rank 4 but is rank {value.ndim}")
    if not x.size or not w.size:
        invalid("Invalid input: Shapes dimension cannot be 0.")
    if x.shape[3] != w.shape[2]:
        invalid(f"input and filter must have the same depth: {x.shape[3]} vs {w.shape[2]}")
    layout = layout_of(node.attrs)
    rows, cols = layout.windows(x.shape[1], x.shape[2], (w.shape[0], w.shape[1]))
    shifted = [levels(v).astype(f64) - _zero(r) for v, r in zip((x, w), ranges, strict=True)]
    dtype = node.attrs["out_type"].as_numpy_dtype
    out = convolve(shifted[0], shifted[1], rows, cols).astype(np.int64)
    return _wrapped(out, dtype), *_product_range(*ranges, dtype)
