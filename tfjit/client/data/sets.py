"""`tfjit.sets`: the last axis of tensors as sets.

A sparse tensor has as its sets the values of each row; a dense tensor has sets of one size, in
which equal values count once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tfjit.client.data.sparse_tensors import SparseTensor, convert_to_tensor_or_sparse_tensor
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.ops.core.apply import call, tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DenseOrSparse, TensorLike

__all__ = [
    "difference",
    "intersection",
    "set_difference",
    "set_intersection",
    "set_size",
    "set_union",
    "size",
    "union",
]

_DTYPES: Final = frozenset(
    {
        *(dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64),
        *(dtypes.uint8, dtypes.uint16, dtypes.string),
    }
)


def set_size(a: TensorLike, validate_indices: bool = True) -> Tensor:
    """Return the number of unique values of each row, int32.

    a: a sparse tensor of integers or strings, its indices in the order of rows. validate_indices: a
    run checks that. Raises TypeError for a dense tensor or another dtype.
    """
    sets = convert_to_tensor_or_sparse_tensor(a, name="a")
    if not isinstance(sets, SparseTensor):
        raise TypeError(f"Expected `SparseTensor`, got {sets}.")
    if sets.values.dtype.base_dtype not in _DTYPES:
        raise TypeError(
            f"Invalid dtype `{sets.values.dtype}` not in supported dtypes: `{_DTYPES}`."
        )
    return tensor(
        "SetSize",
        None,
        set_indices=sets.indices,
        set_values=sets.values,
        set_shape=sets.dense_shape,
        validate_indices=validate_indices,
    )


def _pair(a: TensorLike, b: TensorLike) -> tuple[DenseOrSparse, DenseOrSparse, bool]:
    """Return both operands, a dense one first, and whether they were exchanged.

    Raises TypeError for dtypes that sets lack or that differ.
    """
    first = convert_to_tensor_or_sparse_tensor(a, name="a")
    if first.dtype.base_dtype not in _DTYPES:
        raise TypeError(
            f"'a' has invalid dtype `{first.dtype}` not in supported dtypes: `{_DTYPES}`."
        )
    second = convert_to_tensor_or_sparse_tensor(b, name="b")
    if second.dtype.base_dtype != first.dtype.base_dtype:
        raise TypeError(f"Types don't match, {first.dtype} vs {second.dtype}.")
    if isinstance(first, SparseTensor) and not isinstance(second, SparseTensor):
        return second, first, True
    return first, second, False


def _operate(
    a: DenseOrSparse, b: DenseOrSparse, operation: str, validate_indices: bool
) -> SparseTensor:
    """Return the sets that an operation makes of each pair of sets."""
    operands, kinds = {}, ""
    for number, value in enumerate((a, b), 1):
        sparse = isinstance(value, SparseTensor)
        kinds += "SparseTo" if sparse else "DenseTo"
        if sparse:
            for part, made in zip(
                ("indices", "values", "shape"),
                (value.indices, value.values, value.dense_shape),
                strict=True,
            ):
                operands[f"set{number}_{part}"] = made
        else:
            operands[f"set{number}"] = value
    found = call(
        kinds.removesuffix("To") + "SetOperation",
        None,
        **operands,
        set_operation=operation,
        validate_indices=validate_indices,
    )
    return SparseTensor(*found)


def set_intersection(a: TensorLike, b: TensorLike, validate_indices: bool = True) -> SparseTensor:
    """Return the values that are in both sets, in ascending order.

    a, b: dense or sparse, of one dtype (integers or strings), equal in all sizes but the last one.
    Raises TypeError for other dtypes.
    """
    first, second, _ = _pair(a, b)
    return _operate(first, second, "intersection", validate_indices)


def set_difference(
    a: TensorLike, b: TensorLike, aminusb: bool = True, validate_indices: bool = True
) -> SparseTensor:
    """Return the values of a that b lacks.

    aminusb: False for those of b that a lacks.

    See `set_intersection`.
    """
    first, second, exchanged = _pair(a, b)
    operation = "a-b" if aminusb != exchanged else "b-a"
    return _operate(first, second, operation, validate_indices)


def set_union(a: TensorLike, b: TensorLike, validate_indices: bool = True) -> SparseTensor:
    """Return the values that are in one of both sets; see `set_intersection`."""
    first, second, _ = _pair(a, b)
    return _operate(first, second, "union", validate_indices)


size = set_size
intersection = set_intersection
difference = set_difference
union = set_union
