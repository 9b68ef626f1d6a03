"""Write the kernels of tiled products.

A second kernel adds the parts of split sums.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tfjit.kernels.cuda.gemm.finish_text import Finish, finish_words
from tfjit.kernels.cuda.gemm.slabs import Operand, Slab, write_begin, write_fetch, write_store
from tfjit.kernels.cuda.gemm.tiles import VECTOR_BYTES, Plan, TileShape, accumulator
from tfjit.kernels.cuda.template import element_kinds
from tfjit.kernels.cuda.template.launches import THREADS, CudaLaunch, grid_for, source
from tfjit.kernels.registry import NativeCall, Pointer, TensorSpec, Unsupported, Word
from tfjit.kernels.source import KernelSource, Source

_TILE_WORDS: Final = (
    "rows", "columns", "depth", "row_tiles", "column_tiles", "splits", "matrices", "part",
)  # fmt: skip
_GROUP: Final = 8  # row tiles with blocks side by side, which share tiles of b


def write_header(s: Source, comment: str) -> None:
    """Write the comment and the imports of a text."""
    s.line(f"# {comment}")
    s.line("from tfjit.kernels.cuda.gemm.tile_intrinsics import *")
    for line in element_kinds.HEADER:
        s.line(line)


@functools.cache
def product_source(tile: TileShape, left: Operand, right: Operand, finish: Finish) -> KernelSource:
    """Write the kernel of a block tile.

    Words: those of _TILE_WORDS, of both operands, of the finish. part: terms of one part of a split
    sum, a multiple of the tile's depth. Blocks: tiles, within parts, within matrices.
    """
    kind = element_kinds.kind(accumulator(finish.product))
    size = accumulator(finish.product).size
    a, b = left.slab("a", tile, size), right.slab("b", tile, size)
    words = (
        *_TILE_WORDS, *map(a.name, left.words), *map(b.name, right.words), *finish.words,
    )  # fmt: skip
    s = Source()
    write_header(
        s,
        f"product {left.dtype.name} of tiles {tile.name}{finish.title}: "
        f"{left.title}, {right.title}",
    )
    with s.block(f"def kernel({', '.join(words)}):"):
        s.line("t = thread()")
        _write_place(s, tile)
        for slab, limit in ((a, "rows"), (b, "columns")):
            s.line(f"{slab.name('shared')} = shared_{kind}({2 * slab.elements})")
            s.line(f"{slab.name('lines')} = {limit}")
        for operand, slab in ((left, a), (right, b)):
            write_begin(s, operand, slab)
        _write_sum(s, tile, left, right, a, b, kind)
        _write_finish(s, tile, finish, size)
    if tile.resident > 1 and size == left.dtype.size and left.vector == right.vector > 1:
        # Without a limit the compiler takes more registers than that many blocks have; other forms
        # of loads need them.
        s.line()
        s.line()
        s.line(f"kernel.launch_bounds = ({tile.threads}, {tile.resident})")
    title = f"product {tile.name} {left.dtype.name}{finish.title}"
    return source(s.text(), len(words), title, __name__)


def _write_place(s: Source, tile: TileShape) -> None:
    """Define the block's tile, part and matrix."""
    s.line("tiles = row_tiles * column_tiles")
    s.line("number = div_u32(block(), tiles)")
    s.line("tile = block() - number * tiles")
    s.line("matrix = div_u32(number, splits)")
    s.line("split = number - matrix * splits")
    s.line(f"group = div_u32(tile, {_GROUP} * column_tiles)")
    s.line(f"inner = tile - group * {_GROUP} * column_tiles")
    s.line(f"height = min({_GROUP}, row_tiles - group * {_GROUP})")
    s.line("tile_column = div_u32(inner, height)")
    s.line(f"tile_row = group * {_GROUP} + inner - tile_column * height")
    s.line(f"a_first = tile_row * {tile.rows}")
    s.line(f"b_first = tile_column * {tile.columns}")
    s.line("depth_first = split * part")
    s.line("depth_last = min(depth, depth_first + part)")


def _write_sum(
    s: Source, tile: TileShape, left: Operand, right: Operand, a: Slab, b: Slab, kind: str
) -> None:
    """Write the loop over slabs.

    An iteration loads the next slab, multiplies this one, stores the next, waits.
    """
    run = VECTOR_BYTES // a.size
    across = tile.columns // tile.thread_columns
    s.line(f"thread_row = div_u32(t, {across})")
    s.line(f"thread_column = t - thread_row * {across}")
    s.line(f"a_from = thread_row * {run}")
    s.line(f"b_from = thread_column * {run}")
    number = {"f32": "float32", "f64": "float64"}[kind]
    s.line(f"sums = zeros({number}(0.0), {tile.thread_rows * tile.thread_columns})")
    s.line("depth_at = depth_first")
    for operand, slab in ((left, a), (right, b)):
        write_fetch(s, operand, slab)
        write_store(s, operand, slab, "0")
    s.line("sync_threads()")
    s.line("buffer = 0")
    with s.block("while depth_at < depth_last:"):
        s.line(f"depth_at += {tile.depth}")
        for operand, slab in ((left, a), (right, b)):
            write_fetch(s, operand, slab)
        s.line(
            f"sums = multiply_slab(sums, a_shared, buffer * {a.elements} + a_from, b_shared, "
            f"buffer * {b.elements} + b_from, {tile.depth}, {tile.thread_rows}, "
            f"{tile.thread_columns}, {a.pitch}, {b.pitch}, "
            f"{_spread(tile.rows, tile.thread_rows, run)}, "
            f"{_spread(tile.columns, tile.thread_columns, run)})"
        )
        s.line("buffer = 1 - buffer")
        for operand, slab in ((left, a), (right, b)):
            write_store(s, operand, slab, f"buffer * {slab.elements}")
        s.line("sync_threads()")


def _spread(lines: int, own: int, run: int) -> int:
    """Return the distance between the runs of a thread along one axis."""
    return lines // (own // run)


def _write_finish(s: Source, tile: TileShape, finish: Finish, size: int) -> None:
    """Write the loop over the thread's runs of products."""
    run = VECTOR_BYTES // size
    across = tile.thread_columns // run
    row_spread = _spread(tile.rows, tile.thread_rows, run)
    column_spread = _spread(tile.columns, tile.thread_columns, run)
    values = [f"v{k}" for k in range(run)]
    finish.write_setup(s)
    s.line("first_line = (split * matrices + matrix) * rows")
    with s.block(f"for number in range({tile.thread_rows * across}):"):
        s.line(f"{', '.join(values)} = run_of(sums, number, {run})")
        s.line(f"i = number // {across}")
        s.line(f"row = a_first + a_from + i // {run} * {row_spread} + i % {run}")
        s.line(f"column = b_first + b_from + (number - i * {across}) * {column_spread}")
        s.line("line = first_line + row")
        finish.write_run(s, values)


@functools.cache
def sum_source(finish: Finish) -> KernelSource:
    """Write the sum over the parts of a product, with its epilogue.

    Words: rows (of all matrices), columns, parts, address of the parts, those of the finish.
    """
    dtype = accumulator(finish.product)
    words = ("rows", "columns", "parts", "address", *finish.words)
    s = Source()
    write_header(s, f"sum of the parts of a product {finish.product.name}{finish.title}")
    run = finish.run
    with s.block(f"def kernel({', '.join(words)}):"):
        finish.write_setup(s)
        s.line(f"p = {element_kinds.pointer(dtype, 'address')}")
        s.line(f"runs = div_u64(columns + {run - 1}, {run})")
        s.line("i = unit()")
        with s.block("while i < rows * runs:"):
            s.line("line = div_u64(i, runs)")
            s.line(f"column = (i - line * runs) * {run}")
            s.line("at = line * columns + column")
            _write_parts(s, dtype.name, finish)
            s.line("row = line")
            finish.write_run(s, [f"s{k}" for k in range(run)])
            s.line("i += units()")
    return source(s.text(), len(words), f"sum of parts{finish.title}", __name__)


def _write_parts(s: Source, kind: str, finish: Finish) -> None:
    for k in range(finish.run):
        s.line(f"s{k} = {kind}(0.0)")
    with s.block("for part in range(parts):"):
        if finish.vector:
            s.line(
                f"{', '.join(f'p{k}' for k in range(finish.run))} = ld_ro_vec{finish.run}(p, at)"
            )
            for k in range(finish.run):
                s.line(f"s{k} += p{k}")
        else:
            for k in range(finish.run):
                with s.block(f"if column + {k} < columns:"):
                    s.line(f"s{k} += ld_ro(p, at + {k})")
        s.line("at += rows * columns")


def sum_launch(
    finish: Finish, lines: int, columns: int, splits: int, words: tuple[Word, ...]
) -> CudaLaunch:
    """Return the launch that adds the parts of a product.

    The parts are in temporary 0. words: of the finish.
    """
    return CudaLaunch(
        sum_source(finish),
        (lines, columns, splits, Pointer("temp", 0), *words),
        grid=grid_for(lines * -(-columns // finish.run)),
        block=(THREADS, 1, 1),
    )


@dataclass(frozen=True, slots=True)
class Product:
    """Products of a batch: sizes, operands and the words of these.

    operands: of the epilogue. places: see `finish_words`.
    """

    matrices: int
    m: int
    n: int
    k: int
    left: Operand
    left_words: tuple[Word, ...]
    right: Operand
    right_words: tuple[Word, ...]
    finish: Finish
    operands: Sequence[tuple[Pointer, TensorSpec]] = ()
    places: tuple[int, ...] = ()


def product_call(
    product: Product,
    plan: Plan,
    constants: tuple[np.ndarray, ...] = (),
    bytes_moved: int = 0,
) -> NativeCall:
    """Return the launches of a product.

    There are two where its sums are split. Raises Unsupported for axes that need more than 32 bits.
    """
    tile, finish = plan.tile, product.finish
    if max(product.m, product.n, product.k) >= 2**31:
        raise Unsupported(f"a product [{product.m}, {product.k}] x [{product.k}, {product.n}]")
    row_tiles, column_tiles = -(-product.m // tile.rows), -(-product.n // tile.columns)
    part = -(-max(1, product.k) // (plan.splits * tile.depth)) * tile.depth
    splits = max(1, -(-product.k // part))
    lines = product.matrices * product.m
    last = finish_words(finish, product.operands, lines, product.n, product.places)
    dtype = accumulator(finish.product)
    temps: tuple[int, ...] = ()
    own, own_words = finish, last
    if splits > 1:
        own, own_words = Finish(dtype, None, finish.run, finish.vector), (Pointer("temp", 0),)
        temps = (splits * lines * product.n * dtype.size,)
    words: tuple[Word, ...] = (
        *(product.m, product.n, product.k, row_tiles, column_tiles, splits, product.matrices, part),
        *product.left_words, *product.right_words, *own_words,
    )  # fmt: skip
    blocks = row_tiles * column_tiles * splits * product.matrices
    launches = [
        CudaLaunch(
            product_source(tile, product.left, product.right, own),
            words,
            grid=(blocks, 1, 1),
            block=(tile.threads, 1, 1),
        )
    ]
    if splits > 1:
        launches.append(sum_launch(finish, lines, product.n, splits, last))
    return NativeCall(
        tuple(launches),
        temp_bytes=temps,
        constants=constants,
        bytes_moved=bytes_moved,
        flops=2 * lines * product.n * product.k,
    )


__all__ = ["Product", "product_call", "product_source", "sum_launch", "sum_source", "write_header"]
