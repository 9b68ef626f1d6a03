"""Define gradients of linear systems."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.ops import raw_ops as raw
from tfjit.ops.arrays.movement_functions import matrix_transpose
from tfjit.ops.autodiff.terms import conj, like

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients


@RegisterGradient("MatrixSolve")
def _matrix_solve(op: Operation, grad: Tensor) -> Gradients:
    a, solution = op.inputs[0], op.outputs[0]
    adjoint = op.get_attr("adjoint")
    for_right = raw.MatrixSolve(matrix=a, rhs=grad, adjoint=not adjoint)
    if adjoint:
        return -raw.BatchMatMulV2(x=solution, y=for_right, adj_y=True), for_right
    return -raw.BatchMatMulV2(x=for_right, y=solution, adj_y=True), for_right


@RegisterGradient("MatrixTriangularSolve")
def _matrix_triangular_solve(op: Operation, grad: Tensor) -> Gradients:
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


@RegisterGradient("BandedTriangularSolve")
def _banded_triangular_solve(op: Operation, grad: Tensor) -> Gradients:
    bands, right = op.inputs
    solution = op.outputs[0]
    adjoint, lower = op.get_attr("adjoint"), op.get_attr("lower")
    for_right = raw.BandedTriangularSolve(matrix=bands, rhs=grad, lower=lower, adjoint=not adjoint)
    if adjoint:
        for_matrix = -raw.BatchMatMulV2(x=solution, y=for_right, adj_y=True)
    else:
        for_matrix = -raw.BatchMatMulV2(x=for_right, y=solution, adj_y=True)
    shape, right_shape = raw.Shape(input=bands), raw.Shape(input=right)
    beyond = shape[-2] - 1
    none = raw.ZerosLike(x=beyond)
    for_bands = raw.MatrixDiagPartV3(
        input=for_matrix,
        k=raw.Pack(values=[-beyond, none] if lower else [none, beyond]),
        padding_value=like(0, grad),
        align="LEFT_RIGHT",
    )
    axes = raw.BroadcastGradientArgs(s0=shape[:-2], s1=right_shape[:-2])
    return (
        raw.Reshape(tensor=raw.Sum(input=for_bands, reduction_indices=axes[0]), shape=shape),
        raw.Reshape(tensor=raw.Sum(input=for_right, reduction_indices=axes[1]), shape=right_shape),
    )


def _rows_before(x: Tensor) -> Tensor:
    """Return at each row the one before it, zeros at the first."""
    return raw.ConcatV2(values=[raw.ZerosLike(x=x[..., :1, :]), x[..., :-1, :]], axis=-2)


def _rows_after(x: Tensor) -> Tensor:
    """Return at each row the one after it, zeros at the last."""
    return raw.ConcatV2(values=[x[..., 1:, :], raw.ZerosLike(x=x[..., :1, :])], axis=-2)


def _along_diagonals(left: Tensor, right: Tensor) -> list[Tensor]:
    """Return three diagonals of left right^H, each [..., m].

    They are the one above the main diagonal, it, and the one below."""
    right = conj(right)
    return [
        raw.Sum(input=left * rows, reduction_indices=-1)
        for rows in (_rows_after(right), right, _rows_before(right))
    ]


@RegisterGradient("TridiagonalMatMul")
def _tridiagonal_matmul(op: Operation, grad: Tensor) -> Gradients:
    above, main, below = (conj(matrix_transpose(x)) for x in op.inputs[:3])
    right = op.inputs[3]
    for_right = _rows_before(above * grad) + main * grad + _rows_after(below * grad)
    diagonals = _along_diagonals(grad, right)
    return *[raw.ExpandDims(input=x, dim=-2) for x in diagonals], for_right


@RegisterGradient("TridiagonalSolve")
def _tridiagonal_solve(op: Operation, grad: Tensor) -> Gradients:
    """Return the gradients of diagonals (above, main, below) and right side.

    An element above the main diagonal stands in its own row; below it in the adjoint matrix.
    """
    diagonals, solution = op.inputs[0], op.outputs[0]
    above, main, below = (
        raw.ExpandDims(input=conj(diagonals[..., i, :]), dim=-1) for i in range(3)
    )
    adjoint = raw.ConcatV2(values=[_rows_after(below), main, _rows_before(above)], axis=-1)
    for_right = raw.TridiagonalSolve(
        diagonals=matrix_transpose(adjoint),
        rhs=grad,
        partial_pivoting=op.get_attr("partial_pivoting"),
        perturb_singular=op.get_attr("perturb_singular"),
    )
    return -raw.Pack(values=_along_diagonals(for_right, solution), axis=-2), for_right


@RegisterGradient("MatrixSolveLs")
def _matrix_solve_ls(op: Operation, grad: Tensor) -> Gradients:
    """Return the gradients of matrices and right sides of least squares.

    The fast method solves normal equations: (a^H a + l) x = a^H b, or x = a^H (a a^H + l)^-1 b
    where a has fewer rows than columns.
    """
    a, b, regularizer = op.inputs
    x = op.outputs[0]
    if not op.get_attr("fast"):
        raise ValueError("Gradient not defined for fast=False")
    rows, columns = a.shape_tuple[-2:] if a.shape_tuple is not None else (None, None)
    if rows is None or columns is None:
        raise NotImplementedError(
            f"gradients: '{op.name}' solves with matrices whose numbers of rows and columns are "
            "not known while the graph is built"
        )
    tall = rows >= columns
    gram = raw.BatchMatMulV2(x=a, y=a, adj_x=tall, adj_y=not tall)
    diagonal = raw.MatrixDiagPart(input=gram)
    diagonal += raw.Cast(x=regularizer, DstT=a.dtype.base_dtype)
    gram = raw.MatrixSetDiag(input=gram, diagonal=diagonal)
    if tall:
        z = raw.MatrixSolve(matrix=gram, rhs=grad)
        xz = raw.BatchMatMulV2(x=x, y=z, adj_y=True)
        symmetric = xz + conj(matrix_transpose(xz))
        for_a = raw.BatchMatMulV2(x=b, y=z, adj_y=True) - raw.BatchMatMulV2(x=a, y=symmetric)
        return for_a, raw.BatchMatMulV2(x=a, y=z), None
    for_b = raw.MatrixSolve(matrix=gram, rhs=raw.BatchMatMulV2(x=a, y=grad))
    weights = raw.MatrixSolve(matrix=gram, rhs=b)
    rest = grad - raw.BatchMatMulV2(x=a, y=for_b, adj_x=True)
    for_a = raw.BatchMatMulV2(x=weights, y=rest, adj_y=True) - raw.BatchMatMulV2(
        x=for_b, y=raw.BatchMatMulV2(x=weights, y=a, adj_x=True)
    )
    return for_a, for_b, None
