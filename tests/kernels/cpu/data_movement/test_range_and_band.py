"""Ranges and bands, against their references."""

from __future__ import annotations

import numpy as np
import pytest

import tfjit.kernels.cpu  # noqa: F401  (registers every kernel)
from tests.kernels.against_reference import check, values


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
def test_range(dtype: str) -> None:
    kind = np.dtype(dtype).type
    for start, limit, delta in ((0, 100, 1), (5, 300, 7), (10, -90, -3), (4, 4, 1)):
        check(
            "Range",
            np.asarray(kind(start)),
            np.asarray(kind(limit)),
            np.asarray(kind(delta)),
            nchunks=3,
        )
    if dtype.startswith("float"):
        check("Range", np.asarray(kind(0.1)), np.asarray(kind(9)), np.asarray(kind(0.3)))


@pytest.mark.parametrize("shape", [(5, 5), (3, 7), (8, 2), (2, 3, 6, 4), (1, 1)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8", "complex128"])
def test_band_part(shape: tuple[int, ...], dtype: str) -> None:
    x = values(*shape, dtype=dtype)
    rows, columns = shape[-2:]
    for below in (-1, 0, 1, rows):
        for above in (-1, 0, 1, columns):
            check(
                "MatrixBandPart",
                x,
                np.asarray(np.int64(below)),
                np.asarray(np.int64(above)),
                nchunks=2,
            )
