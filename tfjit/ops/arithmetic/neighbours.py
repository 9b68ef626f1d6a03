"""Declare the nearest of points, and monotonic fits."""

from __future__ import annotations

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes, unknown


def _isotonic(c: ShapeContext) -> Shapes:
    return [c.inputs[0], c.inputs[0]]


register_op(
    "IsotonicRegression",
    inputs=("input: T",),
    outputs=("output: output_dtype", "segments: int32"),
    attrs=("T: realnumbertype", "output_dtype: {half, bfloat16, float, double} = DT_FLOAT"),
    shape=_isotonic,
)
register_op(
    "NearestNeighbors",
    inputs=("points: float", "centers: float", "k: int64"),
    outputs=("nearest_center_indices: int64", "nearest_center_distances: float"),
    shape=unknown,
)
