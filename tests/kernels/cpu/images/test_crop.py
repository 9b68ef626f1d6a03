"""Crops of boxes, against their reference bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

import tfjit.kernels.cpu  # noqa: F401  (registers every kernel)
from tests.kernels.launching import KernelError, run_native, tensor
from tfjit.framework.types import dtypes
from tfjit.kernels.registry import (
    NodeSpec,
    TensorSpec,
    Unsupported,
    find_native,
    find_reference,
)

RNG = np.random.default_rng(5)


def crop(
    image: np.ndarray,
    boxes: np.ndarray,
    index: np.ndarray,
    size: tuple[int, int],
    chunks: int = 0,
    method: bytes = b"bilinear",
) -> tuple[np.ndarray, np.ndarray]:
    """Return the compiled and the reference's crops."""
    inputs = [image, boxes, index, np.int32(size)]
    shape = (len(boxes), *size, image.shape[3])
    outputs = (TensorSpec(dtypes.float32, shape),)
    attrs = {"method": method, "extrapolation_value": 0.5}
    known = {3: inputs[3]}
    spec = NodeSpec("crop", "CropAndResize", attrs, tuple(map(tensor, inputs)), outputs, known)
    builder, reference = find_native("CropAndResize"), find_reference("CropAndResize")
    assert builder is not None and reference is not None
    (found,) = run_native(builder(spec), inputs, outputs, nchunks=chunks)
    return found, reference(spec, inputs)[0]


def boxes(count: int) -> np.ndarray:
    """Return boxes of which some leave the image."""
    return (RNG.random((count, 4)) * 1.6 - 0.3).astype(np.float32)


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8", "int32"])
@pytest.mark.parametrize("size", [(1, 1), (3, 4), (5, 1), (7, 9)])
@pytest.mark.parametrize("shape", [(2, 5, 6, 3), (1, 1, 1, 2), (3, 4, 5, 1), (2, 4, 4, 0)])
def test_crops(dtype: str, size: tuple[int, int], shape: tuple[int, ...]) -> None:
    image = (RNG.random(shape) * 100).astype(dtype)
    for count, chunks in ((0, 0), (1, 0), (6, 3)):
        index = RNG.integers(0, shape[0], count).astype(np.int32)
        found, expected = crop(image, boxes(count), index, size, chunks)
        np.testing.assert_array_equal(found, expected)


def test_whole_images_are_themselves() -> None:
    image = RNG.random((1, 6, 7, 2)).astype(np.float32)
    found, _ = crop(image, np.float32([[0, 0, 1, 1]]), np.int32([0]), (6, 7))
    np.testing.assert_array_equal(found, image)


@pytest.mark.parametrize(
    ("box", "number", "message"),
    [
        ([0, 0, np.nan, 1], 0, "not finite"),
        ([0, np.inf, 1, 1], 0, "not finite"),
        ([0, 0, 1, 1], 1, "outside"),
        ([0, 0, 1, 1], -1, "outside"),
    ],
)
def test_refused_boxes(box: list[float], number: int, message: str) -> None:
    image = np.ones((1, 3, 3, 1), np.float32)
    with pytest.raises(KernelError, match=message):
        crop(image, np.float32([box]), np.int32([number]), (2, 2))


def test_the_nearest_pixel_is_left_to_the_reference() -> None:
    image = np.ones((1, 3, 3, 1), np.float32)
    with pytest.raises(Unsupported, match="nearest"):
        crop(image, boxes(1), np.int32([0]), (2, 2), method=b"nearest")
