"""Clip by norms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.indexed_slices import IndexedSlices
from tfjit.framework.graphs.operation import Tensor
from tfjit.ops.arithmetic.reduction import axes_or_all
from tfjit.ops.core.apply import tensor
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.core.sizes import shape_of

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure, TensorLike


def global_norm(t_list: Any, name: str | None = None) -> Tensor:
    """Return the square root of all elements' sum of squares.

    The sum is over all tensors.
    """
    with name_scope(name, "global_norm", [t for t in t_list if t is not None]):
        halves = [tensor("L2Loss", None, t=t) for t in t_list if t is not None]
        stacked = tensor("Pack", None, values=halves, axis=0)
        total = tensor("Sum", None, input=stacked, reduction_indices=[0])
        return tensor(
            "Sqrt",
            "global_norm",
            x=tensor("Mul", None, x=total, y=convert_to_tensor(2, total.dtype.base_dtype)),
        )


def clip_by_norm(
    t: Structure, clip_norm: TensorLike, axes: Any = None, name: str | None = None
) -> Structure:
    """Scale `t` down to an L2 norm of at most clip_norm.

    axes: those that a norm is over, by default all. A negative clip_norm counts as 0. Returns
    IndexedSlices for such. Raises ValueError for a clip_norm of a shape that widens `t`.
    """
    with name_scope(name, "clip_by_norm", [t, clip_norm]) as scope:
        values = convert_to_tensor(t.values if isinstance(t, IndexedSlices) else t, name="t")
        limit: Structure = clip_norm
        if np.isscalar(clip_norm):
            limit = max(limit, 0)
        else:
            limit = tensor("Maximum", None, x=limit, y=0)
            if limit.dtype is not values.dtype:
                limit = tensor("Cast", None, x=limit, DstT=values.dtype)
        squares = tensor("Mul", "mul", x=values, y=values)
        total = tensor(
            "Sum", None, input=squares, reduction_indices=axes_or_all(squares, axes), keep_dims=True
        )
        some = tensor("Greater", None, x=total, y=0)
        # the root of a positive number in either branch: the gradient of the other one is no NaN
        safe = tensor("Select", None, condition=some, t=total, e=_ones_like(total))
        norm = tensor("Select", None, condition=some, t=tensor("Sqrt", None, x=safe), e=total)
        scaled = tensor("Mul", "mul", x=values, y=limit)
        values.shape.assert_is_compatible_with(scaled.shape)
        divisor = tensor("Maximum", None, x=norm, y=limit)
        ratio = tensor("RealDiv", "truediv", x=scaled, y=divisor)
        clipped = tensor("Identity", scope, input=ratio)
        if isinstance(t, IndexedSlices):
            return IndexedSlices(clipped, t.indices, t.dense_shape)
        return clipped


def _ones_like(value: Tensor) -> Tensor:
    with name_scope("ones_like") as scope:
        sizes = shape_of(value, "Shape/shape_as_tensor")
        one = convert_to_tensor(1, value.dtype.base_dtype, name="Const")
        return tensor("Fill", scope, dims=sizes, value=one)


def clip_by_global_norm(
    t_list: Any, clip_norm: TensorLike, use_norm: TensorLike | None = None, name: str | None = None
) -> tuple[list[Any], Tensor]:
    """Scale tensors down together to a global norm of at most clip_norm.

    Returns (scaled tensors, the norm before). None entries stay.
    """
    norm = global_norm(t_list) if use_norm is None else convert_to_tensor(use_norm)
    with name_scope(name, "clip_by_global_norm", [t for t in t_list if t is not None]):
        one = convert_to_tensor(1, norm.dtype.base_dtype)
        limit = convert_to_tensor(clip_norm, norm.dtype.base_dtype)
        scale = tensor(
            "Mul",
            None,
            x=limit,
            y=tensor(
                "Minimum",
                None,
                x=tensor("RealDiv", None, x=one, y=norm),
                y=tensor("RealDiv", None, x=one, y=limit),
            ),
        )
        # An infinite norm makes everything NaN rather than silently zero.
        finite = tensor(
            "Select",
            None,
            condition=tensor("IsFinite", None, x=norm),
            t=scale,
            e=convert_to_tensor(float("nan"), norm.dtype.base_dtype),
        )
        return [None if t is None else tensor("Mul", None, x=t, y=finite) for t in t_list], norm
