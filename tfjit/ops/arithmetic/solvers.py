"""Solve linear systems.

Dense, triangular, banded, tridiagonal, least squares.
"""

from __future__ import annotations

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.types.shape import Shape
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes


def _square(c: ShapeContext) -> tuple[Shape, int | None]:
    """Return (batch sizes, rows) of square matrices."""
    shape = c.with_rank_at_least(0, 2)
    if shape is None:
        return None, None
    return shape[:-2], c.merge_dim(shape[-2], shape[-1])


def _solved(c: ShapeContext) -> Shapes:
    """Return matrix^-1 rhs, with the same batches in both."""
    (batch, size), rhs = _square(c), c.with_rank_at_least(1, 2)
    if rhs is None:
        return [None]
    size = c.merge_dim(size, rhs[-2])
    merged = c.merge(batch, rhs[:-2])
    return [None if merged is None else (*merged, size, rhs[-1])]


def _solved_with_broadcast(c: ShapeContext) -> Shapes:
    """Return matrix^-1 rhs, with broadcast batches."""
    (batch, size), rhs = _square(c), c.with_rank_at_least(1, 2)
    if rhs is None or batch is None:
        return [None]
    size = c.merge_dim(size, rhs[-2])
    common = c.broadcast(batch, rhs[:-2])
    return [None if common is None else (*common, size, rhs[-1])]


def _right_sides(c: ShapeContext) -> Shapes:
    return [c.with_rank_at_least(len(c.inputs) - 1, 2)]


def _least_squares(c: ShapeContext) -> Shapes:
    matrix, right = c.with_rank_at_least(0, 2), c.with_rank_at_least(1, 2)
    if matrix is None or right is None:
        return [None]
    return [(*matrix[:-2], matrix[-1], right[-1])]


register_op(
    "BandedTriangularSolve",
    inputs=("matrix: T", "rhs: T"),
    outputs=("output: T",),
    attrs=(
        "lower: bool = true",
        "adjoint: bool = false",
        "T: {double, float, half, complex64, complex128}",
    ),
)
register_op(
    "BatchMatrixSolve",
    inputs=("matrix: T", "rhs: T"),
    outputs=("output: T",),
    attrs=("adjoint: bool = false", "T: {double, float}"),
    deprecated=(13, "Use MatrixSolve instead."),
    planned_shape=_right_sides,
)
register_op(
    "BatchMatrixSolveLs",
    inputs=("matrix: T", "rhs: T", "l2_regularizer: double"),
    outputs=("output: T",),
    attrs=("T: {double, float}", "fast: bool = true"),
    deprecated=(13, "Use MatrixSolveLs instead."),
    planned_shape=_least_squares,
)
register_op(
    "BatchMatrixTriangularSolve",
    inputs=("matrix: T", "rhs: T"),
    outputs=("output: T",),
    attrs=("lower: bool = true", "adjoint: bool = false", "T: {double, float}"),
    deprecated=(13, "Use MatrixTriangularSolve instead."),
    planned_shape=_solved_with_broadcast,
)
register_op(
    "MatrixSolve",
    inputs=("matrix: T", "rhs: T"),
    outputs=("output: T",),
    attrs=("adjoint: bool = false", "T: {double, float, half, complex64, complex128}"),
    shape=_solved,
)
register_op(
    "MatrixSolveLs",
    inputs=("matrix: T", "rhs: T", "l2_regularizer: double"),
    outputs=("output: T",),
    attrs=("T: {double, float, half, complex64, complex128}", "fast: bool = true"),
    planned_shape=_least_squares,
)
register_op(
    "MatrixTriangularSolve",
    inputs=("matrix: T", "rhs: T"),
    outputs=("output: T",),
    attrs=(
        "lower: bool = true",
        "adjoint: bool = false",
        "T: {bfloat16, double, float, half, complex64, complex128}",
    ),
    shape=_solved_with_broadcast,
)
register_op(
    "TridiagonalMatMul",
    inputs=("superdiag: T", "maindiag: T", "subdiag: T", "rhs: T"),
    outputs=("output: T",),
    attrs=("T: {double, float, complex64, complex128}",),
    planned_shape=_right_sides,
)
register_op(
    "TridiagonalSolve",
    inputs=("diagonals: T", "rhs: T"),
    outputs=("output: T",),
    attrs=(
        "partial_pivoting: bool = true",
        "perturb_singular: bool = false",
        "T: {double, float, complex64, complex128}",
    ),
    planned_shape=_right_sides,
)
