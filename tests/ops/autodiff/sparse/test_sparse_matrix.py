"""Gradients of sparse matrices, monotonic fits and approximate top k beside TensorFlow's."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.ops.linalg.sparse import (
    sparse_csr_matrix_grad,  # noqa: F401  registers TensorFlow's gradients
)

import tfjit

tf1 = tf.compat.v1
RNG = np.random.default_rng(0)


def sparse(*shape: int, dtype: str) -> np.ndarray:
    x = RNG.standard_normal(shape) * (RNG.random(shape) < 0.6)
    if dtype == "complex64":
        x = x + 1j * RNG.standard_normal(shape) * (x != 0)
    return x.astype(dtype)


def weighted(lib: Any, y: Any, weights: np.ndarray) -> Any:
    product = y * weights
    return lib.reduce_sum(lib.real(product) if np.iscomplexobj(weights) else product)


def gradients(cases: list[tuple[Any, list[np.ndarray]]], lib: Any, session: Any) -> list[Any]:
    """Return the gradients of each function by its arguments."""
    raw = tf.raw_ops if lib is tf1 else tfjit.raw_ops
    with lib.Graph().as_default():
        found, feeds = [], {}
        for build, values in cases:
            xs = [lib.placeholder(lib.as_dtype(v.dtype.name), v.shape) for v in values]
            feeds.update(zip(xs, values, strict=True))
            found.append(lib.gradients(build(lib, raw, *xs), xs))
        with session() as running:
            answers: list[Any] = running.run(found, feeds)
    return answers


def products(dtype: str, batch: tuple[int, ...]) -> list[tuple[Any, list[np.ndarray]]]:
    cases: list[tuple[Any, list[np.ndarray]]] = []
    for turned_a, turned_b in itertools.product(("", "transpose_a", "adjoint_a"), repeat=2):
        turned_b = turned_b.replace("_a", "_b")
        flags = {name: True for name in (turned_a, turned_b) if name}
        a = sparse(*batch, *((4, 3) if turned_a else (3, 4)), dtype=dtype)
        b = sparse(*batch, *((5, 4) if turned_b else (4, 5)), dtype=dtype)
        weights = sparse(*batch, 3, 5, dtype=dtype)
        places = np.argwhere(a).astype(np.int64)

        def dense(
            lib: Any, raw: Any, x: Any, y: Any, places: Any = places, flags: Any = flags,
            weights: Any = weights,
        ) -> Any:  # fmt: skip
            matrix = raw.DenseToCSRSparseMatrix(dense_input=x, indices=places)
            return weighted(lib, raw.SparseMatrixMatMul(a=matrix, b=y, **flags), weights)

        cases.append((dense, [a, b]))
        if dtype == "complex64":  # TensorFlow's gradient of the sparse product fails for some
            continue
        others = np.argwhere(b).astype(np.int64)

        def both(
            lib: Any, raw: Any, x: Any, y: Any, places: Any = places, others: Any = others,
            flags: Any = flags, weights: Any = weights,
        ) -> Any:  # fmt: skip
            sides = [
                raw.DenseToCSRSparseMatrix(dense_input=value, indices=at)
                for value, at in ((x, places), (y, others))
            ]
            made = raw.SparseMatrixSparseMatMul(a=sides[0], b=sides[1], type=lib.float32, **flags)
            out = raw.CSRSparseMatrixToDense(sparse_input=made, type=lib.float32)
            out.set_shape(weights.shape)
            return weighted(lib, out, weights)

        if {"transpose_a", "adjoint_b"} != set(flags) != {"adjoint_a", "transpose_b"}:
            cases.append((both, [a, b]))
    return cases


def fits() -> list[tuple[Any, list[np.ndarray]]]:
    x = RNG.standard_normal((5, 6)).astype(np.float32)
    w = np.arange(30, dtype=np.float32).reshape(5, 6)
    return [
        (lambda lib, raw, x: raw.IsotonicRegression(input=x, output_dtype=lib.float32)[0] * w, [x]),
        (lambda lib, raw, x: raw.ApproxTopK(input=x, k=3)[0] * w[:, :3], [x]),
    ]


@pytest.mark.parametrize(
    "cases",
    [products("float32", (2,)), products("complex64", ()), fits()],
    ids=["real", "complex", "fits"],
)
def test_equal_tensorflow(cases: Any) -> None:
    theirs = gradients(cases, tf1, tf1.Session)
    ours = gradients(cases, tfjit, tfjit.Session)
    for expected, found in zip(theirs, ours, strict=True):
        for x, y in zip(expected, found, strict=True):
            np.testing.assert_allclose(y, x, 1e-4, 1e-5)
