"""NumPy reference kernels of boxes and of colours against TensorFlow, errors included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.kernels.kernel_cases import Case, differences

pytest.importorskip("tensorflow")

RNG = np.random.default_rng(5)
F, N = np.float32, np.int32
LOOSE = (1e-5, 1e-5)


def u(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.asarray(RNG.random(shape)).astype(dtype)


def colors() -> Iterator[Case]:
    """Conversions and changes."""
    for op in ("RGBToHSV", "HSVToRGB"):
        for kind in (np.float16, np.float32, np.float64):
            for shape in ((3,), (2, 3), (2, 4, 5, 3), (0, 3)):
                yield Case(
                    op,
                    [(u(*shape) * 2 - 0.5).astype(kind)],
                    {},
                    (2e-3, 2e-3) if kind is np.float16 else LOOSE,
                )
        yield Case(
            op,
            [
                np.array(
                    [
                        [np.nan, 1, 1],
                        [1, np.nan, 1],
                        [1, 1, 1],
                        [0, 0, 0],
                        [1, 1, 0],
                        [np.inf, 1, 1],
                        [1.5, 1, 1],
                        [0.2, 2, -1],
                    ],
                    F,
                )
            ],
            {},
            LOOSE,
        )
        yield Case(op, [F(0.2)], own_words=True)
        yield Case(op, [u(2, 4)])
    for op in ("AdjustContrastv2", "AdjustHue", "AdjustSaturation"):
        for shape in ((4, 5, 3), (2, 4, 5, 3), (0, 2, 3), (2, 1, 2, 2, 3)):
            for amount in (0.0, 0.3, -0.7, 2.5):
                yield Case(op, [u(*shape), F(amount)], {}, LOOSE)
        yield Case(op, [u(2, 3), F(1)])
        yield Case(op, [u(2, 3, 4), F(1)], {}, LOOSE)
        yield Case(op, [u(2, 3, 3), u(1)])
        yield Case(
            op,
            [np.array([[[1, 1, 1], [0, 0, 0], [1, 1, 0], [0.2, 0.2, 0.7]]], F), F(0.4)],
            {},
            LOOSE,
        )


def boxes(n: int, dtype: Any = np.float32) -> np.ndarray:
    corner = RNG.random((n, 2))
    return np.concatenate([corner, corner + RNG.random((n, 2)) * 0.6], 1).astype(dtype)


def suppressions() -> Iterator[Case]:
    for kind in (np.float32, np.float16):
        T = kind
        for n, most in ((20, 5), (40, 100), (1, 1), (0, 3), (7, 0)):
            b, s = boxes(n, kind), u(n, dtype=kind)
            if n > 5:
                s[3] = s[2]
                b[4] = b[4][[2, 3, 0, 1]]
                b[5, 2] = b[5, 0]
            for limit in (0.0, 0.3, 1.0):
                if kind is np.float32:
                    yield Case("NonMaxSuppression", [b, s, N(most)], {"iou_threshold": limit})
                yield Case("NonMaxSuppressionV2", [b, s, N(most), T(limit)])
                yield Case("NonMaxSuppressionV3", [b, s, N(most), T(limit), T(0.4)])
                for pad in (False, True):
                    yield Case(
                        "NonMaxSuppressionV4",
                        [b, s, N(most), T(limit), T(0.2)],
                        {"pad_to_max_output_size": pad},
                    )
                    for sigma in (0, 0.4):
                        tolerance = (2e-2, 2e-2) if kind is np.float16 else LOOSE
                        yield Case(
                            "NonMaxSuppressionV5",
                            [b, s, N(most), T(limit), T(0.2), T(sigma)],
                            {"pad_to_max_output_size": pad},
                            tolerance,
                        )
    b, s = boxes(3), u(3)
    odd = [np.array([np.nan, 0.5, np.inf], F), np.array([-np.inf, -1, 2], F)]
    for scores in odd:
        yield Case("NonMaxSuppression", [b, scores, N(3)])
    yield Case("NonMaxSuppression", [b * np.nan, s, N(3)])
    # an overlap of NaN takes a box its score
    holes = boxes(9)
    holes[[2, 5, 6], [0, 3, 1]] = np.nan, np.inf, -np.inf
    for scores in (u(9), -u(9), np.array([np.inf, 3, 3, 2, 2, 2, 1, 0, -1], F)):
        yield Case("NonMaxSuppression", [holes, scores, N(9)])
        yield Case("NonMaxSuppressionV3", [holes, scores, N(9), F(0.3), F(-0.5)])
        for most in (4, 9):
            values = [holes, scores, N(most), F(0.3), F(-0.5), F(0)]
            yield Case("NonMaxSuppressionV5", values, {"pad_to_max_output_size": False})
    one = np.zeros(1, F)
    for bad in (
        [b[0], s, N(3)],
        [b[:, :3], s, N(3)],
        [b, s[:2], N(3)],
        [b, s, one.astype(N)],
        [b, s, N(-1)],
        [b, s[None], N(3)],
    ):
        yield Case("NonMaxSuppression", bad)
        yield Case("NonMaxSuppressionV2", [*bad, F(0.5)])
        yield Case("NonMaxSuppressionV3", [*bad, F(0.5), F(0.1)])
        yield Case("NonMaxSuppressionV4", [*bad, F(0.5), F(0.1)])
        yield Case("NonMaxSuppressionV5", [*bad, F(0.5), F(0.1), F(0)])
    yield Case("NonMaxSuppression", [b, s, N(3)], {"iou_threshold": 1.5})
    for limit, least in (
        (F(-0.1), F(0)),
        (F(2), F(0)),
        (one, F(0)),
        (F(0.5), one),
        (F(np.nan), F(0)),
    ):
        yield Case("NonMaxSuppressionV3", [b, s, N(3), limit, least])
        yield Case("NonMaxSuppressionV4", [b, s, N(3), limit, least])
        yield Case("NonMaxSuppressionV5", [b, s, N(3), limit, least, F(0)])
    for sigma in (F(-1), one):
        yield Case("NonMaxSuppressionV5", [b, s, N(3), F(0.5), F(0.1), sigma])
    o = u(6, 6)
    for limit in (0.2, 0.7):
        yield Case("NonMaxSuppressionWithOverlaps", [o, u(6), N(4), F(limit), F(0.1)])
    o, s = u(3, 3), u(3)
    good = [N(3), F(0.5), F(0.1)]
    for bad in (
        [o[:2], s, *good],
        [o[0], s, *good],
        [o, s[:2], *good],
        [o, s, one.astype(N), *good[1:]],
        [o, s, N(3), one, F(0)],
    ):
        yield Case("NonMaxSuppressionWithOverlaps", bad)
    yield Case("NonMaxSuppressionWithOverlaps", [o, s, N(-3), F(0.5), F(0)])
    yield Case("NonMaxSuppressionWithOverlaps", [o, s, N(3), F(0.5), one])
    yield Case("NonMaxSuppressionWithOverlaps", [o[:0, :0], s[:0], *good])


def combined() -> Iterator[Case]:
    op = "CombinedNonMaxSuppression"
    for batch, n, q, k in ((2, 12, 1, 3), (1, 8, 4, 4), (0, 3, 1, 2), (2, 0, 1, 2), (1, 5, 1, 1)):
        b = boxes(batch * n * q).reshape(batch, n, q, 4)
        s = u(batch, n, k)
        for each, total in ((2, 4), (50, 3), (3, 40)):
            for attrs in ({}, {"pad_per_class": True}, {"clip_boxes": False}):
                yield Case(op, [b, s, N(each), N(total), F(0.4), F(0.2)], attrs)
    b, s = boxes(3).reshape(1, 3, 1, 4), u(1, 3, 2)
    good = [N(2), N(4), F(0.5), F(0.1)]
    one = np.zeros(1, F)
    for bad in (
        *(
            [b[0], s, *good],
            [b, s[0], *good],
            [np.repeat(b, 3, 2), s, *good],
            [b[..., :3], s, *good],
            [np.repeat(b, 2, 0), s, *good],
        ),
        *(
            [b, s[:, :2], *good],
            [b, s, one.astype(N), *good[1:]],
            [b, s, N(0), *good[1:]],
            [b, s, N(2), N(0), *good[2:]],
        ),
        *(
            [b, s, N(2), one.astype(N), *good[2:]],
            [b, s, N(2), N(3), F(2), F(0.1)],
            [b, s, N(2), N(3), one, F(0.1)],
            [b, s, N(2), N(3), F(0.5), one],
        ),
    ):
        yield Case(op, bad)


def drawings() -> Iterator[Case]:
    for op in ("DrawBoundingBoxes", "DrawBoundingBoxesV2"):
        more = [[]] if op == "DrawBoundingBoxes" else [[u(2, 4)], [u(1, 4)], [u(0, 3)]]
        for colors_of in more:
            for kind in (np.float16, np.float32):
                for depth in (1, 3, 4):
                    some = boxes(24).reshape(2, 12, 4) * 1.6 - 0.4
                    yield Case(op, [np.zeros((2, 9, 11, depth), kind), some.astype(F), *colors_of])
            image, some = np.zeros((1, 4, 5, 3), F), boxes(2)[None]
            bad_images = (image[0], image[..., :2], image[:, :1])
            bad_boxes = (
                some[0],
                some[..., :3],
                np.repeat(some, 2, 0),
                some[..., ::-1],
                some[:, :0],
                some * np.inf,
                some * np.nan,
            )
            for bad in (
                *([i, some] for i in bad_images),
                *([image, b] for b in bad_boxes),
                [image[:0], some[:0]],
            ):
                yield Case(op, [*bad, *colors_of])
    yield Case("DrawBoundingBoxesV2", [image, some, u(1, 2)])
    yield Case("DrawBoundingBoxesV2", [image, some, u(3)])


@pytest.mark.parametrize("cases", [colors, suppressions, combined, drawings])
def test_equal_tensorflow(cases: Any) -> None:
    assert not differences(list(cases()))
