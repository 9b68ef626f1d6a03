"""Declare distances of label sequences."""

from __future__ import annotations

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes


def _edit_distance(c: ShapeContext) -> Shapes:
    hypothesis, truth = (
        c.constant_as_shape(i) if c.constant(i) is not None else None for i in (2, 5)
    )
    if hypothesis is None or truth is None or len(hypothesis) != len(truth):
        return [None]
    return [
        tuple(
            None if a is None or b is None else max(a, b)
            for a, b in zip(hypothesis[:-1], truth[:-1])
        )
    ]


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
