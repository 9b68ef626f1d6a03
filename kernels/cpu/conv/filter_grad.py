"""Build the gradient of a dense convolution's filter, NHWC.

It sums outer products of input pixels and gradient pixels; neither is packed.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Final

from tfjit.kernels.cpu.conv.window import Window
from tfjit.kernels.cpu.gemm.macro_kernel import write_words
from tfjit.kernels.cpu.gemm.micro_kernels import VECTORS, RowCover, Tile, cover
from tfjit.kernels.cpu.gemm.packing import plan_panels
from tfjit.kernels.cpu.template import cost_model
from tfjit.kernels.cpu.template.call_builder import CallBuilder
from tfjit.kernels.cpu.template.chunking import chunk_count
from tfjit.kernels.registry import Launch, Pointer, Word
from tfjit.kernels.source import KernelSource, Source

_MAX_TERMS: Final = 400
"""Pixels in one chain of FMAs.

A chain over all pixels of a batch has several times the error of TensorFlow's blocked sums.
"""
_MIN_ITEMS: Final = 16
"""Units of work that two and more threads share well.

A filter with fewer tiles is summed in parts.
"""
_TABLE_WORDS: Final = 6


@functools.cache
def outer_source(tile: Tile, height: int, vectors: int, masked: bool) -> KernelSource:
    """Write the micro-kernel of one size.

    Each size is compiled only where it is needed.
    """
    s = Source()
    s.line(
        f"# outer product tile {tile.kind} {tile.isa}, {height} x "
        f"{vectors * tile.lanes}{', some columns' if masked else ''}"
    )
    s.line("from tfjit.kernels.cpu.conv.outer_product_ir import outer_tile")
    s.line(
        f"emit = outer_tile({tile.kind!r}, {tile.lanes}, {height}, {vectors}, {masked}, "
        f"{tile.fused})"
    )
    names = (
        "x, x_image, x_row, x_step, y, y_image, y_row, y_step, images, rows, columns, c, "
        "stride_c, ncols, accumulate"
    )
    with s.block(f"def tile({names}):"):
        s.line(f"emit({names})")
    return KernelSource(
        s.text(),
        ("tile",),
        arity=15,
        title=f"outer product tile {tile.kind} {height} x {vectors * tile.lanes}",
        module=__name__,
    )


_WORDS: Final = (
    "items", "units", "parts", "blocks", "row_blocks", "block_images", "block_rows", "batch", "out_height",
    "tiles", "height", "tall", "panels", "panel_table", "tap_table",
    "x", "x_image", "x_row", "x_step", "dy", "dy_image", "dy_row", "dy_step", "target", "part_bytes", "stride_c",
    "tall_full", "low_full", "tall_tail", "low_tail",
)  # fmt: skip


@functools.cache
def filter_gradient_source(tile: Tile) -> KernelSource:
    """Write the macro-kernel: blocks of pixels, taps, row tiles, panels.

    A block of pixels stays in cache; panels are of columns. An item of work is a unit (one tile) in
    one part of the pixels; every part has a separate sum. Words: those of _WORDS. tap_table: rows
    (byte offset in x of output row 0 and the first valid column, first valid output row, last, byte
    offset of the first valid column in dy, valid columns, byte offset in the sum). panel_table:
    (byte offset in x, in a row of dy, columns, tail).
    """
    s = Source()
    s.line(f"# convolution filter gradient {tile.kind} {tile.isa}")
    s.line("from tfjit.kernels.codegen.intrinsics import word")
    s.line("from tfjit.kernels.cpu.conv.outer_product_ir import call_outer")
    with s.block("def kernel(args, chunk, nchunks):"):
        write_words(s, *_WORDS)
        s.line("item = items * chunk // nchunks")
        s.line("last_item = items * (chunk + 1) // nchunks")
        with s.block("while item < last_item:"):
            s.line("part = item // units")
            s.line("unit_first = item - part * units")
            s.line("unit_last = min(units, unit_first + last_item - item)")
            s.line("item += unit_last - unit_first")
            s.line("total = target + part * part_bytes")
            s.line("block_first = blocks * part // parts")
            with s.block("for block in range(blocks * (part + 1) // parts - block_first):"):
                s.line("stripe = (block_first + block) // row_blocks")
                s.line("image = stripe * block_images")
                s.line("images = min(block_images, batch - image)")
                s.line("row_first = ((block_first + block) - stripe * row_blocks) * block_rows")
                s.line("row_last = min(row_first + block_rows, out_height)")
                with s.block("for number in range(unit_last - unit_first):"):
                    s.line("line = (unit_first + number) // panels")
                    s.line("panel = panel_table + ((unit_first + number) - line * panels) * 32")
                    s.line("tap = line // tiles")
                    s.line("t = line - tap * tiles")
                    s.line(f"entry = tap_table + tap * {8 * _TABLE_WORDS}")
                    s.line("top = max(row_first, word(entry, 1))")
                    s.line("rows = max(0, min(row_last, word(entry, 2)) - top)")
                    s.line("row = t * height - max(0, t - tall)")
                    s.line(
                        "x_at = x + image * x_image + top * x_row + word(entry, 0) + word(panel, "
                        f"0) + row * {tile.size}"
                    )
                    s.line(
                        "dy_at = dy + image * dy_image + top * dy_row + word(entry, 3) + "
                        "word(panel, 1)"
                    )
                    s.line("c_at = total + word(entry, 5) + row * stride_c + word(panel, 1)")
                    with s.block("if word(panel, 3) == 0:"):
                        s.line("code = tall_full if t < tall else low_full")
                    with s.block("else:"):
                        s.line("code = tall_tail if t < tall else low_tail")
                    s.line(
                        "call_outer(code, x_at, x_image, x_row, x_step, dy_at, dy_image, dy_row, "
                        "dy_step, images, rows, "
                        "word(entry, 4), c_at, stride_c, word(panel, 2), block)"
                    )
    return KernelSource(s.text(), title=f"convolution filter gradient {tile.kind}", module=__name__)


@functools.cache
def sum_parts_source(kind: str) -> KernelSource:
    """Write the sum of successive arrays.

    Words: target, source, elements, parts, bytes from one part to the next.
    """
    s = Source()
    s.line(f"# sum of parts {kind}")
    s.line(f"from tfjit.kernels.codegen.intrinsics import ld, ld_out, ptr_{kind}, st_out, word")
    with s.block("def kernel(args, chunk, nchunks):"):
        s.line("n = word(args, 4)")
        s.line("first = n * chunk // nchunks")
        s.line("count = n * (chunk + 1) // nchunks - first")
        s.line(f"out = ptr_{kind}(word(args, 2) + first * {_SIZES[kind]})")
        s.line(f"start = word(args, 3) + first * {_SIZES[kind]}")
        s.line(f"source = ptr_{kind}(start)")
        with s.block("for i in range(count):"):
            s.line("st_out(out, i, ld(source, i), 0)")
        with s.block("for part in range(1, word(args, 5)):"):
            s.line(f"source = ptr_{kind}(start + part * word(args, 6))")
            with s.block("for i in range(count):"):
                s.line("st_out(out, i, ld_out(out, i, 0) + ld(source, i), 0)")
    return KernelSource(s.text(), title=f"sum of parts {kind}", module=__name__)


_SIZES: Final = {"f32": 4, "f64": 8}


@dataclass(frozen=True, slots=True)
class FilterGradSpec:
    """Sizes of a filter gradient.

    x: batch images of x_image bytes, rows of pitch bytes, pixels of `channels` elements; dy [batch,
    rows.out, cols.out, out_channels]. in_channels: of a group. padded: x holds every position that
    the windows read (which begins `before` earlier).
    """

    batch: int
    rows: Window
    cols: Window
    channels: int
    in_channels: int
    out_channels: int
    x_image: int
    pitch: int
    padded: bool


def joins_taps(tile: Tile, in_channels: int, channels: int, cols: Window) -> bool:
    """Return whether the taps of a filter row make one tile together.

    With few channels a single tap would leave most of a tile empty. Joined taps read all columns,
    so that x must be padded.
    """
    return in_channels == channels and cols.dilation == 1 and in_channels <= tile.height // 2


def valid_outputs(window: Window, tap: int) -> tuple[int, int]:
    """Return the half-open range of outputs with tap `tap` inside the input."""
    shift = tap * window.dilation - window.before
    first = max(0, -(shift // window.stride)) if shift < 0 else 0
    last = min(window.out, (window.length - 1 - shift) // window.stride + 1)
    return first, max(first, last)


def _taps(
    spec: FilterGradSpec, pixel: int, dy_pixel: int, row_bytes: int
) -> tuple[list[int], int, int]:
    """Return (tap table, number of taps in it, rows of one tap)."""
    rows, cols = spec.rows, spec.cols
    table = []
    joined = 1 if not spec.padded else cols.size
    for kh in range(rows.size):
        top, bottom = (0, rows.out) if spec.padded else valid_outputs(rows, kh)
        for kw in range(0, cols.size, joined):
            left, right = (0, cols.out) if spec.padded else valid_outputs(cols, kw)
            over, beside = (0, 0) if spec.padded else (rows.before, cols.before)
            place = (kh * rows.dilation - over) * spec.pitch + (
                left * cols.stride + kw * cols.dilation - beside
            ) * pixel
            table += [
                place,
                top,
                bottom,
                left * dy_pixel,
                right - left,
                (kh * cols.size + kw) * spec.in_channels * row_bytes,
            ]
    return table, len(table) // _TABLE_WORDS, joined * spec.in_channels


def add_filter_gradient(
    call: CallBuilder, tile: Tile, spec: FilterGradSpec, x: Pointer, dy: Pointer
) -> None:
    """Add the launches that sum output 0 [rows.size, cols.size, in_channels, out_channels]."""
    size = tile.size
    rows, cols = spec.rows, spec.cols
    pixel, dy_pixel = spec.channels * size, spec.out_channels * size
    tap_table, taps, height = _taps(spec, pixel, dy_pixel, dy_pixel)
    row_tiles = cover(height, tile.height)
    plan = plan_panels(tile, 1, spec.out_channels, spec.channels // spec.in_channels)
    panel_table = []
    for p in plan.panels:
        panel_table += [
            p.group * spec.in_channels * size,
            p.first_column * size,
            p.columns,
            int(p.columns < tile.columns),
        ]
    image_pixels = rows.out * cols.out
    block_images = max(1, _MAX_TERMS // image_pixels)
    block_rows = rows.out if image_pixels <= _MAX_TERMS else max(1, _MAX_TERMS // cols.out)
    row_blocks = -(-rows.out // block_rows)
    blocks = -(-spec.batch // block_images) * row_blocks
    units = taps * row_tiles.count * len(plan.panels)
    parts = min(blocks, -(-_MIN_ITEMS // units))
    nbytes = rows.size * cols.size * spec.in_channels * dy_pixel
    cost = cost_model.FIXED_NS + units * (
        blocks * 15.0 + 0.2 * spec.batch * image_pixels * row_tiles.height * VECTORS
    )
    words: tuple[Word, ...] = (
        *(
            units * parts,
            units,
            parts,
            blocks,
            row_blocks,
            block_images,
            block_rows,
            spec.batch,
            rows.out,
        ),
        *(
            row_tiles.count,
            row_tiles.height,
            row_tiles.tall,
            len(plan.panels),
            call.table(panel_table),
            call.table(tap_table),
        ),
        *(x, spec.x_image, rows.stride * spec.pitch, cols.stride * pixel),
        *(dy, image_pixels * dy_pixel, cols.out * dy_pixel, dy_pixel),
        *(call.temp(parts * nbytes) if parts > 1 else Pointer("out", 0), nbytes, dy_pixel),
        *_micro_kernels(tile, row_tiles, {p.columns for p in plan.panels}),
    )
    call.launch(
        Launch(
            filter_gradient_source(tile),
            words,
            chunks=chunk_count(cost, units * parts),
            cost_ns=cost,
        )
    )
    if parts > 1:
        place = words[_WORDS.index("target")]
        again = cost_model.FIXED_NS + 0.02 * nbytes * parts
        sums: tuple[Word, ...] = (Pointer("out", 0), place, nbytes // size, parts, nbytes)
        call.launch(
            Launch(
                sum_parts_source(tile.kind),
                sums,
                chunks=chunk_count(again, nbytes // 256 + 1),
                cost_ns=again,
            )
        )


def _micro_kernels(tile: Tile, rows: RowCover, widths: set[int]) -> tuple[Pointer, ...]:
    """Return addresses of the micro-kernels.

    They are tall and low for full panels, then for a narrower last one. Only those in use are
    named.
    """
    found: dict[bool, tuple[Pointer, ...]] = {}
    for width in sorted(widths):
        tail = width < tile.columns
        vectors = 1 if width <= tile.lanes else VECTORS
        tall = _entry(tile, rows.height, vectors, width % tile.lanes != 0)
        low = (
            _entry(tile, rows.height - 1, vectors, width % tile.lanes != 0)
            if rows.tall < rows.count
            else tall
        )
        found[tail] = (tall, low)
    return found.get(False, found.get(True, ())) + found.get(True, found.get(False, ()))


def _entry(tile: Tile, height: int, vectors: int, masked: bool) -> Pointer:
    return Pointer("code", source=outer_source(tile, height, vectors, masked), entry="tile")
