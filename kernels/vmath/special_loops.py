"""Compile the functions of `framework.special_series` as jitted scalars.

A function is compiled when a kernel first names it. The loops do not vectorise: an element takes
tens of nanoseconds to microseconds.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from numba import float32, float64, njit

from tfjit.framework.scalar import special_series
from tfjit.kernels.vmath.emit import intrinsic_for

_ARITIES: Final = {
    "igamma": 2,
    "igammac": 2,
    "igamma_grad_a": 2,
    "random_gamma_grad": 2,
    "betainc": 3,
    "zeta": 2,
    "polygamma": 2,
}


def _compiled(function: Callable[..., Any]) -> Any:
    return njit(error_model="numpy", nogil=True)(function)


@_compiled
def _where(condition: bool, x: float, y: float) -> float:
    return x if condition else y


@_compiled
def _some(condition: bool) -> bool:
    return condition


@functools.cache
def _series(epsilon: float) -> Any:
    return special_series.build(
        where=_where,
        some=_some,
        exp=intrinsic_for("exp_f64"),
        log=intrinsic_for("log_f64"),
        log1p=intrinsic_for("log1p_f64"),
        absolute=intrinsic_for("abs_f64"),
        floor=intrinsic_for("floor_f64"),
        power=intrinsic_for("pow_f64"),
        lgamma=intrinsic_for("lgamma_f64"),
        digamma=intrinsic_for("digamma_f64"),
        compiled=_compiled,
        epsilon=epsilon,
    )


def _narrow(function: Any, arity: int) -> Any:
    """Return the float64 function for float32 arguments."""
    if arity == 3:
        return _compiled(lambda x, y, z: float32(function(float64(x), float64(y), float64(z))))
    return _compiled(lambda x, y: float32(function(float64(x), float64(y))))


def find(name: str) -> Any:
    """Return the jitted function behind `igamma_f32`, or None."""
    base, _, kind = name.rpartition("_")
    if base not in _ARITIES or kind not in ("f32", "f64"):
        return None
    if kind == "f64":
        return getattr(_series(special_series.EPSILON), base)
    return _narrow(getattr(_series(1e-10), base), _ARITIES[base])
