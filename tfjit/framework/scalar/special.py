"""Special functions in float64, for NumPy arrays and compiled scalars.

Every function takes as `m` the elementary functions to use: `exp, log, log1p, sqrt, sin, cos, tan,
abs, floor, where, equal, two_product, polynomial`. `NUMPY` is the one for arrays;
`kernels.vmath.special` has the one for generated code. No function branches, so both compute the
same formula for every element and select.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from tfjit.framework.scalar import special_coefficients as c

INF: Final = math.inf
NAN: Final = math.nan
EULER: Final = 0.5772156649015329
_HALF_LOG_2PI: Final = 0.9189385332046728
_SQRT2: Final = math.sqrt(2.0)
_SQRT_MAX: Final = math.sqrt(1.7976931348623157e308)
Math = Any  # the namespace of elementary functions
Number = Any  # a float64 array, or a compiled scalar


def _numpy_polynomial(x: Any, coefficients: tuple[float, ...]) -> Any:
    result = np.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result *= x
        result += coefficient
    return result


def _numpy_two_product(x: Any, y: Any) -> tuple[Any, Any]:
    # Dekker's product: halves of 26 bits multiply exactly
    def split(v: Any) -> tuple[Any, Any]:
        t = v * 134217729.0
        high = t - (t - v)
        return high, v - high

    product = x * y
    (xh, xl), (yh, yl) = split(x), split(y)
    return product, ((xh * yh - product) + xh * yl + xl * yh) + xl * yl


NUMPY: Final = SimpleNamespace(
    exp=np.exp, log=np.log, log1p=np.log1p, sqrt=np.sqrt, sin=np.sin, cos=np.cos, tan=np.tan,
    abs=np.abs, floor=np.floor, where=np.where, equal=np.equal, two_product=_numpy_two_product,
    polynomial=_numpy_polynomial,
)  # fmt: skip


def _scaled_tail(m: Math, a: Number, center: float, fit: tuple[float, ...]) -> Number:
    """Return the fit of e^(a^2) erfc(a) over t, divided by 1 + 2a.

    t = (a - center) / (a + center). One division serves both quotients.
    """
    sum_, line = a + center, 2.0 * a + 1.0
    inverse = 1.0 / (sum_ * line)
    return m.polynomial((a - center) * (line * inverse), fit) * (sum_ * inverse)


def _erfc_positive(m: Math, a: Number, limit: float) -> Number:
    """Return erfc(a) for a >= 0; 0 past `limit`."""
    a = m.where(a > limit, limit, a)
    square, lost = m.two_product(a, a)
    decay = m.exp(-square)
    decay = decay - decay * lost
    return decay * _scaled_tail(m, a, 4.0, c.ERFC64)


def erf(m: Math, x: Number) -> Number:
    """Return the error function."""
    a = m.abs(x)
    near = m.where(a < 1.0, x, 0.0)
    small = near * m.polynomial(near * near, c.ERF64) + near
    far = m.where(a > 6.0, 6.0, a)
    large = 1.0 - m.exp(-far * far) * _scaled_tail(m, far, 2.5, c.ERF64_TAIL)
    return m.where(a < 1.0, small, m.where(x < 0.0, -large, large))


def erf_float64(m: Math, x: Number) -> Number:
    """Return the float64 error function: NaN where x^2 is infinite.

    TensorFlow does so too.
    """
    return m.where(m.abs(x) > _SQRT_MAX, NAN, erf(m, x))


def erfc(m: Math, x: Number) -> Number:
    """Return the complementary error function."""
    a = m.abs(x)
    near = m.where(a < 0.5, x, 0.0)
    small = 1.0 - (near * m.polynomial(near * near, c.ERF64) + near)
    tail = _erfc_positive(m, a, 28.0)
    return m.where(a < 0.5, small, m.where(x < 0.0, 2.0 - tail, tail))


def _lgamma_positive(m: Math, a: Number) -> Number:
    small, low, large = a < 0.5, a < 1.5, a >= 8.0
    y, product = a, a * 0.0 + 1.0
    for _ in range(6):
        above = y >= 2.5
        y = m.where(above, y - 1.0, y)
        product = m.where(above, product * y, product)
    t = m.where(small, a, m.where(low, a - 1.0, y - 2.0))
    t = m.where(large, 0.0, t)
    logarithm = m.log(m.where(large, a, m.where(small, a * (a + 1.0), m.where(low, a, product))))
    core = t * m.polynomial(t, c.LGAMMA) + m.where(low, -logarithm, logarithm)
    inverse = 1.0 / m.where(large, a, 8.0)
    stirling = (
        (a - 0.5) * (logarithm - 1.0)
        + (_HALF_LOG_2PI - 0.5)
        + inverse * m.polynomial(inverse * inverse, c.LGAMMA_STIRLING)
    )
    return m.where(large, stirling, core)


def lgamma(m: Math, x: Number) -> Number:
    """Return log |gamma(x)|; inf at the poles and at both infinities."""
    a = m.abs(x)
    y = _lgamma_positive(m, a)
    fraction = a - m.floor(a)
    fraction = m.where(fraction > 0.5, 1.0 - fraction, fraction)
    reflected = m.log(math.pi / m.sin(math.pi * fraction)) - m.log(a) - y
    return m.where(m.equal(a, INF), INF, m.where(x < 0.0, reflected, y))


def digamma(m: Math, x: Number) -> Number:
    """Return the derivative of log gamma; NaN at the poles."""
    mirrored = x <= 0.0
    y = m.where(mirrored, 1.0 - x, x)
    below, large = y < 1.0, y >= 8.0
    z = m.where(below, y + 1.0, y)
    # the sum of 1 / (z - k) as one fraction
    numerator, denominator = m.where(below, -1.0, y * 0.0), m.where(below, y, 1.0)
    for _ in range(6):
        above = z >= 2.0
        z = m.where(above, z - 1.0, z)
        numerator = m.where(above, numerator * z + denominator, numerator)
        denominator = m.where(above, denominator * z, denominator)
    root, rest = c.DIGAMMA_ROOT
    z = m.where(large, 1.5, z)
    core = ((z - root) - rest) * m.polynomial(z - 1.5, c.DIGAMMA) + numerator / denominator
    safe = m.where(large, y, 8.0)
    inverse = 1.0 / safe
    w = inverse * inverse
    asymptotic = m.log(safe) - 0.5 * inverse - w * m.polynomial(w, c.DIGAMMA_ASYMPTOTIC)
    result = m.where(large, asymptotic, core)
    fraction = x - m.floor(x + 0.5)
    reflection = math.pi / m.tan(math.pi * fraction)
    return m.where(mirrored, m.where(m.equal(fraction, 0.0), NAN, result - reflection), result)


def _erfinv_scaled(m: Math, w: Number) -> tuple[Number, Number]:
    """Return (erfinv(x) / x, sqrt(w)) for w = -log(1 - x^2) <= 38."""
    s = m.sqrt(m.where(w > 0.0, w, 0.0))
    center = m.polynomial(m.where(w < 6.25, w, 3.0) - 3.125, c.ERFINV_CENTER)
    middle = m.polynomial(m.where(s < 4.0, s, 3.25) - 3.25, c.ERFINV_MIDDLE)
    far = m.polynomial(m.where(s < 6.2, s, 5.0) - 5.0, c.ERFINV_FAR)
    return m.where(w < 6.25, center, m.where(s < 4.0, middle, far)), s


def erfinv(m: Math, x: Number) -> Number:
    """Return the inverse error function on [-1, 1], NaN outside."""
    a = m.abs(x)
    inside = a < 1.0
    safe = m.where(inside, x, 0.0)
    y, _ = _erfinv_scaled(m, -m.log((1.0 - safe) * (1.0 + safe)))
    return m.where(inside, safe * y, m.where(m.equal(a, 1.0), x * INF, x * NAN)) + 0.0  # 0 of -0


def ndtri(m: Math, p: Number) -> Number:
    """Return the quantile of the standard normal distribution.

    Infinite at 0 and 1, NaN outside [0, 1].
    """
    inside = (p > 0.0) & (p < 1.0)
    outside = m.where(m.equal(p, 0.0), -INF, m.where(m.equal(p, 1.0), INF, p * NAN))
    safe = m.where(inside, p, 0.5)
    q = 1.0 - safe
    y, s = _erfinv_scaled(m, -m.log(4.0 * safe * q))
    reach = m.where(s > 6.1, s, 6.1)
    tail = reach * m.polynomial((reach - 12.0) / (reach + 12.0), c.ERFINV_TAIL)
    return m.where(inside, _SQRT2 * (safe - q) * m.where(s > 6.15, tail, y), outside)


def _bessel_i(
    m: Math, a: Number, small: tuple[float, ...], large: tuple[float, ...]
) -> tuple[Number, Number, Number]:
    """Return (a <= 8, the polynomial in a^2, e^-a I(a) beyond)."""
    near = m.where(a <= 8.0, a, 8.0)
    far = m.where(a <= 8.0, 8.0, a)
    return a <= 8.0, m.polynomial(near * near, small), m.polynomial(1.0 / far, large) / m.sqrt(far)


def bessel_i0(m: Math, x: Number) -> Number:
    """Return the modified Bessel function of the first kind, order 0."""
    a = m.abs(x)
    near, small, large = _bessel_i(m, a, c.BESSEL_I0, c.BESSEL_I0_LARGE)
    return m.where(near, small, m.exp(a) * large)


def bessel_i0e(m: Math, x: Number) -> Number:
    """Return e^-|x| I0(x)."""
    a = m.abs(x)
    near, small, large = _bessel_i(m, a, c.BESSEL_I0, c.BESSEL_I0_LARGE)
    return m.where(near, m.exp(-a) * small, large)


def bessel_i1(m: Math, x: Number) -> Number:
    """Return the modified Bessel function of the first kind, order 1."""
    a = m.abs(x)
    near, small, large = _bessel_i(m, a, c.BESSEL_I1, c.BESSEL_I1_LARGE)
    large = m.exp(a) * large
    return m.where(near, x * small + 0.0, m.where(x < 0.0, -large, large))  # 0 of -0


def bessel_i1e(m: Math, x: Number) -> Number:
    """Return e^-|x| I1(x)."""
    a = m.abs(x)
    near, small, large = _bessel_i(m, a, c.BESSEL_I1, c.BESSEL_I1_LARGE)
    return m.where(near, m.exp(-a) * (x * small) + 0.0, m.where(x < 0.0, -large, large))  # 0 of -0


def _bessel_k(m: Math, x: Number, order: int) -> tuple[Number, Number, Number]:
    """Return (x <= 2, K(x) there, e^x K(x) beyond)."""
    near = x <= 2.0
    a = m.where(near, x, 2.0)
    z = a * a
    logarithm = m.log(0.5 * a)
    if order == 0:
        small = m.polynomial(z, c.BESSEL_K0) - logarithm * m.polynomial(z, c.BESSEL_I0)
    else:
        small = m.polynomial(z, c.BESSEL_K1) / a + logarithm * (a * m.polynomial(z, c.BESSEL_I1))
    far = m.where(near, 2.0, x)
    return (
        near,
        small,
        m.polynomial(1.0 / far, c.BESSEL_K1_LARGE if order else c.BESSEL_K0_LARGE) / m.sqrt(far),
    )


def bessel_k0(m: Math, x: Number) -> Number:
    """Return K of order 0, the modified Bessel function.

    The second kind; inf for x <= 0.
    """
    near, small, large = _bessel_k(m, x, 0)
    return m.where(x <= 0.0, INF, m.where(near, small, m.exp(-x) * large))


def bessel_k0e(m: Math, x: Number) -> Number:
    """Return e^x K0(x)."""
    near, small, large = _bessel_k(m, x, 0)
    return m.where(x <= 0.0, INF, m.where(near, m.exp(m.where(near, x, 0.0)) * small, large))


def bessel_k1(m: Math, x: Number) -> Number:
    """Return K of order 1, the modified Bessel function.

    The second kind; inf for x <= 0.
    """
    near, small, large = _bessel_k(m, x, 1)
    return m.where(x <= 0.0, INF, m.where(near, small, m.exp(-x) * large))


def bessel_k1e(m: Math, x: Number) -> Number:
    """Return e^x K1(x)."""
    near, small, large = _bessel_k(m, x, 1)
    return m.where(x <= 0.0, INF, m.where(near, m.exp(m.where(near, x, 0.0)) * small, large))


def _away_from_roots(z: Number, roots: tuple[tuple[float, float], ...]) -> Number:
    (first, first_rest), (second, second_rest) = roots
    return ((z - first) - first_rest) * ((z - second) - second_rest)


def _bessel_waves(m: Math, a: Number, order: int) -> tuple[Number, Number, Number, Number, Number]:
    """Return P, Q / a, sin a, cos a and sqrt(pi a).

    For a >= 8.
    """
    far = m.where(a <= 8.0, 8.0, a)
    inverse = 1.0 / far
    w = inverse * inverse
    p = m.polynomial(w, c.BESSEL_P1 if order else c.BESSEL_P0)
    q = inverse * m.polynomial(w, c.BESSEL_Q1 if order else c.BESSEL_Q0)
    return p, q, m.sin(far), m.cos(far), m.sqrt(math.pi * far)


def bessel_j0(m: Math, x: Number) -> Number:
    """Return the Bessel function of the first kind, order 0.

    NaN at infinity.
    """
    a = m.abs(x)
    near = m.where(a <= 8.0, a, 8.0)
    z = near * near
    small = _away_from_roots(z, c.J0_ROOTS) * m.polynomial(z / 32.0 - 1.0, c.BESSEL_J0)
    p, q, s, cosine, root = _bessel_waves(m, a, 0)
    return m.where(a <= 8.0, small, (p * (cosine + s) - q * (s - cosine)) / root)


def bessel_j1(m: Math, x: Number) -> Number:
    """Return the Bessel function of the first kind, order 1.

    NaN at infinity.
    """
    a = m.abs(x)
    near = m.where(a <= 8.0, a, 8.0)
    z = near * near
    small = _away_from_roots(z, c.J1_ROOTS) * m.polynomial(z / 32.0 - 1.0, c.BESSEL_J1)
    p, q, s, cosine, root = _bessel_waves(m, a, 1)
    large = (p * (s - cosine) + q * (s + cosine)) / root
    return m.where(a <= 8.0, x * small, m.where(x < 0.0, -large, large))


def bessel_y0(m: Math, x: Number) -> Number:
    """Return the Bessel function of the second kind, order 0.

    -inf for x <= 0, NaN at infinity.
    """
    near = m.where(x <= 8.0, x, 8.0)
    z = near * near
    small = 2.0 / math.pi * m.log(near) * bessel_j0(m, near) + m.polynomial(
        z / 32.0 - 1.0, c.BESSEL_Y0
    )
    p, q, s, cosine, root = _bessel_waves(m, x, 0)
    large = (p * (s - cosine) + q * (s + cosine)) / root
    return m.where(x <= 0.0, -INF, m.where(x <= 8.0, small, large))


def bessel_y1(m: Math, x: Number) -> Number:
    """Return the Bessel function of the second kind, order 1.

    -inf for x <= 0, NaN at infinity.
    """
    near = m.where(x <= 8.0, x, 8.0)
    z = near * near
    small = 2.0 / math.pi * (m.log(near) * bessel_j1(m, near) - 1.0 / near) + near * m.polynomial(
        z / 32.0 - 1.0, c.BESSEL_Y1
    )
    p, q, s, cosine, root = _bessel_waves(m, x, 1)
    large = (q * (s - cosine) - p * (s + cosine)) / root
    return m.where(x <= 0.0, -INF, m.where(x <= 8.0, small, large))


def dawsn(m: Math, x: Number) -> Number:
    """Return Dawson's integral e^(-x^2) int_0^x e^(t^2) dt."""
    a = m.abs(x)
    near = m.where(a < 1.2, a, 0.0)
    first = near * m.polynomial(near * near, c.DAWSN_SMALL)
    second = m.polynomial(m.where(a < 3.0, a, 2.1) - 2.1, c.DAWSN_1)
    third = m.polynomial(m.where(a < 5.0, a, 4.0) - 4.0, c.DAWSN_3)
    fourth = m.polynomial(m.where(a < 9.0, a, 7.0) - 7.0, c.DAWSN_5)
    inverse = 1.0 / m.where(a < 9.0, 9.0, a)
    fifth = m.polynomial(inverse * inverse, c.DAWSN_9)
    far = m.where(a < 3.0, second, m.where(a < 5.0, third, m.where(a < 9.0, fourth, fifth)))
    y = m.where(a < 1.2, first, 0.5 * far / m.where(a < 1.2, 1.0, a))
    return m.where(x < 0.0, -y, y)


def expint(m: Math, x: Number) -> Number:
    """Return the exponential integral Ei(x).

    -inf at 0, NaN below and at infinity.
    """
    near = m.where(x < 4.0, x, 1.0)
    small = m.log(near) + EULER + near * m.polynomial(near, c.EXPINT_SMALL)
    far = m.where(x < 4.0, 4.0, x)
    u = 1.0 / far
    first = m.polynomial(m.where(far < 8.0, u, 0.1875) - 0.1875, c.EXPINT_4)
    second = m.polynomial(m.where(far < 16.0, u, 0.09375) - 0.09375, c.EXPINT_8)
    third = m.polynomial(m.where(far < 32.0, u, 0.046875) - 0.046875, c.EXPINT_16)
    fourth = m.polynomial(u - 0.015625, c.EXPINT_32)
    series = m.where(
        far < 8.0, first, m.where(far < 16.0, second, m.where(far < 32.0, third, fourth))
    )
    large = m.exp(far) * u * series
    return m.where(x < 0.0, NAN, m.where(m.equal(x, 0.0), -INF, m.where(x < 4.0, small, large)))


def _fresnel_auxiliaries(m: Math, a: Number) -> tuple[Number, Number, Number, Number]:
    """Return f, g, and sin and cos of pi a^2 / 2.

    For 1.6 <= a <= 36974.
    """
    square, lost = m.two_product(a, a)
    # the sine has period 4 in a^2
    angle = math.pi / 2.0 * ((square - 4.0 * m.floor(0.25 * square)) + lost)
    scaled = 1.0 / (math.pi * square)
    t = m.where(a < 2.6, 0.0, c.FRESNEL_SCALE * (scaled * scaled))
    middle = m.where(a < 2.6, a, 2.1) - 2.1
    f = m.where(a < 2.6, m.polynomial(middle, c.FRESNEL_F_MID), m.polynomial(t, c.FRESNEL_F)) / (
        math.pi * a
    )
    g = (
        m.where(a < 2.6, m.polynomial(middle, c.FRESNEL_G_MID), m.polynomial(t, c.FRESNEL_G))
        * scaled
        / (math.pi * a)
    )
    return f, g, m.sin(angle), m.cos(angle)


def _fresnel(m: Math, x: Number, is_sine: bool) -> Number:
    a = m.abs(x)
    near = m.where(a < 1.6, a, 0.0)
    fourth = (near * near) * (near * near)
    small = (
        near * near * near * m.polynomial(fourth, c.FRESNEL_S)
        if is_sine
        else near * m.polynomial(fourth, c.FRESNEL_C)
    )
    f, g, s, cosine = _fresnel_auxiliaries(m, m.where((a >= 1.6) & (a < 36974.0), a, 1.6))
    wave = 0.5 - (f * cosine + g * s) if is_sine else 0.5 + (f * s - g * cosine)
    # the last choice keeps NaN
    y = m.where(a < 1.6, small, m.where(a < 36974.0, wave, m.where(a >= 36974.0, 0.5, a)))
    return m.where(x < 0.0, -y, y)


def fresnel_sin(m: Math, x: Number) -> Number:
    """Return int_0^x sin(pi t^2 / 2) dt."""
    return _fresnel(m, x, True)


def fresnel_cos(m: Math, x: Number) -> Number:
    """Return int_0^x cos(pi t^2 / 2) dt."""
    return _fresnel(m, x, False)


def spence(m: Math, x: Number) -> Number:
    """Return the dilogarithm in Spence's form, int_1^x log t / (1 - t) dt.

    NaN for x < 0 and at infinity.
    """
    y = m.where(x > 2.0, 1.0 / x, x)
    flip = y < 0.5
    logarithm, other = m.log(y), m.log1p(-m.where(flip, y, 0.0))
    u = -m.where(flip, other, logarithm)
    square = u * u
    core = u - 0.25 * square + u * square * m.polynomial(square, c.SPENCE)
    result = m.where(flip, math.pi**2 / 6.0 - logarithm * other - core, core)
    result = m.where(m.equal(y, 0.0), math.pi**2 / 6.0, result)
    result = m.where(x > 2.0, -0.5 * logarithm * logarithm - result, result) + 0.0  # 0 at 1, not -0
    return m.where(x < 0.0, NAN, m.where(m.equal(x, INF), NAN, result))
