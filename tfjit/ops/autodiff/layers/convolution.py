"""Define gradients of convolution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.ops import raw_ops as raw
from tfjit.ops.autodiff.terms import attrs_of

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients

# convolution -> (gradient of its input, of its filter, attrs of all three)
_CONVOLUTIONS: Final = {
    "Conv2D": (
        "Conv2DBackpropInput",
        "Conv2DBackpropFilter",
        ("strides", "padding", "explicit_paddings", "use_cudnn_on_gpu", "data_format", "dilations"),
    ),
    "DepthwiseConv2dNative": (
        "DepthwiseConv2dNativeBackpropInput",
        "DepthwiseConv2dNativeBackpropFilter",
        ("strides", "padding", "explicit_paddings", "data_format", "dilations"),
    ),
    "Conv3D": (
        "Conv3DBackpropInputV2",
        "Conv3DBackpropFilterV2",
        ("strides", "padding", "data_format", "dilations"),
    ),
}


def _register_rules(convolution: str, for_x: str, for_w: str, attrs: tuple[str, ...]) -> None:
    """Register the gradients of a convolution and of its gradients.

    A convolution is linear in its input and in its filter, so each of the three ops has the other
    two as its gradients.
    """

    def convolved(op: Operation, x: Tensor, w: Tensor) -> Tensor:
        made: Tensor = getattr(raw, convolution)(input=x, filter=w, **attrs_of(op, *attrs))
        return made

    def of_input(op: Operation, sizes: Tensor, w: Tensor, out: Tensor) -> Tensor:
        made: Tensor = getattr(raw, for_x)(
            input_sizes=sizes, filter=w, out_backprop=out, **attrs_of(op, *attrs)
        )
        return made

    def of_filter(op: Operation, x: Tensor, sizes: Tensor, out: Tensor) -> Tensor:
        made: Tensor = getattr(raw, for_w)(
            input=x, filter_sizes=sizes, out_backprop=out, **attrs_of(op, *attrs)
        )
        return made

    @RegisterGradient(convolution)
    def _convolution(op: Operation, grad: Tensor) -> Gradients:
        x, w = op.inputs
        sizes = raw.ShapeN(input=[x, w])
        return of_input(op, sizes[0], w, grad), of_filter(op, x, sizes[1], grad)

    @RegisterGradient(for_x)
    def _of_input_gradient(op: Operation, grad: Tensor) -> Gradients:
        _, w, out = op.inputs
        return None, of_filter(op, grad, raw.Shape(input=w), out), convolved(op, grad, w)

    @RegisterGradient(for_w)
    def _of_filter_gradient(op: Operation, grad: Tensor) -> Gradients:
        x, _, out = op.inputs
        return of_input(op, raw.Shape(input=x), grad, out), None, convolved(op, x, grad)


for _convolution, _rules in _CONVOLUTIONS.items():
    _register_rules(_convolution, *_rules)
