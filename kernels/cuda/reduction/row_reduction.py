"""Build kernels of several reductions along the same rows for GPUs.

A row of up to some thousand elements is read once: its values stay in the registers of the threads
that compute it, from a part of a warp to a whole block. Longer rows are read again in each pass,
mostly from cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Final

from tfjit.kernels.cpu.reduction.row_program import LABEL, RowProgram, row_program
from tfjit.kernels.cpu.template.iteration_space import Operand, collapse, single
from tfjit.kernels.cuda.elementwise.loop import require_device_forms
from tfjit.kernels.cuda.reduction.row_text import (
    CONTIGUOUS,
    HOISTED,
    STRIDED,
    RowLayout,
    RowOperand,
    RowWriter,
)
from tfjit.kernels.cuda.reduction.steps import WARP
from tfjit.kernels.cuda.template import element_kinds
from tfjit.kernels.cuda.template.kernel_text import KernelText, fits_32_bits
from tfjit.kernels.cuda.template.launches import THREADS, grid_for
from tfjit.kernels.cuda.template.registry import device_native
from tfjit.kernels.ir.fused_group import INPUT, FusedGroup
from tfjit.kernels.ir.op_forms import ROW_OPS
from tfjit.kernels.registry import NativeCall, NodeSpec, Pointer, Unsupported

_CHUNKS: Final = 4
"""Vectors of a row that a thread holds, with threads to choose."""
_MOST_CHUNKS: Final = 8
"""Vectors that a thread of the largest block holds."""
_LONGEST: Final = 1024
"""Scalar ops in a text, for a thread's part of a row."""
_FEW_BLOCKS: Final = 264
"""Blocks below which smaller ones share the rows better; two a processor."""


def rows_call(group: FusedGroup) -> NativeCall:
    """Return the launch of a rows group.

    Raises Unsupported where it does not fit the template.
    """
    rows = row_program(group)
    require_device_forms(rows.program)
    if prod(rows.space) == 0:
        raise Unsupported("empty rows")
    operands = [*rows.operands, *rows.results]
    for operand in operands:
        if not element_kinds.is_supported(operand.dtype):
            raise Unsupported(f"values of type {operand.dtype.name}")
    if any(o.ref.member != INPUT for o in rows.operands):
        raise Unsupported("a constant of the group is an operand")
    row_dims, row_strides = collapse(
        rows.space[rows.outer :], [o.strides[rows.outer :] for o in operands]
    )
    if len(row_dims) > 1:
        raise Unsupported("an operand does not run evenly along the row")
    in_row = [(s[0] if s else 0) // o.dtype.size for o, s in zip(operands, row_strides)]
    dims, strides = collapse(rows.space[: rows.outer], [o.strides[: rows.outer] for o in operands])
    if not dims:
        dims, strides = (1,), [(0,) for _ in operands]
    described = _described(rows, operands, strides, in_row)
    layout = row_layout(rows, operands, described)
    text = KernelText(fits_32_bits([prod(rows.space), *(_extent(o, dims) for o in described)]))
    RowWriter(text, rows, dims, described, layout).write()
    names = " ".join(op.op for op in rows.program.ops)
    title = "rows " + "+".join(dict.fromkeys(m.spec.op.lower() for m in group.members))
    count = prod(dims)
    block = THREADS if layout.threads <= WARP else layout.threads
    while block > WARP and block > layout.threads and count * layout.threads < _FEW_BLOCKS * block:
        block //= 2
    grid = grid_for(-(-count * layout.threads // block), 1)
    comment = f"rows of {layout.threads} threads: {names}"
    launch = text.launch(comment, title, __name__, grid, (block, 1, 1))
    moved = sum(
        o.dtype.size * prod(n for n, b in zip(rows.space, o.strides) if b) for o in operands
    )
    flops = len(rows.program.ops) * prod(rows.space)
    return NativeCall((launch,), bytes_moved=moved, flops=flops)


def _described(
    rows: RowProgram, operands: Sequence[Operand], strides: Sequence[tuple[int, ...]],
    in_row: Sequence[int],
) -> list[RowOperand]:  # fmt: skip
    labels = {op.args[0] for op in rows.program.ops if op.op == LABEL}
    found = []
    for k, (operand, outer, step) in enumerate(zip(operands, strides, in_row)):
        output = k - len(rows.operands)
        own = tuple(b // operand.dtype.size for b in outer)
        pattern = {0: HOISTED, 1: CONTIGUOUS}.get(step, STRIDED)
        # with one column, strides do not tell a column from a row's own value
        if rows.width == 1 and output < 0 and k not in labels:
            pattern = CONTIGUOUS
        if output >= 0:
            found.append(RowOperand(Pointer("out", output), own, step, pattern))
        else:
            place = Pointer("in", operand.ref.index, operand.offset)
            found.append(RowOperand(place, own, step, pattern, read_only=True))
    return found


def _extent(o: RowOperand, dims: Sequence[int]) -> int:
    return sum(abs(s) * (n - 1) for s, n in zip(o.outer, dims)) + 1


def row_layout(
    rows: RowProgram, operands: Sequence[Operand], described: Sequence[RowOperand]
) -> RowLayout:
    """Return the threads of a row, and the elements that each holds."""
    width = element_kinds.widest_vector([o.dtype for o in operands])
    while width > 1 and not _is_aligned(rows, operands, described, width):
        width //= 2
    units = -(-rows.width // width)
    if units <= WARP * _CHUNKS:
        threads = min(WARP, _power_of_two(units))
    else:
        threads = min(THREADS, _power_of_two(-(-units // _CHUNKS)))
    chunks = -(-units // threads)
    if chunks > _MOST_CHUNKS or chunks * width * len(rows.program.ops) > _LONGEST:
        return RowLayout(THREADS if threads > WARP else threads, width, 0)
    return RowLayout(threads, width, chunks)


def _is_aligned(
    rows: RowProgram, operands: Sequence[Operand], described: Sequence[RowOperand], width: int
) -> bool:
    if rows.width % width:
        return False
    return all(
        operand.offset % (width * operand.dtype.size) == 0 and not any(s % width for s in o.outer)
        for operand, o in zip(operands, described)
        if o.pattern == CONTIGUOUS
    )


def _power_of_two(n: int) -> int:
    return 1 << (n - 1).bit_length()


def _standalone(spec: NodeSpec) -> NativeCall:
    return rows_call(replace(single(spec), kind="rows"))


device_native(*sorted(ROW_OPS))(_standalone)
