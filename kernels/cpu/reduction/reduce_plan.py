"""Plan a reduce group.

The group has one or several reductions over the same axes, with elementwise nodes before, beside
and after them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final, NamedTuple

from tfjit.framework.op_defs.op_traits import IDENTITY, RESHAPE
from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.elementwise.loop import MAX_OUTPUTS
from tfjit.kernels.cpu.reduction import reducers
from tfjit.kernels.cpu.reduction.reducers import Reduction, reduced_axes
from tfjit.kernels.cpu.template.iteration_space import (
    IterationSpace,
    IterationSpaceBuilder,
    Operand,
    c_strides,
    collapse,
    identity_map,
)
from tfjit.kernels.ir.fused_group import FusedGroup, Ref
from tfjit.kernels.registry import Unsupported

MAX_HEADS: Final = 4


@dataclass(frozen=True, slots=True)
class Head:
    """One reduction of values of `dtype`, whose result is of dtype `result`.

    central: the reduction sums (x - mean(x))^2, and its value is x, computed per element. The sum
    is combined from sums around the means of blocks, so that x is read once.
    """

    what: Reduction
    dtype: DType
    result: DType
    central: bool = False

    @property
    def kind(self) -> str:
        """Return the kind of the reduction, as `reducers` names it."""
        return self.what.kind

    @property
    def accumulator(self) -> DType:
        """Return the dtype of partial results.

        Half types are accumulated in float32.
        """
        return d.float32 if self.dtype in (d.float16, d.bfloat16) else self.dtype


@dataclass(frozen=True, slots=True)
class ReducePlan:
    """The programs of a reduce group.

    before: computed per element of the reduced shape: first the value of each head, then the full
    results beside them (`sides`: output numbers). axes: reduced dims. after: computed per element
    of the result, the first operands being the heads; `finals`: output numbers of its outputs.
    """

    heads: tuple[Head, ...]
    before: IterationSpace
    sides: tuple[int, ...]
    axes: tuple[int, ...]
    after: IterationSpace
    finals: tuple[int, ...]


def reduce_plan(group: FusedGroup) -> ReducePlan:
    """Return the plan of a reduce group.

    Its reductions are of one shape over one set of axes. None reduces another's result, except
    squared distances from a mean. Elementwise nodes before them have their inputs' shape, those
    after them their result's shape. Raises Unsupported where members do not fit.
    """
    numbers = [k for k, m in enumerate(group.members) if m.spec.op in reducers.OPS]
    if not 0 < len(numbers) <= MAX_HEADS:
        raise Unsupported(f"{len(numbers)} reductions")
    first = group.members[numbers[0]]
    space = group.tensor(first.inputs[0]).shape
    axes = reduced_axes(group, first)
    for number in numbers[1:]:
        member = group.members[number]
        if group.tensor(member.inputs[0]).shape != space or reduced_axes(group, member) != axes:
            raise Unsupported(
                f"{member.spec.op} {member.spec.name} reduces another shape or other axes than "
                f"{first.spec.name}"
            )
    after_shape = max((group.members[number].spec.outputs[0].shape for number in numbers), key=len)
    late = _members_after(group, numbers)
    needed = _needed(group, numbers, late, after_shape)
    before = IterationSpaceBuilder(group, space, is_leaf=lambda ref: ref.member in numbers)
    heads, values = [], []
    for number in needed:
        member = group.members[number]
        what, dtype = reducers.OPS[member.spec.op], member.spec.outputs[0].dtype
        spread = _spread(group, number, numbers)
        value = before.value(
            spread if spread is not None else member.inputs[0], identity_map(len(space))
        )
        if what.squares:
            value = before._emit("Square", (value,), dtype, ())
        summed = reducers.summed_dtype(what, dtype)
        if summed is not dtype:
            value = before._emit("Cast", (value,), summed, ())
        heads.append(Head(what, summed, dtype, spread is not None))
        values.append(value)
    after = IterationSpaceBuilder(group, after_shape, is_leaf=lambda ref: ref.member in numbers)
    results = [Ref(number) for number in needed]
    for ref in results:  # so that the heads are the first operands
        after.value(ref, _whole(after, group.tensor(ref).shape, after_shape))
    finals: list[tuple[int, tuple[bool, int]]] = []
    sides: list[tuple[int, tuple[bool, int]]] = []
    for k, ref in enumerate(group.outputs):
        shape = group.tensor(ref).shape
        builder, target, found = (
            (after, after_shape, finals) if ref.member in late else (before, space, sides)
        )
        if prod(shape) != prod(target):  # This is a side result; the others were handled before.
            raise Unsupported(
                f"{group.members[ref.member].spec.name} has another shape than {list(target)}"
            )
        found.append((k, builder.value(ref, _whole(builder, shape, target))))
    if (
        len(sides) + sum(3 if h.central else 1 for h in heads) > MAX_OUTPUTS
        or len(finals) >= MAX_OUTPUTS
    ):
        raise Unsupported("too many results")
    space_before = before.finish([*values, *(v for _, v in sides)])
    space_after = after.finish([v for _, v in finals])
    if any(operand.ref.member in numbers for operand in space_before.operands):
        raise Unsupported("one reduction depends on the result of another")
    for iteration_space in (space_before, space_after):
        if expressions.program_errors(iteration_space.program):
            raise Unsupported("a program that can fail")
    _require_whole_operands(group, space_after, results)
    return ReducePlan(
        tuple(heads),
        space_before,
        tuple(k for k, _ in sides),
        axes,
        space_after,
        tuple(k for k, _ in finals),
    )


def reduced_strides(space: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    """Return strides of the result along the reduced shape's dims.

    They count elements, and are 0 along reduced dims.
    """
    strides = [0] * len(space)
    step = 1
    for k in range(len(space) - 1, -1, -1):
        if k not in axes and space[k] != 1:
            strides[k] = step
            step *= max(space[k], 1)
    return tuple(strides)


def unreduced_strides(group: FusedGroup, output: int, space: Sequence[int]) -> tuple[int, ...]:
    """Return an output's strides along the reduced shape's dims, in bytes."""
    size = group.tensor(group.outputs[output]).dtype.size
    return tuple(0 if n == 1 else b for n, b in zip(space, c_strides(space, size)))


def _needed(
    group: FusedGroup, heads: Sequence[int], late: set[int], shape: tuple[int, ...]
) -> list[int]:
    """Return the reductions that results of the group are computed from.

    A mean is left out if only squared distances use it.
    """
    trial = IterationSpaceBuilder(group, shape, is_leaf=lambda ref: ref.member in heads)
    for ref in group.outputs:
        own = group.tensor(ref).shape
        if ref.member in late:
            if prod(own) != prod(shape):
                raise Unsupported(
                    f"{group.members[ref.member].spec.name} is larger than the reduction's result"
                )
            trial.value(ref, _whole(trial, own, shape))
    used = {operand.ref.member for operand in trial.finish([]).operands}
    return [head for head in heads if head in used] or list(heads[:1])


def _whole(
    builder: IterationSpaceBuilder, shape: tuple[int, ...], target: tuple[int, ...]
) -> tuple[tuple[int, tuple[tuple[int, int], ...]], ...]:
    return identity_map(len(shape)) if shape == target else builder.whole(shape)


def _require_whole_operands(
    group: FusedGroup, space: IterationSpace, results: Sequence[Ref]
) -> None:
    full = c_strides(space.shape)
    for k, operand in enumerate(space.operands):
        whole = tuple(0 if n == 1 else s * operand.dtype.size for n, s in zip(space.shape, full))
        if k < len(results):
            fits = operand.ref == results[k] and operand.strides == whole
        else:
            fits = operand.ref not in results and (
                not any(operand.strides) or operand.strides == whole
            )
        if not fits or operand.offset:
            raise Unsupported("after the reduction only scalars and operands of its result's shape")


def _members_after(group: FusedGroup, heads: Sequence[int]) -> set[int]:
    """Return the reductions and the members that need their results."""
    late = set(heads)
    for k, member in enumerate(group.members):
        if any(ref.member in late for ref in member.inputs):
            late.add(k)
    return late


def _spread(group: FusedGroup, head: int, heads: Sequence[int]) -> Ref | None:
    """Return x of a sum or mean of (x - mean(x))^2.

    Both reductions are over the same axes. None means that this reduction is another one.
    """
    member = group.members[head]
    what, dtype = reducers.OPS[member.spec.op], member.spec.outputs[0].dtype
    if what.kind != "sum" or what.squares or dtype not in (d.float32, d.float64) or len(heads) < 2:
        return None
    ref = _forwarded(group, member.inputs[0])
    if ref.member < 0:
        return None
    square = group.members[ref.member]
    pair = square.inputs
    if square.spec.op in ("Square", "Mul"):
        inner = _forwarded(group, pair[0])
        if (
            inner.member < 0
            or _forwarded(group, pair[-1]) != inner
            or group.members[inner.member].spec.op != "Sub"
        ):
            return None
        pair = group.members[inner.member].inputs
    elif square.spec.op != "SquaredDifference":
        return None
    for x, mean in (pair, pair[::-1]):
        source = _forwarded(group, mean, IDENTITY | RESHAPE)
        shape, space = group.tensor(mean).shape, group.tensor(member.inputs[0]).shape
        if (
            source.member not in heads
            or group.members[source.member].spec.op != "Mean"
            or group.tensor(x).shape != space
        ):
            continue
        axes = reduced_axes(group, member)
        kept = tuple(1 if k in axes else n for k, n in enumerate(space))
        aligned = (1,) * (len(space) - len(shape)) + shape
        if aligned == kept and _forwarded(
            group, group.members[source.member].inputs[0]
        ) == _forwarded(group, x):
            return x
    return None


def _forwarded(group: FusedGroup, ref: Ref, traits: int = IDENTITY) -> Ref:
    """Return the source of a value, through identities."""
    while ref.member >= 0 and group.members[ref.member].spec.has_trait(traits):
        ref = group.members[ref.member].inputs[0]
    return ref


class ReduceSpace(NamedTuple):
    """The collapsed dimensions of a reduce group.

    operands: those of the loops before it, then its unreduced outputs. strides: of each operand, in
    bytes. kept: for each dimension, whether the result has it.
    """

    operands: list[Operand]
    dims: tuple[int, ...]
    strides: list[tuple[int, ...]]
    kept: tuple[bool, ...]


def reduce_space(group: FusedGroup, plan: ReducePlan) -> ReduceSpace:
    """Return the dimensions of a reduce group, one at least."""
    space = plan.before.shape
    sides = [
        Operand(
            group.outputs[k],
            group.tensor(group.outputs[k]).dtype,
            unreduced_strides(group, k, space),
        )
        for k in plan.sides
    ]
    operands = [*plan.before.operands, *sides]
    kept_strides = reduced_strides(space, plan.axes)
    dims, strides = collapse(space, [*(o.strides for o in operands), kept_strides])
    if not dims:
        dims, strides = (1,), [(0,)] * (len(operands) + 1)
    kept = tuple(stride != 0 for stride in strides[-1])
    return ReduceSpace(operands, dims, strides[:-1], kept)
