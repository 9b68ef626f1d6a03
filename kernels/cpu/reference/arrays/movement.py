"""Transpose, concatenate, split, tile, pad, reverse and roll in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfjit.kernels.cpu.reference.inputs import (
    Arrays,
    contiguous,
    invalid,
    normal_axis,
    shape_text,
    taken,
)
from tfjit.kernels.memory_limits import check_fits_in_memory
from tfjit.kernels.registry import NodeSpec, reference


@reference("Transpose", "ConjugateTranspose")
def _transpose(node: NodeSpec, inputs: Arrays) -> Arrays:
    x, perm = inputs
    if perm.ndim != 1:
        invalid(f"perm must be rank 1, got shape {shape_text(perm)}")
    if perm.size != x.ndim:
        invalid(
            f"transpose expects a vector of size {x.ndim}. But input(1) is a vector of size "
            f"{perm.size}"
        )
    order = []
    for axis in perm.tolist():
        if not -x.ndim <= axis < x.ndim:
            invalid(f"{axis} is out of range [0 .. {x.ndim})")
        order.append(axis % x.ndim)
    for axis in range(x.ndim):
        if axis not in order:
            invalid(f"{axis} is missing from {{{','.join(map(str, perm.tolist()))}}}.")
    out = contiguous(np.transpose(x, order))
    return (np.conj(out) if node.op == "ConjugateTranspose" else out,)


def _concatenate(axis_value: np.ndarray, values: Arrays, name: str) -> np.ndarray:
    if axis_value.ndim and axis_value.size != 1:
        invalid(f"{name} tensor should be a scalar integer, but got shape {shape_text(axis_value)}")
    axis = int(axis_value.reshape(()))
    rank = values[0].ndim
    if rank == 0:
        invalid("ConcatOp : Can't concatenate scalars (use tf.stack instead)")
    if not -rank <= axis < rank:
        invalid(
            f"ConcatOp : Expected concatenating dimensions in the range [{-rank}, {rank}), but got "
            f"{axis}"
        )
    axis %= rank
    for i, x in enumerate(values):
        if x.ndim != rank:
            invalid(
                "ConcatOp : Ranks of all input tensors should match: shape[0] = "
                f"{shape_text(values[0])} vs. shape[{i}] = {shape_text(x)}"
            )
        for j in range(rank):
            if j != axis and x.shape[j] != values[0].shape[j]:
                invalid(
                    f"ConcatOp : Dimension {j} in both shapes must be equal: "
                    f"shape[0] = {shape_text(values[0])} vs. shape[{i}] = {shape_text(x)}"
                )
    return np.concatenate(values, axis)


@reference("ConcatV2")
def _concat_v2(node: NodeSpec, inputs: Arrays) -> Arrays:
    return (_concatenate(inputs[-1], inputs[:-1], "axis"),)


@reference("Concat")
def _concat(node: NodeSpec, inputs: Arrays) -> Arrays:
    return (_concatenate(inputs[0], inputs[1:], "concat_dim"),)


@reference("ParallelConcat")
def _parallel_concat(node: NodeSpec, inputs: Arrays) -> Arrays:
    return (np.concatenate(inputs, 0),)


@reference("Pack")
def _pack(node: NodeSpec, inputs: Arrays) -> Arrays:
    axis = node.attrs.get("axis", 0)
    rank = inputs[0].ndim + 1
    for i, x in enumerate(inputs):
        if x.shape != inputs[0].shape:
            invalid(
                f"Shapes of all inputs must match: values[0].shape = {shape_text(inputs[0])} != "
                f"values[{i}].shape = {shape_text(x)}"
            )
    if not -rank <= axis < rank:
        invalid(f"axis = {axis} not in [{-rank}, {rank})")
    return (np.stack(inputs, axis),)


@reference("Unpack")
def _unpack(node: NodeSpec, inputs: Arrays) -> Arrays:
    (x,) = inputs
    num = node.attrs["num"]
    axis = normal_axis(node.attrs.get("axis", 0), x.ndim, "axis = {axis} not in [{low}, {high})")
    if x.shape[axis] != num:
        invalid(f"Input shape axis {axis} must equal {num}, got shape {shape_text(x)}")
    return [taken(x, np.array(i), axis) for i in range(num)]


@reference("Split")
def _split(node: NodeSpec, inputs: Arrays) -> Arrays:
    num = node.attrs["num_split"]
    x = inputs[1]
    if inputs[0].size != 1:
        invalid("split_dim must have exactly one element.")
    axis = int(inputs[0].reshape(()))
    if not -x.ndim <= axis < x.ndim:
        invalid(f"-input rank(-{x.ndim}) <= split_dim < input rank ({x.ndim}), but got {axis}")
    axis %= x.ndim
    if x.shape[axis] % num:
        invalid(
            "Number of ways to split should evenly divide the split dimension, but got split_dim "
            f"{axis} (size = {x.shape[axis]}) and num_split {num}"
        )
    return [contiguous(part) for part in np.split(x, num, axis)]


@reference("SplitV")
def _split_v(node: NodeSpec, inputs: Arrays) -> Arrays:
    x, sizes, split_dim = inputs
    num = node.attrs["num_split"]
    axis = int(split_dim.reshape(()))
    if sizes.size != num:
        invalid(
            "size of the split_tensor must be 1-D and have the same elements as outputs got "
            f"{sizes.ndim} -D and {sizes.size} elements"
        )
    if not -x.ndim <= axis < x.ndim:
        invalid(f"-input rank(-{x.ndim}) <= split_dim < input rank ({x.ndim}), but got {axis}")
    axis %= x.ndim
    parts = sizes.reshape(-1).tolist()
    missing = [i for i, size in enumerate(parts) if size == -1]
    if len(missing) > 1:
        invalid("There can only be one -1 in the input.")
    known = sum(size for size in parts if size != -1)
    total = x.shape[axis]
    if known > total if missing else known != total:
        invalid(
            "Determined shape must either match input shape along split_dim exactly if fully "
            "specified, "
            "or be less than the size of the input along split_dim if not fully specified.  Got: "
            + str(known)
        )
    if missing:
        parts[missing[0]] = total - known
    for size in parts:
        if size < 0:
            invalid("Split size at index must be >= 0. Got: " + str(size))
    return [contiguous(part) for part in np.split(x, np.cumsum(parts)[:-1], axis)]


@reference("Tile")
def _tile(node: NodeSpec, inputs: Arrays) -> Arrays:
    x, multiples = inputs
    if multiples.ndim != 1:
        invalid(f"Expected multiples to be 1-D, but got shape {shape_text(multiples)}")
    if multiples.size != x.ndim:
        invalid(
            f"Expected multiples argument to be a vector of length {x.ndim} but got length "
            f"{multiples.size}"
        )
    for i, m in enumerate(multiples):
        if m < 0:
            invalid(f"Expected multiples[{i}] >= 0, but got {m}")
    check_fits_in_memory([size * m for size, m in zip(x.shape, multiples.tolist())], x.dtype)
    return (np.tile(x, multiples.tolist()) if x.ndim else x.copy(),)


@reference("TileGrad")
def _tile_grad(node: NodeSpec, inputs: Arrays) -> Arrays:
    x, multiples = inputs
    shape: list[int] = []
    for size, m in zip(x.shape, multiples.tolist()):
        shape += [m, size // m if m else 0]
    return (x.reshape(shape).sum(axis=tuple(range(0, 2 * x.ndim, 2)), dtype=x.dtype),)


def _paddings(x: np.ndarray, paddings: np.ndarray) -> list[tuple[int, int]]:
    if paddings.ndim != 2 or paddings.shape[1] != 2:
        invalid(f"paddings must be a matrix with 2 columns: {shape_text(paddings)}")
    if paddings.shape[0] != x.ndim:
        invalid(
            f"The first dimension of paddings must be the rank of inputs{shape_text(paddings)} "
            f"{shape_text(x)}"
        )
    pairs = [(int(a), int(b)) for a, b in paddings]
    for before, after in pairs:
        if before < 0 or after < 0:
            invalid(f"Paddings must be non-negative: {before} {after}")
    return pairs


@reference("Pad", "PadV2")
def _pad(node: NodeSpec, inputs: Arrays) -> Arrays:
    x = inputs[0]
    pairs = _paddings(x, inputs[1])
    if node.op == "PadV2":
        fill = inputs[2]
        if fill.ndim:
            invalid(f"constant_values must be a scalar. Found: {shape_text(fill)}")
        value: Any = fill[()]
    else:
        value = b"" if x.dtype == object else np.zeros((), x.dtype)
    check_fits_in_memory(
        [before + size + after for size, (before, after) in zip(x.shape, pairs)], x.dtype
    )
    out = np.full(
        [before + size + after for size, (before, after) in zip(x.shape, pairs)], value, x.dtype
    )
    out[tuple(slice(before, before + size) for size, (before, _) in zip(x.shape, pairs))] = x
    return (out,)


@reference("MirrorPad")
def _mirror_pad(node: NodeSpec, inputs: Arrays) -> Arrays:
    x = inputs[0]
    pairs = _paddings(x, inputs[1])
    reflect = node.attrs["mode"] == b"REFLECT"
    offset = 1 if reflect else 0
    for axis, (before, after) in enumerate(pairs):
        size = x.shape[axis]
        if max(before, after) > size - offset:
            rule, broken = (
                ("less than", "not less than") if reflect else ("no greater than", "greater than")
            )
            invalid(
                f"paddings must be {rule} the dimension size: {before}, {after} {broken} {size}"
            )
    for axis, (before, after) in enumerate(pairs):
        size = x.shape[axis]
        index = np.concatenate(
            [
                np.arange(before, 0, -1) - (1 - offset),
                np.arange(size),
                size - 1 - offset - np.arange(after),
            ]
        )
        x = np.take(x, index.astype(np.intp), axis)
    return (contiguous(x),)


@reference("MirrorPadGrad")
def _mirror_pad_grad(node: NodeSpec, inputs: Arrays) -> Arrays:
    x = inputs[0].copy()
    pairs = _paddings(x, inputs[1])
    offset = 1 if node.attrs["mode"] == b"REFLECT" else 0
    for axis, (before, after) in enumerate(pairs):
        x = np.moveaxis(x, axis, 0)
        size = x.shape[0] - before - after
        inner = x[before : before + size].copy()
        if before:
            inner[offset : offset + before] += x[:before][::-1]
        if after:
            inner[size - offset - after : size - offset] += x[before + size :][::-1]
        x = np.moveaxis(inner, 0, axis)
    return (contiguous(x),)


@reference("ReverseV2")
def _reverse_v2(node: NodeSpec, inputs: Arrays) -> Arrays:
    x, axes = inputs
    if axes.ndim > 1:
        invalid(f"axis must be 1-D, not shape {shape_text(axes)}")
    seen: set[int] = set()
    for i, axis in enumerate(axes.reshape(-1).tolist()):
        if not -x.ndim <= axis < x.ndim:
            invalid(f"'axis'[{i}] = {axis} is out of valid range [0, {x.ndim - 1}")
        if axis % x.ndim in seen:
            invalid(f"axis {axis % x.ndim} specified more than once.")
        seen.add(axis % x.ndim)
    return (contiguous(np.flip(x, tuple(seen))) if seen else x.copy(),)


@reference("Reverse")
def _reverse(node: NodeSpec, inputs: Arrays) -> Arrays:
    x, dims = inputs
    if dims.shape != (x.ndim,):
        invalid(
            "'dims' must have the same number of values as 'input' has dimensions. 'input' has "
            f"{x.ndim}'dims' has {dims.size} values"
        )
    return (contiguous(np.flip(x, tuple(np.flatnonzero(dims)))),)


@reference("ReverseSequence")
def _reverse_sequence(node: NodeSpec, inputs: Arrays) -> Arrays:
    x, lengths = inputs
    batch_dim, seq_dim = node.attrs.get("batch_dim", 0), node.attrs["seq_dim"]
    if lengths.ndim != 1:
        invalid(f"seq_lengths must be 1-D, not {lengths.ndim}")
    if seq_dim < 0 or batch_dim < 0:
        invalid(f"Invalid seq_dim {seq_dim}" if seq_dim < 0 else f"Invalid batch_dim {batch_dim}")
    if batch_dim == seq_dim:
        invalid(f"batch_dim == seq_dim == {seq_dim}")
    if seq_dim >= x.ndim:
        invalid(f"seq_dim must be < input rank ( {seq_dim} vs. {x.ndim})")
    if batch_dim >= x.ndim:
        invalid(f"batch_dim must be < input rank ( {batch_dim} vs. {x.ndim})")
    if lengths.size != x.shape[batch_dim]:
        invalid(
            f"Length of seq_lengths != input.dims({batch_dim}), ({lengths.size} vs. "
            f"{x.shape[batch_dim]})"
        )
    out = x.copy()
    moved_in, moved_out = (
        np.moveaxis(x, (batch_dim, seq_dim), (0, 1)),
        np.moveaxis(out, (batch_dim, seq_dim), (0, 1)),
    )
    for i, length in enumerate(lengths.tolist()):
        if length < 0:
            invalid(f"seq_lens({i}) < 0")
        if length > x.shape[seq_dim]:
            invalid(f"seq_lens({i}) > input.dims({seq_dim})")
        moved_out[i, :length] = moved_in[i, :length][::-1]
    return (out,)


@reference("Roll")
def _roll(node: NodeSpec, inputs: Arrays) -> Arrays:
    x, shift, axis = inputs
    if x.ndim < 1:
        invalid("input must be 1-D or higher")
    if shift.ndim > 1:
        invalid(f"shift must be a scalar or a 1-D vector. Found: {shape_text(shift)}")
    if axis.ndim > 1:
        invalid(f"axis must be a scalar or a 1-D vector. Found: {shape_text(axis)}")
    if shift.size != axis.size:
        invalid("shift and axis must have the same size")
    for a in axis.reshape(-1).tolist():
        if not -x.ndim <= a < x.ndim:
            invalid(f"axis {a} is out of range")
        x = np.roll(x, 0, a)
    return (
        np.roll(inputs[0], tuple(shift.reshape(-1).tolist()), tuple(axis.reshape(-1).tolist())),
    )
