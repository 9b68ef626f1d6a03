"""Define gradients of sums of segments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.indexed_slices import IndexedSlices
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.framework.types import dtypes
from tfjit.ops import raw_ops as raw
from tfjit.ops.autodiff.terms import like
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients


@RegisterGradient("SegmentSum")
def _segment_sum(op: Operation, grad: Tensor) -> Gradients:
    return raw.GatherV2(params=grad, indices=op.inputs[1], axis=0), None


@RegisterGradient("SegmentMean")
def _segment_mean(op: Operation, grad: Tensor) -> Gradients:
    x, ids = op.inputs
    rank = raw.Rank(input=x)
    ones_shape = raw.ConcatV2(
        values=[
            raw.Shape(input=ids),
            raw.Fill(dims=raw.ExpandDims(input=rank - 1, dim=0), value=convert_to_tensor(1)),
        ],
        axis=0,
    )
    ones = raw.Fill(dims=ones_shape, value=like(1.0, x))
    return raw.GatherV2(
        params=grad / raw.SegmentSum(data=ones, segment_ids=ids), indices=ids, axis=0
    ), None


@RegisterGradient("SegmentMax")
@RegisterGradient("SegmentMin")
def _segment_extremum(op: Operation, grad: Tensor) -> Gradients:
    x, ids = op.inputs
    chosen = raw.Equal(x=x, y=raw.GatherV2(params=op.outputs[0], indices=ids, axis=0))
    count = raw.SegmentSum(data=raw.Cast(x=chosen, DstT=grad.dtype.base_dtype), segment_ids=ids)
    gathered = raw.GatherV2(params=grad / count, indices=ids, axis=0)
    return raw.Select(condition=chosen, t=gathered, e=raw.ZerosLike(x=gathered)), None


def _of_other_factors(x: Tensor, product: Tensor, without_zeros: Tensor) -> Tensor:
    """Return each element's product with the others of its segment, without itself.

    product, without_zeros: of each element's segment; zeros are left out of the second. It serves
    the only zero of a segment; segments of several are the caller's.
    """
    is_zero = raw.Equal(x=x, y=like(0.0, x))
    safe = raw.SelectV2(condition=is_zero, t=raw.OnesLike(x=x), e=x)
    return raw.SelectV2(condition=is_zero, t=without_zeros, e=product / safe)


def _zeros_and_others(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return flags of zeros (int32), and the elements with ones there."""
    is_zero = raw.Equal(x=x, y=like(0.0, x))
    others = raw.SelectV2(condition=is_zero, t=raw.OnesLike(x=x), e=x)
    return raw.Cast(x=is_zero, DstT=dtypes.int32), others


def _unless_several(zeros: Tensor, grad: Tensor) -> Tensor:
    """Return a gradient, 0 in segments of several zeros."""
    several = raw.Greater(x=zeros, y=convert_to_tensor(1))
    return raw.SelectV2(condition=several, t=raw.ZerosLike(x=grad), e=grad)


@RegisterGradient("SegmentProd")
def _segment_prod(op: Operation, grad: Tensor) -> Gradients:
    x, ids = op.inputs
    zeros, others = _zeros_and_others(x)
    grad = _unless_several(raw.SegmentSum(data=zeros, segment_ids=ids), grad)
    rest = raw.SegmentProd(data=others, segment_ids=ids)
    spread, product, rest = (
        raw.GatherV2(params=rows, indices=ids, axis=0) for rows in (grad, op.outputs[0], rest)
    )
    return spread * _of_other_factors(x, product, rest), None


def _gather_or_zero(rows: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return rows by id, and a mask of non-negative ids.

    A row is zeros where its id is negative (those segments were dropped). The mask has the rows'
    rank.
    """
    clipped = raw.Maximum(x=ids, y=raw.ZerosLike(x=ids))
    found = raw.GatherV2(params=rows, indices=clipped, axis=0)
    there = raw.GreaterEqual(x=ids, y=raw.ZerosLike(x=ids))
    extra = raw.Rank(input=found) - raw.Rank(input=there)
    ones = raw.Fill(dims=raw.ExpandDims(input=extra, dim=0), value=convert_to_tensor(1))
    shape = raw.ConcatV2(values=[raw.Shape(input=there), ones], axis=0)
    there = raw.BroadcastTo(
        input=raw.Reshape(tensor=there, shape=shape), shape=raw.Shape(input=found)
    )
    return raw.SelectV2(condition=there, t=found, e=raw.ZerosLike(x=found)), there


@RegisterGradient("UnsortedSegmentSum")
def _unsorted_segment_sum(op: Operation, grad: Tensor) -> Gradients:
    return _gather_or_zero(grad, op.inputs[1])[0], None, None


@RegisterGradient("UnsortedSegmentMax")
@RegisterGradient("UnsortedSegmentMin")
def _unsorted_segment_extremum(op: Operation, grad: Tensor) -> Gradients:
    x, ids, number = op.inputs
    values, there = _gather_or_zero(op.outputs[0], ids)
    chosen = raw.LogicalAnd(x=raw.Equal(x=x, y=values), y=there)
    count = raw.UnsortedSegmentSum(
        data=raw.Cast(x=chosen, DstT=grad.dtype.base_dtype), segment_ids=ids, num_segments=number
    )
    gathered = _gather_or_zero(grad / count, ids)[0]
    return raw.SelectV2(condition=chosen, t=gathered, e=raw.ZerosLike(x=gathered)), None, None


@RegisterGradient("UnsortedSegmentProd")
def _unsorted_segment_prod(op: Operation, grad: Tensor) -> Gradients:
    x, ids, number = op.inputs
    zeros, others = _zeros_and_others(x)
    segments = {"segment_ids": ids, "num_segments": number}
    grad = _unless_several(raw.UnsortedSegmentSum(data=zeros, **segments), grad)
    rest = raw.UnsortedSegmentProd(data=others, **segments)
    spread, product, rest = (_gather_or_zero(rows, ids)[0] for rows in (grad, op.outputs[0], rest))
    return spread * _of_other_factors(x, product, rest), None, None


@RegisterGradient("SparseSegmentMean")
@RegisterGradient("SparseSegmentSqrtN")
@RegisterGradient("SparseSegmentSumWithNumSegments")
@RegisterGradient("SparseSegmentMeanWithNumSegments")
@RegisterGradient("SparseSegmentSqrtNWithNumSegments")
def _sparse_segments(op: Operation, grad: Tensor) -> Gradients:
    """Return the gradient of rows that segments were made of.

    It is dense, or IndexedSlices where the node asks for them.
    """
    x, indices, ids = op.inputs[:3]
    kind = op.type.removesuffix("WithNumSegments")
    rows = raw.Shape(input=x)[0]
    rest = [None] * (len(op.inputs) - 1)
    if op.get_attr("sparse_gradient"):
        made = getattr(raw, f"{kind}GradV2")(
            grad=grad, indices=indices, segment_ids=ids, dense_output_dim0=rows
        )
        return IndexedSlices(made[0], made[1], raw.Shape(input=x)), *rest
    return getattr(raw, f"{kind}Grad")(
        grad=grad, indices=indices, segment_ids=ids, output_dim0=rows
    ), *rest


@RegisterGradient("SparseSegmentSum")
def _sparse_segment_sum(op: Operation, grad: Tensor) -> Gradients:
    if op.get_attr("sparse_gradient"):
        return _sparse_segments(op, grad)
    x, indices, ids = op.inputs
    rows = raw.GatherV2(params=grad, indices=ids, axis=0)
    return (
        raw.UnsortedSegmentSum(data=rows, segment_ids=indices, num_segments=raw.Shape(input=x)[0]),
        None,
        None,
    )
