"""Emit hyperbolic functions other than tanh, and their inverses.

Most float32 functions are computed in float64, where nothing overflows or cancels.
"""

from __future__ import annotations

import math
from typing import Final

from tfjit.kernels.vmath.elementary import INF, exp, expm1, log, log1p, scaled_exp
from tfjit.kernels.vmath.emit import Value, copysign, fabs, scalar, sqrt, where

_LN2: Final = math.log(2.0)


def _narrowed(x: Value) -> tuple[Value, str]:
    """Return x in float64 and the kind to convert back to."""
    return x.to("f64"), x.kind


@scalar("f32", "f64")
def sinh(x: Value) -> Value:
    """Return the hyperbolic sine; 2 ULP (f32 0.5)."""
    wide, kind = _narrowed(x)
    a = fabs(wide)
    if kind == "f32":
        a = where(a > 90.0, 90.0, a)
        e = expm1(a)
        y = 0.5 * (e + e / (e + 1.0))
    else:
        # Past 22, e^-x is lost in rounding, and e^x / 2 stays finite a little longer than e^x.
        e = expm1(where(a > 22.0, 22.0, a))
        y = where(a > 22.0, scaled_exp(a, -1), 0.5 * (e + e / (e + 1.0)))
    return where(x.isnan(), x, copysign(y.to(kind), x))


@scalar("f32", "f64")
def cosh(x: Value) -> Value:
    """Return the hyperbolic cosine; 2 ULP (f32 0.5)."""
    wide, kind = _narrowed(x)
    a = fabs(wide)
    if kind == "f32":
        a = where(a > 90.0, 90.0, a)
        e = exp(a)
        y = 0.5 * (e + 1.0 / e)
    else:
        e = exp(where(a > 22.0, 22.0, a))
        y = where(a > 22.0, scaled_exp(a, -1), 0.5 * (e + 1.0 / e))
    return where(x.isnan(), x, y.to(kind))


@scalar("f32", "f64")
def asinh(x: Value) -> Value:
    """Return the inverse hyperbolic sine; 2 ULP (f32 0.5)."""
    wide, kind = _narrowed(x)
    a = fabs(wide)
    safe = where(a > 2.0**28, 1.0, a)
    square = safe * safe
    y = log1p(safe + square / (sqrt(square + 1.0) + 1.0))
    y = where(a > 2.0**28, log(a) + _LN2, y)
    return copysign(y.to(kind), x)


@scalar("f32", "f64")
def acosh(x: Value) -> Value:
    """Return the inverse hyperbolic cosine; 2 ULP (f32 0.5).

    It is NaN below 1.
    """
    wide, kind = _narrowed(x)
    t = where(wide > 2.0**28, 1.0, wide) - 1.0
    y = log1p(t + sqrt(t * (t + 2.0)))
    y = where(wide > 2.0**28, log(wide) + _LN2, y)
    return where(wide >= 1.0, y, float("nan")).to(kind)


@scalar("f32", "f64")
def atanh(x: Value) -> Value:
    """Return the inverse hyperbolic tangent; 3 ULP.

    It is NaN beyond 1 and infinite at 1.
    """
    a = fabs(x)
    y = 0.5 * log1p((a + a) / (1.0 - a))
    y = where(a.eq(1.0), INF, where(a > 1.0, float("nan"), y))
    return copysign(y, x)
