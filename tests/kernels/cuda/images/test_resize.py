"""Resizing on simulated GPUs, with gradients, against the references."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.kernels.cuda.against_reference import call_of, check
from tests.kernels.launching import tensor
from tfjit.framework.types import dtypes as d
from tfjit.kernels.registry import TensorSpec, Unsupported

RNG = np.random.default_rng(4)
MODES = pytest.mark.parametrize(
    "attrs",
    [
        {"align_corners": False, "half_pixel_centers": False},
        {"align_corners": True, "half_pixel_centers": False},
        {"align_corners": False, "half_pixel_centers": True},
    ],
    ids=["plain", "corners", "centers"],
)
SIZES = [((2, 3, 5, 3), (7, 4)), ((1, 6, 4, 2), (2, 4)), ((1, 1, 1, 1), (3, 2)),
         ((2, 4, 3, 4), (1, 1)), ((0, 2, 3, 1), (4, 5)), ((1, 3, 4, 2), (3, 4))]  # fmt: skip


def images(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return (RNG.normal(size=shape) * 50 + 100).astype(dtype)


@MODES
@pytest.mark.parametrize("dtype", ["float32", "uint8", "float16", "float64"])
def test_bilinear(dtype: str, attrs: dict[str, bool]) -> None:
    for shape, size in SIZES:
        check("ResizeBilinear", images(shape, dtype), np.int32(size), near=1e-6, **attrs)


@MODES
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_gradient_of_bilinear(dtype: str, attrs: dict[str, bool]) -> None:
    for shape, size in SIZES:
        grads = RNG.normal(size=(shape[0], *size, shape[3])).astype("f4")
        original = np.zeros(shape, dtype)
        near = 2e-3 if dtype == "float16" else 1e-6
        check("ResizeBilinearGrad", grads, original, near=near, **attrs)


@MODES
@pytest.mark.parametrize("dtype", ["float32", "uint8", "float16", "int64", "complex128"])
def test_nearest(dtype: str, attrs: dict[str, bool]) -> None:
    for shape, size in SIZES:
        check("ResizeNearestNeighbor", images(shape, dtype), np.int32(size), **attrs)


@MODES
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_gradient_of_nearest(dtype: str, attrs: dict[str, bool]) -> None:
    for shape, size in SIZES:
        grads = RNG.normal(size=(shape[0], *size, shape[3])).astype(dtype)
        near = 2e-3 if dtype == "float16" else 1e-6
        check("ResizeNearestNeighborGrad", grads, np.int32(shape[1:3]), near=near, **attrs)


def test_special_values() -> None:
    x = np.float32([np.nan, 1, -0.0, np.inf, -np.inf, 2]).reshape(1, 2, 3, 1)
    attrs = {"align_corners": False, "half_pixel_centers": False}
    for op, size in itertools.product(
        ("ResizeBilinear", "ResizeNearestNeighbor"), ((2, 3), (4, 4))
    ):
        with np.errstate(invalid="ignore"):
            check(op, x, np.int32(size), **attrs)


def test_forms_without_a_kernel() -> None:
    x = TensorSpec(d.float32, (1, 2, 3, 1))
    arrays = [np.zeros(x.shape, np.float32), np.int32([4, 4])]
    with pytest.raises(Unsupported, match="corners"):
        call_of("ResizeBilinear", arrays, [x], align_corners=True, half_pixel_centers=True)
    with pytest.raises(Unsupported, match="no images"):
        call_of("ResizeBilinear", [np.zeros((2, 3), np.float32), arrays[1]], [x])
    with pytest.raises(Unsupported, match="int8"):
        ints = np.zeros((1, 4, 4, 1), np.int8)
        call_of("ResizeNearestNeighborGrad", [ints, np.int32([4, 4])], [tensor(ints)],
                align_corners=False, half_pixel_centers=False)  # fmt: skip
