"""Declare recurrent cells as single ops."""

from __future__ import annotations

from typing import Final

from tfjit.ops.core.declare import register_op
from tfjit.ops.layers.layer_shapes import (
    gru_cell,
    gru_cell_grad,
    lstm,
    lstm_cell,
    lstm_cell_grad,
    lstm_grad,
)

# Outputs of one step of a cell: gates, state, output.
GATES: Final = ("i: T", "cs: T", "f: T", "o: T", "ci: T", "co: T", "h: T")
# Inputs of a cell: input, state, weights.
CELL: Final = ("x: T", "cs_prev: T", "h_prev: T", "w: T", "wci: T", "wcf: T", "wco: T", "b: T")

register_op(
    "BlockLSTM",
    inputs=("seq_len_max: int64", *CELL),
    outputs=GATES,
    attrs=(
        "forget_bias: float = 1.0",
        "cell_clip: float = 3.0",
        "use_peephole: bool = false",
        "T: {half, float}",
    ),
    shape=lstm,
)
for _op_type in ("BlockLSTMGrad", "BlockLSTMGradV2"):
    register_op(
        _op_type,
        inputs=("seq_len_max: int64", *CELL, *GATES, "cs_grad: T", "h_grad: T"),
        outputs=(
            "x_grad: T",
            "cs_prev_grad: T",
            "h_prev_grad: T",
            "w_grad: T",
            "wci_grad: T",
            "wcf_grad: T",
            "wco_grad: T",
            "b_grad: T",
        ),
        attrs=("use_peephole: bool", "T: {half, float}"),
        shape=lstm_grad,
    )
register_op(
    "BlockLSTMV2",
    inputs=("seq_len_max: int64", *CELL),
    outputs=GATES,
    attrs=("cell_clip: float = 0.0", "use_peephole: bool = false", "T: {half, float}"),
    shape=lstm,
)
register_op(
    "GRUBlockCell",
    inputs=("x: T", "h_prev: T", "w_ru: T", "w_c: T", "b_ru: T", "b_c: T"),
    outputs=("r: T", "u: T", "c: T", "h: T"),
    attrs=("T: {float}",),
    shape=gru_cell,
)
register_op(
    "GRUBlockCellGrad",
    inputs=(
        "x: T",
        "h_prev: T",
        "w_ru: T",
        "w_c: T",
        "b_ru: T",
        "b_c: T",
        "r: T",
        "u: T",
        "c: T",
        "d_h: T",
    ),
    outputs=("d_x: T", "d_h_prev: T", "d_c_bar: T", "d_r_bar_u_bar: T"),
    attrs=("T: {float}",),
    shape=gru_cell_grad,
)
register_op(
    "LSTMBlockCell",
    inputs=CELL,
    outputs=GATES,
    attrs=(
        "forget_bias: float = 1.0",
        "cell_clip: float = 3.0",
        "use_peephole: bool = false",
        "T: {half, float}",
    ),
    shape=lstm_cell,
)
register_op(
    "LSTMBlockCellGrad",
    inputs=(*CELL, "i: T", "cs: T", "f: T", "o: T", "ci: T", "co: T", "cs_grad: T", "h_grad: T"),
    outputs=("cs_prev_grad: T", "dicfo: T", "wci_grad: T", "wcf_grad: T", "wco_grad: T"),
    attrs=("use_peephole: bool", "T: {half, float}"),
    shape=lstm_cell_grad,
)
