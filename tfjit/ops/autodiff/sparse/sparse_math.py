"""Define gradients of arithmetic, reductions, products of sparse tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.framework.types import dtypes
from tfjit.ops import raw_ops as raw
from tfjit.ops.autodiff.terms import conj

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients


@RegisterGradient("SparseMatMul")
def _sparse_matmul(op: Operation, grad: Tensor) -> Gradients:
    """Return the gradients as MatMul's, with the operands' hints.

    A gradient behind a Relu counts as sparse.
    """
    a, b = op.inputs
    hints = {
        a.ref(): op.get_attr("a_is_sparse"),
        b.ref(): op.get_attr("b_is_sparse"),
        grad.ref(): grad.op.type == "ReluGrad",
    }

    def product(x: Tensor, y: Tensor, wanted: object, tx: bool = False, ty: bool = False) -> Tensor:
        options = {
            "a_is_sparse": hints[x.ref()],
            "b_is_sparse": hints[y.ref()],
            "transpose_a": tx,
            "transpose_b": ty,
        }
        made = raw.SparseMatMul(a=x, b=y, **options)
        return made if made.dtype.base_dtype is wanted else raw.Cast(x=made, DstT=wanted)

    kinds = a.dtype.base_dtype, b.dtype.base_dtype
    transposed = op.get_attr("transpose_a"), op.get_attr("transpose_b")
    if transposed == (False, False):
        return product(grad, b, kinds[0], ty=True), product(a, grad, kinds[1], tx=True)
    if transposed == (False, True):
        return product(grad, b, kinds[0]), product(grad, a, kinds[1], tx=True)
    if transposed == (True, False):
        return product(b, grad, kinds[0], ty=True), product(a, grad, kinds[1])
    return product(b, grad, kinds[0], True, True), product(grad, a, kinds[1], True, True)


@RegisterGradient("SparseTensorDenseMatMul")
def _matmul(op: Operation, gradient: Tensor) -> Gradients:
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
def _dense_add(op: Operation, gradient: Tensor) -> Gradients:
    return None, raw.GatherNd(params=gradient, indices=op.inputs[0]), None, gradient


@RegisterGradient("SparseAdd")
def _add(op: Operation, *gradients: object) -> Gradients:
    of_a, of_b = raw.SparseAddGrad(
        backprop_val_grad=gradients[1],
        a_indices=op.inputs[0],
        b_indices=op.inputs[3],
        sum_indices=op.outputs[0],
    )
    return None, of_a, None, None, of_b, None, None


@RegisterGradient("SparseReduceSum")
def _reduce_sum(op: Operation, gradient: Tensor) -> Gradients:
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
def _softmax(op: Operation, gradient: Tensor) -> Gradients:
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
def _cwise_mul(op: Operation, gradient: Tensor) -> Gradients:
    """Return the gradient of the values alone.

    A dense factor that needs one is refused, as in TensorFlow.
    """
    indices, _, shape, dense = op.inputs
    ones = raw.SparseDenseCwiseMul(
        sp_indices=indices, sp_values=raw.OnesLike(x=op.inputs[1]), sp_shape=shape, dense=dense
    )
    return None, gradient * ones, None, None


@RegisterGradient("SparseDenseCwiseDiv")
def _cwise_div(op: Operation, gradient: Tensor) -> Gradients:
    indices, _, shape, dense = op.inputs
    inverse = raw.SparseDenseCwiseDiv(
        sp_indices=indices, sp_values=raw.OnesLike(x=op.inputs[1]), sp_shape=shape, dense=dense
    )
    return None, gradient * inverse, None, None


@RegisterGradient("SparseDenseCwiseAdd")
@RegisterGradient("SparseSparseMaximum")
@RegisterGradient("SparseSparseMinimum")
def _not_implemented(op: Operation, *_: object) -> Gradients:
    """Raise TensorFlow's NotImplementedError: it has no gradient of these either."""
    raise NotImplementedError(f"Gradient for {op.type} is not implemented.")
