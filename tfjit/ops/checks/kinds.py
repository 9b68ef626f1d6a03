"""Present checks of dtypes and classes, which need no run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tfjit.framework.graphs.default_graph import get_default_graph, name_scope
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType, as_dtype
from tfjit.ops.arrays.array import check_numerics
from tfjit.ops.checks.comparisons import message_prefix
from tfjit.ops.control_flow.control_flow import no_op, with_dependencies
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.core.renamed import renamed
from tfjit.ops.core.sparse_values import is_sparse

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DenseOrSparse, DTypeLike, Structure, TensorLike

_NO_NUMBERS = frozenset({dtypes.bool, dtypes.string, dtypes.resource, dtypes.variant})


def is_numeric_tensor(tensor: object) -> bool:
    """Return whether a value is a tensor of numbers, quantized ones too."""
    return (
        isinstance(tensor, Tensor)
        and tensor.dtype.base_dtype is tensor.dtype  # no reference
        and tensor.dtype not in _NO_NUMBERS
    )


def assert_integer(x: TensorLike, message: str | None = None, name: str | None = None) -> Operation:
    """Check that a tensor's dtype is an integer type.

    Returns an operation that does nothing. Raises TypeError for another dtype.
    """
    with name_scope(name, "assert_integer", [x]):
        x = convert_to_tensor(x, name="x")
        if not x.dtype.is_integer:
            raise TypeError(
                f'{message_prefix(message)}Expected "x" to be integer type.  Found: {x.name} of '
                f"dtype {x.dtype}"
            )
        return no_op("statically_determined_was_integer")


def assert_type(
    tensor: TensorLike, tf_type: DTypeLike, message: str | None = None, name: str | None = None
) -> Operation:
    """Check a tensor's dtype.

    Returns an operation that does nothing. Raises TypeError for another dtype.
    """
    wanted = as_dtype(tf_type)
    with name_scope(name, "assert_type", [tensor]):
        made: DenseOrSparse = (
            tensor if is_sparse(tensor) else convert_to_tensor(tensor, name="tensor")
        )
        if made.dtype != wanted:
            shown = getattr(made, "name", "tensor")
            raise TypeError(
                f"{message_prefix(message)}{shown} must be of type {wanted!r}; got {made.dtype!r}"
            )
        return no_op("statically_determined_correct_type")


def assert_proper_iterable(values: Structure) -> None:
    """Raise TypeError unless a value is an iterable of several values.

    Tensors, arrays and texts are none, though they can be iterated over.
    """
    if isinstance(values, (Tensor, np.ndarray, str, bytes)) or is_sparse(values):
        raise TypeError(
            f'Expected argument "values" to be a "proper" iterable.  Found: {type(values)}'
        )
    if not hasattr(values, "__iter__"):
        raise TypeError(f'Expected argument "values" to be iterable.  Found: {type(values)}')


def assert_same_float_dtype(
    tensors: Sequence[DenseOrSparse] | None = None, dtype: DType | None = None
) -> DType:
    """Return the dtype of all tensors, float32 without any.

    Raises ValueError for dtypes that differ or are no float types.
    """
    first = ""
    for item in tensors or ():
        if item is None:
            continue
        own = item.dtype.base_dtype
        shown = str(getattr(item, "name", item))
        if dtype is None:
            dtype, first = own, f" as {shown}"
        elif own != dtype:
            raise ValueError(f"{shown}, type={own}, must be of the same type ({dtype}){first}.")
    if dtype is None:
        return dtypes.float32
    if not dtype.is_floating:
        raise ValueError(f"Expected floating point type, got {dtype}.")
    return dtype


def verify_tensor_all_finite(
    t: TensorLike | None = None,
    msg: str | None = None,
    name: str | None = None,
    x: TensorLike | None = None,
    message: str | None = None,
) -> Tensor:
    """Return a tensor behind a check that its elements are finite.

    t, msg: the former names of x, a float tensor, and of message. A run raises InvalidArgumentError
    with the message for an element that is infinite or no number.
    """
    value = renamed(x, t, "x", "t")
    text = renamed(message, msg, "message", "msg")
    with name_scope(name, "VerifyFinite", [value]):
        value = convert_to_tensor(value, name="x")
        with get_default_graph().colocate_with(value.op):
            checked = check_numerics(value, message=text)
            return with_dependencies([checked], value)
