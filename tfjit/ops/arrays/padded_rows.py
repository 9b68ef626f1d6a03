"""Declare ops whose outputs have rows in use, and padding behind them."""

from __future__ import annotations

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes
from tfjit.ops.core.type_lists import INDEX


def _same_twice(c: ShapeContext) -> Shapes:
    vector = c.with_rank(0, 1)
    return [vector, vector]


# Unique becomes this op while a plan is made (passes/canonicalize/pad_unique.py).
register_op(
    "_PaddedUnique",
    inputs=("x: T",),
    outputs=("y: T", "idx: out_idx"),
    attrs=(f"T: {INDEX}", f"out_idx: {INDEX} = DT_INT32"),
    shape=_same_twice,
)
