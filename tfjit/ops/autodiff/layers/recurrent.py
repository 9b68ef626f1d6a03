"""Define gradients of recurrent cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfjit.framework.graphs.operation import Operation
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.ops import raw_ops as raw

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients


def _block_lstm(op: Operation, grads: tuple[object, ...], op_type: str) -> Any:
    names = ("seq_len_max", "x", "cs_prev", "h_prev", "w", "wci", "wcf", "wco", "b")
    outputs = dict(zip(("i", "cs", "f", "o", "ci", "co", "h"), op.outputs))
    given = dict(zip(names, op.inputs))
    found = getattr(raw, op_type)(
        **given,
        **outputs,
        cs_grad=grads[1],
        h_grad=grads[6],
        use_peephole=op.get_attr("use_peephole"),
    )
    return [None, *found]


@RegisterGradient("BlockLSTM")
def _block_lstm_v1(op: Operation, *grads: object) -> Gradients:
    return _block_lstm(op, grads, "BlockLSTMGrad")


@RegisterGradient("BlockLSTMV2")
def _block_lstm_v2(op: Operation, *grads: object) -> Gradients:
    return _block_lstm(op, grads, "BlockLSTMGradV2")
