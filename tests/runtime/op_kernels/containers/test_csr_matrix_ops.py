"""Sparse matrices in CSR form beside TensorFlow's: values, errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.ops.linalg.sparse import gen_sparse_csr_matrix_ops as csr

import tfjit
from tests import oracle

tf1 = tf.compat.v1
RNG = np.random.default_rng(8)


def dense(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    x = RNG.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * RNG.standard_normal(shape)
    return (x * (RNG.random(shape) < 0.4)).astype(dtype)


def matrix(x: np.ndarray) -> Any:
    return csr.dense_to_csr_sparse_matrix(x, np.argwhere(x).astype(np.int64))


def fed(x: Any, dtype: Any = None) -> Any:
    """Return a tensor of which the columns alone are known before the run."""
    value = np.asarray(x, dtype)
    shape = [None] * value.ndim if value.ndim < 2 else [None] * (value.ndim - 1) + [value.shape[-1]]
    return tf1.placeholder_with_default(value, shape)


def shown(made: Any, dtype: Any) -> list[Any]:
    """Return everything that can be read of a matrix."""
    return [
        *csr.csr_sparse_matrix_to_sparse_tensor(made, type=dtype),
        *csr.csr_sparse_matrix_components(made, 0, type=dtype),
        csr.csr_sparse_matrix_to_dense(made, type=dtype),
        csr.sparse_matrix_nnz(made),
    ]


def cases() -> Iterator[Any]:
    for dtype in (np.float32, np.float64, np.complex64, np.complex128):
        for shape, other in (((3, 4), (4, 2)), ((2, 3, 4), (2, 4, 5)), ((5, 1), (1, 2))):
            x, y = dense(*shape, dtype=dtype), dense(*other, dtype=dtype)
            made = matrix(x)
            yield shown(made, dtype)
            yield csr.sparse_matrix_mat_mul(made, y)
            yield csr.sparse_matrix_mat_mul(made, y, transpose_output=True)
            yield csr.sparse_matrix_mat_mul(made, np.swapaxes(y, -1, -2).copy(), adjoint_b=True)
            yield csr.sparse_matrix_mat_mul(
                matrix(np.swapaxes(x, -1, -2).copy()), y, adjoint_a=True, conjugate_output=True
            )
            yield shown(csr.sparse_matrix_sparse_mat_mul(made, matrix(y), type=dtype), dtype)
            yield shown(
                csr.sparse_matrix_sparse_mat_mul(made, made, type=dtype, adjoint_b=True), dtype
            )
            for conjugate in (False, True):
                turned = csr.sparse_matrix_transpose(made, type=dtype, conjugate=conjugate)
                yield shown(turned, dtype)
    x, batch = dense(3, 4), dense(2, 3, 4)
    made = matrix(x)
    for index in (-1, 1):
        yield csr.csr_sparse_matrix_components(made, index, type=tf.float32)
    yield csr.csr_sparse_matrix_to_dense(made, type=tf.float64)
    yield csr.sparse_matrix_nnz(csr.sparse_matrix_transpose(made, type=tf.float64))
    yield csr.sparse_matrix_mat_mul(made, fed(x))
    yield csr.sparse_matrix_mat_mul(made, tf1.placeholder_with_default(batch, None))
    yield csr.sparse_matrix_mat_mul(matrix(batch), fed(np.ones((1, 4, 2), np.float32)))
    for places in ([[0, 9]], [[-1, 0]], np.zeros((0, 2))):
        given = fed(places, np.int64)
        yield shown(csr.dense_to_csr_sparse_matrix(x, given), tf.float32)
    for places, values, sizes in (
        ([[0, 1], [1, 0]], [1, 2], [2, 3]),
        ([[0, 1], [0, 0]], [1, 2], [2, 3]),
        (np.zeros((0, 2)), [], [2, 3]),
        ([[0, 0, 1], [1, 1, 0]], [4, 5], [2, 2, 3]),
        ([[0, 9]], [1], [2, 3]),
        ([[9, 0]], [1], [2, 3]),
    ):
        made = csr.sparse_tensor_to_csr_sparse_matrix(
            fed(places, np.int64), fed(values, np.float32), np.array(sizes, np.int64)
        )
        yield shown(made, tf.float32)


def test_equal_tensorflow() -> None:
    with tf1.Graph().as_default() as graph:
        fetches = list(cases())
    answers: list[list[Any]] = []
    for kind in (tf1.Session, tfjit.Session):
        found: list[Any] = []
        with kind(graph=graph) as session:
            for fetch in fetches:
                try:
                    values = session.run(fetch)
                    found.append(values if isinstance(values, (list, tuple)) else [values])
                except Exception as error:
                    text = oracle.cause(error.message).split("\t [[")[0]
                    found.append((type(error).__name__, text))
        answers.append(found)
    wrong = []
    for fetch, theirs, ours in zip(fetches, *answers, strict=True):
        try:
            if isinstance(theirs[0], str) or isinstance(ours[0], str):
                assert ours == theirs
                continue
            for a, b in zip(ours, theirs, strict=True):
                assert a.dtype == b.dtype and a.shape == b.shape
                np.testing.assert_allclose(a, b, 1e-5, 1e-6)
        except AssertionError:
            wrong.append(f"{fetch}: TensorFlow {theirs}, here {ours}")
    assert not wrong, "\n".join(wrong)


def test_elements_out_of_order_are_refused() -> None:
    """TensorFlow gives such elements to other rows."""
    with tf1.Graph().as_default() as graph:
        places = np.array([[1, 1], [0, 1]], np.int64)
        made = csr.dense_to_csr_sparse_matrix(np.ones((2, 3), np.float32), places)
        count = csr.sparse_matrix_nnz(made)
    with (
        tfjit.Session(graph=graph) as session,
        pytest.raises(tfjit.errors.InvalidArgumentError, match="is out of order"),
    ):
        session.run(count)
