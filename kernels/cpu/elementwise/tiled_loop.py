"""Build elementwise loops with operands contiguous along different dims.

They run tile by tile; operands are transposed in cache on the way in or out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tfjit.kernels.codegen import expressions
from tfjit.kernels.codegen.transpose_text import IMPORT, SPAN, block_side, write_transpose
from tfjit.kernels.cpu.elementwise.loop_text import (
    CONTIGUOUS,
    HEADER,
    LoopOperand,
    advance_odometer,
    write_odometer,
    write_row,
)
from tfjit.kernels.ir.scalar_program import Program
from tfjit.kernels.source import KernelSource, Source

TRANSPOSED: Final = "t"
"""Pattern of an operand that is contiguous along the tiles' other dim."""
TILE_BYTES: Final = 1 << 14
_PITCH: Final = 64
"""Bytes between a tile's rows beyond their length.

With them rows of 2^k bytes do not share cache sets.
"""
_SHORT: Final = 4


@dataclass(frozen=True, slots=True)
class Tiling:
    """The loop order of a tiled loop.

    order: the loop's dims, the last two being those of the tiles. transposed: operands that are
    contiguous along the last but one.
    """

    order: tuple[int, ...]
    transposed: frozenset[int]


def find_tiling(
    dims: Sequence[int], strides: Sequence[Sequence[int]], sizes: Sequence[int]
) -> Tiling | None:
    """Return the tiling of a loop with operands contiguous along different dims.

    None means that a plain loop reads all operands along the inner dim. sizes: of each operand's
    elements. An operand that fits no tiling is strided.
    """
    last = len(dims) - 1
    if last < 1:
        return None
    along = [
        next((d for d in range(last, -1, -1) if step[d] == size), -1)
        for step, size in zip(strides, sizes)
    ]
    other = [
        d
        for d in range(last)
        if any(
            way == d and step[last] not in (0, size)
            for way, step, size in zip(along, strides, sizes)
        )
    ]
    if not other:
        return None

    def transposed(inner: int, outer: int) -> frozenset[int]:
        return frozenset(
            k
            for k, step in enumerate(strides)
            if along[k] == outer and step[inner] not in (0, sizes[k])
        )

    # The pair of dims that leaves the fewest operands strided wins, then the one with the fewest to
    # transpose.
    best: tuple[tuple[int, int, bool], int, int] | None = None
    for a in other:
        for inner, outer in ((last, a), (a, last)):
            chosen = transposed(inner, outer)
            strided = sum(
                1
                for k, step in enumerate(strides)
                if k not in chosen and step[inner] not in (0, sizes[k])
            )
            score = (strided, len(chosen), inner != last)
            if dims[inner] >= _SHORT and (best is None or score < best[0]):
                best = (score, inner, outer)
    if best is None:
        return None
    _, inner, outer = best
    rest = [d for d in range(len(dims)) if d not in (inner, outer)]
    found = transposed(inner, outer)
    return Tiling((*rest, outer, inner), found) if found or inner != last else None


def tile_sides(rows: int, columns: int, size: int) -> tuple[int, int]:
    """Return (height, width) of the tiles over an area.

    Tiles are whole blocks, evenly cut, for elements of up to `size` bytes.
    """
    side = block_side(size)
    bands = -(-rows // max(SPAN // size, side))
    height = min(_rounded(-(-rows // bands), side), _rounded(rows, side))
    blocks = -(-columns // max(TILE_BYTES // size // height, side))
    return height, _rounded(-(-columns // blocks), side)


def _rounded(n: int, side: int) -> int:
    return -(-n // side) * side


def tile_pitch(width: int, size: int) -> int:
    """Return the bytes from one row of a tile to the next."""
    return width * size + _PITCH


def tiled_source(
    program: Program, rank: int, operands: Sequence[LoopOperand], title: str = ""
) -> KernelSource:
    """Write the kernel of a loop over `rank` dims in tiles.

    The last two dims are tiled. operands: the program's inputs, then its outputs. Argument words:
    sizes of the dims, a tile's height and width; then for each operand its address and byte strides
    along all dims, for a transposed one also the address of its scratch memory, that memory's bytes
    a chunk and its bytes a row.
    """
    s = Source()
    s.line(f"# {rank}-d loop in tiles: {' '.join(op.op for op in program.ops) or 'copy'}")
    for line in (*HEADER[:-2], IMPORT, *HEADER[-2:]):
        s.line(line)
    fails = bool(expressions.program_errors(program))
    outer = rank - 2
    with s.block("def kernel(args, chunk, nchunks):"):
        if fails:
            s.line("bad = 0")
        names = [*(f"n{d}" for d in range(outer)), "rows", "columns", "height", "width"]
        for k, name in enumerate(names):
            s.line(f"{name} = word(args, {2 + k})")
        at = 2 + len(names)
        for o in operands:
            for name in ("at", *(f"s{d}" for d in range(outer)), "down", "step"):
                s.line(f"{o.name}_{name} = word(args, {at})")
                at += 1
            if o.pattern == TRANSPOSED:
                s.line(f"{o.name}_tile = word(args, {at}) + chunk * word(args, {at + 1})")
                s.line(f"{o.name}_pitch = word(args, {at + 2})")
                at += 3
        s.line("blocks = (columns + width - 1) // width")
        s.line("parts = (rows + height - 1) // height * blocks")
        s.line(f"units = {' * '.join([*(f'n{d}' for d in range(outer)), 'parts'])}")
        s.line("first = units * chunk // nchunks")
        s.line("count = units * (chunk + 1) // nchunks - first")
        if outer:
            write_odometer(s, outer)
        else:
            s.line("part = first")
        with s.block("for unit in range(count):"):
            s.line("top = part // blocks * height")
            s.line("left = part % blocks * width")
            s.line("h = min(height, rows - top)")
            s.line("m = min(width, columns - left)")
            for o in operands:
                place = " + ".join(
                    [f"{o.name}_at", *(f"i{d} * {o.name}_s{d}" for d in range(outer))]
                )
                s.line(f"{o.name}_0 = {place} + top * {o.name}_down + left * {o.name}_step")
                if o.pattern == TRANSPOSED and o.output < 0:
                    _write_transposed_in(s, o)
            with s.block("for r in range(h):"):
                base = {o.name: f"{o.name}_0 + r * {o.name}_down" for o in operands}
                base |= {
                    o.name: f"{o.name}_tile + r * {o.name}_pitch"
                    for o in operands
                    if o.pattern == TRANSPOSED
                }
                plain = [
                    replace(o, pattern=CONTIGUOUS) if o.pattern == TRANSPOSED else o
                    for o in operands
                ]
                write_row(s, program, plain, base, fails, "0")
            for o in operands:
                if o.pattern == TRANSPOSED and o.output >= 0:
                    write_transpose(
                        s,
                        o.dtype.size,
                        f"{o.name}_0",
                        f"{o.name}_step",
                        f"{o.name}_tile",
                        f"{o.name}_pitch",
                        "m",
                        "h",
                    )
            if outer:
                advance_odometer(s, outer)
            else:
                s.line("part += 1")
        if fails:
            with s.block("if bad != 0:"):
                s.line("fail(args, bad, 0)")
    return KernelSource(s.text(), title=title, module=__name__)


def _write_transposed_in(s: Source, o: LoopOperand) -> None:
    write_transpose(
        s,
        o.dtype.size,
        f"{o.name}_tile",
        f"{o.name}_pitch",
        f"{o.name}_0",
        f"{o.name}_step",
        "h",
        "m",
    )
