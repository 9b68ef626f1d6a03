"""Define gradients of sparse tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.ops import raw_ops as raw

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients


@RegisterGradient("SparseReorder")
def _reorder(op: Operation, *gradients: object) -> Gradients:
    """Return each value's gradient at the place before reordering."""
    indices, _, shape = op.inputs
    count = raw.Shape(input=indices)
    places = raw.Range(start=0, limit=raw.GatherV2(params=count, indices=0, axis=0), delta=1)
    _, order = raw.SparseReorder(input_indices=indices, input_values=places, input_shape=shape)
    inverse = raw.InvertPermutation(x=order)
    return None, raw.GatherV2(params=gradients[1], indices=inverse, axis=0), None


@RegisterGradient("SparseToDense")
def _to_dense(op: Operation, gradient: Tensor) -> Gradients:
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


@RegisterGradient("SparseSlice")
def _slice(op: Operation, *gradients: object) -> Gradients:
    of_values = raw.SparseSliceGrad(
        backprop_val_grad=gradients[1],
        input_indices=op.inputs[0],
        input_start=op.inputs[3],
        output_indices=op.outputs[0],
    )
    return None, of_values, None, None, None


@RegisterGradient("SparseFillEmptyRows")
def _fill(op: Operation, *gradients: object) -> Gradients:
    of_values, of_default = raw.SparseFillEmptyRowsGrad(
        reverse_index_map=op.outputs[3], grad_values=gradients[1]
    )
    return None, of_values, None, of_default
