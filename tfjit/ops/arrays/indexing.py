"""Declare gathers, scatters and look-ups by value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.op_defs.op_traits import READS_STATE, SIZED_BY_VALUES
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.types.shape import Shape, format_shape
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
    pass


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
    traits=SIZED_BY_VALUES,
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
    traits=SIZED_BY_VALUES,
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
    traits=SIZED_BY_VALUES,
)
register_op(
    "UniqueV2",
    inputs=("x: T", "axis: Taxis"),
    outputs=("y: T", "idx: out_idx"),
    attrs=("T: type", f"Taxis: {INDEX} = DT_INT64", f"out_idx: {INDEX} = DT_INT32"),
    shape=_unique_v2,
    traits=SIZED_BY_VALUES,
)
register_op(
    "UniqueWithCounts",
    inputs=("x: T",),
    outputs=("y: T", "idx: out_idx", "count: out_idx"),
    attrs=("T: type", f"out_idx: {INDEX} = DT_INT32"),
    shape=_unique_with_counts,
    traits=SIZED_BY_VALUES,
)
register_op(
    "UniqueWithCountsV2",
    inputs=("x: T", "axis: Taxis"),
    outputs=("y: T", "idx: out_idx", "count: out_idx"),
    attrs=("T: type", f"Taxis: {INDEX} = DT_INT64", f"out_idx: {INDEX} = DT_INT32"),
    shape=_unique_with_counts_v2,
    traits=SIZED_BY_VALUES,
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
    traits=SIZED_BY_VALUES,
)


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
