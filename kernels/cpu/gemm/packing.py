"""Lay out the second operand of a matrix product in panels.

Panels are in the micro-kernels' order; they are packed while planning or at run time.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from tfjit.kernels.codegen import transpose_text
from tfjit.kernels.cpu.gemm.micro_kernels import (
    DOT_HEIGHT,
    IN_PLACE_HEIGHT,
    IN_PLACE_VECTORS,
    VECTORS,
    RowCover,
    Tile,
    dot_tiles,
    in_place_tiles,
    matmul_tiles,
)
from tfjit.kernels.cpu.template import cost_model
from tfjit.kernels.cpu.template.call_builder import CallBuilder, aligned_empty
from tfjit.kernels.cpu.template.chunking import chunk_count
from tfjit.kernels.ir.symbolic_size import at_most, minimum, word_table
from tfjit.kernels.registry import Launch, Pointer
from tfjit.kernels.source import KernelSource, Source

PANEL_WORDS: Final = 8
"""Integers of a row of the panel table.

They are a_offset, b_offset, c_offset, first_column, columns, row_bytes, group, wide.
"""


_DOT_COLUMNS: Final = 3  # from four columns on, wasted lanes cost less than reading A once a column


@dataclass(frozen=True, slots=True)
class Panel:
    """`columns` neighbouring columns of B, packed as [depth][1 or VECTORS vectors].

    group: of a grouped convolution.
    """

    first_column: int
    columns: int
    vectors: int
    group: int = 0


@dataclass(frozen=True, slots=True)
class PanelPlan:
    """The panels of one matrix B [depth, columns], one after the other.

    Each group's columns begin a new panel. form: "panels"; "dots": every panel is a single column,
    contiguous, for the dot product tiles; "in place": B is not packed.
    """

    tile: Tile
    depth: int
    panels: tuple[Panel, ...]
    form: Literal["panels", "dots", "in place"] = "panels"

    def row_width(self, panel: Panel) -> int:
        """Return the elements of one packed row."""
        if self.form == "in place":
            return self.panels[-1].first_column + self.panels[-1].columns
        return 1 if self.form == "dots" else panel.vectors * self.tile.lanes

    def row_bytes(self, panel: Panel) -> int:
        """Return the bytes of one packed row."""
        return self.row_width(panel) * self.tile.size

    @property
    def max_height(self) -> int:
        """Return the rows of the largest micro-kernel for these panels."""
        return {"panels": self.tile.height, "dots": DOT_HEIGHT, "in place": IN_PLACE_HEIGHT}[
            self.form
        ]

    def micro_kernels(self, cover: RowCover, transposed: bool = False) -> tuple[Pointer, ...]:
        """Return the addresses of the micro-kernels.

        They are tall and low for full panels, then for narrow ones.
        """
        if self.form == "dots":
            return cover.pointers(dot_tiles(self.tile), 1) * 2
        if self.form == "in place":
            wide, narrow = (
                cover.pointers(in_place_tiles(self.tile), vectors) for vectors in IN_PLACE_VECTORS
            )
            return wide + narrow
        # the kernel must not wait for tiles of a width that no panel has
        widths = {panel.vectors for panel in self.panels}
        found = {
            vectors: cover.pointers(matmul_tiles(self.tile, vectors, transposed), vectors)
            for vectors in widths
        }
        return found.get(VECTORS, found.get(1, ())) + found.get(1, found.get(VECTORS, ()))

    @property
    def starts(self) -> list[int]:
        """Return the byte offset of each panel.

        Where B is packed the last entry is the total size.
        """
        if self.form == "in place":
            return [panel.first_column * self.tile.size for panel in self.panels]
        found = [0]
        for panel in self.panels:
            found.append(found[-1] + self.depth * self.row_bytes(panel))
        return found

    @property
    def nbytes(self) -> int:
        """Return the bytes of the packed matrix, a multiple of 64."""
        return -(-self.starts[-1] // 64) * 64

    @property
    def vector_columns(self) -> int:
        """Return the number of vectors side by side in all panels.

        The number of FMAs grows with it.
        """
        return sum(1 if self.form == "dots" else panel.vectors for panel in self.panels)

    def table(self, group_bytes: int = 0) -> np.ndarray:
        """Return the panel table [panels, PANEL_WORDS].

        group_bytes: distance of two groups' channels in A.
        """
        size = self.tile.size
        full = IN_PLACE_VECTORS[0] if self.form == "in place" else VECTORS
        rows = [
            (
                p.group * group_bytes,
                start,
                p.first_column * size,
                p.first_column,
                p.columns,
                self.row_bytes(p),
                p.group,
                int(p.vectors == full),
            )
            for p, start in zip(self.panels, self.starts)
        ]
        return word_table(rows).reshape(-1, PANEL_WORDS)

    def pack(self, matrix: np.ndarray) -> np.ndarray:
        """Pack B [depth, columns] now; missing columns are zero."""
        out = aligned_empty((self.nbytes // self.tile.size,), matrix.dtype)
        out[...] = 0
        for panel, start in zip(self.panels, self.starts):
            at = start // self.tile.size
            width = self.row_width(panel)
            block = out[at : at + self.depth * width].reshape(self.depth, width)
            block[:, : panel.columns] = matrix[
                :, panel.first_column : panel.first_column + panel.columns
            ]
        return out


def plan_panels(
    tile: Tile, depth: int, columns: int, groups: int = 1, dots: bool = False
) -> PanelPlan:
    """Cut columns into panels of a full tile's width.

    A last panel that fits in one vector is half as wide. dots: a few columns may become single ones
    for the dot product tiles, as A's terms are contiguous.
    """
    share = columns // groups
    if dots and groups == 1 and columns <= _DOT_COLUMNS and depth >= tile.lanes:
        return PanelPlan(
            tile, depth, tuple(Panel(column, 1, 1) for column in range(columns)), "dots"
        )
    panels = []
    for group in range(groups):
        for number in range(-(-share // tile.columns)):
            first = number * tile.columns
            width = min(tile.columns, share - first)
            panels.append(
                Panel(
                    group * share + first,
                    width,
                    1 if at_most(width) <= tile.lanes else VECTORS,
                    group,
                )
            )
    return PanelPlan(tile, depth, tuple(panels))


def plan_in_place(tile: Tile, depth: int, columns: int) -> PanelPlan:
    """Cut a B that is read in place, row-major, into panels.

    They are wide as long as they are full, then narrow.
    """
    wide, narrow = (vectors * tile.lanes for vectors in IN_PLACE_VECTORS)
    panels = []
    first = 0
    while first < columns:
        full = columns - first >= wide
        width = wide if full else min(narrow, columns - first)
        panels.append(Panel(first, width, IN_PLACE_VECTORS[0 if full else 1]))
        first += width
    return PanelPlan(tile, depth, tuple(panels), "in place")


@dataclass(frozen=True, slots=True)
class MatrixLayout:
    """The strides of B's elements.

    Element (s * k + q, column) is at byte start + s * segment_stride + q * row_stride + column *
    column_stride. `matrices` such matrices are matrix_bytes apart. group_shift: added for every
    group before a column's.
    """

    segments: int
    segment_stride: int
    k: int
    row_stride: int
    column_stride: int
    start: int = 0
    matrices: int = 1
    matrix_bytes: int = 0
    group_shift: int = 0


_WORDS: Final = (
    "matrices", "panels", "table", "source", "matrix_bytes", "target", "packed_bytes",
    "segments", "segment_stride", "k", "row_stride", "column_stride", "group_shift",
)  # fmt: skip


@functools.cache
def pack_source(tile: Tile) -> KernelSource:
    """Write the packing of matrices with non-contiguous rows.

    A unit of work is one panel. Words: those of _WORDS.
    """
    s = Source()
    s.line(f"# pack panels {tile.kind} {tile.isa}, {tile.columns} columns")
    s.line(
        f"from tfjit.kernels.codegen.intrinsics import fill_bytes, ld_any, ptr_{tile.kind}, "
        "st_any, word"
    )
    s.line("from tfjit.kernels.cpu.gemm.column_ir import transpose_block")
    s.line(f"turn = transpose_block({tile.kind!r}, {tile.lanes})")
    with s.block("def kernel(args, chunk, nchunks):"):
        for i, name in enumerate(_WORDS):
            s.line(f"{name} = word(args, {i + 2})")
        s.line("units = matrices * panels")
        s.line("first = units * chunk // nchunks")
        with s.block("for unit in range(units * (chunk + 1) // nchunks - first):"):
            s.line("matrix = (first + unit) // panels")
            s.line("panel = (first + unit) - matrix * panels")
            s.line(f"entry = table + panel * {8 * PANEL_WORDS}")
            s.line("out = target + matrix * packed_bytes + word(entry, 1)")
            s.line("columns = word(entry, 4)")
            s.line("row_bytes = word(entry, 5)")
            s.line(
                "start = source + matrix * matrix_bytes + word(entry, 3) * column_stride + "
                "word(entry, 6) * group_shift"
            )
            with s.block("for segment in range(segments):"):
                s.line("at = start + segment * segment_stride")
                with s.block(f"if row_stride == {tile.size} and row_bytes != {tile.size}:"):
                    write_transposed_panel(
                        s, tile, "at", "column_stride", "columns", "k", "out", "row_bytes"
                    )
                with s.block("else:"):
                    with s.block(f"if columns * {tile.size} != row_bytes:"):
                        s.line("fill_bytes(out, 0, k * row_bytes)")
                    # a block of rows at a time, so that the lines written stay in the first-level
                    # cache
                    s.line("q0 = 0")
                    with s.block("while q0 < k:"):
                        s.line("count = min(k - q0, 128)")
                        with s.block("for column in range(columns):"):
                            s.line(
                                f"from_p = ptr_{tile.kind}(at + q0 * row_stride + column * "
                                "column_stride)"
                            )
                            s.line(
                                f"to_p = ptr_{tile.kind}(out + q0 * row_bytes + column * "
                                f"{tile.size})"
                            )
                            s.line(f"step = row_stride // {tile.size}")
                            s.line(f"width = row_bytes // {tile.size}")
                            with s.block("for q in range(count):"):
                                s.line("st_any(to_p, q * width, ld_any(from_p, q * step))")
                        s.line("q0 += count")
                s.line("out += k * row_bytes")
    return KernelSource(s.text(), title=f"pack panels {tile.kind}", module=__name__)


_ROWS: Final = 32  # least number of B's rows that a chunk packs


@functools.cache
def pack_rows_source(tile: Tile) -> KernelSource:
    """Write the packing of matrices row by row, in memory order.

    A unit of work is _ROWS rows. Words: those of _WORDS.
    """
    s = Source()
    s.line(f"# pack rows {tile.kind} {tile.isa}, {tile.columns} columns")
    s.line("from tfjit.kernels.codegen.intrinsics import word")
    s.line("from tfjit.kernels.cpu.gemm.micro_kernels_ir import copy_row")
    s.line(f"copy_wide = copy_row({tile.kind!r}, {tile.lanes}, {VECTORS})")
    s.line(f"copy_narrow = copy_row({tile.kind!r}, {tile.lanes}, 1)")
    with s.block("def kernel(args, chunk, nchunks):"):
        for i, name in enumerate(_WORDS):
            s.line(f"{name} = word(args, {i + 2})")
        s.line("depth = segments * k")
        s.line(f"blocks = (depth + {_ROWS - 1}) // {_ROWS}")
        s.line("units = matrices * blocks")
        s.line("first = units * chunk // nchunks")
        with s.block("for unit in range(units * (chunk + 1) // nchunks - first):"):
            s.line("matrix = (first + unit) // blocks")
            s.line(f"row_first = (first + unit - matrix * blocks) * {_ROWS}")
            s.line("start = source + matrix * matrix_bytes")
            s.line("out = target + matrix * packed_bytes")
            with s.block(f"for i in range(min({_ROWS}, depth - row_first)):"):
                s.line("row = row_first + i")
                s.line("segment = row // k")
                s.line("at = start + segment * segment_stride + (row - segment * k) * row_stride")
                with s.block("for p in range(panels):"):
                    s.line(f"entry = table + p * {8 * PANEL_WORDS}")
                    s.line("row_bytes = word(entry, 5)")
                    s.line("to = out + word(entry, 1) + row * row_bytes")
                    s.line(
                        f"lies = at + word(entry, 3) * {tile.size} + word(entry, 6) * group_shift"
                    )
                    with s.block(f"if row_bytes == {tile.columns * tile.size}:"):
                        s.line("copy_wide(to, lies, word(entry, 4))")
                    with s.block("else:"):
                        s.line("copy_narrow(to, lies, word(entry, 4))")
    return KernelSource(s.text(), title=f"pack rows {tile.kind}", module=__name__)


def write_transposed_panel(
    s: Source,
    tile: Tile,
    source: str,
    stride: str,
    rows: str,
    columns: str,
    target: str,
    row_bytes: str,
) -> None:
    """Append the transposed packing of rows into panel columns.

    `rows` rows of `columns` elements, `stride` bytes apart, become the columns of a packed panel of
    `row_bytes`, whose other columns become zero. `turn` is transpose_block.
    """
    # a strip of the panel at a time: its lines are whole when the next strip comes
    s.line("q0 = 0")
    with s.block(f"while q0 < {columns}:"):
        s.line("r0 = 0")
        with s.block(f"while r0 * {tile.size} < {row_bytes}:"):
            place = f"{target} + q0 * {row_bytes} + r0 * {tile.size}"
            counts = f"{rows} - r0, min({columns} - q0, {tile.lanes}), {tile.lanes}"
            s.line(
                f"turn({source} + r0 * {stride} + q0 * {tile.size}, {stride}, {place}, "
                f"{row_bytes}, {counts})"
            )
            s.line(f"r0 += {tile.lanes}")
        s.line(f"q0 += {tile.lanes}")


def pack_at_run_time(
    call: CallBuilder, plan: PanelPlan, table: Pointer, source: Pointer, layout: MatrixLayout
) -> Pointer:
    """Add the launch that packs B; return the packed matrix's address."""
    target = call.temp(plan.nbytes * layout.matrices)
    start = Pointer(source.kind, source.index, source.offset + layout.start)
    elements = layout.matrices * plan.depth * sum(p.columns for p in plan.panels)
    by_rows = layout.column_stride == plan.tile.size and plan.form == "panels"
    cost = cost_model.FIXED_NS + elements * (0.1 if by_rows else 0.2)
    units = layout.matrices * (-(-plan.depth // _ROWS) if by_rows else len(plan.panels))
    words = (
        *(
            layout.matrices,
            len(plan.panels),
            table,
            start,
            layout.matrix_bytes,
            target,
            plan.nbytes,
        ),
        *(
            layout.segments,
            layout.segment_stride,
            layout.k,
            layout.row_stride,
            layout.column_stride,
            layout.group_shift,
        ),
    )
    text = pack_rows_source(plan.tile) if by_rows else pack_source(plan.tile)
    chunks = chunk_count(cost, units)
    call.launch(Launch(text, words, chunks=chunks, cost_ns=cost, fills=target.index))
    return target


_AREA: Final = 64  # columns and rows of A that are transposed at a time


@functools.cache
def transpose_source(size: int) -> KernelSource:
    """Write the transpose of a matrix.

    A unit of work is _AREA columns of the source. Words: source, bytes from row to row of the
    source, rows, columns, target, bytes from row to row of the target.
    """
    s = Source()
    s.line(f"# transpose, {size} bytes an element")
    s.line("from tfjit.kernels.codegen.intrinsics import word")
    s.line(transpose_text.IMPORT)
    with s.block("def kernel(args, chunk, nchunks):"):
        names = ("source", "source_step", "rows", "columns", "target", "target_step")
        for i, name in enumerate(names):
            s.line(f"{name} = word(args, {i + 2})")
        s.line(f"units = (columns + {_AREA - 1}) // {_AREA}")
        s.line("first = units * chunk // nchunks")
        with s.block("for unit in range(units * (chunk + 1) // nchunks - first):"):
            s.line(f"column = (first + unit) * {_AREA}")
            s.line(f"width = min({_AREA}, columns - column)")
            with s.block(f"for area in range((rows + {_AREA - 1}) // {_AREA}):"):
                s.line(f"row = area * {_AREA}")
                s.line(f"count = min({_AREA}, rows - row)")
                s.line(f"to = target + column * target_step + row * {size}")
                s.line(f"of = source + row * source_step + column * {size}")
                transpose_text.write_transpose(
                    s, size, "to", "target_step", "of", "source_step", "width", "count"
                )
    return KernelSource(s.text(), title=f"transpose {8 * size} bits", module=__name__)


def transpose_at_run_time(
    call: CallBuilder, source: Pointer, rows: int, columns: int, size: int
) -> tuple[Pointer, int]:
    """Add the launch that transposes a matrix.

    Return the address of the transpose and the bytes from row to row. Its rows lie apart by an odd
    number of cache lines, so that equal columns of several rows share the first-level cache.
    """
    lines = -(-rows * size // 64)
    step = 64 * (lines + 1 - lines % 2)
    target = call.temp(columns * step)
    cost = cost_model.FIXED_NS + 0.3 * rows * columns
    words = (source, columns * size, rows, columns, target, step)
    chunks = chunk_count(cost, -(-columns // _AREA))
    source_text = transpose_source(size)
    call.launch(Launch(source_text, words, chunks=chunks, cost_ns=cost, fills=target.index))
    return target, step


def depth_blocks(segments: int, k: int, limit: int = 384) -> list[tuple[int, int, int, int]]:
    """Cut a sum over segments x k terms into parts.

    The parts are added up in C. Returns (first segment, segments, first term, terms) of each. One
    chain of FMAs over thousands of terms has twice the error of TensorFlow's blocked sums.
    """
    if segments == 1:
        count = max(1, -(-at_most(k) // limit))
        step = -(-k // count)
        step += -step % 4
        blocks = count
        while blocks > 1 and (blocks - 1) * step >= k:
            blocks -= 1
        return [(0, 1, i * step, minimum(step, k - i * step)) for i in range(blocks)]
    group = max(1, limit // max(k, 1))
    if segments <= group:
        return [(0, segments, 0, k)]
    count = -(-segments // group)
    group = -(-segments // count)
    return [(start, min(group, segments - start), 0, k) for start in range(0, segments, group)]


def flat(rows: Sequence[Sequence[int]]) -> list[int]:
    """Return the rows of a table, one after the other."""
    return [value for row in rows for value in row]
