"""Write loops that transpose an area block by block."""

from __future__ import annotations

from typing import Final

from tfjit.kernels.source import Source

IMPORT: Final = "from tfjit.kernels.codegen.transpose_intrinsics import turn"
"""The line that text with `write_transpose` in it needs."""


SPAN: Final = 256
"""Bytes of an area's side.

Runs of that length come from memory at full speed, and areas of several operands stay in the
first-level cache.
"""


def block_side(size: int) -> int:
    """Return the side of blocks that are transposed in registers.

    Rows of a block of `size`-byte elements fill a cache line; a block has at most 16 rows and
    columns.
    """
    return min(16, 64 // size)


def write_transpose(
    s: Source, size: int, dst: str, dst_step: str, src: str, src_step: str, rows: str, columns: str
) -> None:
    """Append loops that transpose an area in blocks.

    The element at src + c * src_step + r * size goes to dst + r * dst_step + c * size, for r <
    rows, c < columns. dst and the other arguments are texts of integers, used several times.
    """
    side = block_side(size)
    across, down = (f"({n} + {side - 1}) // {side}" for n in (columns, rows))
    with s.block(f"for bc in range({across}):"), s.block(f"for br in range({down}):"):
        to = f"{dst} + br * {side} * {dst_step} + bc * {side * size}"
        of = f"{src} + bc * {side} * {src_step} + br * {side * size}"
        s.line(
            f"turn({to}, {dst_step}, {of}, {src_step}, {rows} - br * {side}, {columns} - bc * "
            f"{side}, {size})"
        )
