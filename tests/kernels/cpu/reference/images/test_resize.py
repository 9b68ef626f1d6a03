"""NumPy reference kernels that change the size of images against TensorFlow, errors included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.kernels.kernel_cases import Case, differences

pytest.importorskip("tensorflow")

RNG = np.random.default_rng(3)
LOOSE = (1e-5, 1e-5)
HALF = (4e-3, 4e-3)
SIZES = (
    ((2, 3, 4, 2), (5, 7)),
    ((1, 7, 5, 3), (3, 4)),
    ((2, 3, 4, 1), (3, 4)),
    ((1, 1, 1, 2), (3, 1)),
    ((1, 5, 1, 1), (1, 4)),
    ((0, 2, 3, 1), (4, 4)),
)
KINDS = (
    np.int8,
    np.uint8,
    np.int16,
    np.uint16,
    np.int32,
    np.int64,
    np.float16,
    np.float32,
    np.float64,
    ml_dtypes.bfloat16,
)
CORNERS: tuple[dict[str, Any], ...] = ({}, {"align_corners": True}, {"half_pixel_centers": True})


def f(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return (RNG.random(shape) * 100).astype(dtype)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def tolerance(dtype: Any) -> tuple[float, float]:
    return HALF if np.dtype(dtype).itemsize == 2 and np.dtype(dtype).kind not in "iu" else LOOSE


def resizes() -> Iterator[Case]:
    for op in ("ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic", "ResizeArea"):
        for attrs in CORNERS[: 2 if op == "ResizeArea" else 3]:
            for shape, size in SIZES:
                yield Case(
                    op,
                    [f(*shape), ints(*size)],
                    attrs,
                    None if op == "ResizeNearestNeighbor" else (1e-5, 1e-4),
                )
            for kind in KINDS:
                yield Case(op, [f(2, 3, 4, 2, dtype=kind), ints(5, 3)], attrs, (1e-5, 1e-4))
        odd = f(1, 4, 4, 1)
        odd[0, 1, 1], odd[0, 2, 3] = np.nan, np.inf
        if op != "ResizeBicubic":
            yield Case(op, [odd, ints(6, 6)], {}, LOOSE)
        x = f(1, 2, 2, 1)
        for size in (ints(2, 2, 2), ints(2, 2)[None], ints(0, 2), ints(2, -1)):
            yield Case(op, [x, size])
        for wrong in (f(2, 2, 1), f(1, 0, 2, 1), f(1, 2, 2, 0)):
            yield Case(op, [wrong, ints(2, 2)])
        if op != "ResizeArea":
            yield Case(op, [x, ints(2, 2)], {"align_corners": True, "half_pixel_centers": True})


def gradients() -> Iterator[Case]:
    for op, kinds in (
        ("ResizeBilinearGrad", (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)),
        ("ResizeBicubicGrad", (np.float32, np.float64)),
    ):
        for attrs in CORNERS:
            for shape, size in SIZES:
                for kind in kinds:
                    yield Case(
                        op,
                        [
                            RNG.random((shape[0], *size, shape[3])).astype(np.float32),
                            f(*shape, dtype=kind),
                        ],
                        attrs,
                        (3e-2, 3e-2) if np.dtype(kind).itemsize == 2 else LOOSE,
                    )
        for shapes in (
            ((1, 2, 2, 1), (2, 2, 1)),
            ((2, 2, 1), (1, 2, 2, 1)),
            ((1, 2, 2, 1), (1, 0, 3, 1)),
            ((1, 0, 2, 1), (1, 3, 3, 1)),
        ):
            yield Case(op, [f(*shapes[0]), f(*shapes[1])])
        yield Case(
            op, [f(1, 2, 2, 1), f(1, 3, 3, 1)], {"align_corners": True, "half_pixel_centers": True}
        )
    op = "ResizeNearestNeighborGrad"
    for attrs in CORNERS:
        for shape, size in SIZES:
            for kind in (
                np.uint8,
                np.int8,
                np.int32,
                np.float16,
                np.float32,
                np.float64,
                ml_dtypes.bfloat16,
            ):
                grads = (RNG.random((shape[0], *size, shape[3])) * 8).astype(kind)
                yield Case(
                    op,
                    [grads, ints(*shape[1:3])],
                    attrs,
                    (3e-2, 3e-2) if np.dtype(kind).itemsize == 2 else LOOSE,
                )
    for value, size in (
        (f(2, 2, 1), ints(2, 2)),
        (f(1, 2, 2, 1), ints(2, 2, 2)),
        (f(1, 2, 2, 1), ints(0, 2)),
        (f(1, 2, 2, 1), ints(2, 2)[None]),
    ):
        yield Case(op, [value, size])


def pair(a: float, b: float) -> np.ndarray:
    return np.array([a, b], np.float32)


def moves() -> Iterator[Case]:
    for kernel in (
        "lanczos1",
        "lanczos3",
        "lanczos5",
        "gaussian",
        "box",
        "triangle",
        "keyscubic",
        "mitchellcubic",
    ):
        for antialias in (True, False):
            attrs = {"kernel_type": kernel, "antialias": antialias}
            for scale, move in (
                (pair(1.7, 0.6), pair(0.3, -0.7)),
                (pair(0.3, 2.0), pair(1.5, 0)),
                (pair(1, 1), pair(20, 0)),
            ):
                x = RNG.random((2, 5, 6, 2)).astype(np.float32)
                yield Case("ScaleAndTranslate", [x, ints(4, 7), scale, move], attrs, (1e-4, 1e-5))
                grads = RNG.random((2, 4, 7, 2)).astype(np.float32)
                yield Case("ScaleAndTranslateGrad", [grads, x, scale, move], attrs, (1e-4, 1e-5))
    for kind in KINDS:
        yield Case(
            "ScaleAndTranslate",
            [f(1, 3, 3, 1, dtype=kind), ints(4, 4), pair(1.2, 1.2), pair(0, 0)],
            {},
            (1e-4, 1e-3),
        )
    one, zero, x = pair(1, 1), pair(0, 0), f(1, 2, 2, 1)
    yield Case("ScaleAndTranslate", [f(0, 1, 2, 1), ints(2, 2), one, zero])
    for bad in (
        [f(2, 2, 1), ints(2, 2), one, zero],
        [x, ints(2, 2, 2), one, zero],
        [x, ints(2, 0), one, zero],
        [x, ints(2, 2), zero, zero],
        [x, ints(2, 2), np.ones(3, np.float32), zero],
        [x, ints(2, 2), one, np.ones(3, np.float32)],
        [x, ints(2, 2), one, one[None]],
        [f(1, 0, 2, 1), ints(2, 2), one, zero],
    ):
        yield Case("ScaleAndTranslate", bad)
    yield Case("ScaleAndTranslate", [x, ints(2, 2), one, zero], {"kernel_type": "foo"})
    for left, right in ((f(2, 2, 1), x), (x, f(2, 2, 1))):
        yield Case("ScaleAndTranslateGrad", [left, right, one, zero])


@pytest.mark.parametrize("cases", [resizes, gradients, moves])
def test_equal_tensorflow(cases: Any) -> None:
    assert not differences(list(cases()))
