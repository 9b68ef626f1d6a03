"""Emit exp, log, hyperbolic, error and power functions as branch-free polynomials.

A bound in a docstring is the largest error in units in the last place over all normal results;
`python -m tfjit.kernels.vmath.tools.ulp` measures the bounds.
"""

from __future__ import annotations

import math
from typing import Final

from tfjit.kernels.vmath import coefficients as c
from tfjit.kernels.vmath.emit import (
    Value,
    copysign,
    fabs,
    fast_two_sum,
    fma,
    fuses,
    is_device,
    paired_polynomial,
    polynomial,
    rounded,
    scalar,
    sqrt,
    two_product,
    two_sum,
    where,
)

INF: Final = math.inf
NAN: Final = math.nan
LOG2E: Final = 1.4426950408889634
# adding 1.5 * 2^(mantissa bits) rounds a small float to an integer and leaves it in the low bits
_MAGIC32: Final = 12582912.0
_MAGIC32_BITS: Final = 0x4B400000
MAGIC64: Final = 6755399441055744.0
_MAGIC64_BITS: Final = 0x4338000000000000
# between them e^x is a normal number
_LOWEST_EXP32: Final = -87.33654022216797
_HIGHEST_EXP32: Final = 88.72283172607422
_LOWEST_GATE: Final = -75.0
# ln 2 in two parts: the first has trailing zero bits, so that n * part is exact
_LN2_32: Final = (0.693145751953125, 1.42860677e-06)
_LN2_64: Final = (6.93147180369123816490e-01, 1.90821492927058770002e-10)


def clamp(x: Value, low: float, high: float) -> Value:
    """Return x limited to [low, high]; NaN stays."""
    x = where(x > high, high, x)
    return where(x < low, low, x)


def reduce_exp(x: Value) -> tuple[Value, Value, Value]:
    """Split x = n ln2 + r with |r| <= ln2/2.

    Returns n as a float, n as an integer, and r. |x| must be below about 2^21.
    """
    magic, magic_bits, (high, low) = (
        (_MAGIC32, _MAGIC32_BITS, _LN2_32) if x.bits == 32 else (MAGIC64, _MAGIC64_BITS, _LN2_64)
    )
    t = x.mad(LOG2E, magic)
    n = t - magic
    r = n.mad(-low, n.mad(-high, x))
    return n, t.as_int() - magic_bits, r


def power_of_two(n: Value) -> Value:
    """Return 2^n for an integer n within the normal exponents.

    One past the largest normal exponent gives infinity.
    """
    mantissa_bits, bias = (23, 127) if n.bits == 32 else (52, 1023)
    return ((n + bias) << mantissa_bits).as_float()


def _exp_core(r: Value) -> Value:
    # Horner to the end: the last two coefficients are 1, and each step rounds once
    return polynomial(r, c.EXP32 if r.bits == 32 else c.EXP64).mad(r, 1.0).mad(r, 1.0)


def exp_normal(x: Value) -> Value:
    """Return e^x, clamped to about the range of normal numbers.

    The clamp saves the second scaling.
    """
    low, high = (-87.3, 88.3) if x.bits == 32 else (-708.3, 709.4)
    _, n, r = reduce_exp(clamp(x, low, high))
    return _exp_core(r) * power_of_two(n)


@scalar("f32")
def exp(x: Value) -> Value:
    """Return e^x; 0.95 ULP. Subnormal results become 0.

    Running kernels flush subnormals, too. n goes straight into the exponent of e^r: the magic
    number's own bits are shifted out of its sum with n.
    """
    if x.bits == 64:
        return scaled_exp(x, 0)
    t = x.mad(LOG2E, _MAGIC32)
    n = t - _MAGIC32
    r = n.mad(-_LN2_32[1], n.mad(-_LN2_32[0], x))
    y = (_exp_core(r).as_int() + (t.as_int() << 23)).as_float()
    y = where(x < _LOWEST_EXP32, 0.0, y)
    return where(x <= _HIGHEST_EXP32, y, x * INF)  # infinity, or NaN


@scalar("f64", name="exp")
def exp64(x: Value) -> Value:
    """Return e^x, including subnormal results; 0.95 ULP."""
    return scaled_exp(x, 0)


def scaled_exp(x: Value, shift: int) -> Value:
    """Return e^x 2^shift for a small shift, without intermediate overflow."""
    low, high = (-104.5, 89.0 - shift) if x.bits == 32 else (-746.0, 710.0 - shift)
    _, n, r = reduce_exp(clamp(x, low, high))
    n = n + shift if shift else n
    # 2^n may lie outside the normal range, so it is applied in two halves
    half = n >> 1
    return _exp_core(r) * power_of_two(half) * power_of_two(n - half)


@scalar("f32", "f64")
def exp_shifted(x: Value) -> Value:
    """Return e^x for an x from which a maximum was subtracted.

    The error is 2 ULP down to -20 and 4.5 ULP down to the smallest normal number; below, the result
    is 0. The function takes two thirds of the time of `exp`. It scales once, and for float32
    multiplies once by ln 2. That product's error grows with the argument, while the result's weight
    in a sum shrinks. Arguments up to 88.3 (709) are served as well; larger ones give infinity.
    """
    mantissa_bits, bias, magic = (23, 127, _MAGIC32) if x.bits == 32 else (52, 1023, MAGIC64)
    x = clamp(x, -bias * math.log(2.0), (bias + 1.1) * math.log(2.0))
    # The low bits hold n plus the exponent's bias, and the magic number's own bits are shifted out;
    # n = -bias makes a factor of 0.
    t = x.mad(LOG2E, magic + bias)
    n = t - (magic + bias)
    single = x.bits == 32 and fuses()  # else n ln2 would be rounded before the subtraction
    high, low = _LN2_32 if x.bits == 32 else _LN2_64
    r = n.mad(-math.log(2.0), x) if single else n.mad(-low, n.mad(-high, x))
    return _exp_core(r) * (t.as_int() << mantissa_bits).as_float()


@scalar("f32", "f64")
def expm1(x: Value) -> Value:
    """Return e^x - 1 without cancellation.

    The formula is 2^n (e^r - 1) + (2^n - 1).
    """
    low, high = (-20.0, 88.8) if x.bits == 32 else (-50.0, 709.8)
    clamped = clamp(x, low, high)
    _, n, r = reduce_exp(clamped)
    p = (polynomial(r, c.EXP32 if x.bits == 32 else c.EXP64) * r).mad(r, r)
    # 2^(n-1) stays finite where 2^n does not
    s = power_of_two(n - 1)
    y = p.mad(s, s - 0.5) * 2.0
    # Returning x also keeps -0, and the smallest numbers, which halving would flush.
    return where(fabs(x) < (2.0**-25 if x.bits == 32 else 2.0**-54), x, y)


def log_parts(x: Value) -> tuple[Value, Value]:
    """Split x = 2^e m for a positive finite x.

    Returns e as a float, and m in [0.69, 1.38) (f64: [sqrt(.5), sqrt(2))). x may be subnormal.
    """
    if x.bits == 32:
        tiny, scale, shift, anchor, mantissa_bits = 1.17549435e-38, 8388608.0, 23.0, 0x3F30A3D7, 23
    else:
        tiny, scale, shift, anchor, mantissa_bits = (
            2.2250738585072014e-308,
            18014398509481984.0,
            54.0,
            0x3FE6A09E667F3BCD,
            52,
        )
    small = x < tiny
    b = where(small, x * scale, x).as_int()
    e = (b - anchor) >> mantissa_bits
    m = (b - (e << mantissa_bits)).as_float()
    ef = e.to(x.kind)
    return where(small, ef - shift, ef), m


def log_domain(x: Value, y: Value) -> Value:
    """Correct y = log(x) for 0, inf, negative x and NaN."""
    y = where(x.eq(INF), x, y)
    y = where(x.eq(0.0), -INF, y)
    return where(x >= 0.0, y, NAN)


def _log1p_mantissa32(f: Value, e: Value) -> Value:
    high, low = _LN2_32
    z = f * f
    y = polynomial(f, c.LOG32) * z * f
    y = e.mad(low, y)
    # -f^2/2 inside the fused operation: the rounding of z would cost an eighth of an ulp
    y = (f * -0.5).mad(f, y) + f
    return e.mad(high, y)


def _log1p_mantissa64(f: Value, e: Value, correction: Value | None = None) -> Value:
    """Return e ln2 + log(1 + f) (+ correction)."""
    high, low = _LN2_64
    s = f / (f + 2.0)
    z = s * s
    hf = 0.5 * f * f
    tail = s.mad(z.mad(polynomial(z, c.LOG64), hf), e * low)
    if correction is not None:
        tail = tail + correction
    # f - (f^2/2 - tail) with the square inside the fused operation
    return e.mad(high, f - (f * 0.5).mad(f, -tail))


@scalar("f32", "f64")
def log(x: Value) -> Value:
    """Return the natural logarithm; 0.76 ULP."""
    e, m = log_parts(x)
    y = (_log1p_mantissa32 if x.bits == 32 else _log1p_mantissa64)(m - 1.0, e)
    return log_domain(x, y)


@scalar("f32", "f64")
def log1p(x: Value) -> Value:
    """Return log(1 + x).

    The rounding error of u = 1 + x is added back as c / u.
    """
    u = x + 1.0
    lost = where(fabs(x) > 1.0, 1.0 - (u - x), x - (u - 1.0))
    e, m = log_parts(u)
    f = m - 1.0
    if x.bits == 32:
        y = _log1p_mantissa32(f, e) + lost.over(u)
    else:
        y = _log1p_mantissa64(f, e, lost / u)
    # x is the answer where u is exactly 1; this also keeps -0.
    y = where(fabs(x) < (2.0**-24 if x.bits == 32 else 2.0**-53), x, y)
    y = where(x.eq(INF), x, y)
    y = where(x.eq(-1.0), -INF, y)
    return where(x >= -1.0, y, NAN)


@scalar("f32")
def tanh(x: Value) -> Value:
    """Return the hyperbolic tangent; 4.5 ULP.

    The result is 2 n d / (n^2 + d^2) with tanh(x/2) = n/d: near 1 the errors of n and d hardly
    matter. The variable is x itself, since half of the smallest numbers would be flushed to 0. The
    fits for x/2 are rescaled by powers of two, which changes no rounding.
    """
    numerator, denominator = _tanh_parts(x)
    return numerator.over(denominator)


def _tanh_parts(x: Value) -> tuple[Value, Value]:
    """Return tanh(x) as a quotient with a denominator from 4 to 130,000."""
    # From here on the formula, too, is exactly 1: gradients multiply 1 - tanh(x)^2 by factors that
    # may be infinite.
    clamped = clamp(x, -9.2, 9.2)
    z = clamped * clamped
    p, q = ([value * 0.25**k for k, value in enumerate(fit)] for fit in (c.TANH32_P, c.TANH32_Q))
    n = (clamped * z).mad(polynomial(z, p[1:]), clamped)
    d = polynomial(z, [2.0 * value for value in q])  # evaluated for n in the place of n/2
    return n * (d + d), n.mad(n, d * d)


@scalar("f64", name="tanh")
def tanh64(x: Value) -> Value:
    """Return the hyperbolic tangent through expm1; 2.5 ULP."""
    a = fabs(x)
    a = where(a > 22.0, 22.0, a)
    e = expm1(a + a)
    return copysign(e / (e + 2.0), x)


@scalar("f32", "f64")
def sigmoid(x: Value) -> Value:
    """Return 1 / (1 + e^-x); 2 ULP.

    Below -88 (-709) the result is a subnormal number, which the running kernel flushes to 0.
    """
    e = exp_normal(-x)
    y = e.const(1.0).over(e + 1.0)
    # One Newton step on the exact 1 + e corrects the rounding of the sum and of the quotient.
    residual = (-y).mad(e, 1.0 - y)
    return y.mad(residual, y)


def _exp_of_gate(x: Value) -> Value:
    """Return e^-x, or infinity where sigmoid(x) is not normal.

    A quotient by 1 + infinity is 0 (or NaN for an infinite dividend). On a GPU the result is
    finite, and beyond 2^126 there: `Value.over` then has a quotient of 0.
    """
    highest = 88.3 if is_device(x.builder) else 88.8
    _, n, r = reduce_exp(clamp(-x, -87.3, highest))
    return _exp_core(r) * power_of_two(n)


@scalar("f32", args="T T")
def gated(x: Value, y: Value) -> Value:
    """Return sigmoid(x) * y in one division; 2.5 ULP.

    On a GPU it is 3 ULP.
    """
    denominator = _exp_of_gate(x) + 1.0
    if is_device(x.builder):
        return x.const(1.0).over(denominator) * y  # y may be infinite
    return y / denominator


@scalar("f32", args="T T")
def gated_tanh(x: Value, y: Value) -> Value:
    """Return sigmoid(x) * tanh(y) in one division; 6 ULP.

    Results below 3e-33 may be 0.
    """
    numerator, denominator = _tanh_parts(y)
    if is_device(x.builder):
        # the product of both denominators stays below 2^126
        gate = _exp_of_gate(where(x < _LOWEST_GATE, _LOWEST_GATE, x))
        numerator = where(x < _LOWEST_GATE, numerator * 0.0, numerator)
        return numerator.over(denominator.mad(gate, denominator))
    return numerator / denominator.mad(_exp_of_gate(x), denominator)


@scalar("f32")
def erf(x: Value) -> Value:
    """Return the error function; 5.2 ULP."""
    clamped = clamp(x, -3.83, 3.83)
    z = clamped * clamped
    return (clamped * paired_polynomial(z, c.ERF32_P)).over(paired_polynomial(z, c.ERF32_Q))


@scalar("f32")
def softplus(x: Value) -> Value:
    """Return log(1 + e^x); 2 ULP.

    The formula is max(x, 0) + log1p(e^-|x|).
    """
    t = exp(-fabs(x))
    y = t.mad(polynomial(t, c.L1P32), where(x > 0.0, x, 0.0))
    return where(x.isnan(), x, y)


@scalar("f64", name="softplus")
def softplus64(x: Value) -> Value:
    """Return log(1 + e^x) through log1p."""
    y = where(x > 0.0, x, 0.0) + log1p(exp(-fabs(x)))
    return where(x.isnan(), x, y)


@scalar("f32", "f64", name="sqrt")
def square_root(x: Value) -> Value:
    """Return the correctly rounded square root."""
    return sqrt(x)


@scalar("f32", "f64")
def rsqrt(x: Value) -> Value:
    """Return 1 / sqrt(x) by two correctly rounded steps."""
    return 1.0 / sqrt(x)


def is_odd(y: Value) -> tuple[Value, Value]:
    """Return whether a float is an integer, and whether it is odd.

    Infinity counts as even.
    """
    integer = rounded(y, "trunc").eq(y)
    half = y * 0.5
    return integer, integer & rounded(half, "trunc").ne(half)


def pow_domain(x: Value, y: Value, magnitude: Value) -> Value:
    """Complete magnitude = |x|^y of finite nonzero x to all arguments.

    IEEE 754 gives the rules for zeros, infinities, signs and NaN.
    """
    a = fabs(x)
    result = where(a.eq(0.0), where(y < 0.0, INF, y.const(0.0)), magnitude)
    result = where(a.eq(INF), where(y < 0.0, y.const(0.0), y.const(INF)), result)
    integer, odd = is_odd(y)
    # (-0.0) ** -3 is -inf, so the sign bit counts and not x < 0.
    negative = x.as_int() < 0
    result = where(negative & odd, -result, result)
    result = where((x < 0.0) & ~integer & x.ne(-INF), NAN, result)
    result = where(x.isnan() | y.isnan(), NAN, result)
    one = y.eq(0.0) | x.eq(1.0) | (x.eq(-1.0) & fabs(y).eq(INF))
    return where(one, 1.0, result)


@scalar("f32", args="T T", name="pow")
def pow32(x: Value, y: Value) -> Value:
    """Return x^y through float64; 0.5 ULP."""
    a = fabs(x).to("f64")
    e, m = log_parts(a)
    s = (m - 1.0) / (m + 1.0)
    log2 = s.mad(polynomial(s * s, c.P2LOG), e)
    w = clamp(log2 * y.to("f64"), -200.0, 200.0)
    t = w + MAGIC64
    n = t - MAGIC64
    p = polynomial(w - n, c.P2EXP)
    magnitude = (p * power_of_two(t.as_int() - _MAGIC64_BITS)).to("f32")
    return pow_domain(x, y, magnitude)


_TWO_THIRDS: Final = (2.0 / 3.0, 3.700743415417188e-17)
_LOG2E_PARTS: Final = (1.4426950408889634, 2.0355273740931033e-17)


def _log2_extended(x: Value) -> tuple[Value, Value]:
    """Return log2(x) of a positive finite double as two doubles.

    The relative error of their sum is about 2^-65.
    """
    e, m = log_parts(x)
    f = m - 1.0
    d, d_low = two_sum(m, m.const(1.0))
    s = f / d
    s_low = (fma(-s, d, f) - s * d_low) / d
    z, z_low = two_product(s, s)
    z_low = z_low + 2.0 * s * s_low
    cube, cube_low = two_product(z, s)
    cube_low = cube_low + z * s_low + z_low * s
    third, third_low = two_product(cube, cube.const(_TWO_THIRDS[0]))
    third_low = third_low + cube * _TWO_THIRDS[1] + cube_low * _TWO_THIRDS[0]
    tail = z * z * s * polynomial(z, c.POW64_LOG)
    log, low = fast_two_sum(2.0 * s, third)
    low = low + (third_low + 2.0 * s_low + tail)
    log, low = fast_two_sum(log, low)
    log2, log2_low = two_product(log, log.const(_LOG2E_PARTS[0]))
    log2_low = log2_low + log * _LOG2E_PARTS[1] + low * _LOG2E_PARTS[0]
    total, rest = two_sum(e, log2)
    return fast_two_sum(total, rest + log2_low)


@scalar("f64", args="T T", name="pow")
def pow64(x: Value, y: Value) -> Value:
    """Return x^y; 1.25 ULP at most over 1e8 samples.

    The logarithm carries 65 bits.
    """
    log2, low = _log2_extended(fabs(x))
    # A huge y would make the products infinite and their difference NaN. Past 2^70 every power is
    # 0, 1 or inf anyway.
    y_safe = clamp(y, -(2.0**70), 2.0**70)
    w, w_low = two_product(y_safe, log2)
    w_low = w_low + y_safe * low
    w_low = where(fabs(w) > 1100.0, 0.0, w_low)
    w = clamp(w, -1100.0, 1100.0)
    t = w + MAGIC64
    n = t - MAGIC64
    r = (w - n) + w_low
    p = polynomial(r, c.POW64_EXP2).mad(r, 1.0)
    ni = t.as_int() - _MAGIC64_BITS
    half = ni >> 1
    magnitude = p * power_of_two(half) * power_of_two(ni - half)
    return pow_domain(x, y, magnitude)
