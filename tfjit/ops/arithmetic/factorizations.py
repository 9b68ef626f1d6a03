"""Define matrix factorizations, inverses, determinants, eigenvalues."""

from __future__ import annotations

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes
from tfjit.ops.core.type_lists import INDEX


def _qr(c: ShapeContext) -> Shapes:
    given = c.with_rank_at_least(0, 2)
    if given is None:
        return [None, None]
    *front, rows, columns = given
    if c.attr("full_matrices"):
        inner = rows
    else:
        inner = None if rows is None or columns is None else min(rows, columns)
    return [(*front, rows, inner), (*front, inner, columns)]


def _square(c: ShapeContext) -> Shapes:
    shape = c.with_rank_at_least(0, 2)
    if shape is None:
        return [None]
    size = c.merge_dim(shape[-1], shape[-2])
    return [(*shape[:-2], size, size)]


def _determinant(c: ShapeContext) -> Shapes:
    shape = c.with_rank_at_least(0, 2)
    if shape is None:
        return [None]
    c.merge_dim(shape[-1], shape[-2])
    return [shape[:-2]]


def _log_determinant(c: ShapeContext) -> Shapes:
    (shape,) = _determinant(c)
    return [shape, shape]


def _lu(c: ShapeContext) -> Shapes:
    shape = c.with_rank_at_least(0, 2)
    if shape is None:
        return [None, None]
    size = c.merge_dim(shape[-2], shape[-1])
    return [(*shape[:-2], size, size), (*shape[:-2], size)]


def _svd(c: ShapeContext) -> Shapes:
    given = c.with_rank_at_least(0, 2)
    if given is None:
        return [None] * 3
    *front, rows, columns = given
    least = None if rows is None or columns is None else min(rows, columns)
    if not c.attr("compute_uv"):
        return [(*front, least), (0,), (0,)]
    full = c.attr("full_matrices")
    u, v = (*front, rows, rows if full else least), (*front, columns, columns if full else least)
    return [(*front, least), u, v]


def _eigenvalues(c: ShapeContext) -> Shapes:
    (square,) = _square(c)
    if square is None:
        return [None, None]
    return [square[:-1], square if c.attr("compute_v") else (0,)]


def _eigenvalues_above_vectors(c: ShapeContext) -> Shapes:
    (square,) = _square(c)
    if square is None or square[-1] is None:
        return [None]
    return [(*square[:-2], square[-1] + 1, square[-1])]


register_op(
    "BatchCholesky",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=("T: {double, float}",),
    deprecated=(13, "Use Cholesky instead."),
    planned_shape=_square,
)
register_op(
    "BatchCholeskyGrad",
    inputs=("l: T", "grad: T"),
    outputs=("output: T",),
    attrs=("T: {float, double}",),
    deprecated=(13, "Use CholeskyGrad instead."),
    planned_shape=_square,
)
register_op(
    "BatchMatrixDeterminant",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=("T: {float, double, complex64, complex128}",),
    deprecated=(13, "Use MatrixDeterminant instead."),
)
register_op(
    "BatchMatrixInverse",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=("adjoint: bool = false", "T: {double, float}"),
    deprecated=(13, "Use MatrixInverse instead."),
    planned_shape=_square,
)
register_op(
    "BatchSelfAdjointEig",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=("T: {double, float}",),
    deprecated=(11, "Use SelfAdjointEigV2 instead."),
    planned_shape=_eigenvalues_above_vectors,
)
register_op(
    "BatchSelfAdjointEigV2",
    inputs=("input: T",),
    outputs=("e: T", "v: T"),
    attrs=("compute_v: bool = true", "T: {double, float}"),
    deprecated=(13, "Use SelfAdjointEigV2 instead."),
    planned_shape=_eigenvalues,
)
register_op(
    "BatchSvd",
    inputs=("input: T",),
    outputs=("s: T", "u: T", "v: T"),
    attrs=(
        "compute_uv: bool = true",
        "full_matrices: bool = false",
        "T: {double, float, complex64, complex128}",
    ),
    deprecated=(13, "Use Svd instead."),
    planned_shape=_svd,
)
for _op_type in (
    "Cholesky",
    "MatrixSquareRoot",
):
    register_op(
        _op_type,
        inputs=("input: T",),
        outputs=("output: T",),
        attrs=("T: {double, float, half, complex64, complex128}",),
        shape=_square,
    )
register_op(
    "CholeskyGrad",
    inputs=("l: T", "grad: T"),
    outputs=("output: T",),
    attrs=("T: {half, float, double}",),
    planned_shape=_square,
)
register_op(
    "Eig",
    inputs=("input: T",),
    outputs=("e: Tout", "v: Tout"),
    attrs=(
        "compute_v: bool = true",
        "T: {float, double, complex64, complex128}",
        "Tout: {complex64, complex128}",
    ),
    planned_shape=_eigenvalues,
)
register_op(
    "LogMatrixDeterminant",
    inputs=("input: T",),
    outputs=("sign: T", "log_abs_determinant: T"),
    attrs=("T: {half, float, double, complex64, complex128}",),
    shape=_log_determinant,
)
register_op(
    "Lu",
    inputs=("input: T",),
    outputs=("lu: T", "p: output_idx_type"),
    attrs=(
        "T: {double, float, half, complex64, complex128}",
        f"output_idx_type: {INDEX} = DT_INT32",
    ),
    shape=_lu,
)
register_op(
    "MatrixDeterminant",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=("T: {half, float, double, complex64, complex128}",),
    shape=_determinant,
)
register_op(
    "MatrixExponential",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=("T: {double, float, half, complex64, complex128}",),
    deprecated=(27, "Use Python implementation tf.linalg.matrix_exponential instead."),
    shape=_square,
)
register_op(
    "MatrixInverse",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=("adjoint: bool = false", "T: {double, float, half, complex64, complex128}"),
    shape=_square,
)
register_op(
    "MatrixLogarithm",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=("T: {complex64, complex128}",),
    shape=_square,
)
register_op(
    "Qr",
    inputs=("input: T",),
    outputs=("q: T", "r: T"),
    attrs=("full_matrices: bool = false", "T: {double, float, half, complex64, complex128}"),
    shape=_qr,
)
register_op(
    "SelfAdjointEig",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=("T: {double, float, half}",),
    deprecated=(11, "Use SelfAdjointEigV2 instead."),
    planned_shape=_eigenvalues_above_vectors,
)
register_op(
    "SelfAdjointEigV2",
    inputs=("input: T",),
    outputs=("e: T", "v: T"),
    attrs=("compute_v: bool = true", "T: {double, float, half, complex64, complex128}"),
    planned_shape=_eigenvalues,
)
register_op(
    "Svd",
    inputs=("input: T",),
    outputs=("s: T", "u: T", "v: T"),
    attrs=(
        "compute_uv: bool = true",
        "full_matrices: bool = false",
        "T: {double, float, half, complex64, complex128}",
    ),
    planned_shape=_svd,
)
