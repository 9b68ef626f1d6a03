"""Resized images and gradients of resizing, against the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfjit.kernels.cpu  # noqa: F401  (registers every kernel)
from tests.kernels.launching import run_native, tensor
from tfjit.framework.types import dtypes
from tfjit.kernels.registry import (
    NodeSpec,
    TensorSpec,
    Unsupported,
    find_native,
    find_reference,
)

RNG = np.random.default_rng(6)
CENTRES = [(False, False), (True, False), (False, True)]


def both(
    op: str, inputs: list[np.ndarray], shape: tuple[int, ...], chunks: int = 0, **attrs: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Return the compiled and the reference's result of one shape."""
    outputs = (TensorSpec(dtypes.float32, shape),)
    spec = NodeSpec("resize", op, attrs, tuple(map(tensor, inputs)), outputs)
    builder, reference = find_native(op), find_reference(op)
    assert builder is not None and reference is not None
    (found,) = run_native(builder(spec), inputs, outputs, nchunks=chunks)
    return found, np.asarray(reference(spec, inputs)[0])


@pytest.mark.parametrize("op", ["ResizeBilinear", "ResizeBicubic"])
@pytest.mark.parametrize("channels", [1, 3, 7])
@pytest.mark.parametrize(("corners", "centres"), CENTRES)
def test_sizes(op: str, channels: int, corners: bool, centres: bool) -> None:
    attrs = {"align_corners": corners, "half_pixel_centers": centres}
    image = RNG.standard_normal((3, 5, 6, channels)).astype(np.float32)
    for size, chunks in (((1, 1), 0), ((5, 9), 3), ((11, 6), 0), ((2, 3), 2)):
        inputs = [image, np.int32(size)]
        found, expected = both(op, inputs, (3, *size, channels), chunks, **attrs)
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6)
        grads = RNG.standard_normal((3, *size, channels)).astype(np.float32)
        found, expected = both(f"{op}Grad", [grads, image], image.shape, chunks, **attrs)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("corners", "centres"), CENTRES)
def test_gradients_of_nearest_pixels(corners: bool, centres: bool) -> None:
    attrs = {"align_corners": corners, "half_pixel_centers": centres}
    for size, channels in (((9, 4), 3), ((2, 3), 6), ((5, 6), 1)):
        grads = RNG.standard_normal((2, *size, channels)).astype(np.float32)
        inputs = [grads, np.int32([5, 6])]
        found, expected = both("ResizeNearestNeighborGrad", inputs, (2, 5, 6, channels), 2, **attrs)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64", "float64", "float16"])
@pytest.mark.parametrize("op", ["ResizeBilinear", "ResizeBicubic"])
def test_dtypes(op: str, dtype: str) -> None:
    image = (RNG.random((2, 4, 5, 2)) * 100).astype(dtype)
    attrs = {"align_corners": False, "half_pixel_centers": True}
    found, expected = both(op, [image, np.int32([7, 3])], (2, 7, 3, 2), **attrs)
    np.testing.assert_allclose(found, expected, rtol=2e-6)


def test_values_that_are_not_finite() -> None:
    image = np.zeros((1, 4, 4, 5), np.float32)
    image[0, 1, 2] = [np.inf, -np.inf, np.nan, 1, -0.0]
    for op in ("ResizeBilinear", "ResizeBicubic"):
        attrs = {"align_corners": False, "half_pixel_centers": False}
        with np.errstate(invalid="ignore"):
            found, expected = both(op, [image, np.int32([9, 2])], (1, 9, 2, 5), **attrs)
        np.testing.assert_array_equal(found, expected)


def test_no_images_are_left_to_the_reference() -> None:
    image, outputs = np.zeros((1, 0, 4, 1), np.float32), (TensorSpec(dtypes.float32, (1, 2, 2, 1)),)
    spec = NodeSpec("r", "ResizeBilinear", {}, (tensor(image), tensor(np.int32([2, 2]))), outputs)
    builder = find_native("ResizeBilinear")
    assert builder is not None
    with pytest.raises(Unsupported):
        builder(spec)
