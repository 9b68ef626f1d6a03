"""Sparse matrices in CSR form, or batches of them, as variants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tfjit.framework.types.dtypes import DType, as_dtype, short_name
from tfjit.framework.types.shape import format_shape
from tfjit.kernels.memory_limits import check_fits_in_memory
from tfjit.runtime.host.completion import Values
from tfjit.runtime.kernel_api.op_kernel import OpContext, runtime_kernel
from tfjit.runtime.op_kernels.containers.tensor_list_ops import seen
from tfjit.runtime.resources.tensor_arrays import invalid

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class _Csr:
    """One matrix.

    starts int32 [rows + 1] of the rows in columns int32 [n] and values [n].
    """

    starts: Array
    columns: Array
    values: Array

    @property
    def rows(self) -> Array:
        """Return the row of each element."""
        counts = np.diff(self.starts)
        return np.repeat(np.arange(len(counts), dtype=np.int64), counts)


class CsrMatrix:
    """A value: shape ([batch,] rows, columns) and the matrices of the batch."""

    __slots__ = ("dtype", "parts", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: DType, parts: Sequence[_Csr]) -> None:
        self.shape, self.dtype, self.parts = shape, dtype, tuple(parts)


def _matrix(value: object, dtype: DType | None = None, text: str = "") -> CsrMatrix:
    """Return the matrix of a variant.

    Raises InvalidArgumentError for other variants and dtypes.
    """
    if not isinstance(value, CsrMatrix):
        raise invalid(f"Input is not a CSRSparseMatrix. Saw: '{seen(value)}'")
    if dtype is not None and value.dtype != as_dtype(dtype):
        found, wanted = short_name(value.dtype), short_name(as_dtype(dtype))
        raise invalid(text.format(found=found, wanted=wanted))
    return value


def _of_triples(rows: Array, columns: Array, values: Array, count: int) -> _Csr:
    """Return a matrix of elements in the order of their rows."""
    check_fits_in_memory((count + 1,), np.dtype(np.int64))
    starts = np.searchsorted(rows, np.arange(count + 1)).astype(np.int32)
    return _Csr(starts, columns.astype(np.int32), values)


def _of_elements(indices: Array, values: Array, shape: tuple[int, ...]) -> CsrMatrix:
    """Return the matrix of elements.

    indices int64 [n, rank], sorted by batch and row.
    """
    dtype = as_dtype(values.dtype)
    if len(shape) == 2:
        return CsrMatrix(
            shape, dtype, [_of_triples(indices[:, 0], indices[:, 1], values, shape[0])]
        )
    check_fits_in_memory((shape[0] + 1, shape[1] + 1), np.dtype(np.int64))
    ends = np.searchsorted(indices[:, 0], np.arange(shape[0] + 1))
    return CsrMatrix(
        shape,
        dtype,
        [
            _of_triples(indices[a:b, 1], indices[a:b, 2], values[a:b], shape[1])
            for a, b in pairwise(ends.tolist())
        ],
    )


def _check_indices(indices: Array, shape: tuple[int, ...], text: str) -> None:
    """Raise InvalidArgumentError for indices outside of the shape, or out of order.

    text: of the error, with `at` and `place`. TensorFlow gives elements out of order to other rows.
    """
    outside = ((indices < 0) | (indices >= np.array(shape, np.int64))).any(1)
    if outside.any():
        at = int(np.argmax(outside))
        raise invalid(text.format(at=at, place=indices[at].tolist()))
    leading = indices[:, :-1]
    steps = leading[1:] - leading[:-1]
    if steps.size:
        first = np.argmax(steps != 0, axis=1)[:, None]
        falls = np.take_along_axis(steps, first, 1)[:, 0] < 0
        if falls.any():
            at = int(np.argmax(falls)) + 1
            raise invalid(
                f"indices[{at}] = {format_shape(tuple(indices[at].tolist()))} is out of order. "
                "Many sparse ops require sorted indices."
            )


@runtime_kernel("DenseToCSRSparseMatrix")
def dense_to_csr(ctx: OpContext, inputs: Values) -> Values:
    """Return the matrix of some elements of an array.

    dense_input, indices int64 [n, rank] of the elements -> the matrix.
    """
    dense, indices = (np.asarray(value) for value in inputs)
    if dense.ndim not in (2, 3):
        raise invalid(
            f"dense must have rank 2 or 3; but dense.shape is: {format_shape(dense.shape)}"
        )
    if indices.ndim != 2:
        raise invalid(
            f"indices must be a matrix; but indices.shape is: {format_shape(indices.shape)}"
        )
    if indices.shape[1] != dense.ndim:
        raise invalid(
            "indices.shape[1] must be equal to the rank of dense, but saw: "
            f"{indices.shape[1]} vs. {dense.ndim}"
        )
    text = (
        f"indices[{{at}}] = {{place}} does not index into param shape {format_shape(dense.shape)}, "
        f"node name: {ctx.name}"
    )
    _check_indices(indices, dense.shape, text)
    return (_of_elements(indices, dense[tuple(indices.T)], dense.shape),)


@runtime_kernel("SparseTensorToCSRSparseMatrix")
def sparse_tensor_to_csr(ctx: OpContext, inputs: Values) -> Values:
    """Return the matrix of a sparse tensor.

    The tensor has rank 2 or 3, and is sorted by batch and row.
    """
    indices, values, sizes = (np.asarray(value) for value in inputs)
    if sizes.ndim != 1:
        raise invalid(f"dense_shape must be rank 1, but saw shape: {format_shape(sizes.shape)}")
    rank = len(sizes)
    if rank not in (2, 3):
        raise invalid(f"SparseTensor must have rank 2 or 3; but indices has rank: {rank}")
    if indices.ndim != 2 or indices.shape[1] != rank:
        raise invalid(
            f"indices must have {rank} columns, but have shape {format_shape(indices.shape)}"
        )
    if values.shape != indices.shape[:1]:
        raise invalid(
            f"indices and values rows (indexing dimension) must match. (indices = {len(indices)}, "
            f"values = {len(values) if values.ndim else 0})"
        )
    if (sizes < 0).any():
        raise invalid(f"dense_shape must not be negative: {sizes.tolist()}")
    shape = tuple(sizes.tolist())
    _check_indices(indices, shape, "Sparse index tuple indices[{at}, :] = {place} is out of bounds")
    return (_of_elements(indices, values.copy(), shape),)


@runtime_kernel("CSRSparseMatrixToDense")
def csr_to_dense(ctx: OpContext, inputs: Values) -> Values:
    """Return the matrix as an array.

    Elements at one place are added.
    """
    text = "Asked for a CSRSparseMatrix of type {wanted} but saw dtype: {found}"
    matrix = _matrix(inputs[0], ctx.attrs["type"], text)
    check_fits_in_memory(matrix.shape, np.dtype(matrix.dtype.as_numpy_dtype))
    out = np.zeros(matrix.shape, matrix.dtype.as_numpy_dtype)
    for target, part in zip(
        out.reshape(len(matrix.parts), *matrix.shape[-2:]), matrix.parts, strict=True
    ):
        np.add.at(target, (part.rows, part.columns), part.values)
    return (out,)


@runtime_kernel("CSRSparseMatrixToSparseTensor")
def csr_to_sparse_tensor(ctx: OpContext, inputs: Values) -> Values:
    """Return indices int64 [n, rank], values [n], dense_shape int64 [rank]."""
    text = "Asked for a CSRSparseMatrix of type {wanted} but saw dtype: {found}"
    matrix = _matrix(inputs[0], ctx.attrs["type"], text)
    places = [np.stack([part.rows, part.columns.astype(np.int64)], 1) for part in matrix.parts]
    if len(matrix.shape) == 3:
        places = [np.insert(place, 0, i, axis=1) for i, place in enumerate(places)]
    rank = len(matrix.shape)
    kind = matrix.dtype.as_numpy_dtype
    return (
        np.concatenate([np.zeros((0, rank), np.int64), *places]),
        np.concatenate([np.zeros(0, kind), *(part.values for part in matrix.parts)]),
        np.array(matrix.shape, np.int64),
    )


@runtime_kernel("CSRSparseMatrixComponents")
def csr_components(ctx: OpContext, inputs: Values) -> Values:
    """Return row_ptrs, col_inds and values of one matrix."""
    text = "dtype of csr_sparse_matrix is not equal to 'type': {found} vs. {wanted}"
    matrix = _matrix(inputs[0], ctx.attrs["type"], text)
    index = np.asarray(inputs[1])
    if index.ndim:
        raise invalid(f"index should be a scalar, but saw: {format_shape(index.shape)}")
    if not 0 <= index < len(matrix.parts):
        raise invalid(f"index ({int(index)}) not in [0, {len(matrix.parts)})")
    part = matrix.parts[int(index)]
    return part.starts, part.columns, part.values


@runtime_kernel("SparseMatrixNNZ")
def nnz(ctx: OpContext, inputs: Values) -> Values:
    """Return the number of stored elements, int32 [] or [batch]."""
    matrix = _matrix(inputs[0])
    counts = np.array([len(part.values) for part in matrix.parts], np.int32)
    return (counts.reshape(matrix.shape[:-2]),)


def _transposed(part: _Csr, columns: int, *, conjugate: bool) -> _Csr:
    order = np.argsort(part.columns, kind="stable")
    values = part.values[order]
    return _of_triples(
        part.columns[order].astype(np.int64),
        part.rows[order],
        np.conj(values) if conjugate else values,
        columns,
    )


def _transpose(matrix: CsrMatrix, *, conjugate: bool) -> CsrMatrix:
    *batch, rows, columns = matrix.shape
    parts = [_transposed(part, columns, conjugate=conjugate) for part in matrix.parts]
    return CsrMatrix((*batch, columns, rows), matrix.dtype, parts)


@runtime_kernel("SparseMatrixTranspose")
def transpose(ctx: OpContext, inputs: Values) -> Values:
    """Exchange rows and columns, conjugating the elements where the attr says so."""
    text = "dtype of input is not equal to 'type': {found} vs. {wanted}"
    matrix = _matrix(inputs[0], ctx.attrs["type"], text)
    return (_transpose(matrix, conjugate=bool(ctx.attrs["conjugate"])),)


@runtime_kernel("SparseMatrixMatMul")
def matmul(ctx: OpContext, inputs: Values) -> Values:
    """Multiply by a dense matrix or a batch of them."""
    a = ctx.attrs
    left, right = _matrix(inputs[0]), np.asarray(inputs[1])
    if left.dtype != as_dtype(right.dtype):
        raise invalid(
            f"Input types don't match.  a.dtype == {short_name(left.dtype)} vs. b.dtype == "
            f"{short_name(as_dtype(right.dtype))}"
        )
    if len(left.shape) != right.ndim:
        raise invalid(f"Ranks of a and b must match, saw: {len(left.shape)} vs. {right.ndim}.")
    if right.ndim == 3 and left.shape[0] != right.shape[0]:
        raise invalid(
            f"Batch sizes of a and b must match, saw: {left.shape[0]} vs. {right.shape[0]}."
        )
    if a["transpose_a"] or a["adjoint_a"]:
        left = _transpose(left, conjugate=bool(a["adjoint_a"]))
    if a["transpose_b"] or a["adjoint_b"]:
        right = np.swapaxes(right, -1, -2)
        right = np.conj(right) if a["adjoint_b"] else right
    if left.shape[-1] != right.shape[-2]:
        raise invalid(
            "Inner product dimensions of A and B do not agree. Shapes are: "
            f"{format_shape(left.shape)} vs. {format_shape(right.shape)}"
        )
    sizes = (len(left.parts), left.shape[-2], right.shape[-1])
    check_fits_in_memory(sizes, right.dtype)
    out = np.zeros(sizes, right.dtype)
    with np.errstate(all="ignore"):
        for target, part, dense in zip(
            out, left.parts, right.reshape(-1, *right.shape[-2:]), strict=True
        ):
            _add_product(target, part, dense)
    out = np.conj(out) if a["conjugate_output"] else out
    out = np.swapaxes(out, -1, -2) if a["transpose_output"] else out
    return (np.ascontiguousarray(out.reshape(*left.shape[:-2], *out.shape[-2:])),)


def _add_product(target: Array, part: _Csr, dense: Array) -> None:
    """Write a product with a dense matrix to `target`, which is zero."""
    filled = np.flatnonzero(np.diff(part.starts))
    if len(filled):
        terms = part.values[:, None] * dense[part.columns]
        target[filled] = np.add.reduceat(terms, part.starts[filled], axis=0)


@runtime_kernel("SparseMatrixSparseMatMul")
def sparse_matmul(ctx: OpContext, inputs: Values) -> Values:
    """Multiply sparse matrices; elements that cancel out stay as zeros."""
    a = ctx.attrs
    sides = []
    for value, name in zip(inputs, "ab", strict=True):
        text = f"dtype of {name} is not equal to 'type': {{found}} vs. {{wanted}}"
        side = _matrix(value, a["type"], text)
        if a[f"transpose_{name}"] or a[f"adjoint_{name}"]:
            side = _transpose(side, conjugate=bool(a[f"adjoint_{name}"]))
        sides.append(side)
    left, right = sides
    if len(left.shape) != len(right.shape):
        raise invalid(
            f"Ranks of a and b must match, saw: {len(left.shape)} vs. {len(right.shape)}."
        )
    if len(left.parts) != len(right.parts):
        raise invalid(
            f"Batch sizes of a and b must match, saw: {len(left.parts)} vs. {len(right.parts)}."
        )
    if left.shape[-1] != right.shape[-2]:
        raise invalid(
            "Inner product dimensions of A and B do not agree.  Shapes are: "
            f"{format_shape(left.shape)} vs. {format_shape(right.shape)}"
        )
    columns = right.shape[-1]
    with np.errstate(all="ignore"):
        parts = [
            _sparse_product(x, y, columns) for x, y in zip(left.parts, right.parts, strict=True)
        ]
    return (CsrMatrix((*left.shape[:-1], columns), left.dtype, parts),)


def _sparse_product(left: _Csr, right: _Csr, columns: int) -> _Csr:
    """Multiply two matrices: every pair of elements that meet, summed by place."""
    counts = np.diff(right.starts)[left.columns]
    pair = np.repeat(np.arange(len(counts)), counts)
    within = np.arange(len(pair)) - np.repeat(np.cumsum(counts) - counts, counts)
    other = right.starts[left.columns[pair]] + within
    places = left.rows[pair] * columns + right.columns[other]
    found, index = np.unique(places, return_inverse=True)
    values = np.zeros(len(found), left.values.dtype)
    np.add.at(values, index.reshape(-1), left.values[pair] * right.values[other])
    rows, at = np.divmod(found, max(columns, 1))
    return _of_triples(rows, at, values, len(left.starts) - 1)
