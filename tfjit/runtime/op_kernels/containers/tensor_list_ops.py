"""The kernels of tensor lists.

Kernels over several lists, and other ops of lists, are in variant_kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework.types.dtypes import short_name
from tfjit.framework.types.shape import Shape, format_shape, is_compatible, is_fully_defined
from tfjit.runtime.kernel_api.op_kernel import OpContext, runtime_kernel
from tfjit.runtime.resources.tensor_arrays import invalid, merge_shapes, shape_text
from tfjit.runtime.resources.tensor_lists import TensorList, stack_values, zero_element
from tfjit.runtime.resources.variables_and_resources import Variable

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType


def as_list(value: Any) -> TensorList:
    """Return the list in a variant scalar.

    Raises InvalidArgumentError where there is none.
    """
    if isinstance(value, np.ndarray):
        if value.shape != ():
            raise invalid(f"Input list must be a scalar saw: {format_shape(value.shape)}")
        value = value[()]
    if not isinstance(value, TensorList):
        raise invalid(f"Input handle is not a list. Saw: '{seen(value)}'")
    return value


def seen(value: Any) -> str:
    """Return a variant in messages."""
    if value is None:
        return "Variant<type: int value: 0>"
    name = type(value).__name__
    return f"Variant<type: tensorflow::{name} value: {name}>"


def _typed(value: Any, dtype: DType) -> TensorList:
    found = as_list(value)
    if found.element_dtype != dtype:
        raise invalid(
            f"Invalid data types; op elements {short_name(dtype)} but list elements "
            f"{short_name(found.element_dtype)}"
        )
    return found


def _shape_input(value: Any) -> Shape:
    array = np.asarray(value)
    if array.ndim == 0:
        if array != -1:
            raise invalid(
                "The only valid scalar shape tensor is the fully unknown shape specified as -1."
            )
        return None
    if array.ndim > 1:
        raise invalid(f"Shape must be at most rank 1 but is rank {array.ndim}")
    if (array < -1).any():
        raise invalid(f"Dimension {int(array[array < -1][0])} must be >= -1")
    return tuple(None if d == -1 else int(d) for d in array)


def _scalar(value: Any, index: int) -> int:
    array = np.asarray(value)
    if array.ndim != 0:
        values = " ".join(map(str, array.reshape(-1)[:3]))
        raise invalid(
            f"Expected argument {index} to be a scalar. Received"
            f"Tensor<type: {array.dtype} shape: {format_shape(array.shape)} values: {values}>"
        )
    return int(array)


def _plain(value: Any) -> Any:
    return value.initialized_value().copy() if isinstance(value, Variable) else value


def as_rows(
    value: Any, what: str = "Tensor must be at least a vector, but saw shape: "
) -> np.ndarray:
    """Return a tensor that is cut into rows.

    Raises InvalidArgumentError for a scalar.
    """
    array = np.asarray(_plain(value))
    if array.ndim < 1:
        raise invalid(f"{what}{format_shape(array.shape)}")
    return array


def _check_element_shape(shape: Shape, rows: np.ndarray) -> None:
    if not is_compatible(shape, rows.shape[1:]):
        raise invalid(
            f"Specified a list with shape {shape_text(shape)} from a tensor with shape "
            f"{format_shape(rows.shape[1:])}"
        )


# making lists


@runtime_kernel("EmptyTensorList")
def empty_list(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return a list of no elements."""
    limit = np.asarray(inputs[1])
    if limit.ndim != 0:
        raise invalid(
            f"max_num_elements expected to be a scalar but got shape: {format_shape(limit.shape)}"
        )
    return (TensorList.unset(ctx.attrs["element_dtype"], _shape_input(inputs[0]), 0, int(limit)),)


@runtime_kernel("TensorListReserve")
def reserve(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return a list of elements that are not set."""
    shape, count = _shape_input(inputs[0]), np.asarray(inputs[1])
    if count.size != 1:
        raise invalid(
            "The num_elements to reserve must be a tensor size 1, but got "
            f"{format_shape(count.shape)}"
        )
    length = int(count.reshape(()))
    if length < 0:
        raise invalid(
            f"The num_elements to reserve must be a non negative number, but got {length}"
        )
    return (TensorList.unset(ctx.attrs["element_dtype"], shape, length),)


@runtime_kernel("TensorListFromTensor")
def from_tensor(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the rows of a tensor."""
    rows, shape = as_rows(inputs[0]), _shape_input(inputs[1])
    _check_element_shape(shape, rows)
    return (TensorList.of_rows(ctx.attrs["element_dtype"], shape, rows),)


@runtime_kernel("TensorListScatter", "TensorListScatterV2")
def scatter(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return a list with the rows of a tensor at the indices.

    The length follows from the largest index or `num_elements`.
    """
    rows, indices, shape = (
        as_rows(inputs[0]),
        np.asarray(inputs[1]).reshape(-1),
        _shape_input(inputs[2]),
    )
    _check_element_shape(shape, rows)
    length = -1
    if ctx.op == "TensorListScatterV2":
        length = int(np.asarray(inputs[3]).reshape(-1)[0])
        if length < -1:
            raise invalid(f"TensorListScatter expects num_elements >= -1, found: {length}")
    if (indices < 0).any():
        raise invalid("Indices in TensorListScatter must all be non-negative.")
    highest = int(indices.max()) if indices.size else -1
    if length == -1:
        length = highest + 1
    elif highest >= length:
        first = int(indices[indices >= length][0])
        raise invalid(
            f"TensorListScatter: Trying to scatter at index {first} in list with size {length}"
        )
    if len(indices) != rows.shape[0]:
        raise invalid(
            f"Invalid number of rows in input tensor. Expected: {len(indices)} Actual: "
            f"{rows.shape[0]}"
        )
    dtype = ctx.attrs["element_dtype"]
    if len(indices) == length and (indices == np.arange(length)).all():
        return (TensorList.of_rows(dtype, shape, rows),)
    values: list[Any] = [None] * length
    for row, index in enumerate(indices):
        values[index] = rows[row, ...]
    return (TensorList.of_values(dtype, shape, values),)


@runtime_kernel("TensorListSplit")
def split(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the pieces of a tensor, cut along its first dimension."""
    shape, lengths = _shape_input(inputs[1]), np.asarray(inputs[2])
    if lengths.ndim != 1:
        raise invalid(
            f"Expected lengths to be a vector, received shape: {format_shape(lengths.shape)}"
        )
    rows = as_rows(inputs[0])
    if shape is not None and not shape:
        raise invalid(
            "TensorListSplit requires element_shape to be at least of rank 1, but saw: "
            f"{format_shape(shape)}"
        )
    if shape is not None and not is_compatible((None, *shape[1:]), rows.shape):
        raise invalid(
            f"tensor shape {format_shape(rows.shape)} is not compatible with element_shape "
            f"{format_shape((None, *shape[1:]))}"
        )
    pieces, start = [], 0
    for length in map(int, lengths):
        if length < 0:
            raise invalid(f"Invalid value in lengths: {length}")
        if start + length > rows.shape[0]:
            raise invalid(
                f"Attempting to slice [{start}, {start + length}] from tensor with length "
                f"{rows.shape[0]}"
            )
        pieces.append(rows[start : start + length])
        start += length
    if start != rows.shape[0]:
        raise invalid(
            f"Unused values in tensor. Length of tensor: {rows.shape[0]} Values used: {start}"
        )
    return (TensorList.of_values(ctx.attrs["element_dtype"], shape, list(pieces)),)


# one element


@runtime_kernel("TensorListGetItem")
def get_item(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return an element; zeros where unset and its shape is known.

    The shape may be known from the other elements.
    """
    dtype = ctx.attrs["element_dtype"]
    found, index = _typed(inputs[0], dtype), _scalar(inputs[1], 1)
    if not 0 <= index < found.length:
        raise invalid(f"Trying to access element {index} in a list with {found.length} elements.")
    value = found.get(index)
    if value is None:
        shape = merge_shapes(_shape_input(inputs[2]), found.element_shape)
        if not is_fully_defined(shape):
            shape = found.merged_shape(shape)
        if not is_fully_defined(shape):
            raise invalid(
                "Trying to read an uninitialized tensor but element_shape is not fully defined: "
                f"{shape_text(shape)} "
                "and no list element is set."
            )
        value = zero_element(dtype, shape)
    return (value,)


@runtime_kernel("TensorListSetItem")
def set_item(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the list with another element."""
    found, index, value = (
        _typed(inputs[0], ctx.attrs["element_dtype"]),
        _scalar(inputs[1], 1),
        _plain(inputs[2]),
    )
    if not found.accepts(np.shape(value)):
        raise invalid(
            "Tried to set a tensor with incompatible shape at a list index. Item element shape: "
            f"{format_shape(np.shape(value))} "
            f"list shape: {shape_text(found.element_shape)}"
        )
    if index < 0 or (
        index >= found.length and not ctx.attrs.get("resize_if_index_out_of_bounds", False)
    ):
        raise invalid(f"Trying to modify element {index} in a list with {found.length} elements.")
    return (found.set(index, value),)


@runtime_kernel("TensorListPushBack")
def push_back(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the list with one more element."""
    value = _plain(inputs[1])
    found = as_list(inputs[0])
    if not found.accepts(np.shape(value)):
        raise invalid(
            "Tried to append a tensor with incompatible shape to a list. Op element shape: "
            f"{format_shape(np.shape(value))} "
            f"list shape: {shape_text(found.element_shape)}"
        )
    _typed(found, ctx.attrs["element_dtype"])
    if 0 <= found.max_length <= found.length:
        raise invalid(
            f"Tried to push item into a full list list size: {found.length} max_num_elements: "
            f"{found.max_length}"
        )
    return (found.push(value),)


@runtime_kernel("TensorListPopBack")
def pop_back(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the list without its last element, and that element."""
    dtype = ctx.attrs["element_dtype"]
    found = _typed(inputs[0], dtype)
    if not found.length:
        raise invalid("Trying to pop from an empty list.")
    rest, value = found.pop()
    if value is None:
        shape = merge_shapes(_shape_input(inputs[1]), found.element_shape)
        if not is_fully_defined(shape):
            raise invalid(
                "Trying to read an uninitialized tensor but element_shape is not fully "
                f"defined.{shape_text(shape)}"
            )
        value = zero_element(dtype, shape)
    return (rest, value)


@runtime_kernel("TensorListLength")
def length(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the number of elements, an int32 scalar."""
    return (np.array(as_list(inputs[0]).length, np.int32),)


@runtime_kernel("TensorListElementShape")
def element_shape(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the shape that every element has.

    -1 for a size that is not known; the scalar -1 for an unknown rank.
    """
    shape, np_dtype = as_list(inputs[0]).element_shape, ctx.attrs["shape_type"].as_numpy_dtype
    return (np.array(-1 if shape is None else [-1 if d is None else d for d in shape], np_dtype),)


@runtime_kernel("TensorListResize")
def resize(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the list cut to a length, or with unset elements added."""
    found, size = as_list(inputs[0]), np.asarray(inputs[1])
    if size.ndim != 0:
        raise invalid("size must be a scalar")
    if size < 0:
        raise invalid(f"TensorListSlice expects size to be non-negative. Got: {int(size)}")
    return (found.copy(int(size)),)


# many elements


def _stacked(values: list[Any], dtype: DType, shape: Shape) -> np.ndarray:
    return stack_values(dtype, values, shape)


@runtime_kernel("TensorListStack")
def stack_list(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Stack all elements along a new first dimension, unset as zeros."""
    dtype, expected = ctx.attrs["element_dtype"], ctx.attrs.get("num_elements", -1)
    found = _typed(inputs[0], dtype)
    if expected != -1 and found.length != expected:
        raise invalid(
            f"Operation expected a list with {expected} elements but got a list with "
            f"{found.length} elements."
        )
    shape = merge_shapes(_shape_input(inputs[1]), found.element_shape)
    if not found.length and not is_fully_defined(shape):
        raise invalid(
            "Tried to stack elements of an empty list with non-fully-defined element_shape: "
            f"{shape_text(shape)}"
        )
    if not is_fully_defined(found.element_shape):
        shape = found.merged_shape(shape)
    if not is_fully_defined(shape):
        raise invalid(
            "Tried to stack list which only contains uninitialized tensors and has a "
            f"non-fully-defined element_shape: {shape_text(shape)}"
        )
    whole = found.whole()
    return (whole if whole is not None else _stacked(found.values(), dtype, shape),)


@runtime_kernel("TensorListGather")
def gather(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the elements by index along a new first dimension."""
    dtype = ctx.attrs["element_dtype"]
    found, indices = _typed(inputs[0], dtype), np.asarray(inputs[1]).reshape(-1)
    shape = merge_shapes(_shape_input(inputs[2]), found.element_shape)
    if not indices.size and not is_fully_defined(shape):
        raise invalid(
            "Tried to gather 0-elements from a list with non-fully-defined shape: "
            f"{shape_text(shape)}"
        )
    for index in indices[(indices < 0) | (indices >= found.length)]:
        raise invalid(
            f"Trying to gather element {int(index)} in a list with {found.length} elements."
        )
    gathered = found.take(indices)
    if gathered is not None:
        merge_shapes(shape, gathered.shape[1:])
        return (gathered,)
    values = [found.get(int(index)) for index in indices]
    if not is_fully_defined(found.element_shape):
        for value in values:
            if value is not None:
                shape = merge_shapes(shape, np.shape(value))
    if not is_fully_defined(shape):
        raise invalid(
            "Tried to gather uninitialized tensors from a list with non-fully-defined "
            f"element_shape: {shape_text(shape)}"
        )
    return (_stacked(values, dtype, shape),)


@runtime_kernel("TensorListScatterIntoExistingList")
def scatter_into(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Write the rows of a tensor to a list at the indices.

    The result is longer where the indices ask for it.
    """
    found, dtype = as_list(inputs[0]), ctx.attrs["element_dtype"]
    rows, indices = as_rows(inputs[1]), np.asarray(inputs[2]).reshape(-1)
    if found.element_dtype != dtype:
        raise invalid(
            f"Invalid data types; input tensor type: {short_name(dtype)} list element_type: "
            f"{short_name(found.element_dtype)}"
        )
    if len(indices) != rows.shape[0]:
        raise invalid(
            f"Expected len(indices) == tensor.shape[0], but saw: {len(indices)} vs. {rows.shape[0]}"
        )
    if (indices < 0).any():
        raise invalid("Indices in TensorListScatter must all be non-negative.")
    longest = max(found.length, int(indices.max()) + 1 if indices.size else 0)
    changed = found.copy(longest)
    for row, index in enumerate(indices):
        changed = changed.set(int(index), rows[row, ...])
    return (changed,)


@runtime_kernel("TensorListConcat", "TensorListConcatV2")
def concat(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Concatenate all elements along their first dimension.

    The second output has their lengths there: int64 [length]. An element that is not set is zeros,
    as long as the element shape or `leading_dims` says.
    """
    dtype = ctx.attrs["element_dtype"]
    found = _typed(inputs[0], dtype)
    leading: np.ndarray = np.zeros(0, np.int64)
    if ctx.op == "TensorListConcatV2":
        asked, leading = _shape_input(inputs[1]), np.asarray(inputs[2]).reshape(-1)
    else:
        attr = ctx.attrs.get("element_shape")
        asked = None if attr is None else attr.dims_tuple
    shape = merge_shapes(_any_length(asked), _any_length(found.element_shape))
    if shape is not None and not shape:
        raise invalid("Concat requires elements to be at least vectors, found scalars instead.")
    rest = None if shape is None else shape[1:]
    lengths_known = [s[0] for s in (asked, found.element_shape) if s]
    known = next((d for d in lengths_known if d is not None), None)
    if not found.length and not is_fully_defined(rest):
        raise invalid(
            "All except the first dimension must be fully defined when concating an empty tensor "
            f"list. element_shape: {shape_text(rest)}"
        )
    whole = found.whole()
    values = (
        list(whole)
        if whole is not None and whole.ndim == 1
        else found.values()
        if whole is None
        else [whole[0, ...]]
    )
    for i, value in enumerate(values):
        if value is None:
            continue
        size = np.shape(value)
        if not size:
            raise invalid(f"Concat saw a scalar shape at index {i} but requires at least vectors.")
        rest = merge_shapes(rest, size[1:])
        if known is not None and size[0] != known:
            raise invalid(
                "First entry of element_shape input does not match the first dim of list element "
                f"at index: {i} "
                f"Expected: {known} Actual: {size[0]}"
            )
    if whole is not None and whole.ndim > 1:
        return (
            whole.reshape(-1 if whole.size else whole.shape[0] * whole.shape[1], *whole.shape[2:]),
            _repeated(whole.shape[1], found.length),
        )
    return _concatenated(values, dtype, rest, known, leading)


def _any_length(shape: Shape) -> Shape:
    return (None, *shape[1:]) if shape else shape


def _repeated(size: int, count: int) -> np.ndarray:
    return np.full(count, size, np.int64)


def _concatenated(
    values: list[Any], dtype: DType, rest: Shape, known: int | None, leading: np.ndarray
) -> Sequence[Any]:
    if values and known is None and any(value is None for value in values):
        # Unset elements have the length of the set ones, where that is the only length there is.
        sizes = {np.shape(value)[0] for value in values if value is not None}
        known = sizes.pop() if len(sizes) == 1 and not leading.size else None
    if not is_fully_defined(rest):
        raise invalid(
            "All except the first dimension must be fully defined when concating an uninitialized "
            "tensor list. element_shape: "
            f"{shape_text(rest)}"
        )
    tail = tuple(d for d in rest or () if d is not None)
    pieces, lengths = [], []
    for i, value in enumerate(values):
        if value is None:
            size = known
            if size is None:
                if i >= leading.size:
                    raise invalid(
                        f"List contains uninitialized tensor at index {i} but leading_dims has "
                        f"only {leading.size} elements."
                    )
                size = int(leading[i])
            value = zero_element(dtype, (size, *tail))
        pieces.append(value)
        lengths.append(np.shape(value)[0])
    joined = np.concatenate(pieces) if pieces else zero_element(dtype, (0, *tail))
    return (joined, np.array(lengths, np.int64))
