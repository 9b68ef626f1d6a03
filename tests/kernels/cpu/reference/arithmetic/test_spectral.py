"""NumPy reference kernels of matrix decompositions and Fourier transforms against TensorFlow,
errors included.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.kernels.kernel_cases import Case, differences, ours

pytest.importorskip("tensorflow")

RNG = np.random.default_rng(5)
SINGLE = (1e-4, 1e-5)


def f(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    value = RNG.standard_normal(shape)
    return (
        value + 1j * RNG.standard_normal(shape)
        if np.dtype(dtype).kind == "c"
        else np.asarray(value)
    ).astype(dtype)


def definite(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    value = f(*shape, dtype=dtype)
    return np.asarray(value @ value.swapaxes(-1, -2).conj() + 3 * np.eye(shape[-1])).astype(dtype)


def matrix_cases() -> Iterator[Case]:
    for kind in (np.float32, np.float64, np.complex64, np.complex128):
        for op in ("Cholesky", "MatrixInverse"):
            for shape in ((1, 1), (3, 3), (2, 4, 4), (2, 1, 3, 3), (0, 0), (2, 0, 0), (0, 3, 3)):
                yield Case(op, [definite(*shape, dtype=kind)], {}, SINGLE)
        yield Case("MatrixInverse", [f(2, 3, 3, dtype=kind)], {"adjoint": True}, (1e-3, 1e-3))
    for op in ("Cholesky", "MatrixInverse"):
        for wrong in ((), (3,), (2, 3), (2, 3, 2)):
            yield Case(op, [f(*wrong)], own_words=True)
    yield Case("MatrixInverse", [np.array([[1, 2], [2, 4]], np.float32)])


def spectral_cases() -> Iterator[Case]:
    for rank, suffix in ((1, ""), (2, "2D"), (3, "3D")):
        for shape in ((4, 4, 4), (2, 3, 5, 4), (1, 1, 1)):
            for kind in (np.complex64, np.complex128):
                yield Case(f"FFT{suffix}", [f(*shape, dtype=kind)], {}, SINGLE)
                yield Case(f"IFFT{suffix}", [f(*shape, dtype=kind)], {}, SINGLE)
            for n in (1, 2, 3, 4):
                length = np.full(rank, n, np.int32)
                yield Case(f"RFFT{suffix}", [f(4, 5, 6), length], {}, SINGLE)
                yield Case(
                    f"RFFT{suffix}",
                    [f(4, 5, 6, dtype=np.float64), length],
                    {"Tcomplex": 18},
                    SINGLE,
                )
                yield Case(f"IRFFT{suffix}", [f(4, 5, 6, dtype=np.complex64), length], {}, SINGLE)
        yield Case(f"RFFT{suffix}", [f(3, 3, 3), np.full(rank, 5, np.int32)])
        yield Case(
            f"IRFFT{suffix}",
            [f(3, 3, 3, dtype=np.complex64), np.full(rank, 9, np.int32)],
            own_words=True,
        )
        yield Case(f"RFFT{suffix}", [np.float32(2), np.full(rank, 1, np.int32)], own_words=True)
        yield Case(f"RFFT{suffix}", [f(4, 4, 4), np.full(rank, -1, np.int32)], own_words=True)
        yield Case(f"RFFT{suffix}", [f(4, 4, 4), np.full(rank + 1, 2, np.int32)], own_words=True)


@pytest.mark.parametrize("cases", [matrix_cases, spectral_cases])
def test_equal_tensorflow(cases: Any) -> None:
    assert not differences(list(cases()))


def test_a_matrix_without_a_factor() -> None:
    """TensorFlow fills the lower triangle with NaN and leaves the upper one as its memory was."""
    outputs, error = ours(
        Case("Cholesky", [np.array([[[1, 2], [2, 1]], [[4, 2], [2, 3]]], np.float32)])
    )
    assert outputs is not None, error
    (out,) = outputs
    assert np.isnan(out[0][np.tril_indices(2)]).all()
    np.testing.assert_allclose(out[1], [[2, 0], [1, 2**0.5]], rtol=1e-6)
