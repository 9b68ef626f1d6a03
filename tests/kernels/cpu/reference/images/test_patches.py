"""NumPy reference kernels of patches, of morphology and of sound against TensorFlow, errors
included.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.kernels.kernel_cases import Case, differences

pytest.importorskip("tensorflow")

RNG = np.random.default_rng(13)
KINDS = (np.float16, np.float32, np.float64, np.int8, np.int32, np.int64, np.uint8)


def u(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return (
        np.asarray(RNG.random(shape) * 20 - 5)
        .astype(np.int64 if np.dtype(dtype).kind in "iu" else dtype)
        .astype(dtype)
    )


def image_patches() -> Iterator[Case]:
    op = "ExtractImagePatches"
    base = {
        "ksizes": [1, 2, 2, 1],
        "strides": [1, 1, 1, 1],
        "rates": [1, 1, 1, 1],
        "padding": "VALID",
    }
    for padding in ("SAME", "VALID"):
        for kind in (*KINDS, np.complex64):
            yield Case(
                op,
                [u(2, 5, 6, 3, dtype=kind)],
                {
                    "ksizes": [1, 2, 3, 1],
                    "strides": [1, 2, 1, 1],
                    "rates": [1, 2, 1, 1],
                    "padding": padding,
                },
            )
        yield Case(op, [u(1, 3, 3, 2)], {**base, "ksizes": [1, 5, 5, 1], "padding": padding})
        for shape in ((0, 3, 3, 1), (1, 3, 3, 0), (1, 1, 4, 1)):
            yield Case(op, [u(*shape)], {**base, "padding": padding})
    for wrong in (
        {"ksizes": [2, 2, 2, 1]},
        {"strides": [2, 1, 1, 1]},
        {"rates": [1, 1, 1, 2]},
        {"ksizes": [1, 0, 5, 1]},
        {"strides": [1, 0, 1, 1]},
        {"rates": [1, 0, 1, 1]},
    ):
        yield Case(op, [u(1, 3, 3, 1)], {**base, **wrong})
    yield Case(op, [u(3, 3, 1)], base)


def volume_patches() -> Iterator[Case]:
    op = "ExtractVolumePatches"
    base = {"ksizes": [1, 2, 2, 2, 1], "strides": [1, 1, 1, 1, 1], "padding": "VALID"}
    for padding in ("SAME", "VALID"):
        for kind in KINDS:
            yield Case(
                op,
                [u(2, 3, 5, 6, 2, dtype=kind)],
                {"ksizes": [1, 2, 3, 1, 1], "strides": [1, 2, 1, 2, 1], "padding": padding},
            )
        yield Case(op, [u(0, 3, 3, 3, 1)], {**base, "padding": padding})
    for wrong in (
        {"ksizes": [2, 2, 2, 2, 1]},
        {"strides": [2, 1, 1, 1, 1]},
        {"ksizes": [1, 5, 5, 2, 1]},
        {"ksizes": [1, 0, 5, 1, 1]},
        {"strides": [1, 0, 1, 1, 1]},
    ):
        yield Case(op, [u(1, 3, 3, 3, 1)], {**base, **wrong})
    yield Case(op, [u(3, 3, 3, 1)], base)


def sound() -> Iterator[Case]:
    for samples, channels, window, stride in (
        (300, 2, 64, 32),
        (300, 1, 50, 7),
        (3, 1, 4, 2),
        (0, 1, 4, 2),
        (8, 0, 4, 2),
        (9, 3, 2, 1),
    ):
        for squared in (False, True):
            yield Case(
                "AudioSpectrogram",
                [u(samples, channels)],
                {"window_size": window, "stride": stride, "magnitude_squared": squared},
                (1e-4, 1e-3),
            )
    yield Case("AudioSpectrogram", [u(8)], {"window_size": 4, "stride": 2})
    rate = np.array(8000, np.int32)
    s = np.abs(u(2, 3, 129))
    for attrs in (
        {},
        {"dct_coefficient_count": 20, "filterbank_channel_count": 30},
        {"upper_frequency_limit": 3000.0, "lower_frequency_limit": 100.0},
    ):
        for bins in (129, 65, 20):
            yield Case("Mfcc", [s[:, :, :bins], rate], attrs, (1e-4, 1e-4))
    for value in (s[:0], s[:, :0], -s, s * 0, s[0], s[:, :, :1]):
        yield Case("Mfcc", [value, rate], {}, (1e-4, 1e-4))
    for bad in (np.array([8000], np.int32), np.array(0, np.int32), np.array(-1, np.int32)):
        yield Case("Mfcc", [s, bad])
    for attrs in (
        *(
            {"dct_coefficient_count": 50},
            {"dct_coefficient_count": 0},
            {"filterbank_channel_count": 0},
            {"upper_frequency_limit": 5.0},
        ),
        *({"lower_frequency_limit": -5.0}, {"upper_frequency_limit": 5000.0}),
    ):
        yield Case("Mfcc", [s, rate], attrs)


@pytest.mark.parametrize("cases", [image_patches, volume_patches, sound])
def test_equal_tensorflow(cases: Any) -> None:
    assert not differences(list(cases()))
