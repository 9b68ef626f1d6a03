"""Declare drawing and suppression of bounding boxes."""

from __future__ import annotations

from tfjit.framework.op_defs.op_traits import SIZED_BY_VALUES
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import (
    Rule,
    Shapes,
    fail,
    int_constant,
    require_scalars,
)


def drawn(c: ShapeContext) -> Shapes:
    """Infer the images' shape.

    Boxes are [batch, n, 4]; V2 checks them at run time only.
    """
    if c.op == "DrawBoundingBoxes":
        c.with_rank(1, 3)
    return [c.with_rank_at_least(0, 3)]


def suppression(scalars: int, padded: bool = False, overlaps: bool = False) -> Rule:
    """Return the shape rule of a suppression.

    boxes [n, 4] (or overlaps [n, n]), scores [n] and `scalars` scalars -> indices [?], with at most
    as many as the first scalar; V4 and V5 have more outputs.
    """

    def rule(c: ShapeContext) -> Shapes:
        boxes, scores = c.with_rank(0, 2), c.with_rank(1, 1)
        require_scalars(c, *range(2, 2 + scalars))
        c.merge_dim(boxes[0], scores[0])
        if overlaps:
            c.merge_dim(boxes[0], boxes[1])
        else:
            c.with_value(boxes[1], 4)
        found: tuple[int | None, ...] = (None,)
        if padded and c.attr("pad_to_max_output_size"):
            size = int_constant(c, 2)
            if size is not None and size < 0:
                raise fail(f"Dimension size, given by scalar input {size} must be non-negative")
            found = (size,)
        return [*[found] * max(1, c.num_outputs - 1), *[()] * (c.num_outputs > 1)]

    return rule


def combined_suppression(c: ShapeContext) -> Shapes:
    """Infer the shapes of a combined suppression.

    boxes [batch, n, q, 4], scores [batch, n, classes] -> [batch, m, 4], [batch, m], [batch, m],
    [batch].
    """
    boxes, scores = c.with_rank(0, 4), c.with_rank(1, 3)
    require_scalars(c, 2, 3, 4, 5)
    c.merge_dim(boxes[0], scores[0])
    c.merge_dim(boxes[1], scores[1])
    c.with_value(boxes[3], 4)
    if boxes[2] is not None and scores[2] is not None and boxes[2] not in (1, scores[2]):
        raise fail(
            "third dimension of boxes must be either 1 or equal to the third dimension of scores"
        )
    total = int_constant(c, 3)
    if total is not None and total <= 0:
        raise fail("max_total_size should be > 0 ")
    each = int_constant(c, 2)
    count = total
    if total is not None and c.attr("pad_per_class"):
        if each is None or scores[2] is None:
            count = None
        else:
            if each <= 0:
                raise fail("max_output_size_per_class should be > 0 ")
            count = min(total, each * scores[2])
    batch = boxes[0]
    return [(batch, count, 4), (batch, count), (batch, count), (batch,)]


def proposals(c: ShapeContext) -> Shapes:
    """Infer the shapes of proposals.

    scores [batch, h, w, anchors], bbox_deltas [batch, h, w, 4 * anchors], image_info [batch, 5],
    anchors [h, w, 4 * anchors] -> [batch, post_nms_topn, 4], [batch, post_nms_topn].
    """
    scores = c.with_rank(0, 4)
    c.with_rank(1, 4)
    c.with_value(c.with_rank(2, 2)[1], 5)
    c.with_rank(3, 3)
    require_scalars(c, 4, 5, 6)
    count = int(c.attr("post_nms_topn"))
    found = (scores[0], count if count >= 0 else None)
    return [(*found, 4), found]


register_op(
    "CombinedNonMaxSuppression",
    inputs=(
        "boxes: float",
        "scores: float",
        "max_output_size_per_class: int32",
        "max_total_size: int32",
        "iou_threshold: float",
        "score_threshold: float",
    ),
    outputs=(
        "nmsed_boxes: float",
        "nmsed_scores: float",
        "nmsed_classes: float",
        "valid_detections: int32",
    ),
    attrs=("pad_per_class: bool = false", "clip_boxes: bool = true"),
    shape=combined_suppression,
)
register_op(
    "DrawBoundingBoxes",
    inputs=("images: T", "boxes: float"),
    outputs=("output: T",),
    attrs=("T: {float, half} = DT_FLOAT",),
    shape=drawn,
)
register_op(
    "DrawBoundingBoxesV2",
    inputs=("images: T", "boxes: float", "colors: float"),
    outputs=("output: T",),
    attrs=("T: {float, half} = DT_FLOAT",),
    shape=drawn,
)
register_op(
    "GenerateBoundingBoxProposals",
    inputs=(
        "scores: float",
        "bbox_deltas: float",
        "image_info: float",
        "anchors: float",
        "nms_threshold: float",
        "pre_nms_topn: int32",
        "min_size: float",
    ),
    outputs=("rois: float", "roi_probabilities: float"),
    attrs=("post_nms_topn: int = 300",),
    shape=proposals,
)
register_op(
    "NonMaxSuppression",
    inputs=("boxes: float", "scores: float", "max_output_size: int32"),
    outputs=("selected_indices: int32",),
    attrs=("iou_threshold: float = 0.5",),
    shape=suppression(1),
    traits=SIZED_BY_VALUES,
)
register_op(
    "NonMaxSuppressionV2",
    inputs=("boxes: T", "scores: T", "max_output_size: int32", "iou_threshold: T_threshold"),
    outputs=("selected_indices: int32",),
    attrs=("T: {half, float} = DT_FLOAT", "T_threshold: {half, float} = DT_FLOAT"),
    shape=suppression(2),
    traits=SIZED_BY_VALUES,
)
register_op(
    "NonMaxSuppressionV3",
    inputs=(
        "boxes: T",
        "scores: T",
        "max_output_size: int32",
        "iou_threshold: T_threshold",
        "score_threshold: T_threshold",
    ),
    outputs=("selected_indices: int32",),
    attrs=("T: {half, float} = DT_FLOAT", "T_threshold: {half, float} = DT_FLOAT"),
    shape=suppression(3),
    traits=SIZED_BY_VALUES,
)
register_op(
    "NonMaxSuppressionV4",
    inputs=(
        "boxes: T",
        "scores: T",
        "max_output_size: int32",
        "iou_threshold: T_threshold",
        "score_threshold: T_threshold",
    ),
    outputs=("selected_indices: int32", "valid_outputs: int32"),
    attrs=(
        "T: {half, float} = DT_FLOAT",
        "T_threshold: {half, float} = DT_FLOAT",
        "pad_to_max_output_size: bool = false",
    ),
    shape=suppression(3, padded=True),
    traits=SIZED_BY_VALUES,
)
register_op(
    "NonMaxSuppressionV5",
    inputs=(
        "boxes: T",
        "scores: T",
        "max_output_size: int32",
        "iou_threshold: T",
        "score_threshold: T",
        "soft_nms_sigma: T",
    ),
    outputs=("selected_indices: int32", "selected_scores: T", "valid_outputs: int32"),
    attrs=("T: {half, float} = DT_FLOAT", "pad_to_max_output_size: bool = false"),
    shape=suppression(4, padded=True),
    traits=SIZED_BY_VALUES,
)
register_op(
    "NonMaxSuppressionWithOverlaps",
    inputs=(
        "overlaps: float",
        "scores: float",
        "max_output_size: int32",
        "overlap_threshold: float",
        "score_threshold: float",
    ),
    outputs=("selected_indices: int32",),
    shape=suppression(3, overlaps=True),
    traits=SIZED_BY_VALUES,
)
