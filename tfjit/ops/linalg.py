"""Present tf.linalg.

Products, solvers, factorisations and norms of (batches of) matrices [..., rows, columns].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.ops import raw_ops as raw
from tfjit.ops.arithmetic.clipping import global_norm
from tfjit.ops.arithmetic.elementwise_functions import abs as _abs
from tfjit.ops.arithmetic.elementwise_functions import cast, conj, real
from tfjit.ops.arithmetic.elementwise_functions import pow as _pow
from tfjit.ops.arithmetic.matrix_product import cross, einsum, matmul, matvec, tensordot
from tfjit.ops.arithmetic.reduction import reduce_max, reduce_sum
from tfjit.ops.arrays.array import expand_dims, squeeze
from tfjit.ops.arrays.creation import diag as tensor_diag
from tfjit.ops.arrays.creation import diag_part as tensor_diag_part
from tfjit.ops.arrays.creation import eye
from tfjit.ops.arrays.movement_functions import matrix_transpose
from tfjit.ops.core.apply import tensor
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.nn import l2_normalize

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import AxisLike, DTypeLike, TensorLike

transpose = matrix_transpose

__all__ = [
    "adjoint",
    "band_part",
    "cholesky",
    "cholesky_solve",
    "cross",
    "det",
    "diag",
    "diag_part",
    "eigh",
    "eigvalsh",
    "einsum",
    "eye",
    "global_norm",
    "inv",
    "l2_normalize",
    "logdet",
    "logm",
    "lstsq",
    "lu",
    "matmul",
    "matrix_rank",
    "matrix_transpose",
    "matvec",
    "norm",
    "normalize",
    "pinv",
    "qr",
    "set_diag",
    "slogdet",
    "solve",
    "sqrtm",
    "svd",
    "tensor_diag",
    "tensor_diag_part",
    "tensordot",
    "trace",
    "transpose",
    "triangular_solve",
    "tridiagonal_matmul",
    "tridiagonal_solve",
]


def adjoint(matrix: TensorLike, name: str | None = None) -> Tensor:
    """Return the conjugate transpose of the last two axes."""
    with name_scope(name, "adjoint", [matrix]):
        return matrix_transpose(convert_to_tensor(matrix, name="matrix"), conjugate=True)


def band_part(
    input: TensorLike, num_lower: TensorLike, num_upper: TensorLike, name: str | None = None
) -> Tensor:
    """Zero elements outside of a band around the main diagonal.

    num_lower, num_upper: the number of diagonals to keep below and above; a negative number keeps
    all.
    """
    return tensor("MatrixBandPart", name, input=input, num_lower=num_lower, num_upper=num_upper)


def cholesky(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the lower factor of symmetric positive definite matrices.

    Their lower triangle is read.
    """
    return tensor("Cholesky", name, input=input)


def cholesky_solve(chol: TensorLike, rhs: TensorLike, name: str | None = None) -> Tensor:
    """Solve (chol chol^H) x = rhs for x."""
    with name_scope(name, "cholesky_solve", [chol, rhs]):
        return triangular_solve(
            chol, triangular_solve(chol, rhs, adjoint=False, lower=True), adjoint=True, lower=True
        )


def det(input: TensorLike, name: str | None = None) -> Tensor:
    """Return determinants, [...]."""
    return tensor("MatrixDeterminant", name, input=input)


def diag(
    diagonal: TensorLike,
    name: str = "diag",
    k: TensorLike = 0,
    num_rows: TensorLike = -1,
    num_cols: TensorLike = -1,
    padding_value: TensorLike = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:
    """Build matrices with these diagonals.

    k: the diagonal's number, or a pair (lowest, highest).
    """
    diagonal = convert_to_tensor(diagonal)
    padding = _padding(diagonal, padding_value)
    return tensor(
        "MatrixDiagV3",
        name,
        diagonal=diagonal,
        k=k,
        num_rows=num_rows,
        num_cols=num_cols,
        padding_value=padding,
        align=align,
    )


def diag_part(
    input: TensorLike,
    name: str = "diag_part",
    k: TensorLike = 0,
    padding_value: TensorLike = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:
    """Return the diagonals k of matrices.

    k: a number or a pair (lowest, highest).
    """
    input = convert_to_tensor(input)
    return tensor(
        "MatrixDiagPartV3",
        name,
        input=input,
        k=k,
        padding_value=_padding(input, padding_value),
        align=align,
    )


def _padding(like: Tensor, value: TensorLike) -> Any:
    return (
        value != 0
        if like.dtype.base_dtype == dtypes.bool and not isinstance(value, Tensor)
        else value
    )


def set_diag(
    input: TensorLike,
    diagonal: TensorLike,
    name: str = "set_diag",
    k: TensorLike = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:
    """Return matrices with their diagonals k replaced."""
    return tensor("MatrixSetDiagV3", name, input=input, diagonal=diagonal, k=k, align=align)


def eigh(tensor: TensorLike, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return (eigenvalues, eigenvectors) of self-adjoint matrices.

    Eigenvalues [..., m] from the least up, eigenvectors in columns [..., m, m].
    """
    e, v = raw.SelfAdjointEigV2(input=tensor, compute_v=True, name=name)
    return e, v


def eigvalsh(tensor: TensorLike, name: str | None = None) -> Tensor:
    """Return eigenvalues [..., m] of self-adjoint matrices, from the least up."""
    e, _ = raw.SelfAdjointEigV2(input=tensor, compute_v=False, name=name)
    return e


def inv(input: TensorLike, adjoint: bool = False, name: str | None = None) -> Tensor:
    """Return the inverses, of the conjugate transposes with `adjoint`."""
    return tensor("MatrixInverse", name, input=input, adjoint=adjoint)


def logdet(matrix: TensorLike, name: str | None = None) -> Tensor:
    """Return logarithms of determinants of positive definite matrices, [...]."""
    with name_scope(name, "logdet", [matrix]):
        roots = diag_part(cholesky(matrix))
        roots = (
            raw.Real(input=roots, Tout=roots.dtype.base_dtype.real_dtype)
            if _is_complex(roots)
            else roots
        )
        return 2.0 * reduce_sum(raw.Log(x=roots), axis=[-1])


def _is_complex(value: TensorLike) -> bool:
    return bool(convert_to_tensor(value).dtype.base_dtype.is_complex)


def logm(input: TensorLike, name: str | None = None) -> Tensor:
    """Return principal logarithms of complex matrices."""
    return tensor("MatrixLogarithm", name, input=input)


def sqrtm(input: TensorLike, name: str | None = None) -> Tensor:
    """Return principal square roots."""
    return tensor("MatrixSquareRoot", name, input=input)


def lstsq(
    matrix: TensorLike,
    rhs: TensorLike,
    l2_regularizer: object = 0.0,
    fast: bool = True,
    name: str | None = None,
) -> Tensor:
    """Solve least squares for x.

    x is of least |matrix x - rhs|^2 + l2_regularizer |x|^2; of least norm where equations are fewer
    than unknowns.

    matrix [..., m, n], rhs [..., m, k] -> [..., n, k]. fast: by Cholesky of the normal equations;
    else complete, without a regulariser.
    """
    return tensor(
        "MatrixSolveLs", name, matrix=matrix, rhs=rhs, l2_regularizer=l2_regularizer, fast=fast
    )


def lu(
    input: TensorLike, output_idx_type: DTypeLike = dtypes.int32, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Return (both factors in one matrix, the permutation of the rows)."""
    found, order = raw.Lu(input=input, output_idx_type=output_idx_type, name=name)
    return found, order


def matrix_rank(
    a: TensorLike, tol: object = None, validate_args: bool = False, name: str | None = None
) -> Tensor:
    """Return the number of singular values above `tol`, int32 [...].

    By default `tol` is the rounding of the greatest times the greater size.
    """
    with name_scope(name, "matrix_rank", [a, tol]):
        a = convert_to_tensor(a, dtype_hint=dtypes.float32)
        s = svd(a, compute_uv=False)
        if tol is None:
            sizes = cast(raw.Shape(input=a)[-2:], a.dtype.base_dtype.real_dtype)
            epsilon = float(np.finfo(a.dtype.base_dtype.real_dtype.as_numpy_dtype).eps)
            tol = epsilon * reduce_max(sizes) * reduce_max(s, axis=-1, keepdims=True)
        return reduce_sum(cast(s > tol, dtypes.int32), axis=-1)


def pinv(
    a: TensorLike,
    rcond: TensorLike | None = None,
    validate_args: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return Moore and Penrose's pseudo-inverses [..., n, m].

    Singular values up to `rcond` times the greatest count as zero. rcond: by default 10 times the
    greater size times the rounding.
    """
    with name_scope(name, "pinv", [a, rcond]):
        a = convert_to_tensor(a, name="a")
        dtype = a.dtype.base_dtype
        if rcond is None:
            sizes = cast(raw.Shape(input=a)[-2:], dtype.real_dtype)
            rcond = 10.0 * reduce_max(sizes) * float(np.finfo(dtype.real_dtype.as_numpy_dtype).eps)
        s, u, v = svd(a)
        cutoff = rcond * reduce_max(s, axis=-1, keepdims=True)
        s = raw.SelectV2(
            condition=s > cutoff,
            t=s,
            e=raw.Fill(dims=raw.Shape(input=s), value=np.array(np.inf, s.dtype.as_numpy_dtype)),
        )
        return matmul(v / cast(expand_dims(s, -2), dtype), u, adjoint_b=True)


def qr(
    input: TensorLike, full_matrices: bool = False, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Return (q, r), with orthonormal columns and upper triangular."""
    q, r = raw.Qr(input=input, full_matrices=full_matrices, name=name)
    return q, r


def slogdet(input: TensorLike, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return (signs [...], logarithms of the absolute determinants [...])."""
    sign, logarithm = raw.LogMatrixDeterminant(input=input, name=name)
    return sign, logarithm


def solve(
    matrix: TensorLike, rhs: TensorLike, adjoint: bool = False, name: str | None = None
) -> Tensor:
    """Solve matrix x = rhs for x.

    matrix [..., m, m], rhs [..., m, k].
    """
    return tensor("MatrixSolve", name, matrix=matrix, rhs=rhs, adjoint=adjoint)


def svd(
    tensor: TensorLike,
    full_matrices: bool = False,
    compute_uv: bool = True,
    name: str | None = None,
) -> Any:
    """Return (s, u, v) with tensor = u diag(s) v^H.

    s [..., k], real, greatest first, u [..., m, k], v [..., n, k]; s alone without `compute_uv`.
    """
    s, u, v = raw.Svd(input=tensor, compute_uv=compute_uv, full_matrices=full_matrices, name=name)
    s = real(s)
    return (s, u, v) if compute_uv else s


def trace(x: TensorLike, name: str | None = None) -> Tensor:
    """Return sums of the main diagonals, [...]."""
    with name_scope(name, "Trace", [x]) as scope:
        return reduce_sum(diag_part(convert_to_tensor(x, name="x")), [-1], name=scope)


def triangular_solve(
    matrix: TensorLike,
    rhs: TensorLike,
    lower: bool = True,
    adjoint: bool = False,
    name: str | None = None,
) -> Tensor:
    """Solve matrix x = rhs for x, with a triangular matrix.

    One triangle is read; outer dimensions broadcast.
    """
    return tensor(
        "MatrixTriangularSolve", name, matrix=matrix, rhs=rhs, lower=lower, adjoint=adjoint
    )


def _diagonals(diagonals: Any, form: str) -> Tensor:
    """Return the diagonals [..., 3, m]: above, main, below."""
    if form == "compact":
        return convert_to_tensor(diagonals, name="diagonals")
    if form == "sequence":
        if not isinstance(diagonals, (tuple, list)) or len(diagonals) != 3:
            raise ValueError("Expected diagonals to be a sequence of length 3.")
        above, main, below = (convert_to_tensor(value) for value in diagonals)
        last = main.shape_tuple[-1] if main.shape_tuple is not None else None

        def padded(value: Tensor, front: bool) -> Tensor:
            """Pad a short diagonal with an element that is not read."""
            size = value.shape_tuple[-1] if value.shape_tuple is not None else None
            if size is None or last is None or size == last:
                return value
            if size != last - 1:
                raise ValueError(
                    f"Expected {'subdiagonal' if front else 'superdiagonal'} to be of size {last} "
                    f"or {last - 1}, got {size}."
                )
            rank = len(value.shape_tuple or ())
            paddings = [[0, 0]] * (rank - 1) + [[1, 0] if front else [0, 1]]
            return raw.Pad(input=value, paddings=paddings)

        return raw.Pack(values=[padded(above, False), main, padded(below, True)], axis=-2)
    if form == "matrix":
        matrix = convert_to_tensor(diagonals, name="diagonals")
        return diag_part(matrix, k=(-1, 1), padding_value=0, align="LEFT_RIGHT")
    raise ValueError(f"Unrecognized diagonals_format: {form}")


def tridiagonal_solve(
    diagonals: object,
    rhs: TensorLike,
    diagonals_format: str = "compact",
    transpose_rhs: bool = False,
    conjugate_rhs: bool = False,
    name: str | None = None,
    partial_pivoting: bool = True,
    perturb_singular: bool = False,
) -> Tensor:
    """Solve tridiagonal systems for x [..., m] or [..., m, k].

    rhs is of x's shape, or [..., k, m] with `transpose_rhs`.

    diagonals: [..., 3, m] (compact: above, main, below), a sequence of the three, or whole
    matrices, as `diagonals_format` says.

    Raises ValueError for another format.
    """
    with name_scope(name, "tridiagonal_solve", [rhs]):
        three, rhs = _diagonals(diagonals, diagonals_format), convert_to_tensor(rhs, name="rhs")
        if three.shape_tuple is None or rhs.shape_tuple is None:
            raise ValueError("tridiagonal_solve needs known ranks")
        vector = len(rhs.shape_tuple) == len(three.shape_tuple) - 1
        if vector:
            rhs = expand_dims(conj(rhs) if conjugate_rhs else rhs, -1)
        elif transpose_rhs:
            rhs = matrix_transpose(rhs, conjugate=conjugate_rhs)
        elif conjugate_rhs:
            rhs = conj(rhs)
        out = raw.TridiagonalSolve(
            diagonals=three,
            rhs=rhs,
            partial_pivoting=partial_pivoting,
            perturb_singular=perturb_singular,
        )
        return squeeze(out, -1) if vector else out


def tridiagonal_matmul(
    diagonals: object, rhs: TensorLike, diagonals_format: str = "compact", name: str | None = None
) -> Tensor:
    """Multiply tridiagonal matrices by rhs [..., m, k].

    See tridiagonal_solve for the formats.
    """
    with name_scope(name, "tridiagonal_matmul", [rhs]):
        three = _diagonals(diagonals, diagonals_format)
        above, main, below = (three[..., i : i + 1, :] for i in range(3))
        return raw.TridiagonalMatMul(superdiag=above, maindiag=main, subdiag=below, rhs=rhs)


def norm(
    tensor: TensorLike,
    ord: Any = "euclidean",
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """Return the norm of vectors or matrices.

    The axis is a number for vectors (None for all elements), and a pair for matrices.

    ord: "euclidean", "fro", 1, 2, np.inf, or for vectors any positive number; "euclidean" and "fro"
    of complex numbers stay complex, as in TensorFlow. Raises ValueError for another one.
    """
    keepdims = bool(keep_dims) if keepdims is None else keepdims
    matrices = isinstance(axis, (tuple, list)) and len(axis) == 2
    if isinstance(axis, (tuple, list)) and not matrices:
        raise ValueError(
            f"'axis' must be None, an integer, or a tuple of 2 unique integers, got {axis}"
        )
    if matrices:
        if axis[0] == axis[1]:
            raise ValueError(
                f"'axis' must be None, an integer, or a tuple of 2 unique integers, got {axis}"
            )
        if ord not in ("euclidean", "fro", 1, 2, np.inf):
            raise ValueError(
                "'ord' must be a supported matrix norm in ['euclidean', 'fro', 1, 2, inf], got "
                f"{ord}"
            )
    elif not (ord == "euclidean" or (not isinstance(ord, str) and ord > 0)):
        raise ValueError(
            f"'ord' must be a supported vector norm: 'euclidean' or a positive number, got {ord}"
        )
    with name_scope(name, "norm", [tensor]):
        x = convert_to_tensor(tensor)
        if ord in ("fro", "euclidean", 2) and not (matrices and ord == 2):
            out = raw.Sqrt(x=reduce_sum(x * conj(x), axis, keepdims=True))
        elif matrices and ord == 2:
            ranks = len(x.shape)
            a, b = (i % ranks for i in axis)
            front = [i for i in range(ranks) if i not in (a, b)]
            transposed = raw.Transpose(x=x, perm=[*front, a, b])
            greatest = reduce_max(svd(transposed, compute_uv=False), -1)
            out = greatest
            for i in sorted((a, b)):
                out = expand_dims(out, i)
        elif ord == np.inf:
            out = reduce_max(
                _abs(x) if not matrices else reduce_sum(_abs(x), axis[1], keepdims=True),
                axis[0] if matrices else axis,
                True,
            )
        elif ord == 1:
            out = reduce_sum(_abs(x), axis[0] if matrices else axis, keepdims=True)
            out = reduce_max(out, axis[1], keepdims=True) if matrices else out
        else:
            out = _pow(reduce_sum(_pow(_abs(x), ord), axis, keepdims=True), 1.0 / ord)
        return out if keepdims else squeeze(out, list(axis) if matrices else axis)


def normalize(
    tensor: TensorLike,
    ord: Any = "euclidean",
    axis: AxisLike | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return (the tensor over its norm, the norm with its axes kept)."""
    with name_scope(name, "normalize", [tensor]):
        tensor = convert_to_tensor(tensor)
        length = cast(norm(tensor, ord, axis, keepdims=True), tensor.dtype.base_dtype)
        return tensor / length, length
