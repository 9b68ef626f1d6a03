"""Special functions in float64 by series or continued fractions.

They serve NumPy arrays and compiled scalars alike. `build` takes the elementary functions and gives
the special ones: over arrays a loop runs while `some` element has not converged, over scalars until
the one has. A converged value is frozen: the recurrences of the continued fractions lose accuracy
when they run on.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from tfjit.framework.scalar import special

EPSILON: Final = 4.440892098500626e-16
"""Relative change at which a series counts as converged in float64."""
_BIG: Final = 4503599627370496.0
_STEPS: Final = 2000
# B_2k / (2k)!, for Euler-Maclaurin summation
_BERNOULLI: Final = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600,
    -3617 / 10670622842880000, 43867 / 5109094217170944000, -174611 / 802857662698291200000,
    77683 / 14101100039391805440000,
)  # fmt: skip


def build(
    where: Callable[..., Any], some: Callable[..., Any], exp: Any, log: Any, log1p: Any,
    absolute: Any, floor: Any, power: Any, lgamma: Any, digamma: Any,
    compiled: Callable[[Any], Any], epsilon: float = EPSILON,
) -> SimpleNamespace:  # fmt: skip
    """Return the functions of this module over float64 operands.

    They are `igamma, igammac, igamma_grad_a, random_gamma_grad, betainc, zeta, polygamma`.

    where(condition, x, y), some(condition) -> bool and the functions work on one kind of operand;
    `compiled` wraps each function that is defined (the identity for NumPy). epsilon: relative
    accuracy to stop at.
    """
    big, steps = _BIG, _STEPS
    first_sum = 15.0 if epsilon < 1e-12 else 5.0
    b1, b2, b3, b4, b5, b6, b7, b8, b9, b10, b11 = _BERNOULLI
    inf, nan = float("inf"), float("nan")
    far = 1e150  # one argument alone decides beyond this, and terms would overflow

    @compiled
    def lower_series(a: Any, x: Any, sloped: bool) -> Any:
        """Return S and, if `sloped`, dS/da.

        S = sum of x^n / ((a + 1) .. (a + n)).
        """
        r, term, total = a * 1.0, a * 0.0 + 1.0, a * 0.0 + 1.0
        slope, slopes = a * 0.0, a * 0.0
        for _ in range(steps):
            r = r + 1.0
            factor = x / r
            if sloped:
                slope = (slope - term / r) * factor
                slopes = slopes + slope
            term = term * factor
            total = total + term
            if not some((term > epsilon * total) | (absolute(slope) > epsilon * absolute(slopes))):
                break
        return total, slopes

    @compiled
    def upper_fraction(a: Any, x: Any, sloped: bool) -> Any:
        """Return F and, if `sloped`, dF/da.

        F is defined by Q(a, x) = x^a e^-x F / gamma(a).
        """
        y, z = 1.0 - a, x + 2.0 - a
        p0, q0, p1, q1 = a * 0.0 + 1.0, x * 1.0, x + 1.0, z * x
        dp0, dq0, dp1, dq1 = a * 0.0, a * 0.0, a * 0.0, -x
        value = p1 / q1
        slope = (dp1 - value * dq1) / q1
        active = value == value
        for step in range(1, steps):
            n = float(step)
            y = y + 1.0
            z = z + 2.0
            yn = y * n
            p, q = p1 * z - p0 * yn, q1 * z - q0 * yn
            defined = active & (q != 0.0)
            safe = where(defined, q, 1.0)
            last, last_slope = value, slope
            value = where(defined, p / safe, value)
            scale = where(absolute(p) > big, 1.0 / big, 1.0)
            moving = absolute(value - last) > epsilon * absolute(value)
            if sloped:
                dp, dq = dp1 * z - p1 - dp0 * yn + p0 * n, dq1 * z - q1 - dq0 * yn + q0 * n
                slope = where(defined, (dp - value * dq) / safe, slope)
                dp0, dp1, dq0, dq1 = dp1 * scale, dp * scale, dq1 * scale, dq * scale
                moving = moving | (absolute(slope - last_slope) > epsilon * absolute(slope))
            p0, p1, q0, q1 = p1 * scale, p * scale, q1 * scale, q * scale
            active = active & moving
            if not some(active):
                break
        return value, slope

    @compiled
    def by_series(a: Any, x: Any) -> Any:
        return (x <= 1.0) | (x <= a)

    @compiled
    def inside(a: Any, x: Any) -> Any:
        return (a > 0.0) & (a < far) & (x > 0.0) & (x < far)

    @compiled
    def gamma_parts(a: Any, x: Any) -> Any:
        """Return (P, Q) for arguments inside the domain.

        Each is accurate where it is the smaller.
        """
        series = by_series(a, x)
        total, _ = lower_series(where(series, a, 1.0), where(series, x, 0.0), False)
        fraction, _ = upper_fraction(where(series, 1.0, a), where(series, 1e6, x), False)
        weight = exp(a * log(x) - x - lgamma(a))
        lower = weight * total / a
        upper = weight * fraction
        return where(series, lower, 1.0 - upper), where(series, 1.0 - lower, upper)

    @compiled
    def igamma(a: Any, x: Any) -> Any:
        """Return the regularised lower incomplete gamma function P(a, x)."""
        valid = inside(a, x)
        lower, _ = gamma_parts(where(valid, a, 1.0), where(valid, x, 1.0))
        other = where(
            (a >= far) & (x >= 0.0) & (x <= a), 0.0, where((x >= far) & (a > 0.0), 1.0, nan)
        )
        return where(x == 0.0, 0.0, where(valid, lower, other))

    @compiled
    def igammac(a: Any, x: Any) -> Any:
        """Return the regularised upper incomplete gamma function Q(a, x)."""
        valid = inside(a, x)
        _, upper = gamma_parts(where(valid, a, 1.0), where(valid, x, 1.0))
        other = where(
            (a >= far) & (x >= 0.0) & (x <= a) & (x < inf),
            1.0,
            where((x >= far) & (a > 0.0), 0.0, nan),
        )
        other = where((a > 0.0) & (x == 0.0), 1.0, other)
        return where(valid, upper, other)

    @compiled
    def gamma_slopes(a: Any, x: Any) -> Any:
        """Return (dP/da divided by x^a e^-x / gamma(a), that weight)."""
        series = by_series(a, x)
        a1, x1 = where(series, a, 1.0), where(series, x, 0.0)
        total, total_slope = lower_series(a1, x1, True)
        a2, x2 = where(series, 1.0, a), where(series, 1e6, x)
        fraction, fraction_slope = upper_fraction(a2, x2, True)
        logarithm = log(x)
        lower = (total * (logarithm - digamma(a + 1.0)) + total_slope) / a
        upper = fraction * (logarithm - digamma(a)) + fraction_slope
        return where(series, lower, -upper), exp(a * logarithm - x - lgamma(a))

    @compiled
    def outside_slope(a: Any, x: Any) -> Any:
        return where((x == 0.0) | ((a >= far) & (x > 0.0)) | ((x >= far) & (a > 0.0)), 0.0, nan)

    @compiled
    def igamma_grad_a(a: Any, x: Any) -> Any:
        """Return dP(a, x)/da."""
        valid = inside(a, x)
        slope, weight = gamma_slopes(where(valid, a, 1.0), where(valid, x, 1.0))
        return where(valid, slope * weight, outside_slope(a, x))

    @compiled
    def random_gamma_grad(alpha: Any, sample: Any) -> Any:
        """Return the derivative of a gamma(alpha) sample after alpha: -(dP/da) / (dP/dx)."""
        valid = inside(alpha, sample)
        slope, _ = gamma_slopes(where(valid, alpha, 1.0), where(valid, sample, 1.0))
        return where(valid, -slope * sample, outside_slope(alpha, sample))

    @compiled
    def beta_fraction(a: Any, b: Any, x: Any) -> Any:
        """Return the continued fraction of the incomplete beta function (Lentz's method)."""
        tiny = 1e-300
        c, d = a * 0.0 + 1.0, 1.0 - (a + b) * x / (a + 1.0)
        d = 1.0 / where(absolute(d) < tiny, tiny, d)
        value = d * 1.0
        active = value == value
        for step in range(1, steps):
            n = float(step)
            even = n * (b - n) * x / ((a + 2.0 * n - 1.0) * (a + 2.0 * n))
            d = 1.0 + even * d
            d = 1.0 / where(absolute(d) < tiny, tiny, d)
            c = 1.0 + even / c
            c = where(absolute(c) < tiny, tiny, c)
            middle = d * c
            odd = -(a + n) * (a + b + n) * x / ((a + 2.0 * n) * (a + 2.0 * n + 1.0))
            d = 1.0 + odd * d
            d = 1.0 / where(absolute(d) < tiny, tiny, d)
            c = 1.0 + odd / c
            c = where(absolute(c) < tiny, tiny, c)
            change = d * c
            value = where(active, value * middle * change, value)
            active = active & (absolute(change - 1.0) > epsilon)
            if not some(active):
                break
        return value

    @compiled
    def betainc(a: Any, b: Any, x: Any) -> Any:
        """Return the regularised incomplete beta function I_x(a, b)."""
        valid = (a > 0.0) & (b > 0.0) & (a < inf) & (b < inf) & (x > 0.0) & (x < 1.0)
        a1, b1, x1 = where(valid, a, 1.0), where(valid, b, 1.0), where(valid, x, 0.5)
        swap = x1 > (a1 + 1.0) / (a1 + b1 + 2.0)
        a2, b2, x2 = where(swap, b1, a1), where(swap, a1, b1), where(swap, 1.0 - x1, x1)
        weight = exp(a1 * log(x1) + b1 * log1p(-x1) + lgamma(a1 + b1) - lgamma(a1) - lgamma(b1))
        part = weight * beta_fraction(a2, b2, x2) / a2
        result = where(swap, 1.0 - part, part)
        bad = (a <= 0.0) | (b <= 0.0)
        edge = where(bad, nan, where(x == 0.0, 0.0, where(x == 1.0, 1.0, nan)))
        return where(valid, result, edge)

    @compiled
    def zeta(x: Any, q: Any) -> Any:
        """Return the Hurwitz zeta function, the sum of (q + k)^-x.

        x > 1.
        """
        pole = (q <= 0.0) & (q == floor(q))
        refused = (x < 1.0) | ((q < 0.0) & (x != floor(x)))
        valid = (x > 1.0) & (q > -1e6) & (pole == (x != x)) & (refused == (x != x))
        s, a = where(valid, x, 2.0), where(valid, q, 1.0)
        total = where(valid, 0.0, 0.0)
        # the asymptotic series needs a to outgrow s
        start = first_sum + 0.5 * where(s < 200.0, s, 200.0)
        for _ in range(1000200):
            low = a < start
            if not some(low):
                break
            total = total + where(low, power(a, -s), 0.0)
            a = where(low, a + 1.0, a)
        tail = power(a, -s)
        # no term follows a vanished tail, and inf * 0 must not come up
        rest = where(tail == 0.0, 0.0, s)
        finite = where(tail == 0.0, 2.0, s)
        tail_sum = where(tail == 0.0, 0.0, tail * a / (finite - 1.0) + 0.5 * tail)
        w = 1.0 / (a * a)
        p = rest * tail / a
        series = p * b1
        p = p * (finite + 1.0) * (finite + 2.0) * w
        series = series + p * b2
        p = p * (finite + 3.0) * (finite + 4.0) * w
        series = series + p * b3
        p = p * (finite + 5.0) * (finite + 6.0) * w
        series = series + p * b4
        p = p * (finite + 7.0) * (finite + 8.0) * w
        series = series + p * b5
        p = p * (finite + 9.0) * (finite + 10.0) * w
        series = series + p * b6
        p = p * (finite + 11.0) * (finite + 12.0) * w
        series = series + p * b7
        p = p * (finite + 13.0) * (finite + 14.0) * w
        series = series + p * b8
        p = p * (finite + 15.0) * (finite + 16.0) * w
        series = series + p * b9
        p = p * (finite + 17.0) * (finite + 18.0) * w
        series = series + p * b10
        p = p * (finite + 19.0) * (finite + 20.0) * w
        series = series + p * b11
        result = total + (tail_sum + series)
        # the pole has a sign unless the exponent is even
        other = where(pole & (x > 1.0) & (floor(x * 0.5) * 2.0 == x), inf, nan)
        return where(x == 1.0, inf, where(valid, result, other))

    @compiled
    def polygamma(n: Any, x: Any) -> Any:
        """Return derivative number n of digamma.

        NaN unless n is a nonnegative integer.
        """
        order = (n >= 0.0) & (n == floor(n))
        safe = where(order & (n > 0.0), n, 1.0)
        even = floor(safe * 0.5) * 2.0 == safe
        value = exp(lgamma(safe + 1.0)) * zeta(safe + 1.0, x)
        value = where(even, -value, value)
        return where(order, where(n == 0.0, digamma(x), value), nan)

    return SimpleNamespace(
        igamma=igamma, igammac=igammac, igamma_grad_a=igamma_grad_a,
        random_gamma_grad=random_gamma_grad, betainc=betainc, zeta=zeta,
        polygamma=polygamma,
    )  # fmt: skip


NUMPY: Final = build(
    np.where, lambda condition: bool(np.any(condition)), np.exp, np.log, np.log1p, np.abs, np.floor,
    np.power, lambda x: special.lgamma(special.NUMPY, x),
    lambda x: special.digamma(special.NUMPY, x), lambda function: function,
)  # fmt: skip
