"""Build solvers of linear systems: general, triangular and tridiagonal."""

from __future__ import annotations

import functools
from typing import Final

from tfjit.kernels.cpu.linear_algebra.blocks import (
    ARGUMENT_BYTES,
    BLOCK,
    Arithmetic,
    arithmetic,
    write_copy,
    write_solve,
)
from tfjit.kernels.cpu.linear_algebra.factorizations import (
    linear_call,
    solver_ns,
    square_batch,
    write_lu,
    write_matrices,
)
from tfjit.kernels.cpu.template import cost_model
from tfjit.kernels.ir.symbolic_size import at_least, predicted
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, Unsupported, native
from tfjit.kernels.source import KernelSource, Source

_SINGULAR: Final = {1: ("InvalidArgumentError", "Input matrix is not invertible.")}
_STEP_NS: Final = 12.0


def _check_pair(spec: NodeSpec) -> None:
    matrix, right = spec.inputs[:2]
    if len(right.shape) != len(matrix.shape) or right.shape[:-2] != matrix.shape[:-2]:
        raise Unsupported("batches do not fit: the reference tells or broadcasts")
    if right.shape[-2] != matrix.shape[-1] or right.dtype is not matrix.dtype:
        raise Unsupported("shapes do not fit: the reference tells")
    if not at_least(right.shape[-1]) > 0:
        raise Unsupported("no right sides")


@functools.cache
def solve_source(number: Arithmetic, adjoint: bool) -> KernelSource:
    """Write the solutions of matrix x = right by the LU factors.

    Words: matrices, size, width, matrix, right, output; then those of `write_matrices`.
    """
    s = Source()
    number.write_imports(s, f"solutions{' of conjugate transposes' if adjoint else ''}")
    size = number.dtype.size
    with s.block("def kernel(args, chunk, nchunks):"):
        write_matrices(s, ("matrices", "size", "width", "input", "right", "output"))
        s.line(f"row = size * {size}")
        s.line(f"x_bytes = width * {size}")
        s.line(f"order = block + {ARGUMENT_BYTES}")
        s.line("panel = order + (8 * size + 63) // 64 * 64")
        s.line(f"matrix = panel + {BLOCK} * row")
        s.line("failed = 0")
        with s.block("for n in range(count):"):
            s.line("source = input + (first + n) * size * row")
            s.line("target = matrix")
            write_copy(s, number, adjoint, "row", "row")
            write_lu(s, number)
            with s.block("if bad != 0:"):
                s.line("failed = 1")
                s.line("break")
            s.line("sides = right + (first + n) * size * x_bytes")
            s.line("x = output + (first + n) * size * x_bytes")
            with s.block("for i in range(size):"):
                s.line(
                    "copy_bytes(x + i * x_bytes, sides + load_word(order + 8 * i) * x_bytes, "
                    "x_bytes)"
                )
            s.line("x_row = x_bytes")
            s.line("triangle = matrix")
            s.line("triangle_row = row")
            s.line(f"triangle_step = {size}")
            write_solve(s, number, lower=True, unit=True)
            write_solve(s, number, lower=False, unit=False)
        with s.block("if failed != 0:"):
            s.line("fail(args, 1, 0)")
    return KernelSource(s.text(), title=f"solutions {number.kind}", module=__name__)


@native("MatrixSolve", "BatchMatrixSolve")
def _solve(spec: NodeSpec) -> NativeCall:
    matrix, right = spec.inputs
    number = arithmetic(matrix.dtype)
    count, size = square_batch(matrix)
    _check_pair(spec)
    width = right.shape[-1]
    words = (count, size, width, Pointer("in", 0), Pointer("in", 1), Pointer("out", 0))
    m, n = predicted(size), predicted(width)
    cost = solver_ns(number, m * m * m / 3 + m * m * n, 2 * m * m + m * n)
    order = (8 * size + 63) // 64 * 64
    return linear_call(
        solve_source(number, bool(spec.attrs.get("adjoint"))),
        words,
        number,
        count,
        order + size * number.dtype.size * (BLOCK + size),
        cost,
        _SINGULAR,
        matrix.nbytes + 2 * right.nbytes,
    )


@functools.cache
def triangular_source(number: Arithmetic, lower: bool, adjoint: bool) -> KernelSource:
    """Write the solutions of triangular systems.

    Words: matrices, size, width, triangles, bytes from one triangle to the next (0 for one that
    serves all), right, output; then those of `write_matrices`. lower: of the given matrix.
    """
    s = Source()
    kind = f"{'lower' if lower else 'upper'} triangles{' as adjoints' if adjoint else ''}"
    number.write_imports(s, f"solutions of {kind}")
    size = number.dtype.size
    with s.block("def kernel(args, chunk, nchunks):"):
        names = ("matrices", "size", "width", "input", "apart", "right", "output")
        write_matrices(s, names)
        across, down = ("row", "step") if adjoint else ("step", "row")
        s.line(f"triangle_{down} = size * {size}")
        s.line(f"triangle_{across} = {size}")
        s.line(f"x_row = width * {size}")
        with s.block("for n in range(count):"):
            s.line("triangle = input + (first + n) * apart")
            s.line("x = output + (first + n) * size * x_row")
            s.line("copy_bytes(x, right + (first + n) * size * x_row, size * x_row)")
            write_solve(s, number, lower != adjoint, False, conjugated=adjoint)
    return KernelSource(s.text(), title=f"solutions of {kind} {number.kind}", module=__name__)


@native("MatrixTriangularSolve", "BatchMatrixTriangularSolve")
def _triangular_solve(spec: NodeSpec) -> NativeCall:
    matrix, right = spec.inputs
    number = arithmetic(matrix.dtype)
    count, size = square_batch(matrix)
    shared = len(matrix.shape) == 2 and len(right.shape) > 2
    if not shared:
        _check_pair(spec)
    elif right.shape[-2] != size or not at_least(right.size) > 0:
        raise Unsupported("shapes do not fit: the reference tells")
    width = right.shape[-1]
    if shared:
        for dim in right.shape[:-2]:
            count = count * dim
    adjoint = bool(spec.attrs.get("adjoint"))
    apart = 0 if shared else size * size * number.dtype.size
    inputs = (Pointer("in", 0), apart, Pointer("in", 1), Pointer("out", 0))
    m, n = predicted(size), predicted(width)
    cost = solver_ns(number, m * m * n / 2, m * n + m * m / 4)
    return linear_call(
        triangular_source(number, bool(spec.attrs["lower"]), adjoint),
        (count, size, width, *inputs),
        number,
        count,
        0,
        cost,
        {},
        matrix.nbytes + 2 * right.nbytes,
        conjugated=adjoint and number.dtype.is_complex,
    )


@functools.cache
def tridiagonal_source(number: Arithmetic, pivoting: bool) -> KernelSource:
    """Write the solutions of tridiagonal systems by elimination.

    Words: systems, size, width, diagonals, right, output, scratch, bytes of one scratch. A singular
    system gives NaN. Rows are exchanged with `pivoting`, which fills a second diagonal above the
    main one; without it Thomas' algorithm is left. The values of the row that waits for the next
    step are kept in registers.
    """
    s = Source()
    number.write_imports(s, f"tridiagonal systems{' with row exchanges' if pivoting else ''}")
    size = number.dtype.size
    zero = number.number(0)
    with s.block("def kernel(args, chunk, nchunks):"):
        names = ("systems", "size", "width", "diagonals", "right", "output", "scratch", "stride")
        for i, name in enumerate(names):
            s.line(f"{name} = word(args, {i + 2})")
        for i, name in enumerate(("main", "next", "second")):
            s.line(f"{name}_p = {number.pointer(f'scratch + chunk * stride + {i * size} * size')}")
        s.line("first = systems * chunk // nchunks")
        with s.block("for n in range(systems * (chunk + 1) // nchunks - first):"):
            s.line("system = first + n")
            for i, name in enumerate(("above", "middle", "below")):
                at = f"diagonals + (3 * system + {i}) * size * {size}"
                s.line(f"{name}_p = {number.pointer(at)}")
            s.line(f"x = output + system * size * width * {size}")
            s.line(f"copy_bytes(x, right + system * size * width * {size}, size * width * {size})")
            s.line(f"x_p = {number.pointer('x')}")
            s.line("pivot = ld(middle_p, 0)")
            s.line(f"after = ld(above_p, 0) if size > 1 else {zero}")
            s.line("singular = 0")
            with s.block("for i in range(size - 1):"):
                _write_elimination(s, number, pivoting)
            s.line("st_any(main_p, size - 1, pivot)")
            with s.block(f"if pivot == {zero}:"):
                s.line("singular = 1")
            with s.block("if singular != 0:"), s.block("for j in range(size * width):"):
                s.line(f"st_any(x_p, j, {number.dtype.name}(1e999 - 1e999))")
            with s.block("else:"):
                _write_back_substitution(s, number, pivoting)
    title = f"tridiagonal systems {number.kind}"
    return KernelSource(s.text(), title=title, module=__name__)


def _write_elimination(s: Source, number: Arithmetic, pivoting: bool) -> None:
    """Write a step: a multiple of row i leaves the next."""
    zero = number.number(0)
    s.line("under = ld(below_p, i + 1)")
    s.line("center = ld(middle_p, i + 1)")
    s.line(f"over = ld(above_p, i + 1) if i + 2 < size else {zero}")
    s.line(f"spare = {zero}")
    s.line("at = i * width")
    if pivoting:
        under, pivot = number.magnitude("under"), number.magnitude("pivot")
        with s.block(f"if {under} > {pivot}:"):
            for a, b in (("pivot", "under"), ("after", "center"), ("spare", "over")):
                s.line(f"held = {a}")
                s.line(f"{a} = {b}")
                s.line(f"{b} = held")
            with s.block("for j in range(width):"):
                s.line("value = ld_any(x_p, at + j)")
                s.line("st_any(x_p, at + j, ld_any(x_p, at + width + j))")
                s.line("st_any(x_p, at + width + j, value)")
        s.line("st_any(second_p, i, spare)")
    s.line("st_any(main_p, i, pivot)")
    s.line("st_any(next_p, i, after)")
    with s.block(f"if pivot == {zero}:"):
        s.line("singular = 1")
    s.line(f"factor = {number.quotient('under', 'pivot')}")
    with s.block("for j in range(width):"):
        product = number.product("factor", "ld_any(x_p, at + j)")
        s.line(f"st_any(x_p, at + width + j, ld_any(x_p, at + width + j) - {product})")
    s.line(f"pivot = center - {number.product('factor', 'after')}")
    s.line(f"after = over - {number.product('factor', 'spare')}" if pivoting else "after = over")


def _write_back_substitution(s: Source, number: Arithmetic, pivoting: bool) -> None:
    with s.block("for back in range(size):"):
        s.line("i = size - 1 - back")
        s.line("at = i * width")
        s.line("pivot = ld_any(main_p, i)")
        for least, diagonal in ((1, "next"), (2, "second"))[: 2 if pivoting else 1]:
            with s.block(f"if back >= {least}:"):
                s.line(f"factor = ld_any({diagonal}_p, i)")
                with s.block("for j in range(width):"):
                    product = number.product("factor", f"ld_any(x_p, at + {least} * width + j)")
                    s.line(f"st_any(x_p, at + j, ld_any(x_p, at + j) - {product})")
        with s.block("for j in range(width):"):
            s.line(f"st_any(x_p, at + j, {number.quotient('ld_any(x_p, at + j)', 'pivot')})")


@native("TridiagonalSolve")
def _tridiagonal_solve(spec: NodeSpec) -> NativeCall:
    diagonals, right = spec.inputs
    number = arithmetic(diagonals.dtype)
    if spec.attrs["perturb_singular"]:
        raise Unsupported("a perturbed singular system")
    if len(diagonals.shape) < 2 or diagonals.shape[-2] != 3:
        raise Unsupported("shapes do not fit: the reference tells")
    _check_pair(spec)
    size, width = right.shape[-2:]
    systems = 1
    for dim in right.shape[:-2]:
        systems = systems * dim
    if not at_least(size) > 0 or not at_least(systems) > 0:
        raise Unsupported("systems without elements")
    stride = -(-3 * size * number.dtype.size // 64) * 64
    weight = 4 if number.dtype.is_complex else 1
    cost = cost_model.FIXED_NS + _STEP_NS * weight * predicted(systems * size) * (
        1 + predicted(width) / 8
    )
    chunks = cost_model.chunks_for(cost, systems)
    words = (systems, size, width, Pointer("in", 0), Pointer("in", 1), Pointer("out", 0))
    launch = Launch(
        tridiagonal_source(number, bool(spec.attrs["partial_pivoting"])),
        (*words, Pointer("temp", 0), stride),
        chunks=chunks,
        cost_ns=cost,
    )
    moved = predicted(diagonals.nbytes + 2 * right.nbytes)
    return NativeCall((launch,), temp_bytes=(chunks * stride,), bytes_moved=moved)
