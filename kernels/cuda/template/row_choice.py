"""Choose between the templates of reductions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

_MANY_ROWS: Final = 264
"""Rows that fill a GPU, two blocks a processor."""
_SHORT_ROW: Final = 8192


def prefers_rows(shape: Sequence[int], axes: Sequence[int]) -> bool:
    """Return whether the row template computes a reduction over the last dims.

    With few long rows the reduction template has more threads at work.
    """
    outer = len(shape) - len(axes)
    if not 0 < outer < len(shape) or tuple(axes) != tuple(range(outer, len(shape))):
        return False
    rows, width = prod(shape[:outer]), prod(shape[outer:])
    return 0 < width <= _SHORT_ROW or rows >= _MANY_ROWS
