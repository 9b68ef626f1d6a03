"""Write the parts of blocked factorisations: updates by products and triangular solves.

Matrices are row-major. A factorisation spends its time in `subtract_source`, a separate kernel:
only there is it known that the three matrices do not overlap.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Final

from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.template import typed_pointers
from tfjit.kernels.jit import target
from tfjit.kernels.registry import Pointer, Unsupported
from tfjit.kernels.source import KernelSource, Source

BLOCK: Final = 16
"""Rows that are solved, or columns that are factored, at a time."""
ARGUMENT_BYTES: Final = 128
"""Bytes of the argument block of a call of `subtract_source`."""
_KINDS: Final = {d.float32: "f32", d.float64: "f64", d.complex64: "c64", d.complex128: "c128"}
_ROWS: Final = 4
_TERMS: Final = 4


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Write scalar arithmetic of a dtype.

    kind: the suffix of vm functions. fused: products are added with one rounding.
    """

    dtype: DType
    kind: str
    fused: bool

    def pointer(self, address: str) -> str:
        """Return a pointer to elements at an address."""
        return typed_pointers.pointer(self.dtype, address)

    def number(self, value: int) -> str:
        """Return a literal."""
        return expressions.literal(value, self.dtype)

    def minus_product(self, c: str, a: str, b: str) -> str:
        """Return c - a * b."""
        if self.fused:
            return f"fma(-{a}, {b}, {c})"
        return f"{c} - {self.product(a, b)}"

    def product(self, a: str, b: str) -> str:
        """Return a * b."""
        return f"{a} * {b}"

    def quotient(self, a: str, b: str) -> str:
        """Return a / b."""
        return f"vm.div_{self.kind}({a}, {b})" if self.dtype.is_complex else f"{a} / {b}"

    def conjugate(self, a: str) -> str:
        """Return the conjugate."""
        return f"vm.conj_{self.kind}({a})" if self.dtype.is_complex else a

    def magnitude(self, a: str) -> str:
        """Return the absolute value, a real number."""
        return f"vm.abs_{self.kind}({a})" if self.dtype.is_complex else f"fabs({a})"

    def bits(self, a: str) -> str:
        """Return a real number's bits as an integer."""
        return f"{'f32' if self.kind in ('f32', 'c64') else 'f64'}_bits({a})"

    def real(self, a: str) -> str:
        """Return the real part."""
        return f"vm.real_{self.kind}({a})" if self.dtype.is_complex else a

    def complex(self, a: str) -> str:
        """Return a real number in the dtype."""
        kind = self.kind
        if not self.dtype.is_complex:
            return a
        part = "float32" if kind == "c64" else "float64"
        return f"vm.complex_{'f32' if kind == 'c64' else 'f64'}({a}, {part}(0))"

    def write_imports(self, s: Source, title: str) -> None:
        """Write the head of a text."""
        s.line(f"# {title} {self.dtype.name}{' with fused sums' if self.fused else ''}")
        for line in expressions.IMPORTS:
            s.line(line)
        s.line("from tfjit.kernels.codegen.intrinsics import *")


@functools.cache
def arithmetic(dtype: DType) -> Arithmetic:
    """Return the arithmetic of a dtype on this host.

    Raises Unsupported for a type without factorisations.
    """
    if dtype not in _KINDS:
        raise Unsupported(f"factorisations of {dtype.name}")
    fused = not dtype.is_complex and target.host().isa != "generic"
    return Arithmetic(dtype, _KINDS[dtype], fused)


@functools.cache
def subtract_source(number: Arithmetic, conjugated: bool = False) -> KernelSource:
    """Write C -= A B.

    Words: c, bytes from a row of C to the next; a, bytes from a row of A to the next and from a
    term to the next; b, bytes from a row of B to the next; rows of C, columns of C, and terms. Row
    i of C is written as buffer i mod 4, so that the rows of a step are known to be distinct.
    conjugated: A is conjugated.
    """
    s = Source()
    number.write_imports(s, f"update by a product{', conjugated' if conjugated else ''}")
    with s.block("def kernel(args, chunk, nchunks):"):
        names = ("c", "c_row", "a", "a_row", "a_step", "b", "b_row", "rows", "columns", "terms")
        for i, name in enumerate(names):
            s.line(f"{name} = word(args, {i + 2})")
        s.line(f"whole_rows = rows // {_ROWS}")
        s.line(f"whole_terms = terms // {_TERMS}")
        with s.block("for group in range(whole_rows):"):
            s.line(f"row = group * {_ROWS}")
            _write_terms(s, number, range(_ROWS), conjugated)
        for r in range(_ROWS - 1):
            with s.block(f"if whole_rows * {_ROWS} + {r} < rows:"):
                s.line(f"row = whole_rows * {_ROWS}")
                _write_terms(s, number, range(r, r + 1), conjugated)
    return KernelSource(s.text(), title=f"subtracted product {number.kind}", module=__name__)


def _write_terms(s: Source, number: Arithmetic, rows: range, conjugated: bool) -> None:
    """Write the update of some rows, several terms at a time."""
    for r in rows:
        s.line(f"c{r} = {number.pointer(f'c + (row + {r}) * c_row')}")
        s.line(f"a{r} = {number.pointer(f'a + (row + {r}) * a_row')}")
    with s.block("for step in range(whole_terms):"):
        s.line(f"term = step * {_TERMS}")
        _write_step(s, number, rows, _TERMS, conjugated)
    with s.block(f"for term in range(whole_terms * {_TERMS}, terms):"):
        _write_step(s, number, rows, 1, conjugated)


def _write_step(s: Source, number: Arithmetic, rows: range, terms: int, conjugated: bool) -> None:
    for t in range(terms):
        s.line(f"b{t} = {number.pointer(f'b + (term + {t}) * b_row')}")
        for r in rows:
            value = f"ld_at(a{r}, (term + {t}) * a_step)"
            s.line(f"x{r}{t} = {number.conjugate(value) if conjugated else value}")
    with s.block("for j in range(columns):"):
        for t in range(terms):
            s.line(f"y{t} = ld(b{t}, j)")
        for r in rows:
            s.line(f"z{r} = ld_out(c{r}, j, {r})")
            for t in range(terms):
                s.line(f"z{r} = {number.minus_product(f'z{r}', f'x{r}{t}', f'y{t}')}")
            s.line(f"st_out(c{r}, j, z{r}, {r})")


def subtract_pointer(number: Arithmetic, conjugated: bool = False) -> Pointer:
    """Return the address of the update."""
    return Pointer("code", source=subtract_source(number, conjugated), entry="kernel")


def write_subtract(
    s: Source, c: str, c_row: str, a: str, a_strides: str, b: str, b_row: str, sizes: str
) -> None:
    """Write a call of the update.

    The text has the variables `subtract`, the address of the kernel, and `block`, that of its
    argument block. a_strides: "a_row, a_step". sizes: "rows, columns, terms".
    """
    values = (c, c_row, a, *a_strides.split(", "), b, b_row, *sizes.split(", "))
    for i, value in enumerate(values):
        s.line(f"store_word(block + {8 * (i + 2)}, {value})")
    s.line("call(subtract, block, 0, 1)")


def write_solve(
    s: Source,
    number: Arithmetic,
    lower: bool,
    unit: bool,
    columns: str | None = None,
    conjugated: bool = False,
) -> None:
    """Write the solution of triangle x = right in place.

    x is the right sides at first.

    The text has the variables `triangle`, `x` and `x_row` (addresses, and bytes from a row of x to
    the next), `triangle_row` and `triangle_step` (bytes from a row of the triangle to the next, and
    from a column), `size` and `width` (columns of x). unit: the diagonal is 1 and not read.
    columns: the number of columns that count in rows up to `stop`, where others are zero.
    conjugated: the triangle is; `subtract` conjugates it, too.

    Each block of rows loses the product with the rows that are solved, then is solved by
    substitution.
    """
    width = columns or "width"
    s.line(f"blocks = (size + {BLOCK - 1}) // {BLOCK}")
    with s.block("for turn in range(blocks):"):
        s.line(f"start = {'turn' if lower else '(blocks - 1 - turn)'} * {BLOCK}")
        s.line(f"stop = min(start + {BLOCK}, size)")
        s.line(f"across = {width}")
        edge = "start" if lower else "size - stop"
        with s.block(f"if {edge} > 0:"):
            done = "0" if lower else "stop"
            write_subtract(
                s,
                "x + start * x_row",
                "x_row",
                f"triangle + start * triangle_row + {done} * triangle_step",
                "triangle_row, triangle_step",
                f"x + {done} * x_row",
                "x_row",
                f"stop - start, across, {edge}",
            )
        write_substitution(s, number, lower, unit, conjugated)


def write_substitution(
    s: Source, number: Arithmetic, lower: bool, unit: bool, conjugated: bool = False
) -> None:
    """Write the solution of rows start..stop of x, `across` columns wide.

    `triangle` is read between these rows and columns only.
    """

    def element(column: str) -> str:
        value = f"ld_any_at(t_i, {column} * triangle_step)"
        return number.conjugate(value) if conjugated else value

    with s.block("for i0 in range(stop - start):"):
        s.line(f"i = {'start + i0' if lower else 'stop - 1 - i0'}")
        s.line(f"x_i = {number.pointer('x + i * x_row')}")
        s.line(f"t_i = {number.pointer('triangle + i * triangle_row')}")
        s.line("pairs = i0 // 2")
        place = "start + {}" if lower else "stop - 1 - {}"
        with s.block("for k0 in range(pairs):"):
            for n in range(2):
                s.line(f"k = {place.format(f'(2 * k0 + {n})')}")
                s.line(f"x_k{n} = {number.pointer('x + k * x_row')}")
                s.line(f"factor{n} = {element('k')}")
            with s.block("for j in range(across):"):
                s.line("value = ld_any(x_i, j)")
                for n in range(2):
                    s.line(f"other{n} = ld_any(x_k{n}, j)")
                    s.line(f"value = {number.minus_product('value', f'factor{n}', f'other{n}')}")
                s.line("st_any(x_i, j, value)")
        with s.block("if 2 * pairs < i0:"):
            s.line(f"k = {place.format('2 * pairs')}")
            s.line(f"x_k0 = {number.pointer('x + k * x_row')}")
            s.line(f"factor0 = {element('k')}")
            with s.block("for j in range(across):"):
                s.line("other0 = ld_any(x_k0, j)")
                s.line(f"value = {number.minus_product('ld_any(x_i, j)', 'factor0', 'other0')}")
                s.line("st_any(x_i, j, value)")
        if not unit:
            s.line(f"pivot = {element('i')}")
            with s.block("for j in range(across):"):
                s.line(f"st_any(x_i, j, {number.quotient('ld_any(x_i, j)', 'pivot')})")


def write_copy(
    s: Source, number: Arithmetic, transposed: bool, target_row: str, source_row: str
) -> None:
    """Write a copy of a square matrix.

    It has `size` rows and goes from `source` to `target`.

    transposed: the conjugate transpose. Rows are that many bytes apart.
    """
    if not transposed:
        with s.block("for i in range(size):"):
            s.line(
                f"copy_bytes(target + i * {target_row}, source + i * {source_row}, "
                f"size * {number.dtype.size})"
            )
        return
    with s.block("for i in range(size):"):
        s.line(f"from_p = {number.pointer(f'source + i * {source_row}')}")
        with s.block("for j in range(size):"):
            s.line(f"value = {number.conjugate('ld_any(from_p, j)')}")
            s.line(f"to_p = {number.pointer(f'target + j * {target_row}')}")
            s.line("st_any(to_p, i, value)")
