"""NumPy reference kernels of sparse tensors against TensorFlow, errors included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.kernels.kernel_cases import Case, differences

pytest.importorskip("tensorflow")

RNG = np.random.default_rng(11)
I = np.array([[0, 1], [1, 0], [2, 2]])
V = np.array([1, 2, 3], np.float32)
S = np.array([3, 4])
J = np.array([[0, 1], [1, 3]])
W = np.array([-1, 5], np.float32)
BACK = I[::-1].copy()
NONE = np.zeros((0, 2), np.int64)
TEXT = np.array([b"a", b"b", b"c"], object)


def scalar(value: Any, dtype: Any = np.float32) -> np.ndarray:
    return np.array(value, dtype)


def _to_dense() -> Iterator[Case]:
    zero = scalar(0)
    repeated, outside, negative = (
        np.array([[0, 1], [0, 1], [2, 2]]),
        np.array([[0, 1], [1, 5], [2, 2]]),
        np.array([[0, 1], [-1, 0], [2, 2]]),
    )
    for indices in (I, BACK, repeated, outside, negative):
        for validate in (True, False):
            yield Case("SparseToDense", [indices, S, V, zero], {"validate_indices": validate})
            yield Case(
                "SparseToDense",
                [indices.astype(np.int32), S.astype(np.int32), V, zero],
                {"validate_indices": validate},
            )
    for kind in (np.float64, np.int8, np.uint64, np.complex64, np.bool_, np.float16):
        yield Case("SparseToDense", [I, S, V.astype(kind), scalar(1, kind)])
    yield Case("SparseToDense", [I, S, TEXT, np.array(b"-", object)])
    for indices, shape, values, default in (
        (I, S, scalar(2), zero),
        (np.array([1, 3]), np.array([5]), W, zero),
        (np.array(3), np.array([5]), scalar(1), zero),
        (np.array([1, 3]), np.array([5]), V, zero),
        (I, S, V, V),
        (I, np.array([3]), V, zero),
        (I, np.array(3), V, zero),
        (I[None], S, V, zero),
        (NONE, S, V[:0], zero),
        (I, np.array([3, -4]), V, zero),
        (NONE, np.array([0, 4]), V[:0], zero),
    ):
        yield Case("SparseToDense", [indices, shape, values, default])


def _moved() -> Iterator[Case]:
    for values in (V, TEXT, V.astype(np.complex128), V.astype(np.int16)):
        yield Case("SparseReorder", [BACK, values, S])
    for indices, values, shape in (
        (BACK, V[:2], S),
        (I[0], V, S),
        (I, V, S[None]),
        (I, V[None], S),
        (I, V, S[:1]),
        (np.array([[0, 9], [0, 1]]), V[:2], S),
        (NONE, V[:0], S),
        (np.array([[1, 1], [1, 1], [0, 0]]), V, S),
    ):
        yield Case("SparseReorder", [indices, values, shape])
    for wanted in ([12], [-1], [2, -1], [2, 6, 1], [-1, -1], [5], [7, -1], [-2, 6], [0, -1]):
        yield Case("SparseReshape", [I, S, np.array(wanted)])
    empty = np.array([0, 4])
    for indices, shape, wanted in (
        (I[0], S, [12]),
        (I, S[None], [12]),
        (I, S, [[12]]),
        (I, np.array([3]), [12]),
        (NONE, empty, [-1, 2]),
        (NONE, empty, [0, 7]),
        (NONE, empty, [3, 7]),
        (np.zeros((1, 0), int), np.zeros(0, int), [1, 1]),
        (np.array([[0, 0]]), np.array([1, 1]), []),
    ):
        yield Case("SparseReshape", [indices, shape, np.array(wanted, np.int64)])


def _joined() -> Iterator[Case]:
    for axis in (0, 1, -1, 2, -3):
        yield Case("SparseConcat", [I, J, V, W, S, S], {"concat_dim": axis})
    yield Case("SparseConcat", [I, J, NONE, TEXT, TEXT[:2], TEXT[:0], S, S, S], {"concat_dim": 1})
    for one in (
        [I, J, V, W, S, S + 1],
        [I, J, V, W, S, S[:1]],
        [I, J, V, W[:1], S, S],
        [I[0], J, V, W, S, S],
        [I, J, V[None], W, S, S],
        [I, J, V, W, S[None], S],
        [BACK, J, V, W, S, S],
    ):
        yield Case("SparseConcat", one, {"concat_dim": 0})
    yield Case("SparseConcat", [BACK, J, V, W, S, S], {"concat_dim": 1})
    for axis in (0, 1, -1, 2):
        for pieces in (1, 2, 3, 4, 5):
            yield Case("SparseSplit", [np.array(axis), I, V, S], {"num_split": pieces})
    for axis, indices, values, shape in (
        (np.array([0]), I, V, S),
        (np.array(0), I[0], V, S),
        (np.array(0), I, V[:2], S),
        (np.array(0), I, V, S[None]),
        (np.array(0), np.array([[9, 1]]), V[:1], S),
        (np.array(0), NONE, V[:0], S),
        (np.array(1), BACK, TEXT, S),
    ):
        yield Case("SparseSplit", [axis, indices, values, shape], {"num_split": 2})


def _sliced() -> Iterator[Case]:
    for start, size in (
        ([0, 0], [2, 2]),
        ([1, 0], [9, 9]),
        ([5, 0], [1, 1]),
        ([-1, 0], [2, 2]),
        ([0, 0], [-1, 2]),
        ([0], [1]),
        ([0, 0], [0, 0]),
    ):
        for values in (V, TEXT):
            yield Case("SparseSlice", [I, values, S, np.array(start), np.array(size)])
    two = np.array([2, 2])
    for indices, values, shape, start in (
        (I[0], V, S, two),
        (I, V[:2], S, two),
        (I, V, S[:1], two),
        (I, V, S, two[None]),
        (NONE, V[:0], S, two),
    ):
        yield Case("SparseSlice", [indices, values, shape, start, two])
    grad, start, taken = np.array([1.0, 2]), np.array([1, 0]), np.array([[0, 0], [1, 2]])
    for one in (
        [grad, I, start, taken],
        [grad[:1], I, start, taken],
        [grad, I, start, taken + [0, 1]],
        [grad, I, start[:1], taken],
        [grad, I[0], start, taken],
        [grad[None], I, start, taken],
        [grad[:0], I, start, taken[:0]],
    ):
        yield Case("SparseSliceGrad", one)


def _filled() -> Iterator[Case]:
    indices, shape = np.array([[1, 0], [1, 2], [3, 1]]), np.array([5, 4])
    zero = scalar(-7)
    for one in (
        [indices, V, shape, zero],
        [indices[[2, 0, 1]], V, shape, zero],
        [np.array([[0, 0], [1, 1], [2, 2]]), V, np.array([3, 3]), zero],
        [NONE, V[:0], shape, zero],
        [NONE, V[:0], np.array([0, 4]), zero],
        [indices, V, np.array([0, 4]), zero],
        [indices, V, np.array([2, 4]), zero],
        [indices - 2, V, shape, zero],
        [indices, V[:2], shape, zero],
        [indices, V, shape, V],
        [indices[0], V, shape, zero],
        [indices, V[None], shape, zero],
        [indices, V, shape[None], zero],
        [indices, TEXT, shape, np.array(b"d", object)],
    ):
        yield Case("SparseFillEmptyRows", one)
    for rows, values, count, default in (
        (indices[:, 0], V, 5, zero),
        (np.array([3, 1, 1]), V, 5, zero),
        (indices[:0, 0], V[:0], 2, zero),
        (indices[:, 0], V, 0, zero),
        (indices[:, 0], V, 2, zero),
        (indices[:, 0] - 2, V, 4, zero),
        (indices[:, 0], V[:2], 5, zero),
        (indices[:, 0], V, [5], zero),
        (indices[:, 0], V, 5, V),
    ):
        yield Case("RaggedFillEmptyRows", [rows, values, np.array(count), default], own_words=True)
    for op in ("SparseFillEmptyRowsGrad", "RaggedFillEmptyRowsGrad"):
        for place, grad in (
            ([1, 2, 4], np.arange(6.0)),
            ([0, 9], np.arange(3.0)),
            ([-1], np.arange(3.0)),
            ([], np.arange(3.0)),
            ([[1]], np.arange(3.0)),
        ):
            yield Case(op, [np.array(place, np.int64), grad])
        yield Case(op, [np.array([0]), np.ones((2, 1))])


@pytest.mark.parametrize("cases", [_to_dense, _moved, _joined, _sliced, _filled])
def test_equal_tensorflow(cases: Any) -> None:
    assert not differences(list(cases()))
