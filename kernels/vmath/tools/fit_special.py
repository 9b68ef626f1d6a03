"""Compute the minimax fits of `framework.special_coefficients` for the `fit` tool."""

from __future__ import annotations

from typing import Any, Final

from tfjit.kernels.vmath.tools.fit import Fit, Function, absolute, mp, mpf, near_zero, pi, root

DIGAMMA_ROOT: Final = mp.findroot(lambda x: mp.psi(0, x), 1.4616321449683623)
_J0_ROOTS: Final = [mp.besseljzero(0, k) ** 2 for k in (1, 2)]
_J1_ROOTS: Final = [mp.besseljzero(1, k) ** 2 for k in (1, 2)]
_HALF_LOG_2PI: Final = mp.log(2 * pi) / 2


def _over_inverse_square(f: Function, limit: Function, edge: str = "1e-12") -> Function:
    """Return f(x) as a function of w = 1 / x^2.

    A limiting series serves w near 0.
    """
    return near_zero(lambda w: f(1 / mp.sqrt(w)), limit, edge)


def _stirling_rest(x: Any) -> Any:
    return (mp.loggamma(x) - ((x - mpf(1) / 2) * mp.log(x) - x + _HALF_LOG_2PI)) * x


def _digamma_rest(x: Any) -> Any:
    return (mp.log(x) - 1 / (2 * x) - mp.psi(0, x)) * x * x


def _digamma_centered(t: Any) -> Any:
    x = mpf("1.5") + t
    return (
        mp.psi(0, x) / (x - DIGAMMA_ROOT)
        if abs(x - DIGAMMA_ROOT) > 1e-20
        else mp.psi(1, DIGAMMA_ROOT)
    )


def _erfinv_over_log(w: Any) -> Any:
    """Return erfinv(x) / x for w = -log(1 - x^2)."""
    if w < mpf("1e-30"):
        return mp.sqrt(pi) / 2
    x = mp.sqrt(-mp.expm1(-w))
    return mp.erfinv(x) / x


def _erfinv_over_root(s: Any) -> Any:
    """Return erfinv(x) / x for s = sqrt(w).

    It is computed from the complement, which does not round to 0.
    """
    rest = mp.exp(-s * s)
    complement = rest / (1 + mp.sqrt(1 - rest))
    start = s - mpf("0.3") if s > 3 else s * mpf("0.9")
    y = mp.findroot(lambda v: mp.log(mp.erfc(v)) - mp.log(complement), start)
    return y / (1 - complement)


def _mapped(f: Function, center: Any) -> Function:
    """Return f over t = (x - center) / (x + center)."""
    return lambda t: f(center * (1 + t) / (1 - t))


def _place(x: str, center: Any) -> Any:
    return (mpf(x) - center) / (mpf(x) + center)


def _scaled_erfc(x: Any) -> Any:
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


def _bessel_i_large(order: int) -> Function:
    def scaled(u: Any) -> Any:
        if u > mpf("1e-3"):
            return mp.besseli(order, 1 / u) * mp.exp(-1 / u) / mp.sqrt(u)
        return (
            mp.hyper([mpf(1) / 2 + order, mpf(1) / 2 - order], [], u / 2) / mp.sqrt(2 * pi)
            if u > 0
            else 1 / mp.sqrt(2 * pi)
        )

    return scaled


def _bessel_k_large(order: int) -> Function:
    def scaled(u: Any) -> Any:
        if u > mpf("1e-3"):
            return mp.besselk(order, 1 / u) * mp.exp(1 / u) / mp.sqrt(u)
        total, term = mpf(1), mpf(1)
        for k in range(1, 12):
            term *= mpf(4 * order * order - (2 * k - 1) ** 2) * u / (8 * k)
            total += term
        return mp.sqrt(pi / 2) * total

    return scaled


def _bessel_phase(order: int, which: int) -> Function:
    """Return P (0) or x Q (1) of modulus and phase form.

    The variable is w = 1 / x^2.
    """

    def value(w: Any) -> Any:
        m = 4 * order * order
        if w <= mpf("1e-7"):
            if which == 0:
                return 1 - mpf((m - 1) * (m - 9)) / 128 * w
            return mpf(m - 1) / 8 - mpf((m - 1) * (m - 9) * (m - 25)) / 3072 * w
        x = 1 / mp.sqrt(w)
        j, y, angle = mp.besselj(order, x), mp.bessely(order, x), x - (2 * order + 1) * pi / 4
        c, s, scale = mp.cos(angle), mp.sin(angle), mp.sqrt(pi * x / 2)
        return scale * (j * c + y * s) if which == 0 else scale * (y * c - j * s) * x

    return value


def _from_square(f: Function) -> Function:
    """Return f(z) over t with z = 32 (1 + t).

    z stays a little above 0.
    """
    return lambda t: f(32 * (1 + t) + mpf("1e-22"))


def _y0_rest(z: Any) -> Any:
    x = root(z)
    return mp.bessely(0, x) - 2 / pi * mp.log(x) * mp.besselj(0, x)


def _y1_rest(z: Any) -> Any:
    x = root(z)
    return (mp.bessely(1, x) - 2 / pi * (mp.log(x) * mp.besselj(1, x) - 1 / x)) / x


def _expint_scaled(center: str) -> Function:
    def value(t: Any) -> Any:
        u = mpf(center) + t
        return (
            mp.exp(-1 / u) / u * mp.ei(1 / u)
            if u > mpf("1e-3")
            else sum(mp.factorial(k) * u**k for k in range(12))
        )

    return value


def _fresnel_auxiliary(which: int) -> Function:
    """Return f(x) pi x (0) or g(x) pi^2 x^3 (1)."""

    def value(x: Any) -> Any:
        u = pi * x * x / 2
        s, c = mp.fresnels(x) - mpf(1) / 2, mp.fresnelc(x) - mpf(1) / 2
        if which == 0:
            return (c * mp.sin(u) - s * mp.cos(u)) * pi * x
        return -(s * mp.sin(u) + c * mp.cos(u)) * pi**2 * x**3

    return value


FRESNEL_SCALE: Final = mpf(float((pi * mpf("2.6") ** 2) ** 2))


def _fresnel_far(which: int) -> Function:
    def value(y: Any) -> Any:
        t = y / FRESNEL_SCALE
        if t > mpf("1e-7"):
            return _fresnel_auxiliary(which)(mp.sqrt(1 / (pi * mp.sqrt(t))))
        return 1 - 15 * t + 945 * t * t if which else 1 - 3 * t + 105 * t * t

    return value


def _dawson(x: Any) -> Any:
    return mp.sqrt(pi) / 2 * mp.exp(-x * x) * mp.erfi(x)


def _dawson_doubled(center: str) -> Function:
    return lambda t: _dawson(mpf(center) + t) * 2 * (mpf(center) + t)


def _dawson_far(w: Any) -> Any:
    if w > mpf("1e-3"):
        return _dawson(1 / mp.sqrt(w)) * 2 / mp.sqrt(w)
    return sum((mp.fac2(2 * k - 1) if k else mpf(1)) * (w / 2) ** k for k in range(18))


FITS: Final[dict[str, Fit]] = {
    "LGAMMA": Fit(near_zero(lambda t: mp.loggamma(2 + t) / t, lambda t: mp.psi(0, 2), "1e-15"), -0.5, 0.5, 20),
    "LGAMMA_STIRLING": Fit(_over_inverse_square(_stirling_rest, lambda w: mpf(1) / 12 - w / 360), 0, mpf(1) / 64, 6, absolute),
    "DIGAMMA": Fit(_digamma_centered, -0.5, 0.5, 22),
    "DIGAMMA_ASYMPTOTIC": Fit(_over_inverse_square(_digamma_rest, lambda w: mpf(1) / 12 - w / 120), 0, mpf(1) / 64, 7, absolute),
    "ERFINV_CENTER": Fit(lambda t: _erfinv_over_log(t + mpf("3.125")), -3.125, 3.125, 24),
    "ERFINV_MIDDLE": Fit(lambda t: _erfinv_over_root(t + mpf("3.25")), -0.76, 0.76, 20),
    "ERFINV_FAR": Fit(lambda t: _erfinv_over_root(t + 5), -1.01, 1.2, 18),
    "ERFINV_TAIL": Fit(_mapped(lambda s: _erfinv_over_root(s) / s, mpf(12)), _place("6.1", mpf(12)), _place("27.4", mpf(12)), 20),
    "ERF64_TAIL": Fit(
        _mapped(_scaled_erfc, mpf("2.5")), _place("0.99", mpf("2.5")), _place("6.1", mpf("2.5")), 13,
        _mapped(lambda x: mp.erfc(x) / _scaled_erfc(x), mpf("2.5")),
    ),
    "BESSEL_I0": Fit(lambda z: mp.besseli(0, root(z)), 0, 64, 21),
    "BESSEL_I1": Fit(lambda z: mp.besseli(1, root(z)) / root(z), 0, 64, 21),
    "BESSEL_I0_LARGE": Fit(_bessel_i_large(0), 0, mpf(1) / 8, 24),
    "BESSEL_I1_LARGE": Fit(_bessel_i_large(1), 0, mpf(1) / 8, 24),
    "BESSEL_K0": Fit(lambda z: mp.besselk(0, root(z)) + mp.log(root(z) / 2) * mp.besseli(0, root(z)), 0, 4, 9),
    "BESSEL_K1": Fit(lambda z: (mp.besselk(1, root(z)) - mp.log(root(z) / 2) * mp.besseli(1, root(z))) * root(z), 0, 4, 9, absolute),
    "BESSEL_K0_LARGE": Fit(_bessel_k_large(0), 0, 0.5, 22),
    "BESSEL_K1_LARGE": Fit(_bessel_k_large(1), 0, 0.5, 22),
    "BESSEL_J0": Fit(_from_square(lambda z: mp.besselj(0, root(z)) / ((z - _J0_ROOTS[0]) * (z - _J0_ROOTS[1]))), -1, 1, 15),
    "BESSEL_J1": Fit(_from_square(lambda z: mp.besselj(1, root(z)) / root(z) / ((z - _J1_ROOTS[0]) * (z - _J1_ROOTS[1]))), -1, 1, 15),
    "BESSEL_Y0": Fit(_from_square(_y0_rest), -1, 1, 17, absolute),
    "BESSEL_Y1": Fit(_from_square(_y1_rest), -1, 1, 17, absolute),
    "BESSEL_P0": Fit(_bessel_phase(0, 0), 0, mpf(1) / 64, 13, absolute),
    "BESSEL_Q0": Fit(_bessel_phase(0, 1), 0, mpf(1) / 64, 13, absolute),
    "BESSEL_P1": Fit(_bessel_phase(1, 0), 0, mpf(1) / 64, 13, absolute),
    "BESSEL_Q1": Fit(_bessel_phase(1, 1), 0, mpf(1) / 64, 13, absolute),
    "SPENCE": Fit(
        near_zero(
            lambda v: (mp.polylog(2, 1 - mp.exp(-mp.sqrt(v))) - mp.sqrt(v) + v / 4) / mp.sqrt(v) ** 3,
            lambda v: mpf(1) / 36 - v / 3600, "1e-6",
        ),
        0, mpf("0.5"), 6, absolute,
    ),
    "EXPINT_SMALL": Fit(near_zero(lambda x: (mp.ei(x) - mp.euler - mp.log(x)) / x, lambda x: 1 + x / 4), 0, 4, 20),
    "EXPINT_4": Fit(_expint_scaled("0.1875"), -mpf(1) / 16, mpf(1) / 16, 21),
    "EXPINT_8": Fit(_expint_scaled("0.09375"), -mpf(1) / 32, mpf(1) / 32, 20),
    "EXPINT_16": Fit(_expint_scaled("0.046875"), -mpf(1) / 64, mpf(1) / 64, 18),
    "EXPINT_32": Fit(_expint_scaled("0.015625"), -mpf(1) / 64, mpf(1) / 64, 15),
    "FRESNEL_S": Fit(
        near_zero(lambda q: mp.fresnels(mp.root(q, 4)) / mp.root(q, 4) ** 3, lambda q: pi / 6, "1e-20"), 0, mpf("6.5537"), 10, absolute
    ),
    "FRESNEL_C": Fit(
        near_zero(lambda q: mp.fresnelc(mp.root(q, 4)) / mp.root(q, 4), lambda q: mpf(1), "1e-20"), 0, mpf("6.5537"), 10, absolute
    ),
    "FRESNEL_F_MID": Fit(lambda t: _fresnel_auxiliary(0)(mpf("2.1") + t), -0.5, 0.5, 18, absolute),
    "FRESNEL_G_MID": Fit(lambda t: _fresnel_auxiliary(1)(mpf("2.1") + t), -0.5, 0.5, 18, absolute),
    "FRESNEL_F": Fit(_fresnel_far(0), 0, 1, 20, absolute),
    "FRESNEL_G": Fit(_fresnel_far(1), 0, 1, 20, absolute),
    "DAWSN_SMALL": Fit(near_zero(lambda z: _dawson(root(z)) / root(z), lambda z: 1 - 2 * z / 3, "1e-20"), 0, mpf("1.4401"), 14),
    "DAWSN_1": Fit(_dawson_doubled("2.1"), mpf("-0.901"), mpf("0.901"), 22),
    "DAWSN_3": Fit(_dawson_doubled("4"), -1, 1, 22),
    "DAWSN_5": Fit(_dawson_doubled("7"), -2, 2, 22),
    "DAWSN_9": Fit(_dawson_far, 0, mpf(1) / 81, 9),
}  # fmt: skip
