"""Crops that cover objects: the same random crops as TensorFlow's, and the same errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.kernels.kernel_cases import Case, differences

pytest.importorskip("tensorflow")

BOX = np.array([[[0.1, 0.2, 0.6, 0.7], [0.5, 0.5, 0.52, 0.9]]], np.float32)
SIZE = np.array([83, 120, 3], np.int32)
COVERED = np.array(0.3, np.float32)


def crops() -> Iterator[Case]:
    for seed in range(1, 40):
        attrs: dict[str, Any] = {"seed": seed, "seed2": 7 * seed}
        if seed % 3 == 1:
            attrs |= {"aspect_ratio_range": [0.3, 3.0], "area_range": [0.01, 0.4]}
        if seed % 3 == 2:
            attrs |= {"max_attempts": 3, "area_range": [0.6, 1.0]}
        yield Case("SampleDistortedBoundingBoxV2", [SIZE, BOX, COVERED], attrs)
    for kind in (np.uint8, np.int8, np.int16, np.int64):
        yield Case("SampleDistortedBoundingBox", [SIZE.astype(kind), BOX], {"seed": 5})
    for size in ((1, 1, 3), (3, 2, 1), (2000, 7, 3), (0, 5, 3), (5, 0, 3), (-1, 5, 3)):
        yield Case("SampleDistortedBoundingBox", [np.array(size, np.int32), BOX], {"seed": 5})
    for seeds in ([1, 2], [3, 5], [0, 0]):
        inputs = [SIZE, BOX, COVERED, np.array(seeds, np.int64)]
        yield Case("StatelessSampleDistortedBoundingBox", inputs)
    for none in (BOX[:, :0], BOX[:0]):
        for whole in (False, True):
            attrs = {"seed": 3, "use_image_if_no_bounding_boxes": whole}
            yield Case("SampleDistortedBoundingBoxV2", [SIZE, none, COVERED], attrs)


def errors() -> Iterator[Case]:
    op = "SampleDistortedBoundingBoxV2"
    for box in (BOX + 0.5, BOX - 0.5, BOX * np.nan, BOX[..., ::-1], BOX * 0):
        yield Case(op, [SIZE, box.astype(np.float32), COVERED], {"seed": 4})
    for covered in (-0.5, 1.5, np.nan):
        yield Case(op, [SIZE, BOX, np.array(covered, np.float32)], {"seed": 4})
    for attrs in (
        *({"aspect_ratio_range": values} for values in ([1.0], [0.0, 1.0], [2.0, 1.0])),
        *({"area_range": values} for values in ([1.0], [0.0, 1.0], [0.5, 1.5], [0.9, 0.1])),
        *({"max_attempts": count} for count in (0, -1)),
    ):
        yield Case(op, [SIZE, BOX, COVERED], {"seed": 4, **attrs})
    for inputs in (
        [SIZE[:2], BOX, COVERED],
        [SIZE[None], BOX, COVERED],
        [SIZE, BOX[0], COVERED],
        [SIZE, BOX[..., :3], COVERED],
        [SIZE, BOX, COVERED[None]],
    ):
        yield Case(op, inputs, {"seed": 4}, own_words=True)


@pytest.mark.parametrize("cases", [crops, errors])
def test_equal_tensorflow(cases: Any) -> None:
    assert not differences(list(cases()))
