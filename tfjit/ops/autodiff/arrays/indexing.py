"""Define gradients of gathers, scatters, partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.indexed_slices import IndexedSlices
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.framework.types import dtypes
from tfjit.ops import raw_ops as raw
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients


def _scattered(rows: Tensor, indices: Tensor, params: Tensor) -> IndexedSlices:
    """Return the rows of a gather's gradient along the first axis."""
    shape = raw.Shape(input=params)
    flat = raw.Reshape(tensor=indices, shape=convert_to_tensor([-1]))
    values_shape = raw.ConcatV2(values=[raw.Shape(input=flat), shape[1:]], axis=0)
    return IndexedSlices(raw.Reshape(tensor=rows, shape=values_shape), flat, shape)


@RegisterGradient("Gather")
def _gather(op: Operation, grad: Tensor) -> Gradients:
    return _scattered(grad, op.inputs[1], op.inputs[0]), None


@RegisterGradient("GatherV2")
def _gather_v2(op: Operation, grad: Tensor) -> Gradients:
    from tfjit.framework.graphs.static_value import constant_value

    params, indices, axis = op.inputs
    batch = op.get_attr("batch_dims")
    if batch < 0:
        if indices.shape.rank is None:
            raise NotImplementedError(
                f"gradients: '{op.name}' gathers with batch_dims {batch} by indices of unknown "
                "rank; give batch_dims a number that is not negative"
            )
        batch += indices.shape.rank
    known = constant_value(axis)
    if known is not None and int(known) == 0 and not batch:
        return _scattered(grad, indices, params), None, None
    # bring the axis behind the batch on both sides
    rank = raw.Rank(input=params)
    axis = raw.FloorMod(x=raw.Cast(x=axis, DstT=dtypes.int32) + rank, y=rank)
    shape = raw.Shape(input=params)
    batches, before, after = (
        raw.Range(start=0, limit=batch, delta=1),
        raw.Range(start=batch, limit=axis, delta=1),
        raw.Range(start=axis + 1, limit=rank, delta=1),
    )
    middle = raw.Rank(input=indices) - batch
    taken = raw.Range(start=axis, limit=axis + middle, delta=1)
    last = raw.Range(start=axis + middle, limit=rank - 1 + middle, delta=1)
    transposed = raw.Transpose(
        x=grad, perm=raw.ConcatV2(values=[batches, taken, before, last], axis=0)
    )
    sizes = [raw.GatherV2(params=shape, indices=axes, axis=0) for axes in (before, after)]
    rest = raw.ConcatV2(values=sizes, axis=0)
    number = raw.GatherV2(params=shape, indices=axis, axis=0)
    segments, flat = _segments_of_batches(indices, shape, number, batch)
    rows = raw.Reshape(
        tensor=transposed, shape=raw.ConcatV2(values=[raw.Shape(input=flat), rest], axis=0)
    )
    summed = raw.UnsortedSegmentSum(data=rows, segment_ids=flat, num_segments=segments)
    split = raw.ConcatV2(values=[shape[:batch], raw.ExpandDims(input=number, dim=0), rest], axis=0)
    back = raw.ConcatV2(values=[batches, before + 1, [batch], after], axis=0)
    return raw.Transpose(x=raw.Reshape(tensor=summed, shape=split), perm=back), None, None


def _segments_of_batches(
    indices: Tensor, shape: Tensor, number: Tensor, batch: int
) -> tuple[Tensor, Tensor]:
    """Return the rows of all batches and flat indices of them.

    shape: that of the params. number: the rows of one batch.
    """
    flat = convert_to_tensor([-1])
    if batch == 0:
        return number, raw.Reshape(tensor=indices, shape=flat)
    count = raw.Prod(input=shape[:batch], reduction_indices=0)
    inner = raw.Prod(input=raw.Shape(input=indices)[batch:], reduction_indices=0)
    offsets = raw.Cast(
        x=raw.Range(start=0, limit=count, delta=1) * number, DstT=indices.dtype.base_dtype
    )
    by_batch = raw.Reshape(tensor=indices, shape=raw.Pack(values=[count, inner]))
    shifted = by_batch + raw.ExpandDims(input=offsets, dim=1)
    return count * number, raw.Reshape(tensor=shifted, shape=flat)


@RegisterGradient("GatherNd")
def _gather_nd(op: Operation, grad: Tensor) -> Gradients:
    params, indices = op.inputs
    shape = raw.Shape(input=params, out_type=indices.dtype.base_dtype)
    policy = op.get_attr("bad_indices_policy")
    return raw.ScatterNd(
        indices=indices, updates=grad, shape=shape, bad_indices_policy=policy
    ), None


@RegisterGradient("ScatterNd")
def _scatter_nd(op: Operation, grad: Tensor) -> Gradients:
    return None, raw.GatherNd(params=grad, indices=op.inputs[0]), None


@RegisterGradient("TensorScatterUpdate")
def _tensor_scatter_update(op: Operation, grad: Tensor) -> Gradients:
    indices, updates = op.inputs[1:]
    zeros = raw.ZerosLike(x=updates)
    return (
        raw.TensorScatterUpdate(tensor=grad, indices=indices, updates=zeros),
        None,
        raw.GatherNd(params=grad, indices=indices),
    )


@RegisterGradient("TensorScatterAdd")
def _tensor_scatter_add(op: Operation, grad: Tensor) -> Gradients:
    return grad, None, raw.GatherNd(params=grad, indices=op.inputs[1])


@RegisterGradient("TensorScatterSub")
def _tensor_scatter_sub(op: Operation, grad: Tensor) -> Gradients:
    return grad, None, -raw.GatherNd(params=grad, indices=op.inputs[1])


@RegisterGradient("TensorScatterMax")
@RegisterGradient("TensorScatterMin")
def _tensor_scatter_extremum(op: Operation, grad: Tensor) -> Gradients:
    """Share the gradient between the elements that are the extremum."""
    x, indices, updates = op.inputs
    y = op.outputs[0]
    dtype = grad.dtype.base_dtype
    kept = raw.Cast(x=raw.Equal(x=x, y=y), DstT=dtype)
    written = raw.Cast(
        x=raw.Equal(x=updates, y=raw.GatherNd(params=y, indices=indices)), DstT=dtype
    )
    shape = raw.Shape(input=x, out_type=indices.dtype.base_dtype)
    count = kept + raw.ScatterNd(indices=indices, updates=written, shape=shape)
    share = grad / count
    return share * kept, None, raw.GatherNd(params=share, indices=indices) * written


@RegisterGradient("ScatterNdNonAliasingAdd")
def _scatter_nd_non_aliasing_add(op: Operation, grad: Tensor) -> Gradients:
    return grad, None, raw.GatherNd(params=grad, indices=op.inputs[1])


@RegisterGradient("ResourceGatherNd")
def _resource_gather_nd(op: Operation, grad: Tensor) -> Gradients:
    variable, indices = op.inputs
    shape = raw.VariableShape(input=variable, out_type=indices.dtype.base_dtype)
    if indices.shape_tuple is not None and indices.shape_tuple[1:] == (1,):
        return IndexedSlices(grad, raw.Squeeze(input=indices, squeeze_dims=[-1]), shape), None
    return raw.ScatterNd(indices=indices, updates=grad, shape=shape), None


@RegisterGradient("NthElement")
def _nth_element(op: Operation, grad: Tensor) -> Gradients:
    """Share the gradient between the elements that are the nth."""
    x = op.inputs[0]
    nth = raw.ExpandDims(input=op.outputs[0], dim=-1)
    chosen = raw.Cast(x=raw.Equal(x=x, y=nth), DstT=grad.dtype.base_dtype)
    count = raw.Sum(input=chosen, reduction_indices=-1, keep_dims=True)
    return chosen / count * raw.ExpandDims(input=grad, dim=-1), None


@RegisterGradient("DynamicPartition")
def _dynamic_partition(op: Operation, *grads: Tensor) -> Gradients:
    data, partitions = op.inputs
    number = op.get_attr("num_partitions")
    count = raw.Size(input=partitions)
    places = raw.Reshape(
        tensor=raw.Range(start=0, limit=count, delta=1), shape=raw.Shape(input=partitions)
    )
    parted = raw.DynamicPartition(data=places, partitions=partitions, num_partitions=number)
    joined = raw.DynamicStitch(indices=parted, data=list(grads))
    return raw.Reshape(tensor=joined, shape=raw.Shape(input=data)), None


@RegisterGradient("DynamicStitch")
@RegisterGradient("ParallelDynamicStitch")
def _dynamic_stitch(op: Operation, grad: Tensor) -> Gradients:
    number = len(op.inputs) // 2
    return [None] * number + [
        raw.GatherV2(params=grad, indices=indices, axis=0) for indices in op.inputs[:number]
    ]


@RegisterGradient("ResourceGather")
def _resource_gather(op: Operation, grad: Tensor) -> Gradients:
    handle, indices = op.inputs
    shape = raw.VariableShape(input=handle)
    flat = raw.Reshape(tensor=indices, shape=convert_to_tensor([-1]))
    rows = raw.Reshape(
        tensor=grad, shape=raw.ConcatV2(values=[raw.Shape(input=flat), shape[1:]], axis=0)
    )
    return IndexedSlices(rows, flat, shape), None
