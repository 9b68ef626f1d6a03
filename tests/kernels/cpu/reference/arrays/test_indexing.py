"""NumPy reference kernels of scatters and look-ups by value against TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.kernels.kernel_cases import Case, differences

pytest.importorskip("tensorflow")

RNG = np.random.default_rng(4)
CLOSE = (1e-5, 1e-6)
LARGE = np.iinfo(np.int64)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def _by_value() -> Iterator[Case]:
    for dtype in ("int32", "int64", "int8", "uint8", "int16"):
        yield Case("Unique", [RNG.integers(0, 100, 300).astype(dtype)])
    repeated = RNG.integers(-(2**62), 2**62, 20)[RNG.integers(0, 20, 90)]
    yield Case("UniqueWithCounts", [repeated])
    yield Case("Unique", [np.array([LARGE.max, LARGE.min, LARGE.max])])
    yield Case("Unique", [np.zeros(0, np.int64)])
    odd = np.array([1, np.nan, 2, 0.0, 3, 1], np.float32)
    yield Case("ListDiff", [odd, np.array([np.nan, -0.0, 3], np.float32)])
    for count, gone in ((30, 4), (0, 4), (5, 0)):
        numbers = [RNG.integers(0, 9, n).astype(np.int32) for n in (count, gone)]
        yield Case("ListDiff", numbers)


def _scatters() -> Iterator[Case]:
    rows = RNG.integers(0, 4, (9, 1)).astype(np.int32)
    odd = np.array([1, np.nan, np.inf], np.float32)
    elements = np.array([[0, 1], [0, 1], [3, 2]])
    yield Case("ScatterNd", [rows, floats(9, 3), np.array([4, 3], np.int32)], {}, CLOSE)
    yield Case("ScatterNd", [rows[:1] + 4, floats(1, 3), np.array([4, 3], np.int32)])
    yield Case("TensorScatterAdd", [floats(4, 3), elements, odd], {}, CLOSE)
    yield Case("TensorScatterSub", [floats(4, 0), rows[:3], floats(3, 0)])
    yield Case("TensorScatterMax", [floats(4, 3), rows, floats(9, 3)], {}, CLOSE)
    yield Case("InplaceAdd", [floats(4, 3), np.array([-1, 0, 0], np.int32), floats(3, 3)])


def test_against_tensorflow() -> None:
    assert not differences([*_by_value(), *_scatters()])
