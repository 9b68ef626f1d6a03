"""NumPy reference kernels of sparse arithmetic against TensorFlow, errors included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.kernels.kernel_cases import Case, differences

pytest.importorskip("tensorflow")

RNG = np.random.default_rng(12)
CLOSE = (1e-5, 1e-6)
COARSE = (1e-2, 1e-2)
I = np.array([[0, 1], [1, 0], [2, 2]])
V = np.array([1, 2, 3], np.float32)
S = np.array([3, 4])
J = np.array([[0, 1], [1, 3]])
W = np.array([-1, 5], np.float32)
BACK = I[::-1].copy()
NONE = np.zeros((0, 2), np.int64)
ZERO = np.zeros((), np.float32)
I3 = np.array([[0, 0, 1], [0, 1, 0], [1, 2, 2], [1, 2, 3]])
V3 = np.array([1, -2, 3, 4.0])
S3 = np.array([2, 3, 4])
REAL = (np.float32, np.float64, np.int32, np.int64, np.int16, np.int8)
NUMBERS = (*REAL, np.complex64, np.complex128)


def _matmul() -> Iterator[Case]:
    dense = RNG.standard_normal((4, 2)).astype(np.float32)
    for kind in (
        np.float32,
        np.float64,
        np.complex64,
        np.complex128,
        np.int32,
        np.float16,
        ml_dtypes.bfloat16,
    ):
        b = (dense * 4).astype(kind) * (1 + 1j if np.dtype(kind).kind == "c" else 1)
        b = b.astype(kind)
        loose = COARSE if np.dtype(kind).itemsize == 2 else CLOSE
        for index in (np.int64, np.int32):
            for adjoint in (False, True):
                yield Case(
                    "SparseTensorDenseMatMul", [I.astype(index), V.astype(kind), S, b], {}, loose
                )
                yield Case(
                    "SparseTensorDenseMatMul",
                    [I.astype(index), V.astype(kind), S, b.T.copy()],
                    {"adjoint_b": True},
                    loose,
                )
                attrs = {"adjoint_a": True, "adjoint_b": adjoint}
                right = b[:3].T.copy() if adjoint else b[:3]
                yield Case(
                    "SparseTensorDenseMatMul",
                    [I.astype(index), (V * 2).astype(kind), S, right],
                    attrs,
                    loose,
                )
    many = RNG.integers(0, 4, (40, 2))
    many[:, 0] %= 3
    yield Case(
        "SparseTensorDenseMatMul",
        [
            many,
            RNG.standard_normal(40).astype(np.float32),
            S,
            RNG.standard_normal((4, 200)).astype(np.float32),
        ],
        {},
        CLOSE,
    )
    for one in (
        [I, V, S, dense[:3]],
        [I, V, S[:1], dense],
        [I, V, S, dense[0]],
        [I, V[:2], S, dense],
        [I[0], V, S, dense],
        [np.array([[0, 9]]), V[:1], S, dense],
        [np.array([[9, 0]]), V[:1], S, dense],
        [np.array([[0, 0], [8, 1], [0, -2]]), V, S, dense],
        [I[:, :1], V, S, dense],
        [I, V[:, None], S, dense],
        [I, V, S[None], dense],
        [NONE, V[:0], S, dense],
        [NONE, V[:0], S, dense[:, :0]],
        [NONE, V[:0], np.array([0, 4]), dense],
    ):
        yield Case("SparseTensorDenseMatMul", one)
    yield Case(
        "SparseTensorDenseMatMul", [np.array([[9, 0]]), V[:1], S, dense[:3]], {"adjoint_a": True}
    )
    a, b = (
        RNG.standard_normal((5, 3)).astype(np.float32),
        RNG.standard_normal((3, 4)).astype(np.float32),
    )
    for first in (np.float32, ml_dtypes.bfloat16):
        for second in (np.float32, ml_dtypes.bfloat16):
            x, y = a.astype(first), b.astype(second)
            yield Case("SparseMatMul", [x, y], {}, COARSE)
            yield Case(
                "SparseMatMul",
                [x.T.copy(), y.T.copy()],
                {"transpose_a": True, "transpose_b": True, "a_is_sparse": True},
                COARSE,
            )
    for x, y in ((a, a), (a[0], b), (a, b[0]), (a[:0], b), (a[:, :0], b[:0])):
        yield Case("SparseMatMul", [x, y], own_words=x.ndim + y.ndim < 4)


def _with_dense() -> Iterator[Case]:
    dense = np.arange(12, dtype=np.float32).reshape(3, 4) + 1
    for kind in NUMBERS:
        for index in (np.int64, np.int32):
            yield Case(
                "SparseTensorDenseAdd",
                [I.astype(index), V.astype(kind), S.astype(index), dense.astype(kind)],
            )
        for op in (
            ("SparseDenseCwiseAdd", "SparseDenseCwiseMul", "SparseDenseCwiseDiv")
            if kind in REAL
            else ()
        ):
            for other in (dense, dense[:1], dense[:, :1], dense[0], dense[0, 0]):
                yield Case(
                    op,
                    [
                        I,
                        V.astype(kind) * 7 // 1 if np.dtype(kind).kind in "iu" else V.astype(kind),
                        S,
                        np.asarray(other, kind),
                    ],
                    {},
                    CLOSE,
                )
    for one in (
        [I, V[:2], S, dense],
        [I[0], V, S, dense],
        [I, V, S[:1], dense],
        [I, V, S[None], dense],
        [I, V[None], S, dense],
        [I, V, S, dense[0]],
        [I, V, S, dense[:2]],
        [I + 2, V, S, dense],
        [NONE, V[:0], S, dense],
        [np.repeat(I, 2, axis=0), np.repeat(V, 2), S, dense],
    ):
        yield Case(
            "SparseTensorDenseAdd",
            one,
            own_words=len(one[0]) == 3 and bool((np.asarray(one[0]).max() > 3) or one[2].ndim == 1),
        )
        yield Case("SparseDenseCwiseMul", one, own_words=True)
    for op in ("SparseDenseCwiseAdd", "SparseDenseCwiseDiv"):
        yield Case(op, [I, V, S, dense[:, :2]])
        yield Case(op, [I, V, S, dense[None, None]])


def _with_sparse() -> Iterator[Case]:
    for kind in NUMBERS:
        real = np.float32 if kind is np.complex64 else np.float64 if kind is np.complex128 else kind
        for threshold in (0, 2, 5):
            yield Case(
                "SparseAdd",
                [
                    I,
                    V.astype(kind),
                    S,
                    J,
                    (W * 1).astype(np.int64).astype(kind),
                    S,
                    np.array(threshold, real),
                ],
            )
        for op in ("SparseSparseMaximum", "SparseSparseMinimum"):
            if kind in REAL:
                yield Case(op, [I, V.astype(kind), S, J, W.astype(np.int64).astype(kind), S])
    a = np.unique(RNG.integers(0, 5, (20, 3)), axis=0)
    b = np.unique(RNG.integers(0, 5, (25, 3)), axis=0)
    shape = np.array([5, 5, 5])
    terms = [a, RNG.standard_normal(len(a)), shape, b, RNG.standard_normal(len(b)), shape]
    yield Case("SparseAdd", [*terms, np.array(0.5)])
    yield Case("SparseSparseMaximum", terms)
    for one in (
        [I, V, S, J, W, S - 1],
        [I, V, S, J, W, S[:1]],
        [I, V, S, J, W[:1], S],
        [I[0], V, S, J, W, S],
        [I, V[None], S, J, W, S],
        [I, V, S[None], J, W, S],
        [BACK, V, S, J, W, S],
        [np.array([[0, 9]]), V[:1], S, J, W, S],
        [NONE, V[:0], S, J, W, S],
        [I, V, S, NONE, W[:0], S],
        [NONE, V[:0], S, NONE, W[:0], S],
        [np.array([[0, 1], [0, 1]]), V[:2], S, J, W, S],
    ):
        yield Case("SparseAdd", [*one, ZERO])
        yield Case(
            "SparseSparseMaximum",
            one,
            own_words=len(one[2]) != len(one[5]) or one[4].size != len(one[3]) or one[0].ndim < 2,
        )
    yield Case("SparseAdd", [I, V, S, J, W, S, np.zeros(2, np.float32)])
    total = np.array([[0, 1], [1, 0], [1, 3], [2, 2]])
    for one in (
        [np.arange(4.0), I, J, total],
        [np.arange(3.0), I, J, total[1:]],
        [np.arange(2.0), I, J, total[1:]],
        [np.arange(4.0)[None], I, J, I],
        [np.arange(3.0), I[0], J, I],
        [np.arange(3.0), I[:, :1], J, I],
        [np.arange(0.0), NONE, NONE, NONE],
    ):
        yield Case("SparseAddGrad", one)


def _reductions() -> Iterator[Case]:
    for op in (
        "SparseReduceSum",
        "SparseReduceMax",
        "SparseReduceSumSparse",
        "SparseReduceMaxSparse",
    ):
        for axes in ([0], [1], [-1], [0, 2], [0, 1, 2], [], [3], [-4], [1, 1], 0):
            for keep in (False, True):
                yield Case(op, [I3, V3, S3, np.array(axes, np.int32)], {"keep_dims": keep})
        for kind in NUMBERS:
            if "Sum" in op or np.dtype(kind).kind != "c":
                yield Case(op, [I3, V3.astype(np.int64).astype(kind), S3, np.array([1], np.int32)])
        axes = np.array([0], np.int32)
        for one in (
            [I3[:0], V3[:0], S3, axes],
            [I3[::-1].copy(), V3, S3, axes],
            [I3, V3, S3[None], axes],
            [I3[0], V3, S3, axes],
            [I3, V3[:2], S3, axes],
            [I3, V3, S3, axes[None]],
            [I3 + 9, V3, S3, axes],
            [I3[:, :2], V3, S3, axes],
            [I3[:0], V3[:0], S3, np.arange(3, dtype=np.int32)],
        ):
            # TensorFlow's maximum of nothing to a scalar is what its memory holds
            unset = op == "SparseReduceMax" and not len(one[0])
            yield Case(op, one, compared=0 if unset else None)


def _softmax() -> Iterator[Case]:
    for kind in (np.float32, np.float64, np.float16):
        yield Case(
            "SparseSoftmax", [I3, V3.astype(kind), S3], {}, COARSE if kind is np.float16 else CLOSE
        )
        yield Case("SparseSoftmax", [I, (V * 100).astype(kind), S], {}, CLOSE)
    for one in (
        [I, V, S[:1]],
        [I, V[:2], S],
        [I[0], V, S],
        [I, V[None], S],
        [NONE, V[:0], S],
        [BACK, V, S],
        [I, V, S[None]],
    ):
        yield Case("SparseSoftmax", one, {}, CLOSE, own_words=one[2].ndim > 1)


@pytest.mark.parametrize("cases", [_matmul, _with_dense, _with_sparse, _reductions, _softmax])
def test_equal_tensorflow(cases: Any) -> None:
    assert not differences(list(cases()))
