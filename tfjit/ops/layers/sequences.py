"""Declare distances of label sequences."""

from __future__ import annotations

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes


def _edit_distance(c: ShapeContext) -> Shapes:
    return [None]


register_op(
    "EditDistance",
    inputs=(
        "hypothesis_indices: int64",
        "hypothesis_values: T",
        "hypothesis_shape: int64",
        "truth_indices: int64",
        "truth_values: T",
        "truth_shape: int64",
    ),
    outputs=("output: float",),
    attrs=("normalize: bool = true", "T: type"),
    shape=_edit_distance,
)
