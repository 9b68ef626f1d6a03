"""Compiled factorisations and solvers give TensorFlow's answers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.kernels.against_reference import check
from tests.kernels.kernel_cases import Case, differences, native_differences
from tfjit.framework.types import dtypes as d

RNG = np.random.default_rng(5)
TOLERANCE = (2e-3, 2e-4)


def normal(*shape: int, dtype: str) -> np.ndarray:
    x: Any = RNG.standard_normal(shape)
    if dtype.startswith("complex"):
        x = x + 1j * RNG.standard_normal(shape)
    return x.astype(dtype)


def cases_of(dtype: str, *shape: int) -> list[Case]:
    """Matrices of a shape, with one and several right sides."""
    size, close = shape[-1], TOLERANCE
    x = normal(*shape, dtype=dtype) + np.eye(size, dtype=dtype)
    apart = x + size * np.eye(size, dtype=dtype)
    square = x @ x.conj().swapaxes(-1, -2) + np.eye(size, dtype=dtype)
    cases = [
        Case("Lu", [x], {"output_idx_type": d.int32}, close),
        Case("MatrixInverse", [apart], {"adjoint": False}, close),
        Case("MatrixInverse", [apart], {"adjoint": True}, close),
        Case("Cholesky", [square], {}, close),
    ]
    for width in (1, 5):
        right = normal(*shape[:-1], width, dtype=dtype)
        for adjoint in (False, True):
            cases.append(Case("MatrixSolve", [apart, right], {"adjoint": adjoint}, close))
            for lower in (False, True):
                attrs = {"lower": lower, "adjoint": adjoint}
                cases.append(Case("MatrixTriangularSolve", [apart, right], attrs, close))
        diagonals = normal(*shape[:-2], 3, size, dtype=dtype)
        for pivoting in (False, True):
            if not pivoting:
                diagonals = diagonals + np.array([[0], [4], [0]], dtype)
            attrs = {"partial_pivoting": pivoting, "perturb_singular": False}
            cases.append(Case("TridiagonalSolve", [diagonals, right], attrs, close))
    return cases


def test_factors_and_solutions() -> None:
    cases = []
    for shape in ((1, 1), (2, 3, 3), (2, 2, 7, 7), (16, 16), (3, 17, 17), (2, 41, 41)):
        cases += cases_of("float32", *shape)
    # each dtype has kernels of its own, which take long to compile
    adjoint = [case for case in cases_of("complex64", 2, 18, 18) if case.attrs.get("adjoint")]
    cases += [case for case in adjoint if case.op != "MatrixInverse"]
    assert not native_differences(cases)


def test_one_triangle_for_many_right_sides() -> None:
    triangle, right = normal(6, 6, dtype="float32"), normal(2, 3, 6, 4, dtype="float32")
    triangle += 6 * np.eye(6, dtype="float32")
    cases = [
        Case(
            "MatrixTriangularSolve",
            [triangle, right],
            {"lower": True, "adjoint": adjoint},
            TOLERANCE,
        )
        for adjoint in (False, True)
    ]
    assert not native_differences(cases)


def test_edge_values() -> None:
    """NaN, infinities, zero and tiny pivots, in every place of a matrix."""
    good = np.array([[4, 2, 1], [2, 4, 3], [1, 1, 5]], "float32")
    wrong = [np.zeros((3, 3), "float32"), np.ones((3, 3), "float32"), -good, good[::-1].copy()]
    wrong += [1e-30 * good, np.eye(3, dtype="float32") * np.float32(1e-40)]
    for value in (np.nan, np.inf, 0):
        for place in np.ndindex(3, 3):
            matrix = good.copy()
            matrix[place] = value
            wrong.append(matrix)
    right = np.array([[1], [2], [3]], "float32")
    cases = []
    for matrix in wrong:
        cases.append(Case("MatrixInverse", [matrix], {"adjoint": False}, TOLERANCE))
        cases.append(Case("Lu", [matrix], {"output_idx_type": d.int32}, TOLERANCE))
        cases.append(Case("MatrixSolve", [matrix, right], {"adjoint": False}, TOLERANCE))
        cases.append(
            Case(
                "MatrixTriangularSolve",
                [matrix, right],
                {"lower": True, "adjoint": False},
                TOLERANCE,
            )
        )
        diagonals = {"partial_pivoting": True, "perturb_singular": False}
        cases.append(Case("TridiagonalSolve", [matrix, right], diagonals, TOLERANCE))
    for case in cases:
        case.failed_shape = (3, 3) if len(case.inputs) == 1 else (3, 1)
    # above a triangle of NaN TensorFlow's output is not set
    cases += [Case("Cholesky", [np.where(good == 3, np.float32(np.nan), good)], {}, TOLERANCE)]
    cases += [Case("Cholesky", [good + np.float32(np.nan) * good * (good == 5)], {}, TOLERANCE)]
    assert not native_differences(cases)
    assert not differences(cases)


def test_matrices_without_cholesky_factor() -> None:
    lower = np.tril(np.ones((3, 3), bool))
    for matrix in (-np.eye(3), np.zeros((3, 3)), np.diag([1, 2, -1])):
        (found,) = check("Cholesky", matrix.astype("float32"))
        assert np.isnan(found[lower]).all() and not found[~lower].any()
