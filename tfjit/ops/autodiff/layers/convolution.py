"""Define gradients of convolution."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.ops import raw_ops as raw
from tfjit.ops.autodiff.terms import attrs_of

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients

_CONV = ("strides", "padding", "explicit_paddings", "use_cudnn_on_gpu", "data_format", "dilations")
_DEPTHWISE = ("strides", "padding", "explicit_paddings", "data_format", "dilations")
_CONV_3D = ("strides", "padding", "data_format", "dilations")


@RegisterGradient("Conv2D")
def _conv2d(op: Operation, grad: Tensor) -> Gradients:
    x, w = op.inputs
    options = attrs_of(op, *_CONV)
    sizes = raw.ShapeN(input=[x, w])
    return (
        raw.Conv2DBackpropInput(input_sizes=sizes[0], filter=w, out_backprop=grad, **options),
        raw.Conv2DBackpropFilter(input=x, filter_sizes=sizes[1], out_backprop=grad, **options),
    )


@RegisterGradient("Conv2DBackpropInput")
def _conv2d_backprop_input(op: Operation, grad: Tensor) -> Gradients:
    _, w, out = op.inputs
    options = attrs_of(op, *_CONV)
    for_w = raw.Conv2DBackpropFilter(
        input=grad, filter_sizes=raw.Shape(input=w), out_backprop=out, **options
    )
    return None, for_w, raw.Conv2D(input=grad, filter=w, **options)


@RegisterGradient("Conv2DBackpropFilter")
def _conv2d_backprop_filter(op: Operation, grad: Tensor) -> Gradients:
    x, _, out = op.inputs
    options = attrs_of(op, *_CONV)
    for_x = raw.Conv2DBackpropInput(
        input_sizes=raw.Shape(input=x), filter=grad, out_backprop=out, **options
    )
    return for_x, None, raw.Conv2D(input=x, filter=grad, **options)


@RegisterGradient("DepthwiseConv2dNative")
def _depthwise_conv2d(op: Operation, grad: Tensor) -> Gradients:
    x, w = op.inputs
    options = attrs_of(op, *_DEPTHWISE)
    return (
        raw.DepthwiseConv2dNativeBackpropInput(
            input_sizes=raw.Shape(input=x), filter=w, out_backprop=grad, **options
        ),
        raw.DepthwiseConv2dNativeBackpropFilter(
            input=x, filter_sizes=raw.Shape(input=w), out_backprop=grad, **options
        ),
    )


@RegisterGradient("DepthwiseConv2dNativeBackpropInput")
def _depthwise_backprop_input(op: Operation, grad: Tensor) -> Gradients:
    _, w, out = op.inputs
    options = attrs_of(op, *_DEPTHWISE)
    for_w = raw.DepthwiseConv2dNativeBackpropFilter(
        input=grad, filter_sizes=raw.Shape(input=w), out_backprop=out, **options
    )
    return None, for_w, raw.DepthwiseConv2dNative(input=grad, filter=w, **options)


@RegisterGradient("DepthwiseConv2dNativeBackpropFilter")
def _depthwise_backprop_filter(op: Operation, grad: Tensor) -> Gradients:
    x, _, out = op.inputs
    options = attrs_of(op, *_DEPTHWISE)
    for_x = raw.DepthwiseConv2dNativeBackpropInput(
        input_sizes=raw.Shape(input=x), filter=grad, out_backprop=out, **options
    )
    return for_x, None, raw.DepthwiseConv2dNative(input=x, filter=grad, **options)


@RegisterGradient("Conv3DBackpropInputV2")
def _conv3d_backprop_input(op: Operation, grad: Tensor) -> Gradients:
    _, w, out = op.inputs
    options = attrs_of(op, *_CONV_3D)
    for_w = raw.Conv3DBackpropFilterV2(
        input=grad, filter_sizes=raw.Shape(input=w), out_backprop=out, **options
    )
    return None, for_w, raw.Conv3D(input=grad, filter=w, **options)


@RegisterGradient("Conv3DBackpropFilterV2")
def _conv3d_backprop_filter(op: Operation, grad: Tensor) -> Gradients:
    x, _, out = op.inputs
    options = attrs_of(op, *_CONV_3D)
    for_x = raw.Conv3DBackpropInputV2(
        input_sizes=raw.Shape(input=x), filter=grad, out_backprop=out, **options
    )
    return for_x, None, raw.Conv3D(input=x, filter=grad, **options)


@RegisterGradient("Conv3D")
def _conv3d(op: Operation, grad: Tensor) -> Gradients:
    x, w = op.inputs
    options = attrs_of(op, *_CONV_3D)
    sizes = raw.ShapeN(input=[x, w])
    return (
        raw.Conv3DBackpropInputV2(input_sizes=sizes[0], filter=w, out_backprop=grad, **options),
        raw.Conv3DBackpropFilterV2(input=x, filter_sizes=sizes[1], out_backprop=grad, **options),
    )


@RegisterGradient("Dilation2D")
def _dilation2d(op: Operation, grad: Tensor) -> Gradients:
    x, w = op.inputs
    options = attrs_of(op, "strides", "rates", "padding")
    return (
        raw.Dilation2DBackpropInput(input=x, filter=w, out_backprop=grad, **options),
        raw.Dilation2DBackpropFilter(input=x, filter=w, out_backprop=grad, **options),
    )
