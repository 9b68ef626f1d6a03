"""Slices, gathers, scatters and look-ups by value."""

from __future__ import annotations

from tfjit.ops.declare import register_op
from tfjit.ops.type_lists import INDEX

register_op(
    "Bucketize", inputs=("input: T",), outputs=("output: int32",), attrs=("T: {int32, int64, float, double}", "boundaries: list(float)")
)
register_op(
    "DynamicPartition",
    inputs=("data: T", "partitions: int32"),
    outputs=("outputs: num_partitions * T",),
    attrs=("num_partitions: int >= 1", "T: type"),
)
register_op("DynamicStitch", inputs=("indices: N * int32", "data: N * T"), outputs=("merged: T",), attrs=("N: int >= 1", "T: type"))
register_op(
    "EditDistance",
    inputs=(
        "hypothesis_indices: int64",
        "hypothesis_values: T",
        "hypothesis_shape: int64",
        "truth_indices: int64",
        "truth_values: T",
        "truth_shape: int64",
    ),
    outputs=("output: float",),
    attrs=("normalize: bool = true", "T: type"),
)
register_op(
    "Gather",
    inputs=("params: Tparams", "indices: Tindices"),
    outputs=("output: Tparams",),
    attrs=("validate_indices: bool = true", "Tparams: type", f"Tindices: {INDEX}"),
)
register_op(
    "GatherNd",
    inputs=("params: Tparams", "indices: Tindices"),
    outputs=("output: Tparams",),
    attrs=("Tparams: type", "Tindices: {int16, int32, int64}", "bad_indices_policy: string = ''"),
)
register_op(
    "GatherV2",
    inputs=("params: Tparams", "indices: Tindices", "axis: Taxis"),
    outputs=("output: Tparams",),
    attrs=("batch_dims: int = 0", "Tparams: type", "Tindices: {int16, int32, int64}", f"Taxis: {INDEX}"),
)
register_op("ListDiff", inputs=("x: T", "y: T"), outputs=("out: T", "idx: out_idx"), attrs=("T: type", f"out_idx: {INDEX} = DT_INT32"))
register_op(
    "LowerBound",
    inputs=("sorted_inputs: T", "values: T"),
    outputs=("output: out_type",),
    attrs=("T: type", f"out_type: {INDEX} = DT_INT32"),
)
register_op("MakeUnique", inputs=("input: float",), outputs=("output: float",))
register_op("NthElement", inputs=("input: T", "n: int32"), outputs=("values: T",), attrs=("reverse: bool = false", "T: realnumbertype"))
register_op(
    "OneHot",
    inputs=("indices: TI", "depth: int32", "on_value: T", "off_value: T"),
    outputs=("output: T",),
    attrs=("axis: int = -1", "T: type", "TI: {uint8, int8, int32, int64} = DT_INT64"),
)
register_op("ParallelDynamicStitch", inputs=("indices: N * int32", "data: N * T"), outputs=("merged: T",), attrs=("N: int >= 1", "T: type"))
register_op(
    "ScatterNd",
    inputs=("indices: Tindices", "updates: T", "shape: Tindices"),
    outputs=("output: T",),
    attrs=("T: type", "Tindices: {int16, int32, int64}", "bad_indices_policy: string = ''"),
)
register_op(
    "ScatterNdNonAliasingAdd",
    inputs=("input: T", "indices: Tindices", "updates: T"),
    outputs=("output: T",),
    attrs=("T: {numbertype, bool}", f"Tindices: {INDEX}", "bad_indices_policy: string = ''"),
)
register_op("Slice", inputs=("input: T", "begin: Index", "size: Index"), outputs=("output: T",), attrs=("T: type", f"Index: {INDEX}"))
register_op(
    "StridedSlice",
    inputs=("input: T", "begin: Index", "end: Index", "strides: Index"),
    outputs=("output: T",),
    attrs=(
        "T: type",
        "Index: {int16, int32, int64}",
        "begin_mask: int = 0",
        "end_mask: int = 0",
        "ellipsis_mask: int = 0",
        "new_axis_mask: int = 0",
        "shrink_axis_mask: int = 0",
    ),
)
register_op(
    "StridedSliceGrad",
    inputs=("shape: Index", "begin: Index", "end: Index", "strides: Index", "dy: T"),
    outputs=("output: T",),
    attrs=(
        "T: type",
        f"Index: {INDEX}",
        "begin_mask: int = 0",
        "end_mask: int = 0",
        "ellipsis_mask: int = 0",
        "new_axis_mask: int = 0",
        "shrink_axis_mask: int = 0",
    ),
)
register_op(
    "TensorScatterAdd",
    inputs=("tensor: T", "indices: Tindices", "updates: T"),
    outputs=("output: T",),
    attrs=("T: type", f"Tindices: {INDEX}", "bad_indices_policy: string = ''"),
)
register_op(
    "TensorScatterMax",
    inputs=("tensor: T", "indices: Tindices", "updates: T"),
    outputs=("output: T",),
    attrs=("T: type", f"Tindices: {INDEX}", "bad_indices_policy: string = ''"),
)
register_op(
    "TensorScatterMin",
    inputs=("tensor: T", "indices: Tindices", "updates: T"),
    outputs=("output: T",),
    attrs=("T: type", f"Tindices: {INDEX}", "bad_indices_policy: string = ''"),
)
register_op(
    "TensorScatterSub",
    inputs=("tensor: T", "indices: Tindices", "updates: T"),
    outputs=("output: T",),
    attrs=("T: type", f"Tindices: {INDEX}", "bad_indices_policy: string = ''"),
)
register_op(
    "TensorScatterUpdate",
    inputs=("tensor: T", "indices: Tindices", "updates: T"),
    outputs=("output: T",),
    attrs=("T: type", "Tindices: {int16, int32, int64, uint16}", "bad_indices_policy: string = ''"),
)
register_op(
    "TensorStridedSliceUpdate",
    inputs=("input: T", "begin: Index", "end: Index", "strides: Index", "value: T"),
    outputs=("output: T",),
    attrs=(
        "T: type",
        f"Index: {INDEX}",
        "begin_mask: int = 0",
        "end_mask: int = 0",
        "ellipsis_mask: int = 0",
        "new_axis_mask: int = 0",
        "shrink_axis_mask: int = 0",
    ),
)
register_op("Unique", inputs=("x: T",), outputs=("y: T", "idx: out_idx"), attrs=("T: type", f"out_idx: {INDEX} = DT_INT32"))
register_op(
    "UniqueV2",
    inputs=("x: T", "axis: Taxis"),
    outputs=("y: T", "idx: out_idx"),
    attrs=("T: type", f"Taxis: {INDEX} = DT_INT64", f"out_idx: {INDEX} = DT_INT32"),
)
register_op(
    "UniqueWithCounts",
    inputs=("x: T",),
    outputs=("y: T", "idx: out_idx", "count: out_idx"),
    attrs=("T: type", f"out_idx: {INDEX} = DT_INT32"),
)
register_op(
    "UniqueWithCountsV2",
    inputs=("x: T", "axis: Taxis"),
    outputs=("y: T", "idx: out_idx", "count: out_idx"),
    attrs=("T: type", f"Taxis: {INDEX} = DT_INT64", f"out_idx: {INDEX} = DT_INT32"),
)
register_op("UnravelIndex", inputs=("indices: Tidx", "dims: Tidx"), outputs=("output: Tidx",), attrs=(f"Tidx: {INDEX} = DT_INT32",))
register_op(
    "UpperBound",
    inputs=("sorted_inputs: T", "values: T"),
    outputs=("output: out_type",),
    attrs=("T: type", f"out_type: {INDEX} = DT_INT32"),
)
register_op("Where", inputs=("input: T",), outputs=("index: int64",), attrs=("T: {numbertype, bool} = DT_BOOL",))
