"""Reduce over any axes, several reductions in one kernel.

The kernel also computes the elementwise nodes before, beside and after them. It has two launches:
the first reduces parts of the range side by side into partial results; the second combines the
parts (in float64 for sums of floats) and applies the nodes after them. Inner axes are reduced in
vector registers, outer ones row upon row over the kept inner dim. A variance is one of the
reductions: squared distances are summed up around the mean of each part while it is in cache, and
parts are combined as Chan, Golub and LeVeque do (Updating formulae and a pairwise algorithm for
computing sample variances, 1979).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Final

from tfjit.kernels.cpu.elementwise.loop_text import CONTIGUOUS, HOISTED, STRIDED, inner_pattern
from tfjit.kernels.cpu.reduction import reducers
from tfjit.kernels.cpu.reduction.reduce_plan import reduce_plan, reduce_space
from tfjit.kernels.cpu.reduction.reduce_text import (
    COMBINED,
    SCRATCH,
    Layout,
    partial_arrays,
    reduce_source,
)
from tfjit.kernels.cpu.reduction.reducers import is_row_reduction, reduced_axes
from tfjit.kernels.cpu.reduction.row_reduction import rows_call
from tfjit.kernels.cpu.template import cost_model
from tfjit.kernels.cpu.template.iteration_space import single
from tfjit.kernels.ir.fused_group import FusedGroup
from tfjit.kernels.ir.symbolic_size import is_symbolic
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, Unsupported, Word, native

ROWS_OF_PART: Final = 64
"""Rows that are summed up one after the other in one part.

More rows make a further part, so that rounding errors stay small.
"""
FOLD_WIDTH: Final = COMBINED
"""Rows shorter than half of this are folded if contiguous."""
_CACHED_BYTES: Final = 1 << 18
"""Bytes of the second-level cache for a part that is read twice."""


def reduce_call(group: FusedGroup) -> NativeCall:
    """Return the launches of a reduce group.

    Raises Unsupported where it does not fit the template.
    """
    plan = reduce_plan(group)
    heads = plan.heads
    if any(head.what.root and head.dtype.is_integer for head in heads):
        raise Unsupported("the norm of integers")
    central = any(head.central for head in heads)
    space = plan.before.shape
    operands, dims, strides, kept = reduce_space(group, plan)
    patterns = tuple(
        CONTIGUOUS
        if k >= len(plan.before.operands) and step[-1] == 0
        else inner_pattern(step[-1], o.dtype)
        for k, (o, step) in enumerate(zip(operands, strides))
    )
    layout = Layout(kept, patterns)
    dims, strides, folded = _folded(layout, dims, strides)
    rows = prod(dims[k] for k in layout.outer_reduced)
    outer = prod(dims[k] for k in layout.outer_kept)
    width = dims[-1] // folded if layout.inner_kept else 1
    results = outer * width
    total = prod(dims)
    if results == 0 or (total == 0 and central):
        if plan.sides or results:
            raise Unsupported("an empty reduction with more to it than its result")
        return NativeCall(())
    moved = sum(o.dtype.size * prod(n for n, b in zip(space, o.strides) if b) for o in operands)
    moved += sum(results * head.dtype.size for head in heads)
    passes = 0.04 * (len(heads) + 2 * central)
    cost = (
        cost_model.FIXED_NS
        + total * (cost_model.program_ns(plan.before.program) * (1 + central) + passes)
        + cost_model.traffic_ns(moved)
    )
    chunks = cost_model.chunks_for(cost, max(total, 1))
    parts, cuts = _cut(layout, dims, rows, outer, chunks)
    if central and layout.inner_kept:
        cuts = max(
            cuts,
            min(
                -(-rows // parts) * dims[-1] * sum(o.dtype.size for o in operands) // _CACHED_BYTES,
                dims[-1] // 256,
            ),
        )
    chunks = max(1, min(chunks, outer * parts * cuts))
    after_patterns = [
        CONTIGUOUS if any(o.strides) else HOISTED for o in plan.after.operands[len(heads) :]
    ]
    title = f"reduce {'+'.join(m.spec.op.lower() for m in group.members)}"
    source = reduce_source(plan, layout, after_patterns, title)
    arrays = partial_arrays(heads)
    buffers = [Pointer("temp", k) for k in range(len(arrays))]
    words: list[Word] = [*dims, parts, cuts, *buffers]
    for k, (operand, step, pattern) in enumerate(zip(operands, strides, patterns)):
        side = k - len(plan.before.operands)
        words.append(
            Pointer("out", plan.sides[side])
            if side >= 0
            else Pointer("in", operand.ref.index, operand.offset)
        )
        words.extend(step[:-1])
        if pattern == STRIDED:
            words.append(step[-1])
    span, each = (
        (rows, 1 if layout.inner_kept else dims[-1]) if layout.outer_reduced else (dims[-1], 1)
    )
    alone = parts == 1 and folded == 1
    combine_ns = cost_model.FIXED_NS + results * (
        (0.1 if alone else parts * folded * 0.2 * len(arrays) + 2.0)
        + cost_model.program_ns(plan.after.program)
    )
    blocks = outer * (-(-width // COMBINED) if folded == 1 else 1)
    combine_chunks = cost_model.chunks_for(combine_ns, results if alone else blocks)
    final: list[Word] = [outer, width, parts, total // results, folded, span, each]
    final += [Pointer("temp", len(arrays)), SCRATCH * len(arrays), *buffers]
    final += [Pointer("in", o.ref.index, o.offset) for o in plan.after.operands[len(heads) :]]
    final += [Pointer("out", k) for k in plan.finals]
    launches = (
        Launch(source, tuple(words), "partial", chunks, cost),
        Launch(source, tuple(final), "combine", combine_chunks, combine_ns),
    )
    temps = [results * parts * folded * dtype.size for _, dtype in arrays]
    temps.append(0 if alone else SCRATCH * len(arrays) * combine_chunks)
    flops = total * (len(heads) + len(plan.before.program.ops))
    return NativeCall(
        launches, temp_bytes=tuple(max(n, 64) for n in temps), bytes_moved=moved, flops=flops
    )


def _folded(
    layout: Layout, dims: Sequence[int], strides: Sequence[tuple[int, ...]]
) -> tuple[tuple[int, ...], list[tuple[int, ...]], int]:
    """Fold several short rows into a longer one.

    The rows of one are combined like any other parts. Returns (dims, strides, rows in one).
    """
    rest = list(strides)
    if (
        not layout.inner_kept
        or len(dims) < 2
        or layout.kept[-2]
        or dims[-1] == 0
        or dims[-1] >= FOLD_WIDTH // 2
    ):
        return tuple(dims), rest, 1
    if any(s[-2] != s[-1] * dims[-1] for s in strides):
        return tuple(dims), rest, 1
    rows = dims[-2]
    if is_symbolic(rows):  # the divisors of an unknown number
        return tuple(dims), rest, 1
    fold = max(
        (k for k in range(1, min(FOLD_WIDTH // dims[-1], rows) + 1) if rows % k == 0), default=1
    )
    merged = [(*s[:-2], s[-1] * dims[-1] * fold, s[-1]) for s in strides]
    return (*dims[:-2], rows // fold, dims[-1] * fold), merged, fold


def _cut(
    layout: Layout, dims: Sequence[int], rows: int, outer: int, chunks: int
) -> tuple[int, int]:
    """Return the parts of the reduced range and the inner cuts.

    A kept inner dim is cut. Both keep sums short and give every chunk work.
    """
    if layout.inner_kept:
        parts = max(-(-rows // ROWS_OF_PART), 1)
        if outer * parts < chunks:
            parts = max(parts, min(-(-chunks // outer), rows // 16, rows) or 1)
        cuts = 1
        if outer * parts < chunks:
            cuts = max(1, min(-(-chunks // (outer * parts)), dims[-1] // 256))
        return parts, cuts
    if outer >= chunks:
        return 1, 1
    wanted = -(-chunks // outer)
    return max(1, min(wanted, rows if layout.outer_reduced else dims[-1] // 1024)), 1


def _standalone(spec: NodeSpec) -> NativeCall:
    group = single(spec)
    axes = reduced_axes(group, group.members[0])
    if is_row_reduction(spec.inputs[0].shape, axes) and spec.inputs[0].size:
        try:
            return rows_call(replace(group, kind="rows"))
        except Unsupported:
            pass  # This template takes half dtypes and layouts that the rows template refuses.
    return reduce_call(replace(group, kind="reduce"))


native(*reducers.OPS)(_standalone)
