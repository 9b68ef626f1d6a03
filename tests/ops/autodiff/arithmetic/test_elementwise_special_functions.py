"""Test gradients of special functions against TensorFlow's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ops.autodiff.against_tensorflow import compare, signed, smooth

EDGES = np.array([0.0, 1.0, -2.0, 0.3], "f4")


@pytest.mark.parametrize("op", ["BesselI0", "BesselI1", "BesselI1e", "BesselJ0", "BesselJ1"])
def test_functions_of_any_number(op: str) -> None:
    x = np.append(signed(7), EDGES)
    compare(lambda m, x: getattr(m.raw_ops, op)(x=x), [x])


@pytest.mark.parametrize(
    "op",
    [
        "BesselY0",
        "BesselY1",
        "BesselK0",
        "BesselK0e",
        "BesselK1",
        "BesselK1e",
        "Dawsn",
        "Expint",
        "FresnelCos",
        "Spence",
    ],
)
def test_functions_of_positive_numbers(op: str) -> None:
    compare(lambda m, x: getattr(m.raw_ops, op)(x=x), [np.append(smooth(7), np.float32(1.0))])


def test_fresnel_sine() -> None:
    compare(lambda m, x: m.raw_ops.FresnelSin(x=x), [signed(3, 4)])


@pytest.mark.parametrize("shapes", [((3, 4), (3, 4)), ((), (5,)), ((5,), ())])
def test_incomplete_beta(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    def program(m: Any, a: Any, b: Any, x: Any) -> Any:
        return m.math.betainc(a, b, x)

    compare(program, [smooth(*shapes[0]), smooth(*shapes[0]) + 1.0, smooth(*shapes[1]) * 0.5])


def test_angle() -> None:
    compare(
        lambda m, x, y: m.math.angle(m.complex(x, y)), [signed(3, 4), signed(3, 4)], second=True
    )


@pytest.mark.parametrize("shape", [(4,), (2, 4)])
def test_samples_of_a_gamma_distribution(shape: tuple[int, ...]) -> None:
    def program(m: Any, alpha: Any) -> Any:
        return m.raw_ops.StatelessRandomGammaV2(shape=[3, 2, 4], seed=[3, 5], alpha=alpha)

    compare(program, [smooth(*shape) + 0.5])


def test_random_gamma() -> None:
    """TensorFlow draws other samples: the slope of each is compared with RandomGammaGrad."""
    import tfjit

    with tfjit.Graph().as_default():
        alpha = tfjit.constant([0.7, 2.0])
        sample = tfjit.random_gamma([5, 3], alpha, seed=7)
        (found,) = tfjit.gradients(sample, [alpha])
        slope = tfjit.raw_ops.RandomGammaGrad(alpha=alpha, sample=sample)
        with tfjit.Session() as session:
            got, slopes = session.run([found, slope])
    np.testing.assert_allclose(got, slopes.sum((0, 1)), rtol=1e-5)
