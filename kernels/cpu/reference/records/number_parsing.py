"""Read numbers from text, correctly rounded."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType

_HALFWAY: Final = (1 << 28) - 1
"""Bits that are zero in float32 and halfway between two."""


def float_parser(dtype: DType) -> Callable[[bytes], float]:
    """Return the function from text to a number.

    dtype: floating. The function raises ValueError."""
    return _single if dtype.size == 4 else _double


def float_values(texts: Sequence[bytes], dtype: DType) -> np.ndarray:
    """Return the numbers of texts. Raises ValueError for one that is none."""
    if b"_" in b"".join(texts):  # Python's alone
        raise ValueError
    numbers = np.fromiter(map(float, texts), np.float64, len(texts))
    if dtype.size == 4:
        for k in np.flatnonzero(numbers.view(np.int64) & _HALFWAY == 0).tolist():
            numbers[k] = _single(texts[k])
    with np.errstate(over="ignore"):
        return numbers.astype(dtype.as_numpy_dtype)


def _double(text: bytes) -> float:
    if b"_" in text:  # Python's alone
        raise ValueError
    return float(text)


def _single(text: bytes) -> float:
    """Return a float64 that rounds to the nearest float32."""
    number = _double(text)
    if not math.isfinite(number) or np.float64(number).view(np.int64) & _HALFWAY:
        return number
    exact, found = Decimal(text.decode()), Decimal(number)
    if exact == found:
        return number
    return math.nextafter(number, math.inf if exact > found else -math.inf)
