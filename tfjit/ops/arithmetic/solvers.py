"""Solve linear systems.

Dense, triangular, banded, tridiagonal, least squares.
"""

from __future__ import annotations

from tfjit.ops.core.declare import register_op

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
)
register_op(
    "BatchMatrixSolveLs",
    inputs=("matrix: T", "rhs: T", "l2_regularizer: double"),
    outputs=("output: T",),
    attrs=("T: {double, float}", "fast: bool = true"),
    deprecated=(13, "Use MatrixSolveLs instead."),
)
register_op(
    "BatchMatrixTriangularSolve",
    inputs=("matrix: T", "rhs: T"),
    outputs=("output: T",),
    attrs=("lower: bool = true", "adjoint: bool = false", "T: {double, float}"),
    deprecated=(13, "Use MatrixTriangularSolve instead."),
)
register_op(
    "MatrixSolve",
    inputs=("matrix: T", "rhs: T"),
    outputs=("output: T",),
    attrs=("adjoint: bool = false", "T: {double, float, half, complex64, complex128}"),
)
register_op(
    "MatrixSolveLs",
    inputs=("matrix: T", "rhs: T", "l2_regularizer: double"),
    outputs=("output: T",),
    attrs=("T: {double, float, half, complex64, complex128}", "fast: bool = true"),
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
)
register_op(
    "TridiagonalMatMul",
    inputs=("superdiag: T", "maindiag: T", "subdiag: T", "rhs: T"),
    outputs=("output: T",),
    attrs=("T: {double, float, complex64, complex128}",),
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
)
