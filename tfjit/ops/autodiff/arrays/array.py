"""Define gradients of operations that make, index and gather."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.framework.types import dtypes
from tfjit.ops import raw_ops as raw

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients


@RegisterGradient("Fill")
def _fill(op: Operation, grad: Tensor) -> Gradients:
    return None, raw.Sum(
        input=grad, reduction_indices=raw.Range(start=0, limit=raw.Rank(input=grad), delta=1)
    )


@RegisterGradient("Reshape")
@RegisterGradient("ExpandDims")
def _reshape(op: Operation, grad: Tensor) -> Gradients:
    return raw.Reshape(tensor=grad, shape=raw.Shape(input=op.inputs[0])), None


@RegisterGradient("Squeeze")
def _squeeze(op: Operation, grad: Tensor) -> Gradients:
    return raw.Reshape(tensor=grad, shape=raw.Shape(input=op.inputs[0]))


@RegisterGradient("BroadcastTo")
def _broadcast_to(op: Operation, grad: Tensor) -> Gradients:
    shape = raw.Shape(input=op.inputs[0])
    axes = raw.BroadcastGradientArgs(s0=shape, s1=raw.Cast(x=op.inputs[1], DstT=dtypes.int32))[0]
    return raw.Reshape(tensor=raw.Sum(input=grad, reduction_indices=axes), shape=shape), None


@RegisterGradient("PlaceholderWithDefault")
def _placeholder_with_default(op: Operation, grad: Tensor) -> Gradients:
    return grad


@RegisterGradient("PreventGradient")
def _prevent_gradient(op: Operation, grad: Tensor) -> Gradients:
    raise LookupError(f"Gradient explicitly disabled. Reason: {op.get_attr('message')!r}")


@RegisterGradient("Identity")
@RegisterGradient("Snapshot")
@RegisterGradient("EnsureShape")
def _same(op: Operation, grad: Tensor) -> Gradients:
    return grad


@RegisterGradient("CheckNumerics")
def _check_numerics(op: Operation, grad: Tensor) -> Gradients:
    return raw.CheckNumerics(
        tensor=grad, message="Not a number (NaN) or infinity (Inf) values detected in gradient."
    )


@RegisterGradient("CheckNumericsV2")
def _check_numerics_v2(op: Operation, grad: Tensor) -> Gradients:
    message = op.get_attr("message")
    text = message.decode() if isinstance(message, bytes) else message
    return raw.CheckNumericsV2(
        tensor=grad,
        message=f"Not a number (NaN) or infinity (Inf) values detected in gradient. {text}",
    )


@RegisterGradient("IdentityN")
def _identity_n(op: Operation, *grads: Tensor) -> Gradients:
    return list(grads)


@RegisterGradient("Diag")
def _diag(op: Operation, grad: Tensor) -> Gradients:
    return raw.DiagPart(input=grad)


@RegisterGradient("DiagPart")
def _diag_part(op: Operation, grad: Tensor) -> Gradients:
    return raw.Diag(diagonal=grad)
