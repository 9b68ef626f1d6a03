"""Define gradients of sparse matrices in CSR form.

The gradient of a sparse matrix has its elements: where it has none, none are computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.framework.types.dtypes import DType
from tfjit.ops import raw_ops as raw
from tfjit.ops.arrays.movement_functions import concat
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients


@RegisterGradient("DenseToCSRSparseMatrix")
def _from_dense(op: Operation, grad: Tensor) -> Gradients:
    return raw.CSRSparseMatrixToDense(sparse_input=grad, type=op.get_attr("T")), None


@RegisterGradient("CSRSparseMatrixToDense")
def _to_dense(op: Operation, grad: Tensor) -> Gradients:
    return _at_elements(op.inputs[0], grad, op.get_attr("type"))


@RegisterGradient("SparseTensorToCSRSparseMatrix")
def _from_sparse(op: Operation, grad: Tensor) -> Gradients:
    found = raw.CSRSparseMatrixToSparseTensor(sparse_matrix=grad, type=op.get_attr("T"))
    return None, found[1], None


@RegisterGradient("CSRSparseMatrixToSparseTensor")
def _to_sparse(op: Operation, _indices: object, grad: Tensor, _shape: object) -> Gradients:
    return raw.SparseTensorToCSRSparseMatrix(
        indices=op.outputs[0], values=grad, dense_shape=op.outputs[2]
    )


@RegisterGradient("SparseMatrixTranspose")
def _transpose(op: Operation, grad: Tensor) -> Gradients:
    return raw.SparseMatrixTranspose(
        input=grad, type=op.get_attr("type"), conjugate=op.get_attr("conjugate")
    )


def _at_elements(matrix: Tensor, dense: Tensor, dtype: DType) -> Tensor:
    """Return the elements of `dense` where a sparse matrix has some."""
    indices, _, shape = raw.CSRSparseMatrixToSparseTensor(sparse_matrix=matrix, type=dtype)
    values = raw.GatherNd(params=dense, indices=indices)
    return raw.SparseTensorToCSRSparseMatrix(indices=indices, values=values, dense_shape=shape)


def _conj(x: Tensor) -> Tensor:
    return raw.Conj(input=x) if x.dtype.is_complex else x


@RegisterGradient("SparseMatrixMatMul")
def _matmul(op: Operation, grad: Tensor) -> Gradients:
    """Return the gradients of C = A B.

    Those of A, at its elements, are G B^H, those of B A^H G.
    """
    a, b = op.inputs
    transposes_a = op.get_attr("transpose_a") or op.get_attr("adjoint_a")
    grad = _conj(grad) if op.get_attr("conjugate_output") else grad
    grad = _transposed(grad, conjugate=False) if op.get_attr("transpose_output") else grad
    right = b
    if op.get_attr("transpose_b") or op.get_attr("adjoint_b"):
        right = _transposed(b, conjugate=op.get_attr("adjoint_b"))
    indices, _, shape = raw.CSRSparseMatrixToSparseTensor(sparse_matrix=a, type=b.dtype)
    places = [indices[:, -2:-1], indices[:, -1:]]
    row, column = (concat([indices[:, :-2], place], 1) for place in places)
    row, column = (column, row) if transposes_a else (row, column)
    terms = raw.GatherNd(params=grad, indices=row) * _conj(
        raw.GatherNd(params=right, indices=column)
    )
    values = raw.Sum(input=terms, reduction_indices=convert_to_tensor(-1))
    values = _conj(values) if op.get_attr("adjoint_a") else values
    grad_a = raw.SparseTensorToCSRSparseMatrix(indices=indices, values=values, dense_shape=shape)
    if op.get_attr("transpose_a"):
        grad_b = _conj(raw.SparseMatrixMatMul(a=a, b=_conj(grad)))
    else:
        grad_b = raw.SparseMatrixMatMul(a=a, b=grad, adjoint_a=not transposes_a)
    if op.get_attr("transpose_b") or op.get_attr("adjoint_b"):
        grad_b = _transposed(grad_b, conjugate=op.get_attr("adjoint_b"))
    return grad_a, grad_b


@RegisterGradient("SparseMatrixSparseMatMul")
def _sparse_matmul(op: Operation, grad: Tensor) -> Gradients:
    """Return the gradients of the product of sparse matrices.

    They are dense products, read at the elements of A and B.
    """
    dtype = op.get_attr("type")
    sides = []
    for value, name in zip(op.inputs, "ab", strict=True):
        dense = raw.CSRSparseMatrixToDense(sparse_input=value, type=dtype)
        if op.get_attr(f"transpose_{name}") or op.get_attr(f"adjoint_{name}"):
            dense = _transposed(dense, conjugate=op.get_attr(f"adjoint_{name}"))
        sides.append(dense)
    left, right = sides
    by_right = raw.SparseMatrixMatMul(a=grad, b=right, adjoint_b=True)
    by_left = _transposed(raw.SparseMatrixMatMul(a=grad, b=left, adjoint_a=True), conjugate=True)
    found = []
    for value, name, dense in zip(op.inputs, "ab", (by_right, by_left), strict=True):
        if op.get_attr(f"transpose_{name}") or op.get_attr(f"adjoint_{name}"):
            dense = _transposed(dense, conjugate=op.get_attr(f"adjoint_{name}"))
        found.append(_at_elements(value, dense, dtype))
    return found


def _transposed(x: Tensor, *, conjugate: bool) -> Tensor:
    """Transpose matrices of a rank that only the run knows."""
    rank = raw.Rank(input=x)
    order = concat(
        [
            raw.Range(start=0, limit=rank - 2, delta=1),
            raw.Pack(values=[rank - 1, rank - 2]),
        ],
        0,
    )
    transposed = raw.Transpose(x=x, perm=order)
    return _conj(transposed) if conjugate else transposed
