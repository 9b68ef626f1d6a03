"""Build reductions over any axes for GPUs.

The elementwise nodes before, beside and after the reductions are computed with them. A result that
is reduced from many elements is shared by several blocks; a second launch combines their partial
results, always in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Final

from tfjit.framework.types.dtypes import DType
from tfjit.kernels.cpu.reduction import reducers
from tfjit.kernels.cpu.reduction.reduce_plan import (
    Head,
    ReducePlan,
    reduce_plan,
    reduce_space,
)
from tfjit.kernels.cpu.reduction.reducers import reduced_axes
from tfjit.kernels.cpu.template.iteration_space import Operand, c_strides, single
from tfjit.kernels.cuda.elementwise.loop import require_device_forms
from tfjit.kernels.cuda.elementwise.loop_text import (
    COLUMN,
    SCALAR,
    STRIDED,
    VECTOR,
    LoopOperand,
)
from tfjit.kernels.cuda.reduction.accumulators import state_names
from tfjit.kernels.cuda.reduction.reduce_text import (
    FULL,
    SINGLE,
    After,
    AfterOperand,
    ReduceLayout,
    write_reduction,
)
from tfjit.kernels.cuda.reduction.row_reduction import rows_call
from tfjit.kernels.cuda.reduction.steps import WARP
from tfjit.kernels.cuda.template import element_kinds
from tfjit.kernels.cuda.template.kernel_text import KernelText, fits_32_bits
from tfjit.kernels.cuda.template.launches import THREADS, CudaLaunch
from tfjit.kernels.cuda.template.registry import device_native
from tfjit.kernels.cuda.template.row_choice import prefers_rows
from tfjit.kernels.ir.fused_group import INPUT, FusedGroup
from tfjit.kernels.ir.scalar_program import Program
from tfjit.kernels.registry import NativeCall, NodeSpec, Pointer, Unsupported

_BLOCKS: Final = 528
"""Blocks that fill a GPU: four a processor."""
_THREADS_OF_GPU: Final = 132 * 2048
"""Threads that a large GPU runs at a time."""
_LEAST_SHARE: Final = 4
"""Loads of a thread below which no further blocks share a result."""
_MOST_SHARE: Final = 512
"""Loads of a thread above which they do: rounding errors stay small."""
_MOST_PARTS: Final = 4096


def reduce_call(group: FusedGroup) -> NativeCall:
    """Return the launches of a reduce group.

    Raises Unsupported where it does not fit the template.
    """
    plan = reduce_plan(group)
    check_plan(plan)
    space = plan.before.shape
    operands, dims, strides, kept = reduce_space(group, plan)
    steps = [tuple(b // o.dtype.size for b in own) for o, own in zip(operands, strides)]
    results = prod(n for n, k in zip(dims, kept) if k)
    reduced = prod(n for n, k in zip(dims, kept) if not k)
    if results == 0:
        return NativeCall(())
    if reduced == 0 and plan.sides:
        raise Unsupported("an empty reduction with more to it than its result")
    layout = _layout(operands, dims, kept, steps)
    described = _described(plan, operands, steps)
    after = _after(group, plan)
    title = f"reduce {'+'.join(m.spec.op.lower() for m in group.members)}"
    narrow = fits_32_bits([results * max(reduced, 1), *(_extent(s, dims) for s in steps)])
    types = [head.accumulator for k, head in enumerate(plan.heads) for _ in state_names(head, k)]
    alone = layout.parts == 1
    text = KernelText(narrow)
    partials = [Pointer("temp", k) for k in range(len(types))]
    write_reduction(
        text, plan.heads, plan.before.program, described, dims, layout,
        after if alone else None, partials, reduced,
    )  # fmt: skip
    launches = [_launch(text, plan.heads, layout, results, title)]
    temps: tuple[int, ...] = ()
    if not alone:
        temps = tuple(max(layout.parts * results * t.size, 64) for t in types)
        launches.append(_combine(plan, types, layout.parts, results, reduced, after, title))
    moved = sum(o.dtype.size * prod(n for n, b in zip(space, o.strides) if b) for o in operands)
    moved += sum(results * head.result.size for head in plan.heads)
    flops = results * reduced * (len(plan.heads) + len(plan.before.program.ops))
    return NativeCall(tuple(launches), temp_bytes=temps, bytes_moved=moved, flops=flops)


def check_plan(plan: ReducePlan) -> None:
    """Raise Unsupported for a plan that the template does not compute."""
    if any(head.what.root and head.dtype.is_integer for head in plan.heads):
        raise Unsupported("the norm of integers")
    for space in (plan.before, plan.after):
        require_device_forms(space.program)
    if any(o.ref.member != INPUT for o in plan.before.operands):
        raise Unsupported("a constant of the group is an operand")
    if any(o.ref.member != INPUT for o in plan.after.operands[len(plan.heads) :]):
        raise Unsupported("a constant of the group is an operand")


def _combine(
    plan: ReducePlan, types: Sequence[DType], parts: int, results: int, reduced: int, after: After,
    title: str,
) -> CudaLaunch:  # fmt: skip
    """Return the launch that combines partial results."""
    program = Program(tuple(types), (), tuple(range(len(types))))
    dims: tuple[int, ...] = (parts, results) if results > 1 else (parts,)
    kept = (False, True)[: len(dims)]
    own = c_strides(dims)
    described = [
        LoopOperand(
            f"x{k}", t, Pointer("temp", k), own, STRIDED if own[-1] != 1 else VECTOR, False, True
        )
        for k, t in enumerate(types)
    ]
    heads = [replace(head, dtype=head.accumulator) for head in plan.heads]
    across = min(_power_of_two(parts), THREADS // min(_power_of_two(results), WARP))
    block = max(across * min(_power_of_two(results), WARP), WARP)
    layout = ReduceLayout(kept, across, True, block, 1, 1)
    text = KernelText(fits_32_bits([parts * results]))
    write_reduction(text, heads, program, described, dims, layout, after, (), reduced, merges=True)
    return _launch(text, plan.heads, layout, results, f"combine of {title}")


def _launch(
    text: KernelText, heads: Sequence[Head], layout: ReduceLayout, results: int, title: str
) -> CudaLaunch:
    order = "".join("k" if kept else "r" for kept in layout.kept)
    comment = f"{'+'.join(head.kind for head in heads)} over {order}"
    tiles = -(-results // layout.results)
    return text.launch(comment, title, __name__, (tiles * layout.parts, 1, 1), (layout.block, 1, 1))


def _layout(
    operands: Sequence[Operand], dims: Sequence[int], kept: tuple[bool, ...],
    steps: Sequence[tuple[int, ...]],
) -> ReduceLayout:  # fmt: skip
    results = prod(n for n, k in zip(dims, kept) if k)
    reduced = prod(n for n, k in zip(dims, kept) if not k)
    width = 1
    if kept[-1]:
        wide = min(_power_of_two(results), WARP)
        # with enough results, a thread reduces one alone
        needed = _power_of_two(-(-_THREADS_OF_GPU // results))
        across = min(THREADS // wide, _power_of_two(reduced), needed)
        block = across * min(THREADS // across, _power_of_two(results))
    else:
        width = _vector_width(operands, dims, steps)
        across = min(THREADS, _power_of_two(-(-reduced // width)))
        block = across
        if across < WARP:
            # a warp is whole, and a block has enough of it for the results
            block = min(THREADS, max(WARP, _power_of_two(results * across)))
    units = -(-reduced // width)
    tiles = -(-results // (block // across))
    parts = 1
    if tiles < _BLOCKS:
        parts = min(-(-_BLOCKS // tiles), units // (across * _LEAST_SHARE))
    parts = max(1, parts, units // (across * _MOST_SHARE))
    return ReduceLayout(kept, across, kept[-1], block, width, min(parts, _MOST_PARTS))


def _vector_width(
    operands: Sequence[Operand], dims: Sequence[int], steps: Sequence[tuple[int, ...]]
) -> int:
    width = element_kinds.widest_vector([o.dtype for o in operands])
    while width > 1:
        fits = dims[-1] % width == 0 and all(
            o.offset % (width * o.dtype.size) == 0 and not any(s % width for s in own[:-1])
            for o, own in zip(operands, steps)
            if own[-1] == 1
        )
        if fits:
            break
        width //= 2
    return width


def _described(
    plan: ReducePlan, operands: Sequence[Operand], steps: Sequence[tuple[int, ...]]
) -> list[LoopOperand]:
    found = []
    first_side = len(plan.before.operands)
    for k, (operand, own) in enumerate(zip(operands, steps)):
        pattern = {0: COLUMN, 1: VECTOR}.get(own[-1], STRIDED)
        if not any(own):
            pattern = SCALAR
        if k < first_side:
            place = Pointer("in", operand.ref.index, operand.offset)
            found.append(LoopOperand(f"x{k}", operand.dtype, place, own, pattern, False, True))
        else:
            place = Pointer("out", plan.sides[k - first_side])
            found.append(
                LoopOperand(f"y{k - first_side}", operand.dtype, place, own, pattern, True)
            )
    return found


def _after(group: FusedGroup, plan: ReducePlan) -> After:
    operands = tuple(
        AfterOperand(
            Pointer("in", o.ref.index, o.offset), o.dtype, FULL if any(o.strides) else SINGLE
        )
        for o in plan.after.operands[len(plan.heads) :]
    )
    outputs = tuple((Pointer("out", k), group.tensor(group.outputs[k]).dtype) for k in plan.finals)
    return After(plan.after.program, operands, outputs)


def _extent(own: Sequence[int], dims: Sequence[int]) -> int:
    return sum(abs(s) * (n - 1) for s, n in zip(own, dims)) + 1


def _power_of_two(n: int) -> int:
    return 1 << (max(n, 1) - 1).bit_length()


def _standalone(spec: NodeSpec) -> NativeCall:
    group = single(spec)
    axes = reduced_axes(group, group.members[0])
    if prefers_rows(spec.inputs[0].shape, axes) and spec.inputs[0].size:
        try:
            return rows_call(replace(group, kind="rows"))
        except Unsupported:
            pass  # this template takes layouts that the row template refuses
    return reduce_call(replace(group, kind="reduce"))


device_native(*reducers.OPS)(_standalone)
