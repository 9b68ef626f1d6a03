"""Nearest points and monotonic fits against TensorFlow, errors included."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.kernels.kernel_cases import Case, differences
from tfjit.framework.types import dtypes

pytest.importorskip("tensorflow")

RNG = np.random.default_rng(5)
LOOSE = (1e-4, 1e-4)


def f(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def k(value: int) -> np.ndarray:
    return np.array(value, np.int64)


def cases() -> Iterator[Case]:
    for points, centers, count in (
        ((7, 3), (9, 3), 4),
        ((1, 5), (2, 5), 9),
        ((40, 2), (1, 2), 1),
        ((3, 2), (4, 2), 0),
        ((3, 2), (0, 2), 2),
        ((3, 2), (4, 3), 2),
        ((0, 2), (4, 2), 2),
    ):
        yield Case("NearestNeighbors", [f(*points), f(*centers), k(count)], {}, LOOSE)
    same = np.array([[0, 1], [4, 4], [1, 1], [0, 1]], np.float32)
    yield Case("NearestNeighbors", [same[:2], same, k(3)], {}, LOOSE)
    yield Case("NearestNeighbors", [f(3), f(2, 3), k(1)])
    yield Case("NearestNeighbors", [f(3, 3), f(3), k(1)])
    yield Case("NearestNeighbors", [f(3, 3), f(2, 3), np.ones(1, np.int64)])
    one = {"output_dtype": dtypes.float32}
    for shape in ((1, 9), (5, 30), (3, 0), (0, 3), (4,), (2, 3, 4), (200, 2)):
        yield Case("IsotonicRegression", [f(*shape)], one, LOOSE)
        whole = RNG.integers(-9, 9, shape)
        yield Case("IsotonicRegression", [whole.astype(np.int8)], one, LOOSE)
        for dtype in (np.int32, np.int64, np.float64):
            two = {"output_dtype": dtypes.float64}
            yield Case("IsotonicRegression", [whole.astype(dtype)], two, LOOSE)
    odd = np.array([[np.nan, 1, 2], [1, np.nan, 2], [np.inf, 1, 2], [1, 2, -np.inf]], np.float32)
    yield Case("IsotonicRegression", [odd], one, LOOSE)
    yield Case(
        "IsotonicRegression",
        [f(6, 8).astype(np.float16)],
        {"output_dtype": dtypes.half},
        (1e-2, 1e-2),
    )


def test_equal_tensorflow() -> None:
    assert not differences(list(cases()))
