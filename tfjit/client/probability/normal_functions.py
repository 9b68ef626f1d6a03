"""The normal and the Laplace distribution function, their logarithms and the inverse.

Sources of the approximations: Cephes Math Library, `ndtri` (rational functions in three regions);
Abramowitz and Stegun 26.2.12 (the asymptotic series of the tail).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from tfjit import ops
from tfjit.client.probability.parameters import select
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure

# Between these numbers the logarithm has its plain formula.
_BOUNDS: Final = {
    dtypes.float64: (np.float64(-20), np.float64(8)),
    dtypes.float32: (np.float32(-10), np.float32(5)),
}
_TERMS: Final = 3  # of the asymptotic series
# Numerator and denominator of each region of the inverse, from the constant on.
_MIDDLE: Final = (
    [
        *(-1.23916583867381258016e0, 1.39312609387279679503e1, -5.66762857469070293439e1),
        *(9.80010754185999661536e1, -5.99633501014107895267e1),
    ],
    [
        *(-1.18331621121330003142e0, 1.59056225126211695515e1, -8.20372256168333339912e1),
        *(2.00260212380060660359e2, -2.25462687854119370527e2, 8.63602421390890590575e1),
        *(4.67627912898881538453e0, 1.95448858338141759834e0, 1.0),
    ],
)
_NEAR: Final = (
    [
        *(-8.57456785154685413611e-4, -3.50424626827848203418e-2, -1.40256079171354495875e-1),
        *(2.18663306850790267539e0, 1.46849561928858024014e1, 4.40805073893200834700e1),
        *(5.71628192246421288162e1, 3.15251094599893866154e1, 4.05544892305962419923e0),
    ],
    [
        *(-9.33259480895457427372e-4, -3.80806407691578277194e-2, -1.42182922854787788574e-1),
        *(2.50464946208309415979e0, 1.50425385692907503408e1, 4.13172038254672030440e1),
        *(4.53907635128879210584e1, 1.57799883256466749731e1, 1.0),
    ],
)
_FAR: Final = (
    [
        *(6.23974539184983293730e-9, 2.65806974686737550832e-6, 3.01581553508235416007e-4),
        *(1.23716634817820021358e-2, 2.01485389549179081538e-1, 1.33303460815807542389e0),
        *(3.93881025292474443415e0, 6.91522889068984211695e0, 3.23774891776946035970e0),
    ],
    [
        *(6.79019408009981274425e-9, 2.89247864745380683936e-6, 3.28014464682127739104e-4),
        *(1.34204006088543189037e-2, 2.16236993594496635890e-1, 1.37702099489081330271e0),
        *(3.67983563856160859403e0, 6.02427039364742014255e0, 1.0),
    ],
)


def ndtr(x: Tensor) -> Tensor:
    """Return the probability that a standard normal number is below x."""
    with name_scope("ndtr", values=[x]):
        return _ndtr(_float(x, "is not handled, see docstring for supported types."))


def _float(x: Tensor, refusal: str) -> Tensor:
    value = convert_to_tensor(x, name="x")
    if value.dtype not in _BOUNDS:
        raise TypeError(f"x.dtype={value.dtype} {refusal}")
    return value


def _ndtr(x: Tensor) -> Tensor:
    half_root = ops.constant(0.5 * np.sqrt(2.0), x.dtype, name="half_sqrt_2")
    w = x * half_root
    z = ops.abs(w)
    is_middle, middle = ops.less(z, half_root), 1.0 + ops.erf(w)
    above, tail = ops.greater(w, 0.0), 2.0 - ops.erfc(z)
    return 0.5 * select(is_middle, middle, select(above, tail, ops.erfc(z)))


def log_ndtr(x: Tensor) -> Tensor:
    """Return the logarithm of `ndtr`, precise for small probabilities."""
    with name_scope("log_ndtr", values=[x]):
        value = _float(x, "is not supported.")
        low, high = _BOUNDS[value.dtype]
        return select(
            ops.greater(value, high),
            -_ndtr(-value),
            select(
                ops.greater(value, low),
                ops.log(_ndtr(ops.maximum(value, low))),
                _log_of_tail(ops.minimum(value, low)),
            ),
        )


def _log_of_tail(x: Tensor) -> Tensor:
    scale = -0.5 * ops.square(x) - ops.log(-x) - 0.5 * np.log(2.0 * np.pi)
    return scale + ops.log(_tail_series(x))


def _tail_series(x: Tensor) -> Tensor:
    """Return the asymptotic series 1 - 1/x^2 + 1*3/x^4 - ...

    Odd and even terms are summed apart.
    """
    square = ops.square(x)
    sums = [ops.zeros_like(x), ops.zeros_like(x)]
    power, factor = square, 1
    for n in range(1, _TERMS + 1):
        factor *= 2 * n - 1
        sums[n % 2] = sums[n % 2] + np.array(factor, x.dtype.as_numpy_dtype) / power
        power = power * square
    return 1.0 + sums[0] - sums[1]


def ndtri(p: Tensor) -> Tensor:
    """Return the quantile of the standard normal distribution at p."""
    with name_scope("ndtri", values=[p]):
        value = convert_to_tensor(p, name="p")
        if value.dtype not in _BOUNDS:
            raise TypeError(
                f"p.dtype={value.dtype} is not handled, see docstring for supported types."
            )
        return _ndtri(value)


def _ndtri(p: Tensor) -> Tensor:
    kind = p.dtype.as_numpy_dtype
    # by symmetry the upper tail is the lower one
    tail = select(ops.greater(p, -np.expm1(-2.0)), 1.0 - p, p)
    half = ops.fill(ops.shape(p), np.array(0.5, kind))
    tail = select(ops.less_equal(tail, 0.0), half, tail)
    w = tail - 0.5
    square = w**2
    above, below = _MIDDLE
    middle = w + w * square * (_polynomial(square, above) / _polynomial(square, below))
    middle = middle * -np.sqrt(2.0 * np.pi)
    z = ops.sqrt(-2.0 * ops.log(tail))
    first = z - ops.log(z) / z
    far, near = (
        first - _polynomial(1.0 / z, above) / _polynomial(1.0 / z, below) / z
        for above, below in (_FAR, _NEAR)
    )
    lower = select(ops.greater_equal(z, 8.0), far, near)
    found = select(ops.greater(tail, np.exp(-2.0)), middle, lower)
    found = select(ops.greater(p, 1.0 - np.exp(-2.0)), found, -found)
    infinity = ops.fill(ops.shape(p), ops.constant(np.inf, p.dtype))
    return select(
        ops.less_equal(p, 0.0), -infinity, select(ops.greater_equal(p, 1.0), infinity, found)
    )


def _polynomial(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    if not coefficients:
        return ops.zeros_like(x)
    constant: Structure = np.array(coefficients[0], x.dtype.as_numpy_dtype)
    made: Tensor = constant + _polynomial(x, coefficients[1:]) * x
    return made


def log_cdf_laplace(x: Tensor) -> Tensor:
    """Return the logarithm of the standard Laplace distribution function."""
    with name_scope("log_cdf_laplace", values=[x]):
        value = convert_to_tensor(x, name="x")
        below = -np.log(2.0) + value
        decay = ops.exp(-ops.abs(value))
        above = ops.log1p(-0.5 * decay)
        return select(ops.less(value, 0.0), below, above)
