"""The float32 error functions that `elementary` has not, and what is built on them."""

from __future__ import annotations

from tfjit.kernels.vmath import coefficients as c
from tfjit.kernels.vmath.elementary import exp
from tfjit.kernels.vmath.emit import Value, fabs, fma, polynomial, scalar, where


def _erfc_positive(a: Value, fit: c.Polynomial, limit: float) -> Value:
    """erfc(a) for float64 a >= 0, 0 past `limit`: one polynomial over the whole half line."""
    a = where(a > limit, limit, a)
    t = (a - 4.0) / (a + 4.0)
    square = a * a
    # e^(-a^2) with the rounding error of a^2 put back
    decay = exp(-square)
    decay = decay - decay * fma(a, a, -square)
    return decay * polynomial(t, fit) / a.mad(2.0, 1.0)


@scalar("f32", name="erfc")
def erfc32(x: Value) -> Value:
    """Complementary error function through float64; 0.7 ULP."""
    wide = x.to("f64")
    tail = _erfc_positive(fabs(wide), c.ERFC32, 15.0)
    return where(x.isnan(), x, where(wide < 0.0, 2.0 - tail, tail).to("f32"))


@scalar("f32", args="T T")
def logistic(e: Value, successor: Value) -> Value:
    """e / (1 + e), both given rounded; 1 for infinite e."""
    return where(e.eq(float("inf")), 1.0, e / successor)
