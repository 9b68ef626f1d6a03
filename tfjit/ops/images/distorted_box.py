"""Declare sampling of crops that cover objects."""

from __future__ import annotations

from typing import Final

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes
from tfjit.ops.core.type_lists import INDEX

_OUTPUTS: Final = ("begin: T", "size: T", "bboxes: float")
_RANGES: Final = (
    "aspect_ratio_range: list(float) = [0.75, 1.33]",
    "area_range: list(float) = [0.05, 1.0]",
    "max_attempts: int = 100",
    "use_image_if_no_bounding_boxes: bool = false",
)
_SIZE: Final = "T: {uint8, int8, int16, int32, int64}"


def sampled(c: ShapeContext) -> Shapes:
    """Infer begin [3], size [3] and bboxes [1, 1, 4].

    image_size [3], bounding_boxes [batch, n, 4], min_object_covered [], seed [2].
    """
    c.with_value(c.with_rank(0, 1)[0], 3)
    c.with_value(c.with_rank(1, 3)[2], 4)
    if c.op != "SampleDistortedBoundingBox":
        c.with_rank(2, 0)
    if c.op.startswith("Stateless"):
        c.with_value(c.with_rank(3, 1)[0], 2)
    return [(3,), (3,), (1, 1, 4)]


register_op(
    "SampleDistortedBoundingBox",
    inputs=("image_size: T", "bounding_boxes: float"),
    outputs=_OUTPUTS,
    attrs=(
        _SIZE,
        "seed: int = 0",
        "seed2: int = 0",
        "min_object_covered: float = 0.1",
        *_RANGES,
    ),
    stateful=True,
    shape=sampled,
)
register_op(
    "SampleDistortedBoundingBoxV2",
    inputs=("image_size: T", "bounding_boxes: float", "min_object_covered: float"),
    outputs=_OUTPUTS,
    attrs=(_SIZE, "seed: int = 0", "seed2: int = 0", *_RANGES),
    stateful=True,
    shape=sampled,
)
register_op(
    "StatelessSampleDistortedBoundingBox",
    inputs=("image_size: T", "bounding_boxes: float", "min_object_covered: float", "seed: Tseed"),
    outputs=_OUTPUTS,
    attrs=(_SIZE, f"Tseed: {INDEX}", *_RANGES),
    shape=sampled,
)
