"""Test gradients of colors, projections and volumes' patches against TensorFlow's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ops.autodiff.against_tensorflow import compare, signed, smooth

# Each order of the channels, equal channels, greys, black and a channel of 0.
COLORS = np.array(
    [
        *([0.1, 0.5, 0.9], [0.1, 0.9, 0.5], [0.5, 0.1, 0.9], [0.5, 0.9, 0.1], [0.9, 0.1, 0.5]),
        *([0.9, 0.5, 0.1], [0.9, 0.9, 0.1], [0.9, 0.1, 0.9], [0.1, 0.9, 0.9], [0.4, 0.4, 0.9]),
        *([0.4, 0.9, 0.4], [0.9, 0.4, 0.4], [0.5, 0.5, 0.5], [0.0, 0.0, 0.0], [0.0, 0.3, 0.6]),
        *([0.3, 0.0, 0.6], [0.6, 0.3, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [1.0, 1.0, 1.0]),
    ],
    "f4",
)
WEIGHTS = signed(20, 3)


@pytest.mark.parametrize("part", [0, 1, 2, slice(None)], ids=["hue", "saturation", "value", "all"])
def test_hue_saturation_value(part: Any) -> None:
    def program(m: Any, x: Any) -> Any:
        return m.raw_ops.RGBToHSV(images=x)[..., part] * WEIGHTS[..., part]

    compare(program, [COLORS])


@pytest.mark.parametrize("interpolation", ["NEAREST", "BILINEAR"])
@pytest.mark.parametrize("count", [1, 2])
def test_projections(interpolation: str, count: int) -> None:
    moves = np.array([[0.9, 0.1, 0.3, -0.2, 1.1, 0.4, 0.01, 0.02]] * count, "f4")

    def program(m: Any, x: Any) -> Any:
        common = {"images": x, "transforms": moves, "interpolation": interpolation}
        size = {"output_shape": [4, 5]}
        second = m.raw_ops.ImageProjectiveTransformV2(**common, **size)
        third = m.raw_ops.ImageProjectiveTransformV3(**common, **size, fill_value=0.5)
        return [second**2, third**2]

    compare(program, [smooth(2, 5, 5, 2)])


def test_patches_of_volumes() -> None:
    def program(m: Any, x: Any) -> Any:
        size = {"ksizes": [1, 2, 2, 1, 1], "strides": [1, 1, 2, 1, 1], "padding": "SAME"}
        return m.raw_ops.ExtractVolumePatches(input=x, **size) ** 2

    compare(program, [smooth(2, 3, 3, 2, 2)])
