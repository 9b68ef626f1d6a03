"""Suppress, sample and draw bounding boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.ops.core.apply import call, tensor
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike


def non_max_suppression(
    boxes: TensorLike,
    scores: TensorLike,
    max_output_size: TensorLike,
    iou_threshold: TensorLike = 0.5,
    score_threshold: TensorLike = float("-inf"),
    name: str | None = None,
) -> Tensor:
    """Return the indices of the best boxes.

    boxes [n, 4], scores [n] -> int32 indices of boxes, none of which overlaps a better one by more
    than the threshold.
    """
    with name_scope(name, "non_max_suppression"):
        limits = (
            convert_to_tensor(v, name=n)
            for v, n in ((iou_threshold, "iou_threshold"), (score_threshold, "score_threshold"))
        )
        limit, least = limits
        arguments = {"boxes": boxes, "scores": scores, "max_output_size": max_output_size}
        return tensor(
            "NonMaxSuppressionV3", None, **arguments, iou_threshold=limit, score_threshold=least
        )


def non_max_suppression_with_scores(
    boxes: TensorLike,
    scores: TensorLike,
    max_output_size: TensorLike,
    iou_threshold: TensorLike = 0.5,
    score_threshold: TensorLike = float("-inf"),
    soft_nms_sigma: TensorLike = 0.0,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return indices as `non_max_suppression`, with the scores.

    A sigma above 0 lowers the scores of overlapping boxes instead of dropping them.
    """
    with name_scope(name, "non_max_suppression_with_scores"):
        found = call(
            "NonMaxSuppressionV5",
            None,
            boxes=boxes,
            scores=scores,
            max_output_size=max_output_size,
            iou_threshold=convert_to_tensor(iou_threshold, name="iou_threshold"),
            score_threshold=convert_to_tensor(score_threshold, name="score_threshold"),
            soft_nms_sigma=convert_to_tensor(soft_nms_sigma, name="soft_nms_sigma"),
            pad_to_max_output_size=False,
        )
        return found[0], found[1]


def non_max_suppression_overlaps(
    overlaps: TensorLike,
    scores: TensorLike,
    max_output_size: TensorLike,
    overlap_threshold: TensorLike = 0.5,
    score_threshold: TensorLike = float("-inf"),
    name: str | None = None,
) -> Tensor:
    """Return indices as `non_max_suppression`, of given overlaps [n, n]."""
    with name_scope(name, "non_max_suppression_overlaps"):
        return tensor(
            "NonMaxSuppressionWithOverlaps",
            None,
            overlaps=overlaps,
            scores=scores,
            max_output_size=max_output_size,
            overlap_threshold=convert_to_tensor(overlap_threshold, name="overlap_threshold"),
            score_threshold=score_threshold,
        )


def combined_non_max_suppression(
    boxes: TensorLike,
    scores: TensorLike,
    max_output_size_per_class: TensorLike,
    max_total_size: TensorLike,
    iou_threshold: TensorLike = 0.5,
    score_threshold: TensorLike = float("-inf"),
    pad_per_class: bool = False,
    clip_boxes: bool = True,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the best boxes of all classes.

    boxes [batch, n, 1 or classes, 4], scores [batch, n, classes] -> boxes, scores, classes,
    valid_detections.
    """
    with name_scope(name, "combined_non_max_suppression"):
        overlap = convert_to_tensor(iou_threshold, dtype=dtypes.float32, name="iou_threshold")
        least = convert_to_tensor(score_threshold, dtype=dtypes.float32, name="score_threshold")
        return call(
            "CombinedNonMaxSuppression",
            None,
            boxes=boxes,
            scores=scores,
            max_output_size_per_class=max_output_size_per_class,
            max_total_size=convert_to_tensor(max_total_size),
            iou_threshold=overlap,
            score_threshold=least,
            pad_per_class=pad_per_class,
            clip_boxes=clip_boxes,
        )


def draw_bounding_boxes(
    images: TensorLike, boxes: TensorLike, name: str | None = None, colors: TensorLike | None = None
) -> Tensor:
    """Draw a frame around each box.

    images [batch, h, w, c], boxes [batch, n, 4] in 0..1, colors [m, c] -> images with the frames.
    """
    if colors is None:
        return tensor("DrawBoundingBoxes", name, images=images, boxes=boxes)
    return tensor("DrawBoundingBoxesV2", name, images=images, boxes=boxes, colors=colors)


def sample_distorted_bounding_box(
    image_size: TensorLike,
    bounding_boxes: TensorLike,
    seed: int | None = None,
    seed2: int | None = None,
    min_object_covered: TensorLike = 0.1,
    aspect_ratio_range: Sequence[float] | None = None,
    area_range: Sequence[float] | None = None,
    max_attempts: int | None = None,
    use_image_if_no_bounding_boxes: bool | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Sample a crop of an image that covers enough of an object.

    image_size [3]: height, width, channels; bounding_boxes float32 [batch, n, 4] in 0..1. seed,
    seed2: of the node alone, and random for two zeros. Returns begin [3] and size [3] for
    `tf.slice`, of the dtype of image_size, and bboxes [1, 1, 4] for `draw_bounding_boxes`: the
    first of max_attempts crops that covers min_object_covered of a box, else the whole image. A run
    raises InvalidArgumentError without boxes, except with use_image_if_no_bounding_boxes.
    """
    with name_scope(name, "sample_distorted_bounding_box"):
        return call(
            "SampleDistortedBoundingBoxV2",
            name,
            image_size=image_size,
            bounding_boxes=bounding_boxes,
            min_object_covered=min_object_covered,
            seed=seed,
            seed2=seed2,
            aspect_ratio_range=aspect_ratio_range,
            area_range=area_range,
            max_attempts=max_attempts,
            use_image_if_no_bounding_boxes=use_image_if_no_bounding_boxes,
        )


def generate_bounding_box_proposals(
    scores: TensorLike,
    bbox_deltas: TensorLike,
    image_info: TensorLike,
    anchors: TensorLike,
    nms_threshold: TensorLike = 0.7,
    pre_nms_topn: TensorLike = 6000,
    min_size: TensorLike = 16,
    post_nms_topn: int = 300,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Add a node that proposes boxes from anchors and their deltas.

    scores [batch, h, w, anchors], bbox_deltas [batch, h, w, 4 * anchors], image_info [batch, 5],
    anchors [h, w, 4 * anchors] -> rois [batch, post_nms_topn, 4] and roi_probabilities [batch,
    post_nms_topn]. No kernel runs the node, as in TensorFlow on CPUs.
    """
    return call(
        "GenerateBoundingBoxProposals",
        name,
        scores=scores,
        bbox_deltas=bbox_deltas,
        image_info=image_info,
        anchors=anchors,
        nms_threshold=nms_threshold,
        pre_nms_topn=pre_nms_topn,
        min_size=min_size,
        post_nms_topn=post_nms_topn,
    )
