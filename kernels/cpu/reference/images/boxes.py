"""Suppress and draw boxes in NumPy.

Suppression drops boxes that overlap a better one.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np

from tfjit.kernels.cpu.reference.inputs import Arrays, invalid, shape_text
from tfjit.kernels.memory_limits import check_fits_in_memory
from tfjit.kernels.registry import NodeSpec, reference

Array = np.ndarray


def _corners(boxes: Array) -> tuple[Array, Array, Array, Array, Array]:
    """Return (top, left, bottom, right, area) of boxes [n, 4].

    A box is given by any two opposite corners.
    """
    y1, x1, y2, x2 = boxes.T
    top, bottom, left, right = _least(y1, y2), _most(y1, y2), _least(x1, x2), _most(x1, x2)
    return top, left, bottom, right, (bottom - top) * (right - left)


def _least(a: Array, b: Array | np.generic) -> Array:
    """Return the lesser values; `a` where one is NaN, as C++'s `std::min`."""
    return np.where(b < a, b, a)


def _most(a: Array, b: Array | np.generic) -> Array:
    """Return the greater values; `a` where one is NaN, as C++'s `std::max`."""
    return np.where(a < b, b, a)


class Overlaps:
    """Compute intersection over union of boxes [n, 4].

    The overlap with a box without area is 0.
    """

    def __init__(self, boxes: Array) -> None:
        with np.errstate(all="ignore"):
            self._sides = _corners(boxes)

    def of(self, one: int, others: Array) -> Array:
        """Return the overlaps of box `one` with the others, by index."""
        top, left, bottom, right, area = self._sides
        zero = area.dtype.type(0)
        height = _least(bottom[others], bottom[one]) - _most(top[others], top[one])
        width = _least(right[others], right[one]) - _most(left[others], left[one])
        shared = _most(height, zero) * _most(width, zero)
        found = shared / (area[others] + area[one] - shared)
        return np.where((area[one] <= 0) | (area[others] <= 0), zero, found)


class GivenOverlaps:
    """Hold overlaps [n, n] that are given as an input."""

    def __init__(self, overlaps: Array) -> None:
        self._overlaps = overlaps

    def of(self, one: int, others: Array) -> Array:
        """Return the overlaps of box `one` with the others, by index."""
        return self._overlaps[others, one]


def select(
    overlaps: Any, scores: Array, count: int, threshold: Any, least: Any, weights: bool = True
) -> tuple[Array, Array]:
    """Return (indices, scores) of the best boxes, best first.

    None of these overlaps a better one by more than the threshold. scores [n]: only those above
    `least` count; of equal ones the first comes first. weights: an overlap of NaN takes a box its
    score.
    """
    candidates = np.flatnonzero(scores > least)
    candidates = candidates[np.argsort(-scores[candidates], kind="stable")]
    chosen: list[int] = []
    with np.errstate(all="ignore"):
        while len(candidates) and len(chosen) < count:
            best, rest = int(candidates[0]), candidates[1:]
            chosen.append(best)
            shared = overlaps.of(best, rest)
            if weights and np.isnan(shared).any():
                return _select_beside_nan(overlaps, scores, count, threshold, least)
            candidates = rest[~(shared > threshold)]
    found = np.array(chosen, np.int32)
    return found, scores[found]


def _select_beside_nan(
    overlaps: Overlaps | GivenOverlaps,
    scores: Array,
    count: int,
    threshold: np.generic,
    least: np.generic,
) -> tuple[Array, Array]:
    """Select where overlaps may be NaN: these take a box its score.

    TensorFlow weights the score of a box by the overlaps that it does not suppress, with 0 for NaN.
    A box with another score than before waits again, and is compared with later choices only.
    """
    waiting = [(-scores[i], int(i), 0) for i in np.flatnonzero(scores > least)]
    heapq.heapify(waiting)
    chosen: list[int] = []
    kept: list[Any] = []
    with np.errstate(all="ignore"):
        while waiting and len(chosen) < count:
            negative, index, seen = heapq.heappop(waiting)
            score = before = -negative
            for other in reversed(chosen[seen:]):
                shared = overlaps.of(other, np.array([index]))[0]
                if shared > threshold:
                    break
                score = score * scores.dtype.type(not np.isnan(shared))
            else:
                if score == before:
                    chosen.append(index)
                    kept.append(score)
                elif score > least:
                    heapq.heappush(waiting, (-score, index, len(chosen)))
    return np.array(chosen, np.int32), np.array(kept, scores.dtype)


def select_softly(
    overlaps: Overlaps, scores: Array, count: int, least: Any, sigma: Any
) -> tuple[Array, Array]:
    """Return (indices, scores) of the best boxes under soft suppression.

    A box that overlaps a chosen one loses a part of its score instead of being dropped.

    Source: N. Bodla et al., "Soft-NMS: improving object detection with one line of code", 2017,
    with Gaussian weights.
    """
    candidates = np.flatnonzero(scores > least)
    left = scores[candidates]
    chosen: list[int] = []
    kept: list[Any] = []
    scale = scores.dtype.type(-0.5) / sigma
    with np.errstate(all="ignore"):
        while len(candidates) and len(chosen) < count:
            at = int(np.argmax(left))
            best = int(candidates[at])
            chosen.append(best)
            kept.append(left[at])
            candidates, left = np.delete(candidates, at), np.delete(left, at)
            shared = overlaps.of(best, candidates)
            left = left * np.exp(scale * shared * shared)
            candidates, left = candidates[left > least], left[left > least]
    return np.array(chosen, np.int32), np.array(kept, scores.dtype)


def _scalar(value: Array, name: str) -> Any:
    if value.ndim:
        invalid(f"{name} must be 0-D, got shape {shape_text(value)}")
    return value[()]


def _threshold(value: Array, name: str = "iou_threshold") -> Any:
    limit = _scalar(value, name)
    if not 0 <= limit <= 1:
        invalid(f"{name} must be in [0, 1]")
    return limit


def _check_boxes(boxes: Array) -> None:
    if boxes.ndim != 2:
        invalid(
            f"boxes must be 2-D{shape_text(boxes)} (Shape must be rank 2 but is rank {boxes.ndim})"
        )
    if boxes.shape[1] != 4:
        invalid(f"boxes must have 4 columns (Dimension must be 4 but is {boxes.shape[1]})")


def _check_scores(scores: Array, count: int) -> None:
    if scores.ndim != 1:
        invalid(
            f"scores must be 1-D{shape_text(scores)} (Shape must be rank 1 but is rank "
            f"{scores.ndim})"
        )
    if len(scores) != count:
        invalid(
            f"scores has incompatible shape (Dimensions must be equal, but are {count} and "
            f"{len(scores)})"
        )


def _count(value: Array) -> int:
    count = int(_scalar(value, "max_output_size"))
    if count < 0:
        invalid("output size must be non-negative")
    return count


@reference("NonMaxSuppression", "NonMaxSuppressionV2", "NonMaxSuppressionV3", "NonMaxSuppressionV4")
def _non_max_suppression(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Select boxes by score and overlap.

    boxes [n, 4], scores [n], max_output_size [], iou_threshold [], score_threshold [] ->
    selected_indices [at most max_output_size].

    V1 has its threshold in an attr. V4 also returns the number of valid indices, and may fill up
    with 0.
    """
    boxes, scores, size = inputs[:3]
    limit = inputs[3] if len(inputs) > 3 else np.array(node.attrs["iou_threshold"], np.float32)
    for value, name in (
        (size, "max_output_size"),
        (limit, "iou_threshold"),
        *((v, "score_threshold") for v in inputs[4:]),
    ):
        _scalar(value, name)
    least = inputs[4][()] if len(inputs) > 4 else np.finfo(scores.dtype).min
    threshold = _threshold(limit)
    _check_boxes(boxes)
    _check_scores(scores, len(boxes))
    count = _count(size)
    found = select(Overlaps(boxes), scores, min(count, len(boxes)), threshold, least)[0]
    if node.op != "NonMaxSuppressionV4":
        return (found,)
    return _filled(found, count) if node.attrs["pad_to_max_output_size"] else found, np.array(
        len(found), np.int32
    )


def _filled(values: Array, count: int) -> Array:
    """Return the values followed by 0 up to a length."""
    check_fits_in_memory((count,), values.dtype)
    out = np.zeros(count, values.dtype)
    out[: len(values)] = values
    return out


@reference("NonMaxSuppressionV5")
def _soft_non_max_suppression(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Select boxes by soft suppression.

    boxes [n, 4], scores [n], max_output_size [], iou_threshold [], score_threshold [],
    soft_nms_sigma [] -> selected_indices, selected_scores, valid_outputs []. A sigma of 0
    suppresses by the threshold, any other by lower scores.
    """
    boxes, scores, size, limit, least, sigma = inputs
    for value, name in (
        (size, "max_output_size"),
        (limit, "iou_threshold"),
        (least, "score_threshold"),
        (sigma, "soft_nms_sigma"),
    ):
        _scalar(value, name)
    threshold = _threshold(limit)
    if sigma < 0:
        invalid("soft_nms_sigma_val must be >= 0")
    _check_boxes(boxes)
    _check_scores(scores, len(boxes))
    count = _count(size)
    if sigma > 0:
        found, kept = select_softly(
            Overlaps(boxes), scores, min(count, len(boxes)), least[()], sigma[()]
        )
    else:
        found, kept = select(Overlaps(boxes), scores, min(count, len(boxes)), threshold, least[()])
    valid = np.array(len(found), np.int32)
    return (
        (_filled(found, count), _filled(kept, count), valid)
        if node.attrs["pad_to_max_output_size"]
        else (found, kept, valid)
    )


@reference("NonMaxSuppressionWithOverlaps")
def _suppression_with_overlaps(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Select boxes by score and given overlaps.

    overlaps [n, n], scores [n], max_output_size [], overlap_threshold [], score_threshold [] ->
    selected_indices.
    """
    overlaps, scores, size, limit, least = inputs
    if overlaps.ndim != 2:
        invalid(f"overlaps must be 2-D{shape_text(overlaps)}")
    if overlaps.shape[0] != overlaps.shape[1]:
        invalid(f"overlaps must be square{shape_text(overlaps)}")
    _check_scores(scores, len(overlaps))
    for value, name in (
        (size, "max_output_size"),
        (limit, "overlap_threshold"),
        (least, "score_threshold"),
    ):
        _scalar(value, name)
    return (select(GivenOverlaps(overlaps), scores, _count(size), limit[()], least[()])[0],)


@reference("CombinedNonMaxSuppression")
def _combined(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Select boxes in each class, then the best of all classes.

    boxes [batch, n, 1 or classes, 4], scores [batch, n, classes], max_output_size_per_class [],
    max_total_size [], iou_threshold [], score_threshold [] -> boxes [batch, m, 4], scores [batch,
    m], classes [batch, m], valid_detections [batch].
    """
    boxes, scores, per_class, total, limit, least = inputs
    each = int(_scalar(per_class, "max_size_per_class"))
    if each <= 0:
        invalid("max_size_per_class must be positive")
    most = int(_scalar(total, "max_total_size"))
    if most <= 0:
        invalid("max_total_size must be > 0")
    _scalar(limit, "iou_threshold")
    _scalar(least, "score_threshold")
    threshold = _threshold(limit)
    if boxes.shape[:1] != scores.shape[:1]:
        invalid("boxes and scores must have same batch size")
    if boxes.ndim != 4:
        invalid(f"boxes must be 4-D{shape_text(boxes)}")
    if scores.ndim != 3:
        invalid(f"scores must be 3-D{shape_text(scores)}")
    if boxes.shape[1] != scores.shape[1]:
        invalid("scores has incompatible shape")
    if boxes.shape[2] not in (1, scores.shape[2]):
        invalid("third dimension of boxes must be either 1 or num classes")
    if boxes.shape[3] != 4:
        invalid("boxes must have 4 columns")
    batch, _, classes = scores.shape
    size = min(most, each * classes) if node.attrs["pad_per_class"] else most
    check_fits_in_memory((batch, size, 4), np.float32)
    out_boxes = np.zeros((batch, size, 4), np.float32)
    out_scores, out_classes = (
        np.zeros((batch, size), np.float32),
        np.zeros((batch, size), np.float32),
    )
    valid = np.zeros(batch, np.int32)
    for b in range(batch):
        measures = [Overlaps(boxes[b, :, k]) for k in range(boxes.shape[2])]
        shared = len(measures) == 1
        found = [
            select(
                measures[0 if shared else k], scores[b, :, k], each, threshold, least[()], False
            )[0]
            for k in range(classes)
        ]
        kinds = np.repeat(np.arange(classes), [len(f) for f in found])
        which = np.concatenate([np.zeros(0, np.int32), *found])
        values = scores[b, which, kinds]
        order = np.argsort(-values, kind="stable")[:size]
        n = valid[b] = len(order)
        out_boxes[b, :n] = boxes[b, which[order], 0 if shared else kinds[order]]
        out_scores[b, :n], out_classes[b, :n] = values[order], kinds[order]
    return (
        np.clip(out_boxes, 0, 1) if node.attrs["clip_boxes"] else out_boxes,
        out_scores,
        out_classes,
        valid,
    )


_COLORS = np.array(
    [
        (1, 1, 0, 1),  # yellow, blue, red, lime, purple, olive, maroon, navy, aqua, fuchsia
        (0, 0, 1, 1),
        (1, 0, 0, 1),
        (0, 1, 0, 1),
        (0.5, 0, 0.5, 1),
        (0.5, 0.5, 0, 1),
        (0.5, 0, 0, 1),
        (0, 0, 0.5, 1),
        (0, 1, 1, 1),
        (1, 0, 1, 1),
    ],
    np.float32,
)


def _colors(inputs: Arrays, depth: int) -> Array:
    """Return the colours that boxes take in turn, [n, depth]."""
    if len(inputs) > 2:
        if inputs[2].ndim != 2:
            invalid(f"colors must be a 2-D matrix{shape_text(inputs[2])}")
        if inputs[2].shape[1] < depth:
            invalid(
                "colors must have equal or more channels than the image provided: "
                f"{shape_text(inputs[2])}"
            )
        if inputs[2].size:
            return inputs[2][:, :depth]
    colors = _COLORS.copy()
    if depth == 1:
        colors[:, 0] = 1
    return colors[:, :depth]


@reference("DrawBoundingBoxes", "DrawBoundingBoxesV2")
def _draw(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Draw a frame one pixel wide for each box.

    images [batch, h, w, c], boxes [batch, n, 4] in 0..1, V2: colors [m, c] -> images with the
    frames.
    """
    images, boxes = inputs[:2]
    if images.ndim != 4:
        invalid("The rank of the images should be 4")
    if boxes.ndim != 3:
        invalid("The rank of the boxes tensor should be 3")
    if images.shape[0] != boxes.shape[0]:
        invalid("The batch sizes should be the same")
    batch, height, width, depth = images.shape
    if depth not in (1, 3, 4):
        invalid("Channel depth should be either 1 (GRY), 3 (RGB), or 4 (RGBA)")
    if boxes.shape[2] != 4:
        invalid(f"The size of the third dimension of the box must be 4. Received: {boxes.shape[2]}")
    out = images.copy()
    colors = _colors(inputs, depth).astype(images.dtype)
    limits = np.array([height - 1, width - 1, height - 1, width - 1], np.float32)
    with np.errstate(all="ignore"):
        places = np.trunc(
            np.clip(np.nan_to_num(boxes * limits, nan=-(2.0**31)), -(2.0**31), 2.0**31)
        ).astype(np.int64)
    for b in range(batch):
        for i, (top, left, bottom, right) in enumerate(places[b].tolist()):
            if (
                top > bottom
                or left > right
                or top >= height
                or bottom < 0
                or left >= width
                or right < 0
            ):
                continue
            rows = slice(max(top, 0), min(bottom, height - 1) + 1)
            columns = slice(max(left, 0), min(right, width - 1) + 1)
            color = colors[i % len(colors)]
            for row in {top, bottom}:
                if 0 <= row < height:
                    out[b, row, columns] = color
            for column in {left, right}:
                if 0 <= column < width:
                    out[b, rows, column] = color
    return (out,)
