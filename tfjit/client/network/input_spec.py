"""Conditions on the inputs of a layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tfjit.framework.types import nest
from tfjit.framework.types.dtypes import as_dtype
from tfjit.framework.types.shape import TensorShape, as_shape

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DTypeLike, ShapeLike, Structure


class InputSpec:
    """The rank, dtype and sizes that a layer needs of one input.

    axes: axis -> size, for some of the axes. shape: all sizes, None for any; it sets `ndim`.
    allow_last_axis_squeeze: an input may have or lack a last axis of size 1. Raises TypeError for
    axes that are no mapping of numbers, ValueError for an axis beyond the rank.
    """

    def __init__(
        self,
        dtype: DTypeLike | None = None,
        shape: ShapeLike | None = None,
        ndim: int | None = None,
        max_ndim: int | None = None,
        min_ndim: int | None = None,
        axes: Mapping[int, int | None] | None = None,
        allow_last_axis_squeeze: bool = False,
        name: str | None = None,
        optional: bool = False,
    ) -> None:
        self.dtype = None if dtype is None else as_dtype(dtype).name
        self.shape = None if shape is None else as_shape(shape)
        self.ndim = ndim if self.shape is None else len(self.shape)
        self.max_ndim = max_ndim
        self.min_ndim = min_ndim
        self.name = name
        self.allow_last_axis_squeeze = allow_last_axis_squeeze
        self.optional = optional
        try:
            self.axes = {int(axis): size for axis, size in (axes or {}).items()}
        except (AttributeError, TypeError, ValueError):
            raise TypeError(
                f"Argument `axes` must be a dict with integer keys. Received: axes={axes}"
            ) from None
        limit = self.ndim if self.ndim is not None else self.max_ndim
        if self.axes and limit is not None and max(self.axes) > limit - 1:
            raise ValueError(
                f"Axis {max(self.axes)} is greater than the maximum allowed value: {limit - 1}"
            )

    def __repr__(self) -> str:
        shown = ("dtype", "shape", "ndim", "max_ndim", "min_ndim", "axes")
        given = [(name, getattr(self, name)) for name in shown]
        told = ", ".join(f"{name}={value}" for name, value in given if value not in (None, {}))
        return f"InputSpec({told})"

    def fault(self, dtype: object, shape: TensorShape) -> str | None:
        """Return the first condition that an input breaks, None for a fit.

        An input of unknown rank fits: the run will tell.
        """
        sizes = shape.dims_tuple
        if sizes is None:
            return None
        full = f"Full shape received: {sizes}"
        rank = len(sizes)
        if self.ndim is not None and not self.allow_last_axis_squeeze and rank != self.ndim:
            return f"expected ndim={self.ndim}, found ndim={rank}. {full}"
        if self.max_ndim is not None and rank > self.max_ndim:
            return f"expected max_ndim={self.max_ndim}, found ndim={rank}"
        if self.min_ndim is not None and rank < self.min_ndim:
            return f"expected min_ndim={self.min_ndim}, found ndim={rank}. {full}"
        return self._wrong_dtype(dtype) or self._wrong_size(sizes)

    def _wrong_dtype(self, dtype: object) -> str | None:
        found = getattr(dtype, "base_dtype", dtype)
        if self.dtype is None or found is as_dtype(self.dtype):
            return None
        return f"expected dtype={self.dtype}, found dtype={found}"

    def _wrong_size(self, sizes: tuple[int | None, ...]) -> str | None:
        for axis, size in self.axes.items():
            if size is not None and sizes[axis] not in (size, None):
                return (
                    f"expected axis {axis} of input shape to have value {size}, but received "
                    f"input with shape {sizes}"
                )
        if self.shape is None:
            return None
        wanted, found = self.shape, sizes
        if self.allow_last_axis_squeeze:
            wanted, found = _without_last_one(wanted), _without_last_one(found)
        if len(wanted) != len(found) or any(
            a is not None and b is not None and a != b for a, b in zip(wanted, found)
        ):
            return f"expected shape={self.shape}, found shape={sizes}"
        return None


def _without_last_one(sizes: tuple[int | None, ...]) -> tuple[int | None, ...]:
    return sizes[:-1] if sizes and sizes[-1] == 1 else sizes


def check_inputs(
    specs: InputSpec | Sequence[InputSpec] | None, inputs: Structure, layer: str
) -> None:
    """Check the inputs of the layer of this name.

    Raises ValueError for another number of inputs, and for the first condition that is broken.
    """
    if specs is None:
        return
    wanted = [specs] if isinstance(specs, InputSpec) else list(specs)
    found = nest.flatten(inputs)
    if len(found) != len(wanted):
        raise ValueError(
            f'Layer "{layer}" expects {len(wanted)} input(s), but it received {len(found)} input '
            f"tensors. Inputs received: {found}"
        )
    for i, (spec, value) in enumerate(zip(wanted, found)):
        fault = spec.fault(value.dtype, value.shape)
        if fault is not None:
            raise ValueError(
                f'Input {i} of layer "{layer}" is incompatible with the layer: {fault}'
            )
