"""Define gradients of losses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.ops import raw_ops as raw

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients


@RegisterGradient("SoftmaxCrossEntropyWithLogits")
def _softmax_cross_entropy(op: Operation, grad: Tensor, grad_of_backprop: Tensor) -> Gradients:
    logits, backprop = op.inputs[0], op.outputs[1]
    wide = raw.ExpandDims(input=grad, dim=-1)
    gradient = wide * backprop
    if grad_of_backprop.op.type not in ("ZerosLike", "Zeros"):
        softmax = raw.Softmax(logits=logits)
        inner = raw.Sum(input=grad_of_backprop * softmax, reduction_indices=-1, keep_dims=True)
        gradient = gradient + (grad_of_backprop - inner) * softmax
    return gradient, wide * -raw.LogSoftmax(logits=logits)


@RegisterGradient("SparseSoftmaxCrossEntropyWithLogits")
def _sparse_softmax_cross_entropy(op: Operation, grad: Tensor, _: object) -> Gradients:
    # the output is a function of the labels without a gradient
    kept = raw.PreventGradient(
        input=op.outputs[1],
        message="There is no second derivative of sparse_softmax_cross_entropy_with_logits through "
        "its backprop output",
    )
    return raw.ExpandDims(input=grad, dim=-1) * kept, None


@RegisterGradient("L2Loss")
def _l2_loss(op: Operation, grad: Tensor) -> Gradients:
    return op.inputs[0] * grad
