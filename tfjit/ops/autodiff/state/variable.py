"""Define gradients of reads of variables; writes have none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients


@RegisterGradient("ReadVariableOp")
def _read_variable(op: Operation, grad: Tensor) -> Gradients:
    return grad
