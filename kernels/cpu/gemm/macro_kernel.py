"""Write the macro-kernels of matrix products and convolutions.

Both share argument words, chunks and the loops over tiles.
"""

from __future__ import annotations

from collections.abc import Sequence

from tfjit.kernels.cpu.gemm.micro_kernels import Tile
from tfjit.kernels.cpu.gemm.packing import PANEL_WORDS, flat
from tfjit.kernels.cpu.template.call_builder import CallBuilder
from tfjit.kernels.registry import Pointer
from tfjit.kernels.source import Source

_TILE_ARGUMENTS = (
    "a_tile, stride_a, part_table + offsets, segments, k, b_part, c_tile, stride_c, ncols, part"
)


def write_words(s: Source, *names: str) -> int:
    """Read argument words 2, 3, ... into variables.

    Returns the number of the next word.
    """
    for i, name in enumerate(names):
        s.line(f"{name} = word(args, {i + 2})")
    return len(names) + 2


def write_chunk_range(s: Source, units: str, first: str, last: str) -> None:
    """Define the half-open range first..last of `units` in this chunk.

    Larger and smaller chunks alternate: helpers claim from the other end than their caller, and
    both ends must weigh the same.
    """
    s.line(f"{first} = ({units}) * chunk // nchunks")
    s.line(f"{last} = ({units}) * (chunk + 1) // nchunks")


def write_chunk_bounds(s: Source, tile: Tile, units: str) -> None:
    """Define the work of this chunk.

    It is units unit..last_unit of the rows, or (share_columns) panels first_panel..last_panel of
    all rows. Also defines stride_c and the columns of those panels.
    """
    s.line(f"stride_c = columns * {tile.size}")
    s.line("unit = 0")
    s.line(f"last_unit = {units}")
    s.line("first_panel = 0")
    s.line("last_panel = panels")
    s.line("column_first = 0")
    s.line("column_last = columns")
    with s.block("if share_columns != 0:"):
        write_chunk_range(s, "panels", "first_panel", "last_panel")
        with s.block("if first_panel < last_panel:"):
            s.line(f"column_first = word(panel_table, first_panel * {PANEL_WORDS} + 3)")
            s.line(f"final = panel_table + (last_panel - 1) * {8 * PANEL_WORDS}")
            s.line("column_last = word(final, 3) + word(final, 4)")
        with s.block("else:"):
            s.line("last_unit = 0")
    with s.block("else:"):
        write_chunk_range(s, units, "unit", "last_unit")


def write_panels(s: Source) -> None:
    """Append the inner loops of a product.

    They are parts of the sum, panels, then tiles.
    Tiles tile_first..tile_last cover the rows. A part of those rows stays in the second-level cache
    while all panels pass over it.
    """
    with s.block("for part in range(parts):"):
        _write_part(s)
        with s.block("for p in range(last_panel - first_panel):"):
            _write_panel(s)
            s.line("b_part = b_panel + part_first * row_bytes")
            _write_tiles(s, "a_panel", "c_panel")


def write_panels_of_lines(s: Source) -> None:
    """Append the inner loops of a convolution.

    They are panels, parts of the sum, lines, then tiles.
    The rows come in `count` lines (output rows), a_line and c_line bytes apart. A panel passes over
    all of them while it is in cache.
    """
    with s.block("for p in range(last_panel - first_panel):"):
        _write_panel(s)
        with s.block("for part in range(parts):"):
            _write_part(s)
            s.line("b_part = b_panel + part_first * row_bytes")
            with s.block("for line in range(count):"):
                _write_tiles(s, "a_panel + line * a_line", "c_panel + line * c_line")


def _write_panel(s: Source) -> None:
    s.line(f"entry = panel_table + (first_panel + p) * {8 * PANEL_WORDS}")
    s.line("a_panel = a_at + word(entry, 0)")
    s.line("b_panel = b_at + word(entry, 1)")
    s.line("c_panel = c_at + word(entry, 2)")
    s.line("ncols = word(entry, 4)")
    s.line("row_bytes = word(entry, 5)")
    s.line("wide = word(entry, 7) != 0")
    s.line("tall_tile = tall_wide if wide else tall_narrow")
    s.line("low_tile = low_wide if wide else low_narrow")


def _write_part(s: Source) -> None:
    s.line("offsets = word(part_table, 4 * part)")
    s.line("segments = word(part_table, 4 * part + 1)")
    s.line("k = word(part_table, 4 * part + 2)")
    s.line("part_first = word(part_table, 4 * part + 3)")


def _write_tiles(s: Source, a: str, c: str) -> None:
    s.line(f"a_tile = {a}")
    s.line(f"c_tile = {c}")
    with s.block("for t in range(tile_first, tile_last):"):
        with s.block("if t < tall:"):
            s.line(f"call_tile(tall_tile, {_TILE_ARGUMENTS})")
            s.line("a_tile += height * row_stride")
            s.line("c_tile += height * stride_c")
        with s.block("else:"):
            s.line(f"call_tile(low_tile, {_TILE_ARGUMENTS})")
            s.line("a_tile += (height - 1) * row_stride")
            s.line("c_tile += (height - 1) * stride_c")


def part_table(
    call: CallBuilder,
    blocks: Sequence[tuple[int, int, int, int]],
    segment_offsets: Sequence[int],
    k: int,
    step: int,
    row_bytes: int = 0,
) -> Pointer:
    """Return the table of the parts of a sum, with segment offsets.

    Each part's segments follow as byte offsets in A. blocks: from `depth_blocks`. segment_offsets:
    of all segments. k: terms of a segment; step: bytes from one to the next. row_bytes: of B where
    it is read in place; it comes after the offsets.
    """
    rows: list[list[int]] = []
    offsets: list[int] = []
    for first, count, start, terms in blocks:
        rows.append([8 * (4 * len(blocks) + len(offsets)), count, terms, first * k + start])
        offsets += [segment_offsets[first + i] + start * step for i in range(count)] + [row_bytes]
    return call.table(flat(rows) + offsets)
