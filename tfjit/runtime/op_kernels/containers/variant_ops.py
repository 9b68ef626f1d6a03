"""Ops over arrays of variants, and arithmetic on lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework import errors
from tfjit.framework.types.dtypes import short_name
from tfjit.framework.types.shape import format_shape
from tfjit.runtime.executor.node_runner import variant_array
from tfjit.runtime.kernel_api.op_kernel import OpContext, runtime_kernel, variant_kernel
from tfjit.runtime.op_kernels.containers.optional_ops import Optional
from tfjit.runtime.op_kernels.containers.tensor_list_ops import as_list, as_rows, seen
from tfjit.runtime.op_kernels.containers.tensor_map_ops import TensorMap
from tfjit.runtime.resources.tensor_arrays import invalid, shape_text
from tfjit.runtime.resources.tensor_lists import TensorList, add_lists, zero_element

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType


def _as_edge(array: np.ndarray) -> Any:
    return array[()] if array.shape == () else array


def _mapped(function: Callable[..., Any], *arrays: np.ndarray) -> Any:
    result = np.empty(arrays[0].shape, object)
    flat = result.reshape(-1)
    for i, items in enumerate(zip(*(a.reshape(-1) for a in arrays), strict=True)):
        flat[i] = function(*items)
    return _as_edge(result)


@runtime_kernel("TensorListConcatLists")
def concat_lists(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Concatenate two lists, for every pair of a batch."""
    a, b, dtype = variant_array(inputs[0]), variant_array(inputs[1]), ctx.attrs["element_dtype"]
    if a.shape != b.shape:
        raise invalid(
            f"Incompatible input TensorList tensor shapes: {format_shape(a.shape)} vs. "
            f"{format_shape(b.shape)}"
        )
    number = iter(range(a.size))

    def joined(x: Any, y: Any) -> TensorList:
        i = next(number)
        for name, item in (("input_a", x), ("input_b", y)):
            if not isinstance(item, TensorList):
                raise invalid(f"{name} is not a TensorList at index {i}.  Saw: '{seen(item)}'")
        for name, item in (("input_a", x), ("input_b", y)):
            if item.element_dtype != dtype:
                raise invalid(
                    f"{name}[{i}].dtype != element_dtype.  Saw: {short_name(item.element_dtype)} "
                    f"vs. {short_name(dtype)}"
                )
        if x.element_shape != y.element_shape:
            raise invalid(
                f"input_a and input_b TensorList element shapes are not identical at index {i}.  "
                f"Saw {shape_text(x.element_shape)} vs. {shape_text(y.element_shape)}"
            )
        return TensorList.of_values(
            dtype, x.element_shape, [*x.values(), *y.values()], x.max_length
        )

    return (_mapped(joined, a, b),)


@runtime_kernel("TensorListPushBackBatch")
def push_back_batch(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Append a row of the tensor to each list of a batch."""
    rows = as_rows(inputs[1], "Expected tensor to be at least a vector, but saw shape: ")
    handles, dtype = variant_array(inputs[0]), ctx.attrs["element_dtype"]
    if handles.ndim == 0:
        raise invalid(
            f"Expected input_handles to be a vector, but saw shape: {format_shape(handles.shape)}"
        )
    if rows.shape[0] != handles.size:
        raise invalid(
            f"Expected tensor.shape[0] == input_handles.size, but saw {rows.shape[0]} vs. "
            f"{handles.size}"
        )
    number = iter(range(handles.size))

    def pushed(item: Any) -> TensorList:
        i = next(number)
        found = as_list(item)
        if not found.accepts(rows.shape[1:]):
            raise invalid(
                f"Tried to append a tensor with incompatible shape to a list at index {i}. Op "
                "element shape: "
                f"{format_shape(rows.shape[1:])} list shape: {shape_text(found.element_shape)}"
            )
        if found.element_dtype != dtype:
            raise invalid(
                f"Invalid data type at index {i}; op elements {short_name(dtype)} but list "
                f"elements {short_name(found.element_dtype)}"
            )
        return found.push(rows[i, ...])

    return (_mapped(pushed, handles),)


def _zeros_like(value: Any) -> Any:
    if isinstance(value, TensorMap):
        return TensorMap()
    if value is None:
        return None
    if isinstance(value, Optional):
        return value if value.values is None else Optional(tuple(map(_zeros_of, value.values)))
    found = as_list(value)
    made = [
        None if x is None else zeros_like_element(found.element_dtype, x) for x in found.values()
    ]
    return TensorList.of_values(found.element_dtype, found.element_shape, made, found.max_length)


def _zeros_of(value: Any) -> Any:
    """Return zeros like an optional's component.

    The component is a tensor, a list or another optional.
    """
    is_tensor = isinstance(value, (np.ndarray, np.generic)) and value.dtype != object
    return np.zeros_like(value) if is_tensor else _mapped(_zeros_like, variant_array(value))


def _sum_of(a: Any, b: Any) -> Any:
    tensors = isinstance(a, (np.ndarray, np.generic)) and a.dtype != object
    return (
        np.asarray(a) + np.asarray(b)
        if tensors
        else _mapped(_add, variant_array(a), variant_array(b))
    )


def zeros_like_element(dtype: DType, value: Any) -> Any:
    """Return zeros of an element's shape.

    Of a list in a list, a list of zeros.
    """
    return (
        _mapped(_zeros_like, variant_array(value))
        if dtype.name == "variant"
        else zero_element(dtype, np.shape(value))
    )


def _add(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return b if a is None else a
    if type(a) is not type(b):
        names = " vs. ".join(f"'tensorflow::{type(x).__name__}'" for x in (a, b))
        raise errors.InternalError(
            None,
            None,
            f"BinaryOpVariants: Variants a and b have different type ids.  Type names: {names}",
        )
    if isinstance(a, Optional):
        if a.values is None or b.values is None:
            return a if b.values is None else b
        return Optional(tuple(map(_sum_of, a.values, b.values)))
    found = as_list(a)
    dtype = found.element_dtype
    if dtype.name == "variant":
        return add_lists(a, b, lambda x, y: _mapped(_add, variant_array(x), variant_array(y)))
    if not dtype.is_numeric:
        raise invalid(f"Trying to add unsupported dtype {dtype.as_datatype_enum}")
    return add_lists(a, b, lambda x, y: np.asarray(x) + y)


@variant_kernel("AddN")
def add_variants(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the elementwise sums of lists."""
    total = variant_array(inputs[0])
    for value in inputs[1:]:
        total = variant_array(_mapped(_add, total, variant_array(value)))
    return (_as_edge(total),)


@variant_kernel("ZerosLike")
def zeros_like_variant(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return a list of zeros of the elements' shapes.

    Unset elements stay unset.
    """
    return (_mapped(_zeros_like, variant_array(inputs[0])),)
