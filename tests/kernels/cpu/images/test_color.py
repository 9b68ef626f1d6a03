"""Compiled colours against their references bit for bit, and TensorFlow."""

from __future__ import annotations

import numpy as np

from tests.kernels.against_reference import check
from tests.kernels.kernel_cases import Case, native_differences

RNG = np.random.default_rng(8)
SHAPES = ((2, 5, 7, 3), (3, 20, 33, 3))


def images(*shape: int) -> list[np.ndarray]:
    """Random images; some grey and black pixels; NaN and negative channels."""
    usual = RNG.random(shape).astype(np.float32)
    usual.reshape(-1)[:6] = 0.5, 0.5, 0.5, 0, 0, 0
    usual = usual.reshape(shape)
    strange = usual.copy().reshape(-1)
    strange[1::17], strange[5::29] = np.nan, -1
    return [usual, strange.reshape(shape)]


def test_colours() -> None:
    for image in (image for shape in SHAPES for image in images(*shape)):
        check("RGBToHSV", image)
        check("HSVToRGB", image, nchunks=3)
        for amount in (0.3, -0.4, 1.7, 0):
            for op in ("AdjustHue", "AdjustSaturation", "AdjustContrastv2"):
                check(op, image, np.float32(amount), late=(1,))
    check("AdjustContrastv2", RNG.random((2, 5, 9, 5)).astype(np.float32), np.float32(2))


def test_colours_against_tensorflow() -> None:
    image, close = images(2, 5, 7, 3)[0], (1e-5, 1e-5)
    amounts = [(op, [image, np.float32(0.4)]) for op in ("AdjustHue", "AdjustSaturation")]
    amounts += [("AdjustContrastv2", [image, np.float32(1.4)])]
    cases = [Case(op, inputs, {}, close) for op, inputs in amounts]
    cases += [Case("RGBToHSV", [image], {}, close), Case("HSVToRGB", [image], {}, close)]
    assert not native_differences(cases)
