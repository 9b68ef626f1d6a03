"""Reductions and scans."""

from __future__ import annotations

from tfjit.ops.declare import register_op
from tfjit.ops.type_lists import FLOAT, INDEX

register_op(
    "All",
    inputs=("input: bool", "reduction_indices: Tidx"),
    outputs=("output: bool",),
    attrs=("keep_dims: bool = false", f"Tidx: {INDEX} = DT_INT32"),
)
register_op(
    "Any",
    inputs=("input: bool", "reduction_indices: Tidx"),
    outputs=("output: bool",),
    attrs=("keep_dims: bool = false", f"Tidx: {INDEX} = DT_INT32"),
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
)
register_op(
    "ArgMin",
    inputs=("input: T", "dimension: Tidx"),
    outputs=("output: output_type",),
    attrs=("T: {realnumbertype, quantizedtype, bool}", f"Tidx: {INDEX} = DT_INT32", f"output_type: {INDEX} = DT_INT64"),
)
register_op(
    "Cumprod",
    inputs=("x: T", "axis: Tidx"),
    outputs=("out: T",),
    attrs=("exclusive: bool = false", "reverse: bool = false", "T: numbertype", f"Tidx: {INDEX} = DT_INT32"),
)
register_op(
    "Cumsum",
    inputs=("x: T", "axis: Tidx"),
    outputs=("out: T",),
    attrs=("exclusive: bool = false", "reverse: bool = false", "T: numbertype", f"Tidx: {INDEX} = DT_INT32"),
)
register_op(
    "CumulativeLogsumexp",
    inputs=("x: T", "axis: Tidx"),
    outputs=("out: T",),
    attrs=("exclusive: bool = false", "reverse: bool = false", f"T: {FLOAT}", f"Tidx: {INDEX} = DT_INT32"),
)
register_op(
    "EuclideanNorm",
    inputs=("input: T", "reduction_indices: Tidx"),
    outputs=("output: T",),
    attrs=("keep_dims: bool = false", "T: numbertype", f"Tidx: {INDEX} = DT_INT32"),
)
register_op(
    "Max",
    inputs=("input: T", "reduction_indices: Tidx"),
    outputs=("output: T",),
    attrs=("keep_dims: bool = false", "T: {realnumbertype, quantizedtype}", f"Tidx: {INDEX} = DT_INT32"),
)
register_op(
    "Mean",
    inputs=("input: T", "reduction_indices: Tidx"),
    outputs=("output: T",),
    attrs=("keep_dims: bool = false", "T: numbertype", f"Tidx: {INDEX} = DT_INT32"),
)
register_op(
    "Min",
    inputs=("input: T", "reduction_indices: Tidx"),
    outputs=("output: T",),
    attrs=("keep_dims: bool = false", "T: {realnumbertype, quantizedtype}", f"Tidx: {INDEX} = DT_INT32"),
)
register_op(
    "Prod",
    inputs=("input: T", "reduction_indices: Tidx"),
    outputs=("output: T",),
    attrs=("keep_dims: bool = false", "T: numbertype", f"Tidx: {INDEX} = DT_INT32"),
)
register_op(
    "ReduceJoin",
    inputs=("inputs: string", "reduction_indices: int32"),
    outputs=("output: string",),
    attrs=("keep_dims: bool = false", "separator: string = ''"),
)
register_op(
    "Sum",
    inputs=("input: T", "reduction_indices: Tidx"),
    outputs=("output: T",),
    attrs=("keep_dims: bool = false", "T: numbertype", f"Tidx: {INDEX} = DT_INT32"),
)
