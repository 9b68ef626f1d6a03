"""Write elementwise loops over a grid: operands, vectors, the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cuda.template import element_kinds
from tfjit.kernels.cuda.template.kernel_text import KernelText, grid_stride
from tfjit.kernels.ir.scalar_program import Program
from tfjit.kernels.registry import Pointer

SCALAR: Final = "scalar"
"""Pattern of one value for the whole loop."""
FLAT: Final = "flat"
"""Pattern of an array that lies as the loop runs."""
VECTOR: Final = "vector"
"""Pattern of elements that are neighbours along the last dim."""
COLUMN: Final = "column"
"""Pattern of one value for all elements of the last dim."""
STRIDED: Final = "strided"
"""Pattern of other steps along the last dim."""


@dataclass(frozen=True, slots=True)
class LoopOperand:
    """An input or output of a loop.

    strides: steps in elements along the loop's dims. read_only: whether no output may overwrite it.
    """

    name: str
    dtype: DType
    place: Pointer
    strides: tuple[int, ...]
    pattern: str
    is_output: bool = False
    read_only: bool = False


def write_pointers(text: KernelText, operands: Sequence[LoopOperand]) -> None:
    """Append operands' pointers, strides, and values for the whole loop."""
    for o in operands:
        address = text.argument(f"{o.name}_at", o.place)
        text.line(f"{o.name}_p = {element_kinds.pointer(o.dtype, address)}")
        if o.pattern == SCALAR and not o.is_output:
            text.line(f"{o.name} = {expressions.loaded(o.dtype, f'ld({o.name}_p, 0)')}")
        if o.pattern not in (SCALAR, FLAT):
            for d, stride in enumerate(o.strides):
                if stride != 0 and not (d == len(o.strides) - 1 and stride == 1):
                    text.argument(f"{o.name}_s{d}", stride)


def element_index(o: LoopOperand, width: int, flat: str) -> str:
    """Return the index of an operand's first element of a vector.

    flat: the index in the whole loop. The loop's indices are i0, i1 ..; the last counts vectors.
    """
    if o.pattern == SCALAR:
        return "0"
    if o.pattern == FLAT:
        return flat
    terms = []
    last = len(o.strides) - 1
    for d, stride in enumerate(o.strides):
        if stride == 0:
            continue
        factors = [f"i{d}"]
        if d == last and width > 1:
            factors.append(str(width))
        if not (d == last and stride == 1):
            factors.append(f"{o.name}_s{d}")
        terms.append(" * ".join(factors))
    return " + ".join(terms) or "0"


def write_values(
    text: KernelText, operands: Sequence[LoopOperand], width: int, flat: str
) -> list[list[str]]:
    """Append the loads of a vector; return its elements' input names."""
    lanes: list[list[str]] = [[] for _ in range(width)]
    for o in operands:
        if o.is_output:
            continue
        if o.pattern == SCALAR:
            for lane in lanes:
                lane.append(o.name)
            continue
        load = "ld_ro" if o.read_only and not o.dtype.is_complex else "ld"
        index = element_index(o, width, flat)
        if o.pattern == COLUMN or width == 1:
            element = expressions.loaded(o.dtype, f"{load}({o.name}_p, {index})")
            text.line(f"{o.name} = {element}")
            for lane in lanes:
                lane.append(o.name)
            continue
        if o.pattern == STRIDED:
            text.line(f"{o.name}_i = {index}")
            step = f"{o.name}_s{len(o.strides) - 1}"
            parts = [f"{load}({o.name}_p, {o.name}_i + {k} * {step})" for k in range(width)]
        else:
            text.line(f"{o.name}_v = {load}_vec{width}({o.name}_p, {index})")
            parts = [f"{o.name}_v[{k}]" for k in range(width)]
        for k, part in enumerate(parts):
            text.line(f"{o.name}_{k} = {expressions.loaded(o.dtype, part)}")
            lanes[k].append(f"{o.name}_{k}")
    return lanes


def write_results(
    text: KernelText, program: Program, operands: Sequence[LoopOperand],
    lanes: Sequence[Sequence[str]], flat: str,
) -> None:  # fmt: skip
    """Append the program for each element of a vector, and the stores."""
    width = len(lanes)
    # integer divisions by zero and the like have no report on a GPU
    fails = bool(expressions.program_errors(program))
    if fails:
        text.line("bad = int64(0)")
    results = []
    for k, names in enumerate(lanes):
        prefix = f"v{k}_" if width > 1 else "v"
        results.append(
            expressions.emit_program(text, program, names, "bad" if fails else None, prefix)
        )
    for number, o in enumerate(o for o in operands if o.is_output):
        stored = [expressions.stored(o.dtype, lane[number]) for lane in results]
        index = element_index(o, width, flat)
        if width == 1:
            text.line(f"st({o.name}_p, {index}, {stored[0]})")
        elif o.pattern in (FLAT, VECTOR):
            text.line(f"st_vec{width}({o.name}_p, {index}, {', '.join(stored)})")
        else:
            text.line(f"{o.name}_i = {index}")
            for k, value in enumerate(stored):
                step = f"{o.name}_s{len(o.strides) - 1}"
                text.line(f"st({o.name}_p, {o.name}_i + {k} * {step}, {value})")


def write_loop(
    text: KernelText, program: Program, operands: Sequence[LoopOperand], dims: Sequence[int],
    width: int,
) -> None:  # fmt: skip
    """Append a loop over all elements, `width` at a time.

    A loop of one dim ends with single elements; with more dims, `width` divides the last.
    """
    rank = len(dims)
    if rank == 1:
        text.argument("n", dims[0])
        count = "n" if width == 1 else f"n >> {width.bit_length() - 1}"
        text.line(f"count = {count}")
    else:
        total = dims[-1] // width
        for n in dims[:-1]:
            total *= n
        text.argument("count", total)
        for d in range(1, rank):
            text.argument(f"n{d}", dims[d] // width if d == rank - 1 else dims[d])
    write_pointers(text, operands)
    flat = "at" if width > 1 else "u"
    with grid_stride(text, "u", "count"):
        if width > 1:
            text.line(f"at = u * {width}")
        if rank == 1:
            text.line("i0 = u")
        else:
            text.line("rest = u")
            for d in range(rank - 1, 1, -1):
                text.split("rest", "rest", f"i{d}", f"n{d}")
            text.split("rest", "i0", "i1", "n1")
        lanes = write_values(text, operands, width, flat)
        write_results(text, program, operands, lanes, flat)
    if rank == 1 and width > 1:
        text.line(f"i0 = count * {width} + unit()")
        with text.block("if i0 < n:"):
            lanes = write_values(text, operands, 1, "i0")
            write_results(text, program, operands, lanes, "i0")
