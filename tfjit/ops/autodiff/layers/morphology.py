"""Define the gradient of dilation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.ops import raw_ops as raw
from tfjit.ops.autodiff.terms import attrs_of

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients


@RegisterGradient("Dilation2D")
def _dilation2d(op: Operation, grad: Tensor) -> Gradients:
    x, w = op.inputs
    options = attrs_of(op, "strides", "rates", "padding")
    return (
        raw.Dilation2DBackpropInput(input=x, filter=w, out_backprop=grad, **options),
        raw.Dilation2DBackpropFilter(input=x, filter=w, out_backprop=grad, **options),
    )
