"""Define gradients of diagonals and bands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.ops import raw_ops as raw

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients


@RegisterGradient("MatrixDiag")
def _matrix_diag(op: Operation, grad: Tensor) -> Gradients:
    return raw.MatrixDiagPart(input=grad)


@RegisterGradient("MatrixDiagPart")
def _matrix_diag_part(op: Operation, grad: Tensor) -> Gradients:
    return raw.MatrixSetDiag(input=raw.ZerosLike(x=op.inputs[0]), diagonal=grad)


@RegisterGradient("MatrixSetDiag")
def _matrix_set_diag(op: Operation, grad: Tensor) -> Gradients:
    return raw.MatrixSetDiag(
        input=grad, diagonal=raw.ZerosLike(x=op.inputs[1])
    ), raw.MatrixDiagPart(input=grad)


@RegisterGradient("MatrixBandPart")
def _matrix_band_part(op: Operation, grad: Tensor) -> Gradients:
    return (
        raw.MatrixBandPart(input=grad, num_lower=op.inputs[1], num_upper=op.inputs[2]),
        None,
        None,
    )
