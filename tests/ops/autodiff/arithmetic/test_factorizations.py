"""Test gradients of decompositions against TensorFlow's.

Signs and phases of vectors are free, so programs are of what does not depend on them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ops.autodiff.against_tensorflow import compare, signed, smooth

SHAPES = [(3, 3), (4, 2), (2, 4), (2, 3, 3)]


def _complex(m: Any, parts: tuple[Any, ...]) -> Any:
    return parts[0] if len(parts) == 1 else m.complex(*parts)


def _inputs(shape: tuple[int, ...], parts: int) -> list[np.ndarray]:
    return [signed(*shape).astype("f8") for _ in range(parts)]


def _size(m: Any, x: Any) -> Any:
    """Return absolute values, which have no phase."""
    return m.math.real(x * m.math.conj(x))


@pytest.mark.parametrize("parts", [1, 2], ids=["real", "complex"])
@pytest.mark.parametrize("shape", SHAPES)
def test_singular_values_and_vectors(shape: tuple[int, ...], parts: int) -> None:
    def program(m: Any, *parts: Any) -> Any:
        s, u, v = m.linalg.svd(_complex(m, parts))
        weights = np.arange(1.0, min(shape[-2:]) + 1)
        scaled = u * m.cast(m.exp(-s) * weights, u.dtype)[..., None, :]
        back = m.linalg.matmul(scaled, v, adjoint_b=True)
        return [m.reduce_sum(_size(m, u) * weights), m.reduce_sum(_size(m, back[..., :1, :])), s]

    compare(program, _inputs(shape, parts))


@pytest.mark.parametrize("shape", [(3, 3), (4, 2)])
def test_singular_values_alone(shape: tuple[int, ...]) -> None:
    compare(lambda m, x: m.linalg.svd(x, compute_uv=False) ** 2, _inputs(shape, 1))


@pytest.mark.parametrize("shape", [(3, 2), (2, 3)])
def test_full_singular_vectors(shape: tuple[int, ...]) -> None:
    def program(m: Any, x: Any) -> Any:
        _, u, v = m.linalg.svd(x, full_matrices=True)
        return [u[..., :1] ** 2, v[..., :, -1] ** 2]

    compare(program, _inputs(shape, 1))


def test_several_vectors_without_singular_value() -> None:
    import tfjit

    with tfjit.Graph().as_default():
        x = tfjit.placeholder(tfjit.float32, [5, 2])
        u = tfjit.linalg.svd(x, full_matrices=True)[1]
        with pytest.raises(NotImplementedError, match=r"abs\(m - n\) > 1"):
            tfjit.gradients(u, [x])


@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4)])
def test_self_adjoint_eigenvalues(shape: tuple[int, ...], vectors: bool) -> None:
    def program(m: Any, x: Any) -> Any:
        if not vectors:
            return m.linalg.eigvalsh(x) ** 2
        e, v = m.linalg.eigh(x)
        return [e**2, v[..., :2, :] ** 2]

    compare(program, _inputs(shape, 1))


@pytest.mark.parametrize("vectors", [True, False])
def test_eigenvalues(vectors: bool) -> None:
    def program(m: Any, x: Any) -> Any:
        # Their order is free too: sums over all of them are compared.
        if not vectors:
            return m.reduce_sum(
                _size(m, m.raw_ops.Eig(input=x, compute_v=False, Tout=m.complex64)[0])
            )
        e, v = m.raw_ops.Eig(input=x, compute_v=True, Tout=m.complex64)
        return [m.reduce_sum(_size(m, e)), m.reduce_sum(_size(m, v[..., 0, :]) * _size(m, e))]

    compare(program, [signed(2, 3, 3)])


@pytest.mark.parametrize("parts", [1, 2], ids=["real", "complex"])
@pytest.mark.parametrize("shape", SHAPES)
def test_qr(shape: tuple[int, ...], parts: int) -> None:
    def program(m: Any, *parts: Any) -> Any:
        q, r = m.linalg.qr(_complex(m, parts))
        return [_size(m, q), _size(m, r)]

    compare(program, _inputs(shape, parts))


def test_qr_of_all_columns() -> None:
    import tfjit

    def program(m: Any, x: Any) -> Any:
        q, r = m.linalg.qr(x, full_matrices=True)
        return [q**2, r**2]

    compare(program, _inputs((2, 3), 1))
    with tfjit.Graph().as_default():
        x = tfjit.placeholder(tfjit.float32, [3, 2])
        with pytest.raises(NotImplementedError, match="nrows > ncols and full_matrices"):
            tfjit.gradients(tfjit.linalg.qr(x, full_matrices=True), [x])


@pytest.mark.parametrize("shape", [(3, 3), (2, 2, 2)])
def test_square_root(shape: tuple[int, ...]) -> None:
    def program(m: Any, x: Any) -> Any:
        return m.linalg.sqrtm(m.matmul(x, x, transpose_b=True) + np.eye(shape[-1])) ** 2

    compare(program, [smooth(*shape).astype("f8")])
