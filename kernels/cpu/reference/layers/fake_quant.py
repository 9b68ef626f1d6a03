"""Simulate quantisation in NumPy.

Floats are rounded to the values that integers of a few bits represent, and converted back.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tfjit.kernels.cpu.reference.inputs import Arrays, invalid, shape_text
from tfjit.kernels.registry import NodeSpec, reference

Array = np.ndarray
f32 = np.float32


def _nudged(low: Array, high: Array, node: NodeSpec) -> tuple[Array, Array, Array]:
    """Return (low, high, step) of the range with 0 as a level.

    low and high: float32, a scalar or one a channel.
    """
    least = f32(1 if node.attrs["narrow_range"] else 0)
    most = f32((1 << node.attrs["num_bits"]) - 1)
    step = (high - low) / (most - least)
    zero = least - low / step
    whole = np.trunc(zero)
    rounded = np.where(np.abs(zero - whole) >= 0.5, whole + np.sign(zero), whole)
    level = np.where(zero < least, least, np.where(zero > most, most, rounded)).astype(f32)
    return (least - level) * step, (most - level) * step, step


def _fake(x: Array, low: Array, high: Array, node: NodeSpec) -> Array:
    with np.errstate(all="ignore"):
        least, most, step = _nudged(low, high, node)
        inverse = f32(1) / step
        zero = np.floor(-least * inverse + f32(0.5))
        clamped = np.minimum(np.maximum(x, least), most) - least
        out = np.floor(clamped * inverse - zero + f32(0.5)) * step
        return np.where((low == 0) & (high == 0), f32(0), out).astype(f32)


def _check_bits(node: NodeSpec) -> None:
    if not 2 <= node.attrs["num_bits"] <= 16:
        invalid("num_bits must be between 2 and 16, inclusive")


def _range_of_attrs(node: NodeSpec) -> tuple[Array, Array]:
    low, high = f32(node.attrs["min"]), f32(node.attrs["max"])
    if low >= high:
        invalid(f"min has to be smaller than max, was: {low:g} >= {high:g}")
    _check_bits(node)
    return np.asarray(low), np.asarray(high)


@reference("FakeQuantWithMinMaxArgs")
def _fake_args(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Round inputs to 2**num_bits levels between the attrs min and max."""
    return (_fake(inputs[0], *_range_of_attrs(node), node),)


@reference("FakeQuantWithMinMaxArgsGradient")
def _fake_args_gradient(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Pass on the gradients of inputs inside the range.

    gradients, inputs -> gradients of the inputs, 0 outside of the range.
    """
    gradients, x = inputs
    low, high = _range_of_attrs(node)
    if gradients.shape != x.shape:
        invalid(
            f"Inputs to operation {node.name} of type {node.op} must have the same size and shape. "
            " "
            f"Input 0: {shape_text(gradients)} != input 1: {shape_text(x)}"
        )
    least, most, _ = _nudged(low, high, node)
    return (np.where((x >= least) & (x <= most), gradients, f32(0)),)


def _check_scalars(node: NodeSpec, inputs: Arrays) -> None:
    _check_bits(node)
    for value, name in zip(inputs, ("min", "max")):
        if value.ndim:
            invalid(f"`{name}` must be rank 0 but is rank {value.ndim}")


def _check_channels(node: NodeSpec, x: Array, inputs: Arrays) -> None:
    _check_bits(node)
    for value, name in zip(inputs, ("min", "max")):
        if value.ndim != 1:
            invalid(f"`{name}` must be rank 1 but is rank {value.ndim}")
        if x.ndim < 1 or len(value) != x.shape[-1]:
            invalid(
                f"{name} has incorrect size, expected {x.shape[-1] if x.ndim else 1} was "
                f"{len(value)}"
            )


@reference("FakeQuantWithMinMaxVars")
def _fake_vars(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Round inputs to the levels between min [] and max []."""
    x, low, high = inputs
    _check_scalars(node, (low, high))
    return (_fake(x, low, high, node),)


@reference("FakeQuantWithMinMaxVarsPerChannel")
def _fake_channels(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Round each channel to the levels of its range.

    inputs [..., c], min [c], max [c] -> rounded inputs.
    """
    x, low, high = inputs
    _check_channels(node, x, (low, high))
    return (_fake(x, low, high, node),)


def _fake_gradient(
    node: NodeSpec, gradients: Array, x: Array, low: Array, high: Array, axes: tuple[int, ...]
) -> Arrays:
    with np.errstate(all="ignore"):
        least, most, _ = _nudged(low, high, node)
    unset = (low == 0) & (high == 0)
    below, above = (x < least) & ~unset, (x > most) & ~unset
    inside = unset | ((x >= least) & (x <= most))
    zero = f32(0)
    return (
        np.where(inside, gradients, zero),
        np.asarray(np.where(below, gradients, zero).sum(axes)),
        np.asarray(np.where(above, gradients, zero).sum(axes)),
    )


@reference("FakeQuantWithMinMaxVarsGradient")
def _fake_vars_gradient(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute the gradients of the inputs, min and max.

    gradients, inputs, min [], max [] -> gradients of all three. An input outside of the range moves
    the end on its side.
    """
    gradients, x, low, high = inputs
    if gradients.shape != x.shape:
        invalid("gradient and input must be the same size")
    _check_scalars(node, inputs[2:])
    return _fake_gradient(node, gradients, x, low, high, tuple(range(x.ndim)))


@reference("FakeQuantWithMinMaxVarsPerChannelGradient")
def _fake_channels_gradient(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute the gradients of the inputs, min and max by channel.

    gradients [..., c], inputs [..., c], min [c], max [c] -> gradients of all three.
    """
    gradients, x, low, high = inputs
    if gradients.shape != x.shape:
        invalid("gradient and input must be the same size")
    _check_channels(node, x, inputs[2:])
    return _fake_gradient(node, gradients, x, low, high, tuple(range(x.ndim - 1)))


def _levels(signed: bool, bits: int, narrow: bool) -> tuple[int, int]:
    """Return (least, most) integer."""
    if not signed:
        return 0, (1 << bits) - 1
    return -(1 << (bits - 1)) + narrow, (1 << (bits - 1)) - 1


def _rounded_range(x: Array, low: Array, high: Array, node: NodeSpec, bits: int) -> Array:
    """Round x to the levels of a range, in its own dtype.

    low and high broadcast against x.
    """
    kind = x.dtype.type if x.dtype.itemsize > 2 else f32
    wide, low, high = x.astype(kind), low.astype(kind), high.astype(kind)
    least, most = (
        kind(v)
        for v in _levels(node.attrs["signed_input"], bits, bool(node.attrs.get("narrow_range")))
    )
    largest = np.finfo(kind).max
    by_low = np.where(least * low > 0, least / low, largest)
    by_high = np.where(most * high > 0, most / high, largest)
    low_rules = by_low < by_high
    scale = np.where(low_rules, by_low, by_high)
    inverse = np.where(low_rules, low / least, high / most)
    if node.attrs["range_given"]:
        start = np.where(low_rules, low, least * inverse)
        end = np.where(low_rules, most * inverse, high)
        wide = np.minimum(np.maximum(wide, start), end)
    scaled = wide * scale
    up = node.attrs.get("round_mode") == b"HALF_UP"
    whole = np.floor(scaled + kind(0.5)) if up else np.rint(scaled)
    if not node.attrs["range_given"]:
        whole = np.minimum(whole, most)
    return (whole * inverse).astype(x.dtype)


def _along(values: Array, axis: int, rank: int) -> Array:
    """Return values [n] shaped to lie along one axis of `rank`."""
    return values.reshape([-1 if i == axis else 1 for i in range(rank)])


def _check_axis(node: NodeSpec, x: Array) -> int:
    axis = int(node.attrs.get("axis", -1))
    if axis < -1:
        invalid(f"axis must be at least -1. Found {axis}")
    if node.op == "QuantizeAndDequantizeV3":
        if axis >= x.ndim or not x.ndim:
            invalid(
                f"Axis requested is larger than input dimensions. Axis: {axis} Input Dimensions: "
                f"{x.ndim}"
            )
    elif axis >= max(x.ndim, 1):
        invalid(
            f"Axis should be -1 or 0 or a positive value less than {x.ndim}but given axis value "
            f"was {axis}"
        )
    return axis


def _range(node: NodeSpec, x: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """Return the range, shaped to broadcast against the input.

    The range is given, or else found in the input. Only V3 takes a range for each slice of its
    axis; the others refuse one, as TensorFlow's kernels do.
    """
    axis = _check_axis(node, x)
    if not node.attrs["range_given"]:
        if axis == -1:
            return np.asarray(x.min()), np.asarray(x.max())
        others = tuple(i for i in range(x.ndim) if i != axis)
        return x.min(others, keepdims=True), x.max(others, keepdims=True)
    if axis != -1 and node.op == "QuantizeAndDequantizeV3":
        for value, name in ((low, "input_min_tensor"), (high, "input_max_tensor")):
            if value.shape != (x.shape[axis],):
                size = (
                    f"was {value.size} expected {x.shape[axis]} to match dim {axis} of the "
                    f"input {shape_text(value)}"
                )
                invalid(f"{name} has incorrect size, {size}")
        return _along(low, axis, x.ndim), _along(high, axis, x.ndim)
    for value, name in ((low, "input_min"), (high, "input_max")):
        if value.ndim:
            invalid(f"{name} must be a scalar.")
    if low > high:
        invalid(f"Invalid range: input_min {low:g} > input_max {high:g}")
    return low, high


def _check_simulated_bits(bits: int, node: NodeSpec) -> None:
    signed = bool(node.attrs["signed_input"])
    if not (0 < bits < (62 if signed else 63)):
        name = "`signed_input_`" if node.op == "QuantizeAndDequantizeV3" else "signed_input_"
        invalid(f"num_bits is out of range: {bits} with {name} {int(signed)}")


@reference(
    "QuantizeAndDequantize",
    "QuantizeAndDequantizeV2",
    "QuantizeAndDequantizeV3",
    "QuantizeAndDequantizeV4",
)
def _quantize_and_dequantize(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Round the input to the levels of num_bits.

    input, input_min, input_max (scalars, or one a slice of `axis`), V3: num_bits [] -> rounded
    input.

    The first version has its range in attrs. Without a given range the input's own counts.
    """
    x = inputs[0]
    if node.op == "QuantizeAndDequantize":
        low, high = (np.asarray(node.attrs[name], x.dtype) for name in ("input_min", "input_max"))
    else:
        low, high = inputs[1:3]
    if node.op == "QuantizeAndDequantizeV3":
        if inputs[3].ndim:
            invalid(f"Invalid shape: num_bits must be a scalar{shape_text(inputs[3])}")
        bits = int(inputs[3])
    else:
        bits = node.attrs["num_bits"]
    _check_simulated_bits(bits, node)
    if not x.size:
        return (x.copy(),)
    with np.errstate(all="ignore"):
        return (np.asarray(_rounded_range(x, *_range(node, x, low, high), node, bits)),)


@reference("QuantizeAndDequantizeV4Grad")
def _quantize_and_dequantize_grad(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute the gradients of the input and of the range.

    gradients, input, input_min, input_max -> gradients of the inputs inside the range, and zeros
    for the range's ends.
    """
    gradients, x, low, high = inputs
    if gradients.shape != x.shape:
        invalid("gradient and input must be the same size")
    axis = node.attrs["axis"]
    if axis < -1:
        invalid(f"Axis must be at least -1. Found {axis}")
    if axis >= x.ndim:
        invalid(
            f"Axis should be -1 or 0 or a positive value less than {x.ndim}but given axis value "
            f"was {axis}"
        )
    zeros: list[Any] = []
    for value, name in ((low, "min"), (high, "max")):
        if axis != -1 and value.shape != (x.shape[axis],):
            invalid(f"{name} has incorrect size, expected {x.shape[axis]} was {value.size}")
        if axis == -1 and value.size != 1:
            invalid(f"input_{name} must be a scalar if axis is unspecified")
        zeros.append(np.zeros(value.shape, x.dtype))
    if axis != -1:
        low, high = _along(low, axis, x.ndim), _along(high, axis, x.ndim)
    return np.where(
        (x >= low.reshape(low.shape or ())) & (x <= high), gradients, x.dtype.type(0)
    ), *zeros
