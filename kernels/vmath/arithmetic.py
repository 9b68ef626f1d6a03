"""Emit selection, extremes, signs, rounding and division."""

from __future__ import annotations

from tfjit.kernels.vmath.emit import (
    COMPLEX_KINDS,
    FLOAT_KINDS,
    INT_KINDS,
    SIGNED_KINDS,
    UNSIGNED_KINDS,
    Complex,
    Value,
    fabs,
    rounded,
    scalar,
    where,
)


@scalar(*FLOAT_KINDS, *INT_KINDS, *COMPLEX_KINDS, "b", args="b T T")
def select(condition: Value, x: Value | Complex, y: Value | Complex) -> Value | Complex:
    """Return x if the condition holds, else y, without a branch."""
    return where(condition, x, y)


@scalar(*FLOAT_KINDS, *INT_KINDS, args="T T")
def maximum(x: Value, y: Value) -> Value:
    """Return the larger argument; NaN if either is NaN."""
    larger = where(x > y, x, y)
    return where(x.isnan(), x, larger) if x.is_float else larger


@scalar(*FLOAT_KINDS, *INT_KINDS, args="T T")
def minimum(x: Value, y: Value) -> Value:
    """Return the smaller argument; NaN if either is NaN."""
    smaller = where(x < y, x, y)
    return where(x.isnan(), x, smaller) if x.is_float else smaller


@scalar(*FLOAT_KINDS, *INT_KINDS, name="abs")
def magnitude(x: Value) -> Value:
    """Return |x|; the smallest integer stays itself."""
    return fabs(x) if x.is_float or x.signed else x


@scalar(*FLOAT_KINDS, *INT_KINDS)
def sign(x: Value) -> Value:
    """Return -1, 0 or 1; NaN stays."""
    if not x.is_float:
        positive = where(x > 0, x.const(1), 0)
        return where(x < 0, -1, positive) if x.signed else positive
    # adding 0 makes -0 positive and keeps NaN
    y = where(x > 0.0, 1.0, x + 0.0)
    return where(x < 0.0, -1.0, y)


@scalar(*FLOAT_KINDS)
def floor(x: Value) -> Value:
    """Return the largest integer not above x."""
    return rounded(x, "floor")


@scalar(*FLOAT_KINDS)
def ceil(x: Value) -> Value:
    """Return the smallest integer not below x."""
    return rounded(x, "ceil")


@scalar(*FLOAT_KINDS)
def trunc(x: Value) -> Value:
    """Return the integer part of x."""
    return rounded(x, "trunc")


@scalar(*FLOAT_KINDS)
def rint(x: Value) -> Value:
    """Return the nearest integer; halves go to even."""
    return rounded(x, "roundeven")


@scalar(*FLOAT_KINDS, result="b")
def isnan(x: Value) -> Value:
    """Return whether x is NaN."""
    return x.isnan()


@scalar(*FLOAT_KINDS, result="b")
def isinf(x: Value) -> Value:
    """Return whether x is an infinity."""
    return fabs(x).eq(float("inf"))


@scalar(*FLOAT_KINDS, result="b")
def isfinite(x: Value) -> Value:
    """Return whether x is neither infinite nor NaN."""
    return fabs(x) < float("inf")


@scalar(*FLOAT_KINDS, args="T T", name="truncmod")
def fmod(x: Value, y: Value) -> Value:
    """Return the remainder with the sign of x."""
    return x.remainder(y)


@scalar(*FLOAT_KINDS, args="T T", name="floormod")
def floormod_float(x: Value, y: Value) -> Value:
    """Return the remainder with the sign of y."""
    r = x.remainder(y)
    return where(r.ne(0.0) & (r < 0.0).ne(y < 0.0), r + y, r)


def _truncating(x: Value, y: Value) -> Value:
    """Return the integer quotient x / y, rounded towards zero.

    It is 0 for y = 0. The smallest value over -1 wraps to itself.
    """
    if x.bits < 64:
        # the quotient of 32-bit integers is exact in float64, and unlike integer division it
        # vectorises
        wide = "f64" if x.bits == 32 else "f32"
        q = rounded(x.to(wide) / where(y.eq(0), y.const(1), y).to(wide), "trunc")
        if x.signed:
            q = where(q.eq(2.0 ** (x.bits - 1)), -(2.0 ** (x.bits - 1)), q)
        return where(y.eq(0), x.const(0), q.to("i32" if x.bits < 32 else x.kind).to(x.kind))
    if not x.signed:
        return where(y.eq(0), x.const(0), x.quotient(where(y.eq(0), y.const(1), y)))
    by_minus_one = y.eq(-1)
    q = x.quotient(where(y.eq(0) | by_minus_one, y.const(1), y))
    return where(y.eq(0), x.const(0), where(by_minus_one, -x, q))


@scalar(*INT_KINDS, args="T T")
def truncdiv(x: Value, y: Value) -> Value:
    """Return the integer quotient towards zero; 0 for y = 0.

    The caller reports y = 0.
    """
    return _truncating(x, y)


@scalar(*INT_KINDS, args="T T")
def truncmod(x: Value, y: Value) -> Value:
    """Return the integer remainder with the sign of x.

    It is 0 for y = 0.
    """
    return where(y.eq(0), x.const(0), x - _truncating(x, y) * y)


@scalar(*SIGNED_KINDS, args="T T", name="floordiv")
def floordiv_signed(x: Value, y: Value) -> Value:
    """Return the integer quotient towards minus infinity; 0 for y = 0."""
    q = _truncating(x, y)
    r = x - q * y
    return where(r.ne(0) & ((r ^ y) < 0) & y.ne(0), q - 1, q)


@scalar(*UNSIGNED_KINDS, args="T T", name="floordiv")
def floordiv_unsigned(x: Value, y: Value) -> Value:
    """Return the integer quotient; 0 for y = 0."""
    return _truncating(x, y)


@scalar(*SIGNED_KINDS, args="T T", name="floormod")
def floormod_signed(x: Value, y: Value) -> Value:
    """Return the integer remainder with the sign of y.

    It is 0 for y = 0.
    """
    r = where(y.eq(0), x.const(0), x - _truncating(x, y) * y)
    return where(r.ne(0) & ((r ^ y) < 0), r + y, r)


@scalar(*UNSIGNED_KINDS, args="T T", name="floormod")
def floormod_unsigned(x: Value, y: Value) -> Value:
    """Return the integer remainder; 0 for y = 0."""
    return where(y.eq(0), x.const(0), x - _truncating(x, y) * y)


@scalar(*FLOAT_KINDS, *INT_KINDS)
def square(x: Value) -> Value:
    """Return x * x in x's own type."""
    return x * x


@scalar(*SIGNED_KINDS, args="T T", name="pow")
def integer_power(x: Value, y: Value) -> Value:
    """Return x^y modulo 2^width; 1 for negative y.

    Repeated squaring is unrolled, so that it vectorises. The caller reports negative y.
    """
    result, base = x.const(1), x
    exponent = where(y < 0, y.const(0), y)
    for bit in range(x.bits - 1):
        result = where(((exponent >> bit) & 1).ne(0), result * base, result)
        base = base * base
    return result


@scalar(*FLOAT_KINDS, *INT_KINDS, args="T T T")
def clip(x: Value, low: Value, high: Value) -> Value:
    """Return max(min(x, high), low).

    A NaN bound does not limit; a NaN x stays.
    """
    y = where(high < x, high, x)
    return where(y < low, low, y)


@scalar(*FLOAT_KINDS, args="T T T")
def mad(x: Value, y: Value, z: Value) -> Value:
    """Return x * y + z.

    It rounds once where the CPU has a fused multiply-add.
    """
    return x.mad(y, z)
