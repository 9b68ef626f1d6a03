"""Stack elements to one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tfjit.framework import errors
from tfjit.framework.types.shape import format_shape
from tfjit.runtime.datasets.element import Element, Value

if TYPE_CHECKING:
    from tfjit.runtime.datasets.dataset import Element


def stacked(rows: Sequence[Element]) -> list[Value]:
    """Return the components of one or more elements, stacked.

    Raises InvalidArgumentError for elements of different shapes.
    """
    return [_stack([row[i] for row in rows], i) for i in range(len(rows[0]))]


def _stack(values: Element, component: int) -> Value:
    first = values[0]
    if not isinstance(first, np.ndarray):  # variants
        objects = np.empty(len(values), object)
        objects[:] = values
        return objects
    shape = first.shape
    out = np.empty((len(values), *shape), first.dtype)
    is_object = out.dtype == object
    for i, value in enumerate(values):
        if value.shape != shape:
            raise errors.InvalidArgumentError(
                None,
                None,
                "Cannot batch tensors with different shapes in component "
                f"{component}. First element had shape {format_shape(shape)} and element {i} had "
                f"shape {format_shape(value.shape)}.",
            )
        if is_object:
            out[i, ...] = value  # without the dots, a scalar's array would become the element
        else:
            out[i] = value
    return out


def padded_stack(
    rows: Sequence[Element],
    shapes: Sequence[tuple[int | None, ...]],
    fill: Sequence[np.ndarray],
) -> list[Value]:
    """Return the components of elements, stacked and padded with `fill`.

    shapes: of the padded rows; None for the largest size among them. Raises InvalidArgumentError
    for a row of another rank and DataLossError for a larger one.
    """
    return [_padded([row[i] for row in rows], i, shapes[i], fill[i]) for i in range(len(rows[0]))]


def _padded(
    values: Sequence[np.ndarray], component: int, shape: tuple[int | None, ...], fill: np.ndarray
) -> np.ndarray:
    sizes = [0 if d is None else d for d in shape]
    for value in values:
        if value.ndim != len(shape):
            raise errors.InvalidArgumentError(
                None,
                None,
                f"All elements in a batch must have the same rank as the padded shape for component"
                f"{component}: expected rank {len(shape)} but got element with rank {value.ndim}",
            )
        for axis, wanted in enumerate(shape):
            size = value.shape[axis]
            if wanted is None:
                sizes[axis] = max(sizes[axis], size)
            elif size > wanted:
                raise errors.DataLossError(
                    None,
                    None,
                    "Attempted to pad to a smaller size than the input element.",
                )
    out = np.empty((len(values), *sizes), values[0].dtype)
    out[...] = fill
    for i, value in enumerate(values):
        place: tuple[Value, ...] = (i, *map(slice, value.shape), ...)
        out[place] = value
    return out


__all__ = ["padded_stack", "stacked"]
