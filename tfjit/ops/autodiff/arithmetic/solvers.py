"""Define gradients of linear systems."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.ops import raw_ops as raw

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
