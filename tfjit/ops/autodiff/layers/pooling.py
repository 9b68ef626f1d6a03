"""Define gradients of pooling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.ops import raw_ops as raw
from tfjit.ops.autodiff.terms import attrs_of

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients


@RegisterGradient("MaxPool")
def _max_pool(op: Operation, grad: Tensor) -> Gradients:
    options = attrs_of(op, "ksize", "strides", "padding", "explicit_paddings", "data_format")
    return raw.MaxPoolGrad(orig_input=op.inputs[0], orig_output=op.outputs[0], grad=grad, **options)


@RegisterGradient("AvgPool")
def _avg_pool(op: Operation, grad: Tensor) -> Gradients:
    options = attrs_of(op, "ksize", "strides", "padding", "data_format")
    return raw.AvgPoolGrad(orig_input_shape=raw.Shape(input=op.inputs[0]), grad=grad, **options)


@RegisterGradient("AvgPoolGrad")
def _avg_pool_grad(op: Operation, grad: Tensor) -> Gradients:
    return None, raw.AvgPool(
        value=grad, **attrs_of(op, "ksize", "strides", "padding", "data_format")
    )


@RegisterGradient("MaxPoolWithArgmax")
def _max_pool_with_argmax(op: Operation, grad: Tensor, _: object) -> Gradients:
    options = attrs_of(op, "ksize", "strides", "padding", "include_batch_in_index")
    return raw.MaxPoolGradWithArgmax(input=op.inputs[0], grad=grad, argmax=op.outputs[1], **options)


@RegisterGradient("MaxPoolGrad")
def _max_pool_grad(op: Operation, grad: Tensor) -> Gradients:
    x, y, _ = op.inputs
    second = raw.MaxPoolGradGrad(
        orig_input=x,
        orig_output=y,
        grad=grad,
        **attrs_of(op, "ksize", "strides", "padding", "data_format"),
    )
    return raw.ZerosLike(x=x), raw.ZerosLike(x=y), second


_POOL_3D = ("ksize", "strides", "padding", "data_format")


@RegisterGradient("MaxPool3D")
def _max_pool_3d(op: Operation, grad: Tensor) -> Gradients:
    return raw.MaxPool3DGrad(
        orig_input=op.inputs[0], orig_output=op.outputs[0], grad=grad, **attrs_of(op, *_POOL_3D)
    )


@RegisterGradient("AvgPool3D")
def _avg_pool_3d(op: Operation, grad: Tensor) -> Gradients:
    return raw.AvgPool3DGrad(
        orig_input_shape=raw.Shape(input=op.inputs[0]), grad=grad, **attrs_of(op, *_POOL_3D)
    )


@RegisterGradient("AvgPool3DGrad")
def _avg_pool_3d_grad(op: Operation, grad: Tensor) -> Gradients:
    return None, raw.AvgPool3D(input=grad, **attrs_of(op, *_POOL_3D))


@RegisterGradient("MaxPool3DGrad")
@RegisterGradient("MaxPool3DGradGrad")
def _max_pool_3d_grad(op: Operation, grad: Tensor) -> Gradients:
    """Return the gradient of the third input; choices are constant.

    Each of the two moves values between the same places, the other way round.
    """
    x, y, _ = op.inputs
    other = raw.MaxPool3DGrad if op.type == "MaxPool3DGradGrad" else raw.MaxPool3DGradGrad
    third = other(orig_input=x, orig_output=y, grad=grad, **attrs_of(op, *_POOL_3D))
    return raw.ZerosLike(x=x), raw.ZerosLike(x=y), third


@RegisterGradient("MaxPoolV2")
def _max_pool_v2(op: Operation, grad: Tensor) -> Gradients:
    x, sizes, strides = op.inputs
    gradient = raw.MaxPoolGradV2(
        orig_input=x,
        orig_output=op.outputs[0],
        grad=grad,
        ksize=sizes,
        strides=strides,
        **attrs_of(op, "padding", "data_format"),
    )
    return gradient, None, None


@RegisterGradient("MaxPoolGradV2")
def _max_pool_grad_v2(op: Operation, grad: Tensor) -> Gradients:
    x, y, _, sizes, strides = op.inputs
    second = raw.MaxPoolGradGradV2(
        orig_input=x,
        orig_output=y,
        grad=grad,
        ksize=sizes,
        strides=strides,
        **attrs_of(op, "padding", "data_format"),
    )
    return raw.ZerosLike(x=x), raw.ZerosLike(x=y), second, None, None
