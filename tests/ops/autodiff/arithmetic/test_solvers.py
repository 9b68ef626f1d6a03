"""Test gradients of linear systems against TensorFlow's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ops.autodiff.against_tensorflow import compare, signed, smooth


@pytest.mark.parametrize("regularizer", [0.0, 0.3])
@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (2, 3, 3)])
def test_least_squares(shape: tuple[int, ...], regularizer: float) -> None:
    def program(m: Any, a: Any, b: Any) -> Any:
        return m.linalg.lstsq(a, b, l2_regularizer=regularizer, fast=True) ** 2

    a = signed(*shape).astype("f8") + np.eye(*shape[-2:])
    compare(program, [a, signed(*shape[:-1], 2).astype("f8")])


def test_the_slow_method_has_no_gradient() -> None:
    import tfjit

    with tfjit.Graph().as_default():
        a, b = tfjit.placeholder(tfjit.float32, [4, 3]), tfjit.placeholder(tfjit.float32, [4, 1])
        with pytest.raises(ValueError, match="Gradient not defined for fast=False"):
            tfjit.gradients(tfjit.linalg.lstsq(a, b, fast=False), [a])


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("adjoint", [True, False])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_banded_triangles(lower: bool, adjoint: bool, batch: tuple[int, ...]) -> None:
    def program(m: Any, bands: Any, right: Any) -> Any:
        return (
            m.raw_ops.BandedTriangularSolve(matrix=bands, rhs=right, lower=lower, adjoint=adjoint)
            ** 2
        )

    bands = smooth(*batch, 2, 4).astype("f8")
    compare(program, [bands + 1.0, signed(*batch, 4, 3).astype("f8")])


def _complex(m: Any, x: Any, imaginary: bool) -> Any:
    return m.complex(x, 0.5 * x * x) if imaginary else x


def _value(m: Any, x: Any, imaginary: bool) -> Any:
    return m.math.real(x) * 2.0 + m.math.imag(x) ** 2 if imaginary else x**2


@pytest.mark.parametrize("batch", [(), (2,)])
def test_tridiagonal_systems(batch: tuple[int, ...]) -> None:
    def program(m: Any, diagonals: Any, right: Any) -> Any:
        return m.linalg.tridiagonal_solve(diagonals, right) ** 2

    diagonals = signed(*batch, 3, 4).astype("f8")
    diagonals[..., 1, :] += 3.0
    compare(program, [diagonals, signed(*batch, 4, 2).astype("f8")])


@pytest.mark.parametrize("imaginary", [False, True])
def test_tridiagonal_products(imaginary: bool) -> None:
    def program(m: Any, above: Any, main: Any, below: Any, right: Any) -> Any:
        inputs = [_complex(m, x, imaginary) for x in (above, main, below, right)]
        names = ("superdiag", "maindiag", "subdiag", "rhs")
        product = m.raw_ops.TridiagonalMatMul(**dict(zip(names, inputs, strict=True)))
        return _value(m, product, imaginary)

    diagonals = [signed(2, 1, 4) for _ in range(3)]
    compare(program, [*diagonals, signed(2, 4, 3)])
