"""Gradients of reductions, scans and segment reductions."""

from __future__ import annotations

from typing import Any

from tfjit.framework.graphs.indexed_slices import IndexedSlices
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import NotDifferentiable, RegisterGradient, register
from tfjit.framework.types import dtypes
from tfjit.ops import raw_ops as raw
from tfjit.ops.autodiff.elementwise import conj, like
from tfjit.ops.core.convert import convert_to_tensor


def kept_dims_shape(x: Tensor, axes: Tensor) -> Tensor:
    """The shape of x reduced along `axes`, with 1 for those: int32[rank]."""
    shape = raw.Shape(input=x)
    rank = raw.Size(input=shape)
    axes = raw.Reshape(tensor=raw.Cast(x=axes, DstT=dtypes.int32), shape=convert_to_tensor([-1]))
    axes = raw.FloorMod(x=axes + rank, y=rank)
    ones = raw.Fill(dims=raw.Shape(input=axes), value=convert_to_tensor(1))
    return raw.DynamicStitch(
        indices=[raw.Range(start=0, limit=rank, delta=1), axes], data=[shape, ones]
    )


def _spread(op: Operation, grad: Tensor) -> Tensor:
    """A reduction's gradient at every element that went into it."""
    x, axes = op.inputs
    return raw.BroadcastTo(
        input=raw.Reshape(tensor=grad, shape=kept_dims_shape(x, axes)), shape=raw.Shape(input=x)
    )


@RegisterGradient("Sum")
def _sum(op: Operation, grad: Tensor) -> Any:
    return _spread(op, grad), None


@RegisterGradient("Mean")
def _mean(op: Operation, grad: Tensor) -> Any:
    sizes = raw.Size(input=op.inputs[0]), raw.Size(input=op.outputs[0])
    factor = raw.FloorDiv(x=sizes[0], y=raw.Maximum(x=sizes[1], y=convert_to_tensor(1)))
    return raw.RealDiv(x=_spread(op, grad), y=raw.Cast(x=factor, DstT=grad.dtype.base_dtype)), None


@RegisterGradient("Max")
@RegisterGradient("Min")
def _extremum(op: Operation, grad: Tensor) -> Any:
    """Elements that are the extremum share the gradient."""
    x, axes = op.inputs
    shape = kept_dims_shape(x, axes)
    y = raw.Reshape(tensor=op.outputs[0], shape=shape)
    grad = raw.Reshape(tensor=grad, shape=shape)
    chosen = raw.Cast(x=raw.Equal(x=x, y=y), DstT=grad.dtype.base_dtype)
    count = raw.Reshape(tensor=raw.Sum(input=chosen, reduction_indices=axes), shape=shape)
    return chosen / count * grad, None


@RegisterGradient("Prod")
def _prod(op: Operation, grad: Tensor) -> Any:
    """Return products of all other elements, by scans from both sides.

    Such products are right where elements are 0 too.
    """
    x, axes = op.inputs
    grad = _spread(op, grad)
    rank = raw.Rank(input=x)
    axes = raw.Reshape(tensor=raw.Cast(x=axes, DstT=dtypes.int32), shape=convert_to_tensor([-1]))
    axes = raw.FloorMod(x=axes + rank, y=rank)
    others = raw.ListDiff(x=raw.Range(start=0, limit=rank, delta=1), y=axes)[0]
    order = raw.ConcatV2(values=[axes, others], axis=0)
    shape = raw.Shape(input=x)
    reduced = raw.Prod(input=raw.GatherV2(params=shape, indices=axes, axis=0), reduction_indices=0)
    rest = raw.Prod(input=raw.GatherV2(params=shape, indices=others, axis=0), reduction_indices=0)
    turned = raw.Transpose(x=x, perm=order)
    flat = raw.Reshape(tensor=turned, shape=raw.Pack(values=[reduced, rest]))
    left = raw.Cumprod(x=flat, axis=0, exclusive=True)
    right = raw.Cumprod(x=flat, axis=0, exclusive=True, reverse=True)
    product = raw.Reshape(tensor=conj(left) * conj(right), shape=raw.Shape(input=turned))
    return grad * raw.Transpose(x=product, perm=raw.InvertPermutation(x=order)), None


@RegisterGradient("Cumsum")
def _cumsum(op: Operation, grad: Tensor) -> Any:
    return raw.Cumsum(
        x=grad,
        axis=op.inputs[1],
        exclusive=op.get_attr("exclusive"),
        reverse=not op.get_attr("reverse"),
    ), None


@RegisterGradient("Cumprod")
def _cumprod(op: Operation, grad: Tensor) -> Any:
    x, axis = op.inputs
    options = {"exclusive": op.get_attr("exclusive"), "reverse": op.get_attr("reverse")}
    product = raw.Cumprod(x=x, axis=axis, **options)
    out = raw.Cumsum(
        x=product * grad, axis=axis, exclusive=options["exclusive"], reverse=not options["reverse"]
    )
    return raw.DivNoNan(x=out, y=x), None


@RegisterGradient("L2Loss")
def _l2_loss(op: Operation, grad: Tensor) -> Any:
    return op.inputs[0] * grad


@RegisterGradient("SegmentSum")
def _segment_sum(op: Operation, grad: Tensor) -> Any:
    return raw.GatherV2(params=grad, indices=op.inputs[1], axis=0), None


@RegisterGradient("SegmentMean")
def _segment_mean(op: Operation, grad: Tensor) -> Any:
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
def _segment_extremum(op: Operation, grad: Tensor) -> Any:
    x, ids = op.inputs
    chosen = raw.Equal(x=x, y=raw.GatherV2(params=op.outputs[0], indices=ids, axis=0))
    count = raw.SegmentSum(data=raw.Cast(x=chosen, DstT=grad.dtype.base_dtype), segment_ids=ids)
    gathered = raw.GatherV2(params=grad / count, indices=ids, axis=0)
    return raw.Select(condition=chosen, t=gathered, e=raw.ZerosLike(x=gathered)), None


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
def _unsorted_segment_sum(op: Operation, grad: Tensor) -> Any:
    return _gather_or_zero(grad, op.inputs[1])[0], None, None


@RegisterGradient("UnsortedSegmentMax")
@RegisterGradient("UnsortedSegmentMin")
def _unsorted_segment_extremum(op: Operation, grad: Tensor) -> Any:
    x, ids, number = op.inputs
    values, there = _gather_or_zero(op.outputs[0], ids)
    chosen = raw.LogicalAnd(x=raw.Equal(x=x, y=values), y=there)
    count = raw.UnsortedSegmentSum(
        data=raw.Cast(x=chosen, DstT=grad.dtype.base_dtype), segment_ids=ids, num_segments=number
    )
    gathered = _gather_or_zero(grad / count, ids)[0]
    return raw.SelectV2(condition=chosen, t=gathered, e=raw.ZerosLike(x=gathered)), None, None


def _sparse_segments(op: Operation, grad: Tensor) -> Any:
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


for _op_type in ("SparseSegmentMean", "SparseSegmentSqrtN"):
    register(_op_type, _sparse_segments)
for _op_type in (
    "SparseSegmentSumWithNumSegments",
    "SparseSegmentMeanWithNumSegments",
    "SparseSegmentSqrtNWithNumSegments",
):
    register(_op_type, _sparse_segments)


@RegisterGradient("SparseSegmentSum")
def _sparse_segment_sum(op: Operation, grad: Tensor) -> Any:
    if op.get_attr("sparse_gradient"):
        return _sparse_segments(op, grad)
    x, indices, ids = op.inputs
    rows = raw.GatherV2(params=grad, indices=ids, axis=0)
    return (
        raw.UnsortedSegmentSum(data=rows, segment_ids=indices, num_segments=raw.Shape(input=x)[0]),
        None,
        None,
    )


for _op_type in ("All", "Any", "ArgMax", "ArgMin", "Bincount", "HistogramFixedWidth", "Bucketize"):
    NotDifferentiable(_op_type)
