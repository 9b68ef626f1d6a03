"""Define gradients of ragged tensors."""

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


@RegisterGradient("RaggedFillEmptyRows")
def _fill_ragged(op: Operation, *gradients: object) -> Gradients:
    of_values, of_default = raw.RaggedFillEmptyRowsGrad(
        reverse_index_map=op.outputs[3], grad_values=gradients[1]
    )
    return None, of_values, None, of_default


@RegisterGradient("RaggedGather")
def _gather_ragged(op: Operation, *gradients: Tensor) -> Gradients:
    """Add each gathered value's gradient to the value at its place."""
    *splits, values, indices = op.inputs
    count = raw.Shape(input=values, out_type=dtypes.int64)
    gathered = raw.RaggedGather(
        params_nested_splits=splits,
        params_dense_values=raw.Range(
            start=convert_to_tensor(0, dtypes.int64),
            limit=count[0],
            delta=convert_to_tensor(1, dtypes.int64),
        ),
        indices=indices,
        OUTPUT_RAGGED_RANK=len(op.outputs) - 1,
    )
    places = gathered[-1]
    return [*[None] * len(splits), IndexedSlices(gradients[-1], places, count), None]


@RegisterGradient("RaggedTensorToSparse")
def _ragged_to_sparse(op: Operation, _: object, of_values: Tensor, __: object) -> Gradients:
    *splits, values = op.inputs
    return [*[None] * len(splits), raw.Reshape(tensor=of_values, shape=raw.Shape(input=values))]


@RegisterGradient("RaggedTensorToTensor")
def _ragged_to_dense(op: Operation, gradient: Tensor) -> Gradients:
    """Return each value's gradient; the default's is the sum over the padding."""
    values, default, *partitions = op.inputs[1:]
    shape, inner = raw.Shape(input=op.outputs[0]), raw.Shape(input=values)[1:]
    outer = raw.Size(input=shape) - raw.Size(input=inner)
    count = raw.Shape(input=values)[0]
    places = raw.RaggedTensorToTensor(
        shape=shape[:outer],
        values=raw.Range(start=0, limit=count, delta=1),
        default_value=convert_to_tensor(-1),
        row_partition_tensors=partitions,
        row_partition_types=op.get_attr("row_partition_types"),
    )
    flat = raw.Reshape(tensor=places, shape=convert_to_tensor([-1]))
    rows = raw.Reshape(
        tensor=gradient,
        shape=raw.ConcatV2(values=[convert_to_tensor([-1]), inner], axis=convert_to_tensor(0)),
    )
    of_values = raw.UnsortedSegmentSum(data=rows, segment_ids=flat, num_segments=count)
    padding = raw.Sign(x=flat + 1) * -1  # 0 for padding; negative numbers are left out
    padded = raw.UnsortedSegmentSum(data=rows, segment_ids=padding, num_segments=1)[0]
    size = raw.Shape(input=default)
    axes, _ = raw.BroadcastGradientArgs(s0=size, s1=inner)
    of_default = raw.Reshape(tensor=raw.Sum(input=padded, reduction_indices=axes), shape=size)
    return [None, of_values, of_default, *[None] * len(partitions)]


@RegisterGradient("RaggedTensorFromVariant")
def _from_variants(op: Operation, *gradients: Tensor) -> Gradients:
    """Return a variant of the gradient, or one for each row."""
    rank = op.inputs[0].shape.rank
    if rank is not None and rank > 1:
        raise ValueError(
            "Unable to compute gradient: RaggedTensorToVariant can currently only generate 0D or "
            "1D output."
        )
    return raw.RaggedTensorToVariant(
        rt_nested_splits=op.outputs[:-1],
        rt_dense_values=gradients[-1],
        batched_input=op.get_attr("output_ragged_rank") > 0 if rank is None else rank == 1,
        Tsplits=op.get_attr("Tsplits"),
    )


@RegisterGradient("RaggedTensorToVariant")
def _to_variants(op: Operation, gradient: Tensor) -> Gradients:
    """Return the flat values of the gradient."""
    *splits, values = op.inputs
    of_values = raw.RaggedTensorToVariantGradient(
        encoded_ragged_grad=gradient,
        row_splits=splits[0] if splits else convert_to_tensor(0, dtypes.int64),
        dense_values_shape=raw.Shape(input=values),
        Tvalues=values.dtype.base_dtype,
    )
    return [*[None] * len(splits), of_values]
