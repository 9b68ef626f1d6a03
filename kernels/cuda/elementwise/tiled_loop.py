"""Write elementwise loops over transposed inputs.

Tiles of an input go through shared memory, so that both its loads and the stores are of
neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tfjit.kernels.codegen import expressions
from tfjit.kernels.cuda.elementwise.loop_text import (
    SCALAR,
    STRIDED,
    LoopOperand,
    element_index,
    write_pointers,
    write_results,
)
from tfjit.kernels.cuda.template import element_kinds
from tfjit.kernels.cuda.template.kernel_text import KernelText
from tfjit.kernels.ir.scalar_program import Program

SIDE: Final = 32
"""Rows and columns of a tile."""
ROWS: Final = 8
"""Rows of a tile that the block's threads cover at a time."""
_LEAST: Final = 8
_MAX_TILES: Final = 4


def is_transposed(o: LoopOperand, dim: int) -> bool:
    """Return whether an input's neighbours lie along `dim`, not the last."""
    return not o.is_output and o.pattern == STRIDED and o.strides[dim] == 1


def transposed_dim(dims: Sequence[int], operands: Sequence[LoopOperand]) -> int | None:
    """Return the dim along which inputs have their neighbours.

    None means a loop without tiles."""
    if dims[-1] < _LEAST:
        return None
    for o in operands:
        for dim, n in enumerate(dims[:-1]):
            if n >= _LEAST and is_transposed(o, dim):
                through = [p for p in operands if is_transposed(p, dim)]
                fits = len(through) <= _MAX_TILES and all(p.dtype.size <= 8 for p in through)
                return dim if fits else None
    return None


def write_tiled_loop(
    text: KernelText, program: Program, operands: Sequence[LoopOperand], dims: Sequence[int],
    tile_dim: int,
) -> int:  # fmt: skip
    """Append a loop over tiles; return their number.

    A tile spans `tile_dim` and the last dim. A block of 256 threads computes a tile.
    """
    last = len(dims) - 1
    down, across = -(-dims[tile_dim] // SIDE), -(-dims[last] // SIDE)
    total = down * across
    outer = [d for d in range(last) if d != tile_dim]
    for d in outer:
        total *= dims[d]
    text.argument("tiles", total)
    text.argument("down", down)
    text.argument("across", across)
    for d in (*outer[1:], tile_dim, last):
        text.argument(f"n{d}", dims[d])
    # every operand is read by its strides
    plain = [replace(o, pattern=STRIDED) if o.pattern != SCALAR else o for o in operands]
    write_pointers(text, plain)
    through = [o for o in plain if is_transposed(o, tile_dim)]
    for o in through:
        text.line(f"{o.name}_tile = shared_{element_kinds.kind(o.dtype)}({SIDE * (SIDE + 1)})")
    text.line(f"lane = thread() & {SIDE - 1}")
    text.line(f"row = thread() >> {SIDE.bit_length() - 1}")
    text.line("tile = block()")
    with text.block("while tile < tiles:"):
        text.split("tile", "rest", "column_tile", "across")
        text.split("rest", "rest", "row_tile", "down")
        for d in reversed(outer[1:]):
            text.split("rest", "rest", f"i{d}", f"n{d}")
        if outer:
            text.line(f"i{outer[0]} = rest")
        _write_loads(text, through, tile_dim, last)
        text.line("sync_threads()")
        text.line(f"i{last} = column_tile * {SIDE} + lane")
        with text.block(f"for k in range({SIDE // ROWS}):"):
            text.line(f"at = row + {ROWS} * k")
            text.line(f"i{tile_dim} = row_tile * {SIDE} + at")
            with text.block(f"if i{tile_dim} < n{tile_dim} and i{last} < n{last}:"):
                _write_elements(text, program, plain, through)
        text.line("sync_threads()")
        text.line("tile += blocks()")
    return total


def _write_loads(
    text: KernelText, through: Sequence[LoopOperand], tile_dim: int, last: int
) -> None:
    """Append the loads of a tile: neighbouring threads read along `tile_dim`."""
    text.line(f"i{tile_dim} = row_tile * {SIDE} + lane")
    with text.block(f"for k in range({SIDE // ROWS}):"):
        text.line(f"at = row + {ROWS} * k")
        text.line(f"i{last} = column_tile * {SIDE} + at")
        with text.block(f"if i{tile_dim} < n{tile_dim} and i{last} < n{last}:"):
            for o in through:
                load = "ld_ro" if o.read_only and not o.dtype.is_complex else "ld"
                value = f"{load}({o.name}_p, {element_index(o, 1, '')})"
                text.line(f"st_shared({o.name}_tile, at * {SIDE + 1} + lane, {value})")


def _write_elements(
    text: KernelText, program: Program, operands: Sequence[LoopOperand],
    through: Sequence[LoopOperand],
) -> None:  # fmt: skip
    """Append the program for one element of a tile."""
    names = []
    for o in operands:
        if o.is_output:
            continue
        if o in through:
            element = f"ld_shared({o.name}_tile, lane * {SIDE + 1} + at)"
            text.line(f"{o.name} = {expressions.loaded(o.dtype, element)}")
        elif o.pattern != SCALAR:
            load = "ld_ro" if o.read_only and not o.dtype.is_complex else "ld"
            element = f"{load}({o.name}_p, {element_index(o, 1, '')})"
            text.line(f"{o.name} = {expressions.loaded(o.dtype, element)}")
        names.append(o.name)
    write_results(text, program, operands, [names], "")
