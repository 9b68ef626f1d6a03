"""Compare constants of a graph with literals of a pattern."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Literal = Any
"""A Python or NumPy number, a text as bytes, or an array."""


def text_of(value: Literal) -> str:
    """Return a literal as messages show it, "any constant" for None."""
    if value is None:
        return "any constant"
    if isinstance(value, np.ndarray):
        return np.array2string(value, separator=", ", threshold=6)
    return repr(value.item() if isinstance(value, np.generic) else value)


def cast(literal: Literal, dtype: np.dtype[Any]) -> np.ndarray | None:
    """Return a literal in a dtype; None if it has none such.

    A real number is rounded to a floating-point dtype. An integer dtype has integers of its range
    only, and bool has no numbers.
    """
    value = np.asarray(literal)
    if dtype.names is not None or value.dtype.names is not None:
        return None
    if dtype.kind == "O" or value.dtype.kind in "SO":
        texts = dtype.kind == "O" and value.dtype.kind in "SO"
        return value.astype(object) if texts else None
    if (dtype.kind == "b") != (value.dtype.kind == "b"):
        return None
    if value.dtype.kind == "c" and dtype.kind != "c":
        return None
    if dtype.kind in "iu" and value.size:
        whole = value.astype(object)
        limits = np.iinfo(dtype)
        for item in whole.reshape(-1):
            if isinstance(item, float) and not math.isfinite(item):
                return None
            if item != int(item) or not limits.min <= item <= limits.max:
                return None
    with np.errstate(all="ignore"):
        return value.astype(dtype)


def equals(found: np.ndarray, literal: Literal) -> bool:
    """Return whether a constant is the literal, bit by bit.

    A literal number is equal to each element; a literal array has the constant's shape. Any NaN
    equals any NaN.
    """
    if found.size == 0 and not isinstance(literal, np.ndarray):
        return False
    if isinstance(literal, np.ndarray) and literal.shape != found.shape:
        return False
    wanted = cast(literal, found.dtype)
    if wanted is None:
        return False
    if found.dtype.kind in "biuSO":
        return bool((found == wanted).all())
    if found.dtype.kind == "c":
        parts = ((found.real, wanted.real), (found.imag, wanted.imag))
        return all(_same_floats(*part) for part in parts)
    return _same_floats(found, wanted)


def _same_floats(found: np.ndarray, wanted: np.ndarray) -> bool:
    if found.dtype.kind == "V":  # bfloat16 and its like: NumPy's functions know floats
        found, wanted = found.astype(np.float32), wanted.astype(np.float32)
    equal = (found == wanted) & (np.signbit(found) == np.signbit(wanted))
    return bool((equal | (np.isnan(found) & np.isnan(wanted))).all())
