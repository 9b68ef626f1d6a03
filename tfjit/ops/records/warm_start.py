"""Declare warm starts: matrices of another training's checkpoint, rows and columns remapped."""

from __future__ import annotations

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes, require_scalars


def _remapping(c: ShapeContext) -> Shapes:
    require_scalars(c, 0, 1)
    return [(c.attr("num_new_vocab"),), ()]


def _matrix(c: ShapeContext) -> Shapes:
    require_scalars(c, 0, 1)
    for index in (2, 3):
        c.with_rank(index, 1)
    return [(c.attr("num_rows"), c.attr("num_cols"))]


register_op(
    "GenerateVocabRemapping",
    inputs=("new_vocab_file: string", "old_vocab_file: string"),
    outputs=("remapping: int64", "num_present: int32"),
    attrs=(
        "new_vocab_offset: int >= 0",
        "num_new_vocab: int >= 0",
        "old_vocab_size: int >= -1 = -1",
    ),
    shape=_remapping,
)
register_op(
    "LoadAndRemapMatrix",
    inputs=(
        "ckpt_path: string",
        "old_tensor_name: string",
        "row_remapping: int64",
        "col_remapping: int64",
        "initializing_values: float",
    ),
    outputs=("output_matrix: float",),
    attrs=("num_rows: int >= 0", "num_cols: int >= 1", "max_rows_in_memory: int = -1"),
    stateful=True,
    shape=_matrix,
)
