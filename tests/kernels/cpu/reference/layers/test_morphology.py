"""Dilations in grayscale and their gradients against TensorFlow, errors included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.kernels.kernel_cases import Case, differences, ours

pytest.importorskip("tensorflow")

RNG = np.random.default_rng(3)
KINDS = (np.float16, np.float32, np.float64, np.int8, np.int32, np.int64, np.uint8)
ONE = {"strides": [1, 1, 1, 1], "rates": [1, 1, 1, 1], "padding": "VALID"}


def values(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Return few different values, for many equal sums."""
    return RNG.integers(0, 6, shape).astype(dtype)


def with_gradients(image: np.ndarray, kernel: np.ndarray, attrs: dict[str, Any]) -> Iterator[Case]:
    yield Case("Dilation2D", [image, kernel], attrs)
    found, _ = ours(Case("Dilation2D", [image, kernel], attrs))
    if found is None:
        return
    gradient = values(*found[0].shape, dtype=image.dtype)
    for op in ("Dilation2DBackpropInput", "Dilation2DBackpropFilter"):
        yield Case(op, [image, kernel, gradient], attrs)


def dilations() -> Iterator[Case]:
    for padding in ("SAME", "VALID"):
        for dtype in KINDS:
            attrs = {"strides": [1, 2, 1, 1], "rates": [1, 1, 2, 1], "padding": padding}
            yield from with_gradients(
                values(2, 6, 7, 3, dtype=dtype), values(2, 3, 3, dtype=dtype), attrs
            )
        for strides, rates in (((3, 2), (1, 1)), ((1, 1), (3, 2)), ((2, 3), (2, 2))):
            attrs = {"strides": [1, *strides, 1], "rates": [1, *rates, 1], "padding": padding}
            yield from with_gradients(values(1, 9, 8, 2), values(3, 2, 2), attrs)
        special = values(1, 5, 5, 1)
        special[0, 1:3] = np.nan
        special[0, 3:, :2] = -np.inf
        special[0, 0] = np.inf
        attrs = {**ONE, "padding": padding}
        yield from with_gradients(special, values(2, 2, 1) - 3, attrs)
        yield from with_gradients(values(0, 4, 4, 1), values(2, 2, 1), attrs)
        yield from with_gradients(values(1, 2, 2, 1), values(4, 5, 1), attrs)


def errors() -> Iterator[Case]:
    image, kernel = values(1, 4, 4, 2), values(2, 2, 2)
    for wrong in (
        *({"strides": [1, 0, 1, 1]}, {"strides": [2, 1, 1, 1]}, {"rates": [1, 1, 1, 2]}),
    ):
        yield Case("Dilation2D", [image, kernel], {**ONE, **wrong}, own_words=True)
    for inputs in ([image[0], kernel], [image, kernel[0]], [image, kernel[..., :1]]):
        yield Case("Dilation2D", inputs, ONE)
    for shape in ((1, 3, 4, 2), (2, 3, 3, 2), (1, 3, 3, 1)):
        for op in ("Dilation2DBackpropInput", "Dilation2DBackpropFilter"):
            yield Case(op, [image, kernel, values(*shape)], ONE)


@pytest.mark.parametrize("cases", [dilations, errors])
def test_equal_tensorflow(cases: Any) -> None:
    assert not differences(list(cases()))
