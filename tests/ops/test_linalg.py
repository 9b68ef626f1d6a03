"""tfjit.linalg against TensorFlow's: values of every function, of real and complex matrices,
vectors and batches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit

RNG = np.random.default_rng(3)


def f(*shape: int, complex_: bool = False) -> np.ndarray:
    value = RNG.standard_normal(shape)
    return (
        (value + 1j * RNG.standard_normal(shape)).astype("c8") if complex_ else value.astype("f4")
    )


def definite(*shape: int, complex_: bool = False) -> np.ndarray:
    value = f(*shape, complex_=complex_)
    return (value @ value.swapaxes(-1, -2).conj() + 3 * np.eye(shape[-1])).astype(value.dtype)


A, B, C = definite(3, 3), definite(2, 4, 4), definite(3, 3, complex_=True)
WIDE, TALL = f(2, 5), f(2, 5, 3)
Z = f(3, 3, complex_=True)
DIAGONALS = f(2, 3, 4) + np.array([[[0], [4], [0]]], "f4")
Programs = dict[str, Callable[[Any], Any]]

OF_A_MATRIX: Programs = {
    f"{name} of {label}": (lambda m, name=name, x=x: getattr(m.linalg, name)(x))
    for name in (
        "adjoint",
        "cholesky",
        "det",
        "diag",
        "diag_part",
        "eigvalsh",
        "inv",
        "logdet",
        "slogdet",
        "sqrtm",
        "trace",
        "matrix_rank",
        "pinv",
    )
    for label, x in (("one", A), ("a batch", B), ("complex", C))
    # TensorFlow compares complex with real numbers there
    if (name, label) not in {("matrix_rank", "complex"), ("pinv", "complex")}
}
OTHERS: Programs = {
    "band_part": lambda m: m.linalg.band_part(B, 1, -1),
    "cholesky_solve": lambda m: m.linalg.cholesky_solve(m.linalg.cholesky(A), f(3, 2) * 0 + 1),
    "diag k": lambda m: m.linalg.diag(WIDE, k=(-1, 0), num_rows=5),
    "diag_part k": lambda m: m.linalg.diag_part(
        TALL, k=(-1, 1), padding_value=7, align="LEFT_RIGHT"
    ),
    "diag of bools": lambda m: m.linalg.diag(np.array([True, False])),
    "set_diag": lambda m: m.linalg.set_diag(TALL, np.ones((2, 3), "f4")),
    "set_diag k": lambda m: m.linalg.set_diag(A, np.ones(2, "f4"), k=1),
    "inv adjoint": lambda m: m.linalg.inv(C, adjoint=True),
    "logm": lambda m: m.linalg.logm(C),
    "lstsq": lambda m: m.linalg.lstsq(TALL, np.ones((2, 5, 1), "f4"), l2_regularizer=0.1),
    "lstsq wide": lambda m: m.linalg.lstsq(WIDE, np.ones((2, 1), "f4")),
    "lstsq complete": lambda m: m.linalg.lstsq(WIDE, np.ones((2, 1), "f4"), fast=False),
    "lu": lambda m: m.linalg.lu(B),
    "pinv wide": lambda m: m.linalg.pinv(WIDE),
    "pinv of low rank": lambda m: m.linalg.pinv(np.array([[1, 2], [2, 4], [3, 6]], "f4")),
    "pinv rcond": lambda m: m.linalg.pinv(A, rcond=0.5),
    "matrix_rank of low rank": lambda m: m.linalg.matrix_rank(
        np.array([[[1, 2], [2, 4]], [[1, 0], [0, 1]]], "f4")
    ),
    "matrix_rank tol": lambda m: m.linalg.matrix_rank(
        np.diag(np.array([3, 1, 0.1], "f4")), tol=0.5
    ),
    "qr": lambda m: m.linalg.qr(TALL),
    "qr full": lambda m: m.linalg.qr(TALL, full_matrices=True),
    "solve": lambda m: m.linalg.solve(B, np.ones((2, 4, 2), "f4")),
    "solve adjoint": lambda m: m.linalg.solve(
        Z + 3 * np.eye(3, dtype="c8"), np.ones((3, 1), "c8"), adjoint=True
    ),
    "svd values": lambda m: m.linalg.svd(TALL, compute_uv=False),
    "svd together": lambda m: (lambda s, u, v: m.matmul(u * s[:, None, :], v, adjoint_b=True))(
        *m.linalg.svd(TALL)
    ),
    "eigh together": lambda m: (lambda e, v: m.matmul(v * e[:, None, :], v, adjoint_b=True))(
        *m.linalg.eigh(B)
    ),
    "triangular_solve": lambda m: m.linalg.triangular_solve(
        A, np.ones((3, 2), "f4"), lower=False, adjoint=True
    ),
    "tridiagonal_solve": lambda m: m.linalg.tridiagonal_solve(
        m.constant(DIAGONALS), m.ones((2, 4, 2))
    ),
    "tridiagonal_solve of vectors": lambda m: m.linalg.tridiagonal_solve(
        m.constant(DIAGONALS), m.ones((2, 4))
    ),
    "tridiagonal_solve transposed": lambda m: m.linalg.tridiagonal_solve(
        m.constant(DIAGONALS), m.ones((2, 3, 4)), transpose_rhs=True
    ),
    "tridiagonal_solve of a sequence": lambda m: m.linalg.tridiagonal_solve(
        [
            m.constant(DIAGONALS[0, 0, :3]),
            m.constant(DIAGONALS[0, 1]),
            m.constant(DIAGONALS[0, 2, 1:]),
        ],
        m.ones([4]),
        diagonals_format="sequence",
    ),
    "tridiagonal_solve of a matrix": lambda m: m.linalg.tridiagonal_solve(
        m.constant(B), m.ones((2, 4, 1)), diagonals_format="matrix"
    ),
    "tridiagonal_matmul": lambda m: m.linalg.tridiagonal_matmul(
        m.constant(DIAGONALS), m.ones((2, 4, 2))
    ),
    "tridiagonal_matmul of a matrix": lambda m: m.linalg.tridiagonal_matmul(
        m.constant(B), m.ones((2, 4, 1)), diagonals_format="matrix"
    ),
    "normalize": lambda m: m.linalg.normalize(TALL, axis=1),
    "normalize complex": lambda m: m.linalg.normalize(Z),
}
NORMS: Programs = {
    f"norm {ord_} {axis} {keep}": (
        lambda m, ord_=ord_, axis=axis, keep=keep: m.norm(TALL, ord_, axis, keepdims=keep)
    )
    for ord_ in ("euclidean", 1, 2, np.inf, 3, 0.5, "fro")
    for axis in (None, 0, -1, (0, 1), [-2, -1], (2, 0))
    for keep in (False, True)
    if not (isinstance(axis, (tuple, list)) and ord_ in (3, 0.5))
    and not (ord_ == "fro" and not isinstance(axis, (tuple, list)))
}
PROGRAMS = {
    **OF_A_MATRIX,
    **OTHERS,
    **NORMS,
    "norm complex": lambda m: m.norm(Z),
    "norm complex axes": lambda m: m.norm(Z, 1, [0, 1]),
}


def run(module: Any) -> dict[str, list[np.ndarray]]:
    v1 = module if module is tfjit else module.compat.v1
    with v1.Graph().as_default() as graph:
        out = {}
        for name, program in PROGRAMS.items():
            found = program(v1)
            out[name] = list(found) if isinstance(found, (tuple, list)) else [found]
        with v1.Session(graph=graph) as session:
            return session.run(out)


def test_values_equal_tensorflows() -> None:
    pytest.importorskip("scipy", reason="logarithms and roots of matrices are SciPy's")
    expected, got = run(tf), run(tfjit)
    for name in PROGRAMS:
        for ours, theirs in zip(got[name], expected[name], strict=True):
            assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype), name
            np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-4, err_msg=name)


@pytest.mark.parametrize(
    "program",
    [
        lambda m: m.norm(TALL, "nuclear"),
        lambda m: m.norm(TALL, -1),
        lambda m: m.norm(TALL, 3, (0, 1)),
        lambda m: m.norm(TALL, axis=(0, 0)),
        lambda m: m.norm(TALL, axis=(0, 1, 2)),
        lambda m: m.linalg.tridiagonal_solve(
            m.constant(DIAGONALS), m.ones((2, 4, 2)), diagonals_format="other"
        ),
    ],
)
def test_what_tensorflow_refuses_is_refused(program: Callable[[Any], Any]) -> None:
    for module in (tf.compat.v1, tfjit):
        with module.Graph().as_default(), pytest.raises(ValueError):
            program(module)


def test_old_names() -> None:
    for old, new in (
        ("matrix_inverse", "inv"),
        ("matrix_solve", "solve"),
        ("matrix_determinant", "det"),
        ("matrix_diag", "diag"),
        ("svd", "svd"),
    ):
        assert getattr(tfjit, old) is getattr(tfjit.linalg, new)
