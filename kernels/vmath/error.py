"""Emit erfc in float32, and sigmoid's last step in narrow types.

`elementary` has erf, `special` the float64 functions.
"""

from __future__ import annotations

from tfjit.kernels.vmath import coefficients as c
from tfjit.kernels.vmath.elementary import exp
from tfjit.kernels.vmath.emit import Value, fabs, fma, polynomial, scalar, where


@scalar("f32")
def erfc(x: Value) -> Value:
    """Return the complementary error function; 7 ULP.

    One polynomial over the whole half line is multiplied by e^(-x^2).
    """
    a = fabs(x)
    a = where(a > 10.2, 10.2, a)
    square = a * a
    decay = exp(-square)
    # add the rounding error of a^2 back
    decay = decay - decay * fma(a, a, -square)
    tail = decay * polynomial((a - 4.0) / (a + 4.0), c.ERFC32) / a.mad(2.0, 1.0)
    return where(x.isnan(), x, where(x < 0.0, 2.0 - tail, tail))


@scalar("f32", args="T T")
def logistic(e: Value, successor: Value) -> Value:
    """Return e / (1 + e); 1 for infinite e.

    e and 1 + e are given rounded.
    """
    return where(e.eq(float("inf")), 1.0, e / successor)
