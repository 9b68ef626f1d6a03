"""Compiled sums and extremes of sparse tensors against their references."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.bounded import check_bounded, is_left_to_the_reference

RNG = np.random.default_rng(6)
OPS = ("SparseAdd", "SparseSparseMaximum", "SparseSparseMinimum")


def sparse(shape: tuple[int, ...], dtype: str, share: float) -> list[np.ndarray]:
    """Indices, values and dense shape, with equal values and zeros among them."""
    indices = np.argwhere(RNG.random(shape) < share).astype(np.int64)
    values = RNG.integers(-3, 4, len(indices)).astype(dtype)
    return [indices, values, np.array(shape, np.int64)]


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_unions(dtype: str) -> None:
    for shape in ((9,), (5, 7), (3, 4, 5)):
        for shares in ((0.3, 0.5), (0.0, 0.4), (0.6, 0.0), (1.0, 1.0)):
            a, b = (sparse(shape, dtype, share) for share in shares)
            if dtype == "float32":
                a[1][::4] = np.nan
            for op in OPS if shape == (5, 7) else OPS[:1]:
                threshold = [np.array(2, dtype)] if op == "SparseAdd" else []
                check_bounded(op, *a, *b, *threshold)


def test_errors_are_the_references() -> None:
    a, b = sparse((5, 7), "float32", 0.3), sparse((5, 8), "float32", 0.3)
    assert is_left_to_the_reference("SparseAdd", *a, *b, np.float32(0))
    outside = [a[0] + 1, a[1], np.array([2, 7])]
    assert is_left_to_the_reference("SparseSparseMaximum", *outside, *outside)
