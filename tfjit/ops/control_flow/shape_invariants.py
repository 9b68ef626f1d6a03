"""Check the shapes of loop variables against their invariants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types.shape import Shape, as_shape


def set_invariants(
    values: Sequence[Tensor], enters: Sequence[Tensor], invariants: Sequence[Any] | None
) -> None:
    """Give the Enters the shapes of their values, or the invariants.

    Raises ValueError where these do not fit.
    """
    for i, (value, entered) in enumerate(zip(values, enters, strict=True)):
        if invariants is None:
            entered.set_shape(value.shape)
            continue
        wanted = as_shape(invariants[i])
        if not fits(value.shape_tuple, wanted):
            raise ValueError(
                f"The shape invariant specified for {value.name} is not compatible with the "
                "initial shape of the loop variable. It enters "
                f"the loop with shape {value.shape}, but the specified shape invariant is "
                f"{shape_text(wanted)}."
            )
        entered._shape = wanted


def shape_text(shape: Shape) -> str:
    """Return a shape as messages about loops write it."""
    return (
        "<unknown>"
        if shape is None
        else "(" + ", ".join(str(d) for d in shape) + ("," if len(shape) == 1 else "") + ")"
    )


def fits(shape: Shape, invariant: Shape) -> bool:
    """Return whether every case of `shape` is one of `invariant`."""
    if invariant is None:
        return True
    if shape is None or len(shape) != len(invariant):
        return False
    return all(want is None or got == want for got, want in zip(shape, invariant, strict=True))


def check_back_edge(merge: Tensor, following: Tensor) -> None:
    """Raise ValueError unless a value for the next iteration fits its Merge."""
    if not fits(following.shape_tuple, merge.shape_tuple):
        source = merge.op.inputs[0].op.inputs[0]
        raise ValueError(
            f"Input tensor '{source.name}' enters the loop with shape "
            f"{shape_text(merge.shape_tuple)}, but has shape "
            f"{shape_text(following.shape_tuple)} after one iteration. To allow the shape to vary "
            "across iterations, use the "
            "`shape_invariants` argument of tf.while_loop to specify a less-specific shape."
        )
