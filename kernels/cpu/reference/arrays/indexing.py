"""Gather, scatter, partition and look up by value in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Literal

import numpy as np

from tfjit.framework.types.shape import format_shape
from tfjit.kernels.cpu.reference.inputs import Arrays, invalid, shape_text, taken
from tfjit.kernels.cpu.reference.rows import outside, run_starts, stable_order, update_rows
from tfjit.kernels.memory_limits import check_fits_in_memory
from tfjit.kernels.registry import NodeSpec, reference


def _position(flat: int, shape: Sequence[int]) -> str:
    """Return "[1,2]" for element `flat` of a shape, "" for a scalar."""
    return "[" + ",".join(str(i) for i in np.unravel_index(flat, shape)) + "]" if len(shape) else ""


def check_indices(indices: np.ndarray, limit: int, name: str = "indices") -> None:
    """Raise InvalidArgumentError for the first index outside [0, limit)."""
    bad = (indices < 0) | (indices >= limit)
    if bad.any():
        first = int(np.flatnonzero(bad.reshape(-1))[0])
        invalid(
            f"{name}{_position(first, indices.shape)} = {indices.reshape(-1)[first]} is not in [0, "
            f"{limit})"
        )


@reference("GatherV2", "Gather", "ResourceGather")
def _gather(node: NodeSpec, inputs: Arrays) -> Arrays:
    params, indices = inputs[0], inputs[1]
    axis = 0
    if node.op == "GatherV2":
        if inputs[2].ndim:
            invalid("axis must be scalar")
        axis = int(inputs[2])
        if not -params.ndim <= axis < params.ndim:
            invalid(f"Expected axis in the range [{-params.ndim}, {params.ndim}), but got {axis}")
        axis %= params.ndim
    if params.ndim < 1:
        invalid("params must be at least 1 dimensional")
    batch = node.attrs.get("batch_dims", 0)
    if batch:
        if not -indices.ndim <= batch <= indices.ndim:
            invalid(
                f"Expected batch_dims in the range [{-indices.ndim}, {indices.ndim}], but got "
                f"{batch}"
            )
        batch += indices.ndim if batch < 0 else 0
        if batch >= params.ndim:
            invalid(f"batch_dims ({batch}) must be less than rank(params) ({params.ndim}).")
        if node.op == "ResourceGather":
            axis = batch
        if axis < batch:
            invalid(f"batch_dims ({batch}) must be less than or equal to axis ({axis}).")
        for i in range(batch):
            if params.shape[i] != indices.shape[i]:
                invalid(
                    f"params.shape[{i}]: {params.shape[i]} should be equal to indices.shape[{i}]: "
                    f"{indices.shape[i]}"
                )
    check_indices(indices, params.shape[axis])
    if not batch:
        return (taken(params, indices, axis),)
    rows = params.shape[:batch]
    n = int(np.prod(rows))
    flat_params = params.reshape(n, *params.shape[batch:])
    flat_indices = indices.reshape(n, *indices.shape[batch:])
    shape = (*params.shape[:axis], *indices.shape[batch:], *params.shape[axis + 1 :])
    out = np.empty(shape, params.dtype)
    flat_out = out.reshape(n, *shape[batch:])
    for i in range(n):
        flat_out[i] = np.take(flat_params[i], flat_indices[i], axis - batch)
    return (out,)


def _check_nd(indices: np.ndarray, shape: Sequence[int], tail: str, more: str = "") -> None:
    bad = outside(indices, shape)
    if bad.any():
        first = int(np.flatnonzero(bad.reshape(-1))[0])
        row = indices.reshape(-1, indices.shape[-1])[first]
        place = ",".join(str(i) for i in np.unravel_index(first, bad.shape)) if bad.ndim else ""
        invalid(
            f"indices[{place}] = [{', '.join(str(v) for v in row)}] does not index into {tail} "
            f"{format_shape(tuple(shape))}{more}"
        )


def ignores_bad(node: NodeSpec) -> bool:
    """Return whether the node ignores indices outside.

    Raises InvalidArgumentError for an unknown policy.
    """
    policy = node.attrs.get("bad_indices_policy", b"")
    if policy not in (b"", b"DEFAULT", b"ERROR", b"IGNORE"):
        invalid(f"Unknown bad indices handling attribute: {policy.decode(errors='replace')}")
    return bool(policy == b"IGNORE")


@reference("GatherNd", "ResourceGatherNd")
def _gather_nd(node: NodeSpec, inputs: Arrays) -> Arrays:
    params, indices = inputs
    if params.ndim < 1 and node.op != "GatherNd":
        invalid("params must be at least a vector")
    if indices.ndim < 1:
        invalid("indices must be at least a vector")
    depth = indices.shape[-1]
    if depth > params.ndim:
        invalid(
            f"index innermost dimension length must be <= params rank; saw: {depth} vs. "
            f"{params.ndim}"
        )
    if ignores_bad(node) and indices.size:
        inside = ~outside(indices, params.shape)
        out = np.zeros(indices.shape[:-1] + params.shape[depth:], params.dtype)
        if params.dtype == object:
            out[...] = b""
        out[inside] = params[tuple(np.moveaxis(indices[inside], -1, 0))]
        return (out,)
    if indices.size:
        _check_nd(indices, params.shape, "param shape", f", node name: {node.name}")
    if not depth:
        return (np.broadcast_to(params, indices.shape[:-1] + params.shape).copy(),)
    # the ellipsis keeps an array where a row of strings is one of them
    found = params[(*np.moveaxis(indices, -1, 0), ...)]
    return (found.copy() if indices.ndim == 1 else found,)


_COMBINE: dict[str, Any] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Max": np.maximum,
    "Min": np.minimum,
}


def scatter_into(target: np.ndarray, index: Any, updates: np.ndarray, kind: str) -> None:
    """Update target[index] op= updates, element after element.

    Repeated indices all count; with "Update" the last one stays.
    """
    if kind == "Update":
        target[index] = updates
    elif kind == "Div":
        if target.dtype.kind in "iu":
            _divide_each(target, index, updates)
        else:
            with np.errstate(all="ignore"):
                np.divide.at(target, index, updates)
    else:
        _combine_rows(_COMBINE[kind], target, index, updates)


def _combine_rows(
    combine: np.ufunc,
    target: np.ndarray,
    index: np.ndarray | tuple[np.ndarray, ...],
    updates: np.ndarray,
) -> None:
    """Combine updates with target[index].

    index: an array, or an array for each leading axis.
    """
    leading = index if isinstance(index, tuple) else (index,)
    depth = len(leading)
    if not target.flags.c_contiguous or target.dtype != updates.dtype:
        combine.at(target, index, updates)
        return
    places = np.zeros(leading[0].shape, np.intp)
    for size, along in zip(target.shape, leading):
        places = places * size + along
    inner = target.shape[depth:]
    updates = np.broadcast_to(updates, (*places.shape, *inner))
    update_rows(
        combine,
        target.reshape(prod(target.shape[:depth]), *inner),
        places.reshape(-1),
        updates.reshape(places.size, *inner),
    )


def _divide_each(target: np.ndarray, index: Any, updates: np.ndarray) -> None:
    updates = np.broadcast_to(updates, target[index].shape)
    where = np.arange(target.size).reshape(target.shape)[index].reshape(-1)
    flat = target.reshape(-1)
    for place, divisor in zip(where.tolist(), updates.reshape(-1).tolist()):
        quotient = abs(int(flat[place])) // abs(divisor)
        flat[place] = quotient if (flat[place] < 0) == (divisor < 0) else -quotient


def scatter_nd_into(
    target: np.ndarray,
    indices: np.ndarray,
    updates: np.ndarray,
    kind: str,
    tail: str,
    ignore_bad: bool = False,
) -> None:
    """Write updates at indices of several axes into the target, in place."""
    if indices.ndim < 1:
        invalid(f"Indices shape must have rank at least one. Found:{shape_text(indices)}")
    depth = indices.shape[-1]
    if depth > target.ndim:
        invalid(
            f"The innermost dimension of indices.shape={shape_text(indices)} must be <= the rank "
            f"of the output {shape_text(target)}"
        )
    wanted = indices.shape[:-1] + target.shape[depth:]
    if updates.shape != wanted:
        invalid(
            "Must have updates.shape = indices.shape[:batch_dim] + params_shape[slice_dim:], got "
            f"updates.shape: {shape_text(updates)}, "
            f"indices.shape: {shape_text(indices)}, params_shape: {shape_text(target)}, slice_dim: "
            f"{depth}, "
            f"and batch_dim: {indices.ndim - 1}"
        )
    if indices.size == 0 and depth:
        return
    if ignore_bad and depth:
        inside = ~outside(indices, target.shape)
        indices, updates = indices[inside], updates[inside]
    _check_nd(indices, target.shape, tail)
    if depth == 0:
        for update in updates.reshape(prod(indices.shape[:-1]), *target.shape):
            target[...] = update if kind == "Update" else _COMBINE[kind](target, update)
        return
    scatter_into(target, tuple(np.moveaxis(indices, -1, 0)), updates, kind)


@reference("ScatterNd")
def _scatter_nd(node: NodeSpec, inputs: Arrays) -> Arrays:
    indices, updates, shape = inputs
    if shape.ndim != 1:
        invalid(f"Shape must be a vector, not {shape_text(shape)}")
    check_fits_in_memory([int(s) for s in shape], updates.dtype)
    out = np.zeros([int(s) for s in shape], updates.dtype)
    if out.size == 0 and (indices.size or updates.size):
        invalid("Indices and updates specified for empty output tensor")
    scatter_nd_into(
        out,
        indices,
        updates,
        "Add" if updates.dtype != bool else "Max",
        "shape",
        ignores_bad(node),
    )
    return (out,)


@reference(
    "TensorScatterAdd",
    "TensorScatterSub",
    "TensorScatterMax",
    "TensorScatterMin",
    "TensorScatterUpdate",
    "ScatterNdNonAliasingAdd",
)
def _tensor_scatter(node: NodeSpec, inputs: Arrays) -> Arrays:
    out = inputs[0].copy()
    if node.op != "ScatterNdNonAliasingAdd" and not out.size and (inputs[1].size or inputs[2].size):
        invalid("Indices and updates specified for empty output shape")
    kind = "Add" if node.op == "ScatterNdNonAliasingAdd" else node.op.removeprefix("TensorScatter")
    scatter_nd_into(out, inputs[1], inputs[2], kind, "shape", ignores_bad(node))
    return (out,)


@reference("OneHot")
def _one_hot(node: NodeSpec, inputs: Arrays) -> Arrays:
    indices, depth_value, on, off = inputs
    for value, name in ((depth_value, "depth"), (on, "on_value"), (off, "off_value")):
        if value.ndim:
            invalid(f"{name} must be a scalar, but got: {shape_text(value)}")
    depth = int(depth_value)
    if depth < 0:
        invalid(f"depth must be non-negative, got: {depth}")
    axis = node.attrs.get("axis", -1)
    if axis != -1 and not 0 <= axis <= indices.ndim:
        invalid(f"Expected axis to be -1 or between [0, {indices.ndim + 1}).  But received: {axis}")
    axis = indices.ndim if axis == -1 else axis
    shape = (*indices.shape[:axis], depth, *indices.shape[axis:])
    check_fits_in_memory(shape, on.dtype, copies=2)
    check_fits_in_memory((depth,), np.int64)
    count = [1] * (indices.ndim + 1)
    count[axis] = depth
    hit = np.expand_dims(indices, axis) == np.arange(depth).reshape(count)
    return (np.where(np.broadcast_to(hit, shape), on, off).astype(on.dtype, copy=False),)


@reference("Where")
def _where(node: NodeSpec, inputs: Arrays) -> Arrays:
    (x,) = inputs
    if x.ndim == 0:
        invalid("WhereOp : Unhandled input dimensions: 0")
    return (np.argwhere(x != 0).astype(np.int64),)


def _unique(
    x: np.ndarray, axis: int, index_type: np.dtype[Any]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return distinct slices along an axis in order of first appearance.

    Also returns each slice's number, and the number of times that each slice occurs.
    """
    rows = np.moveaxis(x, axis, 0)
    if (
        rows.ndim == 1
        and rows.size
        and rows.dtype.kind in "iu"
        and int(rows.max()) - int(rows.min()) < 2 * rows.size
    ):
        least = rows.min()
        offsets = (
            (rows - least).astype(np.int64)
            if rows.dtype.kind == "u"
            else rows.astype(np.int64) - int(least)
        )
        places = np.arange(rows.size)[::-1]
        table = np.full(int(offsets.max()) + 1, rows.size)
        table[offsets[::-1]] = places  # of several, the last written stays: the first to appear
        used = np.flatnonzero(table < rows.size)
        used = used[np.argsort(table[used])]
        where = table[used]
        table[used] = np.arange(used.size)
        return (
            rows[where],
            table[offsets].astype(index_type),
            np.bincount(offsets)[used].astype(index_type),
        )
    if rows.ndim == 1 and rows.size and rows.dtype.kind in "iu":
        ascending = stable_order(rows)
        starts = run_starts([rows[ascending]], rows.size)
        where, counts = ascending[starts], np.diff(np.append(starts, rows.size))
        order = np.argsort(where)
        rank = np.empty(order.size, index_type)
        rank[order] = np.arange(order.size)
        number = np.empty(rows.size, index_type)
        number[ascending] = np.repeat(rank, counts)
        return rows[where[order]], number, counts[order].astype(index_type)
    if rows.ndim == 1 and rows.size and rows.dtype.kind == "f":
        _, where, inverse, counts = np.unique(
            rows, return_index=True, return_inverse=True, return_counts=True, equal_nan=False
        )
        order = np.argsort(where)
        rank = np.empty(order.size, index_type)
        rank[order] = np.arange(order.size)
        return rows[where[order]], rank[inverse.reshape(-1)], counts[order].astype(index_type)
    seen: dict[Any, int] = {}
    number = np.empty(rows.shape[0], index_type)
    first: list[int] = []
    plain = rows.ndim == 1
    for i, row in enumerate(rows.tolist() if plain else rows):
        key = row if plain else row.tobytes() if row.dtype != object else tuple(row.reshape(-1))
        if plain and row != row:
            key = (i, "nan")  # NaN equals nothing, itself included
        found = seen.setdefault(key, len(first))
        if found == len(first):
            first.append(i)
        number[i] = found
    counts = np.bincount(number, minlength=len(first)).astype(index_type)
    return np.moveaxis(rows[first], 0, axis), number, counts


@reference("Unique", "UniqueWithCounts")
def _unique_1d(node: NodeSpec, inputs: Arrays) -> Arrays:
    (x,) = inputs
    if x.ndim != 1:
        invalid("unique expects a 1D vector.")
    out = _unique(x, 0, np.dtype(node.attrs["out_idx"].as_numpy_dtype))
    return out if node.op == "UniqueWithCounts" else out[:2]


@reference("UniqueV2", "UniqueWithCountsV2")
def _unique_axis(node: NodeSpec, inputs: Arrays) -> Arrays:
    x, axis_value = inputs
    if axis_value.ndim != 1:
        invalid("axis expects a 1D vector.")
    if axis_value.size > 1:
        invalid(
            f"axis does not support input tensors larger than 1 elements, got {axis_value.size}"
        )
    if axis_value.size == 0:
        if x.ndim != 1:
            invalid("unique expects a 1D vector.")
        axis = 0
    else:
        axis = int(axis_value[0])
        if not -x.ndim <= axis < x.ndim:
            invalid(f"axis has to be between [0, {x.ndim}), got {axis}")
    out = _unique(x, axis % max(x.ndim, 1), np.dtype(node.attrs["out_idx"].as_numpy_dtype))
    return out if node.op == "UniqueWithCountsV2" else out[:2]


@reference("ListDiff")
def _list_diff(node: NodeSpec, inputs: Arrays) -> Arrays:
    x, y = inputs
    for value, name in ((x, "x"), (y, "y")):
        if value.ndim != 1:
            invalid(f"{name} should be a 1D vector.")
    if x.dtype.kind in "iufc":
        keep = np.flatnonzero(~np.isin(x, y))
    else:
        gone = set(y.tolist())
        keep = np.array([i for i, value in enumerate(x.tolist()) if value not in gone], np.intp)
    return x[keep], keep.astype(node.attrs["out_idx"].as_numpy_dtype)


@reference("LowerBound", "UpperBound")
def _bound(node: NodeSpec, inputs: Arrays) -> Arrays:
    rows, values = inputs
    if rows.shape[0] != values.shape[0]:
        invalid(
            f"Leading dim_size of both tensors must match. {shape_text(rows)} {shape_text(values)}"
        )
    side: Literal["left", "right"] = "left" if node.op == "LowerBound" else "right"
    out = np.empty(values.shape, node.attrs["out_type"].as_numpy_dtype)
    for i in range(rows.shape[0]):
        out[i] = np.searchsorted(rows[i], values[i], side)
    if side == "left":
        out[values != values] = 0  # no element is less than NaN
    return (out,)


@reference("UnravelIndex")
def _unravel_index(node: NodeSpec, inputs: Arrays) -> Arrays:
    indices, dims = inputs
    if dims.ndim != 1:
        invalid(f"The indices can only be 1-D, got {shape_text(dims)}")
    if (dims <= 0).any():
        invalid("Input dims cannot contain a dim of zero")
    if (indices < 0).any() or (indices >= np.prod(dims)).any():
        invalid("index is out of bound as with dims")
    found = np.unravel_index(indices.reshape(-1), dims.tolist())
    return (
        np.stack(found)
        .astype(dims.dtype)
        .reshape((dims.size,) if indices.ndim == 0 else (dims.size, -1)),
    )


@reference("Bucketize")
def _bucketize(node: NodeSpec, inputs: Arrays) -> Arrays:
    bounds = np.array(node.attrs["boundaries"], np.float32)
    return (np.searchsorted(bounds, inputs[0], side="right").astype(np.int32),)


@reference("DynamicPartition")
def _dynamic_partition(node: NodeSpec, inputs: Arrays) -> Arrays:
    data, parts = inputs
    num = node.attrs["num_partitions"]
    if data.shape[: parts.ndim] != parts.shape:
        invalid(
            f"data.shape must start with partitions.shape, got data.shape = {shape_text(data)}, "
            f"partitions.shape = {shape_text(parts)}"
        )
    bad = (parts < 0) | (parts >= num)
    if bad.any():
        first = int(np.flatnonzero(bad.reshape(-1))[0])
        invalid(
            f"partitions{_position(first, parts.shape)} = {parts.reshape(-1)[first]} is not in [0, "
            f"{num})"
        )
    rows = data.reshape(parts.size, *data.shape[parts.ndim :])
    flat = parts.reshape(-1)
    return [rows[flat == i] for i in range(num)]


@reference("DynamicStitch", "ParallelDynamicStitch")
def _dynamic_stitch(node: NodeSpec, inputs: Arrays) -> Arrays:
    n = len(inputs) // 2
    indices, data = inputs[:n], inputs[n:]
    size = 0
    for x in indices:
        if x.size:
            size = max(size, int(x.max()) + 1)
    inner = data[0].shape[indices[0].ndim :]
    check_fits_in_memory((size, *inner), data[0].dtype)
    out = (
        np.zeros((size, *inner), data[0].dtype)
        if data[0].dtype != object
        else np.full((size, *inner), b"", object)
    )
    for i, (x, value) in enumerate(zip(indices, data)):
        if value.shape[: x.ndim] != x.shape:
            invalid(
                f"data[{i}].shape = {shape_text(value)} does not start with indices[{i}].shape = "
                f"{shape_text(x)}"
            )
        if value.shape[x.ndim :] != inner:
            invalid(
                f"Need data[0].shape[{indices[0].ndim}:] = data[{i}].shape[{x.ndim}:], got "
                f"data[0].shape = {shape_text(data[0])}, "
                f"data[{i}].shape = {shape_text(value)}, indices[0].shape = "
                f"{shape_text(indices[0])}, indices[{i}].shape = {shape_text(x)}"
            )
        if x.size and int(x.min()) < 0:
            invalid(f"indices[{i}] is out of range")
        out[x.reshape(-1)] = value.reshape(x.size, *inner)
    return (out,)


@reference("NthElement")
def _nth_element(node: NodeSpec, inputs: Arrays) -> Arrays:
    x, n_value = inputs
    n = int(n_value)
    if n < 0:
        invalid(f"n must be non-negative but is {n}")
    if x.ndim < 1:
        invalid(f"Input must be >= 1-D, got shape {shape_text(x)}")
    if x.shape[-1] <= n:
        invalid(f"Input must have last dimension > n = {n}")
    where = x.shape[-1] - 1 - n if node.attrs.get("reverse", False) else n
    return (np.partition(x, where, axis=-1)[..., where],)
