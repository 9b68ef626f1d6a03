"""Gradients of sparse tensors' operations."""

from __future__ import annotations

from typing import Any

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import NotDifferentiable, RegisterGradient
from tfjit.framework.types import dtypes
from tfjit.ops import raw_ops as raw
from tfjit.ops.autodiff.elementwise import conj

for _op in (
    "SparseFillEmptyRowsGrad",
    "SparseAddGrad",
    "SparseSliceGrad",
    "SetSize",
    "DenseToDenseSetOperation",
    "StringSplit",
):
    NotDifferentiable(_op)
for _op in (
    "DenseToSparseSetOperation",
    "SparseToSparseSetOperation",
    "SparseReduceMaxSparse",
    "AsString",
    "DecodeRaw",
    "StringToNumber",
):
    NotDifferentiable(_op)


@RegisterGradient("SparseReorder")
def _reorder(op: Operation, *gradients: Any) -> Any:
    """Each value's gradient stands where the order put it."""
    indices, _, shape = op.inputs
    count = raw.Shape(input=indices)
    places = raw.Range(start=0, limit=raw.GatherV2(params=count, indices=0, axis=0), delta=1)
    _, order = raw.SparseReorder(input_indices=indices, input_values=places, input_shape=shape)
    inverse = raw.InvertPermutation(x=order)
    return None, raw.GatherV2(params=gradients[1], indices=inverse, axis=0), None


@RegisterGradient("SparseToDense")
def _to_dense(op: Operation, gradient: Tensor) -> Any:
    """Return the gradients of the values and of the default.

    The values get the gradient at their places, the default the rest.
    """
    indices, _, values, _ = op.inputs
    if indices.shape.rank is not None and indices.shape.rank < 2:
        indices = raw.Reshape(tensor=indices, shape=[-1, 1])
    of_values = raw.GatherNd(params=gradient, indices=indices)
    everything = raw.Range(start=0, limit=raw.Rank(input=gradient), delta=1)
    total = raw.Sum(input=gradient, reduction_indices=everything)
    taken = raw.Sum(input=of_values, reduction_indices=0)
    if values.shape.rank == 0:
        return None, None, taken, total - taken
    return None, None, of_values, total - taken


@RegisterGradient("SparseTensorDenseMatMul")
def _matmul(op: Operation, gradient: Tensor) -> Any:
    """Return the gradients of the values and of the dense matrix.

    Of the dense matrix the adjoint product; of each value the product of a row and a column.
    """
    indices, values, shape, dense = op.inputs
    adjoint_a, adjoint_b = op.get_attr("adjoint_a"), op.get_attr("adjoint_b")
    of_dense = raw.SparseTensorDenseMatMul(
        a_indices=indices, a_values=values, a_shape=shape, b=gradient, adjoint_a=not adjoint_a
    )
    if adjoint_b:
        of_dense = raw.Transpose(x=conj(of_dense), perm=[1, 0])
    rows, columns = (
        raw.StridedSlice(
            input=indices,
            begin=[0, k],
            end=[0, k + 1],
            strides=[1, 1],
            begin_mask=1,
            end_mask=1,
            shrink_axis_mask=2,
        )
        for k in (0, 1)
    )
    left = raw.GatherV2(params=gradient, indices=columns if adjoint_a else rows, axis=0)
    right_matrix = raw.Transpose(x=conj(dense), perm=[1, 0]) if adjoint_b else dense
    right = raw.GatherV2(params=right_matrix, indices=rows if adjoint_a else columns, axis=0)
    of_values = raw.Sum(input=left * conj(right), reduction_indices=1)
    return None, conj(of_values) if adjoint_a else of_values, None, of_dense


@RegisterGradient("SparseTensorDenseAdd")
def _dense_add(op: Operation, gradient: Tensor) -> Any:
    return None, raw.GatherNd(params=gradient, indices=op.inputs[0]), None, gradient


@RegisterGradient("SparseAdd")
def _add(op: Operation, *gradients: Any) -> Any:
    of_a, of_b = raw.SparseAddGrad(
        backprop_val_grad=gradients[1],
        a_indices=op.inputs[0],
        b_indices=op.inputs[3],
        sum_indices=op.outputs[0],
    )
    return None, of_a, None, None, of_b, None, None


@RegisterGradient("SparseSlice")
def _slice(op: Operation, *gradients: Any) -> Any:
    of_values = raw.SparseSliceGrad(
        backprop_val_grad=gradients[1],
        input_indices=op.inputs[0],
        input_start=op.inputs[3],
        output_indices=op.outputs[0],
    )
    return None, of_values, None, None, None


@RegisterGradient("SparseFillEmptyRows")
def _fill(op: Operation, *gradients: Any) -> Any:
    of_values, of_default = raw.SparseFillEmptyRowsGrad(
        reverse_index_map=op.outputs[3], grad_values=gradients[1]
    )
    return None, of_values, None, of_default


@RegisterGradient("SparseReduceSum")
def _reduce_sum(op: Operation, gradient: Tensor) -> Any:
    """Return for each value the gradient of its sum."""
    indices, _, shape, axes = op.inputs
    small = raw.Cast(x=shape, DstT=dtypes.int32)
    rank = raw.Size(input=shape)
    gone = raw.Reshape(tensor=(axes + rank) % rank, shape=[-1])
    ones = raw.Fill(dims=raw.Shape(input=gone), value=1)
    kept = raw.DynamicStitch(
        indices=[raw.Range(start=0, limit=rank, delta=1), gone], data=[small, ones]
    )
    scale = raw.Cast(x=small // kept, DstT=dtypes.int64)
    places = indices // scale
    return (
        None,
        raw.GatherNd(params=raw.Reshape(tensor=gradient, shape=kept), indices=places),
        None,
        None,
    )


@RegisterGradient("SparseSoftmax")
def _softmax(op: Operation, gradient: Tensor) -> Any:
    """Return (g - sum of g y along the last axis) y.

    At the values' places.
    """
    indices, _, shape = op.inputs
    y = op.outputs[0]
    product = gradient * y
    total = raw.SparseReduceSum(
        input_indices=indices,
        input_values=product,
        input_shape=shape,
        reduction_axes=[-1],
        keep_dims=True,
    )
    negative = raw.SparseDenseCwiseAdd(
        sp_indices=indices, sp_values=gradient, sp_shape=shape, dense=-total
    )
    return None, negative * y, None


@RegisterGradient("SparseDenseCwiseMul")
def _cwise_mul(op: Operation, gradient: Tensor) -> Any:
    """Return the gradient of the values alone.

    A dense factor that needs one is refused, as in TensorFlow.
    """
    indices, _, shape, dense = op.inputs
    ones = raw.SparseDenseCwiseMul(
        sp_indices=indices, sp_values=raw.OnesLike(x=op.inputs[1]), sp_shape=shape, dense=dense
    )
    return None, gradient * ones, None, None


@RegisterGradient("SparseDenseCwiseDiv")
def _cwise_div(op: Operation, gradient: Tensor) -> Any:
    indices, _, shape, dense = op.inputs
    inverse = raw.SparseDenseCwiseDiv(
        sp_indices=indices, sp_values=raw.OnesLike(x=op.inputs[1]), sp_shape=shape, dense=dense
    )
    return None, gradient * inverse, None, None
