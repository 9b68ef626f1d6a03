"""Define gradients of connectionist temporal classification."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.ops import raw_ops as raw

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients


@RegisterGradient("CTCLoss")
@RegisterGradient("CTCLossV2")
def _ctc_loss(op: Operation, grad: Tensor, _: object) -> Gradients:
    """Scale the second output, the gradient by the logits.

    It has no derivative itself.
    """
    by_logits = raw.PreventGradient(
        input=op.outputs[1],
        message="Currently there is no way to take the second  derivative of ctc_loss due to the "
        "fused implementation's interaction  with tf.gradients()",
    )
    return raw.ExpandDims(input=grad, dim=-1) * by_logits, None, None, None
