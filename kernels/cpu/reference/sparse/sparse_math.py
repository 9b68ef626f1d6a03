"""Compute arithmetic of sparse tensors in NumPy.

Sums, products with dense tensors, reductions, softmax.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tfjit.framework.types.shape import format_shape
from tfjit.kernels.cpu.reference.rows import (
    outside,
    row_keys,
    run_starts,
    stable_order,
    update_rows,
)
from tfjit.kernels.cpu.reference.sparse.sparse import (
    check_bounds,
    check_lengths,
    check_sparse,
    listed,
    ordered,
    refused,
)
from tfjit.kernels.executor.blas_threads import on_free_cores
from tfjit.kernels.registry import NodeSpec, reference

Arrays = Sequence[Any]

_BLOCK: Final = 1 << 14
"""Elements of a sparse product that are multiplied at a time.

They stay in the cache.
"""


# sparse with dense


@reference("SparseTensorDenseMatMul")
def _sparse_dense_matmul(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Multiply a sparse and a dense matrix; either may be taken adjoint."""
    indices, values, shape, dense = (np.asarray(v) for v in inputs)
    left_adjoint, right_adjoint = node.attrs["adjoint_a"], node.attrs["adjoint_b"]
    if dense.ndim != 2:
        raise refused("Tensor 'b' is not a matrix")
    if shape.ndim != 1:
        raise refused("Tensor 'a_shape' is not a vector")
    if shape.size != 2:
        raise refused("Tensor 'a_shape' must have 2 elements")
    if values.ndim != 1:
        raise refused("Tensor 'a_values' is not a vector")
    if indices.ndim != 2:
        raise refused("Tensor 'a_indices' is not a matrix")
    if len(indices) != len(values):
        raise refused("Number of rows of a_indices does not match number of entries in a_values")
    if indices.shape[1] != shape.size:
        raise refused("Number of columns of a_indices does not match number of entries in a_shape")
    row, column = (1, 0) if left_adjoint else (0, 1)
    rows, inner = int(shape[row]), int(shape[column])
    right = np.ascontiguousarray(dense.conj().T) if right_adjoint else dense
    if inner != right.shape[0]:
        raise refused(
            f"Cannot multiply A and B because inner dimension does not match: {inner} vs. "
            f"{right.shape[0]}.  Did you forget a transpose?  "
            f"Dimensions of A: [{rows}, {inner}).  Dimensions of B: {format_shape(dense.shape)}"
        )
    wrong = outside(indices, shape.tolist())
    if wrong.any():
        i = int(wrong.argmax())
        k_wrong = not 0 <= indices[i, column] < inner
        letter, place, size = ("k", column, inner) if k_wrong else ("m", row, rows)
        raise refused(
            f"{letter} ({indices[i, place]}) from index[{i},{place}] out of bounds (>={size})"
        )
    wide = (
        np.float32 if values.dtype.itemsize == 2 and values.dtype.kind not in "iu" else values.dtype
    )
    out = np.zeros((rows, right.shape[1]), wide)
    scale = (values.conj() if left_adjoint else values).astype(wide, copy=False)
    targets, sources = indices[:, row], indices[:, column]
    step = max(1, _BLOCK // max(right.shape[1], 1))
    for first in range(0, len(values), step):
        part = slice(first, first + step)
        products = right[sources[part]].astype(wide, copy=False)
        products *= scale[part, None]
        update_rows(np.add, out, targets[part], products)
    return (out.astype(values.dtype, copy=False),)


@reference("SparseTensorDenseAdd")
def _sparse_dense_add(node: NodeSpec, inputs: Arrays) -> Arrays:
    indices, values, shape, dense = (np.asarray(v) for v in inputs)
    if indices.ndim != 2:
        raise refused(
            f"Input a_indices should be a matrix but received shape: {format_shape(indices.shape)}"
        )
    if values.ndim != 1 or shape.ndim != 1:
        shown = f"{format_shape(values.shape)} and {format_shape(shape.shape)}"
        raise refused(f"Inputs a_values and a_shape should be vectors but received shapes: {shown}")
    if len(indices) != len(values):
        raise refused(f"Dimensions {len(values)} and {len(indices)} are not compatible")
    if shape.size != dense.ndim:
        raise refused(f"Two operands have different ranks; received: {shape.size} and {dense.ndim}")
    if indices.shape[1] != shape.size:
        raise refused(f"Dimensions {indices.shape[1]} and {shape.size} are not compatible")
    for d, size in enumerate(shape.tolist()):
        if size != dense.shape[d]:
            raise refused(
                f"Dimension {d} does not equal (no broadcasting is supported): sparse side {size} "
                f"vs dense side {dense.shape[d]}"
            )
    if outside(indices, shape.tolist()).any():
        raise refused(
            "Sparse tensor has some invalid index on dimension: indices must lie inside the dense "
            "shape"
        )
    out = dense.copy(order="C")
    places = np.zeros(len(indices), np.intp)
    for column, size in zip(indices.T, dense.shape, strict=True):
        places = places * size + column
    update_rows(np.add, out.reshape(-1), places, values)
    return (out,)


def _quotient(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if x.dtype.kind not in "iu":
        return x / y
    if not y.all():
        raise refused("Integer division by zero")
    exact = np.abs(x.astype(object)) // np.abs(y.astype(object))  # towards zero, as C has it
    return np.where((x < 0) != (y < 0), -exact, exact).astype(x.dtype)


_CWISE: Final[dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]]] = {
    "SparseDenseCwiseAdd": lambda x, y: x + y,
    "SparseDenseCwiseMul": lambda x, y: x * y,
    "SparseDenseCwiseDiv": _quotient,
}


@reference("SparseDenseCwiseAdd", "SparseDenseCwiseMul", "SparseDenseCwiseDiv")
def _cwise(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Combine each value with the dense element at its place.

    The dense tensor is broadcast.
    """
    indices, values, shape, dense = (np.asarray(v) for v in inputs)
    if indices.ndim != 2:
        raise refused(
            f"Input sp_indices should be a matrix but received shape: {format_shape(indices.shape)}"
        )
    if values.ndim != 1 or shape.ndim != 1:
        shown = f"{format_shape(values.shape)} and {format_shape(shape.shape)}"
        raise refused(
            f"Inputs sp_values and sp_shape should be vectors but received shapes: {shown}"
        )
    if not shape.size:
        raise refused(f"Input sp_shape should not be empty: {format_shape(shape.shape)}")
    if len(indices) != len(values):
        raise refused(
            f"The first dimension of values and indices should match. ({len(values)} vs. "
            f"{len(indices)})"
        )
    if indices.shape[1] != shape.size:
        raise refused(
            "The number of dimensions of the sparse shape should match that of the indices: "
            f"{shape.size} vs. {indices.shape[1]}"
        )
    sizes = shape.tolist()
    tail = sizes[len(sizes) - dense.ndim :] if dense.ndim <= len(sizes) else None
    if tail is None or any(d not in (1, size) for d, size in zip(dense.shape, tail, strict=True)):
        raise refused(
            "SparseDenseBinaryOpShared broadcasts dense to sparse only; got incompatible shapes: "
            f"{listed(sizes)} vs. {format_shape(dense.shape)}"
        )
    if outside(indices, sizes).any():
        raise refused("Provided indices are out-of-bounds w.r.t. dense side with broadcasted shape")
    return (
        _CWISE[node.op](values, np.broadcast_to(dense, sizes)[tuple(indices.T)]).astype(
            values.dtype, copy=False
        ),
    )


# sparse with sparse


def _union(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Merge the rows of a and b.

    Returns for each row of the result its number in a and in b, -1 for a row that is missing there.

    Rows are taken in the order in which two sorted lists merge; unsorted rows are merged in the
    same way.
    """
    keys = row_keys(np.concatenate([a, b]))
    if keys is not None and a.shape[1]:
        ascending = np.diff(keys) > 0
        ascending[len(a) - 1 : len(a)] = True  # the step from the last row of a to the first of b
        if ascending.all():
            order = stable_order(keys)
            starts = run_starts([keys[order]], len(keys))
            number = np.empty(len(keys), np.int64)
            number[order] = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(keys))))
            from_a, from_b = np.full(len(starts), -1), np.full(len(starts), -1)
            from_a[number[: len(a)]] = np.arange(len(a))
            from_b[number[len(a) :]] = np.arange(len(b))
            return from_a, from_b
    rows_a, rows_b = a.tolist(), b.tolist()
    i = j = 0
    pairs = []
    while i < len(rows_a) and j < len(rows_b):
        x, y = rows_a[i], rows_b[j]
        pairs.append((i if x <= y else -1, j if y <= x else -1))
        i, j = i + (x <= y), j + (y <= x)
    pairs += [(k, -1) for k in range(i, len(rows_a))] + [(-1, k) for k in range(j, len(rows_b))]
    found = np.array(pairs, np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _picked(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the values of rows, 0 for row -1."""
    out = np.zeros(len(rows), values.dtype)
    out[rows >= 0] = values[rows[rows >= 0]]
    return out


def _union_indices(
    a: np.ndarray, b: np.ndarray, from_a: np.ndarray, from_b: np.ndarray
) -> np.ndarray:
    out = np.empty((len(from_a), a.shape[1]), np.int64)
    out[from_b >= 0] = b[from_b[from_b >= 0]]
    out[from_a >= 0] = a[from_a[from_a >= 0]]
    return out


@reference("SparseAdd")
def _sparse_add(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Add sparse tensors.

    Values that are present in both are left out of the result if their sum is smaller than the
    threshold.
    """
    a, a_values, a_shape, b, b_values, b_shape, threshold = (np.asarray(v) for v in inputs)
    if a.ndim != 2 or b.ndim != 2:
        raise refused(
            f"Input indices should be matrices but received shapes: {format_shape(a.shape)} and "
            f"{format_shape(b.shape)}"
        )
    if a_values.ndim != 1 or b_values.ndim != 1:
        shown = f"{format_shape(a_values.shape)} and {format_shape(b_values.shape)}"
        raise refused(f"Input values should be vectors but received shapes: {shown}")
    if a_values.size != len(a) or b_values.size != len(b):
        raise refused(
            f"Expected {len(a)} and {len(b)} non-empty input values, got {a_values.size} and "
            f"{b_values.size}"
        )
    if a_shape.ndim != 1 or b_shape.ndim != 1:
        shown = f"{format_shape(a_shape.shape)} and {format_shape(b_shape.shape)}"
        raise refused(f"Input shapes should be a vector but received shapes {shown}")
    if a_shape.size != b_shape.size:
        shown = " and ".join(" ".join(map(str, shape.tolist())) for shape in (a_shape, b_shape))
        raise refused(f"Operands do not have the same ranks; got shapes: {shown}")
    for d, (x, y) in enumerate(zip(a_shape.tolist(), b_shape.tolist(), strict=True)):
        if x != y:
            raise refused(f"Operands' shapes do not match: got {x} and {y} for dimension {d}")
    if threshold.ndim:
        raise refused(
            f"The magnitude threshold must be a scalar: got shape {format_shape(threshold.shape)}"
        )
    if not a_shape.size:
        raise refused(f"Input shapes cannot be empty: got {format_shape(a_shape.shape)}")
    for indices in (a, b):
        if indices.shape[1] != a_shape.size:
            raise refused(
                f"Sparse indices have {indices.shape[1]} columns, but the shape has rank "
                f"{a_shape.size}"
            )
    from_a, from_b = _union(a, b)
    both = (from_a >= 0) & (from_b >= 0)
    total = _picked(a_values, from_a)
    total[from_b >= 0] += b_values[from_b[from_b >= 0]]
    kept = ~both | (np.abs(total) >= threshold)
    return _union_indices(a, b, from_a, from_b)[kept], total[kept], a_shape.copy()


@reference("SparseAddGrad")
def _sparse_add_grad(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Return the gradient of each value of both terms.

    Values that are not in the sum have zero.
    """
    gradient, a, b, total = (np.asarray(v) for v in inputs)
    if a.ndim != 2 or b.ndim != 2 or total.ndim != 2:
        shown = " and ".join(format_shape(v.shape) for v in (a, b, total))
        raise refused(f"Input indices should be matrices but received shapes: {shown}")
    if gradient.ndim != 1:
        raise refused(
            "Input backprop_val_grad should be a vector but received shape: "
            f"{format_shape(gradient.shape)}"
        )
    if not a.shape[1] == b.shape[1] == total.shape[1]:
        raise refused(
            "The densified operands should have the same ndims; for A, B, sum got: "
            f"{a.shape[1]}{b.shape[1]}{total.shape[1]}"
        )
    if gradient.size != len(total):
        raise refused(
            "# elements of backprop_val_grad and # rows of sum_indices should match (#nnz of "
            f"sum): got {gradient.size} and {len(total)}"
        )
    keys = row_keys(np.concatenate([total, a, b]))
    if keys is not None and len(total):
        known, of_a, of_b = np.split(keys, np.cumsum([len(total), len(a)]))
        order = stable_order(known)
        ordered_keys = known[order]

        def of(wanted: np.ndarray) -> np.ndarray:
            # of equal rows of the sum the last one counts
            at = np.searchsorted(ordered_keys, wanted, "right") - 1
            return _picked(gradient, np.where(ordered_keys[at] == wanted, order[at], -1))

        return of(of_a), of(of_b)
    place = {tuple(row): k for k, row in enumerate(total.tolist())}
    return tuple(
        _picked(gradient, np.array([place.get(tuple(row), -1) for row in rows.tolist()], np.int64))
        for rows in (a, b)
    )


@reference("SparseSparseMaximum", "SparseSparseMinimum")
def _extremes(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute the elementwise extreme; coordinates missing in one tensor are zero."""
    a, a_values, a_shape, b, b_values, b_shape = (np.asarray(v) for v in inputs)
    for indices, values, shape in ((a, a_values, a_shape), (b, b_values, b_shape)):
        check_sparse(indices, values, shape)
        check_bounds(indices, shape)
    if a_shape.size != b_shape.size:
        shown = " and ".join(
            f"[{','.join(map(str, shape.tolist()))}]" for shape in (a_shape, b_shape)
        )
        raise refused(f"Operands do not have the same ranks; got shapes: {shown}")
    for d, (x, y) in enumerate(zip(a_shape.tolist(), b_shape.tolist(), strict=True)):
        if x != y:
            raise refused(f"Operands' shapes do not match: got {x} and {y} for dimension {d}")
    from_a, from_b = _union(a, b)
    choose = np.maximum if node.op == "SparseSparseMaximum" else np.minimum
    return _union_indices(a, b, from_a, from_b), choose(
        _picked(a_values, from_a), _picked(b_values, from_b)
    )


@reference("SparseMatMul")
@on_free_cores
def _sparse_matmul(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Multiply two dense matrices that are mostly zeros."""
    a, b = (np.asarray(v).astype(np.float32) for v in inputs)
    for letter, value in (("a", a), ("b", b)):
        if value.ndim != 2:
            raise refused(f"{letter} is not a matrix")
    a = a.T if node.attrs["transpose_a"] else a
    b = b.T if node.attrs["transpose_b"] else b
    if a.shape[1] != b.shape[0]:
        raise refused(
            f"Matrix size incompatible: a: {format_shape(np.shape(inputs[0]))}, b: "
            f"{format_shape(np.shape(inputs[1]))}"
        )
    return (a @ b,)


# reductions


def _reduced(node: NodeSpec, inputs: Arrays) -> tuple[np.ndarray, np.ndarray, list[int], list[int]]:
    """Reduce values by groups along the axes that stay.

    Returns the sorted indices of the groups, their values, the axes that stay, and the reduced
    axes.
    """
    indices, values, shape, axes = (np.asarray(v) for v in inputs)
    if shape.ndim != 1:
        raise refused(
            f"Expected input_shape to be a vector; got shape: {format_shape(shape.shape)}"
        )
    if axes.ndim > 1:
        raise refused(
            "Expected reduction_axes to be a scalar or a vector; got shape: "
            f"{format_shape(axes.shape)}"
        )
    if indices.ndim < 1 or values.ndim < 1 or len(indices) != len(values):
        check_lengths(indices, values)
    if indices.ndim != 2:
        raise refused(f"indices must be a matrix, got shape {format_shape(indices.shape)}")
    rank = shape.size
    for axis in axes.reshape(-1).tolist():
        if not -rank <= axis < rank:
            raise refused(f"Invalid reduction dimension {axis}, for input with {rank} dimensions.")
    if indices.shape[1] != rank:
        raise refused("Order length must be SparseTensor rank.")
    gone = sorted({axis % rank for axis in axes.reshape(-1).tolist()})
    stay = [d for d in range(rank) if d not in gone]
    kept, by_kept = indices[:, stay], ordered(indices[:, stay + gone])
    kept, sorted_values = kept[by_kept], values[by_kept]
    if not len(kept):
        return kept, sorted_values, stay, gone
    starts = run_starts(list(kept.T), len(kept))
    combine = np.maximum if "Max" in node.op else np.add
    if values.dtype.kind not in "iufc" or (values.dtype.itemsize == 2 and values.dtype.kind == "f"):
        wide = combine.reduceat(sorted_values.astype(np.float32), starts)
        return kept[starts], wide.astype(values.dtype), stay, gone
    return (
        kept[starts],
        combine.reduceat(sorted_values, starts).astype(values.dtype, copy=False),
        stay,
        gone,
    )


@reference("SparseReduceSum", "SparseReduceMax")
def _reduce(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Reduce to a dense tensor.

    Elements without a value are zero, for the maximum too.
    """
    groups, values, stay, gone = _reduced(node, inputs)
    shape = np.asarray(inputs[2])
    sizes = [int(shape[d]) for d in stay]
    out = np.zeros(sizes, values.dtype)
    wrong = outside(groups, sizes)
    if wrong.any():
        row, place = groups[int(wrong.argmax())].tolist(), 0
        for index, size in zip(row, sizes, strict=True):
            place = place * size + index
        raise refused(
            f"Obtained a write index of {place} which is outside of bounds of [0, {out.size})"
        )
    out[tuple(groups.T)] = values if stay else values[0] if values.size else 0
    if node.attrs["keep_dims"]:
        out = out.reshape([1 if d in gone else int(size) for d, size in enumerate(shape)])
    return (out,)


@reference("SparseReduceSumSparse", "SparseReduceMaxSparse")
def _reduce_to_sparse(node: NodeSpec, inputs: Arrays) -> Arrays:
    groups, values, stay, gone = _reduced(node, inputs)
    shape = np.asarray(inputs[2])
    if not node.attrs["keep_dims"]:
        return groups, values, shape[stay]
    indices = np.zeros((len(groups), shape.size), np.int64)
    indices[:, stay] = groups
    kept = shape.copy()
    kept[gone] = 1
    return indices, values, kept


@reference("SparseSoftmax")
def _sparse_softmax(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute softmax of the values of each row along the last dimension.

    Missing elements do not count.
    """
    indices, values, shape = (np.asarray(v) for v in inputs)
    if indices.ndim != 2:
        raise refused(
            f"Input sp_indices should be a matrix but received shape: {format_shape(indices.shape)}"
        )
    if values.ndim != 1 or shape.ndim != 1:
        shown = f"{format_shape(values.shape)} and {format_shape(shape.shape)}"
        raise refused(
            f"Inputs sp_values and sp_shape should be vectors but received shapes: {shown}"
        )
    if shape.size < 2:
        raise refused(
            f"Input should have rank >= 2, but received shape: {' '.join(map(str, shape.tolist()))}"
        )
    if len(indices) != values.size:
        check_lengths(indices, values)
    if not values.size:
        return (values.copy(),)
    order = ordered(indices)
    starts = run_starts([column[order] for column in indices.T[:-1]], len(order))
    sizes = np.diff(np.append(starts, len(order)))
    logits = values[order].astype(np.float32) if values.dtype.itemsize == 2 else values[order]
    powers = np.exp(logits - np.repeat(np.maximum.reduceat(logits, starts), sizes))
    out = np.empty(values.size, values.dtype)
    out[...] = powers / np.repeat(np.add.reduceat(powers, starts), sizes)
    return (out,)
