"""Present tf.image.

Images resized, cropped, cut into patches, in other colours, and boxes in them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.ops.core.apply import call, tensor
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import IntsLike, TensorLike


def _resized(
    op_type: str, name: str | None, images: TensorLike, size: TensorLike, **options: object
) -> Tensor:
    return tensor(op_type, name, images=images, size=size, **options)


def resize_bilinear(
    images: TensorLike,
    size: TensorLike,
    align_corners: bool = False,
    name: str | None = None,
    half_pixel_centers: bool = False,
) -> Tensor:
    """Resize images between the four nearest pixels.

    images [batch, h, w, c], size [2] -> float32 [batch, *size, c].
    """
    return _resized(
        "ResizeBilinear",
        name,
        images,
        size,
        align_corners=align_corners,
        half_pixel_centers=half_pixel_centers,
    )


def resize_nearest_neighbor(
    images: TensorLike,
    size: TensorLike,
    align_corners: bool = False,
    name: str | None = None,
    half_pixel_centers: bool = False,
) -> Tensor:
    """Resize images to the nearest pixel.

    images [batch, h, w, c], size [2] -> [batch, *size, c] of the same dtype.
    """
    return _resized(
        "ResizeNearestNeighbor",
        name,
        images,
        size,
        align_corners=align_corners,
        half_pixel_centers=half_pixel_centers,
    )


def resize_bicubic(
    images: TensorLike,
    size: TensorLike,
    align_corners: bool = False,
    name: str | None = None,
    half_pixel_centers: bool = False,
) -> Tensor:
    """Resize images by a cubic through the 16 nearest pixels.

    images [batch, h, w, c], size [2] -> float32 [batch, *size, c].
    """
    return _resized(
        "ResizeBicubic",
        name,
        images,
        size,
        align_corners=align_corners,
        half_pixel_centers=half_pixel_centers,
    )


def resize_area(
    images: TensorLike, size: TensorLike, align_corners: bool = False, name: str | None = None
) -> Tensor:
    """Resize images by the mean of each pixel's area.

    images [batch, h, w, c], size [2] -> float32 [batch, *size, c].
    """
    return _resized("ResizeArea", name, images, size, align_corners=align_corners)


def crop_and_resize(
    image: TensorLike,
    boxes: TensorLike,
    box_ind: TensorLike | None = None,
    crop_size: TensorLike | None = None,
    method: str = "bilinear",
    extrapolation_value: float = 0,
    name: str | None = None,
    box_indices: TensorLike | None = None,
) -> Tensor:
    """Crop boxes of images and resize the crops.

    image [batch, h, w, c], boxes [n, 4] (y1, x1, y2, x2 in 0..1), box_ind [n], crop_size [2] ->
    float32 [n, *crop_size, c].
    """
    return tensor(
        "CropAndResize",
        name,
        image=image,
        boxes=boxes,
        box_ind=box_ind if box_indices is None else box_indices,
        crop_size=crop_size,
        method=method,
        extrapolation_value=extrapolation_value,
    )


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
            iou_threshold=iou_threshold,
            score_threshold=score_threshold,
            soft_nms_sigma=soft_nms_sigma,
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
            overlap_threshold=overlap_threshold,
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
) -> Any:
    """Return the best boxes of all classes.

    boxes [batch, n, 1 or classes, 4], scores [batch, n, classes] -> boxes, scores, classes,
    valid_detections.
    """
    with name_scope(name, "combined_non_max_suppression"):
        return call(
            "CombinedNonMaxSuppression",
            None,
            boxes=boxes,
            scores=scores,
            max_output_size_per_class=max_output_size_per_class,
            max_total_size=max_total_size,
            iou_threshold=iou_threshold,
            score_threshold=score_threshold,
            pad_per_class=pad_per_class,
            clip_boxes=clip_boxes,
        )


def extract_image_patches(
    images: TensorLike,
    ksizes: IntsLike | None = None,
    strides: IntsLike | None = None,
    rates: IntsLike | None = None,
    padding: str | None = None,
    name: str | None = None,
    sizes: TensorLike | None = None,
) -> Tensor:
    """Extract the patch of each window.

    images [batch, h, w, c] -> [batch, out_h, out_w, k_h * k_w * c]: each window's pixels, side by
    side.
    """
    sizes = ksizes if sizes is None else sizes
    return tensor(
        "ExtractImagePatches",
        name,
        images=images,
        ksizes=sizes,
        strides=strides,
        rates=rates,
        padding=padding,
    )


def rgb_to_hsv(images: TensorLike, name: str | None = None) -> Tensor:
    """Convert RGB to HSV.

    images [..., 3] red, green, blue -> [..., 3] hue, saturation, value.
    """
    return tensor("RGBToHSV", name, images=images)


def hsv_to_rgb(images: TensorLike, name: str | None = None) -> Tensor:
    """Convert HSV to RGB.

    images [..., 3] hue, saturation, value -> [..., 3] red, green, blue.
    """
    return tensor("HSVToRGB", name, images=images)


def draw_bounding_boxes(
    images: TensorLike, boxes: TensorLike, name: str | None = None, colors: TensorLike | None = None
) -> Tensor:
    """Draw a frame around each box.

    images [batch, h, w, c], boxes [batch, n, 4] in 0..1, colors [m, c] -> images with the frames.
    """
    if colors is None:
        return tensor("DrawBoundingBoxes", name, images=images, boxes=boxes)
    return tensor("DrawBoundingBoxesV2", name, images=images, boxes=boxes, colors=colors)
