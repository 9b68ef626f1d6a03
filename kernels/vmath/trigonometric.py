"""Emit circular functions and their inverses.

float32 arguments are reduced in float64. The reduction is right up to |x| = 1e14. Beyond,
neighbouring float32 numbers are further apart than a million periods, and the result is only some
number between -1 and 1: a full reduction needs tables, and would double the time of every other
argument.
"""

from __future__ import annotations

from typing import Final

from tfjit.kernels.vmath import coefficients as c
from tfjit.kernels.vmath.elementary import MAGIC64, clamp
from tfjit.kernels.vmath.emit import (
    Value,
    copysign,
    fabs,
    fma,
    polynomial,
    scalar,
    sqrt,
    two_product,
    where,
)

_TWO_OVER_PI: Final = 0.6366197723675814
# pi/2 as a sum of three doubles, and of two floats
_HALF_PI: Final = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33)
_HALF_PI32: Final = (1.5707963705062866, -4.371139000186241e-08)


def _reduce32(x: Value) -> tuple[Value, Value]:
    """Split x (f32) = q pi/2 + r.

    Returns r as f32 and q as i32.
    """
    wide = x.to("f64")
    t = wide * _TWO_OVER_PI + MAGIC64
    n = t - MAGIC64
    # one rounding: the product has more bits than a double
    r = n.mad(-_HALF_PI[1], fma(n, n.const(-_HALF_PI[0]), wide))
    return clamp(r.to("f32"), -1.0, 1.0), t.as_int().to("i32")


def _reduce64(x: Value) -> tuple[Value, Value, Value]:
    """Split x (f64) = q pi/2 + r + tail.

    Returns r, tail and q as i64.
    """
    t = x * _TWO_OVER_PI + MAGIC64
    n = t - MAGIC64
    product, error = two_product(n, x.const(_HALF_PI[0]))
    # the leading difference is exact, then two small corrections
    head = x - product
    middle, middle_error = two_product(n, x.const(_HALF_PI[1]))
    first = head - error
    lost_first = (head - first) - error
    r = first - middle
    lost = ((first - r) - middle) + lost_first - middle_error
    lost = n.mad(-_HALF_PI[2], lost)
    total = r + lost
    return clamp(total, -1.0, 1.0), clamp((r - total) + lost, -1e-10, 1e-10), t.as_int()


def _sine_cosine32(r: Value) -> tuple[Value, Value]:
    z = r * r
    sine = (polynomial(z, c.SIN32) * z).mad(r, r)
    cosine = polynomial(z, c.COS32).mad(z, -0.5).mad(z, 1.0)
    return sine, cosine


def _sine_cosine64(r: Value, tail: Value) -> tuple[Value, Value]:
    z = r * r
    sine = r + (polynomial(z, c.SIN64) * z).mad(r, z.mad(-0.5, 1.0) * tail)
    half = z * 0.5
    head = 1.0 - half
    cosine = head + (((1.0 - head) - half) + (polynomial(z, c.COS64) * z).mad(z, -(r * tail)))
    return sine, cosine


def _sine_of_quadrant(sine: Value, cosine: Value, q: Value) -> Value:
    """Return sin(r + q pi/2)."""
    y = where((q & 1).ne(0), cosine, sine)
    # bit 1 of q moves to the sign bit
    return (y.as_int() ^ ((q & 2) << (y.bits - 2))).as_float()


@scalar("f32")
def sin(x: Value) -> Value:
    """Return the sine; 1.5 ULP for |x| <= 1e14."""
    r, q = _reduce32(x)
    y = _sine_of_quadrant(*_sine_cosine32(r), q)
    return where(x.eq(0.0), x, y)


@scalar("f32")
def cos(x: Value) -> Value:
    """Return the cosine; 1.5 ULP for |x| <= 1e14."""
    r, q = _reduce32(x)
    return _sine_of_quadrant(*_sine_cosine32(r), q + 1)


@scalar("f32")
def tan(x: Value) -> Value:
    """Return the tangent through float64; 0.6 ULP for |x| <= 1e14."""
    r, tail, q = _reduce64(x.to("f64"))
    return where(x.eq(0.0), x, _tangent(r, tail, q).to("f32"))


@scalar("f64", name="sin")
def sin64(x: Value) -> Value:
    """Return the sine; 1 ULP for |x| <= 1e14."""
    r, tail, q = _reduce64(x)
    y = _sine_of_quadrant(*_sine_cosine64(r, tail), q)
    return where(x.eq(0.0), x, y)


@scalar("f64", name="cos")
def cos64(x: Value) -> Value:
    """Return the cosine; 1 ULP for |x| <= 1e14."""
    r, tail, q = _reduce64(x)
    return _sine_of_quadrant(*_sine_cosine64(r, tail), q + 1)


def _tangent(r: Value, tail: Value, q: Value) -> Value:
    sine, cosine = _sine_cosine64(r, tail)
    odd = (q & 1).ne(0)
    return where(odd, -cosine, sine) / where(odd, sine, cosine)


@scalar("f64", name="tan")
def tan64(x: Value) -> Value:
    """Return the tangent; 2 ULP for |x| <= 1e14."""
    return where(x.eq(0.0), x, _tangent(*_reduce64(x)))


def _half_pi(x: Value) -> tuple[float, float]:
    """Return pi/2 in x's kind, and its rounding error."""
    return _HALF_PI32 if x.bits == 32 else (_HALF_PI[0], _HALF_PI[1])


def _arctangent(ratio: Value) -> Value:
    """Return atan(ratio) for ratio >= 0.

    Beyond tan(pi/8), the addition theorem with pi/4 or pi/2 reduces the argument.
    """
    high, low = _half_pi(ratio)
    mid, big = ratio > 0.4142135623730951, ratio > 2.414213562373095
    t = where(big, -1.0, where(mid, ratio - 1.0, ratio)) / where(
        big, ratio, where(mid, ratio + 1.0, 1.0)
    )
    z = t * t
    base = where(big, high, where(mid, t.const(high / 2), 0.0))
    rest = where(big, low, where(mid, t.const(low / 2), 0.0))
    return base + (t + (polynomial(z, c.ATAN32 if ratio.bits == 32 else c.ATAN64) * z).mad(t, rest))


@scalar("f32", "f64")
def atan(x: Value) -> Value:
    """Return the inverse tangent; 2 ULP."""
    return copysign(_arctangent(fabs(x)), x)


@scalar("f32", "f64", args="T T")
def atan2(y: Value, x: Value) -> Value:
    """Return the angle of the point (x, y); 3 ULP.

    The quotient is used, since sums of large coordinates would overflow.
    """
    a, b = fabs(y), fabs(x)
    ratio = where(a.eq(b), 1.0, a / b)
    # Equal magnitudes include 0/0, which must give 0, and inf/inf.
    angle = _arctangent(where(y.eq(0.0), y.const(0.0), ratio))
    high, low = _half_pi(x)
    angle = copysign(where(x.as_int() < 0, 2.0 * high - (angle - 2.0 * low), angle), y)
    return where(x.isnan() | y.isnan(), float("nan"), angle)


def _asin_core(x: Value) -> tuple[Value, Value]:
    """Return whether |x| <= 0.5, and asin(s).

    s is |x| for small |x|, else sqrt((1 - |x|) / 2).
    """
    a = fabs(x)
    small = a <= 0.5
    z = where(small, a * a, (1.0 - a) * 0.5)
    s = where(small, a, sqrt(z))
    return small, (polynomial(z, c.ASIN32 if x.bits == 32 else c.ASIN64) * z).mad(s, s)


@scalar("f32", "f64")
def asin(x: Value) -> Value:
    """Return the inverse sine; 2.5 ULP. NaN beyond 1."""
    small, s = _asin_core(x)
    high, low = _half_pi(x)
    return copysign(where(small, s, high - (2.0 * s - low)), x)


@scalar("f32", "f64")
def acos(x: Value) -> Value:
    """Return the inverse cosine; 2.5 ULP. NaN beyond 1."""
    small, s = _asin_core(x)
    high, low = _half_pi(x)
    large = where(x < 0.0, 2.0 * high - (2.0 * s - 2.0 * low), 2.0 * s)
    return where(small, high - (copysign(s, x) - low), large)
