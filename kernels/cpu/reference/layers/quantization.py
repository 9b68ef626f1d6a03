"""Quantise, dequantise and requantise tensors in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfjit.kernels.cpu.reference.inputs import Arrays, invalid, shape_text
from tfjit.kernels.cpu.reference.quantized_values import (
    Array,
    f32,
    f64,
    integer,
    levels,
    quantized,
    scalar,
)
from tfjit.kernels.registry import NodeSpec, reference


def round_half_away(values: Array) -> Array:
    """Return the nearest whole numbers; halves go away from zero."""
    whole = np.trunc(values)
    return np.where(np.abs(values - whole) >= 0.5, whole + np.sign(values), whole)


class Range:
    """Map integers to the floats between `low` and `high`.

    TensorFlow spreads 2**bits steps over the range times 2**bits / (2**bits - 1), and puts its low
    end on a multiple of the step.
    """

    def __init__(self, low: Any, high: Any, dtype: Any) -> None:
        self.low, self.high, self.info = f32(low), f32(high), integer(dtype)
        steps = 2.0**self.info.bits
        self.empty = bool(low == high)
        width = (f64(self.high) - f64(self.low)) * (steps / (steps - 1))
        with np.errstate(all="ignore"):
            self.step, self.per_unit = f64(width) / steps, steps / f64(width)

    def floats(self, whole: Array) -> Array:
        """Return the floats that integers represent, float32."""
        if self.empty:
            return np.full(whole.shape, self.low)
        step = f32(self.step)
        first = round_half_away(np.asarray(self.low / step)) * step
        return (first + (whole.astype(f64) - self.info.min) * self.step).astype(f32)

    def unclamped(self, values: Array) -> Array:
        """Return the integers nearest to floats, int64.

        They may lie outside of the type.
        """
        if self.empty:
            return np.full(np.shape(values), self.info.min, np.int64)
        wide = np.asarray(values, f64)
        nearest = (
            round_half_away(wide * self.per_unit)
            - round_half_away(np.asarray(f64(self.low) * self.per_unit))
            + self.info.min
        )
        return np.clip(nearest, -(2.0**62), 2.0**62).astype(np.int64)

    def integers(self, values: Array) -> Array:
        """Return the integers nearest to floats, within the type."""
        return np.clip(self.unclamped(values), self.info.min, self.info.max)


def _ends(node: NodeSpec, x: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """Return the ends of the range, shaped to broadcast against x.

    With an axis each of its slices has a range.
    """
    axis = node.attrs.get("axis", -1)
    if axis == -1:
        for value, name in ((low, "min_range"), (high, "max_range")):
            if value.size != 1:
                invalid(f"{name} must be a scalar if axis is unspecified")
        return low.reshape(()), high.reshape(())
    if not 0 <= axis < x.ndim:
        invalid(f"Axis must be less than input dimension({x.ndim}), got {axis}")
    shape = [-1 if i == axis else 1 for i in range(x.ndim)]
    for value, name in ((low, "min_range"), (high, "max_range")):
        if value.shape != (x.shape[axis],):
            invalid(f"{name} must be a vector of size {x.shape[axis]}")
    return low.reshape(shape), high.reshape(shape)


def _by_scale(
    x: Array, low: Array, high: Array, node: NodeSpec, info: Any
) -> tuple[Array, Array, Array]:
    """Return (integers, low, high) of mode SCALED.

    0 stays 0, and the ends move out to the values of the least and greatest integers.
    """
    least, most = f32(info.min + bool(node.attrs["narrow_range"])), f32(info.max)
    largest = np.finfo(f32).max
    by_low = np.where(least * low > 0, least / low, largest)
    by_high = np.where(most * high > 0, most / high, largest)
    scale = np.minimum(by_low, by_high).astype(f32)
    low, high = (least / scale).astype(f32), (most / scale).astype(f32)
    scaled = np.minimum(np.maximum(x, low), high) * scale
    whole = (
        np.rint(scaled) if node.attrs["round_mode"] == b"HALF_TO_EVEN" else round_half_away(scaled)
    )
    return np.clip(whole.astype(f64), info.min, info.max), low, high


@reference("QuantizeV2")
def _quantize(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Quantise floats.

    input float32, min_range, max_range (scalars, or one a slice of `axis`) -> integers, and the
    values of their ends.
    """
    x = inputs[0]
    dtype = node.attrs["T"].as_numpy_dtype
    info = integer(dtype)
    mode = node.attrs["mode"]
    if node.attrs["round_mode"] == b"HALF_TO_EVEN" and mode != b"SCALED":
        invalid(
            "Round mode 'HALF_TO_EVEN' only supported for mode 'SCALED', but mode is "
            f"'{mode.decode()}'."
        )
    given = _ends(node, x, *inputs[1:3])
    minimum = f32(node.attrs["ensure_minimum_range"])
    with np.errstate(all="ignore"):
        low = np.minimum(f32(0), given[0])
        if (given[0] > given[1]).any():
            invalid("input_max_range must be larger than input_min_range.")
        margin = np.maximum(f32(1), np.maximum(np.abs(given[0]), np.abs(given[1]))) * minimum
        high = np.maximum(f32(0), np.maximum(given[1], low + margin)).astype(f32)
        if mode == b"SCALED":
            whole, low, high = _by_scale(x, low, high, node, info)
        elif mode == b"MIN_FIRST" and low.ndim == 0:
            whole = _min_first(x, low, high, info)
        else:
            half = f32((info.max - float(info.min) + 1) / 2 if info.min < 0 else 0)
            scale = f32(info.max - float(info.min)) / (high - low)
            moved = (np.minimum(np.maximum(x, low), high) - low) * scale - half
            whole = np.clip(round_half_away(moved).astype(f64), info.min, info.max)
    whole = np.where(np.isnan(whole), info.min, whole)
    ends = (np.asarray(end, f32).reshape(inputs[1].shape) for end in (low, high))
    return quantized(whole.astype(np.int64), dtype), *ends


def _min_first(x: Array, low: Array, high: Array, info: Any) -> Array:
    """Quantise with a float32 step, counted from the low end.

    The low end is rounded to whole steps. For quint8 TensorFlow has oneDNN's kernel, which rounds
    the sum once, halves to even.
    """
    per_unit = f32(2.0**info.bits - 1) / f32(high - low)
    if info.max == 255:
        moved = np.rint(x * per_unit - f32(low) * per_unit)
    else:
        first = round_half_away(np.asarray(f32(low * per_unit)))
        moved = round_half_away(x * per_unit) - (first - f32(info.min))
    return np.clip(moved.astype(f64), info.min, info.max)


@reference("Dequantize")
def _dequantize(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Dequantise integers.

    input quantised, min_range, max_range (scalars, or one a slice of `axis`) -> floats.
    """
    whole = levels(inputs[0])
    low, high = _ends(node, whole, *inputs[1:3])
    info = integer(inputs[0].dtype)
    mode = node.attrs["mode"]
    with np.errstate(all="ignore"):
        if mode == b"SCALED":
            least = info.min + bool(node.attrs["narrow_range"])
            by_high = high / f32(info.max)
            scale = by_high if info.min == 0 else np.maximum(low / f32(least), by_high)
            out = whole.astype(f32) * scale.astype(f32)
        elif mode == b"MIN_FIRST" and low.ndim == 0:
            out = _from_min_first(whole, f32(low), f32(high), info)
        else:
            half = f32((info.max - float(info.min) + 1) / 2 if info.min < 0 else 0)
            scale = (high - low) / f32(info.max - float(info.min))
            out = (whole.astype(f32) + half) * scale + low
    return (np.asarray(out, f32).astype(node.attrs["dtype"].as_numpy_dtype, copy=False),)


def _from_min_first(whole: Array, low: Any, high: Any, info: Any) -> Array:
    if low == high:
        return np.full(whole.shape, low)
    steps = 2.0**info.bits
    step = f32((f64(high) - f64(low)) * (steps / (steps - 1)) / steps)
    first = round_half_away(np.asarray(low / step)) * step
    return (whole.astype(f32) - f32(info.min)) * step + first


def _checked_range(low: Array, high: Array) -> tuple[Any, Any]:
    return scalar(low, "input_min"), scalar(high, "input_max")


def move(whole: Array, given: Range, wanted: Range) -> Array:
    """Convert integers of one range to integers of another.

    From 32 bits to unsigned 8 the conversion is a product in fixed point of 16 bits.
    """
    if given.info.bits != 32 or wanted.info.max != 255 or wanted.empty:
        return wanted.integers(given.floats(whole))
    width = f64(wanted.high) - f64(wanted.low)
    scale = np.trunc(255 * 65536 * (f64(given.high) - f64(given.low)) / width)
    middle = np.trunc((f64(given.low) + f64(given.high)) / 2 * 255 * 65536 / width)
    zero = round_half_away(np.asarray(f64(wanted.low) * 255 / width))
    moved = np.floor(whole.astype(f64) * (scale / 2.0**32)) + middle - zero * 65536 + 32768
    return np.clip(np.floor(moved / 65536), 0, 255)


@reference("QuantizeDownAndShrinkRange")
def _shrink(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Requantise to fewer bits, in the range that the values use.

    Inputs: input, input_min, input_max.
    """
    whole = levels(inputs[0])
    given = Range(*_checked_range(*inputs[1:3]), inputs[0].dtype)
    low, high = _used(whole, given)
    dtype = node.attrs["out_type"].as_numpy_dtype
    return (
        quantized(move(whole, given, Range(low, high, dtype)), dtype),
        np.asarray(low),
        np.asarray(high),
    )


def _used(whole: Array, given: Range) -> tuple[Any, Any]:
    """Return the range of floats in use, 0 counted."""
    if not whole.size:
        return f32(0), f32(0)
    ends = given.floats(np.array([whole.min(), whole.max()]))
    return np.minimum(f32(0), ends[0]), np.maximum(f32(0), ends[1])


@reference("RequantizationRange")
def _requantization_range(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute the range that the values use.

    Inputs: input, input_min, input_max.
    """
    if not inputs[1].size or not inputs[2].size:
        invalid("input_min and input_max must not be empty")
    given = Range(inputs[1].reshape(-1)[0], inputs[2].reshape(-1)[0], inputs[0].dtype)
    low, high = _used(levels(inputs[0]), given)
    return np.asarray(low), np.asarray(high)


@reference("Requantize")
def _requantize(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Requantise to the requested range.

    input, input_min, input_max, requested_output_min, requested_output_max -> integers of the
    requested range, and that range.
    """
    whole = levels(inputs[0])
    given = Range(*_checked_range(*inputs[1:3]), inputs[0].dtype)
    low, high = scalar(inputs[3], "requested_output_min"), scalar(inputs[4], "requested_output_max")
    if low > 0:
        invalid(f"requested_output_min must be <= 0, but got {low:g}")
    if high < low:
        invalid(
            f"requested_output_max must be >= requested_output_min, but got {high:g} and {low:g}"
        )
    dtype = node.attrs["out_type"].as_numpy_dtype
    return (
        quantized(move(whole, given, Range(low, high, dtype)), dtype),
        np.asarray(low),
        np.asarray(high),
    )


@reference("QuantizedReshape")
def _reshape(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Reshape a quantised tensor; its range stays.

    Inputs: tensor, shape, input_min, input_max.
    """
    x, shape, low, high = inputs
    if shape.ndim != 1:
        invalid(f"sizes input must be 1-D, not {shape_text(shape)}")
    sizes = [int(v) for v in shape]
    if sizes.count(-1) > 1:
        first = sizes.index(-1)
        invalid(f"Only one input size may be -1, not both {first} and {sizes.index(-1, first + 1)}")
    known = int(np.prod([v for v in sizes if v != -1], dtype=np.int64))
    if -1 in sizes:
        sizes[sizes.index(-1)] = x.size // known if known else 0
    if int(np.prod(sizes, dtype=np.int64)) != x.size:
        invalid(
            f"Input to reshape is a tensor with {x.size} values, but the requested shape has "
            f"{int(np.prod(sizes, dtype=np.int64))}"
        )
    for value in (low, high):
        if value.size != 1:
            invalid(f"Input min and max must have one element{shape_text(value)}")
    return x.reshape(sizes), low.reshape(()), high.reshape(())


@reference("RequantizationRangePerChannel")
def _range_per_channel(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute the range that the values of all channels use.

    input [..., channels], input_min [channels], input_max [channels] -> the two ends.
    """
    whole = levels(inputs[0]).astype(np.int64)
    lows, highs = _channel_ranges(inputs, by_low=False)
    rows = whole.reshape(-1, len(highs))
    with np.errstate(all="ignore"):
        most = np.maximum(np.abs(lows), np.abs(highs))
        used = np.abs(rows).max(0, initial=0).astype(f32)
        high = f32(max((most * used / f32(2**31)).max(initial=0), 0))
    high = min(high, f32(node.attrs["clip_value_max"]))
    low = f32(0) if not (rows < 0).any() else -high
    return np.asarray(low), np.asarray(high)


def _channel_ranges(inputs: Arrays, *, by_low: bool) -> tuple[Array, Array]:
    """Return the ends of the channels' ranges.

    by_low: the size of input_min is the number of channels.
    """
    x, lows, highs = inputs[:3]
    depth = (lows if by_low else highs).size
    for value, name in ((lows, "input_min"), (highs, "input_max")):
        if value.ndim != 1 or value.size != depth:
            invalid(f"{name} has incorrect size, expected {depth} was {value.size}")
    if not x.ndim or x.shape[-1] != depth or not depth:
        invalid(f"input has {shape_text(x)}, which has no ranges of {depth} channels")
    return lows, highs


@reference("RequantizePerChannel")
def _requantize_per_channel(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Requantise channels, of different ranges, to one range.

    input [..., channels], input_min [channels], input_max [channels], requested_output_min,
    requested_output_max -> integers of the requested range, and that range.
    """
    if inputs[0].ndim != 4:
        invalid("Current RequantizePerChannel operatorsupports 4D tensors only.")
    lows, highs = _channel_ranges(inputs, by_low=True)
    low, high = scalar(inputs[3], "requested_output_min"), scalar(inputs[4], "requested_output_max")
    dtype = node.attrs["out_type"].as_numpy_dtype
    info = integer(dtype)
    if info.min < 0 <= low:
        invalid(f"If out_type is QINT8, requested_output_max must be non negative, got {low:g}")
    with np.errstate(all="ignore"):
        given = np.maximum(np.abs(lows), np.abs(highs))
        scale = f32(info.max) * (given / max(abs(low), abs(high)) / f32(2**31))
        moved = np.rint(levels(inputs[0]).astype(f32) * scale.astype(f32))
    moved = np.nan_to_num(np.clip(moved, info.min, info.max))
    return quantized(moved, dtype), np.asarray(low), np.asarray(high)
