"""Define gradients of samples of a seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.ops import raw_ops as raw
from tfjit.ops.autodiff.terms import reduced

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients


@RegisterGradient("StatelessRandomGammaV2")
@RegisterGradient("StatelessRandomGammaV3")
def _stateless_random_gamma(op: Operation, grad: Tensor) -> Gradients:
    alpha, sample = op.inputs[-1], op.outputs[0]
    slope = raw.RandomGammaGrad(alpha=alpha, sample=sample)
    return *[None] * (len(op.inputs) - 1), reduced(grad * slope, alpha, sample, first=True)
