"""The kernels of tensor arrays, of all three generations of the ops.

The generations differ in the handle, and here it is the array itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework import errors
from tfjit.framework.types.dtypes import short_name
from tfjit.framework.types.shape import Shape, format_shape, is_compatible, is_fully_defined
from tfjit.runtime.kernel_api.op_kernel import OpContext, runtime_kernel
from tfjit.runtime.resources.tensor_arrays import TensorArray, invalid, shape_text, stacked
from tfjit.runtime.resources.variables_and_resources import Variable

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType

_FLOW = np.zeros((), np.float32)
_FLOW.setflags(write=False)


def _plain(value: Any) -> Any:
    return value.initialized_value().copy() if isinstance(value, Variable) else value


def _index(value: Any) -> int:
    array = np.asarray(value)
    if array.shape != ():
        raise invalid(
            f"TensorArray index must be scalar, but had shape: {format_shape(array.shape)}"
        )
    return int(array)


def _check_written(array: TensorArray, dtype: DType) -> None:
    if dtype != array.dtype:
        raise invalid(
            f"TensorArray dtype is {short_name(array.dtype)} but Op is trying to write dtype "
            f"{short_name(dtype)}."
        )


def _check_read(array: TensorArray, dtype: DType) -> None:
    if dtype != array.dtype:
        raise invalid(
            f"TensorArray dtype is {short_name(array.dtype)} but Op requested dtype "
            f"{short_name(dtype)}."
        )


def _vector(value: Any, what: str) -> np.ndarray:
    array = np.asarray(value)
    if array.ndim != 1:
        raise invalid(
            f"Expected {what} to be a vector, but received shape: {format_shape(array.shape)}"
        )
    return array


@runtime_kernel("TensorArray", "TensorArrayV2", "TensorArrayV3")
def make_array(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Make an array, and the flow that orders writes and reads.

    The flow only where the op has one.
    """
    size = np.asarray(inputs[0])
    if size.shape != ():
        raise invalid(f"TensorArray size must be scalar, but had shape: {format_shape(size.shape)}")
    if size < 0:
        raise invalid("Size should be >= 0.")
    a = ctx.attrs
    shape = a.get("element_shape")
    array = TensorArray.named(
        a.get("tensor_array_name", b"").decode() or ctx.name,
        a["dtype"],
        int(size),
        None if shape is None else shape.dims_tuple,
        identical=a.get("identical_element_shapes", False),
        dynamic_size=a.get("dynamic_size", False),
        clear_after_read=a.get("clear_after_read", True),
    )
    return (array, _FLOW) if ctx.op == "TensorArrayV3" else (array,)


@runtime_kernel(
    "TensorArrayGrad", "TensorArrayGradV2", "TensorArrayGradV3", "TensorArrayGradWithShape"
)
def gradient(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return a source's gradient array, the same for every node."""
    prepend: tuple[int, ...] = ()
    if ctx.op == "TensorArrayGradWithShape":
        prepend = tuple(int(d) for d in np.asarray(inputs[2]).reshape(-1))
        if any(d < 0 for d in prepend):
            raise invalid(f"Dimension {next(d for d in prepend if d < 0)} must be >= 0")
    made = inputs[0].gradient(ctx.attrs["source"].decode(), prepend)
    return (made, inputs[1]) if len(ctx.output_dtypes) == 2 else (made,)


@runtime_kernel("TensorArrayWrite", "TensorArrayWriteV2", "TensorArrayWriteV3")
def write(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Write one element and pass the flow on."""
    array, index, value, flow = inputs
    index = _index(index)
    _check_written(array, ctx.attrs["T"])
    array.write(index, _plain(value))
    return (flow,)


@runtime_kernel("TensorArrayRead", "TensorArrayReadV2", "TensorArrayReadV3")
def read(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Read one element."""
    array = inputs[0]
    index = _index(inputs[1])
    _check_read(array, ctx.attrs["dtype"])
    return (array.read(index),)


def _shape_attr(ctx: OpContext, name: str) -> Shape:
    shape = ctx.attrs.get(name)
    return None if shape is None else shape.dims_tuple


@runtime_kernel(
    "TensorArrayGather", "TensorArrayGatherV2", "TensorArrayGatherV3", "TensorArrayPack"
)
def gather(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return elements by index, stacked: [count, *element shape].

    A Pack takes all of them.
    """
    array = inputs[0]
    dtype, shape = ctx.attrs["dtype"], _shape_attr(ctx, "element_shape")
    _check_read(array, dtype)
    array.merge_element_shape(shape)
    indices = (
        np.arange(array.size) if ctx.op == "TensorArrayPack" else _vector(inputs[1], "indices")
    )
    if indices.size == 0:
        if not is_fully_defined(shape):
            raise errors.UnimplementedError(
                None,
                None,
                f"TensorArray has size zero, but element shape {shape_text(shape)} is not fully "
                "defined. Currently only static shapes "
                "are supported when packing zero-size TensorArrays.",
            )
        return (np.empty((0, *(d or 0 for d in shape or ())), dtype.as_numpy_dtype),)
    gathered, values = array.read_many(indices)
    first = gathered.shape[1:] if gathered is not None else np.shape(values[0])
    if not is_compatible(shape, first):
        raise invalid(
            f"TensorArray was passed element_shape {shape_text(shape)} which does not match the "
            f"Tensor at index 0: {format_shape(first)}"
        )
    if gathered is not None:
        return (gathered,)
    for i, value in enumerate(values):
        if np.shape(value) != first:
            raise invalid(
                f"TensorArray has inconsistent shapes.  Index 0 has shape: {format_shape(first)} "
                f"but index {i} has shape: "
                f"{format_shape(np.shape(value))}"
            )
    return (stacked(array, values),)


@runtime_kernel(
    "TensorArrayScatter", "TensorArrayScatterV2", "TensorArrayScatterV3", "TensorArrayUnpack"
)
def scatter(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Write the rows of a value to elements by index.

    An Unpack writes to all of them in order. The flow is passed on.
    """
    array, flow = inputs[0], inputs[-1]
    value = np.asarray(_plain(inputs[-2]))
    _check_written(array, ctx.attrs["T"])
    if value.ndim < 1:
        raise invalid(
            "Input value for unpack must be at least a vector but received shape: "
            f"{format_shape(value.shape)}"
        )
    if ctx.op == "TensorArrayUnpack":
        indices = np.arange(value.shape[0])
    else:
        indices = _vector(inputs[1], "indices")
        if len(indices) != value.shape[0]:
            raise invalid(
                f"Expected len(indices) == values.shape[0], but saw: {len(indices)} vs. "
                f"{value.shape[0]}"
            )
    if not indices.size:
        return (flow,)
    highest = int(indices.max())
    array.grow(highest + 1)
    size = array.size
    if highest >= size:
        raise invalid(f"Max scatter index must be < array size ({highest} vs. {size})")
    in_order = indices[0] == 0 and len(indices) == size and (np.diff(indices) == 1).all()
    if not (in_order and array.fill(value)):
        array.write_many(indices, [value[i, ...] for i in range(len(indices))])
    return (flow,)


@runtime_kernel("TensorArrayConcat", "TensorArrayConcatV2", "TensorArrayConcatV3")
def concat(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Concatenate all elements along their first dimension.

    The second output has their lengths there: int64 [size].
    """
    array = inputs[0]
    dtype, rest = ctx.attrs["dtype"], _shape_attr(ctx, "element_shape_except0")
    _check_read(array, dtype)
    size = array.size
    if size == 0:
        if not is_fully_defined(rest):
            raise errors.UnimplementedError(
                None,
                None,
                f"TensorArray has size zero, but element_shape_except0 {shape_text(rest)} is not "
                "fully defined. Currently only static "
                "shapes are supported when concatenating zero-size TensorArrays.",
            )
        return (
            np.empty((0, *(d or 0 for d in rest or ())), dtype.as_numpy_dtype),
            np.zeros(0, np.int64),
        )
    gathered, values = array.read_many(np.arange(size))
    shapes = [gathered.shape[1:]] * size if gathered is not None else [np.shape(v) for v in values]
    for i, shape in enumerate(shapes):
        if not shape:
            raise invalid(
                f"Concat saw a scalar shape at index {i} but requires at least vectors.  Did you "
                "mean to call pack?"
            )
        if i == 0 and not is_compatible(rest, shape[1:]):
            raise invalid(
                f"TensorArray was passed element_shape_except0 {shape_text(rest)} but index 0 has "
                "(excepting dimension 0) shape: "
                f"{format_shape(shape[1:])} which does not match."
            )
        if shape[1:] != shapes[0][1:]:
            raise invalid(
                "TensorArray has inconsistent shapes.  Index 0 has (excepting dimension 0) shape: "
                f"{format_shape(shapes[0][1:])} but "
                f"index {i} has (excepting dimension 0) shape: {format_shape(shape[1:])}"
            )
    lengths = np.array([shape[0] for shape in shapes], np.int64)
    if gathered is not None:
        return (gathered.reshape(int(lengths.sum()), *gathered.shape[2:]), lengths)
    return (np.concatenate(values), lengths)


@runtime_kernel("TensorArraySplit", "TensorArraySplitV2", "TensorArraySplitV3")
def split(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Write pieces of a value to the elements in order.

    The value is cut along its first dimension. The flow is passed on.
    """
    array, value, lengths, flow = inputs
    value, lengths = np.asarray(_plain(value)), np.asarray(lengths)
    _check_written(array, ctx.attrs["T"])
    if lengths.ndim != 1:
        raise invalid(
            f"Expected lengths to be a vector, received shape: {format_shape(lengths.shape)}"
        )
    if value.ndim < 1:
        raise invalid(
            "Expected value to be at least a vector, but received shape: "
            f"{format_shape(value.shape)}"
        )
    if (lengths < 0).any():
        raise invalid(f"Expected lengths to be non-negative, but saw: {int(lengths.min())}")
    total = sum(int(n) for n in lengths)
    if total != value.shape[0]:
        raise invalid(
            "Expected sum of lengths to be equal to values.shape[0], but sum of lengths is "
            f"{total} and value's shape is: "
            f"{format_shape(value.shape)}"
        )
    array.grow(len(lengths))
    if array.size != len(lengths):
        raise invalid(
            f"TensorArray's size is not equal to the size of lengths ({array.size} vs. "
            f"{len(lengths)}), and the TensorArray is not "
            "marked as dynamically resizeable"
        )
    if (
        len(lengths)
        and (lengths == lengths[0]).all()
        and array.fill(value.reshape(len(lengths), int(lengths[0]), *value.shape[1:]))
    ):
        return (flow,)
    ends = np.cumsum(lengths)
    array.write_many(
        range(len(lengths)), [value[end - n : end] for n, end in zip(lengths, ends, strict=True)]
    )
    return (flow,)


@runtime_kernel("TensorArraySize", "TensorArraySizeV2", "TensorArraySizeV3")
def size(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the number of elements, an int32 scalar."""
    return (np.array(inputs[0].size, np.int32),)


@runtime_kernel("TensorArrayClose", "TensorArrayCloseV2", "TensorArrayCloseV3")
def close(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Free the elements."""
    inputs[0].close()
    return ()
