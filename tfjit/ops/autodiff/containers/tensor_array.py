"""Define gradients of tensor arrays.

Reads write into the gradient's own array, and writes read from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.ops.control_flow.flow_tensor_array import TensorArray

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DTypeLike, Gradients


def _gradient_array(op: Operation, dtype: DTypeLike, flow: Tensor, grad: Tensor) -> TensorArray:
    """Return the gradient array of a call of `gradients`.

    The call is the one that made `grad`; each call has another array.
    """
    parts = grad.op.name.split("/")
    source = next((part for part in parts if part.startswith("gradients")), "gradients")
    return TensorArray(
        dtype=dtype, handle=op.inputs[0], flow=flow, colocate_with_first_write_call=False
    ).grad(source, flow)


@RegisterGradient("TensorArrayReadV3")
def _read(op: Operation, grad: Tensor) -> Gradients:
    _, index, flow = op.inputs
    return None, None, _gradient_array(op, op.get_attr("dtype"), flow, grad).write(index, grad).flow


@RegisterGradient("TensorArrayWriteV3")
def _write(op: Operation, flow: Tensor) -> Gradients:
    index = op.inputs[1]
    array = _gradient_array(op, op.get_attr("T"), flow, flow)
    return None, None, array.read(index), flow


@RegisterGradient("TensorArrayGatherV3")
def _gather(op: Operation, grad: Tensor) -> Gradients:
    _, indices, flow = op.inputs
    return (
        None,
        None,
        _gradient_array(op, op.get_attr("dtype"), flow, grad).scatter(indices, grad).flow,
    )


@RegisterGradient("TensorArrayScatterV3")
def _scatter(op: Operation, flow: Tensor) -> Gradients:
    indices = op.inputs[1]
    return None, None, _gradient_array(op, op.get_attr("T"), flow, flow).gather(indices), flow


@RegisterGradient("TensorArrayConcatV3")
def _concat(op: Operation, grad: Tensor, _: object) -> Gradients:
    flow = op.inputs[1]
    return None, _gradient_array(op, op.get_attr("dtype"), flow, grad).split(
        grad, op.outputs[1]
    ).flow


@RegisterGradient("TensorArraySplitV3")
def _split(op: Operation, flow: Tensor) -> Gradients:
    return None, _gradient_array(op, op.get_attr("T"), flow, flow).concat(), None, flow
