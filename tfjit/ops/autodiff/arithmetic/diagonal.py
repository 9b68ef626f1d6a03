"""Define gradients of diagonals and bands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.ops import raw_ops as raw
from tfjit.ops.autodiff.terms import attrs_of, like

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


def _of_version(op: Operation, kind: str, **arguments: object) -> Tensor:
    """Build an op of an operation's version and alignment.

    kind: the op type without its version. The second version has no alignment.
    """
    version = op.type[-2:]
    align = attrs_of(op, "align") if version == "V3" else {}
    made: Tensor = getattr(raw, kind + version)(**arguments, **align)
    return made


def _part(op: Operation, grad: Tensor, k: Tensor) -> Tensor:
    return _of_version(op, "MatrixDiagPart", input=grad, k=k, padding_value=like(0, grad))


@RegisterGradient("MatrixDiagV2")
@RegisterGradient("MatrixDiagV3")
def _matrix_diag_band(op: Operation, grad: Tensor) -> Gradients:
    return _part(op, grad, op.inputs[1]), None, None, None, None


@RegisterGradient("MatrixDiagPartV2")
@RegisterGradient("MatrixDiagPartV3")
def _matrix_diag_part_band(op: Operation, grad: Tensor) -> Gradients:
    x, k, _ = op.inputs
    zeros = raw.ZerosLike(x=x)
    return _of_version(op, "MatrixSetDiag", input=zeros, diagonal=grad, k=k), None, None


@RegisterGradient("MatrixSetDiagV2")
@RegisterGradient("MatrixSetDiagV3")
def _matrix_set_diag_band(op: Operation, grad: Tensor) -> Gradients:
    _, diagonal, k = op.inputs
    zeros = raw.ZerosLike(x=diagonal)
    rest = _of_version(op, "MatrixSetDiag", input=grad, diagonal=zeros, k=k)
    return rest, _part(op, grad, k), None
