"""Copy strided arrays on a GPU, for all ops that move elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Final

from tfjit.framework.types.dtypes import DType
from tfjit.kernels.cpu.data_movement.strided_copy import View
from tfjit.kernels.cpu.template.iteration_space import collapse
from tfjit.kernels.cuda.template.launches import MAX_BLOCKS, THREADS, CudaLaunch, grid_for, source
from tfjit.kernels.registry import Pointer, Unsupported, Word
from tfjit.kernels.source import KernelSource, Source

TILE: Final = 32
_ROWS: Final = THREADS // TILE  # rows of a tile that a block moves at a time
_WIDEST: Final = 16
_POINTERS: Final = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}
_NARROW: Final = 1 << 31  # indices below it are divided in 32 bits

IMPORT: Final = "from tfjit.kernels.cuda.template.intrinsics import *"


def copy_launch(
    size: int, source_view: View, target: View, source_at: Pointer, target_at: Pointer
) -> CudaLaunch | None:
    """Return the launch that copies elements from one view to another.

    The views have one shape; None means that it has no elements. Raises Unsupported for an element
    size without a word type.
    """
    if size not in _POINTERS and size != _WIDEST:
        raise Unsupported(f"elements of {size} bytes")
    count = prod(target.shape)
    if count == 0:
        return None
    strides = [
        tuple(0 if n == 1 else b for n, b in zip(target.shape, view.strides))
        for view in (source_view, target)
    ]
    dims, (reads, writes) = collapse(target.shape, strides)
    if not dims:
        dims, reads, writes = (1,), (size,), (size,)
    src = replace(source_at, offset=source_at.offset + source_view.offset)
    dst = replace(target_at, offset=target_at.offset + target.offset)
    if len(dims) == 1 and reads == (0,) and writes == (size,) and size in _POINTERS:
        return _fill(size, count, src, dst)
    size, dims, reads, writes = _widened(size, dims, reads, writes, src.offset, dst.offset)
    transposed = _transposed_dim(dims, reads, writes, size)
    if transposed is not None:
        return _transpose(size, dims, reads, writes, transposed, src, dst)
    return _strided(size, dims, reads, writes, src, dst)


def fill_launch(dtype: DType, count: int, value: Pointer, target: Pointer) -> CudaLaunch | None:
    """Return the launch that stores one value everywhere; None for no elements."""
    size = dtype.size
    return copy_launch(size, View((count,), (0,)), View((count,), (size,)), value, target)


def _widened(
    size: int,
    dims: Sequence[int],
    reads: Sequence[int],
    writes: Sequence[int],
    *offsets: int,
) -> tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return the copy of wider elements, of 16 bytes at most.

    The last dim must be contiguous in both arrays, and every row start at a multiple.
    """
    dims, reads, writes = list(dims), list(reads), list(writes)
    while (
        2 * size <= _WIDEST
        and dims[-1] % 2 == 0
        and reads[-1] == writes[-1] == size
        and all(n % (2 * size) == 0 for n in (*reads[:-1], *writes[:-1], *offsets))
    ):
        size *= 2
        dims[-1] //= 2
        reads[-1] = writes[-1] = size
    return size, tuple(dims), tuple(reads), tuple(writes)


def _transposed_dim(
    dims: Sequence[int], reads: Sequence[int], writes: Sequence[int], size: int
) -> int | None:
    """Return the source's contiguous dim if it is not the target's.

    Both must be long enough for tiles; else the answer is None.
    """
    if len(dims) < 2 or writes[-1] != size or reads[-1] in (0, size) or size not in _POINTERS:
        return None
    if dims[-1] < TILE // 4:
        return None
    return next(
        (k for k in range(len(dims) - 1) if reads[k] == size and dims[k] >= TILE // 4), None
    )


def _divided(count: int) -> tuple[str, str]:
    """Return the names of quotient and remainder for indices below `count`."""
    return ("div_u32", "rem_u32") if count < _NARROW else ("div_u64", "rem_u64")


def _move(s: Source, size: int, target: str, origin: str) -> None:
    if size == _WIDEST:
        s.line(f"v = ld_ro_vec4(ptr_u32({origin}), 0)")
        s.line(f"st_vec4(ptr_u32({target}), 0, v[0], v[1], v[2], v[3])")
        return
    kind = _POINTERS[size]
    s.line(f"st(ptr_{kind}({target}), 0, ld_ro(ptr_{kind}({origin}), 0))")


def _sum(name: str, strides: Sequence[str]) -> str:
    return " + ".join([name, *(f"i{k} * {stride}" for k, stride in enumerate(strides))])


def _strided(
    size: int,
    dims: Sequence[int],
    reads: Sequence[int],
    writes: Sequence[int],
    src: Pointer,
    dst: Pointer,
) -> CudaLaunch:
    """Return a grid-stride loop, one element a thread."""
    rank, count = len(dims), prod(dims)
    divide, remainder = _divided(count)
    inner = [f"n{k}" for k in range(1, rank)]
    own = [
        *(f"read{k}" for k in range(rank)),
        *(f"write{k}" for k in range(rank)),
    ]
    s = Source()
    s.line(f"# copy elements of {size} bytes, {rank} dims")
    s.line(IMPORT)
    s.line()
    s.line()
    names = ["src", "dst", "count", *inner, *own]
    with s.block(f"def kernel({', '.join(names)}):"):
        s.line("i = unit()")
        with s.block("while i < count:"):
            rest = "i"
            for k in range(rank - 1, 0, -1):
                s.line(f"i{k} = {remainder}({rest}, n{k})")
                s.line(f"rest{k} = {divide}({rest}, n{k})")
                rest = f"rest{k}"
            s.line(f"i0 = {rest}")
            target = _sum("dst", [f"write{k}" for k in range(rank)])
            origin = _sum("src", [f"read{k}" for k in range(rank)])
            _move(s, size, target, origin)
            s.line("i += units()")
    words: tuple[Word, ...] = (src, dst, count, *dims[1:], *reads, *writes)
    return CudaLaunch(_source(s, words, "copy"), words, grid=grid_for(count))


def _fill(size: int, count: int, src: Pointer, dst: Pointer) -> CudaLaunch:
    """Return the launch that stores one value everywhere, 16 bytes a store."""
    many = _WIDEST // size
    aligned = dst.offset % _WIDEST == 0
    kind = _POINTERS[size]
    s = Source()
    s.line(f"# fill with elements of {size} bytes{'' if aligned else ', unaligned'}")
    s.line(IMPORT)
    s.line()
    s.line()
    with s.block("def kernel(src, dst, count):"):
        s.line(f"v = ld(ptr_{kind}(src), 0)")
        s.line(f"p = ptr_{kind}(dst)")
        s.line("i = unit()")
        if aligned:
            shift = many.bit_length() - 1
            s.line(f"whole = count >> {shift}")
            with s.block("while i < whole:"):
                s.line(f"st_vec{many}(p, i << {shift}, {', '.join(['v'] * many)})")
                s.line("i += units()")
            s.line(f"i = (whole << {shift}) + unit()")
        with s.block("while i < count:"):
            s.line("st(p, i, v)")
            s.line("i += units()")
    words: tuple[Word, ...] = (src, dst, count)
    return CudaLaunch(_source(s, words, "fill"), words, grid=grid_for(-(-count // many)))


def _transpose(
    size: int,
    dims: Sequence[int],
    reads: Sequence[int],
    writes: Sequence[int],
    transposed: int,
    src: Pointer,
    dst: Pointer,
) -> CudaLaunch:
    """Return a copy through tiles in shared memory.

    A tile is read along the source's contiguous dim and written along the target's, both
    coalesced. Its rows have one element more than needed, so that no two threads of a warp meet in
    one bank.
    """
    outer = [k for k in range(len(dims) - 1) if k != transposed]
    rows, columns = dims[transposed], dims[-1]
    bands, strips = -(-rows // TILE), -(-columns // TILE)
    tiles = prod(dims[k] for k in outer) * bands * strips
    divide, remainder = _divided(tiles)
    kind = _POINTERS[size]
    s = Source()
    s.line(f"# transpose elements of {size} bytes in tiles, {len(outer)} outer dims")
    s.line(IMPORT)
    s.line()
    s.line()
    names = ["src", "dst", "tiles", "rows", "columns", "bands", "strips", "read", "write"]
    names += [f"n{k}" for k in range(1, len(outer))]
    names += [f"{of}{k}" for of in ("read", "write") for k in range(len(outer))]
    with s.block(f"def kernel({', '.join(names)}):"):
        s.line(f"tile = shared_{kind}({TILE * (TILE + 1)})")
        s.line(f"lane = thread() & {TILE - 1}")
        s.line(f"line = thread() >> {TILE.bit_length() - 1}")
        s.line("t = block()")
        with s.block("while t < tiles:"):
            s.line(f"column = {remainder}(t, strips) * {TILE}")
            s.line(f"above = {divide}(t, strips)")
            s.line(f"row = {remainder}(above, bands) * {TILE}")
            s.line(f"rest = {divide}(above, bands)")
            for k in range(len(outer) - 1, 0, -1):
                s.line(f"i{k} = {remainder}(rest, n{k})")
                s.line(f"rest = {divide}(rest, n{k})")
            if outer:
                s.line("i0 = rest")
            s.line(f"from_at = {_sum('src', [f'read{k}' for k in range(len(outer))])}")
            s.line(f"to_at = {_sum('dst', [f'write{k}' for k in range(len(outer))])}")
            for step in range(0, TILE, _ROWS):
                s.line(f"c = column + line + {step}")
                with s.block("if row + lane < rows and c < columns:"):
                    s.line(f"p = ptr_{kind}(from_at + (row + lane) * {size} + c * read)")
                    s.line(f"st_shared(tile, (line + {step}) * {TILE + 1} + lane, ld_ro(p, 0))")
            s.line("sync_threads()")
            for step in range(0, TILE, _ROWS):
                s.line(f"r = row + line + {step}")
                with s.block("if r < rows and column + lane < columns:"):
                    s.line(f"q = ptr_{kind}(to_at + r * write + (column + lane) * {size})")
                    s.line(f"st(q, 0, ld_shared(tile, lane * {TILE + 1} + line + {step}))")
            s.line("sync_threads()")
            s.line("t += blocks()")
    words: tuple[Word, ...] = (
        src, dst, tiles, rows, columns, bands, strips, reads[-1], writes[transposed],
        *(dims[k] for k in outer[1:]), *(reads[k] for k in outer), *(writes[k] for k in outer),
    )  # fmt: skip
    return CudaLaunch(
        _source(s, words, "transpose"), words, grid=(max(1, min(tiles, MAX_BLOCKS)), 1, 1)
    )


def _source(s: Source, words: Sequence[Word], title: str) -> KernelSource:
    return source(s.text(), len(words), title, __name__)


__all__ = ["copy_launch", "fill_launch"]
