"""Linear algebra beyond matmul."""

from __future__ import annotations

from tfjit.ops.declare import register_op
from tfjit.ops.type_lists import INDEX

register_op(
    "BandedTriangularSolve",
    inputs=("matrix: T", "rhs: T"),
    outputs=("output: T",),
    attrs=("lower: bool = true", "adjoint: bool = false", "T: {double, float, half, complex64, complex128}"),
)
register_op(
    "BatchCholesky", inputs=("input: T",), outputs=("output: T",), attrs=("T: {double, float}",), deprecated=(13, "Use Cholesky instead.")
)
register_op(
    "BatchCholeskyGrad",
    inputs=("l: T", "grad: T"),
    outputs=("output: T",),
    attrs=("T: {float, double}",),
    deprecated=(13, "Use CholeskyGrad instead."),
)
register_op(
    "BatchMatrixBandPart",
    inputs=("input: T", "num_lower: int64", "num_upper: int64"),
    outputs=("band: T",),
    attrs=("T: type",),
    deprecated=(14, "Use MatrixBandPart"),
)
register_op(
    "BatchMatrixDeterminant",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=("T: {float, double, complex64, complex128}",),
    deprecated=(13, "Use MatrixDeterminant instead."),
)
register_op("BatchMatrixDiag", inputs=("diagonal: T",), outputs=("output: T",), attrs=("T: type",), deprecated=(14, "Use MatrixDiag"))
register_op(
    "BatchMatrixDiagPart", inputs=("input: T",), outputs=("diagonal: T",), attrs=("T: type",), deprecated=(14, "Use MatrixDiagPart")
)
register_op(
    "BatchMatrixInverse",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=("adjoint: bool = false", "T: {double, float}"),
    deprecated=(13, "Use MatrixInverse instead."),
)
register_op(
    "BatchMatrixSetDiag",
    inputs=("input: T", "diagonal: T"),
    outputs=("output: T",),
    attrs=("T: type",),
    deprecated=(14, "Use MatrixSetDiag"),
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
    "BatchSelfAdjointEig",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=("T: {double, float}",),
    deprecated=(11, "Use SelfAdjointEigV2 instead."),
)
register_op(
    "BatchSelfAdjointEigV2",
    inputs=("input: T",),
    outputs=("e: T", "v: T"),
    attrs=("compute_v: bool = true", "T: {double, float}"),
    deprecated=(13, "Use SelfAdjointEigV2 instead."),
)
register_op(
    "BatchSvd",
    inputs=("input: T",),
    outputs=("s: T", "u: T", "v: T"),
    attrs=("compute_uv: bool = true", "full_matrices: bool = false", "T: {double, float, complex64, complex128}"),
    deprecated=(13, "Use Svd instead."),
)
register_op("Cholesky", inputs=("input: T",), outputs=("output: T",), attrs=("T: {double, float, half, complex64, complex128}",))
register_op("CholeskyGrad", inputs=("l: T", "grad: T"), outputs=("output: T",), attrs=("T: {half, float, double}",))
register_op(
    "Eig",
    inputs=("input: T",),
    outputs=("e: Tout", "v: Tout"),
    attrs=("compute_v: bool = true", "T: {float, double, complex64, complex128}", "Tout: {complex64, complex128}"),
)
register_op(
    "LogMatrixDeterminant",
    inputs=("input: T",),
    outputs=("sign: T", "log_abs_determinant: T"),
    attrs=("T: {half, float, double, complex64, complex128}",),
)
register_op(
    "Lu",
    inputs=("input: T",),
    outputs=("lu: T", "p: output_idx_type"),
    attrs=("T: {double, float, half, complex64, complex128}", f"output_idx_type: {INDEX} = DT_INT32"),
)
register_op(
    "MatrixBandPart",
    inputs=("input: T", "num_lower: Tindex", "num_upper: Tindex"),
    outputs=("band: T",),
    attrs=("T: type", f"Tindex: {INDEX} = DT_INT64"),
)
register_op("MatrixDeterminant", inputs=("input: T",), outputs=("output: T",), attrs=("T: {half, float, double, complex64, complex128}",))
register_op("MatrixDiag", inputs=("diagonal: T",), outputs=("output: T",), attrs=("T: type",))
register_op("MatrixDiagPart", inputs=("input: T",), outputs=("diagonal: T",), attrs=("T: type",))
register_op("MatrixDiagPartV2", inputs=("input: T", "k: int32", "padding_value: T"), outputs=("diagonal: T",), attrs=("T: type",))
register_op(
    "MatrixDiagPartV3",
    inputs=("input: T", "k: int32", "padding_value: T"),
    outputs=("diagonal: T",),
    attrs=("T: type", "align: {'LEFT_RIGHT', 'RIGHT_LEFT', 'LEFT_LEFT', 'RIGHT_RIGHT'} = 'RIGHT_LEFT'"),
)
register_op(
    "MatrixDiagV2",
    inputs=("diagonal: T", "k: int32", "num_rows: int32", "num_cols: int32", "padding_value: T"),
    outputs=("output: T",),
    attrs=("T: type",),
)
register_op(
    "MatrixDiagV3",
    inputs=("diagonal: T", "k: int32", "num_rows: int32", "num_cols: int32", "padding_value: T"),
    outputs=("output: T",),
    attrs=("T: type", "align: {'LEFT_RIGHT', 'RIGHT_LEFT', 'LEFT_LEFT', 'RIGHT_RIGHT'} = 'RIGHT_LEFT'"),
)
register_op(
    "MatrixExponential",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=("T: {double, float, half, complex64, complex128}",),
    deprecated=(27, "Use Python implementation tf.linalg.matrix_exponential instead."),
)
register_op(
    "MatrixInverse",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=("adjoint: bool = false", "T: {double, float, half, complex64, complex128}"),
)
register_op("MatrixLogarithm", inputs=("input: T",), outputs=("output: T",), attrs=("T: {complex64, complex128}",))
register_op("MatrixSetDiag", inputs=("input: T", "diagonal: T"), outputs=("output: T",), attrs=("T: type",))
register_op("MatrixSetDiagV2", inputs=("input: T", "diagonal: T", "k: int32"), outputs=("output: T",), attrs=("T: type",))
register_op(
    "MatrixSetDiagV3",
    inputs=("input: T", "diagonal: T", "k: int32"),
    outputs=("output: T",),
    attrs=("T: type", "align: {'LEFT_RIGHT', 'RIGHT_LEFT', 'LEFT_LEFT', 'RIGHT_RIGHT'} = 'RIGHT_LEFT'"),
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
register_op("MatrixSquareRoot", inputs=("input: T",), outputs=("output: T",), attrs=("T: {double, float, half, complex64, complex128}",))
register_op(
    "MatrixTriangularSolve",
    inputs=("matrix: T", "rhs: T"),
    outputs=("output: T",),
    attrs=("lower: bool = true", "adjoint: bool = false", "T: {bfloat16, double, float, half, complex64, complex128}"),
)
register_op(
    "Qr",
    inputs=("input: T",),
    outputs=("q: T", "r: T"),
    attrs=("full_matrices: bool = false", "T: {double, float, half, complex64, complex128}"),
)
register_op(
    "SelfAdjointEig",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=("T: {double, float, half}",),
    deprecated=(11, "Use SelfAdjointEigV2 instead."),
)
register_op(
    "SelfAdjointEigV2",
    inputs=("input: T",),
    outputs=("e: T", "v: T"),
    attrs=("compute_v: bool = true", "T: {double, float, half, complex64, complex128}"),
)
register_op(
    "Svd",
    inputs=("input: T",),
    outputs=("s: T", "u: T", "v: T"),
    attrs=("compute_uv: bool = true", "full_matrices: bool = false", "T: {double, float, half, complex64, complex128}"),
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
    attrs=("partial_pivoting: bool = true", "perturb_singular: bool = false", "T: {double, float, complex64, complex128}"),
)
