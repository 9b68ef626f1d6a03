"""Make tables of the places of a batch's matrices."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from contextlib import ExitStack
from math import prod

from tfjit.kernels.cpu.template import cost_model
from tfjit.kernels.cpu.template.call_builder import CallBuilder
from tfjit.kernels.ir.symbolic_size import is_symbolic
from tfjit.kernels.registry import Launch, Pointer, Word
from tfjit.kernels.source import KernelSource, Source


def offset_table(
    call: CallBuilder, dims: Sequence[int], columns: Sequence[Sequence[int]]
) -> Pointer:
    """Return a table with a row for each index into `dims`.

    The last index is the fastest. columns: of each column, the bytes from one index to the next along each dim. A row holds the
    sums of index times bytes. A table of unknown length is written by a launch, which is added to
    the call.
    """
    if not any(map(is_symbolic, dims)):
        return call.table([*zip(*(_offsets(dims, strides) for strides in columns))])
    table = call.temp(8 * prod(dims) * len(columns))
    words: list[Word] = [*dims, *(stride for strides in columns for stride in strides), table]
    source = _source(len(dims), len(columns))
    call.launch(Launch(source, tuple(words), cost_ns=cost_model.FIXED_NS))
    return table


def _offsets(dims: Sequence[int], strides: Sequence[int]) -> list[int]:
    found = [0]
    for n, stride in zip(dims, strides):
        found = [start + k * stride for start in found for k in range(n)]
    return found


@functools.cache
def _source(rank: int, columns: int) -> KernelSource:
    """Write the kernel of a table. Words: dims, strides by column, table."""
    s = Source()
    s.line(f"# table of offsets: {rank} dims, {columns} columns")
    s.line("from tfjit.kernels.codegen.intrinsics import *")
    s.line()
    s.line()
    with ExitStack() as stack:
        stack.enter_context(s.block("def kernel(args, chunk, nchunks):"))
        for d in range(rank):
            s.line(f"n{d} = word(args, {2 + d})")
        at = 2 + rank
        for c in range(columns):
            for d in range(rank):
                s.line(f"s{c}_{d} = word(args, {at})")
                at += 1
        s.line(f"p = ptr_i64(word(args, {at}))")
        s.line("row = 0")
        for d in range(rank):
            stack.enter_context(s.block(f"for i{d} in range(n{d}):"))
        for c in range(columns):
            place = " + ".join(f"i{d} * s{c}_{d}" for d in range(rank))
            s.line(f"st(p, row * {columns} + {c}, {place})")
        s.line("row += 1")
    return KernelSource(s.text(), title="table of offsets", module=__name__)


__all__ = ["offset_table"]
