"""NumPy reference kernels of sets against TensorFlow, errors included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.kernels.kernel_cases import Case, differences

pytest.importorskip("tensorflow")

RNG = np.random.default_rng(5)
OPERATIONS = ("a-b", "b-a", "intersection", "union", "A-B")
DTYPES = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, object)


def drawn(shape: tuple[int, ...], kind: Any) -> np.ndarray:
    """Return members, few of them different."""
    numbers = RNG.integers(0, 4, shape)
    if kind is object:
        return np.array([b"ab"[: n % 3] + b"c" * n for n in numbers.flat], object).reshape(shape)
    return numbers.astype(kind)


def sparse(shape: tuple[int, ...], kind: Any = np.int64) -> list[np.ndarray]:
    """Return a sparse tensor's parts, about half of the places filled."""
    indices = np.argwhere(RNG.uniform(size=shape) > 0.5)
    return [indices, drawn((len(indices),), kind), np.array(shape)]


def _operations() -> Iterator[Case]:
    shapes = [
        ((3,), 4, 2),
        ((2, 3), 3, 5),
        ((0,), 2, 3),
        ((2,), 0, 3),
        ((3,), 2, 0),
        ((1, 0), 2, 2),
    ]
    for operation in OPERATIONS:
        attrs = {"set_operation": operation}
        for kind in DTYPES:
            for rows, first, second in shapes if kind is np.int64 else shapes[:1]:
                a, b = drawn((*rows, first), kind), drawn((*rows, second), kind)
                left, right = sparse((*rows, first), kind), sparse((*rows, second), kind)
                yield Case("DenseToDenseSetOperation", [a, b], attrs)
                yield Case("DenseToSparseSetOperation", [a, *right], attrs)
                yield Case("SparseToSparseSetOperation", [*left, *right], attrs)
                yield Case(
                    "SparseToSparseSetOperation",
                    [*left, *right],
                    {**attrs, "validate_indices": False},
                )


def _sizes() -> Iterator[Case]:
    for kind in DTYPES:
        for shape in ((3, 4), (2, 3, 3), (0, 3), (3, 0), (1, 5)):
            for validate in (True, False):
                yield Case("SetSize", sparse(shape, kind), {"validate_indices": validate})


def _refused() -> Iterator[Case]:
    pair, values = np.array([[0, 0], [1, 1]]), np.array([1, 2])
    shape = np.array([2, 2])
    for indices in (
        pair[::-1].copy(),
        np.array([[0, 0], [0, 0]]),
        np.array([[0, 0], [2, 0]]),
        np.array([[0, 0], [1, 2]]),
        np.array([[-1, 0], [1, 1]]),
        np.array([[0, 0, 0], [1, 1, 1]]),
        np.array([0, 1]),
        np.array([[0, 0]]),
    ):
        yield Case("SetSize", [indices, values, shape], own_words=True)
        yield Case(
            "DenseToSparseSetOperation",
            [np.array([[1], [2]]), indices, values, shape],
            {"set_operation": "union"},
            own_words=True,
        )
    yield Case("SetSize", [pair[:, :1], values, shape[:1]])
    for a, b in (
        (np.array([1, 2]), np.array([3, 4])),
        (np.array([[1, 2]]), np.array([[1], [2]])),
        (np.array([[[1]]]), np.array([[1]])),
    ):
        attrs = {"set_operation": "union"}
        yield Case("DenseToDenseSetOperation", [a, b], attrs, own_words=True)
    a = np.array([[1, 2]])
    yield Case("DenseToDenseSetOperation", [a, a], {"set_operation": "xor"})
    parts = [pair, values, shape]
    for other in ([pair, values, np.array([3, 2])], [pair[:, :1], values, np.array([2])]):
        attrs = {"set_operation": "a-b"}
        yield Case("SparseToSparseSetOperation", [*parts, *other], attrs, own_words=True)
        yield Case(
            "DenseToSparseSetOperation", [np.array([[1], [2]]), *other], attrs, own_words=True
        )


@pytest.mark.parametrize("cases", [_operations, _sizes, _refused])
def test_equal_tensorflow(cases: Any) -> None:
    assert not differences(list(cases()))
