"""Gradients of reads of variables; writes have none."""

from __future__ import annotations

from typing import Any

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient


@RegisterGradient("ReadVariableOp")
def _read_variable(op: Operation, grad: Tensor) -> Any:
    return grad
