"""Declare ops with padding behind the used rows of their outputs."""

from __future__ import annotations

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes
from tfjit.ops.core.type_lists import INDEX


def _padded_unique(c: ShapeContext) -> Shapes:
    (count,) = c.with_rank(0, 1)
    limit = c.attr("limit")
    return [(count if count is None or not limit else min(count, limit),), (count,)]


# Unique becomes this op while a plan is made (passes/canonicalize/pad_unique.py). y has at most
# `limit` elements, unless `limit` is 0. Places of further values are 0.
register_op(
    "_PaddedUnique",
    inputs=("x: T",),
    outputs=("y: T", "idx: out_idx"),
    attrs=(f"T: {INDEX}", f"out_idx: {INDEX} = DT_INT32", "limit: int = 0"),
    shape=_padded_unique,
)
