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
    known = constant_value(axis)
    if known is not None and int(known) == 0 and not batch:
        return _scattered(grad, indices, params), None, None
    if batch:
        raise NotImplementedError(
            f"gradients: '{op.name}' gathers with batch_dims {batch}, of which there is no "
            "gradient yet"
        )
    # bring the axis to the front on both sides
    rank = raw.Rank(input=params)
    axis = raw.FloorMod(x=raw.Cast(x=axis, DstT=dtypes.int32) + rank, y=rank)
    shape = raw.Shape(input=params)
    before, after = (
        raw.Range(start=0, limit=axis, delta=1),
        raw.Range(start=axis + 1, limit=rank, delta=1),
    )
    middle = raw.Rank(input=indices)
    taken = raw.Range(start=axis, limit=axis + middle, delta=1)
    last = raw.Range(start=axis + middle, limit=rank - 1 + middle, delta=1)
    transposed = raw.Transpose(x=grad, perm=raw.ConcatV2(values=[taken, before, last], axis=0))
    sizes = [raw.GatherV2(params=shape, indices=axes, axis=0) for axes in (before, after)]
    rest = raw.ConcatV2(values=sizes, axis=0)
    flat = raw.Reshape(tensor=indices, shape=convert_to_tensor([-1]))
    rows = raw.Reshape(
        tensor=transposed, shape=raw.ConcatV2(values=[raw.Shape(input=flat), rest], axis=0)
    )
    number = raw.GatherV2(params=shape, indices=axis, axis=0)
    summed = raw.UnsortedSegmentSum(data=rows, segment_ids=flat, num_segments=number)
    back = raw.ConcatV2(
        values=[before + 1, raw.ExpandDims(input=raw.ZerosLike(x=axis), dim=0), after], axis=0
    )
    return raw.Transpose(x=summed, perm=back), None, None


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
