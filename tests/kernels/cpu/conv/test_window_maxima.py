"""Compiled maxima of windows against their references and TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.kernels.against_reference import check
from tests.kernels.kernel_cases import Case, native_differences
from tfjit.framework.types import dtypes as d

RNG = np.random.default_rng(8)


def pooling(image: np.ndarray) -> list[dict[str, Any]]:
    sizes = [(2, 2, b"SAME"), (3, 1, b"SAME"), (3, 2, b"VALID")]
    return [
        {
            "ksize": (1, size, size, 1),
            "strides": (1, stride, stride, 1),
            "padding": padding,
            "include_batch_in_index": stride == 1,
            "Targmax": d.int64,
        }
        for size, stride, padding in sizes
        if padding == b"SAME" or min(image.shape[1:3]) >= size
    ]


def test_maxima_of_windows() -> None:
    for shape in ((2, 5, 7, 3), (1, 1, 1, 2), (2, 9, 8, 16)):
        image = np.round(RNG.random(shape) * 4).astype(np.float32)  # ties
        for attrs in pooling(image):
            best, places = check("MaxPoolWithArgmax", image, nchunks=2, **attrs)
            gradient = RNG.integers(1, 9, best.shape).astype(np.float32)
            check("MaxPoolGradWithArgmax", image, gradient, places, **attrs)
            kernel = RNG.random((attrs["ksize"][1], 2, shape[3])).astype(np.float32)
            for rate in (1, 2):
                if attrs["padding"] == b"SAME":
                    rates = {"strides": attrs["strides"], "rates": (1, rate, 1, 1)}
                    check("Dilation2D", image, kernel, padding=b"SAME", **rates)


def test_maxima_against_tensorflow() -> None:
    image = RNG.random((2, 6, 7, 3)).astype(np.float32)
    image[0, 2, :3] = np.nan
    cases = [Case("MaxPoolWithArgmax", [image[1:]], attrs) for attrs in pooling(image)]
    kernel = RNG.random((3, 2, 3)).astype(np.float32)
    attrs = {"strides": (1, 2, 1, 1), "rates": (1, 1, 2, 1), "padding": b"VALID"}
    cases.append(Case("Dilation2D", [image[1:], kernel], attrs))
    assert not native_differences(cases)
