"""Read the sizes, strides and dilations of windows."""

from __future__ import annotations

from typing import Any


def sizes_per_axis(value: Any, n: int, channels_first: bool, name: str) -> list[int]:
    """Return sizes, strides or dilations as n + 2 numbers.

    They are given as 1, n or n + 2 numbers, for n spatial axes. name: of the argument. Raises
    ValueError for another count.
    """
    values = [value] if isinstance(value, int) else list(value)
    if len(values) == n + 2:
        return values
    if len(values) == 1:
        values *= n
    if len(values) != n:
        raise ValueError(f"{name} should be of length 1, {n} or {n + 2} but was {len(values)}")
    return [1, 1, *values] if channels_first else [1, *values, 1]
