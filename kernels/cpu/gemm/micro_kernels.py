"""Provide micro-kernels of every height, and cut rows into tiles.

There is a table of tiles for each element type and this host's vector registers.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Final

from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.ir.symbolic_size import at_least, is_symbolic, maximum, predicted
from tfjit.kernels.jit import target
from tfjit.kernels.registry import Pointer, Unsupported
from tfjit.kernels.source import KernelSource, Source

KINDS: Final = {dtypes.float32: "f32", dtypes.float64: "f64"}
VECTORS: Final = 2
"""Vectors in a full tile's width.

A panel that fits in one takes half of it.
"""
# Rows of accumulators, by instruction set: as many as leave registers for two columns of B and one
# value of A. AVX-512 has 32 registers (14 rows spill when unrolled), AVX2 16, NEON 32 (12 rows
# spill), SSE 16.
_HEIGHTS: Final = {"avx512": 12, "avx2": 6, "neon": 8, "generic": 4}
_ARGUMENTS: Final = "a, stride_a, offsets, nseg, k, panel, c, stride_c, ncols, accumulate"


@dataclass(frozen=True, slots=True)
class Tile:
    """The largest tile: `height` rows of VECTORS vectors of `lanes` elements.

    size: bytes of an element. fused: the CPU has FMA.
    """

    kind: str
    isa: str
    lanes: int
    height: int
    size: int
    fused: bool

    @property
    def columns(self) -> int:
        """Return the columns of a full tile."""
        return self.lanes * VECTORS


@functools.cache
def tile_of(dtype: DType) -> Tile:
    """Return this host's tile for float32 or float64.

    Raises Unsupported for other dtypes.
    """
    kind = KINDS.get(dtype)
    if kind is None:
        raise Unsupported(f"no matrix kernel for {dtype.name}")
    host = target.host()
    return Tile(
        kind,
        host.isa,
        host.lanes(dtype.size),
        _HEIGHTS[host.isa],
        dtype.size,
        host.isa != "generic",
    )


@functools.cache
def matmul_tiles(tile: Tile, vectors: int, transposed: bool = False) -> KernelSource:
    """Return micro-kernels of heights 1..tile.height, `vectors` wide.

    transposed: A's rows are contiguous in memory. A width has a table of its own, since a table
    takes seconds to compile: a graph waits only for the needed one, and two processes share the
    work.
    """
    s = Source()
    width = vectors * tile.lanes
    s.line(
        f"# matmul tiles {tile.kind} {tile.isa}, up to {tile.height} x {width}"
        + (", A transposed" if transposed else "")
    )
    s.line("from tfjit.kernels.cpu.gemm.micro_kernels_ir import matmul_tile")
    entries = []
    for height in range(1, tile.height + 1):
        name = tile_entry(height, vectors)
        s.line(
            f"emit_{name} = matmul_tile({tile.kind!r}, {tile.lanes}, {height}, {vectors}, "
            f"{transposed}, {tile.fused})"
        )
        with s.block(f"def {name}({_ARGUMENTS}):"):
            s.line(f"emit_{name}({_ARGUMENTS})")
        entries.append(name)
    title = f"matmul tiles {tile.kind} {tile.isa} x {width}" + (" transposed" if transposed else "")
    return KernelSource(s.text(), tuple(entries), arity=10, title=title, module=__name__)


# Rows this far apart fall into one set of the first-level cache, which holds 8 lines or more.
_ALIAS_BYTES: Final = 4096
_ALIAS_HEIGHT: Final = 8


def row_limit(tile: Tile, row_stride: int, transposed: bool = False) -> int:
    """Return the rows of the largest micro-kernel that pays.

    It works on packed panels; rows of A or of the result are row_stride bytes apart.
    """
    return (
        min(tile.height, _ALIAS_HEIGHT)
        if not transposed and row_stride % _ALIAS_BYTES == 0
        else tile.height
    )


IN_PLACE_HEIGHT: Final = 3
"""Most rows of A for which B is read in place.

Packing B would take longer than the product.
"""
IN_PLACE_VECTORS: Final = (8, 2)
"""Widths of the tiles that read B in place.

Wide tiles read whole cache lines of every row of B in turn.
"""


@functools.cache
def in_place_tiles(tile: Tile) -> KernelSource:
    """Return micro-kernels that read an ordinary row-major B.

    Their heights are 1..IN_PLACE_HEIGHT.
    """
    s = Source()
    s.line(f"# matmul tiles {tile.kind} {tile.isa}, B in place")
    s.line("from tfjit.kernels.cpu.gemm.micro_kernels_ir import matmul_tile")
    entries = []
    for vectors in IN_PLACE_VECTORS:
        for height in range(1, IN_PLACE_HEIGHT + 1):
            name = tile_entry(height, vectors)
            s.line(
                f"emit_{name} = matmul_tile({tile.kind!r}, {tile.lanes}, {height}, {vectors}, "
                f"False, {tile.fused}, False)"
            )
            with s.block(f"def {name}({_ARGUMENTS}):"):
                s.line(f"emit_{name}({_ARGUMENTS})")
            entries.append(name)
    return KernelSource(
        s.text(),
        tuple(entries),
        arity=10,
        title=f"matmul tiles {tile.kind} {tile.isa}, B in place",
        module=__name__,
    )


DOT_HEIGHT: Final = 8
"""Rows of the largest one-column tile."""


@functools.cache
def dot_tiles(tile: Tile) -> KernelSource:
    """Return micro-kernels for one column, of heights 1..DOT_HEIGHT."""
    s = Source()
    s.line(f"# dot product tiles {tile.kind} {tile.isa}")
    s.line("from tfjit.kernels.cpu.gemm.micro_kernels_ir import dot_tile")
    entries = []
    for height in range(1, DOT_HEIGHT + 1):
        name = tile_entry(height, 1)
        s.line(f"emit_{name} = dot_tile({tile.kind!r}, {tile.lanes}, {height}, {tile.fused})")
        with s.block(f"def {name}({_ARGUMENTS}):"):
            s.line(f"emit_{name}({_ARGUMENTS})")
        entries.append(name)
    return KernelSource(
        s.text(), tuple(entries), arity=10, title=f"dot product tiles {tile.kind}", module=__name__
    )


def tile_entry(height: int, vectors: int) -> str:
    """Return the entry of the micro-kernel for that many rows and vectors."""
    return f"tile_{height}x{vectors}"


@dataclass(frozen=True, slots=True)
class RowCover:
    """Rows cut exactly into `count` tiles, without tail or padding.

    The first `tall` tiles have height `height`, the others one row less. highest: the most rows of
    a tile.
    """

    count: int
    height: int
    tall: int
    highest: int

    def pointers(self, source: KernelSource, vectors: int) -> tuple[Pointer, Pointer]:
        """Return the addresses of the tall and low micro-kernel, `vectors` wide."""
        low = maximum(1, self.height - 1)
        tall, short = (
            tile_pointer(source, height, vectors, self.highest) for height in (self.height, low)
        )
        return tall, short


def tile_pointer(source: KernelSource, height: Any, vectors: int, highest: int) -> Pointer:
    """Return the address of a micro-kernel.

    highest: the number of rows of the highest one, for a height that depends on a size.
    """
    if not is_symbolic(height):
        return Pointer("code", source=source, entry=tile_entry(height, vectors))
    entries = tuple(tile_entry(rows, vectors) for rows in range(1, highest + 1))
    number = height - 1
    return Pointer(
        "code", source=source, entry=entries[number.value], entries=entries, number=number
    )


_EVEN_FROM: Final = 5  # Of fewer tiles, an additional one would make all of them too low.
_EVEN_BELOW: Final = 64  # Of more tiles, an odd one does not matter.


def cover(rows: int, max_height: int, even: bool = False) -> RowCover:
    """Cut rows into tiles of at most max_height.

    Their heights differ by one row at most. even: several tiles become an even number, which two
    threads share equally; a tile of 11 rows is as fast as one of 12.
    """
    count = max(1, -(-rows // max_height))
    if is_symbolic(rows) and at_least(rows) >= max_height * (max_height - 1):
        # enough tiles to share out the missing rows: one height serves all sizes
        return RowCover(count, max_height, count - (count * max_height - rows), max_height)
    if even and _EVEN_FROM <= predicted(count) < _EVEN_BELOW:
        count += count % 2
    height = max(1, -(-rows // count))
    return RowCover(count, height, count - (count * height - rows), max_height)


CHANNELWISE_HEIGHT: Final = 8
"""Pixels of the largest channelwise tile.

It has enough independent sums to hide an FMA's latency, few enough for 16 registers.
"""
_CHANNELWISE_ARGUMENTS: Final = "x, x_step, taps, ntaps, w, y, y_step, channels"


ROW_TAPS: Final = 3
"""Taps of a row for which depthwise convolution has separate micro-kernels.

These load the values that neighbouring pixels share once.
"""


@functools.cache
def channelwise_tiles(tile: Tile, op: str) -> KernelSource:
    """Return micro-kernels that combine windows channel by channel.

    op is "fma", "max" or "mean"; heights are 1..CHANNELWISE_HEIGHT pixels. "fma" has a second set
    after them, for rows of ROW_TAPS neighbouring taps.
    """
    s = Source()
    s.line(f"# channelwise {op} tiles {tile.kind} {tile.isa}")
    s.line("from tfjit.kernels.cpu.gemm.micro_kernels_ir import channelwise_rows, channelwise_tile")
    entries = []
    for rows in (False, True) if op == "fma" else (False,):
        for height in range(1, CHANNELWISE_HEIGHT + 1):
            name = f"rows_{height}" if rows else f"pixels_{height}"
            maker, form = (
                ("channelwise_rows", str(ROW_TAPS)) if rows else ("channelwise_tile", repr(op))
            )
            s.line(
                f"emit_{name} = {maker}({tile.kind!r}, {tile.lanes}, {height}, {form}, "
                f"{tile.fused})"
            )
            with s.block(f"def {name}({_CHANNELWISE_ARGUMENTS}):"):
                s.line(f"emit_{name}({_CHANNELWISE_ARGUMENTS})")
            entries.append(name)
    return KernelSource(
        s.text(),
        tuple(entries),
        arity=8,
        title=f"channelwise {op} tiles {tile.kind}",
        module=__name__,
    )
