"""Sample crops that cover objects, value for value TensorFlow's.

The draws are taken from the Philox stream in order: the ratio of a crop's sides, its height, its
place. A run reserves a block for each attempt that it may make. Sides are rounded as TensorFlow's
float32 arithmetic rounds them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from tfjit.kernels.cpu.random import philox
from tfjit.kernels.cpu.random.word_draws import WordDraws
from tfjit.kernels.cpu.reference.inputs import Arrays, invalid, shape_text
from tfjit.kernels.random_stream import advance
from tfjit.kernels.registry import NodeSpec, initial_state, reference

_SMALL: Final = 0.0000001
_F = np.float32


class _Box(NamedTuple):
    """A rectangle of pixels; right and bottom are outside."""

    left: int
    top: int
    right: int
    bottom: int

    def area(self) -> int:
        return max(0, self.right - self.left) * max(0, self.bottom - self.top)

    def common(self, other: _Box) -> int:
        """Return the area of the intersection."""
        return _Box(
            max(self.left, other.left),
            max(self.top, other.top),
            min(self.right, other.right),
            min(self.bottom, other.bottom),
        ).area()


def _rounded(value: np.float32) -> int:
    return int(np.rint(value))


def _draw_crop(
    width: int,
    height: int,
    areas: tuple[np.float32, np.float32],
    ratio: np.float32,
    draws: WordDraws,
) -> _Box | None:
    """Return a random crop, or None.

    ratio: of width to height; areas: the least and the most of the image, 0 .. 1.
    """
    if areas[1] <= 0 or ratio <= 0 or width <= 0 or height <= 0 or areas[0] > areas[1]:
        return None
    least, most = (_F(_F(area * _F(width)) * _F(height)) for area in areas)
    low, high = (_rounded(np.sqrt(_F(area / ratio))) for area in (least, most))
    if _rounded(_F(high) * ratio) > width:
        high = int((width + 0.5 - _SMALL) / float(ratio))
        if _rounded(_F(high) * ratio) > width:
            high -= 1
    high = min(high, height)
    low = min(low, high)
    rows = low + draws.below(high - low + 1) if low < high else low
    columns = _rounded(_F(rows) * ratio)
    # a rounding error is mended by a slightly larger or smaller crop
    if _F(rows * columns) < least:
        rows += 1
        columns = _rounded(_F(rows) * ratio)
    if _F(rows * columns) > most:
        rows -= 1
        columns = _rounded(_F(rows) * ratio)
    area = _F(rows * columns)
    if not least <= area <= most or not 0 < columns <= width or not 0 < rows <= height:
        return None
    top = draws.below(height - rows) if rows < height else 0
    left = draws.below(width - columns) if columns < width else 0
    return _Box(left, top, left + columns, top + rows)


def _covers(crop: _Box, objects: list[_Box], least: np.float32) -> bool:
    """Return whether a crop covers enough of one of the objects."""
    if crop.area() < 1:
        return False
    return any(_F(crop.common(box)) / _F(box.area()) >= least for box in objects if box.area() >= 1)


def _objects(boxes: np.ndarray, width: int, height: int) -> list[_Box]:
    rows = boxes.reshape(-1, 4)
    outside = rows[~((rows >= 0) & (rows <= 1))]
    if outside.size:
        invalid(f"All bounding box coordinates must be in [0.0, 1.0]: {outside[0]:g}")
    sizes = np.array([height, width, height, width], np.float32)
    return [
        _Box(left, top, right, bottom)
        for top, left, bottom, right in (rows * sizes).astype(np.int64).tolist()
    ]


def _checked_ranges(node: NodeSpec) -> tuple[np.ndarray, np.ndarray]:
    """Return (range of ratios, range of areas), float32."""
    ratios, areas = (
        np.array(node.attrs[name], np.float32) for name in ("aspect_ratio_range", "area_range")
    )
    if len(ratios) != 2:
        invalid("Aspect ratio range field must specify 2 dimensions")
    if (ratios <= 0).any():
        invalid(f"Aspect ratio range must be non-negative: [{ratios[0]:g}, {ratios[1]:g}]")
    if len(areas) != 2:
        invalid("Area range field must specify 2 dimensions")
    for wrong, rule in ((areas <= 0, "non-negative"), (areas > 1, "less then or equal to 1.0")):
        if wrong.any():
            invalid(f"Area range must be {rule}: [{areas[0]:g}, {areas[1]:g}]")
    if node.attrs["max_attempts"] <= 0:
        invalid(f"Max attempts must be non-negative: {node.attrs['max_attempts']}")
    return ratios, areas


def _sampled(
    node: NodeSpec, size: np.ndarray, boxes: np.ndarray, covered: np.ndarray, state: np.ndarray
) -> Arrays:
    ratios, areas = _checked_ranges(node)
    if size.ndim != 1:
        invalid(f"image_size must be 1-dimensional{shape_text(size)}")
    if len(size) != 3:
        invalid(f"image_size must contain 3 elements{shape_text(size)}")
    if boxes.ndim != 3:
        invalid(
            "input boxes must be 3-dimensional [batch, num_boxes, coords]: " + shape_text(boxes)
        )
    if boxes.shape[2] != 4:
        invalid(f"bounding boxes must have shape [4]{shape_text(boxes)}")
    if covered.ndim:
        invalid(f"min_object_covered must be 0-D, got shape {shape_text(covered)}")
    least = _F(covered)
    if not least >= 0:
        invalid(f"Min object covered must be non-negative: {least:g}")
    height, width = int(size[0]), int(size[1])
    for name, length in (("height", height), ("width", width)):
        if not 0 <= length < 1 << 31:
            invalid(f"image {name} cannot be >= int32 max")
    whole = _Box(0, 0, width, height)
    objects = _objects(boxes, width, height)
    if not objects:
        if not node.attrs["use_image_if_no_bounding_boxes"]:
            invalid(
                "No bounding boxes provided as input. One must enable "
                "use_image_if_no_bounding_boxes if you wish to not provide any bounding boxes."
            )
        objects = [whole]
    draws = WordDraws(state)
    chosen = whole
    for _ in range(int(node.attrs["max_attempts"])):
        ratio = _F(_F(_F(draws.unit()) * (ratios[1] - ratios[0])) + ratios[0])
        crop = _draw_crop(width, height, (areas[0], areas[1]), ratio, draws)
        if crop is not None and _covers(crop, objects, least):
            chosen = crop
            break
    begin = np.array([chosen.top, chosen.left, 0]).astype(size.dtype)
    extent = np.array([chosen.bottom - chosen.top, chosen.right - chosen.left, -1])
    with np.errstate(all="ignore"):
        place = np.array(
            [
                _F(chosen.top) / _F(height),
                _F(chosen.left) / _F(width),
                _F(chosen.bottom) / _F(height),
                _F(chosen.right) / _F(width),
            ],
            np.float32,
        )
    return begin, extent.astype(size.dtype), place.reshape(1, 1, 4)


@initial_state("SampleDistortedBoundingBox", "SampleDistortedBoundingBoxV2")
def _stream(node: NodeSpec) -> np.ndarray:
    return philox.seeded(int(node.attrs["seed"]), int(node.attrs["seed2"]))


@reference("SampleDistortedBoundingBox", "SampleDistortedBoundingBoxV2")
def _sample(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Sample a crop from the node's stream.

    image_size [3], bounding_boxes [batch, n, 4], min_object_covered [] -> begin [3], size [3],
    bboxes [1, 1, 4].
    """
    covered = (
        inputs[2] if len(inputs) > 2 else np.array(node.attrs["min_object_covered"], np.float32)
    )
    assert node.state is not None
    out = _sampled(node, inputs[0], inputs[1], covered, node.state)
    advance(node.state, int(node.attrs["max_attempts"]))
    return out


@reference("StatelessSampleDistortedBoundingBox")
def _stateless_sample(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Sample a crop from the stream of a seed.

    seed [2]; see `_sample` for the others.
    """
    size, boxes, covered, seed = inputs
    if seed.shape != (2,):
        invalid(f"seed must have shape [2], not {shape_text(seed)}")
    state = philox.scrambled(int(seed[0]), int(seed[1]))
    return _sampled(node, size, boxes, covered, state)
