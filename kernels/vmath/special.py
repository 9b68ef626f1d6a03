"""Register the special functions of `framework.special` as compiled scalars.

float32 is computed in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

from tfjit.framework.scalar import special
from tfjit.kernels.vmath import elementary, trigonometric
from tfjit.kernels.vmath.emit import (
    Value,
    fabs,
    polynomial,
    rounded,
    scalar,
    sqrt,
    two_product,
    where,
)

MATH: Final = SimpleNamespace(
    exp=elementary.exp, log=elementary.log, log1p=elementary.log1p, sqrt=sqrt, sin=trigonometric.sin64, cos=trigonometric.cos64,
    tan=trigonometric.tan64, abs=fabs, floor=lambda x: rounded(x, "floor"), where=where, equal=lambda x, y: x.eq(y),
    two_product=two_product, polynomial=polynomial,
)  # fmt: skip


def _register(name: str, function: Callable[[Any, Value], Value], kinds: tuple[str, ...]) -> None:
    @scalar(*kinds, name=name)
    def emitter(x: Value) -> Value:
        return function(MATH, x.to("f64")).to(x.kind)


for _name in (
    "lgamma", "digamma", "erfinv", "ndtri", "bessel_i0", "bessel_i0e", "bessel_i1", "bessel_i1e", "bessel_k0", "bessel_k0e", "bessel_k1",
    "bessel_k1e", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "dawsn", "expint", "fresnel_sin", "fresnel_cos", "spence",
):  # fmt: skip
    _register(_name, getattr(special, _name), ("f32", "f64"))
_register("erf", special.erf_float64, ("f64",))
_register("erfc", special.erfc, ("f64",))


@scalar("f32", "f64", args="T T")
def nextafter(x: Value, y: Value) -> Value:
    """Return the number after x in the direction of y."""
    bits = x.as_int()
    away = (y > x).ne(x < 0.0)
    step = where(away, bits + 1, bits - 1)
    smallest = where(y > 0.0, bits.const(1), (1 << (bits.bits - 1)) | 1).as_float()
    moved = where((bits << 1).eq(0), smallest, step.as_float())
    return where(x.isnan() | y.isnan(), float("nan"), where(x.eq(y), y, moved))
