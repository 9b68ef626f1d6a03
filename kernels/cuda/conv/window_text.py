"""Write kernels that compute each channel of a window on its own.

A thread computes a few neighbouring elements of the result: channels of a position where channels
lie side by side, else one element. Forward kernels loop over the taps of a window. Gradients loop
over the windows that read an input, so that each element is written once and in one order.
"""

from __future__ import annotations

import functools
from typing import Final, Literal

import numpy as np

from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cuda.gemm.finish_text import Finish
from tfjit.kernels.cuda.gemm.product_text import write_header
from tfjit.kernels.cuda.gemm.tiles import accumulator
from tfjit.kernels.cuda.template import element_kinds
from tfjit.kernels.cuda.template.launches import source
from tfjit.kernels.source import KernelSource, Source

Op = Literal["fma", "max", "mean", "fma gradient", "max gradient", "mean gradient"]
WINDOW_WORDS: Final = (
    "rows", "columns", "own_channels", "multiplier", "own_height", "own_width",
    "height", "width", "taps_height", "taps_width", "row_stride", "column_stride", "row_dilation",
    "column_dilation", "row_before", "column_before",
)  # fmt: skip
"""Sizes of a kernel.

rows, columns: of the result as a matrix. own_*: of the result; height, width: of the other
images. multiplier: results of a depthwise convolution for each of its channels."""
_OPERANDS: Final[dict[Op, tuple[str, ...]]] = {
    "fma": ("source", "filter"), "max": ("source",), "mean": ("source",),
    "fma gradient": ("source", "filter"), "max gradient": ("image", "best", "source"),
    "mean gradient": ("source",),
}  # fmt: skip
"""Names of the inputs, which are addresses.

source: the other images; image: the pooled ones.
"""


def operand_count(op: Op) -> int:
    """Return the number of inputs of a kernel."""
    return len(_OPERANDS[op])


@functools.cache
def window_source(
    op: Op, vector: int, channels_last: bool, narrow: bool, finish: Finish
) -> KernelSource:
    """Write a kernel of windows.

    Words: WINDOW_WORDS, the addresses of the inputs, those of the finish. narrow: elements are
    counted in 32 bits.
    """
    dtype = finish.product
    words = (*WINDOW_WORDS, *(f"{name}_address" for name in _OPERANDS[op]), *finish.words)
    s = Source()
    layout = "channels last" if channels_last else "planes"
    write_header(s, f"windows: {op} {dtype.name} by {vector}, {layout}{finish.title}")
    divide = "div_u32" if narrow else "div_u64"
    with s.block(f"def kernel({', '.join(words)}):"):
        finish.write_setup(s)
        for name in _OPERANDS[op]:
            s.line(f"{name}_p = {element_kinds.pointer(dtype, f'{name}_address')}")
        s.line(f"runs = div_u64(columns + {vector - 1}, {vector})")
        s.line("number = unit()")
        with s.block("while number < rows * runs:"):
            s.line(f"line = {divide}(number, runs)")
            s.line(f"column = (number - line * runs) * {vector}")
            _write_place(s, channels_last, divide)
            for k in range(vector):
                s.line(f"s{k} = {accumulator(dtype).name}({_start(op, dtype)})")
            if "gradient" in op and op != "fma gradient":
                _write_windows(s, op, dtype, vector, channels_last)
            else:
                _write_taps(s, op, dtype, vector, channels_last)
            s.line("row = line")
            finish.write_run(s, [f"s{k}" for k in range(vector)])
            s.line("number += units()")
    return source(s.text(), len(words), f"{op} of windows {dtype.name}{finish.title}", __name__)


def lowest(dtype: DType) -> float:
    """Return the lowest finite number, which a maximum has to exceed."""
    if dtype.name == "bfloat16":
        import ml_dtypes

        return float(ml_dtypes.finfo(dtype.as_numpy_dtype).min)
    return float(np.finfo(dtype.as_numpy_dtype).min)


def _start(op: Op, dtype: DType) -> str:
    return repr(lowest(dtype)) if op == "max" else "0.0"


def _write_place(s: Source, channels_last: bool, divide: str) -> None:
    """Define image, place and channel of the thread's first element."""
    if channels_last:
        s.line("channel = column")
        s.line(f"number_of_row = {divide}(line, own_width)")
        s.line("own_column = line - number_of_row * own_width")
        s.line(f"own_image = {divide}(number_of_row, own_height)")
        s.line("own_row = number_of_row - own_image * own_height")
    else:
        s.line(f"own_image = {divide}(line, own_channels)")
        s.line("channel = line - own_image * own_channels")
        s.line(f"own_row = {divide}(column, own_width)")
        s.line("own_column = column - own_row * own_width")


def _index(
    channels_last: bool, image: str, channel: str, channels: str, size: tuple[str, str],
    place: tuple[str, str],
) -> str:  # fmt: skip
    """Return the index of an element of an image."""
    (height, width), (row, column) = size, place
    if channels_last:
        return f"(({image} * {height} + {row}) * {width} + {column}) * {channels} + {channel}"
    return f"(({image} * {channels} + {channel}) * {height} + {row}) * {width} + {column}"


def _load(s: Source, name: str, pointer: str, index: str, dtype: DType, vector: int) -> list[str]:
    """Load elements of an input; return the names of their values."""
    names = [f"{name}{k}" for k in range(vector)]
    function = "ld_ro" if vector == 1 else f"ld_ro_vec{vector}"
    s.line(f"{', '.join(f'm_{own}' for own in names)} = {function}({pointer}_p, {index})")
    for own in names:
        s.line(f"{own} = {expressions.loaded(dtype, f'm_{own}')}")
    return names


def _write_taps(s: Source, op: Op, dtype: DType, vector: int, channels_last: bool) -> None:
    """Loop over the taps that are inside the other images."""
    back = op == "fma gradient"
    if back:
        s.line("top = own_row + row_before")
        s.line("left = own_column + column_before")
        channels, channel = "own_channels * multiplier", "channel * multiplier + part"
    else:
        s.line("top = own_row * row_stride - row_before")
        s.line("left = own_column * column_stride - column_before")
        channels, channel = "div_u32(own_channels, multiplier)", "div_u32(channel, multiplier)"
    if op == "mean":
        s.line("count = 0")
    with s.block("for tap_row in range(taps_height):"):
        _write_tap_place(s, back, "y", "top", "row")
        with s.block("if y >= 0 and y < height:"), s.block("for tap_column in range(taps_width):"):
            _write_tap_place(s, back, "x", "left", "column")
            with s.block("if x >= 0 and x < width:"):
                filter_row = "(tap_row * taps_width + tap_column) * own_channels"
                at = _index(
                    channels_last, "own_image", channel, channels, ("height", "width"), ("y", "x")
                )
                if back:
                    with s.block("for part in range(multiplier):"):
                        values = _load(s, "v", "source", at, dtype, vector)
                        own = f"({filter_row} + channel) * multiplier + part"
                        weights = _load(s, "w", "filter", own, dtype, vector)
                        for k, (v, w) in enumerate(zip(values, weights)):
                            s.line(f"s{k} = fma({v}, {w}, s{k})")
                    return
                values = _load(s, "v", "source", at, dtype, vector)
                if op == "fma":
                    weights = _load(s, "w", "filter", f"{filter_row} + channel", dtype, vector)
                    for k, (v, w) in enumerate(zip(values, weights)):
                        s.line(f"s{k} = fma({v}, {w}, s{k})")
                elif op == "max":
                    for k, v in enumerate(values):
                        # NaN is never the largest
                        s.line(f"s{k} = select({v} > s{k}, {v}, s{k})")
                else:
                    for k, v in enumerate(values):
                        s.line(f"s{k} += {v}")
                    s.line("count += 1")
    if op == "mean":
        for k in range(vector):
            s.line(f"s{k} /= {accumulator(dtype).name}(count)")


def _write_tap_place(s: Source, back: bool, place: str, first: str, axis: str) -> None:
    """Define the place under a tap along one axis.

    It is -1 where there is none.
    """
    if not back:
        s.line(f"{place} = {first} + tap_{axis} * {axis}_dilation")
        return
    s.line(f"reach = {first} - tap_{axis} * {axis}_dilation")
    s.line(f"{place} = div_u32(max(reach, 0), {axis}_stride)")
    with s.block(f"if {place} * {axis}_stride != reach:"):
        s.line(f"{place} = -1")


def _write_windows(s: Source, op: Op, dtype: DType, vector: int, channels_last: bool) -> None:
    """Loop over the windows that read the thread's elements."""
    zero = f"{accumulator(dtype).name}(0.0)"
    own_size, own = ("own_height", "own_width"), ("own_row", "own_column")

    def image_index(place: tuple[str, str]) -> str:
        return _index(channels_last, "own_image", "channel", "own_channels", own_size, place)

    if op == "max gradient":
        mine = _load(s, "mine", "image", image_index(own), dtype, vector)
    for place, axis, size in (("y", "row", "height"), ("x", "column", "width")):
        s.line(f"reach = own_{axis} + {axis}_before")
        s.line(f"{place}_last = min(div_u32(reach, {axis}_stride) + 1, {size})")
        s.line(
            f"{place}_first = div_u32(max(reach - taps_{size} + {axis}_stride, 0), {axis}_stride)"
        )
    with (
        s.block("for y in range(y_first, y_last):"),
        s.block("for x in range(x_first, x_last):"),
    ):
        at = _index(
            channels_last, "own_image", "channel", "own_channels", ("height", "width"), ("y", "x")
        )
        s.line("top = y * row_stride - row_before")
        s.line("left = x * column_stride - column_before")
        given = _load(s, "g", "source", at, dtype, vector)
        if op == "mean gradient":
            s.line("down = min(top + taps_height, own_height) - max(top, 0)")
            s.line("across = min(left + taps_width, own_width) - max(left, 0)")
            for k, g in enumerate(given):
                s.line(f"s{k} += {g} / {accumulator(dtype).name}(down * across)")
            return
        best = _load(s, "b", "best", at, dtype, vector)
        least = f"{accumulator(dtype).name}({lowest(dtype)!r})"
        # A window without a number above the lowest gives its gradient to its first input.
        for k, (g, b) in enumerate(zip(given, best)):
            s.line(f"{g} = select({mine[k]} == {b}, {g}, select({b} <= {least}, {g}, {zero}))")
        s.line("earlier_row = max(top, 0)")
        s.line("earlier_column = max(left, 0)")
        with s.block("while earlier_row < own_row or earlier_column < own_column:"):
            earlier = _load(
                s, "e", "image", image_index(("earlier_row", "earlier_column")), dtype, vector
            )
            for g, b, e in zip(given, best, earlier):
                s.line(f"{g} = select({e} == {b}, {zero}, select({b} <= {least}, {zero}, {g}))")
            s.line("earlier_column += 1")
            with s.block(
                "if earlier_row < own_row and earlier_column == min(left + taps_width, own_width):"
            ):
                s.line("earlier_row += 1")
                s.line("earlier_column = max(left, 0)")
        for k, g in enumerate(given):
            s.line(f"s{k} += {g}")


__all__ = ["WINDOW_WORDS", "Op", "lowest", "operand_count", "window_source"]
