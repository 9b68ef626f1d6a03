"""Optionals: a variant that holds tensors or is empty.

Gradients of conditionals use them for values that only one branch has computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tfjit.framework import errors
from tfjit.framework.types.dtypes import enum_name
from tfjit.framework.types.shape import format_shape, is_compatible
from tfjit.runtime.kernel_api.op_kernel import OpContext, runtime_kernel


class Optional:
    """An optional: its components, or None for an empty one.

    Immutable: its components are never written.
    """

    __slots__ = ("values",)

    def __init__(self, values: tuple[Any, ...] | None) -> None:
        self.values = values

    def __repr__(self) -> str:
        return f"<Optional {'None' if self.values is None else f'of {len(self.values)}'}>"


NOTHING: Final = Optional(None)


@runtime_kernel("OptionalFromValue")
def from_value(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Make an optional of copies of the inputs.

    A buffer of the step that made them may be written again.
    """
    return (
        Optional(
            tuple(value.copy() if isinstance(value, np.ndarray) else value for value in inputs)
        ),
    )


@runtime_kernel("OptionalNone")
def none(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return an optional that holds nothing."""
    return (NOTHING,)


@runtime_kernel("OptionalHasValue")
def has_value(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return whether it holds something."""
    return (np.array(_optional(inputs[0]).values is not None),)


@runtime_kernel("OptionalGetValue")
def get_value(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the components of an optional.

    Raises InvalidArgumentError where there are none, or they are not of the types and shapes that
    the node says.
    """
    values = _optional(inputs[0]).values
    if values is None:
        raise errors.InvalidArgumentError(None, None, "The given optional does not have a value.")
    types, shapes = ctx.attrs["output_types"], ctx.attrs["output_shapes"]
    if len(values) != len(types):
        raise errors.InvalidArgumentError(
            None, None, f"The given optional has {len(values)} components, expected {len(types)}."
        )
    for i, (value, dtype, shape) in enumerate(zip(values, types, shapes, strict=True)):
        if not isinstance(value, np.ndarray):
            continue
        if value.dtype != np.dtype(dtype.as_numpy_dtype):
            raise errors.InvalidArgumentError(
                None,
                None,
                f"The given optional does not match the expected type for component {i}. Expected: "
                f"{enum_name(dtype)}.",
            )
        if not is_compatible(shape.dims_tuple, value.shape):
            raise errors.InvalidArgumentError(
                None,
                None,
                f"The given optional does not match the expected shape for component {i}. "
                "Expected: "
                f"{format_shape(shape.dims_tuple)}. Actual: {format_shape(value.shape)}.",
            )
    return values


def _optional(value: Any) -> Optional:
    if not isinstance(value, Optional):
        raise errors.InvalidArgumentError(None, None, "input must be an Optional object.")
    return value
