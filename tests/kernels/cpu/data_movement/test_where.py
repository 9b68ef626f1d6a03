"""Coordinates of the elements that are not zero, against the reference."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.bounded import bounded_call, check_bounded
from tfjit.kernels.registry import Unsupported

RNG = np.random.default_rng(9)


@pytest.mark.parametrize("shape", [(0,), (1,), (70,), (5, 9), (0, 3), (3, 0), (2, 3, 5)])
def test_masks(shape: tuple[int, ...]) -> None:
    for share in (0.0, 0.4, 1.0):
        check_bounded("Where", RNG.random(shape) < share)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "float32", "float64"])
def test_numbers(dtype: str) -> None:
    x = RNG.integers(-1, 2, (4, 9)).astype(dtype)
    check_bounded("Where", x)
    if x.dtype.kind == "f":
        check_bounded("Where", np.array([np.nan, 0.0, -0.0, np.inf, 1e-45], dtype))


def test_refused() -> None:
    for x in (np.array(True), np.zeros(3, np.complex64), np.zeros((1,) * 7, bool)):
        with pytest.raises(Unsupported):
            bounded_call("Where", [x])
