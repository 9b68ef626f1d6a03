"""Pooling of windows of random sizes against TensorFlow: the same random sequences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.kernels.kernel_cases import Case, differences

pytest.importorskip("tensorflow")

RNG = np.random.default_rng(31)
VALUE = RNG.integers(-50, 50, (2, 11, 10, 3))


def _pools() -> Iterator[Case]:
    for op in ("FractionalMaxPool", "FractionalAvgPool"):
        for kind in (np.float32, np.float64, np.int32, np.int64):
            for ratios in ([1.0, 1.44, 1.73, 1.0], [1.0, 2.6, 2.0, 1.0], [1.0, 1.0, 10.0, 1.0]):
                for k in range(4):
                    attrs = {
                        "pooling_ratio": ratios,
                        "pseudo_random": bool(k & 1),
                        "overlapping": bool(k & 2),
                        "deterministic": True,
                        "seed": 5,
                        "seed2": 7 + k,
                    }
                    yield Case(op, [VALUE.astype(kind)], attrs, (1e-6, 1e-6))


def _errors() -> Iterator[Case]:
    x = VALUE.astype(np.float32)
    for op in ("FractionalMaxPool", "FractionalAvgPool"):
        yield Case(op, [x], {"pooling_ratio": [1.0, 1.5, 12.0, 1.0]})
        yield Case(op, [x[0]], {"pooling_ratio": [1.0, 1.5, 1.2, 1.0]}, own_words=True)


def _gradients() -> Iterator[Case]:
    rows, columns = np.array([0, 3, 5, 11]), np.array([0, 1, 4, 6, 10])
    for kind in (np.float32, np.float64, np.int64):
        value = VALUE.astype(kind)
        gradient = RNG.integers(-9, 9, (2, 3, 4, 3)).astype(kind)
        for overlapping in (False, True):
            attrs = {"overlapping": overlapping}
            result = np.empty_like(gradient)
            for r, c in np.ndindex(3, 4):
                ends = rows[r + 1] + overlapping, columns[c + 1] + overlapping
                window = value[:, rows[r] : ends[0], columns[c] : ends[1]]
                result[:, r, c] = window.max(axis=(1, 2))
            given = [value, result, gradient, rows, columns]
            yield Case("FractionalMaxPoolGrad", given, attrs, (1e-6, 1e-6))
            yield Case("FractionalMaxPoolGrad", [value, gradient, *given[2:]], attrs)
            given = [np.array(value.shape), gradient, rows, columns]
            yield Case("FractionalAvgPoolGrad", given, attrs, (1e-6, 1e-6))


@pytest.mark.parametrize("cases", [_pools, _errors, _gradients])
def test_equal_tensorflow(cases: Any) -> None:
    assert not differences(list(cases()))
