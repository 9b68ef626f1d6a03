"""Reorder, reshape, slice and join sparse tensors.

Arithmetic is in `sparse_math`. A sparse tensor is indices int64 [n, rank], values [n], dense shape
int64 [rank]; rows may be in any order unless a function requires one.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.types.shape import format_shape
from tfjit.kernels.cpu.reference.records.serialized import tensor_message
from tfjit.kernels.cpu.reference.rows import outside, row_keys, stable_order
from tfjit.kernels.cpu.reference.sparse.serialized_rows import (
    check_parts,
    content_message,
    deserialize_rows,
    serialize_rows,
)
from tfjit.kernels.memory_limits import check_fits_in_memory
from tfjit.kernels.registry import NodeSpec, reference

Arrays = Sequence[Any]


def refused(message: str) -> InvalidArgumentError:
    """Return the error of a kernel; the executor adds the node."""
    return InvalidArgumentError(None, None, message)


def ordered(indices: np.ndarray) -> np.ndarray:
    """Return the permutation that sorts rows of indices.

    The first column is the major key; equal rows keep their order.
    """
    keys = row_keys(indices)
    return np.lexsort(indices.T[::-1]) if keys is None else stable_order(keys)


def check_sparse(indices: np.ndarray, values: np.ndarray, shape: np.ndarray) -> None:
    """Raise InvalidArgumentError unless a sparse tensor's parts fit by rank and size."""
    for what, array, rank in (("indices", indices, 2), ("values", values, 1), ("shape", shape, 1)):
        if array.ndim != rank:
            raise refused(f"Sparse {what} must be rank {rank} but is rank {array.ndim}")
    if len(indices) != len(values):
        raise refused(
            f"Number of elements in indices ({len(indices)}) and values ({len(values)}) do not "
            "match"
        )
    if indices.shape[1] != shape.size:
        raise refused(f"Index rank ({indices.shape[1]}) and shape rank ({shape.size}) do not match")


def check_bounds(indices: np.ndarray, shape: np.ndarray) -> None:
    """Raise InvalidArgumentError for a row of indices outside of the dense shape."""
    wrong = outside(indices, shape.tolist())
    if wrong.any():
        k = int(wrong.argmax())
        raise refused(
            f"Sparse index tuple indices[{k}, :] = [{', '.join(map(str, indices[k].tolist()))}] is "
            "out of bounds"
        )


def listed(items: Any) -> str:
    """Return numbers as text, [1,2]."""
    return "[" + ",".join(str(int(v)) for v in items) + "]"


def _sizes(shape: np.ndarray) -> tuple[int, ...]:
    for size in shape.tolist():
        if size < 0:
            raise refused(f"Dimension {size} must be >= 0")
    return tuple(shape.tolist())


# to dense


def check_indices(indices: np.ndarray, shape: tuple[int, ...]) -> None:
    """Raise unless rows are inside the shape, sorted and different."""
    beyond = outside(indices, shape)
    earlier = np.zeros(len(indices), np.bool_)
    same = np.zeros(len(indices), np.bool_)
    if len(indices) > 1:
        step = np.diff(indices, axis=0)
        first = np.argmax(step != 0, axis=1)
        moved = step[np.arange(len(step)), first] if indices.shape[1] else np.zeros(len(step))
        earlier[1:], same[1:] = moved < 0, moved == 0
    wrong = beyond | earlier | same
    if not wrong.any():
        return
    k = int(wrong.argmax())
    row = f"indices[{k}] = {listed(indices[k])}"
    if beyond[k]:
        raise refused(f"{row} is out of bounds: need 0 <= index < {listed(shape)}")
    if earlier[k]:
        raise refused(f"{row} is out of order. Many sparse ops require sorted indices.")
    raise refused(f"{row} is repeated")


@reference("SparseToDense")
def _sparse_to_dense(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Convert a sparse tensor to a dense one.

    Of several values for one element the last counts (where indices are not validated).
    """
    given, shape, values, default = (np.asarray(v) for v in inputs)
    if given.ndim > 2:
        raise refused(
            "sparse_indices should be a scalar, vector, or matrix, got shape "
            f"{format_shape(given.shape)}"
        )
    indices = given.reshape(-1, 1) if given.ndim < 2 else given
    count, rank = indices.shape
    if shape.ndim != 1:
        raise refused(f"output_shape must be rank 1, got shape {format_shape(shape.shape)}")
    if shape.size != rank:
        raise refused(
            f"output_shape has incorrect number of elements: {shape.size} should be: {rank}"
        )
    if values.ndim > 1 or (values.ndim == 1 and values.size != count):
        raise refused(
            f"sparse_values has incorrect shape {format_shape(values.shape)}, should be [] or "
            f"[{count}]"
        )
    if default.ndim:
        raise refused("default_value should be a scalar.")
    sizes = _sizes(shape)
    if node.attrs["validate_indices"]:
        check_indices(indices, sizes)
    elif outside(indices, sizes).any():
        raise refused(f"Indices are not valid (out of bounds).  Shape: {listed(sizes)}")
    check_fits_in_memory(sizes, values.dtype)
    dense = np.empty(sizes, values.dtype)
    dense[...] = default[()]
    dense[tuple(indices.T)] = values if values.ndim else values[()]
    return (dense,)


# another order, another shape


@reference("SparseReorder")
def _sparse_reorder(node: NodeSpec, inputs: Arrays) -> Arrays:
    indices, values, shape = (np.asarray(v) for v in inputs)
    check_sparse(indices, values, shape)
    keys = row_keys(indices)
    if keys is not None and (keys[1:] >= keys[:-1]).all():
        return indices.copy(), values.copy()
    order = ordered(indices) if keys is None else stable_order(keys)
    return indices[order], values[order]


def _completed(shape: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return the wanted shape with its -1 worked out."""
    total = int(np.prod(shape, dtype=np.int64))
    unknown, product = -1, 1
    for k, size in enumerate(wanted.tolist()):
        if size == -1:
            if unknown >= 0:
                raise refused(f"only one output dimension may be -1, not both {unknown} and {k}")
            unknown = k
        elif size < 0:
            raise refused(f"size {k} must be non-negative, not {size}")
        else:
            product *= size
    found = wanted.astype(np.int64)
    if unknown >= 0:
        if product <= 0:
            raise refused(
                "reshape cannot infer the missing input size for an empty tensor unless all "
                "specified input sizes are non-zero"
            )
        found[unknown] = total // product
        if total % product:
            raise refused(
                f"Input to reshape is a SparseTensor with {total} dense values, but the requested "
                "shape requires a multiple of "
                f"{product}. input_shape={listed(shape)} output_shape={listed(found)}"
            )
    result = int(np.prod(found, dtype=np.int64))
    if result != total:
        raise refused(
            f"Input to reshape is a tensor with {total} dense values, but the requested shape has "
            f"{result}. "
            f"input_shape={listed(shape)} output_shape={listed(found)}"
        )
    return found


def _strides(shape: np.ndarray) -> np.ndarray:
    """Return the number of elements between neighbours along each dimension."""
    return np.append(np.cumprod(shape[:0:-1], dtype=np.int64)[::-1], 1)[: shape.size]


@reference("SparseReshape")
def _sparse_reshape(node: NodeSpec, inputs: Arrays) -> Arrays:
    indices, shape, wanted = (np.asarray(v) for v in inputs)
    if indices.ndim != 2:
        raise refused("Input must be a matrix.")
    if shape.ndim != 1:
        raise refused("Input shape must be a vector.")
    if wanted.ndim != 1:
        raise refused(
            f"Target shape should be a vector but received shape {format_shape(wanted.shape)}"
        )
    if indices.shape[1] != shape.size:
        raise refused("Input tensor rank must match input shape length.")
    found = _completed(shape, wanted)
    place = indices @ _strides(shape)
    out = np.empty((len(indices), found.size), np.int64)
    for k, stride in enumerate(_strides(found).tolist()):
        out[:, k], place = np.divmod(place, stride) if stride else (place, place)
    return out, found


# several into one, one into several


@reference("SparseConcat")
def _sparse_concat(node: NodeSpec, inputs: Arrays) -> Arrays:
    count = int(node.attrs["N"])
    arrays = [np.asarray(v) for v in inputs]
    all_indices, all_values, shapes = arrays[:count], arrays[count : 2 * count], arrays[2 * count :]
    for what, rank, kind, group in (
        ("indices", 2, "a matrix", all_indices),
        ("values", 1, "a vector", all_values),
        ("shapes", 1, "a vector", shapes),
    ):
        for k, array in enumerate(group):
            if array.ndim != rank:
                raise refused(
                    f"Input {what} should be {kind} but received shape {format_shape(array.shape)} "
                    f"at position {k}"
                )
    rank, asked = shapes[0].size, int(node.attrs["concat_dim"])
    if not -rank <= asked < rank:
        raise refused(f"Concat dimension must be in range [{-rank}, {rank}), got {asked}")
    axis = asked % rank
    for k, shape in enumerate(shapes):
        if shape.size != rank:
            raise refused(
                f"Ranks of all input tensors must match: expected {rank} but got {shape.size} at "
                f"position {k}"
            )
        for d in range(rank):
            if d != axis and shape[d] != shapes[0][d]:
                raise refused(
                    f"Input shapes must match: expected {shapes[0][d]} for dimension {d} but got "
                    f"{shape[d]} at position {k}"
                )
    for indices, values in zip(all_indices, all_values, strict=True):
        check_lengths(indices, values)
    starts = np.cumsum([0, *(int(shape[axis]) for shape in shapes)])
    moved = []
    for indices, start in zip(all_indices, starts):
        one = indices.copy()
        one[:, axis] += start
        moved.append(one)
    joined, joined_values = np.concatenate(moved), np.concatenate(all_values)
    shape = shapes[0].copy()
    shape[axis] = starts[-1]
    order = ordered(joined)
    return joined[order], joined_values[order], shape


def check_lengths(indices: np.ndarray, values: np.ndarray) -> None:
    """Raise InvalidArgumentError unless each row of indices has a value."""
    if indices.shape[0] != values.shape[0]:
        raise refused(
            "indices and values rows (indexing dimension) must match. (indices = "
            f"{indices.shape[0]}, values = {values.shape[0]})"
        )


@reference("SparseSplit")
def _sparse_split(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Split a sparse tensor along a dimension.

    The first slices are longer by one where the size is no multiple of their number.
    """
    dimension, indices, values, shape = (np.asarray(v) for v in inputs)
    pieces = int(node.attrs["num_split"])
    if dimension.size != 1 or dimension.ndim:
        raise refused(
            f"Input axis should be a scalar but received shape {format_shape(dimension.shape)}"
        )
    if indices.ndim != 2:
        raise refused(
            f"Input indices should be a matrix but received shape {format_shape(indices.shape)}"
        )
    if values.ndim != 1:
        raise refused(
            f"Input values should be a vector but received shape {format_shape(values.shape)}"
        )
    if len(indices) != len(values):
        raise refused(
            f"Number of elements in indices ({len(indices)}) and values ({len(values)}) do not "
            "match"
        )
    if shape.ndim != 1:
        raise refused(
            f"Input shape should be a vector but received shape {format_shape(shape.shape)}"
        )
    asked = int(dimension)
    if not -shape.size <= asked < shape.size:
        raise refused(f"Input axis should be in range [{-shape.size}, {shape.size}), got {asked}")
    axis = asked % shape.size
    size = int(shape[axis])
    if not 1 <= pieces <= size:
        raise refused(
            f"Input num_split should be between 1 and the splitting dimension size ({size}), got "
            f"{pieces}"
        )
    check_bounds(indices, shape)
    quotient, rest = divmod(size, pieces)
    column = np.ascontiguousarray(indices[:, axis])
    edges = np.cumsum([0] + [quotient + (k < rest) for k in range(pieces)])
    parts: list[list[np.ndarray]] = [[], [], []]
    for first, last in itertools.pairwise(edges):
        inside = np.flatnonzero((column >= first) & (column < last))
        own, own_shape = indices.take(inside, 0), shape.copy()
        own[:, axis] -= first
        own_shape[axis] = last - first
        for group, array in zip(parts, (own, values.take(inside), own_shape), strict=True):
            group.append(array)
    return [array for group in parts for array in group]


@reference("SparseSlice")
def _sparse_slice(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Slice a sparse tensor.

    A size that goes beyond the shape ends at the shape.
    """
    indices, values, shape, start, size = (np.asarray(v) for v in inputs)
    check_sparse(indices, values, shape)
    for what, array in (("start", start), ("size", size)):
        if array.ndim != 1:
            raise refused(
                f"Input {what} should be a vector but received shape {format_shape(array.shape)}"
            )
    for what, array in (("start", start), ("size", size)):
        if array.size != shape.size:
            raise refused(
                f"Expected {what} to be a vector of length {shape.size} but got length {array.size}"
            )
    for length in size.tolist():
        if length < 0:
            raise refused(f"Expected a non-negative size, got {length}")
    inside = np.ones(len(indices), np.bool_)
    for column, first, length in zip(indices.T, start.tolist(), size.tolist(), strict=True):
        # an unsigned number is large where the column is before the start
        inside &= (column - first).view(np.uint64) < length
    left = np.clip(shape - start, 0, None)
    taken = np.flatnonzero(inside)
    return indices.take(taken, 0) - start, values.take(taken), np.minimum(size, left)


@reference("SparseSliceGrad")
def _sparse_slice_grad(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Return the gradient of each value: zero outside of the slice."""
    gradient, indices, start, taken = (np.asarray(v) for v in inputs)
    if indices.ndim != 2 or taken.ndim != 2:
        shown = f"{format_shape(indices.shape)} and {format_shape(taken.shape)}"
        raise refused(f"Input and output indices should be matrices but received shapes: {shown}")
    if gradient.ndim != 1:
        raise refused(
            "Input backprop_val_grad should be a vector but received shape: "
            f"{format_shape(gradient.shape)}"
        )
    if start.ndim != 1:
        raise refused(
            f"Input start should be a vector but received shape {format_shape(start.shape)}"
        )
    if indices.shape[1] != taken.shape[1]:
        raise refused(
            f"The input and output should have the same ndims: got: {indices.shape[1]} and "
            f"{taken.shape[1]}"
        )
    if len(taken) > len(indices):
        raise refused(
            "# rows of output_indices should be not greater than of input_indices, got "
            f"{len(taken)} and {len(indices)}"
        )
    if gradient.size != len(taken):
        raise refused(
            "# elements of backprop_val_grad and # rows of output_indices should match (#nnz of "
            f"sum): got {gradient.size} and {len(taken)}"
        )
    if start.size != indices.shape[1]:
        raise refused(
            f"Expected input_start to be a vector of length {indices.shape[1]} but got length "
            f"{start.size}"
        )
    out = np.zeros(len(indices), gradient.dtype)
    used = 0
    moved = (taken + start).tolist()
    for k, row in enumerate(indices.tolist()):  # both are in one order
        if used < len(moved) and row == moved[used]:
            out[k] = gradient[used]
            used += 1
    if used < gradient.size:
        raise refused(
            f"Elements of backprop_val_grad aren't all propagated. Num elements:{gradient.size}, "
            f"used: {used}"
        )
    return (out,)


# rows without values


def filled_rows(rows: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Place entries in rows, with an entry for each empty row.

    Returns the place of each entry, a mask of the empty rows, and the places of their new entries.
    `count`: the number of rows.
    """
    sizes = np.bincount(rows, minlength=count) if count else np.zeros(0, np.int64)
    empty = sizes == 0
    if count and (rows[1:] >= rows[:-1]).all():
        new_before = np.cumsum(empty)
        place = np.arange(len(rows))
        if new_before[-1]:
            place += new_before[rows]
        starts = np.cumsum(sizes) - sizes + new_before - empty
        return place, empty, starts[empty]
    starts = np.cumsum([0, *np.maximum(sizes, 1)])[:-1] if count else np.zeros(0, np.int64)
    by_row = np.argsort(rows, kind="stable")
    place = np.empty(len(rows), np.int64)
    first = np.cumsum(np.append(0, sizes))[:-1] if count else sizes
    sorted_rows = rows[by_row]
    place[by_row] = starts[sorted_rows] + np.arange(len(rows)) - first[sorted_rows]
    return place, empty, starts[empty]


@reference("SparseFillEmptyRows")
def _sparse_fill_empty_rows(node: NodeSpec, inputs: Arrays) -> Arrays:
    indices, values, shape, default = (np.asarray(v) for v in inputs)
    if shape.ndim != 1:
        raise refused(f"dense_shape must be a vector, saw: {format_shape(shape.shape)}")
    if indices.ndim != 2:
        raise refused(f"indices must be a matrix, saw: {format_shape(indices.shape)}")
    if values.ndim != 1:
        raise refused(f"values must be a vector, saw: {format_shape(values.shape)}")
    if len(indices) != len(values):
        raise refused(
            f"The length of `values` ({len(values)}) must match the first dimension of `indices` "
            f"({len(indices)})."
        )
    if default.ndim:
        raise refused(f"default_value must be a scalar, saw: {format_shape(default.shape)}")
    if not shape.size:
        raise refused("Dense shape cannot be empty.")
    if indices.shape[1] != shape.size:
        raise refused(f"Index rank ({indices.shape[1]}) and shape rank ({shape.size}) do not match")
    count = int(shape[0])
    if count == 0:
        if len(indices):
            raise refused(
                "Received SparseTensor with dense_shape[0] = 0 but indices.shape[0] = "
                f"{len(indices)}"
            )
        return indices.copy(), values.copy(), np.zeros(0, np.bool_), np.zeros(0, np.int64)
    rows = indices[:, 0]
    for k in np.flatnonzero((rows < 0) | (rows >= count))[:1]:
        raise refused(f"indices({k}, 0) is invalid: {rows[k]} >= {count}")
    place, empty, new = filled_rows(rows, count)
    if not len(new) and (place[1:] > place[:-1]).all():
        return indices.copy(), values.copy(), empty, place
    out = np.zeros((len(rows) + len(new), shape.size), np.int64)
    filled = np.empty(len(out), values.dtype)
    out[place], filled[place] = indices, values
    out[new, 0], filled[new] = np.flatnonzero(empty), default[()]
    return out, filled, empty, place


@reference("SparseFillEmptyRowsGrad")
def fill_empty_rows_grad(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute the gradients of the values and of the default.

    The default's is the sum of the gradients at new entries.
    """
    place, gradient = (np.asarray(v) for v in inputs)
    if place.ndim != 1:
        raise refused(f"reverse_index_map must be a vector, saw: {format_shape(place.shape)}")
    if gradient.ndim != 1:
        raise refused(f"grad_values must be a vector, saw: {format_shape(gradient.shape)}")
    for k in np.flatnonzero((place < 0) | (place >= gradient.size))[:1]:
        raise refused(
            f"Elements in reverse index must be in [0, {gradient.size}) but got {place[k]}"
        )
    left = np.ones(gradient.size, np.bool_)
    left[place] = False
    return gradient[place], np.asarray(gradient[left].sum(), gradient.dtype)


@reference("SerializeSparse")
def _serialize_sparse(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Serialize indices, values and dense shape as three TensorProtos."""
    indices, values, shape = (np.asarray(v) for v in inputs)
    check_parts((indices, values, shape))
    out = np.empty(3, object)
    out[:] = [tensor_message(indices), content_message(values), tensor_message(shape)]
    return (out,)


@reference("SerializeManySparse")
def _serialize_many_sparse(node: NodeSpec, inputs: Arrays) -> Arrays:
    return serialize_rows(node, inputs)


@reference("DeserializeManySparse", "DeserializeSparse")
def _deserialize_sparse(node: NodeSpec, inputs: Arrays) -> Arrays:
    return deserialize_rows(node, inputs)
