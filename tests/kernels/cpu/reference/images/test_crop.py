"""NumPy reference kernels that take pieces of images against TensorFlow, errors included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.kernels.kernel_cases import Case, differences, ours

pytest.importorskip("tensorflow")

RNG = np.random.default_rng(11)
LOOSE = (1e-4, 1e-4)
FLOAT = 1  # DT_FLOAT


def u(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.asarray(RNG.random(shape) * 20).astype(dtype)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def boxes(n: int) -> np.ndarray:
    return (RNG.random((n, 4)) * 1.6 - 0.3).astype(np.float32)


SHAPES = (
    ((2, 5, 6, 3), 4, (3, 4)),
    ((1, 1, 1, 2), 2, (2, 3)),
    ((3, 4, 5, 1), 3, (1, 1)),
    ((1, 3, 3, 1), 0, (2, 2)),
    ((2, 4, 4, 0), 2, (2, 2)),
)
ONE_BOX = np.array([[0, 0, 1, 1]], np.float32)


def crops() -> Iterator[Case]:
    for method in ("bilinear", "nearest"):
        attrs = {"method": method, "extrapolation_value": 1.5}
        for shape, n, crop in SHAPES:
            index = RNG.integers(0, shape[0], n).astype(np.int32)
            for kind in (np.uint8, np.int16, np.int64, np.float16, np.float32, np.float64):
                yield Case(
                    "CropAndResize",
                    [u(*shape, dtype=kind), boxes(n), index, ints(*crop)],
                    attrs,
                    LOOSE,
                )
            grads = u(n, *crop, shape[3])
            for code in (1, 2, 19):
                tolerance = (3e-2, 3e-2) if code == 19 else LOOSE
                yield Case(
                    "CropAndResizeGradImage",
                    [grads, boxes(n), index, ints(*shape)],
                    {"T": code, "method": method},
                    tolerance,
                )
            if method == "bilinear":
                for kind in (np.uint8, np.float16, np.float32, np.float64):
                    yield Case(
                        "CropAndResizeGradBoxes",
                        [grads, u(*shape, dtype=kind), boxes(n), index],
                        {},
                        LOOSE,
                    )
    yield Case("CropAndResize", [u(1, 4, 4, 1), ONE_BOX, ints(0), ints(4, 4)])


def refused_crops() -> Iterator[Case]:
    b, zero, x, g = ONE_BOX, ints(0), u(1, 3, 3, 1), u(1, 2, 2, 1)
    two = ints(2, 2)
    for bad in (
        *(
            [u(2, 2, 1), b, zero, two],
            [x, b[0], zero, two],
            [x, b[:, :3], zero, two],
            [x, b, ints(0, 0), two],
            [x, b, ints(1), two],
        ),
        *(
            [x, b, ints(-1), two],
            [x, b, zero, ints(2, 2, 2)],
            [x, b, zero, ints(0, 2)],
            [u(1, 0, 2, 1), b, zero, two],
            [u(0, 2, 2, 1), b, zero, two],
        ),
        *(
            [x, b, np.array(0, np.int32), two],
            [x, b * np.nan, zero, two],
            [x, b + np.inf, zero, two],
            [x, b[:0], np.zeros((2, 0), np.int32), two],
        ),
        *([x, b, zero, two[None]],),
    ):
        yield Case("CropAndResize", bad)
    size = ints(1, 3, 3, 1)
    for bad in (
        *(
            [u(2, 2, 1), b, zero, size],
            [g, b, ints(1), size],
            [g, b, zero, size[:3]],
            [g, b, zero, ints(1, 3, 3, 2)],
            [g, b, ints(0, 0), size],
        ),
        *(
            [u(2, 2, 2, 1), b, zero, size],
            [g, b, zero, ints(1, 0, 3, 1)],
            [u(1, 0, 2, 1), b, zero, size],
            [g, b, zero, size[None]],
            [g, b[0], zero, size],
        ),
    ):
        yield Case("CropAndResizeGradImage", bad, {"T": FLOAT})
    for bad in (
        *(
            [u(2, 2, 1), x, b, zero],
            [g, u(3, 3, 1), b, zero],
            [g, u(1, 3, 3, 2), b, zero],
            [u(2, 2, 2, 1), x, b, zero],
            [g, x, b, ints(1)],
        ),
        *(
            [g, u(1, 0, 3, 1), b, zero],
            [u(1, 0, 2, 1), x, b, zero],
            [g, x, b, ints(0, 0)],
            [g, x, b[0], zero],
        ),
    ):
        yield Case("CropAndResizeGradBoxes", bad)


def projections() -> Iterator[Case]:
    transforms = np.array(
        [
            [1, 0, 0, 0, 1, 0, 0, 0],
            [0.9, 0.2, -1, -0.3, 1.1, 0.7, 0.01, -0.02],
            [2, 0, -9, 0, 3, 7, 0, 0],
            [1, 0, 0, 0, 1, 0, -0.5, 0],
        ],
        np.float32,
    )
    kinds = (np.uint8, np.int32, np.int64, np.float16, np.float32, np.float64, ml_dtypes.bfloat16)
    for mode in ("CONSTANT", "REFLECT", "WRAP", "NEAREST"):
        for interpolation in ("NEAREST", "BILINEAR"):
            attrs = {"fill_mode": mode, "interpolation": interpolation}
            for kind in kinds if mode in ("CONSTANT", "REFLECT") else kinds[4:5]:
                x = u(4, 5, 6, 2, dtype=kind)
                tolerance = (
                    (2e-2, 2e-2)
                    if np.dtype(kind).itemsize == 2
                    else (0, 1)
                    if np.dtype(kind).kind in "iu"
                    else LOOSE
                )
                yield Case(
                    "ImageProjectiveTransformV2", [x, transforms, ints(4, 7)], attrs, tolerance
                )
                yield Case(
                    "ImageProjectiveTransformV3",
                    [x, transforms, ints(4, 7), np.float32(3)],
                    attrs,
                    tolerance,
                )
            yield Case(
                "ImageProjectiveTransformV2",
                [u(2, 1, 1, 1), transforms[1:2], ints(3, 3)],
                attrs,
                LOOSE,
            )
            yield Case(
                "ImageProjectiveTransformV2",
                [u(0, 2, 2, 1), transforms[1:2], ints(3, 3)],
                attrs,
                LOOSE,
            )
    x, t = u(1, 3, 3, 1), transforms[:1]
    for bad in (
        [x[0], t, ints(2, 2)],
        [x, t[0], ints(2, 2)],
        [x, t[:, :7], ints(2, 2)],
        [x, transforms[:3], ints(2, 2)],
        [x, t, ints(2, 2, 2)],
        [x, t, ints(2, 0)],
        [x, t, ints(2, 2)[None]],
    ):
        yield Case("ImageProjectiveTransformV2", bad, {"interpolation": "NEAREST"})
    yield Case(
        "ImageProjectiveTransformV3",
        [x, t, ints(2, 2), np.zeros(1, np.float32)],
        {"interpolation": "NEAREST"},
    )


def glimpses() -> Iterator[Case]:
    for op in ("ExtractGlimpse", "ExtractGlimpseV2"):
        quiet = {"uniform_noise": False, "noise": "zero"}
        for centered in (False, True):
            for normalized in (False, True):
                attrs = {**quiet, "centered": centered, "normalized": normalized}
                offsets = (RNG.random((5, 2)) * 3 - 1.5).astype(np.float32)
                for shape, size in (
                    ((5, 4, 5, 2), (2, 3)),
                    ((5, 3, 6, 1), (7, 8)),
                    ((5, 4, 4, 1), (0, 2)),
                ):
                    yield Case(op, [u(*shape), ints(*size), offsets], attrs)
        x, o = u(1, 4, 5, 1), np.zeros((1, 2), np.float32)
        yield Case(op, [x[:0], ints(2, 3), o[:0]], quiet)
        for bad in (
            [x[0], ints(2, 3), o],
            [x, ints(2, 3, 4), o],
            [x, ints(2, 3), o[0]],
            [x, ints(2, 3), o[:, :1]],
            [x, ints(2, 3), np.zeros((2, 2), np.float32)],
            [x, ints(-1, 3), o],
        ):
            yield Case(op, bad, quiet)
        yield Case(op, [x, ints(2, 3), o], {"uniform_noise": False, "noise": "foo"})


@pytest.mark.parametrize("cases", [crops, refused_crops, projections, glimpses])
def test_equal_tensorflow(cases: Any) -> None:
    assert not differences(list(cases()))


@pytest.mark.parametrize("noise", ["uniform", "gaussian"])
def test_noise_lies_around_the_image(noise: str) -> None:
    x = u(2, 3, 3, 1)
    (out,), _ = ours(
        Case(
            "ExtractGlimpse",
            [x, ints(9, 9), np.zeros((2, 2), np.float32)],
            {"uniform_noise": False, "noise": noise},
        )
    )  # type: ignore[misc]
    np.testing.assert_array_equal(out[:, 3:6, 3:6], x)
    border = np.delete(out.reshape(2, -1), [30, 31, 32, 39, 40, 41, 48, 49, 50], 1)
    assert border.std() > 0
    assert noise == "gaussian" or x.min() <= border.min() <= border.max() <= x.max()
