"""Define segment reductions and histograms."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.op_defs.op_traits import SIZED_BY_VALUES
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import as_dtype
from tfjit.ops.core.apply import tensor
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.dispatch import dispatched
from tfjit.ops.core.shape_rules import Shapes, fail, int_constant
from tfjit.ops.core.type_lists import FLOAT, INDEX

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DTypeLike, TensorLike


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
for _op_type in ("SegmentMax", "SegmentMin"):
    register_op(
        _op_type,
        inputs=("data: T", "segment_ids: Tindices"),
        outputs=("output: T",),
        attrs=("T: realnumbertype", f"Tindices: {INDEX}"),
        shape=_segment,
        traits=SIZED_BY_VALUES,
    )
for _op_type in ("SegmentMaxV2", "SegmentMinV2"):
    register_op(
        _op_type,
        inputs=("data: T", "segment_ids: Tindices", "num_segments: Tnumsegments"),
        outputs=("output: T",),
        attrs=("T: realnumbertype", f"Tindices: {INDEX}", f"Tnumsegments: {INDEX} = DT_INT32"),
        shape=_segment_v2,
    )
for _op_type in ("SegmentMean", "SegmentProd", "SegmentSum"):
    register_op(
        _op_type,
        inputs=("data: T", "segment_ids: Tindices"),
        outputs=("output: T",),
        attrs=("T: numbertype", f"Tindices: {INDEX}"),
        shape=_segment,
        traits=SIZED_BY_VALUES,
    )
for _op_type in ("SegmentProdV2", "SegmentSumV2"):
    register_op(
        _op_type,
        inputs=("data: T", "segment_ids: Tindices", "num_segments: Tnumsegments"),
        outputs=("output: T",),
        attrs=("T: numbertype", f"Tindices: {INDEX}", f"Tnumsegments: {INDEX} = DT_INT32"),
        shape=_segment_v2,
    )
for _op_type in ("SparseSegmentMean", "SparseSegmentSqrtN"):
    register_op(
        _op_type,
        inputs=("data: T", "indices: Tidx", "segment_ids: Tsegmentids"),
        outputs=("output: T",),
        attrs=(
            f"T: {FLOAT}",
            f"Tidx: {INDEX} = DT_INT32",
            f"Tsegmentids: {INDEX} = DT_INT32",
            "sparse_gradient: bool = false",
        ),
        shape=_sparse_segment,
        traits=SIZED_BY_VALUES,
    )
for _op_type in ("SparseSegmentMeanGrad", "SparseSegmentSqrtNGrad", "SparseSegmentSumGrad"):
    register_op(
        _op_type,
        inputs=("grad: T", "indices: Tidx", "segment_ids: Tsegmentids", "output_dim0: int32"),
        outputs=("output: T",),
        attrs=(f"T: {FLOAT}", f"Tidx: {INDEX} = DT_INT32", f"Tsegmentids: {INDEX} = DT_INT32"),
        shape=_sparse_segment_grad,
    )
for _op_type in ("SparseSegmentMeanGradV2", "SparseSegmentSqrtNGradV2", "SparseSegmentSumGradV2"):
    register_op(
        _op_type,
        inputs=("grad: T", "indices: Tidx", "segment_ids: Tsegmentids", "dense_output_dim0: int32"),
        outputs=("output: T", "sorted_unique_indices: Tidx"),
        attrs=(f"T: {FLOAT}", f"Tidx: {INDEX} = DT_INT32", f"Tsegmentids: {INDEX} = DT_INT32"),
        traits=SIZED_BY_VALUES,
    )
for _op_type in ("SparseSegmentMeanWithNumSegments", "SparseSegmentSqrtNWithNumSegments"):
    register_op(
        _op_type,
        inputs=(
            "data: T",
            "indices: Tidx",
            "segment_ids: Tsegmentids",
            "num_segments: Tnumsegments",
        ),
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
    attrs=(
        "T: realnumbertype",
        f"Tidx: {INDEX} = DT_INT32",
        f"Tsegmentids: {INDEX} = DT_INT32",
        "sparse_gradient: bool = false",
    ),
    shape=_sparse_segment,
    traits=SIZED_BY_VALUES,
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
for _op_type in ("UnsortedSegmentMax", "UnsortedSegmentMin"):
    register_op(
        _op_type,
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


def _sorted(op_type: str, text: str) -> Callable[..., Tensor]:
    def segment(data: TensorLike, segment_ids: TensorLike, name: str | None = None) -> Tensor:
        return tensor(op_type, name, data=data, segment_ids=segment_ids)

    segment.__doc__ = (
        f"{text} of the rows of each segment; ids are sorted, a segment without "
        "rows "
        "gives the op's neutral value."
    )
    return segment


def _unsorted(op_type: str, text: str) -> Callable[..., Tensor]:
    def segment(
        data: TensorLike, segment_ids: TensorLike, num_segments: TensorLike, name: str | None = None
    ) -> Tensor:
        return tensor(op_type, name, data=data, segment_ids=segment_ids, num_segments=num_segments)

    segment.__doc__ = (
        f"{text} of the entries of each segment, in any order; negative ids are left out."
    )
    return dispatched(segment)


segment_sum = _sorted("SegmentSum", "The sum")
segment_mean = _sorted("SegmentMean", "The mean")
segment_prod = _sorted("SegmentProd", "The product")
segment_max = _sorted("SegmentMax", "The maximum")
segment_min = _sorted("SegmentMin", "The minimum")
unsorted_segment_sum = _unsorted("UnsortedSegmentSum", "The sum")
unsorted_segment_prod = _unsorted("UnsortedSegmentProd", "The product")
unsorted_segment_max = _unsorted("UnsortedSegmentMax", "The maximum")
unsorted_segment_min = _unsorted("UnsortedSegmentMin", "The minimum")


def _counts(data: Tensor, segment_ids: TensorLike, num_segments: TensorLike) -> Tensor:
    """Return each segment's number of entries, at least 1.

    The result is shaped to divide by.
    """
    ids = convert_to_tensor(segment_ids)
    flat = tensor("Reshape", None, tensor=ids, shape=[-1])
    ones = tensor("OnesLike", None, x=tensor("Cast", None, x=flat, DstT=data.dtype.base_dtype))
    n = unsorted_segment_sum(ones, flat, num_segments)
    if data.shape.rank is None or ids.shape.rank is None:
        inner = tensor(
            "Sub", None, x=tensor("Rank", None, input=data), y=tensor("Rank", None, input=ids)
        )
        ones = tensor("Fill", None, dims=tensor("ExpandDims", None, input=inner, dim=0), value=1)
        wide = tensor(
            "Reshape", None, tensor=n, shape=tensor("ConcatV2", None, values=[[-1], ones], axis=0)
        )
    else:
        wide = tensor(
            "Reshape", None, tensor=n, shape=[-1, *[1] * (data.shape.rank - ids.shape.rank)]
        )
    return tensor("Maximum", None, x=wide, y=convert_to_tensor(1, data.dtype.base_dtype))


@dispatched
def unsorted_segment_mean(
    data: TensorLike, segment_ids: TensorLike, num_segments: TensorLike, name: str | None = None
) -> Tensor:
    """Return the mean of each segment's entries; 0 for an empty segment."""
    with name_scope(name, "UnsortedSegmentMean"):
        data = convert_to_tensor(data)
        total = unsorted_segment_sum(data, segment_ids, num_segments)
        return tensor("RealDiv", None, x=total, y=_counts(data, segment_ids, num_segments))


@dispatched
def unsorted_segment_sqrt_n(
    data: TensorLike, segment_ids: TensorLike, num_segments: TensorLike, name: str | None = None
) -> Tensor:
    """Return each segment's sum over the square root of its size."""
    with name_scope(name, "UnsortedSegmentSqrtN"):
        data = convert_to_tensor(data)
        total = unsorted_segment_sum(data, segment_ids, num_segments)
        return tensor(
            "RealDiv",
            None,
            x=total,
            y=tensor("Sqrt", None, x=_counts(data, segment_ids, num_segments)),
        )


def _sparse(public: str, op_type: str, text: str) -> Callable[..., Tensor]:
    def segment(
        data: TensorLike,
        indices: TensorLike,
        segment_ids: TensorLike,
        name: str | None = None,
        num_segments: TensorLike | None = None,
        sparse_gradient: bool = False,
    ) -> Tensor:
        arguments = {
            "data": data,
            "indices": indices,
            "segment_ids": segment_ids,
            "sparse_gradient": sparse_gradient,
        }
        if num_segments is not None:
            return tensor(f"{op_type}WithNumSegments", name, **arguments, num_segments=num_segments)
        return tensor(op_type, name, **arguments)

    segment.__name__ = segment.__qualname__ = public
    segment.__doc__ = (
        f"{text} of the rows `indices` of `data`, by segment. sparse_gradient: the "
        "gradient of data is IndexedSlices."
    )
    return segment


sparse_segment_sum = _sparse("sparse_segment_sum", "SparseSegmentSum", "The sum")
sparse_segment_mean = _sparse("sparse_segment_mean", "SparseSegmentMean", "The mean")
sparse_segment_sqrt_n = _sparse(
    "sparse_segment_sqrt_n", "SparseSegmentSqrtN", "The sum over the square root of the number"
)


@dispatched
def bincount(
    arr: TensorLike,
    weights: TensorLike | None = None,
    minlength: Any = None,
    maxlength: Any = None,
    dtype: DTypeLike = dtypes.int32,
    name: str | None = None,
) -> Tensor:
    """Count each of 0, 1, .. among non-negative integers.

    With weights, each occurrence counts by its weight.
    """
    with name_scope(name, "bincount"):
        values = convert_to_tensor(arr, name="arr", dtype=dtypes.int32)
        flat = tensor("Reshape", None, tensor=values, shape=[-1])
        top = tensor(
            "Max",
            None,
            input=tensor("ConcatV2", None, values=[flat, [-1]], axis=0),
            reduction_indices=[0],
        )
        size = tensor("AddV2", None, x=top, y=1)
        if minlength is not None:
            size = tensor("Maximum", None, x=size, y=convert_to_tensor(minlength, dtypes.int32))
        if maxlength is not None:
            size = tensor("Minimum", None, x=size, y=convert_to_tensor(maxlength, dtypes.int32))
        given = (
            convert_to_tensor([], dtype=as_dtype(dtype))
            if weights is None
            else convert_to_tensor(weights, name="weights")
        )
        return tensor("Bincount", None, arr=values, size=size, weights=given)


def histogram_fixed_width(
    values: TensorLike,
    value_range: TensorLike,
    nbins: TensorLike = 100,
    dtype: DTypeLike = dtypes.int32,
    name: str | None = None,
) -> Tensor:
    """Count the values in each of `nbins` equal bins of a range.

    Values outside of the range count in the first or last bin.
    """
    with name_scope(name, "histogram_fixed_width", [values, value_range, nbins]) as scope:
        return tensor(
            "HistogramFixedWidth",
            scope,
            values=values,
            value_range=value_range,
            nbins=nbins,
            dtype=as_dtype(dtype),
        )
