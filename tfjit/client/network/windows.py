"""Sizes, strides, padding and layout of windows, as layers are told them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure


def sizes_of(value: Structure, n: int, name: str, allow_zero: bool = False) -> tuple[int, ...]:
    """Return one number for each of n axes.

    A single number counts for all. Raises ValueError for another number of values, values that are
    no integers, and values below 1, or below 0 where zero is allowed.
    """
    text = f"The `{name}` argument must be a tuple of {n} integers. Received: {value}"
    if isinstance(value, int):
        values = (value,) * n
    else:
        try:
            values = tuple(value)
        except TypeError:
            raise ValueError(text) from None
        if len(values) != n:
            raise ValueError(text)
        for single in values:
            try:
                int(single)
            except (ValueError, TypeError):
                raise ValueError(
                    f"{text} including element {single} of type {type(single)}"
                ) from None
    wrong = {single for single in values if single < 0 or (single == 0 and not allow_zero)}
    if wrong:
        needed = ">= 0" if allow_zero else "> 0"
        raise ValueError(
            f"{text} including {wrong} that does not satisfy the requirement `{needed}`."
        )
    return tuple(int(single) for single in values)


def padding_of(value: Structure) -> str:
    """Return the padding in small letters. Raises ValueError for an unknown one."""
    padding = value.lower() if isinstance(value, str) else value
    if padding not in ("valid", "same", "causal"):
        raise ValueError(
            'The `padding` argument must be a list/tuple or one of "valid", "same" (or "causal", '
            f"only for `Conv1D). Received: {padding}"
        )
    return str(padding)


def data_format_of(value: Structure) -> str:
    """Return the layout in small letters. Raises ValueError for an unknown one."""
    data_format = value.lower() if isinstance(value, str) else value
    if data_format not in ("channels_first", "channels_last"):
        raise ValueError(
            'The `data_format` argument must be one of "channels_first", "channels_last". '
            f"Received: {value}"
        )
    return str(data_format)


def layout_of(data_format: str, n: int) -> str:
    """Return the layout of n axes as ops spell it: "NHWC"."""
    axes = {1: "W", 2: "HW", 3: "DHW"}[n]
    return f"NC{axes}" if data_format == "channels_first" else f"N{axes}C"


def output_length(
    size: int | None, window: int, padding: str, stride: int, dilation: int = 1
) -> int | None:
    """Return the number of windows along an axis.

    None for an unknown size.
    """
    if size is None:
        return None
    reach = window + (window - 1) * (dilation - 1)
    found = size if padding in ("same", "causal") else size - reach + 1
    return (found + stride - 1) // stride


def transposed_length(size: Structure, window: int, padding: str, stride: int) -> Structure:
    """Return the size of an axis with `size` windows.

    It is a number or a tensor, as `size` is.
    """
    if size is None:
        return None
    beyond = max(window - stride, 0) if padding == "valid" else 0
    grown = size * stride
    return grown + beyond if beyond else grown
