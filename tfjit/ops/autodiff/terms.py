"""Build terms that the rules of gradients share."""

from __future__ import annotations

from collections.abc import Callable

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import GradientFn
from tfjit.framework.types import dtypes
from tfjit.ops import raw_ops as raw
from tfjit.ops.core.convert import convert_to_tensor

# (x, y, gradient of y) -> gradient of x
UnaryRule = Callable[[Tensor, Tensor, Tensor], Tensor]
COMPLEX = (dtypes.complex64, dtypes.complex128)


def conj(x: Tensor) -> Tensor:
    """Return the conjugate; for reals the tensor itself."""
    return raw.Conj(input=x) if x.dtype.base_dtype in COMPLEX else x


def like(value: float, x: Tensor) -> Tensor:
    """Return a scalar constant of a tensor's dtype."""
    return convert_to_tensor(value, dtype=x.dtype.base_dtype)


def reduced(gradient: Tensor | None, x: Tensor, other: Tensor, *, first: bool) -> Tensor | None:
    """Sum a gradient of the broadcast shape to x's shape.

    The broadcast is of x and `other`. first: x stood before `other`.
    """
    if gradient is None:
        return None
    ours, theirs = x.shape_tuple, other.shape_tuple
    if ours is not None and None not in ours and ours == theirs:
        return gradient
    gradient = convert_to_tensor(gradient)  # rows of a gather's gradient are to be summed
    if (
        gradient.shape_tuple is not None
        and gradient.shape_tuple == ours
        and None not in (ours or ())
    ):
        return gradient
    shape, other_shape = raw.Shape(input=x), raw.Shape(input=other)
    pair = (
        raw.BroadcastGradientArgs(s0=shape, s1=other_shape)
        if first
        else raw.BroadcastGradientArgs(s0=other_shape, s1=shape)
    )
    axes = pair[0] if first else pair[1]
    return raw.Reshape(tensor=raw.Sum(input=gradient, reduction_indices=axes), shape=shape)


def attrs_of(op: Operation, *names: str) -> dict[str, object]:
    """Return attrs of the operation by name."""
    return {name: op.get_attr(name) for name in names}


def both(
    op: Operation, for_x: Tensor | None, for_y: Tensor | None
) -> tuple[Tensor | None, Tensor | None]:
    """Return gradients of a broadcasting operation's two inputs.

    Each is summed to its input's shape.
    """
    x, y = op.inputs[:2]
    return reduced(for_x, x, y, first=True), reduced(for_y, y, x, first=False)


def unary(rule: UnaryRule) -> GradientFn:
    """Return the gradient function of an op of one input and output."""
    return lambda op, grad: rule(op.inputs[0], op.outputs[0], grad)
