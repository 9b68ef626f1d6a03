"""Define gradients of factorizations, inverses, determinants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.ops import raw_ops as raw
from tfjit.ops.arrays.movement_functions import matrix_transpose
from tfjit.ops.autodiff.terms import conj, like

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


def _adjoint(x: Tensor) -> Tensor:
    return conj(matrix_transpose(x))


def _product(*factors: Tensor) -> Tensor:
    """Return the product of matrices, from the right."""
    product = factors[-1]
    for factor in reversed(factors[:-1]):
        product = raw.BatchMatMulV2(x=factor, y=product)
    return product


def _real(x: Tensor) -> Tensor:
    """Return the real parts, in the dtype of x."""
    dtype = x.dtype.base_dtype
    if conj(x) is x:
        return x
    real = raw.Real(input=x, Tout=dtype.real_dtype)
    return raw.Complex(real=real, imag=raw.ZerosLike(x=real), Tout=dtype)


def _diagonal_of(x: Tensor) -> Tensor:
    return raw.MatrixDiag(diagonal=raw.MatrixDiagPart(input=x))


def _safe_reciprocal(x: Tensor) -> Tensor:
    """Return 1 / x, but 0 at 0; denormal squares are rounded."""
    return x * raw.Reciprocal(x=raw.Square(x=x) + like(1e-20, x))


def _reciprocal_gaps(values: Tensor) -> Tensor:
    """Return reciprocals of v_j - v_i, 0 on the diagonal.

    Equal values have no gradient of their vectors.
    """
    gaps = raw.ExpandDims(input=values, dim=-2) - raw.ExpandDims(input=values, dim=-1)
    return raw.MatrixSetDiag(input=_safe_reciprocal(gaps), diagonal=raw.ZerosLike(x=values))


@RegisterGradient("SelfAdjointEigV2")
def _self_adjoint_eig(op: Operation, for_values: Tensor, for_vectors: Tensor) -> Gradients:
    """Return the gradient of eigenvalues and eigenvectors, by the lower triangle.

    Source: Giles, "An extended collection of matrix derivative results" (2008), section 3.1.
    """
    a, values = op.inputs[0], op.outputs[0]
    middle = raw.MatrixDiag(diagonal=for_values)
    if op.get_attr("compute_v"):
        vectors = op.outputs[1]
        products = raw.BatchMatMulV2(x=vectors, y=for_vectors, adj_x=True)
        middle += _reciprocal_gaps(values) * products
    else:
        vectors = raw.SelfAdjointEigV2(input=a, compute_v=True)[1]
    gradient = _product(vectors, middle, _adjoint(vectors))
    # both triangles are one input, the lower
    lower = raw.MatrixBandPart(input=gradient + _adjoint(gradient), num_lower=-1, num_upper=0)
    diagonal = like(0.5, lower) * raw.MatrixDiagPart(input=lower)
    return raw.MatrixSetDiag(input=lower, diagonal=diagonal)


@RegisterGradient("Eig")
def _eig(op: Operation, for_values: Tensor, for_vectors: Tensor) -> Gradients:
    """Return the gradient of eigenvalues and normalised eigenvectors.

    Source: Boeddeker et al., "On the computation of complex-valued gradients" (2017), 4.77.
    """
    a, values = op.inputs[0], op.outputs[0]
    middle = raw.MatrixDiag(diagonal=for_values)
    if op.get_attr("compute_v"):
        vectors = op.outputs[1]
        products = raw.BatchMatMulV2(x=vectors, y=for_vectors, adj_x=True)
        overlap = raw.BatchMatMulV2(x=vectors, y=vectors, adj_x=True)
        of_lengths = _product(overlap, _diagonal_of(_real(products)))
        middle += conj(_reciprocal_gaps(values)) * (products - of_lengths)
    else:
        vectors = raw.Eig(input=a, compute_v=True, Tout=values.dtype.base_dtype)[1]
    adjoint = _adjoint(vectors)
    gradient = raw.MatrixSolve(matrix=adjoint, rhs=raw.BatchMatMulV2(x=middle, y=adjoint))
    return raw.Cast(x=gradient, DstT=a.dtype.base_dtype)


@RegisterGradient("Svd")
def _svd(op: Operation, for_s: Tensor, for_u: Tensor, for_v: Tensor) -> Gradients:
    """Return the gradient of singular values and vectors.

    Source: Townsend, "Differentiating the singular value decomposition" (2016); the last term for
    complex matrices: Wan and Zhang, "Automatic differentiation for complex valued SVD" (2019).
    """
    a = op.inputs[0]
    dtype = a.dtype.base_dtype
    of_values = raw.MatrixDiag(diagonal=raw.Cast(x=for_s, DstT=dtype))
    if not op.get_attr("compute_uv"):
        _, u, v = raw.Svd(input=a, compute_uv=True, full_matrices=False)
        return _product(u, of_values, _adjoint(v))
    s, u, v = op.outputs
    s = raw.Cast(x=s, DstT=dtype)
    count = raw.Shape(input=s)[-1]
    further_u, further_v = None, None
    if op.get_attr("full_matrices"):
        _check_full_matrices(op)
        further_u = u[..., :, count:], for_u[..., :, count:]
        further_v = v[..., :, count:], for_v[..., :, count:]
        u, for_u = u[..., :, :count], for_u[..., :, :count]
        v, for_v = v[..., :, :count], for_v[..., :, :count]
    gaps = _reciprocal_gaps(raw.Square(x=s))
    products_u = raw.BatchMatMulV2(x=u, y=for_u, adj_x=True)
    products_v = raw.BatchMatMulV2(x=v, y=for_v, adj_x=True)
    scale, inverse = raw.MatrixDiag(diagonal=s), raw.MatrixDiag(diagonal=_safe_reciprocal(s))
    middle = of_values + raw.BatchMatMulV2(x=gaps * (products_u - _adjoint(products_u)), y=scale)
    middle += raw.BatchMatMulV2(x=scale, y=gaps * (products_v - _adjoint(products_v)))
    if conj(a) is not a:
        phases = _diagonal_of(products_v)
        middle += like(0.5, s) * raw.BatchMatMulV2(x=inverse, y=_adjoint(phases) - phases)
    gradient = _product(u, middle, _adjoint(v))
    gradient += _product(_outside(u, for_u, products_u, further_u), inverse, _adjoint(v))
    return gradient + _product(u, inverse, _adjoint(_outside(v, for_v, products_v, further_v)))


def _check_full_matrices(op: Operation) -> None:
    """Raise NotImplementedError unless at most one vector has no singular value.

    Several of them may be any basis of their space, so they have no gradient.
    """
    shape = op.inputs[0].shape_tuple
    rows, columns = shape[-2:] if shape is not None else (None, None)
    if rows is None or columns is None or abs(rows - columns) > 1:
        raise NotImplementedError(
            "svd gradient is not implemented for abs(m - n) > 1 when full_matrices is True. "
            f"Received: m={rows} and n={columns} from op input={op.inputs[0]} with shape={shape}."
        )


def _outside(
    vectors: Tensor, grad: Tensor, products: Tensor, further: tuple[Tensor, Tensor] | None
) -> Tensor:
    """Return the part of singular vectors' gradient outside their space.

    products: vectors^H grad. further: vectors of no singular value with their gradient.
    """
    outside = grad - raw.BatchMatMulV2(x=vectors, y=products)
    if further is None:
        return outside
    others, for_others = further
    back = raw.BatchMatMulV2(x=for_others, y=vectors, adj_x=True)
    return outside - raw.BatchMatMulV2(x=others, y=back)


@RegisterGradient("Qr")
def _qr(op: Operation, for_q: Tensor, for_r: Tensor) -> Gradients:
    """Return the gradient of a QR decomposition.

    Columns behind the first square are products of q. Source: Roberts and Roberts, "QR and LQ
    decomposition matrix backpropagation algorithms" (2020).
    """
    a = op.inputs[0]
    q, r = op.outputs
    shape = a.shape_tuple
    if op.get_attr("full_matrices"):
        rows, columns = shape[-2:] if shape is not None else (None, None)
        if rows is None or columns is None or rows > columns:
            raise NotImplementedError(
                "QrGrad not implemented when nrows > ncols and full_matrices is true. Received "
                f"r.shape={r.shape} with nrows={rows} and ncols={columns}."
            )
    count = raw.Shape(input=q)[-1]
    for_rest = for_r[..., :, count:]
    for_q += raw.BatchMatMulV2(x=a[..., :, count:], y=for_rest, adj_y=True)
    r, for_r = r[..., :, :count], for_r[..., :, :count]
    products = raw.BatchMatMulV2(x=q, y=for_q, adj_x=True)
    scaled = raw.BatchMatMulV2(x=r, y=for_r, adj_y=True)
    lower = products - _adjoint(products) + scaled - _adjoint(scaled)
    lower = raw.MatrixBandPart(input=lower, num_lower=-1, num_upper=0)
    square = raw.BatchMatMulV2(x=q, y=for_r + _times_inverse_adjoint(lower, r))
    square += _times_inverse_adjoint(for_q - raw.BatchMatMulV2(x=q, y=products), r)
    if conj(q) is not q:
        phases = _diagonal_of(scaled - _adjoint(products))
        phase_terms = _adjoint(phases - _real(phases))
        square += _times_inverse_adjoint(raw.BatchMatMulV2(x=q, y=phase_terms), r)
    return raw.ConcatV2(values=[square, raw.BatchMatMulV2(x=q, y=for_rest)], axis=-1)


def _times_inverse_adjoint(x: Tensor, r: Tensor) -> Tensor:
    """Return x r^-H of an upper triangular r."""
    return _adjoint(raw.MatrixTriangularSolve(matrix=r, rhs=_adjoint(x), lower=False))


@RegisterGradient("MatrixSquareRoot")
def _matrix_square_root(op: Operation, grad: Tensor) -> Gradients:
    """Solve root^H x + x root^H = grad for the gradient x.

    The equation, of Sylvester's kind, is one linear system of all elements of x.
    """
    root = op.outputs[0]
    adjoint = _adjoint(root)
    shape = raw.Shape(input=root)
    order = shape[-1:]
    identity = raw.MatrixDiag(diagonal=raw.Fill(dims=shape[:-1], value=like(1.0, root)))
    one = raw.OnesLike(x=order)
    size = order * order
    outer = raw.ConcatV2(values=[shape[:-2], order, one, order, one], axis=0)
    inner = raw.ConcatV2(values=[shape[:-2], one, order, one, order], axis=0)

    def kronecker(left: Tensor, right: Tensor) -> Tensor:
        blocks = raw.Reshape(tensor=left, shape=outer) * raw.Reshape(tensor=right, shape=inner)
        return raw.Reshape(
            tensor=blocks, shape=raw.ConcatV2(values=[shape[:-2], size, size], axis=0)
        )

    system = kronecker(adjoint, identity) + kronecker(identity, matrix_transpose(adjoint))
    flat = raw.Reshape(tensor=grad, shape=raw.ConcatV2(values=[shape[:-2], size, one], axis=0))
    return raw.Reshape(tensor=raw.MatrixSolve(matrix=system, rhs=flat), shape=shape)
