"""Build LU factorisations and inverses of matrices."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Final

from tfjit.framework.types import dtypes as d
from tfjit.kernels.cpu.linear_algebra.blocks import (
    ARGUMENT_BYTES,
    BLOCK,
    Arithmetic,
    arithmetic,
    subtract_pointer,
    write_solve,
    write_substitution,
    write_subtract,
)
from tfjit.kernels.cpu.template import cost_model
from tfjit.kernels.ir.symbolic_size import at_least, predicted
from tfjit.kernels.registry import (
    Launch,
    NativeCall,
    NodeSpec,
    Pointer,
    TensorSpec,
    Unsupported,
    Word,
    native,
)
from tfjit.kernels.source import KernelSource, Source

_TERM_NS: Final = 0.12  # of one product of float32
_ELEMENT_NS: Final = 2.0
_MATRIX_NS: Final = 100.0
_SINGULAR: Final = {1: ("InvalidArgumentError", "Input is not invertible.")}


def write_matrices(s: Source, names: tuple[str, ...]) -> None:
    """Write the variables of this chunk: words, matrices, scratch.

    The words are those of `names`, then the address of the scratch buffers, the bytes of one, and
    the address of the update.
    """
    for i, name in enumerate((*names, "scratch", "stride", "subtract")):
        s.line(f"{name} = word(args, {i + 2})")
    s.line("block = scratch + chunk * stride")
    s.line("first = matrices * chunk // nchunks")
    s.line("count = matrices * (chunk + 1) // nchunks - first")


def linear_call(
    source: KernelSource,
    words: tuple[Word, ...],
    number: Arithmetic,
    matrices: int,
    scratch: int,
    cost_ns: float,
    errors: Mapping[int, tuple[str, str]],
    nbytes: int,
    conjugated: bool = False,
) -> NativeCall:
    """Return the launch of a kernel that `write_matrices` begins.

    scratch: the bytes that one chunk needs. cost_ns: predicted time of one matrix. conjugated: the
    update conjugates its first factor.
    """
    stride = -(-(ARGUMENT_BYTES + scratch) // 64) * 64
    cost = cost_model.FIXED_NS + predicted(matrices) * cost_ns
    chunks = cost_model.chunks_for(cost, matrices)
    launch = Launch(
        source,
        (*words, Pointer("temp", 0), stride, subtract_pointer(number, conjugated)),
        chunks=chunks,
        cost_ns=cost,
        errors=errors,
    )
    return NativeCall((launch,), temp_bytes=(chunks * stride,), bytes_moved=predicted(nbytes))


def solver_ns(number: Arithmetic, terms: float, elements: float) -> float:
    """Return the predicted time of a matrix.

    terms: products. elements: elements that are touched.
    """
    weight = number.dtype.size / 4 * (2 if number.dtype.is_complex else 1)
    return _MATRIX_NS + _TERM_NS * weight * terms + _ELEMENT_NS * elements


def square_batch(x: TensorSpec) -> tuple[int, int]:
    """Return the number of matrices and their size.

    Raises Unsupported for shapes that are errors, and for matrices without elements.
    """
    if len(x.shape) < 2 or not x.shape[-1] == x.shape[-2]:
        raise Unsupported("shapes do not fit: the reference tells")
    count = TensorSpec(x.dtype, x.shape[:-2]).size
    if x.shape[-1] == 0 or not at_least(count) > 0:
        raise Unsupported("matrices without elements")
    return count, x.shape[-1]


def write_lu(s: Source, number: Arithmetic) -> None:
    """Write the LU factorisation of a matrix, in place, with row exchanges.

    The text has the variables `matrix`, `size`, `row` (bytes from a row to the next), `order` (the
    address of an int64 for each row, which gets the number of the input's row), and `panel` (the
    address of BLOCK columns). Sets `bad` to 1 for a
    matrix that is not invertible.

    Right-looking: a panel of columns is factored in a transposed copy with
    contiguous columns; the rows beside it are solved, and the rest loses their product.
    """
    size = number.dtype.size
    with s.block("for i in range(size):"):
        s.line("store_word(order + 8 * i, i)")
    s.line("bad = 0")
    s.line(f"blocks = (size + {BLOCK - 1}) // {BLOCK}")
    with s.block("for turn in range(blocks):"):
        s.line(f"start = turn * {BLOCK}")
        s.line(f"stop = min(start + {BLOCK}, size)")
        s.line("tall = size - start")
        _write_panel_copy(s, number, back=False)
        with s.block("for j in range(stop - start):"):
            _write_pivot(s, number)
            with s.block("if bad != 0:"):
                s.line("break")
            _write_column(s, number)
        with s.block("if bad != 0:"):
            s.line("break")
        _write_panel_copy(s, number, back=True)
        s.line("across = size - stop")
        with s.block("if across > 0:"):
            s.line(f"x = matrix + stop * {size}")
            s.line("x_row = row")
            s.line("triangle = matrix")
            s.line("triangle_row = row")
            s.line(f"triangle_step = {size}")
            write_substitution(s, number, lower=True, unit=True)
            write_subtract(
                s,
                f"matrix + stop * row + stop * {size}",
                "row",
                f"matrix + stop * row + start * {size}",
                f"row, {size}",
                f"matrix + start * row + stop * {size}",
                "row",
                "across, across, stop - start",
            )


def _write_panel_copy(s: Source, number: Arithmetic, back: bool) -> None:
    s.line(f"panel_p = {number.pointer('panel')}")
    with s.block("for i in range(tall):"):
        at = f"matrix + (start + i) * row + start * {number.dtype.size}"
        s.line(f"row_p = {number.pointer(at)}")
        with s.block("for j in range(stop - start):"):
            s.line(
                "st_any(row_p, j, ld_any(panel_p, j * tall + i))"
                if back
                else "st_any(panel_p, j * tall + i, ld_any(row_p, j))"
            )


def _write_pivot(s: Source, number: Arithmetic) -> None:
    """Write the search for the pivot of column j.

    Its row and row j are exchanged.

    As in Eigen NaN is the pivot where it comes first, else passed over. Magnitudes are compared as
    integers, of which LLVM vectorises the maximum. The first pivot must be positive, the others
    must not be zero.
    """
    size = number.dtype.size
    s.line(f"column_p = {number.pointer(f'panel + j * tall * {size}')}")
    s.line(f"level = {number.magnitude('ld_any(column_p, j)')}")
    s.line("best = j")
    with s.block("if level == level:"):
        s.line(f"most = {number.bits('level')}")
        with s.block("for i in range(tall - j - 1):"):
            s.line(f"other_level = {number.magnitude('ld_any(column_p, j + 1 + i)')}")
            zero = number.bits("level - level")
            s.line(
                f"key = select(other_level == other_level, {number.bits('other_level')}, {zero})"
            )
            s.line("most = select(key > most, key, most)")
        found = number.bits(number.magnitude("ld_any(column_p, best)"))
        with s.block(f"while best < tall - 1 and {found} != most:"):
            s.line("best += 1")
        s.line(f"level = {number.magnitude('ld_any(column_p, best)')}")
    with s.block("if (level != level and turn + j == 0) or level == 0:"):
        s.line("bad = 1")
    with s.block("else:"), s.block("if best != j:"):
        s.line("old = load_word(order + 8 * (start + j))")
        s.line("store_word(order + 8 * (start + j), load_word(order + 8 * (start + best)))")
        s.line("store_word(order + 8 * (start + best), old)")
        with s.block("for k in range(stop - start):"):
            s.line("value = ld_any(panel_p, k * tall + j)")
            s.line("st_any(panel_p, k * tall + j, ld_any(panel_p, k * tall + best))")
            s.line("st_any(panel_p, k * tall + best, value)")
        for side, width in (("0", "start"), ("stop", "size - stop")):
            for name, place in (("up", "j"), ("down", "best")):
                at = f"matrix + (start + {place}) * row + {side} * {size}"
                s.line(f"{name}_p = {number.pointer(at)}")
            with s.block(f"for k in range({width}):"):
                s.line("value = ld_any(up_p, k)")
                s.line("st_any(up_p, k, ld_any(down_p, k))")
                s.line("st_any(down_p, k, value)")


def _write_column(s: Source, number: Arithmetic) -> None:
    """Write the elimination of column j of the panel.

    The quotients' products are subtracted from the next columns.
    """
    size = number.dtype.size
    s.line("pivot = ld_any(column_p, j)")
    s.line(f"quotient_p = {number.pointer(f'panel + (j * tall + j + 1) * {size}')}")
    s.line("below = tall - j - 1")
    with s.block("for i in range(below):"):
        s.line(f"st_any(quotient_p, i, {number.quotient('ld_any(quotient_p, i)', 'pivot')})")
    with s.block("for k in range(j + 1, stop - start):"):
        s.line("factor = ld_any(panel_p, k * tall + j)")
        s.line(f"next_p = {number.pointer(f'panel + (k * tall + j + 1) * {size}')}")
        with s.block("for i in range(below):"):
            s.line("other = ld_any(quotient_p, i)")
            s.line(f"value = {number.minus_product('ld_any(next_p, i)', 'factor', 'other')}")
            s.line("st_any(next_p, i, value)")


@functools.cache
def lu_source(number: Arithmetic, index: str) -> KernelSource:
    """Write the factors of matrices, and their row orders.

    Both factors are in one matrix. index: the kind of the orders.

    Words: matrices, size, input, factors, orders; then those of `write_matrices`.
    """
    s = Source()
    number.write_imports(s, f"LU factors with {index}")
    with s.block("def kernel(args, chunk, nchunks):"):
        write_matrices(s, ("matrices", "size", "input", "output", "orders"))
        s.line(f"row = size * {number.dtype.size}")
        s.line(f"order = block + {ARGUMENT_BYTES}")
        s.line("panel = order + (8 * size + 63) // 64 * 64")
        s.line("failed = 0")
        with s.block("for n in range(count):"):
            s.line("matrix = output + (first + n) * size * row")
            s.line("copy_bytes(matrix, input + (first + n) * size * row, size * row)")
            write_lu(s, number)
            s.line("failed |= bad")
            s.line(f"order_p = ptr_{index}(orders + (first + n) * size * {index[1:]} // 8)")
            with s.block("for i in range(size):"):
                s.line("st_any(order_p, i, load_word(order + 8 * i))")
        with s.block("if failed != 0:"):
            s.line("fail(args, 1, 0)")
    return KernelSource(s.text(), title=f"LU factors {number.kind}", module=__name__)


def _scratch(number: Arithmetic, size: int, matrices: int) -> int:
    """Return the bytes for the order, a panel, and some matrices."""
    order = (8 * size + 63) // 64 * 64
    return order + size * number.dtype.size * (BLOCK + matrices * size)


@native("Lu")
def _lu(spec: NodeSpec) -> NativeCall:
    (x,) = spec.inputs
    number = arithmetic(x.dtype)
    count, size = square_batch(x)
    index = "i32" if spec.outputs[1].dtype is d.int32 else "i64"
    words = (count, size, Pointer("in", 0), Pointer("out", 0), Pointer("out", 1))
    m = predicted(size)
    cost = solver_ns(number, m * m * m / 3, m * m)
    return linear_call(
        lu_source(number, index),
        words,
        number,
        count,
        _scratch(number, size, 0),
        cost,
        _SINGULAR,
        2 * x.nbytes,
    )


@functools.cache
def inverse_source(number: Arithmetic, adjoint: bool) -> KernelSource:
    """Write inverses of matrices.

    The factors are applied to the identity; the columns are put in the order of the rows.

    Words: matrices, size, input, output; then those of `write_matrices`.
    """
    s = Source()
    number.write_imports(s, f"inverses{' of conjugate transposes' if adjoint else ''}")
    size = number.dtype.size
    with s.block("def kernel(args, chunk, nchunks):"):
        write_matrices(s, ("matrices", "size", "input", "output"))
        s.line(f"row = size * {size}")
        s.line(f"order = block + {ARGUMENT_BYTES}")
        s.line("panel = order + (8 * size + 63) // 64 * 64")
        s.line(f"matrix = panel + {BLOCK} * row")
        s.line("solved = matrix + size * row")
        s.line("failed = 0")
        with s.block("for n in range(count):"):
            s.line("copy_bytes(matrix, input + (first + n) * size * row, size * row)")
            write_lu(s, number)
            with s.block("if bad != 0:"):
                s.line("failed = 1")
                s.line("break")
            s.line("fill_bytes(solved, 0, size * row)")
            s.line(f"solved_p = {number.pointer('solved')}")
            with s.block("for i in range(size):"):
                s.line(f"st_any(solved_p, i * size + i, {number.number(1)})")
            for name, value in (("x", "solved"), ("x_row", "row"), ("width", "size")):
                s.line(f"{name} = {value}")
            s.line("triangle = matrix")
            s.line("triangle_row = row")
            s.line(f"triangle_step = {size}")
            # the inverse of a lower triangle is one
            write_solve(s, number, lower=True, unit=True, columns="stop")
            write_solve(s, number, lower=False, unit=False)
            s.line(f"result_p = {number.pointer('output + (first + n) * size * row')}")
            with s.block("for i in range(size):"):
                s.line(f"solved_p = {number.pointer('solved + i * row')}")
                with s.block("for j in range(size):"):
                    s.line("place = load_word(order + 8 * j)")
                    if adjoint:
                        value = number.conjugate("ld_any(solved_p, j)")
                        s.line(f"st_any(result_p, place * size + i, {value})")
                    else:
                        s.line("st_any(result_p, i * size + place, ld_any(solved_p, j))")
        with s.block("if failed != 0:"):
            s.line("fail(args, 1, 0)")
    return KernelSource(s.text(), title=f"inverses {number.kind}", module=__name__)


@native("MatrixInverse", "BatchMatrixInverse")
def _inverse(spec: NodeSpec) -> NativeCall:
    (x,) = spec.inputs
    number = arithmetic(x.dtype)
    count, size = square_batch(x)
    words = (count, size, Pointer("in", 0), Pointer("out", 0))
    m = predicted(size)
    cost = solver_ns(number, m * m * m, 4 * m * m)
    return linear_call(
        inverse_source(number, bool(spec.attrs.get("adjoint"))),
        words,
        number,
        count,
        _scratch(number, size, 2),
        cost,
        _SINGULAR,
        2 * x.nbytes,
    )
