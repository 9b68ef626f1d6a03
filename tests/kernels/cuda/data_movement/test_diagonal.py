"""Diagonals and bands of matrices on simulated GPUs, against the references."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.cuda.against_reference import call_of, check
from tests.kernels.launching import tensor
from tfjit.kernels.registry import Unsupported

RNG = np.random.default_rng(4)
DTYPES = pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "complex128", "bool"])


def numbers(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return (RNG.normal(size=shape) * 9).astype(dtype)


@DTYPES
def test_one_diagonal(dtype: str) -> None:
    for shape in ((5,), (2, 3), (1, 1), (0,), (2, 0)):
        x = numbers(shape, dtype)
        check("MatrixDiag", x)
    for shape in ((3, 5), (2, 4, 2), (1, 1), (0, 3), (2, 0, 0)):
        x = numbers(shape, dtype)
        check("MatrixDiagPart", x)
        check("MatrixSetDiag", x, numbers((*shape[:-2], min(shape[-2:])), dtype))
    check("Diag", numbers((2, 3), dtype))
    check("DiagPart", numbers((2, 3, 2, 3), dtype))


@pytest.mark.parametrize("align", [b"LEFT_LEFT", b"RIGHT_LEFT", b"LEFT_RIGHT", b"RIGHT_RIGHT"])
def test_bands_of_diagonals(align: bytes) -> None:
    for shape, low, high in (((2, 4, 3), -2, 1), ((3, 5), 1, 2), ((4, 4), -1, -1), ((3, 2), -2, 0)):
        x, k = numbers(shape, "float32"), np.int32([low, high] if low < high else [low])
        width = min(shape[-2] + min(high, 0), shape[-1] - max(low, 0))
        packed = (*shape[:-2], *((high - low + 1,) if high > low else ()), width)
        check("MatrixDiagPartV3", x, k, np.float32(7), align=align)
        check("MatrixSetDiagV3", x, numbers(packed, "float32"), k, align=align)
        one = np.int32(-1)
        check("MatrixDiagV3", numbers(packed, "float32"), k, one, one, np.float32(7),
              align=align)  # fmt: skip


@DTYPES
def test_bands(dtype: str) -> None:
    for shape in ((2, 4, 3), (1, 1), (0, 3), (3, 5)):
        for below, above in ((0, -1), (-1, 0), (1, 1), (-1, -1)):
            if below <= shape[-2]:
                check("MatrixBandPart", numbers(shape, dtype), np.int64(below), np.int32(above))


def test_special_values() -> None:
    x = np.float32([[np.nan, -0.0], [np.inf, -np.inf]])
    check("MatrixBandPart", x, np.int64(0), np.int64(-1))
    check("MatrixDiagPart", x)


def test_forms_without_a_kernel() -> None:
    x = np.zeros((2, 2), np.float32)
    with pytest.raises(Unsupported, match="no diagonals"):
        call_of("MatrixDiagPartV3", [x, np.int32([1, 0]), np.float32(0)], [tensor(x[0])])
    with pytest.raises(Unsupported, match="101 diagonals"):
        call_of("MatrixDiagPartV3", [x, np.int32([-50, 50]), np.float32(0)], [tensor(x)])
    with pytest.raises(Unsupported, match="no matrix"):
        call_of("MatrixBandPart", [x[0], np.int64(0), np.int64(0)], [tensor(x[0])])
