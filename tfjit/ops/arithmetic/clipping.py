"""Clip by norms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.ops.arithmetic.reduction import axes_or_all
from tfjit.ops.core.apply import tensor
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike


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
    t: TensorLike, clip_norm: TensorLike, axes: Any = None, name: str | None = None
) -> Tensor:
    """Scale `t` down to an L2 norm of at most clip_norm."""
    with name_scope(name, "clip_by_norm", [t, clip_norm]) as scope:
        values = convert_to_tensor(t, name="t")
        squares = tensor("Mul", None, x=values, y=values)
        total = tensor(
            "Sum", None, input=squares, reduction_indices=axes_or_all(values, axes), keep_dims=True
        )
        some = tensor("Greater", None, x=total, y=convert_to_tensor(0, total.dtype.base_dtype))
        safe = tensor("Select", None, condition=some, t=total, e=tensor("OnesLike", None, x=total))
        norm = tensor("Select", None, condition=some, t=tensor("Sqrt", None, x=safe), e=total)
        intermediate = tensor("Mul", None, x=values, y=clip_norm)
        return tensor(
            "RealDiv", scope, x=intermediate, y=tensor("Maximum", None, x=norm, y=clip_norm)
        )


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
