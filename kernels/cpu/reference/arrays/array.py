"""Compute shape queries, constructors and reshapes in NumPy.

Reshape-like kernels return views of their input.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfjit.framework.types import dtypes
from tfjit.framework.types.shape import format_shape, is_compatible
from tfjit.kernels.cpu.reference.inputs import Arrays, contiguous, invalid, normal_axis, shape_text
from tfjit.kernels.cpu.reference.records.hashing import fingerprint64
from tfjit.kernels.memory_limits import check_fits_in_memory
from tfjit.kernels.registry import NodeSpec, reference


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
        # Sizes of 0 are left out of the products when the missing size is found, both in the wanted
        # shape and in the input's.
        emptied = 0 in shape
        elements = math.prod(d for d in x.shape if d or not emptied)
        shape[unknown] = elements // known
        if elements % known and not (emptied and 0 in x.shape):
            invalid(
                f"Input to reshape is a tensor with {x.size} values, but the requested shape "
                f"requires a multiple of {known}"
            )
    wanted = math.prod(shape)
    if wanted != x.size:
        invalid(
            f"Input to reshape is a tensor with {x.size} values, but the requested shape has "
            f"{wanted}"
        )
    return (x.reshape(shape),)


@reference("Squeeze")
def _squeeze(node: NodeSpec, inputs: Arrays) -> Arrays:
    (x,) = inputs
    wanted = {
        normal_axis(
            a,
            x.ndim,
            "Tried to squeeze dim index {axis} for tensor with " + str(x.ndim) + " dimensions.",
        )
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
    check_fits_in_memory(shape, value.dtype)
    return (np.full(shape, value.reshape(()), value.dtype),)


@reference("FakeParam")
def _fake_param(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Return a placeholder output for a branch that lacks the value.

    No node reads the placeholder. Unknown sizes are 0.
    """
    dims = node.attrs["shape"].dims_tuple
    shape = tuple(d or 0 for d in dims) if dims is not None else ()
    dtype = node.attrs["dtype"]
    return (
        np.full(shape, b"", object)
        if dtype is dtypes.string
        else np.zeros(shape, dtype.as_numpy_dtype),
    )


@reference("Empty")
def _empty(node: NodeSpec, inputs: Arrays) -> Arrays:
    dtype = node.attrs["dtype"]
    shape = _sizes(inputs[0], "shape")
    check_fits_in_memory(shape, dtype.as_numpy_dtype)
    if dtype is dtypes.string:
        return (np.full(shape, b"", object),)
    return (np.zeros(shape, dtype.as_numpy_dtype),)


@reference("BroadcastTo")
def _broadcast_to(node: NodeSpec, inputs: Arrays) -> Arrays:
    x = inputs[0]
    shape = _sizes(inputs[1], "shape")
    if x.ndim > len(shape):
        invalid(
            f"Rank of input ({x.ndim}) must be no greater than rank of output shape ({len(shape)})."
        )
    try:
        np.broadcast_shapes(x.shape, shape)
        check_fits_in_memory(shape, x.dtype)
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
    # The sum changes nothing where both sizes are 1; TensorFlow lists such an axis on both sides
    # nonetheless.
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
        check_fits_in_memory((size,), np.int64)
        return (
            (np.array([first + i * step for i in range(size)], dtype),)
            if size < 64
            else (_arange(first, step, size, dtype),)
        )
    size = math.ceil(abs((float(limit) - float(start)) / float(delta)))
    check_fits_in_memory((size,), np.int64, copies=2)
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
    check_fits_in_memory((num,), inputs[0].dtype)
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
        invalid(
            f"Concat dim tensor should be a scalar integer, but got shape {shape_text(inputs[0])}"
        )
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
                    f"All dimensions except {axis} must match. Input {i} has shape "
                    f"[{' '.join(map(str, shape))}] "
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
        invalid(
            f"Shape of tensor {node.name} {shape_text(inputs[0])} is not compatible with expected "
            f"shape {format_shape(wanted)}."
        )
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
    check_fits_in_memory((x.size, x.size), x.dtype)
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


@reference(
    "Identity",
    "StopGradient",
    "PreventGradient",
    "Snapshot",
    "GuaranteeConst",
    "Copy",
    "CopyHost",
    "PlaceholderWithDefault",
)
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


@reference("Fingerprint")
def _fingerprint(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Return the FarmHash of each row's bytes, uint8 [rows, 8].

    A row of several strings is hashed by the fingerprints of its strings.
    """
    data, method = np.asarray(inputs[0]), np.asarray(inputs[1], object)
    if method.ndim:
        invalid(f"`method` should be a scalar string: {format_shape(method.shape)}")
    if method.item() != b"farmhash64":
        invalid(f"Unsupported fingerprint method: {method.item().decode(errors='replace')}")
    if not data.ndim:
        invalid("`data` should have at least one dimension: []")
    rows = data.reshape(data.shape[0], -1)
    hashed = []
    for row in rows:
        if data.dtype != object:
            hashed.append(fingerprint64(row.tobytes()))
        elif data.ndim == 1:
            hashed.append(fingerprint64(row[0]))
        else:
            hashed.append(
                fingerprint64(b"".join(fingerprint64(item).to_bytes(8, "little") for item in row))
            )
    return (np.array(hashed, "<u8").view(np.uint8).reshape(-1, 8),)
