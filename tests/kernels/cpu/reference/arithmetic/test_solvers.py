"""NumPy reference kernels of factorisations and of linear systems against TensorFlow, errors
included.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.kernels.kernel_cases import Case, Oracle, differences, ours
from tfjit.kernels.cpu.reference.arithmetic import factorizations

pytest.importorskip("tensorflow")

RNG = np.random.default_rng(7)
LOOSE = (2e-3, 2e-4)
KINDS = (np.float32, np.float64, np.complex64, np.complex128)
SQUARES = ((1, 1), (3, 3), (2, 4, 4), (2, 1, 5, 5), (0, 0), (2, 0, 0), (0, 3, 3))
NO_SQUARES = ((), (3,), (2, 3), (2, 3, 2), (2, 0, 3))
SINGULAR = np.array([[1, 2], [2, 4]], np.float32)
WITH_NAN = np.array([[np.nan, 1], [1, 2]], np.float32)


def f(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    value = RNG.standard_normal(shape)
    return np.asarray(
        value + 1j * RNG.standard_normal(shape) if np.dtype(dtype).kind == "c" else value
    ).astype(dtype)


def regular(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Matrices far from singular ones."""
    return np.asarray(f(*shape, dtype=dtype) + 3 * np.eye(shape[-1])).astype(dtype)


def of_one_matrix() -> Iterator[Case]:
    for op in ("MatrixDeterminant", "LogMatrixDeterminant", "Lu"):
        for kind in KINDS:
            for shape in SQUARES:
                yield Case(op, [regular(*shape, dtype=kind)], {}, LOOSE)
        for value in (SINGULAR, WITH_NAN, *(f(*wrong) for wrong in NO_SQUARES)):
            yield Case(op, [value], {}, LOOSE, own_words=value.ndim < 2)
    yield Case("Lu", [f(4, 4)], {"output_idx_type": 9}, LOOSE)
    for kind in (np.float32, np.float64):
        for shape in SQUARES:
            lower = np.tril(regular(*shape, dtype=kind))
            yield Case("CholeskyGrad", [lower, f(*shape, dtype=kind)], {}, LOOSE)
    for a, b in (
        ((3, 3), (2, 3)),
        ((2, 3, 3), (3, 3)),
        ((2, 3, 3), (3, 3, 3)),
        ((2, 3), (2, 3)),
        ((3,), (3,)),
    ):
        yield Case("CholeskyGrad", [f(*a), f(*b)], own_words=True)


def qr_cases() -> Iterator[Case]:
    for kind in KINDS:
        for full in (False, True):
            for shape in (
                (1, 1),
                (3, 3),
                (4, 2),
                (2, 4),
                (2, 3, 2),
                (0, 0),
                (2, 3, 0),
                (2, 0, 3),
                (0, 2, 2),
            ):
                yield Case("Qr", [f(*shape, dtype=kind)], {"full_matrices": full}, LOOSE)
    for wrong in ((), (3,)):
        yield Case("Qr", [f(*wrong)], own_words=True)


def _refusals(op: str) -> Iterator[Case]:
    a = regular(3, 3)
    attrs = [()] if op != "MatrixSolveLs" else [(np.float64(0),)]
    for more in attrs:
        pairs = (
            (a, f(3)),
            (a[:2], f(2, 1)),
            (a, f(2, 1)),
            (a[None], f(3, 1)),
            (np.stack([a, a]), f(3, 3, 1)),
            (SINGULAR, f(2, 1)),
        )
        for left, right in pairs:
            yield Case(op, [left, right, *more], {}, LOOSE, own_words=right.ndim < 2)


def systems() -> Iterator[Case]:
    for kind in KINDS:
        for m, k, outer in (
            (3, 2, ()),
            (1, 1, (2,)),
            (5, 3, (2, 1)),
            (0, 2, ()),
            (3, 0, (2,)),
            (3, 1, (0,)),
        ):
            a, b = regular(*outer, m, m, dtype=kind), f(*outer, m, k, dtype=kind)
            for adjoint in (False, True):
                yield Case("MatrixSolve", [a, b], {"adjoint": adjoint}, LOOSE)
                for lower in (False, True):
                    yield Case(
                        "MatrixTriangularSolve", [a, b], {"adjoint": adjoint, "lower": lower}, LOOSE
                    )
    for shapes in (((2, 1, 3, 3), (4, 3, 2)), ((3, 3), (2, 3, 1)), ((2, 3, 3), (3, 1))):
        yield Case("MatrixTriangularSolve", [regular(*shapes[0]), f(*shapes[1])], {}, LOOSE)
    yield Case(
        "MatrixTriangularSolve",
        [np.array([[0, 0], [1, 1]], np.float32), np.ones((2, 1), np.float32)],
    )
    yield Case("MatrixSolve", [WITH_NAN.T[::-1].copy(), f(2, 1)], {}, LOOSE)
    yield from _refusals("MatrixSolve")
    yield from _refusals("MatrixTriangularSolve")


def least_squares() -> Iterator[Case]:
    for kind in KINDS:
        for rows, columns, k, outer in (
            (3, 3, 1, ()),
            (5, 2, 2, (2,)),
            (2, 4, 1, ()),
            (3, 2, 0, ()),
            (0, 2, 1, ()),
            (2, 0, 1, ()),
            (3, 3, 1, (0,)),
        ):
            a, b = f(*outer, rows, columns, dtype=kind), f(*outer, rows, k, dtype=kind)
            if rows == columns:
                a = regular(*outer, rows, columns, dtype=kind)
            for regularizer, fast in ((0.0, True), (0.5, True), (0.0, False), (0.5, False)):
                # TensorFlow leaves the solution of no equations as its memory was
                unset = rows == 0
                yield Case(
                    "MatrixSolveLs",
                    [a, b, np.float64(regularizer)],
                    {"fast": fast},
                    LOOSE,
                    compared=0 if unset else None,
                )
    yield Case("MatrixSolveLs", [SINGULAR, f(2, 1), np.float64(0)], {"fast": False}, LOOSE)
    yield Case("MatrixSolveLs", [WITH_NAN, f(2, 1), np.float64(0)], {}, LOOSE)
    yield Case("MatrixSolveLs", [SINGULAR, f(2, 1), np.zeros(2)], {}, LOOSE, own_words=True)
    yield from _refusals("MatrixSolveLs")


def bands() -> Iterator[Case]:
    for kind in KINDS:
        for count, m, k, outer in ((1, 3, 1, ()), (2, 4, 2, ()), (3, 3, 1, (2,)), (4, 2, 1, ())):
            for lower in (False, True):
                matrix = f(*outer, count, m, dtype=kind)
                matrix[..., 0 if lower else count - 1, :] += 3
                for adjoint in (False, True):
                    attrs = {"lower": lower, "adjoint": adjoint}
                    yield Case(
                        "BandedTriangularSolve", [matrix, f(*outer, m, k, dtype=kind)], attrs, LOOSE
                    )
    for left, right in (
        (f(2, 3), f(3)),
        (f(2, 3), f(2, 1)),
        (f(2, 0), f(0, 1)),
        (f(2, 3), f(3, 0)),
        (f(2, 2, 3), f(3, 3, 1)),
        (f(3), f(3, 1)),
    ):
        yield Case("BandedTriangularSolve", [left, right], own_words=min(left.ndim, right.ndim) < 2)
    yield Case("BandedTriangularSolve", [np.zeros((2, 3), np.float32), f(3, 1)])


def tridiagonal() -> Iterator[Case]:
    for kind in KINDS:
        for m, k, outer in (
            (1, 1, ()),
            (2, 1, ()),
            (6, 3, ()),
            (4, 2, (2, 3)),
            (0, 1, ()),
            (3, 0, ()),
        ):
            d = f(*outer, 3, m, dtype=kind)
            dominant = d.copy()
            dominant[..., 1, :] += 4
            right = f(*outer, m, k, dtype=kind)
            yield Case("TridiagonalSolve", [d, right], {}, (1e-2, 1e-3))
            yield Case("TridiagonalSolve", [dominant, right], {"partial_pivoting": False}, LOOSE)
            yield Case(
                "TridiagonalMatMul",
                [d[..., 0:1, :], d[..., 1:2, :], d[..., 2:3, :], right],
                {},
                LOOSE,
            )
    one = np.ones((3, 1))
    for values in ([[0, 0, 0], [1, 0, 1], [0, 0, 0]], [[1, 1, 0], [0, 1, 1], [0, 1, 1]]):
        for attrs in (
            {},
            {"partial_pivoting": False},
            {"perturb_singular": True},
            {"perturb_singular": True, "partial_pivoting": False},
        ):
            yield Case("TridiagonalSolve", [np.array(values, float), one], attrs, LOOSE)
    for shapes in (((2, 2), (2, 1)), ((3, 3), (2, 1)), ((3, 3), (3,)), ((2, 3, 2), (3, 2, 1))):
        yield Case("TridiagonalSolve", [f(*shapes[0]), f(*shapes[1])], own_words=len(shapes[1]) < 2)
    for shapes in (
        ((1, 2), (1, 3), (1, 3), (3, 2)),
        ((3,), (1, 3), (1, 3), (3, 2)),
        ((1, 3), (1, 3), (1, 3), (3,)),
        ((1, 1, 3), (1, 3), (1, 3), (3, 2)),
    ):
        yield Case("TridiagonalMatMul", [f(*shape) for shape in shapes], own_words=True)


def functions() -> Iterator[Case]:
    for kind in KINDS:
        for shape in SQUARES:
            value = regular(*shape, dtype=kind)
            yield Case("MatrixSquareRoot", [value @ value], {}, LOOSE)
            if np.dtype(kind).kind == "c":
                yield Case("MatrixLogarithm", [value], {}, LOOSE)
    for values in ([[-1, 0], [0, 2]], [[0, 1], [-1, 0]], [[1, 1], [0, 1]]):
        yield Case("MatrixSquareRoot", [np.array(values, np.float32)], {}, LOOSE)
    yield Case("MatrixSquareRoot", [WITH_NAN])
    for wrong in NO_SQUARES:
        yield Case("MatrixSquareRoot", [f(*wrong)], own_words=len(wrong) < 2)


@pytest.mark.parametrize(
    "cases", [of_one_matrix, qr_cases, systems, least_squares, bands, tridiagonal]
)
def test_equal_tensorflow(cases: Any) -> None:
    assert not differences(list(cases()))


def test_functions_of_matrices_equal_tensorflow() -> None:
    pytest.importorskip("scipy", reason="logarithms and roots of matrices are SciPy's")
    assert not differences(list(functions()))


def _vectors_agree(found: np.ndarray, expected: np.ndarray) -> bool:
    """Columns equal up to a factor of absolute value 1."""
    inner = np.abs(np.sum(found.conj() * expected, axis=-2))
    return found.shape == expected.shape and np.allclose(inner, 1, atol=1e-3)


def _decompositions() -> list[Case]:
    cases = []
    for kind in KINDS:
        for shape in ((1, 1), (3, 3), (2, 4, 4), (0, 0), (2, 0, 0), (0, 2, 2)):
            cases.append(Case("SelfAdjointEigV2", [f(*shape, dtype=kind)]))
            cases.append(
                Case("SelfAdjointEigV2", [f(*shape, dtype=kind)], {"compute_v": False}, compared=1)
            )
        for shape in ((3, 3), (4, 2), (2, 2, 4), (2, 3, 0), (2, 0, 3)):
            for full in (False, True):
                cases.append(Case("Svd", [f(*shape, dtype=kind)], {"full_matrices": full}))
            cases.append(Case("Svd", [f(*shape, dtype=kind)], {"compute_uv": False}, compared=1))
    return cases


def test_decompositions_equal_tensorflows_up_to_signs() -> None:
    cases = _decompositions()
    oracle = Oracle(cases)
    for i, case in enumerate(cases):
        expected, _ = oracle.run(i, case)
        found, message = ours(case)
        assert expected is not None and found is not None, f"{case}: {message}"
        assert found[0].shape == expected[0].shape, str(case)
        assert np.allclose(found[0], expected[0], 1e-3, 1e-3), str(case)
        for ours_, theirs in zip(found[1 : case.compared], expected[1 : case.compared]):
            # vectors without a value are any base of what is left
            kept = min(ours_.shape[-1], found[0].shape[-1])
            assert ours_.shape == theirs.shape, str(case)
            assert _vectors_agree(ours_[..., :kept], theirs[..., :kept]), str(case)


def test_values_of_general_matrices_equal_tensorflows_in_any_order() -> None:
    cases = [
        Case(
            "Eig",
            [f(*shape, dtype=kind)],
            {"Tout": 8 if kind in (np.float32, np.complex64) else 18},
        )
        for kind in KINDS
        for shape in ((1, 1), (4, 4), (2, 3, 3))
    ]
    oracle = Oracle(cases)
    for i, case in enumerate(cases):
        expected, _ = oracle.run(i, case)
        found, message = ours(case)
        assert expected is not None and found is not None, f"{case}: {message}"
        matrix, values, vectors = case.inputs[0], *found
        assert np.allclose(matrix @ vectors, vectors * values[..., None, :], atol=1e-3), str(case)
        for mine, theirs in zip(
            values.reshape(-1, values.shape[-1]), expected[0].reshape(-1, values.shape[-1])
        ):
            assert max(min(abs(mine - value)) for value in theirs) < 1e-3, str(case)


def test_what_has_no_decomposition_is_refused_as_by_tensorflow() -> None:
    cases = [
        Case(op, [value], attrs)
        for op, attrs in (("SelfAdjointEigV2", {}), ("Eig", {"Tout": 8}))
        for value in (WITH_NAN, f(2, 3))
    ]
    cases += [Case("Svd", [WITH_NAN]), Case("Eig", [f(2, 2)], {"Tout": 18}, own_words=True)]
    assert not differences(cases)


def test_functions_of_matrices_without_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(factorizations.importlib.util, "find_spec", lambda name: None)
    _, message = ours(Case("MatrixSquareRoot", [f(2, 2)]))
    assert (
        message
        == "MatrixSquareRoot of [2,2] is computed by SciPy, which is missing; install tfjit[linalg]"
    )
