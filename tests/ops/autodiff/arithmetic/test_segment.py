"""Test gradients of products of segments and of scans against TensorFlow's."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest

from tests.ops.autodiff.against_tensorflow import Program, compare, signed, smooth

WEIGHTS: Final = signed(3, 4)
CASES: Final[dict[str, tuple[Program, list[np.ndarray]]]] = {
    "segments": (lambda m, x: m.math.segment_prod(x, [0, 0, 2, 2, 2]) ** 2, [smooth(5, 2)]),
    "segments with zeros": (
        lambda m, x: m.math.segment_prod(x, [0, 0, 1, 1, 2]) * 2.0,
        [np.array([[0, 1], [2, 3], [0, 0], [0, 5], [4, 0]], "f4")],
    ),
    "unsorted segments": (
        lambda m, x: m.math.unsorted_segment_prod(x, [2, -1, 0, 2, 0], 4) ** 2,
        [smooth(5, 2)],
    ),
    "unsorted segments with a zero": (
        lambda m, x: m.math.unsorted_segment_prod(x, [1, 1, 0], 2) * 3.0,
        [np.array([[0, 1], [2, 3], [0, 0]], "f4")],
    ),
    "norm": (lambda m, x: m.math.reduce_euclidean_norm(x, axis=1) * 2.0, [signed(3, 4)]),
    "norm of all": (lambda m, x: m.math.reduce_euclidean_norm(x, keepdims=True), [signed(3, 4)]),
    "scan of logarithms": (
        lambda m, x: m.math.cumulative_logsumexp(x, axis=1) * WEIGHTS,
        [signed(3, 4)],
    ),
    "exclusive scan of logarithms from the end": (
        lambda m, x: m.math.cumulative_logsumexp(x, axis=0, exclusive=True, reverse=True)[:-1],
        [signed(3, 4)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str) -> None:
    compare(*CASES[name])
