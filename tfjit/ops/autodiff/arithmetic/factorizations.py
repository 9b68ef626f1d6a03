"""Define gradients of factorizations, inverses, determinants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.ops import raw_ops as raw
from tfjit.ops.arrays.movement_functions import matrix_transpose
from tfjit.ops.autodiff.arithmetic.elementwise import conj, like

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients


@RegisterGradient("MatrixInverse")
def _matrix_inverse(op: Operation, grad: Tensor) -> Gradients:
    inverse = op.outputs[0]
    adjoint = not op.get_attr("adjoint")
    inner = raw.BatchMatMulV2(x=grad, y=inverse, adj_y=adjoint)
    return -raw.BatchMatMulV2(x=inverse, y=inner, adj_x=adjoint)


@RegisterGradient("MatrixDeterminant")
def _matrix_determinant(op: Operation, grad: Tensor) -> Gradients:
    a, c = op.inputs[0], op.outputs[0]
    return (grad * c)[..., None, None] * raw.MatrixInverse(input=a, adjoint=True)


@RegisterGradient("LogMatrixDeterminant")
def _log_matrix_determinant(op: Operation, _: object, grad: Tensor) -> Gradients:
    return grad[..., None, None] * raw.MatrixInverse(input=op.inputs[0], adjoint=True)


@RegisterGradient("Cholesky")
def _cholesky(op: Operation, grad: Tensor) -> Gradients:
    """Return the gradient of a Cholesky decomposition.

    Source: Murray, "Differentiation of the Cholesky decomposition" (2016), section 3.
    """
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
