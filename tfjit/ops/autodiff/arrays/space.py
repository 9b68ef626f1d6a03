"""Define gradients of moves between space, batch and depth."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.ops import raw_ops as raw

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients


@RegisterGradient("SpaceToBatchND")
def _space_to_batch_nd(op: Operation, grad: Tensor) -> Gradients:
    return raw.BatchToSpaceND(input=grad, block_shape=op.inputs[1], crops=op.inputs[2]), None, None


@RegisterGradient("BatchToSpaceND")
def _batch_to_space_nd(op: Operation, grad: Tensor) -> Gradients:
    return (
        raw.SpaceToBatchND(input=grad, block_shape=op.inputs[1], paddings=op.inputs[2]),
        None,
        None,
    )


@RegisterGradient("SpaceToDepth")
def _space_to_depth(op: Operation, grad: Tensor) -> Gradients:
    return raw.DepthToSpace(
        input=grad, block_size=op.get_attr("block_size"), data_format=op.get_attr("data_format")
    )


@RegisterGradient("DepthToSpace")
def _depth_to_space(op: Operation, grad: Tensor) -> Gradients:
    return raw.SpaceToDepth(
        input=grad, block_size=op.get_attr("block_size"), data_format=op.get_attr("data_format")
    )


@RegisterGradient("SpaceToBatch")
def _space_to_batch(op: Operation, grad: Tensor) -> Gradients:
    paddings = op.inputs[1]
    return raw.BatchToSpace(input=grad, crops=paddings, block_size=op.get_attr("block_size")), None


@RegisterGradient("BatchToSpace")
def _batch_to_space(op: Operation, grad: Tensor) -> Gradients:
    crops = op.inputs[1]
    return raw.SpaceToBatch(input=grad, paddings=crops, block_size=op.get_attr("block_size")), None
