"""Combine windows channel by channel.

This macro-kernel serves depthwise convolution, pooling and the gradient of a depthwise input. No
padding is copied. An output position reads the taps that are inside the image. Positions with the
same taps form a class, and runs of neighbouring positions of one class are cut into tiles.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from tfjit.kernels.cpu.conv.window import Window
from tfjit.kernels.cpu.gemm.macro_kernel import write_chunk_range, write_words
from tfjit.kernels.cpu.gemm.micro_kernels import (
    CHANNELWISE_HEIGHT,
    ROW_TAPS,
    Tile,
    channelwise_tiles,
    cover,
)
from tfjit.kernels.cpu.template import cost_model
from tfjit.kernels.cpu.template.call_builder import CallBuilder
from tfjit.kernels.cpu.template.chunking import chunk_count
from tfjit.kernels.cpu.template.epilogue import EpilogueText, epilogue_ns, epilogue_words
from tfjit.kernels.registry import Launch, Pointer, TensorSpec, Word
from tfjit.kernels.source import KernelSource, Source

# size of a block of results that is still in the first-level cache when the epilogue reads it
_BLOCK_BYTES: Final = 32 << 10


RUN_WORDS: Final = 9
"""Integers of a row of the run table."""


@dataclass(frozen=True, slots=True)
class AxisMap:
    """Taps of each output position along an axis.

    starts: the input position of each output's first tap, which may be outside. taps: tuples of
    (position relative to the start, tap number).
    """

    starts: tuple[int, ...]
    taps: tuple[tuple[tuple[int, int], ...], ...]

    @property
    def classes(self) -> list[tuple[tuple[int, int], ...]]:
        """Return the distinct tap lists, in order of appearance."""
        return list(dict.fromkeys(self.taps))

    def runs(self) -> list[tuple[int, int, int, int, int]]:
        """Return runs that cover every position once.

        A run is (first position, positions, distance of positions, distance of starts, class).
        """
        found = []
        for number, taps in enumerate(self.classes):
            left = [i for i, own in enumerate(self.taps) if own == taps]
            while left:
                step, move = 1, 0
                count = 1
                if len(left) > 1:
                    step, move = left[1] - left[0], self.starts[left[1]] - self.starts[left[0]]
                    while (
                        count < len(left)
                        and left[count] - left[count - 1] == step
                        and self.starts[left[count]] - self.starts[left[count - 1]] == move
                    ):
                        count += 1
                found.append((left[0], count, step, move, number))
                left = left[count:]
        return sorted(found)


def forward_map(window: Window) -> AxisMap:
    """Return the inputs that each output of a window reads."""
    taps = []
    for position in range(window.out):
        first, last = window.taps(position)
        taps.append(tuple((t * window.dilation, t) for t in range(first, last)))
    return AxisMap(tuple(o * window.stride - window.before for o in range(window.out)), tuple(taps))


def backward_map(window: Window) -> AxisMap:
    """Return the outputs that each input position went into, with their taps."""
    starts, taps = [], []
    for position in range(window.length):
        start, phase = divmod(position + window.before, window.stride)
        own = []
        for t in range(window.size):
            away = t * window.dilation - phase
            if away % window.stride == 0 and 0 <= start - away // window.stride < window.out:
                own.append((-(away // window.stride), t))
        starts.append(start)
        # from left to right in memory, as the micro-kernels for rows of taps need them
        taps.append(tuple(reversed(own)))
    return AxisMap(tuple(starts), tuple(taps))


_WORDS: Final = (
    "units", "out_height", "block", "x", "image_bytes", "y_row_bytes", "channels", "w",
    "row_table", "runs", "run_table", "class_table", "out_width",
)  # fmt: skip


@functools.cache
def channelwise_source(tile: Tile, text: EpilogueText) -> KernelSource:
    """Write the macro-kernel: blocks of output rows, rows, runs, tiles.

    Runs are of columns, tiles of pixels; the epilogue follows over the block. A unit is an output
    row of one image. Words: those of _WORDS, two sets of micro-kernels, the epilogue's. Tables: row
    (x offset, first entry of the row's class), run (x offset, y offset, x step, y step, tiles,
    height, tall, class, first micro-kernel of its set), class (number of taps, byte offset of their
    list).
    """
    s = Source()
    s.line(f"# channelwise windows {tile.kind} {tile.isa}{text.title}")
    text.write_imports(s)
    s.line("from tfjit.kernels.cpu.gemm.micro_kernels_ir import call_channelwise")
    with s.block("def kernel(args, chunk, nchunks):"):
        tiles_at = write_words(s, *_WORDS)
        text.write_setup(s, tiles_at + 2 * CHANNELWISE_HEIGHT)
        write_chunk_range(s, "units", "unit", "last_unit")
        s.line("column_first = 0")
        s.line("column_last = columns")
        with s.block("while unit < last_unit:"):
            s.line("count = min(block, last_unit - unit)")
            s.line("row_first = unit * out_width")
            s.line("row_last = (unit + count) * out_width")
            text.write_block_start(s)
            with s.block("for line in range(count):"):
                s.line("image = (unit + line) // out_height")
                s.line("top = (unit + line) - image * out_height")
                s.line("x_row = x + image * image_bytes + word(row_table, 2 * top)")
                s.line("own_classes = word(row_table, 2 * top + 1)")
                s.line("y_row = c_at + line * y_row_bytes")
                with s.block("for run in range(runs):"):
                    s.line(f"entry = run_table + run * {8 * RUN_WORDS}")
                    s.line("x_at = x_row + word(entry, 0)")
                    s.line("y_at = y_row + word(entry, 1)")
                    s.line("x_step = word(entry, 2)")
                    s.line("y_step = word(entry, 3)")
                    s.line("height = word(entry, 5)")
                    s.line("tall = word(entry, 6)")
                    s.line("own = own_classes + word(entry, 7)")
                    s.line("ntaps = word(class_table, 2 * own)")
                    s.line("taps = class_table + word(class_table, 2 * own + 1)")
                    s.line(f"set = word(entry, 8) + {tiles_at - 1}")
                    s.line("kernel_at = word(args, set + height)")
                    with s.block("for t in range(word(entry, 4)):"):
                        with s.block("if t == tall:"):
                            s.line("height -= 1")
                            s.line("kernel_at = word(args, set + height)")
                        s.line(
                            "call_channelwise(kernel_at, x_at, x_step, taps, ntaps, w, y_at, "
                            "y_step, channels)"
                        )
                        s.line("x_at += height * x_step")
                        s.line("y_at += height * y_step")
            text.write_block(s)
            s.line("unit += count")
    return KernelSource(
        s.text(), title=f"channelwise windows{text.title} {tile.kind}", module=__name__
    )


def _is_row(taps: tuple[tuple[int, int], ...], move: int) -> bool:
    """Return whether a column class has ROW_TAPS neighbouring taps.

    They must be as far apart as the starts of a run's positions.
    """
    return len(taps) == ROW_TAPS and all(b[0] - a[0] == move for a, b in pairwise(taps))


def class_lists(
    maps: tuple[AxisMap, AxisMap], pitch: int, pixel: int, weight_columns: int = 1
) -> tuple[list[int], list[int]]:
    """Return the row table and the class table of `channelwise_source`.

    pitch, pixel: bytes of a row and a pixel of the input.
    """
    rows, cols = maps
    row_classes, col_classes = rows.classes, cols.classes
    lists = [
        [
            (dh * pitch + dw * pixel, (kh * weight_columns + kw) * pixel)
            for dh, kh in row_taps
            for dw, kw in col_taps
        ]
        for row_taps in row_classes
        for col_taps in col_classes
    ]
    starts = np.cumsum([0, *(16 * len(taps) for taps in lists)])
    class_table = [
        v for taps, start in zip(lists, starts) for v in (len(taps), 16 * len(lists) + int(start))
    ]
    class_table += [v for taps in lists for pair in taps for v in pair]
    row_table = [
        v
        for start, taps in zip(rows.starts, rows.taps)
        for v in (start * pitch, row_classes.index(taps) * len(col_classes))
    ]
    return row_table, class_table


def add_channelwise(
    call: CallBuilder,
    tile: Tile,
    op: str,
    text: EpilogueText,
    maps: tuple[AxisMap, AxisMap],
    batch: int,
    x_size: tuple[int, int],
    channels: int,
    x: Pointer,
    weights: Pointer | None,
    weight_columns: int = 1,
    operands: Sequence[tuple[Pointer, TensorSpec]] = (),
) -> None:
    """Add the launch.

    maps: of rows and columns. x_size: (height, width) of x in memory. weights: [taps, channels] for
    "fma". weight_columns: taps in a row of the weights.
    """
    rows, cols = maps
    size = tile.size
    pixel = channels * size
    pitch = x_size[1] * pixel
    out_height, out_width = len(rows.starts), len(cols.starts)
    row_table, class_table = class_lists(maps, pitch, pixel, weight_columns)
    run_table = []
    for first, count, step, move, number in cols.runs():
        tiles = cover(count, CHANNELWISE_HEIGHT)
        run_table += [
            cols.starts[first] * pixel,
            first * pixel,
            move * pixel,
            step * pixel,
            tiles.count,
            tiles.height,
            tiles.tall,
            number,
        ]
        run_table.append(
            CHANNELWISE_HEIGHT
            if op == "fma" and tiles.height > 2 and _is_row(cols.classes[number], move)
            else 0
        )
    units = batch * out_height
    row_bytes = out_width * pixel
    block = max(1, _BLOCK_BYTES // max(1, row_bytes)) if text.epilogue else max(1, units)
    terms = sum(len(r) for r in rows.taps) * sum(len(c) for c in cols.taps) * batch
    vectors = -(-channels // tile.lanes)
    tile_calls = units * sum(run_table[4::RUN_WORDS])
    cost = (
        cost_model.FIXED_NS
        + 0.4 * terms * vectors
        + 3.0 * tile_calls
        + epilogue_ns(text.epilogue, units * out_width * channels)
    )
    chunks = chunk_count(cost, units)
    source = channelwise_tiles(tile, op)
    words: tuple[Word, ...] = (
        *(units, out_height, block, x, x_size[0] * pitch, row_bytes, channels, weights or 0),
        *(
            call.table(row_table),
            len(run_table) // RUN_WORDS,
            call.table(run_table),
            call.table(class_table),
            out_width,
        ),
        *(
            Pointer("code", source=source, entry=entry)
            for entry in (source.entries * 2)[: 2 * CHANNELWISE_HEIGHT]
        ),
        *epilogue_words(
            call,
            text,
            operands,
            units * out_width,
            channels,
            True,
            (min(block, units) * row_bytes, chunks),
        ),
    )
    call.launch(Launch(channelwise_source(tile, text), words, chunks=chunks, cost_ns=cost))
