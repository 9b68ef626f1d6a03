"""Factorise matrices by NumPy's LAPACK, one or a batch.

Logarithm, root and exponential are SciPy's. LAPACK decides the free choices of a factorisation: the
signs of eigen- and singular vectors, and the order of a general matrix' eigenvalues.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

from tfjit.framework.errors import UnimplementedError
from tfjit.kernels.cpu.reference.arithmetic.dense_systems import (
    NOT_INVERTIBLE,
    computed,
    pivoted_lu,
    solved,
)
from tfjit.kernels.cpu.reference.inputs import Arrays, invalid, shape_text
from tfjit.kernels.executor.blas_threads import on_free_cores
from tfjit.kernels.registry import NodeSpec, reference


def matrices(value: np.ndarray, name: str = "Input tensor 0") -> np.ndarray:
    """Return the matrices [n, rows, columns].

    Raises InvalidArgumentError below rank 2.
    """
    if value.ndim < 2:
        invalid(f"{name} must have rank >= 2, got {value.ndim}")
    return value.reshape(int(np.prod(value.shape[:-2])), *value.shape[-2:])


def square_matrices(value: np.ndarray) -> np.ndarray:
    """Return the matrices [n, m, m].

    Raises InvalidArgumentError unless the last two sizes are equal.
    """
    found = matrices(value)
    if value.shape[-1] != value.shape[-2]:
        invalid("Input matrix must be square.")
    return found


@reference("Cholesky", "BatchCholesky")
@on_free_cores
def _cholesky(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute the Cholesky factor.

    input [..., m, m], of which the lower triangle is read -> lower [..., m, m]. A matrix without a
    factor gives NaN.
    """
    (x,) = inputs
    batch = square_matrices(x)
    try:
        return (np.linalg.cholesky(computed(x)).astype(x.dtype, copy=False),)
    except np.linalg.LinAlgError:
        pass  # some matrix has none
    out = np.zeros(x.shape, x.dtype)
    for matrix, lower in zip(batch, square_matrices(out)):
        try:
            lower[...] = np.linalg.cholesky(computed(matrix))
        except np.linalg.LinAlgError:
            lower[...] = _cholesky_with_nan(computed(matrix))
    return (out,)


def _cholesky_with_nan(matrix: np.ndarray) -> np.ndarray:
    """Return the Cholesky factor of a matrix with NaN.

    LAPACK refuses such a matrix.

    The whole triangle is NaN where a pivot is not positive.
    """
    lower = np.tril(matrix)
    for j in range(len(lower)):
        lower[j:, j] -= lower[j:, :j] @ lower[j, :j].conj()
        pivot = lower[j, j].real
        if pivot <= 0:
            return np.tril(np.full_like(lower, np.nan))
        lower[j, j] = np.sqrt(pivot)
        lower[j + 1 :, j] /= lower[j, j]
    return lower


@reference("CholeskyGrad", "BatchCholeskyGrad")
@on_free_cores
def _cholesky_grad(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute the gradient of the factored matrix, symmetric.

    l [..., m, m], the gradient of l -> the gradient of the matrix with the factor l.

    Source: Iain Murray, "Differentiation of the Cholesky decomposition" (2016), equation 10.
    """
    lower, grad = inputs
    batch = matrices(lower)
    if grad.ndim != lower.ndim:
        invalid("All input tensors must have the same rank.")
    if grad.shape[:-2] != lower.shape[:-2]:
        invalid("All input tensors must have the same outer dimensions.")
    if lower.shape[-1] != lower.shape[-2]:
        invalid("Inputs must be a square matrices.")
    if grad.shape != lower.shape:
        invalid("Inputs (L and grad) must have the same shape.")
    factor = np.tril(computed(batch))
    inner = np.tril(factor.swapaxes(-1, -2) @ np.tril(computed(matrices(grad))))
    inner[:, range(lower.shape[-1]), range(lower.shape[-1])] /= 2
    half = _solve_lower_transposed(
        factor, _solve_lower_transposed(factor, inner).swapaxes(-1, -2)
    ).swapaxes(-1, -2)
    return (
        ((half + half.swapaxes(-1, -2)) / 2).reshape(lower.shape).astype(lower.dtype, copy=False),
    )


def _solve_lower_transposed(lower: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return l^-T right for batches [n, m, m].

    By substitution from the last row.
    """
    out = np.array(right)
    for i in reversed(range(out.shape[-2])):
        out[:, i] -= np.einsum("nk,nkc->nc", lower[:, i + 1 :, i], out[:, i + 1 :])
        out[:, i] /= lower[:, i, i, None]
    return out


@reference("MatrixInverse", "BatchMatrixInverse")
@on_free_cores
def _inverse(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Invert matrices [..., m, m].

    With `adjoint` the inverses of the conjugate transposes. Raises InvalidArgumentError for a
    singular matrix.
    """
    (x,) = inputs
    square_matrices(x)
    wide = computed(x)
    identity = np.broadcast_to(np.eye(x.shape[-1], dtype=wide.dtype), wide.shape)
    found = solved(wide, identity, NOT_INVERTIBLE)
    if node.attrs.get("adjoint"):
        found = found.conj().swapaxes(-1, -2)
    return (np.ascontiguousarray(found, x.dtype),)


@reference("MatrixDeterminant", "BatchMatrixDeterminant")
@on_free_cores
def _determinant(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute determinants [...] of matrices [..., m, m].

    The determinant of an empty matrix is 1.
    """
    (x,) = inputs
    square_matrices(x)
    return (np.asarray(np.linalg.det(computed(x))).astype(x.dtype),)


@reference("LogMatrixDeterminant")
@on_free_cores
def _log_determinant(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute signs and logarithms of the absolute determinants.

    input [..., m, m] -> signs [...] (of absolute value 1, or 0), logarithms [...].
    """
    (x,) = inputs
    square_matrices(x)
    sign, logarithm = np.linalg.slogdet(computed(x))
    return np.where(np.isnan(logarithm), np.nan, sign).astype(x.dtype), np.asarray(
        logarithm
    ).astype(x.dtype)


@reference("Lu")
def _lu(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute the LU factors with pivoting.

    input [..., m, m] -> lu [..., m, m] (the unit diagonal of L left out), p [..., m].
    """
    (x,) = inputs
    if x.ndim < 2:
        invalid(f"Input tensor must have rank >= 2, got {x.ndim}")
    batch = square_matrices(x)
    out, order = (
        np.empty(x.shape, x.dtype),
        np.empty(x.shape[:-1], node.attrs["output_idx_type"].as_numpy_dtype),
    )
    for matrix, lu, p in zip(batch, square_matrices(out), order.reshape(len(batch), x.shape[-1])):
        lu[...], p[...] = pivoted_lu(matrix)
    return out, order


@reference("Qr")
@on_free_cores
def _qr(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute the QR factors.

    input [..., m, n] -> q [..., m, k], r [..., k, n]; k is m with `full_matrices`, else the less of
    m and n.
    """
    (x,) = inputs
    matrices(x)
    full = node.attrs["full_matrices"]
    rows, columns = x.shape[-2:]
    if not x.size:
        inner = rows if full else min(rows, columns)
        q = np.broadcast_to(np.eye(rows, inner, dtype=x.dtype), (*x.shape[:-2], rows, inner)).copy()
        return q, np.zeros((*x.shape[:-2], inner, columns), x.dtype)
    q, r = np.linalg.qr(computed(x), mode="complete" if full else "reduced")
    return q.astype(x.dtype, copy=False), r.astype(x.dtype, copy=False)


@reference("Svd", "BatchSvd")
@on_free_cores
def _svd(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute the singular value decomposition.

    input [..., m, n] -> s [..., k], u [..., m, k or m], v [..., n, k or n] (not transposed), k the
    less of m and n; u and v empty without `compute_uv`; NaN where the input holds values that are
    not finite.
    """
    (x,) = inputs
    batch = matrices(x)
    rows, columns = x.shape[-2:]
    least, outer = min(rows, columns), x.shape[:-2]
    full, vectors = node.attrs["full_matrices"], node.attrs["compute_uv"]
    wide = computed(batch)
    sizes = (rows, columns) if full else (least, least)
    s = np.empty((len(batch), least), x.dtype)
    u, v = (
        np.empty((len(batch), rows, sizes[0]), x.dtype),
        np.empty((len(batch), columns, sizes[1]), x.dtype),
    )
    finite = np.isfinite(wide).all((1, 2))
    if not finite.all():
        s[~finite], u[~finite], v[~finite] = np.nan, np.nan, np.nan
    if not least:
        u[finite], v[finite] = np.eye(*u.shape[1:]), np.eye(*v.shape[1:])
    elif vectors:
        u[finite], s[finite], right = np.linalg.svd(wide[finite], full_matrices=full)
        v[finite] = right.conj().swapaxes(-1, -2)
    else:
        s[finite] = np.linalg.svd(wide[finite], compute_uv=False)
    if not vectors:
        return s.reshape(*outer, least), np.zeros(0, x.dtype), np.zeros(0, x.dtype)
    return (
        s.reshape(*outer, least),
        u.reshape(*outer, *u.shape[1:]),
        v.reshape(*outer, *v.shape[1:]),
    )


def _symmetric(x: np.ndarray, vectors: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvalues and eigenvectors of symmetric matrices.

    Eigenvalues [..., m] from the least up, eigenvectors in columns [..., m, m]; the lower triangles
    are read.
    """
    square_matrices(x)
    wide = computed(x)
    refusal = "Self-adjoint eigen decomposition was not successful. The input might not be valid."
    if not np.isfinite(np.tril(wide)).all():
        invalid(refusal)
    try:
        if vectors:
            values, columns = np.linalg.eigh(wide)
            return values.astype(x.dtype), columns.astype(x.dtype, copy=False)
        return np.linalg.eigvalsh(wide).astype(x.dtype), np.zeros(0, x.dtype)
    except np.linalg.LinAlgError:
        invalid(refusal)


@reference("SelfAdjointEigV2", "BatchSelfAdjointEigV2")
@on_free_cores
def _self_adjoint_eig(node: NodeSpec, inputs: Arrays) -> Arrays:
    return _symmetric(inputs[0], node.attrs["compute_v"])


@reference("SelfAdjointEig", "BatchSelfAdjointEig")
@on_free_cores
def _self_adjoint_eig_v1(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute eigenvalues and eigenvectors in one array.

    input [..., m, m] -> [..., m + 1, m]: a row of eigenvalues above the eigenvectors.
    """
    values, columns = _symmetric(inputs[0], True)
    return (np.concatenate([values[..., None, :], columns], -2),)


@reference("Eig")
@on_free_cores
def _eig(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute eigenvalues and eigenvectors of general matrices.

    input [..., m, m] -> eigenvalues [..., m], eigenvectors in columns [..., m, m]; v is empty
    without `compute_v`.
    """
    (x,) = inputs
    dtype = node.attrs["Tout"].as_numpy_dtype
    fitting = np.result_type(x.dtype, np.complex64)
    if dtype != fitting:
        invalid(
            f"Tout must be the complex type of T: eigenvalues of {x.dtype} are {fitting}, not "
            f"{np.dtype(dtype)}"
        )
    square_matrices(x)
    if not np.isfinite(x).all():
        invalid("Eigen decomposition was not successful. The input might not be valid.")
    if not node.attrs["compute_v"]:
        return np.linalg.eigvals(x).astype(dtype), np.zeros(0, dtype)
    values, columns = np.linalg.eig(x)
    return values.astype(dtype), columns.astype(dtype)


def _function_of(op: str, name: str, x: np.ndarray) -> np.ndarray:
    """Return SciPy's function `name` of each matrix.

    NaN where the matrix's own type holds no result.
    """
    batch = square_matrices(x)
    if importlib.util.find_spec("scipy") is None:
        raise UnimplementedError(
            None,
            None,
            f"{op} of {shape_text(x)} is computed by SciPy, which is missing; install tfjit[linalg]",
        )
    function: Callable[[np.ndarray], Any] = getattr(importlib.import_module("scipy.linalg"), name)
    out = np.full(batch.shape, np.nan, x.dtype)
    for matrix, result in zip(batch.astype(np.result_type(x.dtype, np.float64)), out):
        if not matrix.size or not np.isfinite(matrix).all():
            continue
        try:
            found = np.asarray(function(matrix))
        except np.linalg.LinAlgError:
            continue
        if np.iscomplexobj(found) <= np.iscomplexobj(out) or not found.imag.any():
            result[...] = found if np.iscomplexobj(out) else found.real
    return out.reshape(x.shape)


@reference("MatrixExponential")
def _exponential(node: NodeSpec, inputs: Arrays) -> Arrays:
    return (_function_of(node.op, "expm", inputs[0]),)


@reference("MatrixLogarithm")
def _logarithm(node: NodeSpec, inputs: Arrays) -> Arrays:
    return (_function_of(node.op, "logm", inputs[0]),)


@reference("MatrixSquareRoot")
def _square_root(node: NodeSpec, inputs: Arrays) -> Arrays:
    return (_function_of(node.op, "sqrtm", inputs[0]),)
