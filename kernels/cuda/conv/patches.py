"""Write the loads of operands that are patches of images.

A convolution is a product with a left operand that is never stored: a line is a position of the
window, a term is a channel under one of its taps. The index of a term follows from its number in
the loads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tfjit.framework.types.dtypes import DType
from tfjit.kernels.cpu.conv.window import Window
from tfjit.kernels.cuda.gemm.slabs import Along, Operand, Slab
from tfjit.kernels.registry import Pointer, Word
from tfjit.kernels.source import Source

_WINDOW_WORDS: Final = (
    "address", "channels", "taps_width", "height", "width", "row_dilation", "column_dilation",
    "grid_width", "grid_size", "row_stride", "column_stride", "row_before", "column_before",
    "image", "row", "pixel", "plane",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Axis:
    """One spatial axis of a convolution.

    Position o of its grid reads place o * stride - before + tap * dilation. length: of the image.
    taps, grid: their numbers. Unlike a `Window`, dilation and before may be negative.
    """

    length: int
    taps: int
    grid: int
    stride: int
    dilation: int
    before: int


def axis_of(window: Window) -> Axis:
    """Return the axis of a convolution's window."""
    return Axis(
        window.length, window.size, window.out, window.stride, window.dilation, window.before
    )


@dataclass(frozen=True, slots=True)
class ImageLayout:
    """Elements between images, rows, pixels and channels."""

    image: int
    row: int
    pixel: int
    plane: int


def image_layout(height: int, width: int, channels: int, channels_last: bool = True) -> ImageLayout:
    """Return the layout of contiguous images, NHWC or NCHW."""
    whole = height * width * channels
    if channels_last:
        return ImageLayout(whole, width * channels, channels, 1)
    return ImageLayout(whole, width, 1, height * width)


def window_words(
    address: Pointer, rows: Axis, columns: Axis, channels: int, layout: ImageLayout
) -> tuple[Word, ...]:
    """Return the words of the operands of this module that read images."""
    return (
        *(address, max(1, channels), max(1, columns.taps), rows.length, columns.length),
        *(rows.dilation, columns.dilation, columns.grid, rows.grid * columns.grid),
        *(rows.stride, columns.stride, rows.before, columns.before),
        *(layout.image, layout.row, layout.pixel, layout.plane),
    )


def _write_position(s: Source, slab: Slab, number: str, result: str) -> None:
    """Define image, row and column of position `number` of the grid."""
    name = slab.name
    s.line(f"{result}_image = div_u32({number}, {name('grid_size')})")
    s.line(f"rest = {number} - {result}_image * {name('grid_size')}")
    s.line(f"{result}_row = div_u32(rest, {name('grid_width')})")
    s.line(f"{result}_column = rest - {result}_row * {name('grid_width')}")


def _write_tap(s: Source, slab: Slab, number: str) -> None:
    """Define channel, tap row and tap column of term `number`."""
    name = slab.name
    s.line(f"tap = div_u32({number}, {name('channels')})")
    s.line(f"{name('c')} = {number} - tap * {name('channels')}")
    s.line(f"{name('tap_row')} = div_u32(tap, {name('taps_width')})")
    s.line(f"{name('tap_column')} = tap - {name('tap_row')} * {name('taps_width')}")


class _Taps(Operand):
    """An operand with the channels under each tap as terms.

    Channels lie side by side. stepwise: a slab holds terms of two taps at most, so that the place
    is moved on without a division.
    """

    stepwise: bool

    def _write_first_tap(self, s: Source, slab: Slab) -> None:
        if self.stepwise:
            _write_tap(s, slab, f"(depth_first + {slab.name('lane')})")

    def _write_slab_tap(self, s: Source, slab: Slab) -> None:
        if not self.stepwise:
            _write_tap(s, slab, f"(depth_at + {slab.name('lane')})")

    def write_slab_end(self, s: Source, slab: Slab) -> None:
        """Move on to the place of the next slab."""
        if not self.stepwise:
            return
        name = slab.name
        s.line(f"{name('c')} += {slab.depth}")
        with s.block(f"if {name('c')} >= {name('channels')}:"):
            s.line(f"{name('c')} -= {name('channels')}")
            s.line(f"{name('tap_column')} += 1")
            with s.block(f"if {name('tap_column')} == {name('taps_width')}:"):
                s.line(f"{name('tap_column')} = 0")
                s.line(f"{name('tap_row')} += 1")


@dataclass(frozen=True, slots=True)
class PatchRows(_Taps):
    """Patches as rows, with channels side by side.

    A line is a position; positions of all images are counted.
    """

    dtype: DType
    vector: int
    stepwise: bool
    along: Along = "depth"

    @property
    def words(self) -> tuple[str, ...]:
        """Return the names of `window_words`."""
        return _WINDOW_WORDS

    @property
    def title(self) -> str:
        """Return the form, for the opening comment."""
        return f"patches by {self.vector}{' stepwise' if self.stepwise else ''}"

    def write_setup(self, s: Source, slab: Slab) -> None:
        """Write first place and limit of each line."""
        name = slab.name
        for k in range(slab.loads):
            s.line(f"line = {name('first')} + {name('across')} + {k * slab.step}")
            s.line(f"{name('limit')}{k} = depth_last if line < {name('lines')} else 0")
            _write_position(s, slab, "line", "at")
            s.line(f"{name('top')}{k} = at_row * {name('row_stride')} - {name('row_before')}")
            s.line(
                f"{name('left')}{k} = at_column * {name('column_stride')} - {name('column_before')}"
            )
            s.line(
                f"{name('i')}{k} = at_image * {name('image')} + {name('top')}{k} * {name('row')} + "
                f"{name('left')}{k} * {name('pixel')}"
            )
        self._write_first_tap(s, slab)

    def write_slab_start(self, s: Source, slab: Slab) -> None:
        """Write the tap's distance from the first place."""
        name = slab.name
        self._write_slab_tap(s, slab)
        s.line(f"{name('down')} = {name('tap_row')} * {name('row_dilation')}")
        s.line(f"{name('right')} = {name('tap_column')} * {name('column_dilation')}")
        s.line(
            f"{name('shift')} = {name('down')} * {name('row')} + {name('right')} * {name('pixel')} "
            f"+ {name('c')} * {name('plane')}"
        )

    def write_load(self, s: Source, slab: Slab, number: int) -> tuple[str, str]:
        """Return one load."""
        name, k = slab.name, number
        return "ld_inside", (
            f"{name('i')}{k} + {name('shift')}, depth_at + {name('lane')}, {name('limit')}{k}, "
            f"{name('top')}{k} + {name('down')}, {name('height')}, "
            f"{name('left')}{k} + {name('right')}, {name('width')}"
        )


@dataclass(frozen=True, slots=True)
class FilterTaps(_Taps):
    """A filter with channels as lines.

    A term is a channel of the other side under a tap.
    """

    dtype: DType
    vector: int
    stepwise: bool
    along: Along = "depth"

    @property
    def words(self) -> tuple[str, ...]:
        """Return address, terms of a tap, taps of a row, and elements.

        These lead to the first tap, to the next row of taps, to the next tap, to the next line.
        """
        return ("address", "channels", "taps_width", "start", "row", "column", "step")

    @property
    def title(self) -> str:
        """Return the form, for the opening comment."""
        return f"taps by {self.vector}{' stepwise' if self.stepwise else ''}"

    def write_setup(self, s: Source, slab: Slab) -> None:
        """Write place and limit of each line."""
        name = slab.name
        for k in range(slab.loads):
            s.line(f"line = {name('first')} + {name('across')} + {k * slab.step}")
            s.line(f"{name('limit')}{k} = depth_last if line < {name('lines')} else 0")
            s.line(f"{name('i')}{k} = {name('start')} + line * {name('step')}")
        self._write_first_tap(s, slab)

    def write_slab_start(self, s: Source, slab: Slab) -> None:
        """Write the tap's distance from the first."""
        name = slab.name
        self._write_slab_tap(s, slab)
        s.line(
            f"{name('shift')} = {name('tap_row')} * {name('row')} + "
            f"{name('tap_column')} * {name('column')} + {name('c')}"
        )

    def write_load(self, s: Source, slab: Slab, number: int) -> tuple[str, str]:
        """Return one load."""
        name, k = slab.name, number
        return "ld_below", (
            f"{name('i')}{k} + {name('shift')}, depth_at + {name('lane')}, {name('limit')}{k}"
        )


@dataclass(frozen=True, slots=True)
class PatchColumns(Operand):
    """Patches as columns.

    A line is a channel under a tap, a term a position; positions of all images are counted.
    """

    dtype: DType
    vector: int
    along: Along = "extent"

    @property
    def words(self) -> tuple[str, ...]:
        """Return the names of `window_words`."""
        return _WINDOW_WORDS

    @property
    def title(self) -> str:
        """Return the form, for the opening comment."""
        return f"transposed patches by {self.vector}"

    def write_setup(self, s: Source, slab: Slab) -> None:
        """Write the place of the lines under their tap."""
        name = slab.name
        s.line(f"line = {name('first')} + {name('lane')}")
        s.line(f"{name('limit')} = depth_last if line < {name('lines')} else 0")
        _write_tap(s, slab, "line")
        s.line(f"{name('top')} = {name('tap_row')} * {name('row_dilation')} - {name('row_before')}")
        s.line(
            f"{name('left')} = {name('tap_column')} * {name('column_dilation')} - "
            f"{name('column_before')}"
        )
        s.line(
            f"{name('i')} = {name('top')} * {name('row')} + {name('left')} * {name('pixel')} + "
            f"{name('c')} * {name('plane')}"
        )

    def write_load(self, s: Source, slab: Slab, number: int) -> tuple[str, str]:
        """Return one load, behind the lines that find its position."""
        name = slab.name
        s.line(f"term = depth_at + {name('across')} + {number * slab.step}")
        _write_position(s, slab, "term", "at")
        s.line(f"at_row *= {name('row_stride')}")
        s.line(f"at_column *= {name('column_stride')}")
        return "ld_inside", (
            f"{name('i')} + at_image * {name('image')} + at_row * {name('row')} + "
            f"at_column * {name('pixel')}, term, {name('limit')}, at_row + {name('top')}, "
            f"{name('height')}, at_column + {name('left')}, {name('width')}"
        )


@dataclass(frozen=True, slots=True)
class PlanePatches(Operand):
    """Patches of images with planes of channels.

    A line is a position of one image. A matrix of the batch is an image; neighbouring lines are
    neighbouring pixels.
    """

    dtype: DType
    vector: int = 1
    along: Along = "extent"

    @property
    def words(self) -> tuple[str, ...]:
        """Return the names of `window_words`."""
        return _WINDOW_WORDS

    @property
    def title(self) -> str:
        """Return the form, for the opening comment."""
        return "patches of planes"

    def write_setup(self, s: Source, slab: Slab) -> None:
        """Write the first place of the line."""
        name = slab.name
        s.line(f"line = {name('first')} + {name('lane')}")
        s.line(f"{name('limit')} = depth_last if line < {name('lines')} else 0")
        _write_position(s, slab, "line", "at")
        s.line(f"{name('top')} = at_row * {name('row_stride')} - {name('row_before')}")
        s.line(f"{name('left')} = at_column * {name('column_stride')} - {name('column_before')}")
        s.line(
            f"{name('i')} = matrix * {name('image')} + {name('top')} * {name('row')} + "
            f"{name('left')} * {name('pixel')}"
        )

    def write_load(self, s: Source, slab: Slab, number: int) -> tuple[str, str]:
        """Return one load, behind the lines that find its tap."""
        name = slab.name
        s.line(f"term = depth_at + {name('across')} + {number * slab.step}")
        _write_tap(s, slab, "term")
        s.line(f"{name('down')} = {name('tap_row')} * {name('row_dilation')}")
        s.line(f"{name('right')} = {name('tap_column')} * {name('column_dilation')}")
        return "ld_inside", (
            f"{name('i')} + {name('down')} * {name('row')} + {name('right')} * {name('pixel')} + "
            f"{name('c')} * {name('plane')}, term, {name('limit')}, "
            f"{name('top')} + {name('down')}, {name('height')}, "
            f"{name('left')} + {name('right')}, {name('width')}"
        )


__all__ = [
    "Axis", "FilterTaps", "ImageLayout", "PatchColumns", "PatchRows", "PlanePatches", "axis_of",
    "image_layout", "window_words",
]  # fmt: skip
