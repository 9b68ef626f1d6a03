"""Gradients of matrix products, factorisations and solvers."""

from __future__ import annotations

from typing import Any

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.ops import raw_ops as raw
from tfjit.ops.arrays.movement import matrix_transpose
from tfjit.ops.autodiff.elementwise import conj, like


@RegisterGradient("MatMul")
def _matmul(op: Operation, grad: Tensor) -> Any:
    a, b = conj(op.inputs[0]), conj(op.inputs[1])
    turned = op.get_attr("transpose_a"), op.get_attr("transpose_b")

    def product(x: Tensor, y: Tensor, tx: bool, ty: bool) -> Tensor:
        return raw.MatMul(a=x, b=y, transpose_a=tx, transpose_b=ty)

    if turned == (False, False):
        return product(grad, b, False, True), product(a, grad, True, False)
    if turned == (False, True):
        return product(grad, b, False, False), product(grad, a, True, False)
    if turned == (True, False):
        return product(b, grad, False, True), product(a, grad, False, False)
    return product(b, grad, True, True), product(grad, a, True, True)


@RegisterGradient("SparseMatMul")
def _sparse_matmul(op: Operation, grad: Tensor) -> Any:
    """Return the gradients as MatMul's, with the operands' hints.

    A gradient behind a Relu counts as sparse.
    """
    a, b = op.inputs
    hints = {
        a.ref(): op.get_attr("a_is_sparse"),
        b.ref(): op.get_attr("b_is_sparse"),
        grad.ref(): grad.op.type == "ReluGrad",
    }

    def product(x: Tensor, y: Tensor, wanted: Any, tx: bool = False, ty: bool = False) -> Tensor:
        options = {
            "a_is_sparse": hints[x.ref()],
            "b_is_sparse": hints[y.ref()],
            "transpose_a": tx,
            "transpose_b": ty,
        }
        made = raw.SparseMatMul(a=x, b=y, **options)
        return made if made.dtype.base_dtype is wanted else raw.Cast(x=made, DstT=wanted)

    kinds = a.dtype.base_dtype, b.dtype.base_dtype
    turned = op.get_attr("transpose_a"), op.get_attr("transpose_b")
    if turned == (False, False):
        return product(grad, b, kinds[0], ty=True), product(a, grad, kinds[1], tx=True)
    if turned == (False, True):
        return product(grad, b, kinds[0]), product(grad, a, kinds[1], tx=True)
    if turned == (True, False):
        return product(b, grad, kinds[0], ty=True), product(a, grad, kinds[1])
    return product(b, grad, kinds[0], True, True), product(grad, a, kinds[1], True, True)


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
def _batch_matmul(op: Operation, grad: Tensor) -> Any:
    return _batch_products(op, grad)


@RegisterGradient("BatchMatMulV2")
@RegisterGradient("BatchMatMulV3")
def _batch_matmul_v2(op: Operation, grad: Tensor) -> Any:
    """The same, summed over the batch dimensions that were broadcast."""
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
def _einsum(op: Operation, grad: Tensor) -> Any:
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
def _cross(op: Operation, grad: Tensor) -> Any:
    u, v = op.inputs
    return raw.Cross(a=v, b=grad), raw.Cross(a=grad, b=u)


@RegisterGradient("MatrixInverse")
def _matrix_inverse(op: Operation, grad: Tensor) -> Any:
    inverse = op.outputs[0]
    adjoint = not op.get_attr("adjoint")
    inner = raw.BatchMatMulV2(x=grad, y=inverse, adj_y=adjoint)
    return -raw.BatchMatMulV2(x=inverse, y=inner, adj_x=adjoint)


@RegisterGradient("MatrixDeterminant")
def _matrix_determinant(op: Operation, grad: Tensor) -> Any:
    a, c = op.inputs[0], op.outputs[0]
    return (grad * c)[..., None, None] * raw.MatrixInverse(input=a, adjoint=True)


@RegisterGradient("LogMatrixDeterminant")
def _log_matrix_determinant(op: Operation, _: Any, grad: Tensor) -> Any:
    return grad[..., None, None] * raw.MatrixInverse(input=op.inputs[0], adjoint=True)


@RegisterGradient("MatrixSolve")
def _matrix_solve(op: Operation, grad: Tensor) -> Any:
    a, solution = op.inputs[0], op.outputs[0]
    adjoint = op.get_attr("adjoint")
    for_right = raw.MatrixSolve(matrix=a, rhs=grad, adjoint=not adjoint)
    if adjoint:
        return -raw.BatchMatMulV2(x=solution, y=for_right, adj_y=True), for_right
    return -raw.BatchMatMulV2(x=for_right, y=solution, adj_y=True), for_right


@RegisterGradient("MatrixTriangularSolve")
def _matrix_triangular_solve(op: Operation, grad: Tensor) -> Any:
    a, right = op.inputs
    solution = op.outputs[0]
    adjoint, lower = op.get_attr("adjoint"), op.get_attr("lower")
    for_right = raw.MatrixTriangularSolve(matrix=a, rhs=grad, lower=lower, adjoint=not adjoint)
    if adjoint:
        for_a = -raw.BatchMatMulV2(x=solution, y=for_right, adj_y=True)
    else:
        for_a = -raw.BatchMatMulV2(x=for_right, y=solution, adj_y=True)
    for_a = raw.MatrixBandPart(
        input=for_a, num_lower=-1 if lower else 0, num_upper=0 if lower else -1
    )
    if (
        a.shape_tuple is not None
        and right.shape_tuple is not None
        and a.shape_tuple[:-2] == right.shape_tuple[:-2]
    ):
        return for_a, for_right
    shape_a, shape_b = raw.Shape(input=a), raw.Shape(input=right)
    axes = raw.BroadcastGradientArgs(s0=shape_a[:-2], s1=shape_b[:-2])
    return (
        raw.Reshape(tensor=raw.Sum(input=for_a, reduction_indices=axes[0]), shape=shape_a),
        raw.Reshape(tensor=raw.Sum(input=for_right, reduction_indices=axes[1]), shape=shape_b),
    )


@RegisterGradient("Cholesky")
def _cholesky(op: Operation, grad: Tensor) -> Any:
    """Source: Murray, "Differentiation of the Cholesky decomposition" (2016), section 3."""
    factor = op.outputs[0]
    identity = raw.MatrixDiag(
        diagonal=raw.Fill(dims=raw.Shape(input=factor)[:-1], value=like(1.0, factor))
    )
    inverse = raw.MatrixTriangularSolve(matrix=factor, rhs=identity)
    middle = raw.BatchMatMulV2(x=factor, y=grad, adj_x=True)
    middle = raw.MatrixSetDiag(
        input=middle, diagonal=like(0.5, factor) * raw.MatrixDiagPart(input=middle)
    )
    middle = raw.MatrixBandPart(input=middle, num_lower=-1, num_upper=0)
    gradient = raw.BatchMatMulV2(x=raw.BatchMatMulV2(x=inverse, y=middle, adj_x=True), y=inverse)
    return (gradient + conj(matrix_transpose(gradient))) * like(0.5, factor)
