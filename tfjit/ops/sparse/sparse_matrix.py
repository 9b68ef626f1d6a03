"""Declare sparse matrices in CSR form."""

from __future__ import annotations

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes, fail, scalar, unknown


def _vectors(c: ShapeContext) -> Shapes:
    c.with_rank(1, 0)
    return [(None,)] * 3


def _sparse(c: ShapeContext) -> Shapes:
    return [(None, None), (None,), (None,)]


def _from_dense(c: ShapeContext) -> Shapes:
    rank = c.rank(c.inputs[0])
    if rank not in (None, 2, 3):
        raise fail(f"Invalid rank of dense: {rank}.  Expected a known rank of either 2 or 3.")
    return [()]


def _from_sparse(c: ShapeContext) -> Shapes:
    shape = c.constant_as_shape(2)
    rank = c.rank(shape)
    if rank is None:
        rank = c.dim(c.inputs[2], 0)
    if rank not in (None, 2, 3):
        raise fail(f"Invalid rank: {rank}.  Expected a known rank of either 2 or 3.")
    return [()]


def _product(c: ShapeContext) -> Shapes:
    for side in "ab":
        if c.attr(f"adjoint_{side}") and c.attr(f"transpose_{side}"):
            raise fail(f"Only one of adjoint_{side} and transpose_{side} may be true.")
    return [None]


register_op(
    "CSRSparseMatrixComponents",
    inputs=("csr_sparse_matrix: variant", "index: int32"),
    outputs=("row_ptrs: int32", "col_inds: int32", "values: type"),
    attrs=("type: {float, double, complex64, complex128}",),
    shape=_vectors,
)
register_op(
    "CSRSparseMatrixToDense",
    inputs=("sparse_input: variant",),
    outputs=("dense_output: type",),
    attrs=("type: {float, double, complex64, complex128}",),
    shape=unknown,
)
register_op(
    "CSRSparseMatrixToSparseTensor",
    inputs=("sparse_matrix: variant",),
    outputs=("indices: int64", "values: type", "dense_shape: int64"),
    attrs=("type: {float, double, complex64, complex128}",),
    shape=_sparse,
)
register_op(
    "DenseToCSRSparseMatrix",
    inputs=("dense_input: T", "indices: int64"),
    outputs=("sparse_output: variant",),
    attrs=("T: {float, double, complex64, complex128}",),
    shape=_from_dense,
)
register_op(
    "SparseMatrixAdd",
    inputs=("a: variant", "b: variant", "alpha: T", "beta: T"),
    outputs=("c: variant",),
    attrs=("T: {float, double, complex64, complex128}",),
)
register_op(
    "SparseMatrixMatMul",
    inputs=("a: variant", "b: T"),
    outputs=("output: T",),
    attrs=(
        "T: type",
        "transpose_a: bool = false",
        "transpose_b: bool = false",
        "adjoint_a: bool = false",
        "adjoint_b: bool = false",
        "transpose_output: bool = false",
        "conjugate_output: bool = false",
    ),
    shape=_product,
)
register_op(
    "SparseMatrixMul",
    inputs=("a: variant", "b: T"),
    outputs=("output: variant",),
    attrs=("T: type",),
)
register_op("SparseMatrixNNZ", inputs=("sparse_matrix: variant",), outputs=("nnz: int32",))
register_op("SparseMatrixOrderingAMD", inputs=("input: variant",), outputs=("output: int32",))
register_op(
    "SparseMatrixSoftmax",
    inputs=("logits: variant",),
    outputs=("softmax: variant",),
    attrs=("type: {float, double}",),
    shape=unknown,
)
register_op(
    "SparseMatrixSoftmaxGrad",
    inputs=("softmax: variant", "grad_softmax: variant"),
    outputs=("gradient: variant",),
    attrs=("type: {float, double}",),
)
register_op(
    "SparseMatrixSparseCholesky",
    inputs=("input: variant", "permutation: int32"),
    outputs=("output: variant",),
    attrs=("type: {float, double, complex64, complex128}",),
)
register_op(
    "SparseMatrixSparseMatMul",
    inputs=("a: variant", "b: variant"),
    outputs=("c: variant",),
    attrs=(
        "type: {float, double, complex64, complex128}",
        "transpose_a: bool = false",
        "transpose_b: bool = false",
        "adjoint_a: bool = false",
        "adjoint_b: bool = false",
    ),
    shape=scalar,
)
register_op(
    "SparseMatrixTranspose",
    inputs=("input: variant",),
    outputs=("output: variant",),
    attrs=("conjugate: bool = false", "type: {float, double, complex64, complex128}"),
    shape=scalar,
)
register_op(
    "SparseMatrixZeros",
    inputs=("dense_shape: int64",),
    outputs=("sparse_matrix: variant",),
    attrs=("type: {float, double, complex64, complex128}",),
)
register_op(
    "SparseTensorToCSRSparseMatrix",
    inputs=("indices: int64", "values: T", "dense_shape: int64"),
    outputs=("sparse_matrix: variant",),
    attrs=("T: {float, double, complex64, complex128}",),
    shape=_from_sparse,
)
