"""Define slices, gathers, scatters and look-ups by value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.op_defs.op_traits import READS_STATE
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import as_dtype
from tfjit.framework.types.shape import Shape, format_shape
from tfjit.ops.core.apply import call, create, tensor
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import (
    Shapes,
    fail,
    int_constant,
    int_list_constant,
    unchanged,
    unknown,
)
from tfjit.ops.core.type_lists import INDEX

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import AxisLike, DTypeLike, ShapeLike, TensorLike


def _gather(c: ShapeContext) -> Shapes:
    shape = c.with_rank_at_least(0, 1)
    return [c.concat(c.inputs[1], None if shape is None else shape[1:])]


def _gather_v2(c: ShapeContext) -> Shapes:
    params, indices = c.with_rank_at_least(0, 1), c.inputs[1]
    c.with_rank(2, 0)
    axis = int_constant(c, 2)
    batch_dims = c.attr("batch_dims")
    if axis is None:
        if params is None or indices is None:
            return [None]
        return [
            (None,)
            * (
                len(params)
                + len(indices)
                - 1
                - (batch_dims if batch_dims >= 0 else len(indices) + batch_dims)
            )
        ]
    if axis >= 0:
        c.with_rank_at_least(params, axis + 1)
    else:
        c.with_rank_at_least(params, -axis)
    if indices is not None:
        if not -len(indices) <= batch_dims <= len(indices):
            raise fail(
                f"Expected batch_dims in the range [{-len(indices)}, {len(indices)}], but got "
                f"{batch_dims}"
            )
        if batch_dims < 0:
            batch_dims += len(indices)
    elif batch_dims < 0:
        return [None]
    if params is None or indices is None:
        return [None]
    if batch_dims >= len(params):
        raise fail(f"batch_dims ({batch_dims}) must be less than rank(params) ({len(params)}).")
    axis %= len(params)
    return [(*params[:axis], *indices[batch_dims:], *params[axis + 1 :])]


def _gather_nd(c: ShapeContext) -> Shapes:
    params, indices = c.inputs[0], c.with_rank_at_least(1, 1)
    depth = c.dim(indices, -1) if indices is not None else None
    if params is None or depth is None:
        return [None]
    if depth > len(params):
        raise fail(
            "indices.shape[-1] must be <= params.rank, but saw indices shape: "
            f"{format_shape(indices)} "
            f"and params shape: {format_shape(params)}"
        )
    return [None if indices is None else (*indices[:-1], *params[depth:])]


def _one_hot(c: ShapeContext) -> Shapes:
    axis = c.attr("axis")
    if axis < -1:
        raise fail("axis must be >= -1")
    for i in (1, 2, 3):
        c.with_rank(i, 0)
    depth = int_constant(c, 1)
    if depth is not None and depth < 0:
        raise fail(f"Dimension size, given by scalar input 1, must be non-negative but is {depth}")
    shape = c.inputs[0]
    if shape is None:
        return [None]
    axis = (axis + len(shape) + 1) % (len(shape) + 1)
    return [(*shape[:axis], depth, *shape[axis:])]


def _scatter_nd_update(c: ShapeContext, shape: Shape, indices: Shape, updates: Shape) -> Shapes:
    """Check indices [outer..., depth] and updates [outer..., shape[depth:]...]."""
    if shape is not None and None not in shape and 0 in shape:
        sizes = (c.num_elements(indices), c.num_elements(updates))
        if any(n is not None and n > 0 for n in sizes):
            raise fail(
                "Indices and updates specified for empty output. indices shape: "
                f"{format_shape(indices)}"
            )
    if indices and updates is not None and indices[-1] is not None:
        depth = indices[-1]
        outer = indices[:-1]
        if len(updates) >= len(outer):
            try:
                c.merge(outer, updates[: len(outer)])
            except InvalidArgumentError as error:
                raise fail(
                    f"Dimensions [0,{len(outer)}) of indices[shape={format_shape(indices)}] must "
                    f"match dimensions [0,{len(outer)}) "
                    f"of updates[shape={format_shape(updates)}]: {error.message}"
                ) from None
        if shape is not None and depth <= len(shape):
            try:
                c.merge(shape[depth:], updates[len(outer) :])
            except InvalidArgumentError as error:
                raise fail(
                    f"Dimensions [{depth},{len(shape)}) of input[shape={format_shape(shape)}] must "
                    "match dimensions "
                    f"[{len(outer)},{len(updates)}) of updates[shape={format_shape(updates)}]: "
                    f"{error.message}"
                ) from None
    return [shape]


def _scatter_nd(c: ShapeContext) -> Shapes:
    indices, updates = c.with_rank_at_least(0, 1), c.inputs[1]
    c.with_rank(2, 1)
    return _scatter_nd_update(c, c.constant_as_shape(2), indices, updates)


def _tensor_scatter(c: ShapeContext) -> Shapes:
    return _scatter_nd_update(c, c.inputs[0], c.with_rank_at_least(1, 1), c.inputs[2])


def _where(c: ShapeContext) -> Shapes:
    shape = c.inputs[0]
    return [(None, None if shape is None else len(shape))]


def _unique(c: ShapeContext) -> Shapes:
    c.with_rank(0, 1)
    return [(None,), c.inputs[0]]


def _unique_with_counts(c: ShapeContext) -> Shapes:
    return [(None,), c.inputs[0], (None,)]


def _unique_v2(c: ShapeContext) -> Shapes:
    shape = c.inputs[0]
    axes = int_list_constant(c, 1)
    if shape is None:
        return [None, (None,)]
    if axes and len(axes) == 1:
        return [(None,) * len(shape), (shape[c.axis(axes[0], len(shape))],)]
    return [(None,) * len(shape), (None,)]


def _unique_with_counts_v2(c: ShapeContext) -> Shapes:
    return [*_unique_v2(c), (None,)]


def _list_diff(c: ShapeContext) -> Shapes:
    c.with_rank(0, 1)
    c.with_rank(1, 1)
    return [(None,), (None,)]


def _bound(c: ShapeContext) -> Shapes:
    c.with_rank(0, 2)
    c.with_rank(1, 2)
    return [c.inputs[1]]


def _unravel_index(c: ShapeContext) -> Shapes:
    indices, (n,) = c.inputs[0], c.with_rank(1, 1)
    if indices is None:
        return [None]
    if not indices:
        return [(n,)]
    return [(n, c.num_elements(indices))]


def _dynamic_partition(c: ShapeContext) -> Shapes:
    data, partitions = c.inputs[0], c.inputs[1]
    num = c.attr("num_partitions")
    if partitions is None:
        return [None] * num
    rank = len(partitions)
    c.with_rank_at_least(data, rank)
    if data is None:
        return [None] * num
    c.merge(data[:rank], partitions)
    return [(None, *data[rank:])] * num


def _dynamic_stitch(c: ShapeContext) -> Shapes:
    n = c.attr("N")
    extra: Shape = None
    size: int | None = 0
    for i in range(n):
        indices, data = c.inputs[i], c.inputs[n + i]
        value = c.constant(i)
        if value is None:
            size = None
        elif size is not None and value.size:
            size = max(size, int(value.max()) + 1)
        if indices is None:
            continue
        c.with_rank_at_least(data, len(indices))
        if data is None:
            continue
        c.merge(data[: len(indices)], indices)
        extra = c.merge(extra, data[len(indices) :])
    return [None if extra is None else (size, *extra)]


def _nth_element(c: ShapeContext) -> Shapes:
    c.with_rank(1, 0)
    shape = c.with_rank_at_least(0, 1)
    n = int_constant(c, 1)
    if n is not None and n < 0:
        raise fail(f"n must be non-negative, got {n}")
    if shape is None:
        return [None]
    last = shape[-1]
    if last is not None and n is not None and last <= n:
        raise fail(f"Input must have last dimension > n = {n} but is {last}")
    return [shape[:-1]]


register_op(
    "Bucketize",
    inputs=("input: T",),
    outputs=("output: int32",),
    attrs=("T: {int32, int64, float, double}", "boundaries: list(float)"),
    shape=unchanged,
)
register_op(
    "DynamicPartition",
    inputs=("data: T", "partitions: int32"),
    outputs=("outputs: num_partitions * T",),
    attrs=("num_partitions: int >= 1", "T: type"),
    shape=_dynamic_partition,
)
for _op_type in (
    "DynamicStitch",
    "ParallelDynamicStitch",
):
    register_op(
        _op_type,
        inputs=("indices: N * int32", "data: N * T"),
        outputs=("merged: T",),
        attrs=("N: int >= 1", "T: type"),
        shape=_dynamic_stitch,
    )
register_op(
    "Gather",
    inputs=("params: Tparams", "indices: Tindices"),
    outputs=("output: Tparams",),
    attrs=("validate_indices: bool = true", "Tparams: type", f"Tindices: {INDEX}"),
    shape=_gather,
)
register_op(
    "GatherNd",
    inputs=("params: Tparams", "indices: Tindices"),
    outputs=("output: Tparams",),
    attrs=("Tparams: type", "Tindices: {int16, int32, int64}", "bad_indices_policy: string = ''"),
    shape=_gather_nd,
)
register_op(
    "GatherV2",
    inputs=("params: Tparams", "indices: Tindices", "axis: Taxis"),
    outputs=("output: Tparams",),
    attrs=(
        "batch_dims: int = 0",
        "Tparams: type",
        "Tindices: {int16, int32, int64}",
        f"Taxis: {INDEX}",
    ),
    shape=_gather_v2,
)
register_op(
    "ListDiff",
    inputs=("x: T", "y: T"),
    outputs=("out: T", "idx: out_idx"),
    attrs=("T: type", f"out_idx: {INDEX} = DT_INT32"),
    shape=_list_diff,
)
for _op_type in (
    "LowerBound",
    "UpperBound",
):
    register_op(
        _op_type,
        inputs=("sorted_inputs: T", "values: T"),
        outputs=("output: out_type",),
        attrs=("T: type", f"out_type: {INDEX} = DT_INT32"),
        shape=_bound,
    )
register_op("MakeUnique", inputs=("input: float",), outputs=("output: float",), shape=unchanged)
register_op(
    "NthElement",
    inputs=("input: T", "n: int32"),
    outputs=("values: T",),
    attrs=("reverse: bool = false", "T: realnumbertype"),
    shape=_nth_element,
)
register_op(
    "OneHot",
    inputs=("indices: TI", "depth: int32", "on_value: T", "off_value: T"),
    outputs=("output: T",),
    attrs=("axis: int = -1", "T: type", "TI: {uint8, int8, int32, int64} = DT_INT64"),
    shape=_one_hot,
)
register_op(
    "ScatterNd",
    inputs=("indices: Tindices", "updates: T", "shape: Tindices"),
    outputs=("output: T",),
    attrs=("T: type", "Tindices: {int16, int32, int64}", "bad_indices_policy: string = ''"),
    shape=_scatter_nd,
)
register_op(
    "ScatterNdNonAliasingAdd",
    inputs=("input: T", "indices: Tindices", "updates: T"),
    outputs=("output: T",),
    attrs=("T: {numbertype, bool}", f"Tindices: {INDEX}", "bad_indices_policy: string = ''"),
    shape=_tensor_scatter,
)
for _op_type in (
    "TensorScatterAdd",
    "TensorScatterMax",
    "TensorScatterMin",
    "TensorScatterSub",
):
    register_op(
        _op_type,
        inputs=("tensor: T", "indices: Tindices", "updates: T"),
        outputs=("output: T",),
        attrs=("T: type", f"Tindices: {INDEX}", "bad_indices_policy: string = ''"),
        shape=_tensor_scatter,
    )
register_op(
    "TensorScatterUpdate",
    inputs=("tensor: T", "indices: Tindices", "updates: T"),
    outputs=("output: T",),
    attrs=("T: type", "Tindices: {int16, int32, int64, uint16}", "bad_indices_policy: string = ''"),
    shape=_tensor_scatter,
)
register_op(
    "Unique",
    inputs=("x: T",),
    outputs=("y: T", "idx: out_idx"),
    attrs=("T: type", f"out_idx: {INDEX} = DT_INT32"),
    shape=_unique,
)
register_op(
    "UniqueV2",
    inputs=("x: T", "axis: Taxis"),
    outputs=("y: T", "idx: out_idx"),
    attrs=("T: type", f"Taxis: {INDEX} = DT_INT64", f"out_idx: {INDEX} = DT_INT32"),
    shape=_unique_v2,
)
register_op(
    "UniqueWithCounts",
    inputs=("x: T",),
    outputs=("y: T", "idx: out_idx", "count: out_idx"),
    attrs=("T: type", f"out_idx: {INDEX} = DT_INT32"),
    shape=_unique_with_counts,
)
register_op(
    "UniqueWithCountsV2",
    inputs=("x: T", "axis: Taxis"),
    outputs=("y: T", "idx: out_idx", "count: out_idx"),
    attrs=("T: type", f"Taxis: {INDEX} = DT_INT64", f"out_idx: {INDEX} = DT_INT32"),
    shape=_unique_with_counts_v2,
)
register_op(
    "UnravelIndex",
    inputs=("indices: Tidx", "dims: Tidx"),
    outputs=("output: Tidx",),
    attrs=(f"Tidx: {INDEX} = DT_INT32",),
    shape=_unravel_index,
)
register_op(
    "Where",
    inputs=("input: T",),
    outputs=("index: int64",),
    attrs=("T: {numbertype, bool} = DT_BOOL",),
    shape=_where,
)


def gather(
    params: TensorLike,
    indices: TensorLike,
    validate_indices: Any = None,
    name: str | None = None,
    axis: AxisLike | None = None,
    batch_dims: int = 0,
) -> Tensor:
    """Gather slices of `params` along an axis, by number."""
    del validate_indices  # always checked
    if axis is None:
        axis = batch_dims
    return tensor(
        "GatherV2", name, params=params, indices=indices, axis=axis, batch_dims=batch_dims
    )


def gather_nd(
    params: TensorLike,
    indices: TensorLike,
    name: str | None = None,
    batch_dims: int = 0,
    bad_indices_policy: str = "",
) -> Tensor:
    """Gather elements or slices of `params` by index vectors.

    The first `batch_dims` axes are batches, each gathered alone.

    bad_indices_policy: "ERROR" (as "" and "DEFAULT"), or "IGNORE": an index outside gives zero.
    """
    if isinstance(batch_dims, int) and batch_dims == 0:
        return tensor(
            "GatherNd", name, params=params, indices=indices, bad_indices_policy=bad_indices_policy
        )
    with name_scope(name, "BatchGatherND", [params, indices]):
        places = _with_batch_places(convert_to_tensor(indices, name="indices"), batch_dims)
        return tensor(
            "GatherNd", None, params=params, indices=places, bad_indices_policy=bad_indices_policy
        )


def _with_batch_places(indices: Tensor, batch_dims: int) -> Tensor:
    """Return index vectors that begin with the place of their batch.

    Raises ValueError for an unknown rank of indices.
    """
    rank = indices.shape.rank
    if rank is None:
        raise ValueError("gather_nd with batch_dims needs indices of known rank")
    if not 0 <= batch_dims < rank:
        raise ValueError(f"batch_dims = {batch_dims} must be less than rank(indices) = {rank}")
    kind = indices.dtype.base_dtype
    sizes = tensor(
        "Shape", None, input=indices, out_type=kind if kind is dtypes.int64 else dtypes.int32
    )
    outer = tensor(
        "StridedSlice", None, input=sizes, begin=[0], end=[-1], strides=[1], begin_mask=1
    )
    full = tensor("ConcatV2", None, values=[outer, [1]], axis=0)
    columns = []
    for axis in range(batch_dims):
        size = tensor(
            "StridedSlice",
            None,
            input=sizes,
            begin=[axis],
            end=[axis + 1],
            strides=[1],
            shrink_axis_mask=1,
        )
        zero = tensor("ZerosLike", None, x=size)
        places = tensor(
            "Range", None, start=zero, limit=size, delta=tensor("OnesLike", None, x=size)
        )
        shape = [-1 if i == axis else 1 for i in range(rank)]
        column = tensor(
            "BroadcastTo",
            None,
            input=tensor("Reshape", None, tensor=places, shape=shape),
            shape=full,
        )
        columns.append(
            column if column.dtype.base_dtype is kind else tensor("Cast", None, x=column, DstT=kind)
        )
    return tensor("ConcatV2", None, values=[*columns, indices], axis=-1)


def scatter_nd(
    indices: TensorLike,
    updates: TensorLike,
    shape: ShapeLike,
    bad_indices_policy: str = "",
    name: str | None = None,
) -> Tensor:
    """Return a tensor of zeros with `updates` added at index vectors.

    bad_indices_policy: "ERROR" (as "" and "DEFAULT"), or "IGNORE": an update outside is left out.
    """
    return tensor(
        "ScatterNd",
        name,
        indices=indices,
        updates=updates,
        shape=shape,
        bad_indices_policy=bad_indices_policy,
    )


def tensor_scatter_nd_update(
    tensor: TensorLike, indices: TensorLike, updates: TensorLike, name: str | None = None
) -> Tensor:
    """Copy `tensor` with `updates` put at index vectors."""
    return call("TensorScatterUpdate", name, tensor=tensor, indices=indices, updates=updates)


def tensor_scatter_nd_add(
    tensor: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    bad_indices_policy: str = "",
    name: str | None = None,
) -> Tensor:
    """Copy `tensor` with `updates` added at index vectors."""
    return call(
        "TensorScatterAdd",
        name,
        tensor=tensor,
        indices=indices,
        updates=updates,
        bad_indices_policy=bad_indices_policy,
    )


def tensor_scatter_nd_sub(
    tensor: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    bad_indices_policy: str = "",
    name: str | None = None,
) -> Tensor:
    """Copy `tensor` with `updates` subtracted at index vectors."""
    return call(
        "TensorScatterSub",
        name,
        tensor=tensor,
        indices=indices,
        updates=updates,
        bad_indices_policy=bad_indices_policy,
    )


def tensor_scatter_nd_max(
    tensor: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    bad_indices_policy: str = "",
    name: str | None = None,
) -> Tensor:
    """Copy `tensor` with the maximum of value and update at index vectors."""
    return call(
        "TensorScatterMax",
        name,
        tensor=tensor,
        indices=indices,
        updates=updates,
        bad_indices_policy=bad_indices_policy,
    )


def tensor_scatter_nd_min(
    tensor: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    bad_indices_policy: str = "",
    name: str | None = None,
) -> Tensor:
    """Copy `tensor` with the minimum of value and update at index vectors."""
    return call(
        "TensorScatterMin",
        name,
        tensor=tensor,
        indices=indices,
        updates=updates,
        bad_indices_policy=bad_indices_policy,
    )


tensor_scatter_update = tensor_scatter_nd_update
tensor_scatter_add = tensor_scatter_nd_add
tensor_scatter_sub = tensor_scatter_nd_sub


def one_hot(
    indices: TensorLike,
    depth: TensorLike,
    on_value: TensorLike | None = None,
    off_value: TensorLike | None = None,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    name: str | None = None,
) -> Tensor:
    """Return one-hot rows: indices [...] -> [..., depth].

    The element at the index is on_value (1), others are off_value (0). Raises TypeError for
    differing dtypes.
    """
    with name_scope(name, "one_hot", [indices, depth, on_value, off_value]) as scope:
        kinds = [
            convert_to_tensor(v, name=n).dtype.base_dtype
            for v, n in ((on_value, "on_value"), (off_value, "off_value"))
            if v is not None
        ]
        wanted = as_dtype(dtype) if dtype is not None else kinds[0] if kinds else dtypes.float32
        if dtype is None and len(set(kinds)) > 1:
            raise TypeError(
                f"dtype {kinds[0]} of on_value does not match dtype {kinds[1]} of off_value"
            )
        on = convert_to_tensor(1 if on_value is None else on_value, wanted, name="on_value")
        off = convert_to_tensor(0 if off_value is None else off_value, wanted, name="off_value")
        return tensor(
            "OneHot",
            scope,
            indices=indices,
            depth=depth,
            on_value=on,
            off_value=off,
            axis=-1 if axis is None else axis,
        )


def where(
    condition: Any,
    x: TensorLike | None = None,
    y: TensorLike | None = None,
    name: str | None = None,
) -> Tensor:
    """Select elements of x or y, or return the indices of true elements.

    A vector condition selects rows. With neither x nor y, the result is index vectors int64 [n,
    rank].
    """
    if x is None and y is None:
        with name_scope(name, "Where", [condition]) as scope:
            return tensor("Where", scope, input=convert_to_tensor(condition, name="condition"))
    if x is None or y is None:
        raise ValueError("x and y must both be non-None or both be None.")
    return tensor("Select", name, condition=condition, t=x, e=y)


def where_v2(
    condition: Any,
    x: TensorLike | None = None,
    y: TensorLike | None = None,
    name: str | None = None,
) -> Tensor:
    """Select as `where`, with all three broadcast."""
    if x is None and y is None:
        return where(condition, name=name)
    if x is None or y is None:
        raise ValueError("x and y must both be non-None or both be None.")
    return tensor("SelectV2", name, condition=condition, t=x, e=y)


def unique(x: TensorLike, out_idx: Any = dtypes.int32, name: str | None = None) -> Any:
    """Return (y, idx): distinct values, and each element's number.

    Values are in order of first appearance.
    """
    return call("Unique", name, x=x, out_idx=as_dtype(out_idx))


def unique_with_counts(x: TensorLike, out_idx: Any = dtypes.int32, name: str | None = None) -> Any:
    """Return (y, idx, count): as `unique`, with the count of each value."""
    return call("UniqueWithCounts", name, x=x, out_idx=as_dtype(out_idx))


def setdiff1d(
    x: TensorLike, y: TensorLike, index_dtype: DTypeLike = dtypes.int32, name: str | None = None
) -> Any:
    """Return (out, idx): elements of x not in y, and their places."""
    return call("ListDiff", name, x=x, y=y, out_idx=as_dtype(index_dtype))


def searchsorted(
    sorted_sequence: Any,
    values: TensorLike,
    side: str = "left",
    out_type: DTypeLike = dtypes.int32,
    name: str | None = None,
) -> Tensor:
    """Return insertion places of values in sorted rows [..., n].

    Raises ValueError for another side.
    """
    if side not in ("left", "right"):
        raise ValueError(f"Argument `side` must be either 'right' or 'left', but got '{side}'")
    with name_scope(name, "searchsorted", [sorted_sequence, values]):
        rows, wanted = convert_to_tensor(sorted_sequence), convert_to_tensor(values)
        shape = create("Shape", None, input=wanted).outputs[0]
        last = [
            tensor(
                "StridedSlice",
                None,
                input=tensor("Shape", None, input=t),
                begin=[-1],
                end=[0],
                strides=[1],
                shrink_axis_mask=1,
            )
            for t in (rows, wanted)
        ]
        flat = [
            create("Reshape", None, tensor=t, shape=[-1, n]).outputs[0]
            for t, n in zip((rows, wanted), last)
        ]
        op = "LowerBound" if side == "left" else "UpperBound"
        found = tensor(op, None, sorted_inputs=flat[0], values=flat[1], out_type=as_dtype(out_type))
        return tensor("Reshape", None, tensor=found, shape=shape)


def unravel_index(indices: TensorLike, dims: Any, name: str | None = None) -> Tensor:
    """Convert flat indices to index vectors [rank, n]."""
    return tensor("UnravelIndex", name, indices=indices, dims=dims)


def dynamic_partition(
    data: TensorLike, partitions: Any, num_partitions: int, name: str | None = None
) -> list[Tensor]:
    """Split `data` into lists by number."""
    return list(
        create(
            "DynamicPartition",
            name,
            data=data,
            partitions=partitions,
            num_partitions=num_partitions,
        ).outputs
    )


def dynamic_stitch(indices: TensorLike, data: TensorLike, name: str | None = None) -> Tensor:
    """Merge tensors by index.

    Where an index repeats, the last element stays.
    """
    return tensor("DynamicStitch", name, indices=indices, data=data)


def nth_element(
    input: TensorLike, n: Any, reverse: bool = False, name: str | None = None
) -> Tensor:
    """Return the n-th smallest (largest) value of each row."""
    return tensor("NthElement", name, input=input, n=n, reverse=reverse)


def bucketize(input: TensorLike, boundaries: Any, name: str | None = None) -> Tensor:
    """Return the bucket number of each value."""
    return tensor("Bucketize", name, input=input, boundaries=boundaries)


register_op(
    "ResourceGather",
    inputs=("resource: resource", "indices: Tindices"),
    outputs=("output: dtype",),
    attrs=(
        "batch_dims: int = 0",
        "validate_indices: bool = true",
        "dtype: type",
        f"Tindices: {INDEX}",
    ),
    stateful=True,
    shape=unknown,
    traits=READS_STATE,
)
register_op(
    "ResourceGatherNd",
    inputs=("resource: resource", "indices: Tindices"),
    outputs=("output: dtype",),
    attrs=("dtype: type", f"Tindices: {INDEX}"),
    stateful=True,
    shape=unknown,
    traits=READS_STATE,
)


def resource_gather(
    resource: Tensor, indices: TensorLike, dtype: DTypeLike, name: str | None = None
) -> Tensor:
    """Gather rows of a resource variable by number."""
    return tensor("ResourceGather", name, resource=resource, indices=indices, dtype=dtype)
