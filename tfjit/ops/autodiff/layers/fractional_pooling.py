"""Define gradients of pooling of windows of random sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.ops import raw_ops as raw
from tfjit.ops.autodiff.terms import attrs_of

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients


@RegisterGradient("FractionalMaxPool")
def _fractional_max_pool(op: Operation, grad: Tensor, _: object, __: object) -> Gradients:
    return raw.FractionalMaxPoolGrad(
        orig_input=op.inputs[0],
        orig_output=op.outputs[0],
        out_backprop=grad,
        row_pooling_sequence=op.outputs[1],
        col_pooling_sequence=op.outputs[2],
        **attrs_of(op, "overlapping"),
    )


@RegisterGradient("FractionalAvgPool")
def _fractional_avg_pool(op: Operation, grad: Tensor, _: object, __: object) -> Gradients:
    x = op.inputs[0]
    known = x.shape.is_fully_defined()
    return raw.FractionalAvgPoolGrad(
        orig_input_tensor_shape=x.shape.as_list()
        if known
        else raw.Shape(input=x, out_type="int64"),
        out_backprop=grad,
        row_pooling_sequence=op.outputs[1],
        col_pooling_sequence=op.outputs[2],
        **attrs_of(op, "overlapping"),
    )
