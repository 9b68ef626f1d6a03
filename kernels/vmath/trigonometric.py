"""Circular functions and their inverses. float32 arguments are reduced (and the rarer functions computed) in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from tfjit.kernels.vmath import coefficients as c
from tfjit.kernels.vmath.elementary import INF, MAGIC64
from tfjit.kernels.vmath.emit import Value, copysign, fabs, polynomial, scalar, sqrt, two_product, where

_TWO_OVER_PI: Final = 0.6366197723675814
# pi/2 as a sum of three doubles
_HALF_PI: Final = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33)
_PI: Final = (math.pi, 1.2246467991473532e-16)


def _reduce32(x: Value) -> tuple[Value, Value]:
    """x (f32) = q pi/2 + r: (r as f32, q as i32). The float64 remainder is right to f32's precision up to |x| = 1e9."""
    wide = x.to("f64")
    t = wide * _TWO_OVER_PI + MAGIC64
    n = t - MAGIC64
    r = n.mad(-_HALF_PI[1], n.mad(-_HALF_PI[0], wide))
    return r.to("f32"), t.as_int().to("i32")


def _reduce64(x: Value) -> tuple[Value, Value, Value]:
    """x (f64) = q pi/2 + r + tail, right up to |x| = 2^45: (r, tail, q as i64)."""
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
    return total, (r - total) + lost, t.as_int()


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
    """sin(r + q pi/2)."""
    y = where((q & 1).ne(0), cosine, sine)
    # bit 1 of q moves to the sign bit
    return (y.as_int() ^ ((q & 2) << (y.bits - 2))).as_float()


@scalar("f32")
def sin(x: Value) -> Value:
    """Sine; 1.5 ULP for |x| <= 1e9."""
    r, q = _reduce32(x)
    y = _sine_of_quadrant(*_sine_cosine32(r), q)
    return where(x.eq(0.0), x, y)


@scalar("f32")
def cos(x: Value) -> Value:
    """Cosine; 1.5 ULP for |x| <= 1e9."""
    r, q = _reduce32(x)
    return _sine_of_quadrant(*_sine_cosine32(r), q + 1)


@scalar("f32")
def tan(x: Value) -> Value:
    """Tangent through float64; 0.6 ULP for |x| <= 1e9."""
    r, tail, q = _reduce64(x.to("f64"))
    return where(x.eq(0.0), x, _tangent(r, tail, q).to("f32"))


@scalar("f64", name="sin")
def sin64(x: Value) -> Value:
    """Sine; 1 ULP for |x| <= 2^45."""
    r, tail, q = _reduce64(x)
    y = _sine_of_quadrant(*_sine_cosine64(r, tail), q)
    return where(x.eq(0.0), x, y)


@scalar("f64", name="cos")
def cos64(x: Value) -> Value:
    """Cosine; 1 ULP for |x| <= 2^45."""
    r, tail, q = _reduce64(x)
    return _sine_of_quadrant(*_sine_cosine64(r, tail), q + 1)


def _tangent(r: Value, tail: Value, q: Value) -> Value:
    sine, cosine = _sine_cosine64(r, tail)
    odd = (q & 1).ne(0)
    return where(odd, -cosine, sine) / where(odd, sine, cosine)


@scalar("f64", name="tan")
def tan64(x: Value) -> Value:
    """Tangent; 2 ULP for |x| <= 2^45."""
    return where(x.eq(0.0), x, _tangent(*_reduce64(x)))


def _arctangent(numerator: Value, denominator: Value, fit: c.Polynomial) -> Value:
    """atan(numerator / denominator) for nonnegative arguments that are not both 0."""
    mid = numerator > denominator * 0.4142135623730951
    big = numerator > denominator * 2.414213562373095
    n = where(big, -denominator, where(mid, numerator - denominator, numerator))
    d = where(big, numerator, where(mid, numerator + denominator, denominator))
    t = n / d
    z = t * t
    base = where(big, _HALF_PI[0], where(mid, t.const(_HALF_PI[0] / 2), 0.0))
    rest = where(big, _HALF_PI[1], where(mid, t.const(_HALF_PI[1] / 2), 0.0))
    return base + (t + ((polynomial(z, fit) * z).mad(t, rest)))


@scalar("f64", name="atan")
def atan64(x: Value) -> Value:
    """Inverse tangent; 1 ULP."""
    a = fabs(x)
    return copysign(where(a.eq(INF), _HALF_PI[0], _arctangent(a, a.const(1.0), c.ATAN64)), x)


@scalar("f64", args="T T", name="atan2")
def atan2_64(y: Value, x: Value) -> Value:
    """Angle of the point (x, y); 2 ULP. The quotient is formed first, since sums of large coordinates overflow."""
    ratio = fabs(y) / fabs(x)
    ratio = where(fabs(y).eq(fabs(x)), 1.0, ratio)
    # 0/0 and inf/inf count as equal above; 0/0 must give 0
    ratio = where(y.eq(0.0), y.const(0.0), ratio)
    angle = where(ratio.eq(INF), _HALF_PI[0], _arctangent(ratio, ratio.const(1.0), c.ATAN64))
    return _quadrant(angle, y, x)


def _quadrant(angle: Value, y: Value, x: Value) -> Value:
    """An angle in [0, pi/2] brought to the quadrant of (x, y)."""
    angle = where(x.as_int() < 0, _PI[0] - (angle - _PI[1]), angle)
    angle = copysign(angle, y)
    return where(x.isnan() | y.isnan(), float("nan"), angle)


@scalar("f64", name="asin")
def asin64(x: Value) -> Value:
    """Inverse sine; 1.5 ULP."""
    small, s = _asin_core(x, c.ASIN64)
    return copysign(where(small, s, _HALF_PI[0] - (2.0 * s - _HALF_PI[1])), x)


def _asin_core(x: Value, fit: c.Polynomial) -> tuple[Value, Value]:
    """(whether |x| <= 0.5, asin(s)) with s = |x| for small |x|, else sqrt((1 - |x|) / 2)."""
    a = fabs(x)
    small = a <= 0.5
    half = (1.0 - a) * 0.5
    z = where(small, a * a, half)
    s = where(small, a, sqrt(half))
    return small, (polynomial(z, fit) * z).mad(s, s)


@scalar("f64", name="acos")
def acos64(x: Value) -> Value:
    """Inverse cosine; 1.5 ULP."""
    small, y = _asin_core(x, c.ASIN64)
    signed = copysign(y, x)
    large = where(x < 0.0, _PI[0] - (2.0 * y - _PI[1]), 2.0 * y)
    return where(small, _HALF_PI[0] - (signed - _HALF_PI[1]), large)


def _through_float64(function: Callable[..., Value]) -> Callable[..., Value]:
    """A float32 function computed in float64 and rounded."""

    def narrow(*args: Value) -> Value:
        return function(*(a.to("f64") for a in args)).to("f32")

    return narrow


def _atan_short(x: Value) -> Value:
    a = fabs(x)
    return copysign(where(a.eq(INF), _HALF_PI[0], _arctangent(a, a.const(1.0), c.ATAN32)), x)


def atan2_short(y: Value, x: Value) -> Value:
    # float32 coordinates cannot overflow float64, so one division does
    equal = fabs(y).eq(fabs(x))
    n, d = where(equal, 1.0, fabs(y)), where(equal, x.const(1.0), fabs(x))
    angle = where(fabs(y).eq(INF) & ~equal, _HALF_PI[0], _arctangent(n, d, c.ATAN32))
    return _quadrant(where(y.eq(0.0), y.const(0.0), angle), y, x)


def _asin_short(x: Value) -> Value:
    small, y = _asin_core(x, c.ASIN32)
    return copysign(where(small, y, _HALF_PI[0] - 2.0 * y), x)


def _acos_short(x: Value) -> Value:
    small, y = _asin_core(x, c.ASIN32)
    large = where(x < 0.0, _PI[0] - 2.0 * y, 2.0 * y)
    return where(small, _HALF_PI[0] - copysign(y, x), large)


scalar("f32", name="atan")(_through_float64(_atan_short))
scalar("f32", args="T T", name="atan2")(_through_float64(atan2_short))
scalar("f32", name="asin")(_through_float64(_asin_short))
scalar("f32", name="acos")(_through_float64(_acos_short))
