"""Reductions and scans."""

from __future__ import annotations

from tfjit.framework.shape_context import ShapeContext
from tfjit.ops.declare import register_op
from tfjit.ops.shape_rules import Shapes, fail, int_constant, int_list_constant, unchanged
from tfjit.ops.type_lists import FLOAT, INDEX


def _reduce(c: ShapeContext) -> Shapes:
    shape = c.inputs[0]
    axes_shape = c.inputs[1]
    keep = c.attr("keep_dims")
    if axes_shape is not None and len(axes_shape) > 1:
        # Old graphs hold axes of higher rank; TensorFlow ran them.
        return [None]
    axes = int_list_constant(c, 1)
    if shape is None:
        return [None]
    rank = len(shape)
    if axes is None:
        if keep:
            return [(None,) * rank]
        count = c.num_elements(axes_shape)
        return [(None,) * (rank - count) if count == 1 and rank >= 1 and axes_shape is not None else None] if False else [None]
    wanted = set()
    for axis in axes:
        if not -rank <= axis < rank:
            raise fail(f"Invalid reduction dimension {axis} for input with {rank} dimensions.")
        wanted.add(axis % rank)
    if keep:
        return [tuple(1 if i in wanted else size for i, size in enumerate(shape))]
    return [tuple(size for i, size in enumerate(shape) if i not in wanted)]


def _arg_extreme(c: ShapeContext) -> Shapes:
    shape = c.inputs[0]
    c.with_rank(1, 0)
    if shape is None:
        return [None]
    rank = len(shape)
    if rank <= 1:
        return [()]
    axis = int_constant(c, 1)
    if axis is None:
        return [(None,) * (rank - 1)]
    if not -rank <= axis < rank:
        raise fail(f"Dimension ({axis}) must be in the range [{-rank}, {rank}), where {rank} is the number of dimensions in the input.")
    axis %= rank
    return [shape[:axis] + shape[axis + 1 :]]


register_op(
    "All",
    inputs=("input: bool", "reduction_indices: Tidx"),
    outputs=("output: bool",),
    attrs=("keep_dims: bool = false", f"Tidx: {INDEX} = DT_INT32"),
    shape=_reduce,
)
register_op(
    "Any",
    inputs=("input: bool", "reduction_indices: Tidx"),
    outputs=("output: bool",),
    attrs=("keep_dims: bool = false", f"Tidx: {INDEX} = DT_INT32"),
    shape=_reduce,
)
register_op(
    "ArgMax",
    inputs=("input: T", "dimension: Tidx"),
    outputs=("output: output_type",),
    attrs=(
        "T: {realnumbertype, quantizedtype, bool}",
        "Tidx: {int16, int32, int64} = DT_INT32",
        "output_type: {int16, uint16, int32, int64} = DT_INT64",
    ),
    shape=_arg_extreme,
)
register_op(
    "ArgMin",
    inputs=("input: T", "dimension: Tidx"),
    outputs=("output: output_type",),
    attrs=("T: {realnumbertype, quantizedtype, bool}", f"Tidx: {INDEX} = DT_INT32", f"output_type: {INDEX} = DT_INT64"),
    shape=_arg_extreme,
)
register_op(
    "Cumprod",
    inputs=("x: T", "axis: Tidx"),
    outputs=("out: T",),
    attrs=("exclusive: bool = false", "reverse: bool = false", "T: numbertype", f"Tidx: {INDEX} = DT_INT32"),
    shape=unchanged,
)
register_op(
    "Cumsum",
    inputs=("x: T", "axis: Tidx"),
    outputs=("out: T",),
    attrs=("exclusive: bool = false", "reverse: bool = false", "T: numbertype", f"Tidx: {INDEX} = DT_INT32"),
    shape=unchanged,
)
register_op(
    "CumulativeLogsumexp",
    inputs=("x: T", "axis: Tidx"),
    outputs=("out: T",),
    attrs=("exclusive: bool = false", "reverse: bool = false", f"T: {FLOAT}", f"Tidx: {INDEX} = DT_INT32"),
    shape=unchanged,
)
register_op(
    "EuclideanNorm",
    inputs=("input: T", "reduction_indices: Tidx"),
    outputs=("output: T",),
    attrs=("keep_dims: bool = false", "T: numbertype", f"Tidx: {INDEX} = DT_INT32"),
    shape=_reduce,
)
register_op(
    "Max",
    inputs=("input: T", "reduction_indices: Tidx"),
    outputs=("output: T",),
    attrs=("keep_dims: bool = false", "T: {realnumbertype, quantizedtype}", f"Tidx: {INDEX} = DT_INT32"),
    shape=_reduce,
)
register_op(
    "Mean",
    inputs=("input: T", "reduction_indices: Tidx"),
    outputs=("output: T",),
    attrs=("keep_dims: bool = false", "T: numbertype", f"Tidx: {INDEX} = DT_INT32"),
    shape=_reduce,
)
register_op(
    "Min",
    inputs=("input: T", "reduction_indices: Tidx"),
    outputs=("output: T",),
    attrs=("keep_dims: bool = false", "T: {realnumbertype, quantizedtype}", f"Tidx: {INDEX} = DT_INT32"),
    shape=_reduce,
)
register_op(
    "Prod",
    inputs=("input: T", "reduction_indices: Tidx"),
    outputs=("output: T",),
    attrs=("keep_dims: bool = false", "T: numbertype", f"Tidx: {INDEX} = DT_INT32"),
    shape=_reduce,
)
register_op(
    "ReduceJoin",
    inputs=("inputs: string", "reduction_indices: int32"),
    outputs=("output: string",),
    attrs=("keep_dims: bool = false", "separator: string = ''"),
    shape=_reduce,
)
register_op(
    "Sum",
    inputs=("input: T", "reduction_indices: Tidx"),
    outputs=("output: T",),
    attrs=("keep_dims: bool = false", "T: numbertype", f"Tidx: {INDEX} = DT_INT32"),
    shape=_reduce,
)
