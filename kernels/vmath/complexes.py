"""Emit complex arithmetic and functions on pairs of real values.

Multiplication and division are TensorFlow's formulas, bit for bit. The functions of complex64 are
computed in float64 and rounded at the end, so that no intermediate result overflows or cancels. The
functions of complex128 are accurate for values with squares that neither overflow nor vanish.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tfjit.kernels.vmath import elementary, hyperbolic, trigonometric
from tfjit.kernels.vmath.emit import (
    COMPLEX_KINDS,
    Complex,
    Value,
    copysign,
    fabs,
    scalar,
    sqrt,
    where,
)

INF = math.inf


@scalar(*COMPLEX_KINDS, args="T T")
def multiply(x: Complex, y: Complex) -> Complex:
    """Return x y by four products and two sums."""
    return x * y


@scalar(*COMPLEX_KINDS, args="T T", name="div")
def divide(x: Complex, y: Complex) -> Complex:
    """Return x / y, with y scaled by its larger part first."""
    a, b = fabs(y.re), fabs(y.im)
    scale = where(a > b, a, b)
    re, im = y.re / scale, y.im / scale
    size = re * re + im * im
    n = x * Complex(re, -im)
    return Complex(n.re / size / scale, n.im / size / scale)


@scalar(*COMPLEX_KINDS)
def square(x: Complex) -> Complex:
    """Return x * x."""
    return x * x


@scalar(*COMPLEX_KINDS, args="T T")
def squared_difference(x: Complex, y: Complex) -> Complex:
    """Return (x - y) conj(x - y)."""
    d = x - y
    return d * d.conj()


def _zero_with(dy: Complex, gradient: Complex) -> Complex:
    """Return the gradient; 0 where dy is 0, whatever the factors."""
    zero = dy.re.eq(0.0) & dy.im.eq(0.0)
    return Complex(where(zero, 0.0, gradient.re), where(zero, 0.0, gradient.im))


@scalar(*COMPLEX_KINDS, args="T T")
def sqrt_grad(y: Complex, dy: Complex) -> Complex:
    """Return dy (0.5 / conj(y)); 0 where dy is 0."""
    return _zero_with(dy, dy * divide(y.of(0.5), y.conj()))


@scalar(*COMPLEX_KINDS, args="T T")
def rsqrt_grad(y: Complex, dy: Complex) -> Complex:
    """Return -0.5 dy conj(y)^3; 0 where dy is 0."""
    z = y.conj()
    return _zero_with(dy, (dy * z) * (z.of(-0.5) * (z * z)))


@scalar(*COMPLEX_KINDS, args="T T")
def reciprocal_grad(y: Complex, dy: Complex) -> Complex:
    """Return -conj(y)^2 dy; 0 where dy is 0."""
    z = y.conj()
    return _zero_with(dy, -z * z * dy)


@scalar("f32", args="T T", result="c64", name="complex")
@scalar("f64", args="T T", result="c128", name="complex")
def pair(re: Value, im: Value) -> Complex:
    """Return re + i im."""
    return Complex(re, im)


@scalar(*COMPLEX_KINDS, result="R")
def real(x: Complex) -> Value:
    """Return the real part."""
    return x.re


@scalar(*COMPLEX_KINDS, result="R")
def imag(x: Complex) -> Value:
    """Return the imaginary part."""
    return x.im


@scalar(*COMPLEX_KINDS)
def conj(x: Complex) -> Complex:
    """Return the conjugate."""
    return x.conj()


def _hypot(x: Complex) -> Value:
    a, b = fabs(x.re), fabs(x.im)
    if a.kind == "f32":
        wide, other = a.to("f64"), b.to("f64")
        size = sqrt(wide * wide + other * other).to("f32")
    else:
        big, small = where(a > b, a, b), where(a > b, b, a)
        ratio = where(big.eq(0.0), 0.0, small / big)
        size = big * sqrt(ratio * ratio + 1.0)
    return where(a.eq(INF) | b.eq(INF), INF, size)


@scalar(*COMPLEX_KINDS, result="R", name="abs")
def magnitude(x: Complex) -> Value:
    """Return |x|; infinity when either part is infinite."""
    return _hypot(x)


@scalar(*COMPLEX_KINDS, result="R")
def angle(x: Complex) -> Value:
    """Return the argument, in (-pi, pi]."""
    return trigonometric.atan2(x.im, x.re)


@scalar(*COMPLEX_KINDS)
def sign(x: Complex) -> Complex:
    """Return x / |x|; 0 for x = 0."""
    size = _hypot(x)
    zero = size.eq(0.0)
    size = where(zero, 1.0, size)
    return Complex(where(zero, 0.0, x.re / size), where(zero, 0.0, x.im / size))


def _function(emitter: Callable[..., Complex]) -> Callable[..., Complex]:
    """Register an emitter over float64 pairs for both kinds."""
    arity = emitter.__code__.co_argcount

    @scalar(*COMPLEX_KINDS, args=" ".join("T" * arity), name=emitter.__name__.strip("_"))
    def any_kind(*args: Complex) -> Complex:
        kind = args[0].re.kind
        y = emitter(*(Complex(a.re.to("f64"), a.im.to("f64")) for a in args))
        return Complex(y.re.to(kind), y.im.to(kind))

    return emitter


def _real(x: Value) -> Complex:
    return Complex(x, x.const(0.0))


@_function
def _exp(z: Complex) -> Complex:
    size = elementary.exp(z.re)
    # an infinite size times sin 0 would be NaN
    im = where(z.im.eq(0.0), z.im, size * trigonometric.sin64(z.im))
    return Complex(size * trigonometric.cos64(z.im), im)


@_function
def _expm1(z: Complex) -> Complex:
    half = trigonometric.sin64(z.im * 0.5)
    e = elementary.expm1(z.re)
    re = e * trigonometric.cos64(z.im) - 2.0 * half * half
    return Complex(re, where(z.im.eq(0.0), z.im, (e + 1.0) * trigonometric.sin64(z.im)))


def _log_abs(z: Complex) -> Value:
    a, b = fabs(z.re), fabs(z.im)
    big, small = where(a > b, a, b), where(a > b, b, a)
    # near the unit circle the logarithm is a small difference
    square = big * big + small * small
    near = (square > 0.5) & (square < 2.0)
    ratio = where(big.eq(0.0) | big.eq(INF), 0.0, small / big)
    inner = where(near, (big - 1.0) * (big + 1.0) + small * small, ratio * ratio)
    y = 0.5 * elementary.log1p(inner) + where(near, 0.0, elementary.log(big))
    return where(a.eq(INF) | b.eq(INF), INF, y)


@_function
def _log(z: Complex) -> Complex:
    return Complex(_log_abs(z), trigonometric.atan2(z.im, z.re))


@_function
def _log1p(z: Complex) -> Complex:
    size = z.re * (z.re + 2.0) + z.im * z.im
    small = fabs(size) < 0.5
    re = where(small, 0.5 * elementary.log1p(where(small, size, 0.0)), _log_abs(z + 1.0))
    return Complex(re, trigonometric.atan2(z.im, z.re + 1.0))


@_function
def _sqrt(z: Complex) -> Complex:
    size = _hypot(z)
    t = sqrt((fabs(z.re) + size) * 0.5)
    zero = t.eq(0.0)
    other = where(zero, 0.0, fabs(z.im) / where(zero, 1.0, t) * 0.5)
    negative = z.re < 0.0
    re = where(negative, other, t)
    im = copysign(where(negative, t, other), z.im)
    infinite = fabs(z.im).eq(INF)
    return Complex(where(infinite, INF, re), where(infinite, z.im, im))


@_function
def _rsqrt(z: Complex) -> Complex:
    return divide(z.of(1.0), _sqrt(z))


@_function
def _sinh(z: Complex) -> Complex:
    re = hyperbolic.sinh(z.re) * trigonometric.cos64(z.im)
    return Complex(re, where(z.im.eq(0.0), z.im, hyperbolic.cosh(z.re) * trigonometric.sin64(z.im)))


@_function
def _cosh(z: Complex) -> Complex:
    im = hyperbolic.sinh(z.re) * trigonometric.sin64(z.im)
    return Complex(
        hyperbolic.cosh(z.re) * trigonometric.cos64(z.im), where(z.im.eq(0.0), z.re.const(0.0), im)
    )


@_function
def _tanh(z: Complex) -> Complex:
    """Return tanh(z) in Kahan's form.

    For a large real part the result is +-1 with a vanishing imaginary part.
    """
    clamped = elementary.clamp(z.re, -30.0, 30.0)
    t, s = trigonometric.tan64(z.im), hyperbolic.sinh(clamped)
    rho, beta = sqrt(s * s + 1.0), t * t + 1.0
    size = beta * s * s + 1.0
    return Complex(beta * rho * s / size, t / size)


@_function
def _sin(z: Complex) -> Complex:
    y = _sinh(z.times_i())
    return Complex(y.im, -y.re)


@_function
def _cos(z: Complex) -> Complex:
    return _cosh(z.times_i())


@_function
def _tan(z: Complex) -> Complex:
    y = _tanh(z.times_i())
    return Complex(y.im, -y.re)


@_function
def _asin(z: Complex) -> Complex:
    """Return asin(z) by Kahan, "Branch cuts for complex elementary functions"."""
    one = _real(z.re.const(1.0))
    p, q = _sqrt(one + z), _sqrt(one - z)
    re = trigonometric.atan2(z.re, p.re * q.re - p.im * q.im)
    return Complex(re, hyperbolic.asinh(q.re * p.im - q.im * p.re))


@_function
def _acos(z: Complex) -> Complex:
    one = _real(z.re.const(1.0))
    p, q = _sqrt(one - z), _sqrt(one + z)
    return Complex(
        2.0 * trigonometric.atan2(p.re, q.re), hyperbolic.asinh(q.re * p.im - q.im * p.re)
    )


@_function
def _acosh(z: Complex) -> Complex:
    one = _real(z.re.const(1.0))
    p, q = _sqrt(z - one), _sqrt(z + one)
    return Complex(
        hyperbolic.asinh(p.re * q.re + p.im * q.im), 2.0 * trigonometric.atan2(p.im, q.re)
    )


@_function
def _asinh(z: Complex) -> Complex:
    y = _asin(z.times_i())
    return Complex(y.im, -y.re)


@_function
def _atanh(z: Complex) -> Complex:
    # in the right half plane nothing cancels
    a, square = fabs(z.re), z.im * z.im
    gap = 1.0 - a
    re = 0.25 * elementary.log1p(4.0 * a / (gap * gap + square))
    im = 0.5 * trigonometric.atan2(z.im * 2.0, gap * (a + 1.0) - square)
    return Complex(copysign(re, z.re), im)


@_function
def _atan(z: Complex) -> Complex:
    y = _atanh(z.times_i())
    return Complex(y.im, -y.re)


@_function
def _sigmoid(z: Complex) -> Complex:
    return divide(z.of(1.0), _exp(-z) + 1.0)


@_function
def _pow(x: Complex, y: Complex) -> Complex:
    power = _exp(y * _log(x))
    zero = x.re.eq(0.0) & x.im.eq(0.0)
    power = where(zero, _real(x.re.const(0.0)), power)
    return where(y.re.eq(0.0) & y.im.eq(0.0), _real(x.re.const(1.0)), power)
