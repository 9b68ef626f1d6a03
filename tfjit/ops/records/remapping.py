"""Declare matrices of checkpoints for another vocabulary."""

from __future__ import annotations

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes


def _vocabulary_remapping(c: ShapeContext) -> Shapes:
    c.with_rank(0, 0)
    c.with_rank(1, 0)
    return [(c.attr("num_new_vocab"),), ()]


def _remapped_matrix(c: ShapeContext) -> Shapes:
    for index, rank in enumerate((0, 0, 1, 1)):
        c.with_rank(index, rank)
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
    shape=_vocabulary_remapping,
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
    shape=_remapped_matrix,
)
