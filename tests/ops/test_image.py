"""`tfjit.image` against `tf.compat.v1.image`: the same program built with both modules gives the
same op types and values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit

RNG = np.random.default_rng(37)
IMAGES = RNG.random((2, 5, 6, 3)).astype(np.float32)
BOXES = np.array([[0.1, 0.03, 0.7, 0.83], [0.2, 0.3, 1.2, 0.8], [0.15, 0.05, 0.7, 0.8]], np.float32)
SCORES = np.array([0.4, 0.9, 0.6], np.float32)

PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "bilinear": lambda m, x: m.resize_bilinear(x, [7, 4], half_pixel_centers=True),
    "nearest": lambda m, x: m.resize_nearest_neighbor(x, [7, 4], align_corners=True),
    "bicubic": lambda m, x: m.resize_bicubic(x, [7, 4]),
    "area": lambda m, x: m.resize_area(x, [2, 4]),
    "crops": lambda m, x: m.crop_and_resize(x, BOXES, [0, 1, 1], [3, 4]),
    "crops by name": lambda m, x: m.crop_and_resize(
        x, BOXES, box_indices=[0, 1, 1], crop_size=[3, 4], method="nearest"
    ),
    "suppression": lambda m, x: m.non_max_suppression(BOXES, SCORES, 3, 0.4),
    "soft suppression": lambda m, x: m.non_max_suppression_with_scores(
        BOXES, SCORES, 3, soft_nms_sigma=0.3
    ),
    "overlaps": lambda m, x: m.non_max_suppression_overlaps(
        np.eye(3, dtype="f4") + 0.3, SCORES, 3, 0.2
    ),
    "combined": lambda m, x: m.combined_non_max_suppression(
        BOXES[None, :, None], SCORES[None, :, None], 2, 4
    ),
    "patches": lambda m, x: m.extract_image_patches(
        x, [1, 2, 3, 1], [1, 1, 1, 1], [1, 1, 1, 1], "SAME"
    ),
    "hsv": lambda m, x: m.hsv_to_rgb(m.rgb_to_hsv(x)),
    "frames": lambda m, x: m.draw_bounding_boxes(x[:1], BOXES[None], colors=[[1.0, 0.5, 0.2]]),
}


def _run(module: Any, program: Callable[[Any, Any], Any]) -> tuple[list[Any], list[str]]:
    v1 = module.compat.v1
    with module.Graph().as_default() as graph:
        x = v1.placeholder(module.float32, IMAGES.shape)
        out = program(v1.image if module is tf else module.image, x)
        outputs = list(out) if isinstance(out, (list, tuple)) else [out]
        with v1.Session(graph=graph) as session:
            return session.run(outputs, {x: IMAGES}), [value.op.type for value in outputs]


@pytest.mark.parametrize("name", PROGRAMS)
def test_equal_tensorflow(name: str) -> None:
    theirs, types = _run(tf, PROGRAMS[name])
    ours, found = _run(tfjit, PROGRAMS[name])
    assert found == types
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, 1e-5, 1e-5)
