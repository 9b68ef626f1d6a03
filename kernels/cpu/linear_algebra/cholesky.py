"""Build Cholesky factorisations."""

from __future__ import annotations

import functools
from typing import Final

from tfjit.kernels.cpu.linear_algebra.blocks import (
    ARGUMENT_BYTES,
    BLOCK,
    Arithmetic,
    arithmetic,
    write_substitution,
    write_subtract,
)
from tfjit.kernels.cpu.linear_algebra.factorizations import (
    linear_call,
    solver_ns,
    square_batch,
    write_matrices,
)
from tfjit.kernels.ir.symbolic_size import predicted
from tfjit.kernels.registry import NativeCall, NodeSpec, Pointer, native
from tfjit.kernels.source import KernelSource, Source

_STRIPE: Final = 64


@functools.cache
def cholesky_source(number: Arithmetic) -> KernelSource:
    """Write lower Cholesky factors; a matrix without one gives NaN.

    Words: matrices, size, input, output; then those of `write_matrices`. A block of columns is
    factored in the rows of its diagonal. The rows below it are solved in a conjugate-transposed
    copy, `panel`, with which their product is subtracted from the rest, a stripe of rows at a time.
    """
    s = Source()
    number.write_imports(s, "Cholesky factors")
    size = number.dtype.size
    with s.block("def kernel(args, chunk, nchunks):"):
        write_matrices(s, ("matrices", "size", "input", "output"))
        s.line(f"row = size * {size}")
        s.line(f"panel = block + {ARGUMENT_BYTES}")
        with s.block("for n in range(count):"):
            s.line("matrix = output + (first + n) * size * row")
            s.line("copy_bytes(matrix, input + (first + n) * size * row, size * row)")
            s.line("bad = 0")
            s.line(f"blocks = (size + {BLOCK - 1}) // {BLOCK}")
            with s.block("for turn in range(blocks):"):
                s.line(f"base = turn * {BLOCK}")
                s.line(f"edge = min(base + {BLOCK}, size)")
                _write_diagonal_block(s, number)
                with s.block("if bad != 0:"):
                    s.line("break")
                with s.block("if edge < size:"):
                    _write_rows_below(s, number)
            s.line(f"matrix_p = {number.pointer('matrix')}")
            with s.block("for i in range(size):"):
                with s.block("for j in range(i + 1 if bad != 0 else 0):"):
                    s.line(f"st_any(matrix_p, i * size + j, {_nan(number)})")
                with s.block("for j in range(i + 1, size):"):
                    s.line(f"st_any(matrix_p, i * size + j, {number.number(0)})")
    return KernelSource(s.text(), title=f"Cholesky factors {number.kind}", module=__name__)


def _nan(number: Arithmetic) -> str:
    return f"{number.dtype.name}(1e999 - 1e999)"


def _write_diagonal_block(s: Source, number: Arithmetic) -> None:
    with s.block("for j in range(base, edge):"):
        s.line(f"pivot_p = {number.pointer('matrix + j * row')}")
        with s.block("for i in range(j, edge):"):
            s.line(f"row_p = {number.pointer('matrix + i * row')}")
            s.line("value = ld_any(row_p, j)")
            with s.block("for k in range(base, j):"):
                s.line("left = ld_any(row_p, k)")
                s.line(f"right = {number.conjugate('ld_any(pivot_p, k)')}")
                s.line(f"value = {number.minus_product('value', 'left', 'right')}")
            with s.block("if i == j:"):
                s.line(f"level = {number.real('value')}")
                with s.block("if level <= 0:"):
                    s.line("bad = 1")
                    s.line("break")
                s.line(f"value = {number.complex('sqrt(level)')}")
            with s.block("else:"):
                s.line(f"value = {number.quotient('value', 'ld_any(pivot_p, j)')}")
            s.line("st_any(row_p, j, value)")
        with s.block("if bad != 0:"):
            s.line("break")


def _write_rows_below(s: Source, number: Arithmetic) -> None:
    size = number.dtype.size
    s.line("across = size - edge")
    s.line(f"panel_p = {number.pointer('panel')}")
    for back in (False, True):
        with s.block("for i in range(across):"):
            s.line(f"row_p = {number.pointer(f'matrix + (edge + i) * row + base * {size}')}")
            with s.block("for j in range(edge - base):"):
                at = "panel_p, j * across + i"
                if back:
                    s.line(f"st_any(row_p, j, {number.conjugate(f'ld_any({at})')})")
                else:
                    s.line(f"st_any({at}, {number.conjugate('ld_any(row_p, j)')})")
        if not back:
            s.line("start = 0")
            s.line("stop = edge - base")
            s.line("x = panel")
            s.line(f"x_row = across * {size}")
            s.line(f"triangle = matrix + base * row + base * {size}")
            s.line("triangle_row = row")
            s.line(f"triangle_step = {size}")
            write_substitution(s, number, lower=True, unit=False)
    with s.block(f"for stripe in range((across + {_STRIPE - 1}) // {_STRIPE}):"):
        s.line(f"top = stripe * {_STRIPE}")
        s.line(f"high = min({_STRIPE}, across - top)")
        write_subtract(
            s,
            f"matrix + (edge + top) * row + edge * {size}",
            "row",
            f"matrix + (edge + top) * row + base * {size}",
            f"row, {size}",
            "panel",
            f"across * {size}",
            "high, top + high, edge - base",
        )


@native("Cholesky", "BatchCholesky")
def _cholesky(spec: NodeSpec) -> NativeCall:
    (x,) = spec.inputs
    number = arithmetic(x.dtype)
    count, size = square_batch(x)
    words = (count, size, Pointer("in", 0), Pointer("out", 0))
    m = predicted(size)
    cost = solver_ns(number, m * m * m / 6, m * m)
    scratch = BLOCK * size * number.dtype.size
    return linear_call(
        cholesky_source(number), words, number, count, scratch, cost, {}, 2 * x.nbytes
    )
