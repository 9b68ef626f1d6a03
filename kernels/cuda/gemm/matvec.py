"""Build products of a matrix and a vector.

They read the matrix once, so that only the way through memory counts. A line of the matrix gives
one result. Where the terms of a line lie side by side, 32 or 256 threads add up a line; where the
lines of a term do, a thread adds up a few lines, and the terms are shared by threads and blocks.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cuda.gemm.finish_text import Finish, finish_words
from tfjit.kernels.cuda.gemm.product_text import sum_launch, write_header
from tfjit.kernels.cuda.gemm.slabs import MOST_ELEMENTS, Along
from tfjit.kernels.cuda.gemm.tiles import PROCESSORS, VECTOR_BYTES, accumulator
from tfjit.kernels.cuda.template import element_kinds
from tfjit.kernels.cuda.template.launches import CudaLaunch, source
from tfjit.kernels.registry import NativeCall, Pointer, TensorSpec, Word
from tfjit.kernels.source import KernelSource, Source

_WARP: Final = 32
_THREADS: Final = 256
_GROUPS: Final = _THREADS // _WARP
_UNROLLED: Final = 4  # loads of a thread that are on their way together
_LONG_LINE: Final = 2048  # terms from which a block rather than a warp adds up a line
_LEAST_PART: Final = 128  # terms of one part of a split sum

Side = Literal["rows", "columns"]


@dataclass(frozen=True, slots=True)
class Sides:
    """Sizes and layouts of products [m, k] x [k, n].

    One of m and n is 1.
    """

    dtype: DType
    matrices: int
    m: int
    n: int
    k: int
    x_along: Along
    y_along: Along

    @property
    def side(self) -> Side:
        """Return the result's axis that the matrix's lines make."""
        return "rows" if self.n == 1 else "columns"

    @property
    def lines(self) -> int:
        """Return the number of lines of a matrix."""
        return self.m if self.n == 1 else self.n

    @property
    def along(self) -> Along:
        """Return the contiguous axis of the matrix."""
        return self.x_along if self.n == 1 else self.y_along


def _vector(dtype: DType, length: int) -> int:
    vector = min(MOST_ELEMENTS, VECTOR_BYTES // dtype.size)
    return vector if length % vector == 0 else 1


def matvec_call(
    sides: Sides,
    x_matrix: Word,
    y_matrix: Word,
    finish: Finish,
    operands: Sequence[tuple[Pointer, TensorSpec]],
    bytes_moved: int,
) -> NativeCall:
    """Return the launches of products with a vector.

    x_matrix, y_matrix: elements between the matrices of each input.
    """
    own = Finish(finish.product, finish.epilogue, 1, False)
    lines, results = sides.lines, sides.matrices * sides.m
    words = finish_words(finish, operands, results, sides.n)
    ends = Pointer("in", 0), x_matrix, Pointer("in", 1), y_matrix
    matrix, vector = (ends[:2], ends[2:]) if sides.side == "rows" else (ends[2:], ends[:2])
    flops = 2 * results * sides.n * sides.k
    if sides.along == "depth":
        few = sides.matrices * lines < 2 * _GROUPS * PROCESSORS
        threads = _THREADS if few and sides.k >= _LONG_LINE else _WARP
        kernel = dots_source(sides.dtype, _vector(sides.dtype, sides.k), threads, sides.side, own)
        blocks = -(-lines // (_THREADS // threads))
        launch = CudaLaunch(
            kernel,
            (sides.m, sides.n, sides.k, lines, blocks, *matrix, *vector, *words),
            grid=(blocks * sides.matrices, 1, 1),
            block=(_THREADS, 1, 1),
        )
        return NativeCall((launch,), bytes_moved=bytes_moved, flops=flops)
    width = _vector(sides.dtype, lines)
    blocks = -(-lines // (_WARP * width))
    wanted = -(-4 * PROCESSORS // (blocks * sides.matrices))
    splits = max(1, min(wanted, sides.k // _LEAST_PART))
    part = -(-max(1, sides.k) // splits)
    splits = max(1, -(-sides.k // part))
    dtype = accumulator(sides.dtype)
    parted = Finish(dtype, None, 1, False) if splits > 1 else own
    kernel = columns_source(sides.dtype, width, sides.side, parted)
    launches = [
        CudaLaunch(
            kernel,
            (
                *(sides.m, sides.n, sides.k, lines, blocks, *matrix, *vector),
                *(splits, sides.matrices, part),
                *((Pointer("temp", 0),) if splits > 1 else words),
            ),
            grid=(blocks * splits * sides.matrices, 1, 1),
            block=(_THREADS, 1, 1),
        )
    ]
    temps: tuple[int, ...] = ()
    if splits > 1:
        temps = (splits * results * sides.n * dtype.size,)
        launches.append(sum_launch(finish, results, sides.n, splits, words))
    return NativeCall(tuple(launches), temp_bytes=temps, bytes_moved=bytes_moved, flops=flops)


_WORDS: Final = (
    "rows", "columns", "depth", "lines", "line_blocks", "matrix_address", "matrix_step",
    "vector_address", "vector_step",
)  # fmt: skip


@functools.cache
def dots_source(
    dtype: DType, vector: int, threads: int, side: Side, finish: Finish
) -> KernelSource:
    """Write the kernel for lines with contiguous terms.

    threads: they share a line. Words: those of _WORDS, of the finish. vector: elements of a load.
    """
    s = Source()
    words = (*_WORDS, *finish.words)
    write_header(s, f"lines of {dtype.name} times a vector by {vector}{finish.title}: {side}")
    share = _THREADS // threads
    with s.block(f"def kernel({', '.join(words)}):"):
        _write_setup(s, dtype, finish)
        s.line("matrix = div_u32(block(), line_blocks)")
        s.line(f"own = div_u32(t, {threads})")
        s.line(f"lane = t - own * {threads}")
        s.line(f"number = (block() - matrix * line_blocks) * {share} + own")
        s.line("limit = depth if number < lines else 0")
        s.line("at = matrix * matrix_step + number * depth")
        s.line("vector_at = matrix * vector_step")
        _write_sums(s, dtype, vector)
        s.line(f"d = lane * {vector}")
        with s.block("while d < limit:"):
            step = threads * vector
            for u in range(_UNROLLED):
                _write_load(s, "w", u, vector, f"matrix_p, at + d + {u * step}", f"d + {u * step}")
                _write_load(
                    s, "x", u, vector, f"vector_p, vector_at + d + {u * step}", f"d + {u * step}"
                )
            for u in range(_UNROLLED):
                for k in range(vector):
                    _write_term(s, dtype, k, f"w{u}_{k}", f"x{u}_{k}")
            s.line(f"d += {_UNROLLED * step}")
        s.line(f"total = {' + '.join(f's{k}' for k in range(vector))}")
        for distance in (16, 8, 4, 2, 1):
            s.line(f"total += shuffle_xor(total, {distance})")
        if threads > _WARP:
            kind = element_kinds.kind(accumulator(dtype))
            s.line(f"shared = shared_{kind}({threads // _WARP})")
            with s.block(f"if t % {_WARP} == 0:"):
                s.line(f"st_shared(shared, t // {_WARP}, total)")
            s.line("sync_threads()")
            s.line("total = ld_shared(shared, 0)")
            for k in range(1, threads // _WARP):
                s.line(f"total += ld_shared(shared, {k})")
        with s.block("if lane == 0 and number < lines:"):
            _write_result(s, side, "matrix")
            finish.write_run(s, ["total"])
    title = f"matrix times vector {dtype.name}{finish.title}"
    return source(s.text(), len(words), title, __name__)


@functools.cache
def columns_source(dtype: DType, vector: int, side: Side, finish: Finish) -> KernelSource:
    """Write the kernel for terms with contiguous lines.

    A thread adds up `vector` lines. Words: those of _WORDS, the parts of a sum, the matrices, the
    terms of a part, those of the finish.
    """
    s = Source()
    words = (*_WORDS, "splits", "matrices", "part", *finish.words)
    write_header(s, f"vector times terms of {dtype.name} by {vector}{finish.title}: {side}")
    kind = element_kinds.kind(accumulator(dtype))
    width = _WARP * vector
    with s.block(f"def kernel({', '.join(words)}):"):
        _write_setup(s, dtype, finish)
        s.line("group = t // 32")
        s.line("whole = div_u32(block(), line_blocks)")
        s.line("matrix = div_u32(whole, splits)")
        s.line("split = whole - matrix * splits")
        s.line(f"first = (block() - whole * line_blocks) * {width}")
        s.line(f"number = first + (t - group * 32) * {vector}")
        s.line("last = min(depth, split * part + part)")
        s.line("limit = last if number < lines else 0")
        s.line("at = matrix * matrix_step + number")
        s.line("vector_at = matrix * vector_step")
        _write_sums(s, dtype, vector)
        s.line("d = split * part + group")
        with s.block("while d < limit:"):
            for u in range(_UNROLLED):
                place = f"d + {u * _GROUPS}"
                _write_load(s, "w", u, vector, f"matrix_p, at + ({place}) * lines", place)
                _write_load(s, "x", u, 1, f"vector_p, vector_at + {place}", place)
            for u in range(_UNROLLED):
                for k in range(vector):
                    _write_term(s, dtype, k, f"w{u}_{k}", f"x{u}_0")
            s.line(f"d += {_UNROLLED * _GROUPS}")
        s.line(f"shared = shared_{kind}({_GROUPS * width})")
        for k in range(vector):
            s.line(f"st_shared(shared, group * {width} + (t - group * 32) * {vector} + {k}, s{k})")
        s.line("sync_threads()")
        s.line("number = first + t")
        with s.block(f"if t < {width} and number < lines:"):
            s.line("total = ld_shared(shared, t)")
            for k in range(1, _GROUPS):
                s.line(f"total += ld_shared(shared, {k * width} + t)")
            _write_result(s, side, "(split * matrices + matrix)")
            finish.write_run(s, ["total"])
    title = f"vector times matrix {dtype.name}{finish.title}"
    return source(s.text(), len(words), title, __name__)


def _write_setup(s: Source, dtype: DType, finish: Finish) -> None:
    finish.write_setup(s)
    s.line("t = thread()")
    s.line(f"matrix_p = {element_kinds.pointer(dtype, 'matrix_address')}")
    s.line(f"vector_p = {element_kinds.pointer(dtype, 'vector_address')}")


def _write_sums(s: Source, dtype: DType, vector: int) -> None:
    for k in range(vector):
        s.line(f"s{k} = {accumulator(dtype).name}(0.0)")


def _write_load(s: Source, name: str, u: int, vector: int, place: str, position: str) -> None:
    """Load the values {name}{u}_0... unless their position is behind the limit."""
    names = ", ".join(f"{name}{u}_{k}" for k in range(vector))
    suffix = "" if vector == 1 else str(vector)
    s.line(f"{names} = ld_below{suffix}({place}, {position}, limit)")


def _write_term(s: Source, dtype: DType, k: int, w: str, x: str) -> None:
    """Add a product to sum k."""
    s.line(f"s{k} = fma({expressions.loaded(dtype, w)}, {expressions.loaded(dtype, x)}, s{k})")


def _write_result(s: Source, side: Side, matrix: str) -> None:
    """Define the place of result `number` of a matrix."""
    if side == "rows":
        s.line("row = number")
        s.line("column = 0")
        s.line(f"line = {matrix} * rows + row")
    else:
        s.line("row = 0")
        s.line("column = number")
        s.line(f"line = {matrix}")


__all__ = ["Sides", "columns_source", "dots_source", "matvec_call"]
