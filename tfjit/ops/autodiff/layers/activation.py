"""Define gradients of activations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient, register
from tfjit.ops import raw_ops as raw
from tfjit.ops.autodiff.terms import UnaryRule, conj, like, unary

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients

UNARY: dict[str, UnaryRule] = {
    "Tanh": lambda x, y, g: raw.TanhGrad(y=conj(y), dy=g),
    "Sigmoid": lambda x, y, g: raw.SigmoidGrad(y=conj(y), dy=g),
    "Relu": lambda x, y, g: raw.ReluGrad(gradients=g, features=y),
    "Relu6": lambda x, y, g: raw.Relu6Grad(gradients=g, features=y),
    "Elu": lambda x, y, g: raw.EluGrad(gradients=g, outputs=y),
    "Selu": lambda x, y, g: raw.SeluGrad(gradients=g, outputs=y),
    "Softplus": lambda x, y, g: raw.SoftplusGrad(gradients=g, features=x),
    "Softsign": lambda x, y, g: raw.SoftsignGrad(gradients=g, features=x),
}
for _op_type, _rule in UNARY.items():
    register(_op_type, unary(_rule))


@RegisterGradient("LeakyRelu")
def _leaky_relu(op: Operation, grad: Tensor) -> Gradients:
    return raw.LeakyReluGrad(gradients=grad, features=op.inputs[0], alpha=op.get_attr("alpha"))


@RegisterGradient("TanhGrad")
def _tanh_grad(op: Operation, grad: Tensor) -> Gradients:
    y, dy = conj(op.inputs[0]), conj(op.inputs[1])
    return grad * like(-2.0, y) * dy * y, raw.TanhGrad(y=y, dy=grad)


@RegisterGradient("SigmoidGrad")
def _sigmoid_grad(op: Operation, grad: Tensor) -> Gradients:
    y, dy = conj(op.inputs[0]), conj(op.inputs[1])
    by = grad * dy
    return by - like(2.0, y) * by * y, raw.SigmoidGrad(y=y, dy=grad)


@RegisterGradient("ReluGrad")
def _relu_grad(op: Operation, grad: Tensor) -> Gradients:
    x = op.inputs[1]
    return raw.ReluGrad(gradients=grad, features=x), raw.ZerosLike(x=x)


@RegisterGradient("Relu6Grad")
def _relu6_grad(op: Operation, grad: Tensor) -> Gradients:
    x = op.inputs[1]
    return raw.Relu6Grad(gradients=grad, features=x), raw.ZerosLike(x=x)


@RegisterGradient("SoftplusGrad")
def _softplus_grad(op: Operation, grad: Tensor) -> Gradients:
    dy, x = op.inputs
    return raw.SoftplusGrad(gradients=grad, features=x), grad * dy / (
        raw.Exp(x=-x) + like(2.0, x) + raw.Exp(x=x)
    )


@RegisterGradient("EluGrad")
@RegisterGradient("SeluGrad")
def _exponential_grad(op: Operation, grad: Tensor) -> Gradients:
    dy, y = op.inputs
    below = raw.Less(x=y, y=like(0.0, y))
    return (
        getattr(raw, op.type)(gradients=grad, outputs=y),
        raw.SelectV2(condition=below, t=grad * dy, e=raw.ZerosLike(x=y)),
    )


@RegisterGradient("LeakyReluGrad")
def _leaky_relu_grad(op: Operation, grad: Tensor) -> Gradients:
    x = op.inputs[1]
    again = raw.LeakyReluGrad(gradients=grad, features=x, alpha=op.get_attr("alpha"))
    return again, raw.ZerosLike(x=x)
