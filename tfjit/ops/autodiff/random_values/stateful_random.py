"""Define gradients of samples of stateful generators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.ops import raw_ops as raw

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients


@RegisterGradient("RandomGamma")
def _random_gamma(op: Operation, grad: Tensor) -> Gradients:
    """Return the gradient by alpha of the samples that were drawn.

    Source: Figurnov et al., "Implicit reparameterization gradients" (2018).
    """
    shape, alpha = op.inputs
    slope = raw.RandomGammaGrad(alpha=alpha, sample=op.outputs[0])
    axes = raw.Range(start=0, limit=raw.Size(input=shape), delta=1)
    return None, raw.Sum(input=grad * slope, reduction_indices=axes)
