"""Segment reductions and histograms."""

from __future__ import annotations

from tfjit.framework.shape_context import ShapeContext
from tfjit.ops.declare import register_op
from tfjit.ops.shape_rules import Shapes, fail, int_constant
from tfjit.ops.type_lists import FLOAT, INDEX


def _segment(c: ShapeContext) -> Shapes:
    data = c.with_rank_at_least(0, 1)
    c.with_rank(1, 1)
    return [None if data is None else (None, *data[1:])]


def _segment_with_count(c: ShapeContext) -> Shapes:
    data, ids = c.inputs[0], c.inputs[1]
    c.with_rank(2, 0)
    if ids is None:
        return [None]
    num = int_constant(c, 2)
    if num is not None and num < 0:
        raise fail(f"Dimension size, given by scalar input 2, must be non-negative but is {num}")
    if data is None:
        return [None]
    c.with_rank_at_least(data, len(ids))
    c.merge(data[: len(ids)], ids)
    return [(num, *data[len(ids) :])]


def _segment_v2(c: ShapeContext) -> Shapes:
    data = c.with_rank_at_least(0, 1)
    (ids,) = c.with_rank(1, 1)
    c.with_rank(2, 0)
    num = int_constant(c, 2)
    if data is None:
        return [None]
    c.merge_dim(data[0], ids)
    return [(num, *data[1:])]


def _sparse_segment(c: ShapeContext) -> Shapes:
    data = c.with_rank_at_least(0, 1)
    (indices,) = c.with_rank(1, 1)
    (ids,) = c.with_rank(2, 1)
    c.merge_dim(indices, ids)
    return [None if data is None else (None, *data[1:])]


def _sparse_segment_with_count(c: ShapeContext) -> Shapes:
    data = c.with_rank_at_least(0, 1)
    (indices,) = c.with_rank(1, 1)
    (ids,) = c.with_rank(2, 1)
    c.merge_dim(indices, ids)
    c.with_rank(3, 0)
    num = int_constant(c, 3)
    if num is not None and num < 0:
        raise fail("Cannot specify a negative value for num_segments")
    return [None if data is None else (num, *data[1:])]


def _sparse_segment_grad(c: ShapeContext) -> Shapes:
    data = c.with_rank_at_least(0, 1)
    indices = c.with_rank(1, 1)
    c.merge(c.inputs[2], indices)
    c.with_rank(3, 0)
    rows = int_constant(c, 3)
    return [None if data is None else (rows, *data[1:])]


def _bincount(c: ShapeContext) -> Shapes:
    c.with_rank(1, 0)
    size = int_constant(c, 1)
    if size is not None and size < 0:
        raise fail(f"size ({size}) must be non-negative")
    return [(size,)]


def _dense_bincount(c: ShapeContext) -> Shapes:
    c.with_rank(1, 0)
    shape = c.inputs[0]
    if shape is not None and len(shape) > 2:
        raise fail(f"Shape must be at most rank 2 but is rank {len(shape)}")
    size = int_constant(c, 1)
    if size is not None and size < 0:
        raise fail(f"size ({size}) must be non-negative")
    if shape is None:
        return [None]
    return [(size,) if len(shape) < 2 else (shape[0], size)]


def _histogram(c: ShapeContext) -> Shapes:
    c.with_rank(1, 1)
    c.with_rank(2, 0)
    bins = int_constant(c, 2)
    if bins is not None and bins <= 0:
        raise fail("Requires nbins to be positive.")
    return [(bins,)]


register_op(
    "Bincount",
    inputs=("arr: int32", "size: int32", "weights: T"),
    outputs=("bins: T",),
    attrs=("T: {int32, int64, float, double}",),
    shape=_bincount,
)
register_op(
    "DenseBincount",
    inputs=("input: Tidx", "size: Tidx", "weights: T"),
    outputs=("output: T",),
    attrs=(f"Tidx: {INDEX}", "T: {int32, int64, float, double}", "binary_output: bool = false"),
    shape=_dense_bincount,
)
register_op(
    "HistogramFixedWidth",
    inputs=("values: T", "value_range: T", "nbins: int32"),
    outputs=("out: dtype",),
    attrs=("T: {int32, int64, float, double}", f"dtype: {INDEX} = DT_INT32"),
    shape=_histogram,
)
register_op(
    "SegmentMax",
    inputs=("data: T", "segment_ids: Tindices"),
    outputs=("output: T",),
    attrs=("T: realnumbertype", f"Tindices: {INDEX}"),
    shape=_segment,
)
register_op(
    "SegmentMaxV2",
    inputs=("data: T", "segment_ids: Tindices", "num_segments: Tnumsegments"),
    outputs=("output: T",),
    attrs=("T: realnumbertype", f"Tindices: {INDEX}", f"Tnumsegments: {INDEX} = DT_INT32"),
    shape=_segment_v2,
)
register_op(
    "SegmentMean",
    inputs=("data: T", "segment_ids: Tindices"),
    outputs=("output: T",),
    attrs=("T: numbertype", f"Tindices: {INDEX}"),
    shape=_segment,
)
register_op(
    "SegmentMin",
    inputs=("data: T", "segment_ids: Tindices"),
    outputs=("output: T",),
    attrs=("T: realnumbertype", f"Tindices: {INDEX}"),
    shape=_segment,
)
register_op(
    "SegmentMinV2",
    inputs=("data: T", "segment_ids: Tindices", "num_segments: Tnumsegments"),
    outputs=("output: T",),
    attrs=("T: realnumbertype", f"Tindices: {INDEX}", f"Tnumsegments: {INDEX} = DT_INT32"),
    shape=_segment_v2,
)
register_op(
    "SegmentProd",
    inputs=("data: T", "segment_ids: Tindices"),
    outputs=("output: T",),
    attrs=("T: numbertype", f"Tindices: {INDEX}"),
    shape=_segment,
)
register_op(
    "SegmentProdV2",
    inputs=("data: T", "segment_ids: Tindices", "num_segments: Tnumsegments"),
    outputs=("output: T",),
    attrs=("T: numbertype", f"Tindices: {INDEX}", f"Tnumsegments: {INDEX} = DT_INT32"),
    shape=_segment_v2,
)
register_op(
    "SegmentSum",
    inputs=("data: T", "segment_ids: Tindices"),
    outputs=("output: T",),
    attrs=("T: numbertype", f"Tindices: {INDEX}"),
    shape=_segment,
)
register_op(
    "SegmentSumV2",
    inputs=("data: T", "segment_ids: Tindices", "num_segments: Tnumsegments"),
    outputs=("output: T",),
    attrs=("T: numbertype", f"Tindices: {INDEX}", f"Tnumsegments: {INDEX} = DT_INT32"),
    shape=_segment_v2,
)
register_op(
    "SparseSegmentMean",
    inputs=("data: T", "indices: Tidx", "segment_ids: Tsegmentids"),
    outputs=("output: T",),
    attrs=(f"T: {FLOAT}", f"Tidx: {INDEX} = DT_INT32", f"Tsegmentids: {INDEX} = DT_INT32", "sparse_gradient: bool = false"),
    shape=_sparse_segment,
)
register_op(
    "SparseSegmentMeanGrad",
    inputs=("grad: T", "indices: Tidx", "segment_ids: Tsegmentids", "output_dim0: int32"),
    outputs=("output: T",),
    attrs=(f"T: {FLOAT}", f"Tidx: {INDEX} = DT_INT32", f"Tsegmentids: {INDEX} = DT_INT32"),
    shape=_sparse_segment_grad,
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
    shape=_sparse_segment_with_count,
)
register_op(
    "SparseSegmentSqrtN",
    inputs=("data: T", "indices: Tidx", "segment_ids: Tsegmentids"),
    outputs=("output: T",),
    attrs=(f"T: {FLOAT}", f"Tidx: {INDEX} = DT_INT32", f"Tsegmentids: {INDEX} = DT_INT32", "sparse_gradient: bool = false"),
    shape=_sparse_segment,
)
register_op(
    "SparseSegmentSqrtNGrad",
    inputs=("grad: T", "indices: Tidx", "segment_ids: Tsegmentids", "output_dim0: int32"),
    outputs=("output: T",),
    attrs=(f"T: {FLOAT}", f"Tidx: {INDEX} = DT_INT32", f"Tsegmentids: {INDEX} = DT_INT32"),
    shape=_sparse_segment_grad,
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
    shape=_sparse_segment_with_count,
)
register_op(
    "SparseSegmentSum",
    inputs=("data: T", "indices: Tidx", "segment_ids: Tsegmentids"),
    outputs=("output: T",),
    attrs=("T: realnumbertype", f"Tidx: {INDEX} = DT_INT32", f"Tsegmentids: {INDEX} = DT_INT32", "sparse_gradient: bool = false"),
    shape=_sparse_segment,
)
register_op(
    "SparseSegmentSumGrad",
    inputs=("grad: T", "indices: Tidx", "segment_ids: Tsegmentids", "output_dim0: int32"),
    outputs=("output: T",),
    attrs=(f"T: {FLOAT}", f"Tidx: {INDEX} = DT_INT32", f"Tsegmentids: {INDEX} = DT_INT32"),
    shape=_sparse_segment_grad,
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
    shape=_sparse_segment_with_count,
)
register_op(
    "UnsortedSegmentJoin",
    inputs=("inputs: string", "segment_ids: Tindices", "num_segments: Tnumsegments"),
    outputs=("output: string",),
    attrs=("separator: string = ''", f"Tindices: {INDEX}", f"Tnumsegments: {INDEX} = DT_INT32"),
    shape=_segment_with_count,
)
register_op(
    "UnsortedSegmentMax",
    inputs=("data: T", "segment_ids: Tindices", "num_segments: Tnumsegments"),
    outputs=("output: T",),
    attrs=("T: realnumbertype", f"Tindices: {INDEX}", f"Tnumsegments: {INDEX} = DT_INT32"),
    shape=_segment_with_count,
)
register_op(
    "UnsortedSegmentMin",
    inputs=("data: T", "segment_ids: Tindices", "num_segments: Tnumsegments"),
    outputs=("output: T",),
    attrs=("T: realnumbertype", f"Tindices: {INDEX}", f"Tnumsegments: {INDEX} = DT_INT32"),
    shape=_segment_with_count,
)
register_op(
    "UnsortedSegmentProd",
    inputs=("data: T", "segment_ids: Tindices", "num_segments: Tnumsegments"),
    outputs=("output: T",),
    attrs=("T: numbertype", f"Tindices: {INDEX}", f"Tnumsegments: {INDEX} = DT_INT32"),
    shape=_segment_with_count,
)
register_op(
    "UnsortedSegmentSum",
    inputs=("data: T", "segment_ids: Tindices", "num_segments: Tnumsegments"),
    outputs=("output: T",),
    attrs=("T: numbertype", "Tindices: {int16, int32, int64}", f"Tnumsegments: {INDEX} = DT_INT32"),
    shape=_segment_with_count,
)
