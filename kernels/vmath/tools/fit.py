"""Compute and print the minimax fits of the vector math.

`python -m tfjit.kernels.vmath.tools.fit [NAME ...]` needs mpmath, which tfjit itself does not.
Polynomials come from Remez' exchange in 50 digits, the rational fits of float32 from reweighted
least squares. TANH32 is then rounded to float32 by a random walk towards the smallest error of the
formula as it is compiled, which is several times the error of the fit. Its digits vary from run to
run.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

mp: Any = importlib.import_module("mpmath")
mp.mp.dps = 50
mpf, pi = mp.mpf, mp.pi
Function = Callable[[Any], Any]


def remez(
    f: Function, low: Any, high: Any, degree: int, weight: Function, rounds: int = 12
) -> tuple[Any, list[Any]]:
    """Return the largest weighted error and coefficients of the best polynomial.

    The polynomial is the nearest to f on [low, high].
    """
    low, high, n = mpf(low), mpf(high), degree + 2
    points = [(low + high) / 2 - (high - low) / 2 * mp.cos(pi * i / (n - 1)) for i in range(n)]
    grid = [
        (low + high) / 2 - (high - low) / 2 * mp.cos(pi * i / (12 * n)) for i in range(12 * n + 1)
    ]
    values, weights = [f(t) for t in grid], [weight(t) for t in grid]
    best: tuple[Any, list[Any]] | None = None
    for _ in range(rounds):
        system, right = mp.matrix(n, n), mp.matrix(n, 1)
        for i, x in enumerate(points):
            for j in range(degree + 1):
                system[i, j] = x**j
            system[i, degree + 1] = (-1) ** i / weight(x)
            right[i] = f(x)
        solution = mp.lu_solve(system, right)
        coefficients = [solution[j] for j in range(degree + 1)]
        errors = [
            w * (mp.polyval(coefficients[::-1], t) - v) for w, t, v in zip(weights, grid, values)
        ]
        largest = max(abs(e) for e in errors)
        if best is None or largest < best[0]:
            best = largest, coefficients
        extremes = _alternating_extremes(errors, n)
        if extremes is None or abs(largest / abs(solution[degree + 1]) - 1) < 0.02:
            break
        points = [grid[k] for k in extremes]
    assert best is not None
    return best


def _alternating_extremes(errors: Sequence[Any], count: int) -> list[int] | None:
    """Return `count` extremes of the error with alternating signs.

    The largest are chosen. None means that there are fewer.
    """
    extremes = [0]
    for k, error in enumerate(errors):
        if (error > 0) != (errors[extremes[-1]] > 0):
            extremes.append(k)
        elif abs(error) > abs(errors[extremes[-1]]):
            extremes[-1] = k
    if len(extremes) < count:
        return None
    while len(extremes) > count:
        extremes.pop(0 if abs(errors[extremes[0]]) < abs(errors[extremes[-1]]) else -1)
    return extremes


def rational(fit: Rational, rounds: int = 120) -> tuple[float, list[float], list[float]]:
    """Return the weighted error, P and Q with Q(0) = 1."""
    high, degrees = fit.limit**2, fit.degrees
    t = 0.5 * high * (1 + np.cos((np.arange(4000) + 0.5) * np.pi / 4000))
    exact = [getattr(mp, fit.function)(root(mpf(v))) for v in t]
    y = np.array([float(e / root(mpf(v))) for e, v in zip(exact, t)])
    relief = np.array([float(fit.weight(e)) for e in exact])
    p, q = degrees
    denominator, emphasis = np.ones_like(t), np.ones_like(t)
    best = (np.inf, [0.0], [1.0])
    powers = np.vander(t / high, max(p, q) + 1, increasing=True)
    for _ in range(rounds):
        weight = relief * np.sqrt(emphasis) / np.abs(denominator) / np.abs(y)
        matrix = (
            np.hstack([powers[:, : p + 1], -powers[:, 1 : q + 1] * y[:, None]]) * weight[:, None]
        )
        scale = np.linalg.norm(matrix, axis=0)
        c = np.linalg.lstsq(matrix / scale, y * weight, rcond=None)[0] / scale
        denominator = 1 + powers[:, 1 : q + 1] @ c[p + 1 :]
        error = relief * np.abs(powers[:, : p + 1] @ c[: p + 1] / denominator / y - 1)
        if error.max() < best[0]:
            numerator = list(c[: p + 1] / high ** np.arange(p + 1))
            best = (
                float(error.max()),
                numerator,
                [1.0, *(c[p + 1 :] / high ** np.arange(1, q + 1))],
            )
        emphasis = emphasis * (error / error.max() + 1e-2)
        emphasis /= emphasis.mean()
    return best


def root(z: Any) -> Any:
    """Return sqrt, moved from 0 by a negligible amount."""
    return mp.sqrt(z) if z > 0 else mpf("1e-12")


def near_zero(f: Function, series: Function, limit: str = "1e-10") -> Function:
    """Return f with its series below `limit`.

    There f divides 0 by 0.
    """
    return lambda t: f(t) if abs(t) > mpf(limit) else series(t)


@dataclass(frozen=True)
class Fit:
    """A polynomial fit.

    weight: of the error, by default 1 / f (the relative error).
    """

    f: Function
    low: Any
    high: Any
    degree: int
    weight: Function | None = None

    def solve(self) -> tuple[Any, list[Any]]:
        """Return the error and the coefficients."""
        return remez(self.f, self.low, self.high, self.degree, self.weight or self.relative)

    def relative(self, t: Any) -> Any:
        """Return the weight that makes the error relative."""
        return 1 / self.f(t)


def absolute(_: Any) -> Any:
    return mpf(1)


def _at_least(t: Any) -> Any:
    return t if abs(t) > mpf("1e-9") else mpf("1e-9")


_LN2: Final = mp.log(2) / 2 * mpf("1.002")
_QUARTER: Final = (pi / 4) ** 2 * mpf("1.01")
_TAN8: Final = ((mp.sqrt(2) - 1) * mpf("1.001")) ** 2
_ATANH: Final = mpf("0.1717") ** 2


def _expm1(r: Any) -> Any:
    return (mp.expm1(r) - r) / r**2


def _log1p_cubic(f: Any) -> Any:
    return (mp.log1p(f) - f + f * f / 2) / f**3


def _odd(f: Function) -> Function:
    """Return (f(x) / x - 1) / x^2 over z = x^2."""
    return lambda z: (f(root(z)) / root(z) - 1) / z


def _erfcx(t: Any) -> Any:
    x = 4 * (1 + t) / (1 - t)
    scaled = (
        mp.exp(x * x) * mp.erfc(x)
        if x < 20
        else sum((-1) ** k * mp.fac2(2 * k - 1) / (2 * x * x) ** k for k in range(25))
        / (x * mp.sqrt(pi))
    )
    return (1 + 2 * x) * scaled


FITS: Final[dict[str, Fit]] = {
    "EXP32": Fit(near_zero(_expm1, lambda r: mpf(1) / 2 + r / 6), -_LN2, _LN2, 4, lambda r: abs(_at_least(r))),
    "EXP64": Fit(near_zero(_expm1, lambda r: mpf(1) / 2 + r / 6), -_LN2, _LN2, 9, lambda r: abs(_at_least(r))),
    "LOG32": Fit(
        near_zero(_log1p_cubic, lambda f: mpf(1) / 3 - f / 4), mpf("-0.31001"), mpf("0.38001"), 8,
        lambda f: abs(f**3 / mp.log1p(f)) if abs(f) > 1e-6 else mpf("1e-12"),
    ),
    "L1P32": Fit(near_zero(lambda t: mp.log1p(t) / t, lambda t: 1 - t / 2), 0, 1, 9),
    "SIN32": Fit(near_zero(_odd(mp.sin), lambda z: -mpf(1) / 6 + z / 120), 0, _QUARTER, 3, _at_least),
    "COS32": Fit(near_zero(lambda z: (mp.cos(root(z)) - 1 + z / 2) / z**2, lambda z: mpf(1) / 24 - z / 720), 0, _QUARTER, 2, _at_least),
    "SIN64": Fit(near_zero(_odd(mp.sin), lambda z: -mpf(1) / 6 + z / 120), 0, _QUARTER, 6, _at_least),
    "COS64": Fit(near_zero(lambda z: (mp.cos(root(z)) - 1 + z / 2) / z**2, lambda z: mpf(1) / 24 - z / 720), 0, _QUARTER, 6, _at_least),
    "ATAN64": Fit(near_zero(_odd(mp.atan), lambda z: -mpf(1) / 3 + z / 5), 0, _TAN8, 11, _at_least),
    "ATAN32": Fit(near_zero(_odd(mp.atan), lambda z: -mpf(1) / 3 + z / 5), 0, _TAN8, 5, _at_least),
    "ASIN64": Fit(near_zero(_odd(mp.asin), lambda z: mpf(1) / 6 + 3 * z / 40), 0, mpf("0.2501"), 12, _at_least),
    "ASIN32": Fit(near_zero(_odd(mp.asin), lambda z: mpf(1) / 6 + 3 * z / 40), 0, mpf("0.2501"), 6, _at_least),
    "ERFC32": Fit(_erfcx, -1, mpf("6.2") / mpf("14.2"), 10),
    "ERFC64": Fit(_erfcx, -1, mpf(24) / 32, 22),
    "ERF64": Fit(
        near_zero(lambda z: mp.erf(root(z)) / root(z) - 1, lambda z: 2 / mp.sqrt(pi) * (1 - z / 3) - 1), 0, 1, 11,
        lambda z: root(z) / mp.erf(root(z)),
    ),
    "POW64_LOG": Fit(
        near_zero(lambda z: (2 * mp.atanh(root(z)) / root(z) - 2 - 2 * z / 3) / z**2, lambda z: mpf(2) / 5 + 2 * z / 7, "1e-9"),
        0, _ATANH, 8,
        lambda z: _at_least(z * z),
    ),
    "POW64_EXP2": Fit(near_zero(lambda r: (mp.power(2, r) - 1) / r, lambda r: mp.log(2)), mpf("-0.5005"), mpf("0.5005"), 11),
    "P2LOG": Fit(lambda z: 2 / mp.log(2) * (mp.atanh(root(z)) / root(z)), 0, _ATANH, 6),
    "P2EXP": Fit(lambda r: mp.power(2, r), mpf("-0.501"), mpf("0.501"), 8),
    "LOG64": Fit(lambda z: 2 * (mp.atanh(root(z)) / root(z) - 1) / z if z > mpf("1e-12") else mpf(2) / 3, 0, _ATANH, 6, _at_least),
}  # fmt: skip


@dataclass(frozen=True)
class Rational:
    """A fit x P(x^2) / Q(x^2) for |x| <= limit.

    weight: of the relative error, from the function's value.
    """

    function: str
    limit: float
    degrees: tuple[int, int]
    weight: Function = absolute


RATIONALS: Final[dict[str, Rational]] = {
    # tanh(x) = 2 t / (1 + t^2) with t = tanh(x/2) forgives an error in t where t is near 1
    "TANH32": Rational("tanh", 4.4, (3, 2), lambda t: 2 * (1 - t * t) / (1 + t * t) + mpf("0.001")),
    "ERF32": Rational("erf", 3.83, (5, 5)),
}


def rounded_tanh(
    p: Sequence[float], q: Sequence[float], seconds: float
) -> tuple[float, list[float], list[float]]:
    """Search neighbouring float32 coefficients by a random walk.

    Returns the largest error in ulp, P and Q. P(0) and Q(0) stay 1.
    """
    from numba import njit

    import tfjit.kernels.vmath as vm

    @njit(error_model="numpy")
    def worst(xs: Any, exact: Any, ulp: Any, c: Any) -> Any:
        largest, one, half, limit = vm.float64(0), vm.float32(1), vm.float32(0.5), vm.float32(4.4)
        p1, p2, p3, q1, q2 = c[0], c[1], c[2], c[3], c[4]
        for i in range(xs.size):
            h = vm.select_f32(xs[i] * half > limit, limit, xs[i] * half)
            z = h * h
            n = vm.mad_f32(h * z, vm.mad_f32(vm.mad_f32(p3, z, p2), z, p1), h)
            d = vm.mad_f32(vm.mad_f32(q2, z, q1), z, one)
            y = (n * d + n * d) / vm.mad_f32(n, n, d * d)
            error = vm.abs_f64(vm.float64(y) - exact[i]) / ulp[i]
            largest = vm.select_f64(error > largest, error, largest)
        return largest

    bits = np.array([0.02, 9.5], np.float32).view(np.uint32).astype(np.int64)
    xs = np.arange(bits[0], bits[1], 97).astype(np.uint32).view(np.float32)
    exact = np.tanh(xs.astype(np.longdouble)).astype(np.float64)
    ulp = np.ldexp(1.0, np.frexp(exact)[1] - 24)
    rng = np.random.default_rng(0)
    best = current = np.array([*p[1:], *q[1:]], np.float32)
    best_error = current_error = worst(xs, exact, ulp, best)
    stop = time.monotonic() + seconds
    while time.monotonic() < stop:
        trial = current.copy()
        for j in rng.choice(trial.size, rng.integers(1, 4), replace=False):
            trial[j] += np.float32(rng.integers(-3, 4)) * np.spacing(np.abs(trial[j]))
        error = worst(xs, exact, ulp, trial)
        if error <= current_error + (0.02 if rng.random() < 0.05 else 0.0):
            current, current_error = trial, error
            if error < best_error:
                best, best_error = trial, error
    found = [float(v) for v in best]
    return float(best_error), [1.0, *found[:3]], [1.0, *found[3:]]


def main(names: Sequence[str]) -> None:
    """Print the fits named, or all."""
    # fit_special uses this module's Remez exchange
    from tfjit.kernels.vmath.tools import fit_special

    polynomials = FITS | fit_special.FITS
    for name in names or [*polynomials, *RATIONALS]:
        if name in polynomials:
            error, coefficients = polynomials[name].solve()
            print(
                f"# error {float(error):.2e}\n{name} = {tuple(float(c) for c in coefficients)}",
                flush=True,
            )
            continue
        error, p, q = rational(RATIONALS[name])
        note = ""
        if name == "TANH32":
            ulps, p, q = rounded_tanh(p, q, 60.0)
            note = f", {ulps:.2f} ulp as compiled"
        elif name == "ERF32":  # the last factor becomes 1
            p, q = ([value / q[-1] for value in fit] for fit in (p, q))
        print(
            f"# error {error:.2e}{note}\n{name}_P = {tuple(map(float, p))}\n{name}_Q = "
            f"{tuple(map(float, q))}",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
