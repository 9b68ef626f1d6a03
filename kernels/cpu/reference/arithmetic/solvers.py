"""Solve systems of linear equations in NumPy.

General, triangular, banded, tridiagonal, and least squares.
"""

from __future__ import annotations

import numpy as np

from tfjit.framework.types.shape import format_shape
from tfjit.kernels.cpu.reference.arithmetic.dense_systems import computed, solved, substitute
from tfjit.kernels.cpu.reference.arithmetic.factorizations import matrices
from tfjit.kernels.cpu.reference.inputs import Arrays, invalid, shape_text
from tfjit.kernels.executor.blas_threads import on_free_cores
from tfjit.kernels.registry import NodeSpec, reference

_SINGULAR = "Input matrix is not invertible."


def _pair(matrix: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return matrices and right sides as batches of equal outer dimensions.

    Shapes [n, m, k] and [n, m, c]. The solvers without broadcasting take only these. Raises
    InvalidArgumentError for others.
    """
    left = matrices(matrix)
    if right.ndim != matrix.ndim:
        invalid("All input tensors must have the same rank.")
    if right.shape[:-2] != matrix.shape[:-2]:
        invalid("All input tensors must have the same outer dimensions.")
    return left, matrices(right)


@reference("MatrixSolve", "BatchMatrixSolve")
@on_free_cores
def _solve(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Solve matrix x = rhs.

    matrix [..., m, m], rhs [..., m, k] -> x [..., m, k]; with `adjoint` the conjugate transpose is
    the matrix.
    """
    matrix, right = inputs
    lefts, rights = _pair(matrix, right)
    if matrix.shape[-1] != matrix.shape[-2]:
        invalid("First input (lhs) must be a square matrix.")
    if right.shape[-2] != matrix.shape[-1]:
        invalid("Input matrix and rhs are incompatible.")
    if not right.size:
        return (np.zeros(right.shape, right.dtype),)
    wide = computed(lefts)
    if node.attrs["adjoint"]:
        wide = wide.conj().swapaxes(-1, -2)
    out = solved(wide, computed(rights), _SINGULAR)
    return (out.reshape(right.shape).astype(right.dtype, copy=False),)


@reference("MatrixSolveLs", "BatchMatrixSolveLs")
@on_free_cores
def _solve_ls(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Solve a system by least squares or least norm.

    matrix [..., m, n], rhs [..., m, k], l2_regularizer [] -> x [..., n, k]; of least norm where m <
    n.

    `fast`: by the normal equations, regularised; else the solution of least norm, which takes no
    regulariser.
    """
    matrix, right, regularizer = inputs
    lefts, rights = _pair(matrix, right)
    if right.shape[-2] != matrix.shape[-2]:
        invalid("Input matrix and rhs are incompatible.")
    if regularizer.ndim:
        invalid(f"l2_regularizer must be scalar, got shape {shape_text(regularizer)}")
    rows, columns = matrix.shape[-2:]
    out = np.zeros((len(lefts), columns, right.shape[-1]), right.dtype)
    if out.size and rows and node.attrs["fast"]:
        out[...] = _normal_equations(computed(lefts), computed(rights), float(regularizer))
    elif out.size and rows:
        for x, a, b in zip(out, computed(lefts), computed(rights)):
            x[...] = np.linalg.lstsq(a, b, rcond=None)[0]
    return (out.reshape(*matrix.shape[:-2], columns, right.shape[-1]),)


def _normal_equations(a: np.ndarray, b: np.ndarray, regularizer: float) -> np.ndarray:
    """Return the solutions of a batch [n, rows, columns].

    A system with NaN has NaN.

    The Cholesky factorisation only tells whether a system can be solved: LAPACK's general solver
    takes less time than substitution in NumPy.
    """
    adjoint = a.conj().swapaxes(-1, -2)
    tall = a.shape[-2] >= a.shape[-1]
    gram = adjoint @ a if tall else a @ adjoint
    diagonal = range(gram.shape[-1])
    gram[:, diagonal, diagonal] += regularizer
    unknown = np.isnan(gram).any((1, 2))
    gram[unknown] = np.eye(gram.shape[-1])
    try:
        np.linalg.cholesky(gram)
        found = np.linalg.solve(gram, adjoint @ b if tall else b)
    except np.linalg.LinAlgError:
        invalid(
            "Input matrix was rank deficient or ill-conditioned. Try setting fast=False or provide "
            "a larger l2_regularizer > 0."
        )
    found = found if tall else adjoint @ found
    found[unknown] = np.nan
    return found


def _broadcast(matrix: np.ndarray, right: np.ndarray) -> tuple[int, ...]:
    """Return the outer dimensions of both.

    Raises InvalidArgumentError for shapes that do not broadcast.
    """
    for i, value in enumerate((matrix, right)):
        if value.ndim < 2:
            invalid(f"In[{i}] ndims must be >= 2: {value.ndim}")
    try:
        return np.broadcast_shapes(matrix.shape[:-2], right.shape[:-2])
    except ValueError:
        invalid(
            f"In[0] and In[1] must have compatible batch dimensions: {shape_text(matrix)} vs. "
            f"{shape_text(right)}"
        )


def _check_fit(node: NodeSpec, matrix: np.ndarray, right: np.ndarray) -> None:
    lower, adjoint = int(node.attrs["lower"]), int(node.attrs["adjoint"])
    if matrix.shape[-1] != right.shape[-2]:
        invalid(
            f"In[0] mismatch In[1] shape: {matrix.shape[-1]} vs. {right.shape[-2]}: "
            f"{format_shape(matrix.shape)} {format_shape(right.shape)} {lower} {adjoint}"
        )


@reference("MatrixTriangularSolve", "BatchMatrixTriangularSolve")
@on_free_cores
def _triangular_solve(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Solve triangular systems; outer dimensions broadcast.

    matrix [..., m, m], of which `lower` chooses the triangle that is read, rhs [..., m, k] -> x
    [..., m, k].
    """
    matrix, right = inputs
    outer = _broadcast(matrix, right)
    if matrix.shape[-1] != matrix.shape[-2]:
        invalid(
            f"In[0] matrices in the last dimensions must be square ({matrix.shape[-1]} =/= "
            f"{matrix.shape[-2]})"
        )
    _check_fit(node, matrix, right)
    lower, adjoint = node.attrs["lower"], node.attrs["adjoint"]
    wide = computed(matrix)
    target = np.broadcast_to(computed(right), (*outer, *right.shape[-2:]))
    out = substitute(wide.conj().swapaxes(-1, -2) if adjoint else wide, target, lower != adjoint)
    return (out.astype(right.dtype, copy=False),)


@reference("BandedTriangularSolve")
@on_free_cores
def _banded_triangular_solve(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Solve banded triangular systems.

    matrix [..., bands, m]: the diagonal first and the diagonals below it with `lower`, else the
    diagonals above it and the diagonal last, element [d, i] in row i of the system; rhs [..., m, k]
    -> x [..., m, k].
    """
    matrix, right = inputs
    outer = _broadcast(matrix, right)
    for i, value in enumerate(inputs):
        if not value.size:
            name = node.inputs[i].dtype.name.removesuffix("32")
            invalid(
                f"In[{i}] must not be an empty tensor: Tensor<type: {name} shape: "
                f"{shape_text(value)} values: >"
            )
    _check_fit(node, matrix, right)
    bands, size = matrix.shape[-2:]
    lower, adjoint = node.attrs["lower"], node.attrs["adjoint"]
    if (matrix[..., 0 if lower else bands - 1, :] == 0).any():
        invalid(_SINGULAR)
    dense = np.zeros((*matrix.shape[:-2], size, size), computed(matrix).dtype)
    for d in range(min(bands, size)):
        rows = np.arange(d, size) if lower else np.arange(size - d)
        band = matrix[..., d if lower else bands - 1 - d, :]
        dense[..., rows, rows - d if lower else rows + d] = band[..., rows]
    target = np.broadcast_to(computed(right), (*outer, *right.shape[-2:]))
    out = substitute(dense.conj().swapaxes(-1, -2) if adjoint else dense, target, lower != adjoint)
    return (out.astype(right.dtype, copy=False),)


@reference("TridiagonalMatMul")
def _tridiagonal_matmul(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Multiply a tridiagonal matrix by rhs [..., m, k].

    Three diagonals [..., 1, m] (the last of the upper and the first of the lower one are not read).
    """
    upper, main, lower, right = inputs
    matrices(upper)
    if any(value.ndim != upper.ndim for value in inputs):
        invalid("All input tensors must have the same rank.")
    if any(value.shape[:-2] != upper.shape[:-2] for value in inputs):
        invalid("All input tensors must have the same outer dimensions.")
    for name, value in (("superdiagonal", upper), ("maindiagonal", main), ("subdiagonal", lower)):
        if value.shape[-2:] != (1, right.shape[-2]):
            invalid(f"Invalid {name} shape.")
    above, middle, below = (np.swapaxes(value, -1, -2) for value in (upper, main, lower))
    out = middle * right
    out[..., :-1, :] += above[..., :-1, :] * right[..., 1:, :]
    out[..., 1:, :] += below[..., 1:, :] * right[..., :-1, :]
    return (out,)


@reference("TridiagonalSolve")
def _tridiagonal_solve(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Solve tridiagonal systems.

    diagonals [..., 3, m]: above (its last is not read), main, below (its first is not read); rhs
    [..., m, k] -> x [..., m, k].

    A singular system gives NaN, or with `perturb_singular` the solution of one whose zero pivots
    are as small as the rounding.

    Source: elimination with rows exchanged, as LAPACK's gtsv; without `partial_pivoting` Thomas'
    algorithm.
    """
    diagonals, right = inputs
    pivoting, perturb = node.attrs["partial_pivoting"], node.attrs["perturb_singular"]
    if perturb and not pivoting:
        invalid("Setting perturb_singular requires also setting partial_pivoting.")
    batch, rights = _pair(diagonals, right)
    if diagonals.shape[-2] != 3:
        invalid(
            f"Expected diagonals to be provided as a matrix with 3 rows, got {diagonals.shape[-2]} "
            "rows."
        )
    size = diagonals.shape[-1]
    if right.shape[-2] != size:
        invalid(
            f"Expected the same number of left-hand sides and right-hand sides, got {size} and "
            f"{right.shape[-2]}."
        )
    out = np.array(rights)
    if out.size:
        _eliminate(np.array(batch), out, pivoting, perturb)
    return (out.reshape(right.shape),)


def _eliminate(diagonals: np.ndarray, x: np.ndarray, pivoting: bool, perturb: bool) -> None:
    """Solve all systems of a batch in place of the right sides.

    diagonals [n, 3, m], x [n, m, k].
    """
    above, main, below = diagonals.swapaxes(0, 1)
    size = main.shape[1]
    second = np.zeros_like(main)  # second diagonal above the main one, filled by exchanged rows
    singular = np.zeros(len(main), bool)
    tiny = np.finfo(main.dtype).eps * np.maximum(
        np.abs(diagonals).max(axis=(1, 2)), np.finfo(main.dtype).tiny
    )
    above[:, -1] = 0
    for i in range(size):
        if i + 1 < size:
            swap = (
                (np.abs(below[:, i + 1]) > np.abs(main[:, i]))
                if pivoting
                else np.zeros(len(main), bool)
            )
            here = np.stack([main[:, i], above[:, i], np.zeros_like(main[:, i])])
            there = np.stack([below[:, i + 1], main[:, i + 1], above[:, i + 1]])
            (main[:, i], above[:, i], second[:, i]), there = (
                np.where(swap, there, here),
                np.where(swap, here, there),
            )
            x[:, i], x[:, i + 1] = (
                np.where(swap[:, None], x[:, i + 1], x[:, i]),
                np.where(swap[:, None], x[:, i], x[:, i + 1]),
            )
        zero = main[:, i] == 0
        if perturb:
            main[:, i] = np.where(zero, tiny, main[:, i])
        else:
            singular |= zero
        if i + 1 < size:
            factor = there[0] / main[:, i]
            main[:, i + 1] = there[1] - factor * above[:, i]
            above[:, i + 1] = there[2] - factor * second[:, i]
            x[:, i + 1] -= factor[:, None] * x[:, i]
    for i in reversed(range(size)):
        if i + 1 < size:
            x[:, i] -= above[:, i, None] * x[:, i + 1]
        if i + 2 < size:
            x[:, i] -= second[:, i, None] * x[:, i + 2]
        x[:, i] /= main[:, i, None]
    x[singular] = np.nan
