"""Shape queries, constructors and array movement in NumPy. Reshape-like kernels return views of their input."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from tfjit.framework import dtypes
from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.shape import format_shape, is_compatible
from tfjit.kernels.registry import NodeSpec, reference
from tfjit.kernels.room import check_room

Arrays = Sequence[np.ndarray]


def invalid(message: str) -> NoReturn:
    """Raise InvalidArgumentError; the executor adds the node."""
    raise InvalidArgumentError(None, None, message)


def shape_text(value: np.ndarray) -> str:
    """The shape of an array as the runtime writes it, "[2,3]"."""
    return format_shape(value.shape)


def contiguous(value: np.ndarray) -> np.ndarray:
    """The array in C order. (NumPy's own ascontiguousarray makes a vector of a scalar.)"""
    return np.asarray(value, order="C")


def normal_axis(axis: int, rank: int, message: str = "Expected dimension in the range [{low}, {high}), but got {axis}") -> int:
    """An axis counted from the front. Raises InvalidArgumentError when it lies outside of [-rank, rank)."""
    if not -rank <= axis < rank:
        invalid(message.format(low=-rank, high=rank, axis=axis))
    return axis + rank if axis < 0 else axis


def _numpy(node: NodeSpec, attr: str) -> np.dtype[Any]:
    return np.dtype(node.attrs[attr].as_numpy_dtype)


@reference("Shape")
def _shape(node: NodeSpec, inputs: Arrays) -> Arrays:
    return (np.array(np.shape(inputs[0]), _numpy(node, "out_type")),)


@reference("ShapeN")
def _shape_n(node: NodeSpec, inputs: Arrays) -> Arrays:
    dtype = _numpy(node, "out_type")
    return tuple(np.array(x.shape, dtype) for x in inputs)


@reference("Size")
def _size(node: NodeSpec, inputs: Arrays) -> Arrays:
    return (np.array(inputs[0].size, _numpy(node, "out_type")),)


@reference("Rank")
def _rank(node: NodeSpec, inputs: Arrays) -> Arrays:
    return (np.array(inputs[0].ndim, np.int32),)


@reference("Reshape")
def _reshape(node: NodeSpec, inputs: Arrays) -> Arrays:
    x, sizes = inputs
    if sizes.ndim != 1:
        if sizes.ndim:
            invalid(f"sizes input must be 1-D, not {shape_text(sizes)}")
        sizes = sizes.reshape(1)
    shape = [int(s) for s in sizes]
    unknown = -1
    known = 1
    for i, size in enumerate(shape):
        if size == -1:
            if unknown >= 0:
                invalid(f"Only one input size may be -1, not both {unknown} and {i}")
            unknown = i
        elif size < 0:
            invalid(f"Size {i} must be non-negative, not {size}")
        elif size:
            known *= size
    if unknown >= 0:
        # A size of 0 takes no part in finding the missing one, and then those of the input don't either.
        emptied = 0 in shape
        elements = math.prod(d for d in x.shape if d or not emptied)
        shape[unknown] = elements // known
        if elements % known and not (emptied and 0 in x.shape):
            invalid(f"Input to reshape is a tensor with {x.size} values, but the requested shape requires a multiple of {known}")
    wanted = math.prod(shape)
    if wanted != x.size:
        invalid(f"Input to reshape is a tensor with {x.size} values, but the requested shape has {wanted}")
    return (x.reshape(shape),)


@reference("Squeeze")
def _squeeze(node: NodeSpec, inputs: Arrays) -> Arrays:
    (x,) = inputs
    wanted = {
        normal_axis(a, x.ndim, "Tried to squeeze dim index {axis} for tensor with " + str(x.ndim) + " dimensions.")
        for a in node.attrs.get("squeeze_dims", ())
    }
    shape = []
    for i, size in enumerate(x.shape):
        if i in wanted and size != 1:
            invalid(f"Can not squeeze dim[{i}], expected a dimension of 1, got {size}")
        if size != 1 or (wanted and i not in wanted):
            shape.append(size)
    return (x.reshape(shape),)


@reference("ExpandDims")
def _expand_dims(node: NodeSpec, inputs: Arrays) -> Arrays:
    x, dim = inputs
    if dim.size != 1:
        invalid("'dim' must be a tensor with a single value")
    axis = int(dim.reshape(()))
    if not -1 - x.ndim <= axis <= x.ndim:
        invalid(f"Tried to expand dim index {axis} for tensor with {x.ndim} dimensions.")
    return (np.expand_dims(x, axis),)


def _sizes(value: np.ndarray, name: str) -> tuple[int, ...]:
    if value.ndim > 1:
        invalid(f"{name} must be a vector of {{int32,int64}}, got shape {shape_text(value)}")
    for size in value.reshape(-1):
        if size < 0:
            invalid(f"Dimension {size} must be >= 0")
    return tuple(int(s) for s in value.reshape(-1))


@reference("Fill")
def _fill(node: NodeSpec, inputs: Arrays) -> Arrays:
    dims, value = inputs
    if value.ndim and value.shape != (1,):
        invalid(f"value must represent a scalar, got shape {shape_text(value)}")
    shape = _sizes(dims, "dims")
    check_room(shape, value.dtype)
    return (np.full(shape, value.reshape(()), value.dtype),)


@reference("FakeParam")
def _fake_param(node: NodeSpec, inputs: Arrays) -> Arrays:
    """What a branch gives out where another branch has a value: nobody looks at it. Sizes that are not known are 0."""
    dims = node.attrs["shape"].dims_tuple
    shape = tuple(d or 0 for d in dims) if dims is not None else ()
    dtype = node.attrs["dtype"]
    return (np.full(shape, b"", object) if dtype is dtypes.string else np.zeros(shape, dtype.as_numpy_dtype),)


@reference("Empty")
def _empty(node: NodeSpec, inputs: Arrays) -> Arrays:
    dtype = node.attrs["dtype"]
    shape = _sizes(inputs[0], "shape")
    check_room(shape, dtype.as_numpy_dtype)
    if dtype is dtypes.string:
        return (np.full(shape, b"", object),)
    return (np.zeros(shape, dtype.as_numpy_dtype),)


@reference("BroadcastTo")
def _broadcast_to(node: NodeSpec, inputs: Arrays) -> Arrays:
    x = inputs[0]
    shape = _sizes(inputs[1], "shape")
    if x.ndim > len(shape):
        invalid(f"Rank of input ({x.ndim}) must be no greater than rank of output shape ({len(shape)}).")
    try:
        np.broadcast_shapes(x.shape, shape)
        check_room(shape, x.dtype)
        return (contiguous(np.broadcast_to(x, shape)),)
    except ValueError:
        invalid(f"Incompatible shapes: {shape_text(x)} vs. {format_shape(shape)}")


def _broadcast_shapes(a: Sequence[int], b: Sequence[int]) -> list[int]:
    out = []
    rank = max(len(a), len(b))
    for x, y in zip([1] * (rank - len(a)) + list(a), [1] * (rank - len(b)) + list(b)):
        if x != y and x != 1 and y != 1:
            invalid(f"Incompatible shapes: {format_shape(tuple(a))} vs. {format_shape(tuple(b))}")
        out.append(y if x == 1 else x)
    return out


@reference("BroadcastArgs")
def _broadcast_args(node: NodeSpec, inputs: Arrays) -> Arrays:
    for i, x in enumerate(inputs):
        if x.ndim != 1:
            invalid(f"In[{i}] must be a vector.{shape_text(x)}")
    return (np.array(_broadcast_shapes(inputs[0].tolist(), inputs[1].tolist()), inputs[0].dtype),)


@reference("BroadcastGradientArgs")
def _broadcast_gradient_args(node: NodeSpec, inputs: Arrays) -> Arrays:
    for i, x in enumerate(inputs):
        if x.ndim != 1:
            invalid(f"In[{i}] must be a vector.{shape_text(x)}")
    a, b = inputs[0].tolist(), inputs[1].tolist()
    _broadcast_shapes(a, b)
    if a == b:
        return np.empty(0, inputs[0].dtype), np.empty(0, inputs[0].dtype)
    rank = max(len(a), len(b))
    padded_a, padded_b = [1] * (rank - len(a)) + a, [1] * (rank - len(b)) + b
    reduce_a: list[int] = []
    reduce_b: list[int] = []
    # Where both sizes are 1 the sum changes nothing; TensorFlow lists such an axis on both sides nonetheless.
    for i, (x, y) in enumerate(zip(padded_a, padded_b)):
        if x == 1 and y == 1:
            reduce_a.append(i)
            reduce_b.append(i)
        elif x == 1:
            reduce_a.append(i)
        elif y == 1:
            reduce_b.append(i)
    return np.array(reduce_a, inputs[0].dtype), np.array(reduce_b, inputs[0].dtype)


@reference("Range")
def _range(node: NodeSpec, inputs: Arrays) -> Arrays:
    for x, name in zip(inputs, ("start", "limit", "delta")):
        if x.ndim and x.shape != (1,):
            invalid(f"{name} must be a scalar, not shape {shape_text(x)}")
    start, limit, delta = (x.reshape(())[()] for x in inputs)
    if delta == 0:
        invalid(f"Requires delta != 0: {delta:g}")
    if delta > 0 and start > limit:
        invalid(f"Requires start <= limit when delta > 0: {start:g}/{limit:g}")
    if delta < 0 and start < limit:
        invalid(f"Requires start >= limit when delta < 0: {start:g}/{limit:g}")
    dtype = inputs[0].dtype
    if dtype.kind in "iu":
        first, last, step = int(start), int(limit), int(delta)
        size = -(-abs(last - first) // abs(step))
        check_room((size,), np.int64)
        return (np.array([first + i * step for i in range(size)], dtype),) if size < 64 else (_arange(first, step, size, dtype),)
    size = math.ceil(abs((float(limit) - float(start)) / float(delta)))
    check_room((size,), np.int64, copies=2)
    # TensorFlow evaluates start + i * delta in the op's own type.
    return (start + np.arange(size).astype(dtype) * delta,)


def _arange(first: int, step: int, size: int, dtype: np.dtype[Any]) -> np.ndarray:
    return np.arange(first, first + size * step, step).astype(dtype)


@reference("LinSpace")
def _linspace(node: NodeSpec, inputs: Arrays) -> Arrays:
    for x, name in zip(inputs, ("start", "stop", "num")):
        if x.ndim:
            invalid(f"{name} must be a scalar, not shape {shape_text(x)}")
    start, stop = inputs[0][()], inputs[1][()]
    num = int(inputs[2])
    if num <= 0:
        invalid(f"Requires num > 0: {num}")
    out = np.empty(num, inputs[0].dtype)
    if num > 1:
        step = (stop - start) / inputs[0].dtype.type(num - 1)
        out[:] = start + step * np.arange(num).astype(out.dtype)
        out[-1] = stop
    out[0] = start
    return (out,)


@reference("InvertPermutation")
def _invert_permutation(node: NodeSpec, inputs: Arrays) -> Arrays:
    (x,) = inputs
    if x.ndim != 1:
        invalid("invert_permutation expects a 1D vector.")
    out = np.full(x.shape, -1, x.dtype)
    for i, target in enumerate(x.tolist()):
        if not 0 <= target < x.size:
            invalid(f"{target} is not between 0 and {x.size}")
        if out[target] != -1:
            invalid(f"{target} is duplicated in the input.")
        out[target] = i
    return (out,)


@reference("ConcatOffset")
def _concat_offset(node: NodeSpec, inputs: Arrays) -> Arrays:
    if inputs[0].ndim:
        invalid(f"Concat dim tensor should be a scalar integer, but got shape {shape_text(inputs[0])}")
    shapes = inputs[1:]
    rank = shapes[0].size
    axis = normal_axis(int(inputs[0]), rank, "Concat dim is out of range: {axis} vs. " + str(rank))
    offset = 0
    out = []
    for i, shape in enumerate(shapes):
        if shape.ndim != 1:
            invalid(f"input {i} should be a vector, but got shape {shape_text(shape)}")
        if shape.size != rank:
            invalid(f"input {i} should contain {rank} elements, but got {shape.size}")
        for j in range(rank):
            if j != axis and shape[j] != shapes[0][j]:
                invalid(
                    f"All dimensions except {axis} must match. Input {i} has shape [{' '.join(map(str, shape))}] "
                    f"and doesn't match input 0 with shape [{' '.join(map(str, shapes[0]))}]."
                )
        value = np.zeros(rank, shape.dtype)
        value[axis] = offset
        offset += int(shape[axis])
        out.append(value)
    return out


@reference("EnsureShape")
def _ensure_shape(node: NodeSpec, inputs: Arrays) -> Arrays:
    wanted = node.attrs["shape"].dims_tuple
    if not is_compatible(inputs[0].shape, wanted):
        invalid(f"Shape of tensor {node.name} {shape_text(inputs[0])} is not compatible with expected shape {format_shape(wanted)}.")
    return (inputs[0],)


@reference("CheckNumerics", "CheckNumericsV2")
def _check_numerics(node: NodeSpec, inputs: Arrays) -> Arrays:
    x = inputs[0]
    if not np.isfinite(x).all():
        nan = bool(np.isnan(x).any())
        infinite = bool(np.isinf(x).any())
        found = "Inf and NaN" if nan and infinite else "NaN" if nan else "Inf"
        invalid(f"{node.attrs['message'].decode()} : Tensor had {found} values")
    return (x,)


@reference("Diag")
def _diag(node: NodeSpec, inputs: Arrays) -> Arrays:
    (x,) = inputs
    out = np.zeros((x.size, x.size), x.dtype)
    np.fill_diagonal(out, x.reshape(-1))
    return (out.reshape(x.shape * 2),)


@reference("DiagPart")
def _diag_part(node: NodeSpec, inputs: Arrays) -> Arrays:
    (x,) = inputs
    if x.ndim % 2 or x.ndim == 0:
        invalid(f"The rank of the tensor should be even and positive, got shape {shape_text(x)}")
    half = x.shape[: x.ndim // 2]
    if half != x.shape[x.ndim // 2 :]:
        invalid(f"Invalid shape {shape_text(x)}: dimensions {0} and {x.ndim // 2} do not match.")
    n = math.prod(half)
    return (x.reshape(n, n).diagonal().reshape(half).copy(),)


@reference("Transpose", "ConjugateTranspose")
def _transpose(node: NodeSpec, inputs: Arrays) -> Arrays:
    x, perm = inputs
    if perm.ndim != 1:
        invalid(f"perm must be rank 1, got shape {shape_text(perm)}")
    if perm.size != x.ndim:
        invalid(f"transpose expects a vector of size {x.ndim}. But input(1) is a vector of size {perm.size}")
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
        invalid(f"ConcatOp : Expected concatenating dimensions in the range [{-rank}, {rank}), but got {axis}")
    axis %= rank
    for i, x in enumerate(values):
        if x.ndim != rank:
            invalid(
                f"ConcatOp : Ranks of all input tensors should match: shape[0] = {shape_text(values[0])} vs. shape[{i}] = {shape_text(x)}"
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
            invalid(f"Shapes of all inputs must match: values[0].shape = {shape_text(inputs[0])} != values[{i}].shape = {shape_text(x)}")
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
    return [np.take(x, i, axis) for i in range(num)]


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
        invalid(f"size of the split_tensor must be 1-D and have the same elements as outputs got {sizes.ndim} -D and {sizes.size} elements")
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
            "Determined shape must either match input shape along split_dim exactly if fully specified, "
            "or be less than the size of the input along split_dim if not fully specified.  Got: " + str(known)
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
        invalid(f"Expected multiples argument to be a vector of length {x.ndim} but got length {multiples.size}")
    for i, m in enumerate(multiples):
        if m < 0:
            invalid(f"Expected multiples[{i}] >= 0, but got {m}")
    check_room([size * m for size, m in zip(x.shape, multiples.tolist())], x.dtype)
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
        invalid(f"The first dimension of paddings must be the rank of inputs{shape_text(paddings)} {shape_text(x)}")
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
    check_room([before + size + after for size, (before, after) in zip(x.shape, pairs)], x.dtype)
    out = np.full([before + size + after for size, (before, after) in zip(x.shape, pairs)], value, x.dtype)
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
            rule, broken = ("less than", "not less than") if reflect else ("no greater than", "greater than")
            invalid(f"paddings must be {rule} the dimension size: {before}, {after} {broken} {size}")
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
        invalid(f"'dims' must have the same number of values as 'input' has dimensions. 'input' has {x.ndim}'dims' has {dims.size} values")
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
        invalid(f"Length of seq_lengths != input.dims({batch_dim}), ({lengths.size} vs. {x.shape[batch_dim]})")
    out = x.copy()
    moved_in, moved_out = np.moveaxis(x, (batch_dim, seq_dim), (0, 1)), np.moveaxis(out, (batch_dim, seq_dim), (0, 1))
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
    return (np.roll(inputs[0], tuple(shift.reshape(-1).tolist()), tuple(axis.reshape(-1).tolist())),)


def _space_to_batch(x: np.ndarray, block: Sequence[int], paddings: Sequence[tuple[int, int]]) -> np.ndarray:
    if x.ndim < 1 + len(block):
        invalid(f"input rank should be >= {1 + len(block)} instead of {x.ndim}")
    for b in block:
        if b < 1:
            invalid(f"block_shape must be positive, got {b}")
    m = len(block)
    pads = [(0, 0), *paddings, *([(0, 0)] * (x.ndim - 1 - m))]
    for before, after in pads:
        if before < 0 or after < 0:
            invalid(f"paddings cannot be negative, got {min(before, after)}")
    padded = np.pad(x, pads)
    split: list[int] = [padded.shape[0]]
    for i, b in enumerate(block):
        size = padded.shape[1 + i]
        if size % b:
            invalid(f"padded_shape[{i}]={size} is not divisible by block_shape[{i}]={b}")
        split += [size // b, b]
    rest = padded.shape[1 + m :]
    order = [2 * i + 2 for i in range(m)] + [0] + [2 * i + 1 for i in range(m)] + list(range(2 * m + 1, 2 * m + 1 + len(rest)))
    out = padded.reshape(*split, *rest).transpose(order)
    return out.reshape(math.prod(block) * x.shape[0], *(split[2 * i + 1] for i in range(m)), *rest)


def _batch_to_space(x: np.ndarray, block: Sequence[int], crops: Sequence[tuple[int, int]]) -> np.ndarray:
    if x.ndim < 1 + len(block):
        invalid(f"input rank should be >= {1 + len(block)} instead of {x.ndim}")
    for b in block:
        if b < 1:
            invalid(f"block_shape must be positive, got {b}")
    m = len(block)
    factor = math.prod(block)
    if x.shape[0] % factor:
        invalid(f"Input batch dimension ({x.shape[0]}) is not divisible by product of block sizes ({factor})")
    batch = x.shape[0] // factor
    rest = x.shape[1 + m :]
    order = [m] + [axis for i in range(m) for axis in (m + 1 + i, i)] + list(range(2 * m + 1, 2 * m + 1 + len(rest)))
    out = x.reshape(*block, batch, *x.shape[1:]).transpose(order)
    out = out.reshape(batch, *(x.shape[1 + i] * block[i] for i in range(m)), *rest)
    index: list[slice] = [slice(None)]
    for i, (start, end) in enumerate(crops):
        if start < 0 or end < 0:
            invalid(f"Crops must be non-negative, got {min(start, end)}")
        size = out.shape[1 + i]
        if size - start - end < 0:
            invalid(f"cropped_shape[{i}]={size - start - end} must be non-negative")
        index.append(slice(start, size - end))
    return contiguous(out[tuple(index)])


def _pairs(value: np.ndarray, rows: int, name: str) -> list[tuple[int, int]]:
    if value.shape != (rows, 2):
        invalid(f"{name} should have shape [{rows}, 2] instead of {shape_text(value)}")
    return [(int(a), int(b)) for a, b in value]


@reference("SpaceToBatchND")
def _space_to_batch_nd(node: NodeSpec, inputs: Arrays) -> Arrays:
    if inputs[1].ndim != 1:
        invalid(f"block_shape rank should be 1 instead of {inputs[1].ndim}")
    block = inputs[1].tolist()
    return (_space_to_batch(inputs[0], block, _pairs(inputs[2], len(block), "paddings")),)


@reference("SpaceToBatch")
def _space_to_batch_2d(node: NodeSpec, inputs: Arrays) -> Arrays:
    block = [node.attrs["block_size"]] * 2
    if inputs[0].ndim != 4:
        invalid(f"input rank should be >= 4 instead of {inputs[0].ndim}")
    return (_space_to_batch(inputs[0], block, _pairs(inputs[1], 2, "paddings")),)


@reference("BatchToSpaceND")
def _batch_to_space_nd(node: NodeSpec, inputs: Arrays) -> Arrays:
    if inputs[1].ndim != 1:
        invalid(f"block_shape rank should be 1 instead of {inputs[1].ndim}")
    block = inputs[1].tolist()
    return (_batch_to_space(inputs[0], block, _pairs(inputs[2], len(block), "crops")),)


@reference("BatchToSpace")
def _batch_to_space_2d(node: NodeSpec, inputs: Arrays) -> Arrays:
    block = [node.attrs["block_size"]] * 2
    if inputs[0].ndim != 4:
        invalid(f"input rank should be >= 4 instead of {inputs[0].ndim}")
    return (_batch_to_space(inputs[0], block, _pairs(inputs[1], 2, "crops")),)


def _channels_last(node: NodeSpec, x: np.ndarray) -> tuple[np.ndarray, bool]:
    layout = node.attrs.get("data_format", b"NHWC")
    if layout not in (b"NHWC", b"NCHW"):
        invalid(f"{node.op} of data_format {layout.decode()} runs on GPU only")
    if x.ndim != 4:
        invalid(f"Input rank should be: 4 instead of: {x.ndim}")
    return (np.moveaxis(x, 1, 3), True) if layout == b"NCHW" else (x, False)


@reference("SpaceToDepth")
def _space_to_depth(node: NodeSpec, inputs: Arrays) -> Arrays:
    b = node.attrs["block_size"]
    x, first = _channels_last(node, inputs[0])
    n, h, w, c = x.shape
    if h % b or w % b:
        invalid(f"Image width {w} and height {h} should be divisible by block_size: {b}")
    out = x.reshape(n, h // b, b, w // b, b, c).transpose(0, 1, 3, 2, 4, 5).reshape(n, h // b, w // b, b * b * c)
    return (contiguous(np.moveaxis(out, 3, 1) if first else out),)


@reference("DepthToSpace")
def _depth_to_space(node: NodeSpec, inputs: Arrays) -> Arrays:
    b = node.attrs["block_size"]
    x, first = _channels_last(node, inputs[0])
    n, h, w, c = x.shape
    if c % (b * b):
        invalid(f"Input depth dimension {c} should be divisible by: {b * b}")
    out = x.reshape(n, h, w, b, b, c // (b * b)).transpose(0, 1, 3, 2, 4, 5).reshape(n, h * b, w * b, c // (b * b))
    return (contiguous(np.moveaxis(out, 3, 1) if first else out),)


@reference("Identity", "StopGradient", "PreventGradient", "Snapshot", "GuaranteeConst", "Copy", "CopyHost", "PlaceholderWithDefault")
def _identity(node: NodeSpec, inputs: Arrays) -> Arrays:
    return (inputs[0],)


@reference("IdentityN")
def _identity_n(node: NodeSpec, inputs: Arrays) -> Arrays:
    return tuple(inputs)


@reference("DeepCopy")
def _deep_copy(node: NodeSpec, inputs: Arrays) -> Arrays:
    return (inputs[0].copy(),)


@reference("Const")
def _const(node: NodeSpec, inputs: Arrays) -> Arrays:
    return (node.attrs["value"],)


@reference("ZerosLike")
def _zeros_like(node: NodeSpec, inputs: Arrays) -> Arrays:
    (x,) = inputs
    return (np.full(x.shape, b"", object) if x.dtype == object else np.zeros(x.shape, x.dtype),)


@reference("OnesLike")
def _ones_like(node: NodeSpec, inputs: Arrays) -> Arrays:
    return (np.ones(inputs[0].shape, inputs[0].dtype),)


@reference("Bitcast")
def _bitcast(node: NodeSpec, inputs: Arrays) -> Arrays:
    (x,) = inputs
    target = _numpy(node, "type")
    x = contiguous(x)
    size_in, size_out = x.dtype.itemsize, target.itemsize
    if size_in == size_out:
        return (x.view(target),)
    if size_in > size_out:
        return (x.reshape(*x.shape, 1).view(target),)
    if x.ndim == 0 or x.shape[-1] != size_out // size_in:
        given, wanted = dtypes.as_dtype(x.dtype), node.attrs["type"]
        invalid(f"Cannot bitcast from {given.as_datatype_enum} to {wanted.as_datatype_enum}")
    return (x.view(target).reshape(x.shape[:-1]),)
