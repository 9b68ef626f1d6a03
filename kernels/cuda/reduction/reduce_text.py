"""Write reductions over any axes: threads share a result's reduced range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.reduction.reduce_plan import Head
from tfjit.kernels.cuda.elementwise.loop_text import (
    LoopOperand,
    element_index,
    write_pointers,
    write_values,
)
from tfjit.kernels.cuda.reduction import steps
from tfjit.kernels.cuda.template import element_kinds
from tfjit.kernels.cuda.template.kernel_text import KernelText
from tfjit.kernels.ir.scalar_program import Program
from tfjit.kernels.registry import Pointer

FULL: Final = "full"
"""Pattern of an operand of the result's shape, beside the results."""
SINGLE: Final = "single"
"""Pattern of one value beside all results."""


@dataclass(frozen=True, slots=True)
class ReduceLayout:
    """The threads of a reduction.

    kept: for each dim, whether the result has it. across: threads along the reduced range of a
    result, a power of two. columns: whether neighbouring threads compute neighbouring results, else
    neighbours of the reduced range. block: the threads of a block, a power of two. width:
    neighbours of the reduced range that a thread loads at a time. parts: blocks that share a
    result; with more than one, they leave partial results.
    """

    kept: tuple[bool, ...]
    across: int
    columns: bool
    block: int
    width: int
    parts: int

    @property
    def results(self) -> int:
        """Return the results of a block."""
        return self.block // self.across


@dataclass(frozen=True, slots=True)
class AfterOperand:
    """An operand of the program over results, beside the reductions."""

    place: Pointer
    dtype: DType
    pattern: str


@dataclass(frozen=True, slots=True)
class After:
    """The program over the results.

    operands: its inputs behind the heads. outputs: places and dtypes.
    """

    program: Program
    operands: tuple[AfterOperand, ...]
    outputs: tuple[tuple[Pointer, DType], ...]


def write_reduction(
    text: KernelText, heads: Sequence[Head], before: Program, operands: Sequence[LoopOperand],
    dims: Sequence[int], layout: ReduceLayout, after: After | None, partials: Sequence[Pointer],
    reduced: int,
) -> None:  # fmt: skip
    """Append the kernel's body.

    operands: the inputs of `before`, then its outputs behind the heads' values. after: applied to
    the results; None stores totals to `partials`. reduced: elements of a result, for means.
    """
    kept = [d for d, k in enumerate(layout.kept) if k]
    rest = [d for d, k in enumerate(layout.kept) if not k]
    results, span = 1, 1
    for d in kept:
        results *= dims[d]
    for d in rest:
        span *= dims[d] // layout.width if d == len(dims) - 1 else dims[d]
    text.argument("results", results)
    text.argument("span", span)
    text.argument("parts", layout.parts)
    text.argument("reduced", reduced)
    for d in (*kept[1:], *rest[1:]):
        last = d == len(dims) - 1 and not layout.kept[d]
        text.argument(f"n{d}", dims[d] // layout.width if last else dims[d])
    write_pointers(text, operands)
    for k, head in enumerate(heads):
        kind = element_kinds.register_kind(head.dtype)
        size = layout.block if layout.columns else max(layout.across // steps.WARP, 1)
        if layout.across > (1 if layout.columns else steps.WARP):
            text.line(f"shared{k} = shared_{kind}({size})")
    _write_place(text, layout)
    _write_indices(text, kept, "place")
    _write_totals(text, heads, before, operands, rest, layout)
    for k, head in enumerate(heads):
        if layout.columns:
            _write_column_exchange(text, head, k, layout)
        else:
            steps.write_block_exchange(
                text, head.kind, head.dtype, f"t{k}", layout.across, f"shared{k}"
            )
    with text.block("if live and lane == 0:"):
        if after is None:
            for k, (head, place) in enumerate(zip(heads, partials)):
                address = text.argument(f"partial{k}", place)
                pointer = f"ptr_{element_kinds.register_kind(head.dtype)}({address})"
                text.line(f"st({pointer}, part * results + result, t{k})")
        else:
            _write_after(text, heads, after)


def _write_place(text: KernelText, layout: ReduceLayout) -> None:
    """Append the result and the lane of a thread."""
    bits = layout.across.bit_length() - 1
    wide = layout.results.bit_length() - 1
    text.line("part = rem_u32(block(), parts)")
    text.line("tile = div_u32(block(), parts)")
    if layout.columns:
        text.line(f"lane = thread() >> {wide}")
        text.line(f"result = tile * {layout.results} + (thread() & {layout.results - 1})")
    else:
        text.line(f"lane = thread() & {layout.across - 1}")
        text.line(f"result = tile * {layout.results} + (thread() >> {bits})")
    # threads without a result take part in the exchanges
    text.line("live = result < results")
    text.line("place = select(live, result, results - 1)")


def _write_indices(text: KernelText, dims: Sequence[int], whole: str) -> None:
    """Append the indices of dims from a flat one."""
    if not dims:
        return
    if len(dims) > 1:
        text.line(f"rest = {whole}")
        whole = "rest"
    for d in reversed(dims[1:]):
        text.split("rest", "rest", f"i{d}", f"n{d}")
    text.line(f"i{dims[0]} = {whole}")


def _write_totals(
    text: KernelText, heads: Sequence[Head], before: Program, operands: Sequence[LoopOperand],
    rest: Sequence[int], layout: ReduceLayout,
) -> None:  # fmt: skip
    """Append a thread's loop over its part of the reduced range."""
    width = layout.width
    for k, head in enumerate(heads):
        for j in range(width):
            text.line(f"t{k}_{j} = {steps.start(head.kind, head.dtype)}")
    bits = 32 if text.narrow else 64
    text.line(f"share = div_u{bits}(span + parts - 1, parts)")
    text.line("j = part * share + lane")
    text.line("end = min(span, (part + 1) * share)")
    with text.block("while j < end:"):
        _write_indices(text, rest, "j")
        lanes = write_values(text, operands, width, "")
        values = [
            expressions.emit_program(text, before, names, prefix=f"v{n}_")
            for n, names in enumerate(lanes)
        ]
        for k, head in enumerate(heads):
            for n in range(width):
                total = f"t{k}_{n}"
                step = steps.step(head.kind, head.dtype, total, values[n][k])
                text.line(f"{total} = {step}")
        sides = [o for o in operands if o.is_output]
        if sides:
            with text.block("if live:"):
                for number, o in enumerate(sides, len(heads)):
                    _write_side(text, o, [lane[number] for lane in values], width)
        text.line(f"j += {layout.across}")
    for k, head in enumerate(heads):
        text.line(f"t{k} = t{k}_0")
        for n in range(1, width):
            text.line(f"t{k} = {steps.step(head.kind, head.dtype, f't{k}', f't{k}_{n}')}")


def _write_side(text: KernelText, o: LoopOperand, values: Sequence[str], width: int) -> None:
    """Append the stores of a full result beside the reductions."""
    stored = [expressions.stored(o.dtype, value) for value in values]
    index = element_index(o, width, "")
    if width == 1:
        text.line(f"st({o.name}_p, {index}, {stored[0]})")
    else:
        text.line(f"st_vec{width}({o.name}_p, {index}, {', '.join(stored)})")


def _write_column_exchange(text: KernelText, head: Head, k: int, layout: ReduceLayout) -> None:
    """Append the combination of the totals of a result's threads.

    They are `results` apart.
    """
    half = layout.across // 2
    if half:
        text.line(f"st_shared(shared{k}, thread(), t{k})")
    while half:
        text.line("sync_threads()")
        with text.block(f"if lane < {half}:"):
            other = f"ld_shared(shared{k}, thread() + {half * layout.results})"
            text.line(f"t{k} = {steps.step(head.kind, head.dtype, f't{k}', other)}")
            if half > 1:
                text.line(f"st_shared(shared{k}, thread(), t{k})")
        half //= 2


def _write_after(text: KernelText, heads: Sequence[Head], after: After) -> None:
    """Append the results of heads, and the program over them."""
    names = []
    for k, head in enumerate(heads):
        value = steps.finished(head.what, head.dtype, head.result, f"t{k}", "reduced")
        text.line(f"h{k} = {value}")
        names.append(f"h{k}")
    for k, o in enumerate(after.operands):
        pointer = element_kinds.pointer(o.dtype, text.argument(f"after{k}", o.place))
        index = "result" if o.pattern == FULL else "0"
        text.line(f"a{k} = {expressions.loaded(o.dtype, f'ld({pointer}, {index})')}")
        names.append(f"a{k}")
    found = expressions.emit_program(text, after.program, names, prefix="w")
    for k, ((place, dtype), value) in enumerate(zip(after.outputs, found)):
        pointer = element_kinds.pointer(dtype, text.argument(f"final{k}", place))
        text.line(f"st({pointer}, result, {expressions.stored(dtype, value)})")
