"""Check and convert the input arrays of every family's references."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.types.shape import format_shape

Arrays = Sequence[np.ndarray]


def invalid(message: str) -> NoReturn:
    """Raise InvalidArgumentError; the executor adds the node."""
    raise InvalidArgumentError(None, None, message)


def shape_text(value: np.ndarray) -> str:
    """Return the shape of an array as the runtime writes shapes, "[2,3]"."""
    return format_shape(value.shape)


def taken(values: np.ndarray, indices: np.ndarray, axis: int) -> np.ndarray:
    """Return slices along an axis by number.

    NumPy's own take makes a bare string of one index of a vector of strings.
    """
    if indices.ndim:
        return np.take(values, indices, axis)
    return np.take(values, indices[None], axis).squeeze(axis)


def contiguous(value: np.ndarray) -> np.ndarray:
    """Return the array in C order.

    NumPy's own ascontiguousarray makes a vector of a scalar.
    """
    return np.asarray(value, order="C")


def normal_axis(
    axis: int,
    rank: int,
    message: str = "Expected dimension in the range [{low}, {high}), but got {axis}",
) -> int:
    """Return an axis counted from the front.

    Raises InvalidArgumentError when the axis lies outside of [-rank, rank).
    """
    if not -rank <= axis < rank:
        invalid(message.format(low=-rank, high=rank, axis=axis))
    return axis + rank if axis < 0 else axis


def compute_dtype(dtype: Any) -> Any:
    """Return the type to accumulate in.

    half and bfloat16 sum in float32, as TensorFlow's kernels do.
    """
    kind = np.dtype(dtype)
    return np.float32 if kind.itemsize <= 2 and kind.kind in "fV" else kind.type


def widen(*arrays: np.ndarray) -> list[np.ndarray]:
    """Return the arrays in the type that sums are kept in."""
    return [a.astype(compute_dtype(a.dtype), copy=False) for a in arrays]
