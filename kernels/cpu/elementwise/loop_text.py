"""Write elementwise loops: operands, the loops over dims, one row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.template import typed_pointers
from tfjit.kernels.ir.scalar_program import Program
from tfjit.kernels.source import KernelSource, Source

CONTIGUOUS: Final = "c"
HOISTED: Final = "s"
STRIDED: Final = "g"

HEADER: Final = (*expressions.IMPORTS, "from tfjit.kernels.codegen.intrinsics import *", "", "")


@dataclass(frozen=True, slots=True)
class LoopOperand:
    """An input or output of a loop's text.

    name: in the text; pattern: its stride class along the inner dim; output: its number, or -1.
    every: the step of a strided operand in elements, if the text holds it; 0 if an argument word
    does.
    """

    name: str
    dtype: DType
    pattern: str
    output: int = -1
    every: int = 0


def inner_pattern(stride: int, dtype: DType) -> str:
    """Return an operand's stride class along the inner dimension.

    The classes are contiguous, constant (read once a row), and strided.
    """
    if stride == dtype.size:
        return CONTIGUOUS
    return HOISTED if stride == 0 else STRIDED


def static_stride(stride: int, dtype: DType) -> int:
    """Return LoopOperand.every of an operand with that stride.

    For these steps LLVM loads whole vectors and picks elements from them.
    """
    return (
        stride // dtype.size
        if stride in (-dtype.size, 2 * dtype.size, 3 * dtype.size, 4 * dtype.size)
        else 0
    )


def loop_source(
    program: Program, rank: int, operands: Sequence[LoopOperand], title: str = ""
) -> KernelSource:
    """Write the kernel of a loop over `rank` dims.

    operands: the program's inputs, then its outputs. Argument words: the sizes of its dims, the
    number of parts the inner dim is cut into (rank > 1), then for each operand its address, for
    rank > 1 its byte strides along the outer dims, and for a strided one its inner stride.
    """
    s = Source()
    s.line(f"# {rank}-d loop: {' '.join(op.op for op in program.ops) or 'copy'}")
    for line in HEADER:
        s.line(line)
    fails = bool(expressions.program_errors(program))
    inner = rank - 1
    with s.block("def kernel(args, chunk, nchunks):"):
        if fails:
            s.line("bad = 0")
        for d in range(rank):
            s.line(f"n{d} = word(args, {2 + d})")
        at = 2 + rank + (rank > 1)
        base: dict[str, str] = {}
        for o in operands:
            base[o.name] = f"word(args, {at})"
            if rank > 1:
                s.line(f"{o.name}_at = {base[o.name]}")
                base[o.name] = " + ".join(
                    [f"{o.name}_at", *(f"i{d} * {o.name}_s{d}" for d in range(inner))]
                )
            for d in range(inner):
                s.line(f"{o.name}_s{d} = word(args, {at + 1 + d})")
            at += 1 + inner
            if o.pattern == STRIDED:
                s.line(f"{o.name}_step = word(args, {at})")
                at += 1
        if rank == 1:
            s.line("lo = n0 * chunk // nchunks")
            s.line("m = n0 * (chunk + 1) // nchunks - lo")
            write_row(s, program, operands, base, fails)
        else:
            s.line(f"parts = word(args, {2 + rank})")
            s.line(f"units = {' * '.join(f'n{d}' for d in range(inner))} * parts")
            s.line("first = units * chunk // nchunks")
            s.line("count = units * (chunk + 1) // nchunks - first")
            s.line(f"width = n{inner} // parts")
            write_odometer(s, inner)
            with s.block("for unit in range(count):"):
                s.line("lo = part * width")
                s.line(f"m = width if part + 1 < parts else n{inner} - lo")
                write_row(s, program, operands, base, fails)
                advance_odometer(s, inner)
        if fails:
            with s.block("if bad != 0:"):
                s.line("fail(args, bad, 0)")
    return KernelSource(s.text(), title=title, module=__name__)


def write_odometer(s: Source, outer: int) -> None:
    """Set `part` and the indices i0.. from the unit number `first`.

    There is an index for each of `outer` dims; a row has `parts` units.
    """
    s.line("row = first // parts")
    s.line("part = first - row * parts")
    for d in range(outer - 1, 0, -1):
        s.line(f"i{d} = row % n{d}")
        s.line(f"row = row // n{d}")
    s.line("i0 = row")


def advance_odometer(s: Source, outer: int) -> None:
    """Move `part` and the indices on by one unit."""
    s.line("part += 1")
    with ExitStack() as stack:
        stack.enter_context(s.block("if part == parts:"))
        s.line("part = 0")
        for d in range(outer - 1, 0, -1):
            s.line(f"i{d} += 1")
            stack.enter_context(s.block(f"if i{d} == n{d}:"))
            s.line(f"i{d} = 0")
        s.line("i0 += 1")


def write_pointers(
    s: Source, operands: Sequence[LoopOperand], base: Mapping[str, str], start: str = "lo"
) -> dict[str, str]:
    """Define operands' pointers at inner index `start`, and hoisted values.

    Hoisted values are in registers. Returns for each operand the text of its value at inner index
    `i` (inputs), or an empty text (outputs).
    """
    values: dict[str, str] = {}
    for o in operands:
        if o.pattern == HOISTED:
            s.line(
                f"{o.name} = {expressions.loaded(o.dtype, f'ld({typed_pointers.pointer(o.dtype, base[o.name])}, 0)')}"
            )
            values[o.name] = o.name
        elif o.pattern == STRIDED:
            s.line(
                f"{o.name}_p = "
                f"{typed_pointers.pointer(o.dtype, f'{base[o.name]} + {start} * {o.name}_step')}"
            )
            element = (
                f"ld({o.name}_p, i * {o.every})"
                if o.every
                else f"ld_at({o.name}_p, i * {o.name}_step)"
            )
            values[o.name] = expressions.loaded(o.dtype, element)
        else:
            s.line(
                f"{o.name}_p = "
                f"{typed_pointers.pointer(o.dtype, f'{base[o.name]} + {start} * {o.dtype.size}')}"
            )
            values[o.name] = expressions.loaded(o.dtype, f"ld({o.name}_p, i)")
    return values


def write_row(
    s: Source,
    program: Program,
    operands: Sequence[LoopOperand],
    base: Mapping[str, str],
    fails: bool,
    start: str = "lo",
) -> None:
    """Append the loop over `m` elements of a row from `start` on.

    start: an inner index. base: address of each operand's row.
    """
    inputs = [o for o in operands if o.output < 0]
    outputs = [o for o in operands if o.output >= 0]
    values = write_pointers(s, operands, base, start)
    with s.block("for i in range(m):"):
        names = []
        for o in inputs:
            if o.pattern != HOISTED:
                s.line(f"{o.name} = {values[o.name]}")
            names.append(o.name)
        results = expressions.emit_program(s, program, names, failed="bad" if fails else None)
        for o, result in zip(outputs, results):
            stored = expressions.stored(o.dtype, result)
            if o.pattern == STRIDED and o.every:
                s.line(f"st_out({o.name}_p, i * {o.every}, {stored}, {o.output})")
            elif o.pattern == STRIDED:
                s.line(f"st_out_at({o.name}_p, i * {o.name}_step, {stored}, {o.output})")
            else:
                s.line(f"st_out({o.name}_p, i, {stored}, {o.output})")
