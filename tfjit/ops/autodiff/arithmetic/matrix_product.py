"""Define gradients of matrix products and einsum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.ops import raw_ops as raw
from tfjit.ops.autodiff.terms import conj

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients


@RegisterGradient("MatMul")
def _matmul(op: Operation, grad: Tensor) -> Gradients:
    a, b = conj(op.inputs[0]), conj(op.inputs[1])
    transposed = op.get_attr("transpose_a"), op.get_attr("transpose_b")

    def product(x: Tensor, y: Tensor, tx: bool, ty: bool) -> Tensor:
        return raw.MatMul(a=x, b=y, transpose_a=tx, transpose_b=ty)

    if transposed == (False, False):
        return product(grad, b, False, True), product(a, grad, True, False)
    if transposed == (False, True):
        return product(grad, b, False, False), product(grad, a, True, False)
    if transposed == (True, False):
        return product(b, grad, False, True), product(a, grad, False, False)
    return product(b, grad, True, True), product(grad, a, True, True)


def _batch_products(op: Operation, grad: Tensor) -> tuple[Tensor, Tensor]:
    x, y = op.inputs
    adjoint = op.get_attr("adj_x"), op.get_attr("adj_y")

    def product(a: Tensor, b: Tensor, adj_a: bool, adj_b: bool) -> Tensor:
        return raw.BatchMatMulV2(x=a, y=b, adj_x=adj_a, adj_y=adj_b)

    if adjoint == (False, False):
        return product(grad, y, False, True), product(x, grad, True, False)
    if adjoint == (False, True):
        return product(grad, y, False, False), product(grad, x, True, False)
    if adjoint == (True, False):
        return product(y, grad, False, True), product(x, grad, False, False)
    return product(y, grad, True, True), product(grad, x, True, True)


@RegisterGradient("BatchMatMul")
def _batch_matmul(op: Operation, grad: Tensor) -> Gradients:
    return _batch_products(op, grad)


@RegisterGradient("BatchMatMulV2")
@RegisterGradient("BatchMatMulV3")
def _batch_matmul_v2(op: Operation, grad: Tensor) -> Gradients:
    """Return the same, summed over the batch dimensions that were broadcast."""
    x, y = op.inputs
    for_x, for_y = _batch_products(op, grad)
    batches = [s[:-2] if s is not None else None for s in (x.shape_tuple, y.shape_tuple)]
    if batches[0] is not None and batches[0] == batches[1] and None not in batches[0]:
        return for_x, for_y
    shape_x, shape_y = raw.Shape(input=x), raw.Shape(input=y)
    axes = raw.BroadcastGradientArgs(s0=shape_x[:-2], s1=shape_y[:-2])
    return (
        raw.Reshape(tensor=raw.Sum(input=for_x, reduction_indices=axes[0]), shape=shape_x),
        raw.Reshape(tensor=raw.Sum(input=for_y, reduction_indices=axes[1]), shape=shape_y),
    )


@RegisterGradient("Einsum")
def _einsum(op: Operation, grad: Tensor) -> Gradients:
    """Return each operand's gradient as an einsum.

    It takes the output's gradient and the other operand. Source: the equation's letters only; an
    ellipsis or a letter that occurs in one operand alone goes through broadcasting.
    """
    equation = op.get_attr("equation")
    equation = equation.decode() if isinstance(equation, bytes) else equation
    left, _, result = equation.partition("->")
    operands = left.split(",")
    if "..." in equation or any(len(set(labels)) < len(labels) for labels in operands):
        raise NotImplementedError(
            f"gradients: '{op.name}' is the Einsum '{equation}'; with ellipses or repeated letters "
            "there is none yet"
        )
    found = []
    for i, labels in enumerate(operands):
        others = [(operands[j], conj(op.inputs[j])) for j in range(len(operands)) if j != i]
        known = set(result).union(*(other for other, _ in others)) if others else set(result)
        present = "".join(label for label in labels if label in known)
        terms = ",".join([result, *(other for other, _ in others)])
        gradient = raw.Einsum(
            inputs=[grad, *(x for _, x in others)], equation=f"{terms}->{present}"
        )
        # a letter that was summed in this operand alone: the same for all of it
        if present != labels:
            shape = raw.Shape(input=op.inputs[i])
            kept = raw.Pack(
                values=[shape[k] if label in known else 1 for k, label in enumerate(labels)]
            )
            gradient = raw.BroadcastTo(input=raw.Reshape(tensor=gradient, shape=kept), shape=shape)
        found.append(gradient)
    return found


@RegisterGradient("Cross")
def _cross(op: Operation, grad: Tensor) -> Gradients:
    u, v = op.inputs
    return raw.Cross(a=v, b=grad), raw.Cross(a=grad, b=u)
