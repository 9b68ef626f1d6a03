"""Segment reductions and histograms."""

from __future__ import annotations

from tfjit.ops.declare import register_op
from tfjit.ops.type_lists import FLOAT, INDEX

register_op(
    "Bincount", inputs=("arr: int32", "size: int32", "weights: T"), outputs=("bins: T",), attrs=("T: {int32, int64, float, double}",)
)
register_op(
    "DenseBincount",
    inputs=("input: Tidx", "size: Tidx", "weights: T"),
    outputs=("output: T",),
    attrs=(f"Tidx: {INDEX}", "T: {int32, int64, float, double}", "binary_output: bool = false"),
)
register_op(
    "HistogramFixedWidth",
    inputs=("values: T", "value_range: T", "nbins: int32"),
    outputs=("out: dtype",),
    attrs=("T: {int32, int64, float, double}", f"dtype: {INDEX} = DT_INT32"),
)
register_op(
    "SegmentMax", inputs=("data: T", "segment_ids: Tindices"), outputs=("output: T",), attrs=("T: realnumbertype", f"Tindices: {INDEX}")
)
register_op(
    "SegmentMaxV2",
    inputs=("data: T", "segment_ids: Tindices", "num_segments: Tnumsegments"),
    outputs=("output: T",),
    attrs=("T: realnumbertype", f"Tindices: {INDEX}", f"Tnumsegments: {INDEX} = DT_INT32"),
)
register_op(
    "SegmentMean", inputs=("data: T", "segment_ids: Tindices"), outputs=("output: T",), attrs=("T: numbertype", f"Tindices: {INDEX}")
)
register_op(
    "SegmentMin", inputs=("data: T", "segment_ids: Tindices"), outputs=("output: T",), attrs=("T: realnumbertype", f"Tindices: {INDEX}")
)
register_op(
    "SegmentMinV2",
    inputs=("data: T", "segment_ids: Tindices", "num_segments: Tnumsegments"),
    outputs=("output: T",),
    attrs=("T: realnumbertype", f"Tindices: {INDEX}", f"Tnumsegments: {INDEX} = DT_INT32"),
)
register_op(
    "SegmentProd", inputs=("data: T", "segment_ids: Tindices"), outputs=("output: T",), attrs=("T: numbertype", f"Tindices: {INDEX}")
)
register_op(
    "SegmentProdV2",
    inputs=("data: T", "segment_ids: Tindices", "num_segments: Tnumsegments"),
    outputs=("output: T",),
    attrs=("T: numbertype", f"Tindices: {INDEX}", f"Tnumsegments: {INDEX} = DT_INT32"),
)
register_op(
    "SegmentSum", inputs=("data: T", "segment_ids: Tindices"), outputs=("output: T",), attrs=("T: numbertype", f"Tindices: {INDEX}")
)
register_op(
    "SegmentSumV2",
    inputs=("data: T", "segment_ids: Tindices", "num_segments: Tnumsegments"),
    outputs=("output: T",),
    attrs=("T: numbertype", f"Tindices: {INDEX}", f"Tnumsegments: {INDEX} = DT_INT32"),
)
register_op(
    "SparseSegmentMean",
    inputs=("data: T", "indices: Tidx", "segment_ids: Tsegmentids"),
    outputs=("output: T",),
    attrs=(f"T: {FLOAT}", f"Tidx: {INDEX} = DT_INT32", f"Tsegmentids: {INDEX} = DT_INT32", "sparse_gradient: bool = false"),
)
register_op(
    "SparseSegmentMeanGrad",
    inputs=("grad: T", "indices: Tidx", "segment_ids: Tsegmentids", "output_dim0: int32"),
    outputs=("output: T",),
    attrs=(f"T: {FLOAT}", f"Tidx: {INDEX} = DT_INT32", f"Tsegmentids: {INDEX} = DT_INT32"),
)
register_op(
    "SparseSegmentMeanGradV2",
    inputs=("grad: T", "indices: Tidx", "segment_ids: Tsegmentids", "dense_output_dim0: int32"),
    outputs=("output: T", "sorted_unique_indices: Tidx"),
    attrs=(f"T: {FLOAT}", f"Tidx: {INDEX} = DT_INT32", f"Tsegmentids: {INDEX} = DT_INT32"),
)
register_op(
    "SparseSegmentMeanWithNumSegments",
    inputs=("data: T", "indices: Tidx", "segment_ids: Tsegmentids", "num_segments: Tnumsegments"),
    outputs=("output: T",),
    attrs=(
        f"T: {FLOAT}",
        f"Tidx: {INDEX} = DT_INT32",
        f"Tnumsegments: {INDEX} = DT_INT32",
        f"Tsegmentids: {INDEX} = DT_INT32",
        "sparse_gradient: bool = false",
    ),
)
register_op(
    "SparseSegmentSqrtN",
    inputs=("data: T", "indices: Tidx", "segment_ids: Tsegmentids"),
    outputs=("output: T",),
    attrs=(f"T: {FLOAT}", f"Tidx: {INDEX} = DT_INT32", f"Tsegmentids: {INDEX} = DT_INT32", "sparse_gradient: bool = false"),
)
register_op(
    "SparseSegmentSqrtNGrad",
    inputs=("grad: T", "indices: Tidx", "segment_ids: Tsegmentids", "output_dim0: int32"),
    outputs=("output: T",),
    attrs=(f"T: {FLOAT}", f"Tidx: {INDEX} = DT_INT32", f"Tsegmentids: {INDEX} = DT_INT32"),
)
register_op(
    "SparseSegmentSqrtNGradV2",
    inputs=("grad: T", "indices: Tidx", "segment_ids: Tsegmentids", "dense_output_dim0: int32"),
    outputs=("output: T", "sorted_unique_indices: Tidx"),
    attrs=(f"T: {FLOAT}", f"Tidx: {INDEX} = DT_INT32", f"Tsegmentids: {INDEX} = DT_INT32"),
)
register_op(
    "SparseSegmentSqrtNWithNumSegments",
    inputs=("data: T", "indices: Tidx", "segment_ids: Tsegmentids", "num_segments: Tnumsegments"),
    outputs=("output: T",),
    attrs=(
        f"T: {FLOAT}",
        f"Tidx: {INDEX} = DT_INT32",
        f"Tnumsegments: {INDEX} = DT_INT32",
        f"Tsegmentids: {INDEX} = DT_INT32",
        "sparse_gradient: bool = false",
    ),
)
register_op(
    "SparseSegmentSum",
    inputs=("data: T", "indices: Tidx", "segment_ids: Tsegmentids"),
    outputs=("output: T",),
    attrs=("T: realnumbertype", f"Tidx: {INDEX} = DT_INT32", f"Tsegmentids: {INDEX} = DT_INT32", "sparse_gradient: bool = false"),
)
register_op(
    "SparseSegmentSumGrad",
    inputs=("grad: T", "indices: Tidx", "segment_ids: Tsegmentids", "output_dim0: int32"),
    outputs=("output: T",),
    attrs=(f"T: {FLOAT}", f"Tidx: {INDEX} = DT_INT32", f"Tsegmentids: {INDEX} = DT_INT32"),
)
register_op(
    "SparseSegmentSumGradV2",
    inputs=("grad: T", "indices: Tidx", "segment_ids: Tsegmentids", "dense_output_dim0: int32"),
    outputs=("output: T", "sorted_unique_indices: Tidx"),
    attrs=(f"T: {FLOAT}", f"Tidx: {INDEX} = DT_INT32", f"Tsegmentids: {INDEX} = DT_INT32"),
)
register_op(
    "SparseSegmentSumWithNumSegments",
    inputs=("data: T", "indices: Tidx", "segment_ids: Tsegmentids", "num_segments: Tnumsegments"),
    outputs=("output: T",),
    attrs=(
        "T: realnumbertype",
        f"Tidx: {INDEX} = DT_INT32",
        f"Tnumsegments: {INDEX} = DT_INT32",
        f"Tsegmentids: {INDEX} = DT_INT32",
        "sparse_gradient: bool = false",
    ),
)
register_op(
    "UnsortedSegmentJoin",
    inputs=("inputs: string", "segment_ids: Tindices", "num_segments: Tnumsegments"),
    outputs=("output: string",),
    attrs=("separator: string = ''", f"Tindices: {INDEX}", f"Tnumsegments: {INDEX} = DT_INT32"),
)
register_op(
    "UnsortedSegmentMax",
    inputs=("data: T", "segment_ids: Tindices", "num_segments: Tnumsegments"),
    outputs=("output: T",),
    attrs=("T: realnumbertype", f"Tindices: {INDEX}", f"Tnumsegments: {INDEX} = DT_INT32"),
)
register_op(
    "UnsortedSegmentMin",
    inputs=("data: T", "segment_ids: Tindices", "num_segments: Tnumsegments"),
    outputs=("output: T",),
    attrs=("T: realnumbertype", f"Tindices: {INDEX}", f"Tnumsegments: {INDEX} = DT_INT32"),
)
register_op(
    "UnsortedSegmentProd",
    inputs=("data: T", "segment_ids: Tindices", "num_segments: Tnumsegments"),
    outputs=("output: T",),
    attrs=("T: numbertype", f"Tindices: {INDEX}", f"Tnumsegments: {INDEX} = DT_INT32"),
)
register_op(
    "UnsortedSegmentSum",
    inputs=("data: T", "segment_ids: Tindices", "num_segments: Tnumsegments"),
    outputs=("output: T",),
    attrs=("T: numbertype", "Tindices: {int16, int32, int64}", f"Tnumsegments: {INDEX} = DT_INT32"),
)
