"""Turn a rows group into one scalar program.

It has the reductions along the same rows and the elementwise members between them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any, Final

from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.elementwise.loop import MAX_OUTPUTS
from tfjit.kernels.cpu.reduction import reducers
from tfjit.kernels.cpu.reduction.reducers import reduced_axes
from tfjit.kernels.cpu.template.iteration_space import (
    Affine,
    IndexMap,
    IterationSpaceBuilder,
    Operand,
    c_strides,
    identity_map,
    reshape_map,
)
from tfjit.kernels.ir.fused_group import CONSTANT, INPUT, FusedGroup, Member, Ref
from tfjit.kernels.ir.op_forms import ROW_OPS
from tfjit.kernels.ir.scalar_program import Program, ScalarOp
from tfjit.kernels.registry import Unsupported

# pseudo ops of a row program, beside the rows of framework.elementwise
REDUCE: Final = "reduce."  # reduce.<kind>: a vector -> one value a row
POSITION: Final = "row.position"  # the column number, int32
LITERAL: Final = "row.constant"  # attr value
WIDTH: Final = "row.width"  # number of columns, so that the text holds no sizes
DIVIDE: Final = "row.divide"  # of integers, towards zero, by a divisor other than 0
LABEL: Final = "row.label"  # a class number, checked against the row's width
PICK: Final = "row.pick"  # the element of a vector in the column that a LABEL names
SHIFTED: Final = "shifted"  # attr of an Exp whose argument had its row's maximum subtracted


@dataclass(frozen=True, slots=True)
class RowProgram:
    """A program over rows, with pseudo ops.

    space: rows' dims, then the row's; outer: the number of the rows' dims. results: the layout of
    each output.
    """

    space: tuple[int, ...]
    outer: int
    operands: tuple[Operand, ...]
    program: Program
    results: tuple[Operand, ...]

    @property
    def width(self) -> int:
        """Return the elements of a row."""
        return prod(self.space[self.outer :])


class _RowBuilder(IterationSpaceBuilder):
    """Builder that adds reductions along the row to the elementwise members."""

    def __init__(self, group: FusedGroup, space: tuple[int, ...], outer: int) -> None:
        super().__init__(group, space)
        self.outer = outer
        self._whole = identity_map(len(space))
        self._per_member: dict[Ref, tuple[bool, int]] = {}

    def _compute(self, ref: Ref, index: IndexMap) -> tuple[bool, int]:
        if ref.member in (INPUT, CONSTANT):
            return super()._compute(ref, index)
        member = self.group.members[ref.member]
        op = member.spec.op
        if op not in reducers.OPS and op not in ROW_OPS:
            return super()._compute(ref, index)
        self._require_own_place(member, ref, index)
        found = self._per_member.get(ref)
        if found is None:
            if op in ROW_OPS:
                for k, value in enumerate(self._row_op(member)):
                    self._per_member[Ref(ref.member, k)] = value
            else:
                self._per_member[ref] = self._reduction(member)
            found = self._per_member[ref]
        return found

    def _require_own_place(self, member: Member, ref: Ref, index: IndexMap) -> None:
        """Refuse a use of a row's result in another row."""
        shape = member.spec.outputs[ref.index].shape
        terms = [self._plain(a) for a in index]
        own = [self._plain(a) for a in self._whole[: self.outer]]
        kept = [t for t, n in zip(terms, shape) if n != 1]
        wanted = [t for t, n in zip(own, self.space) if n != 1]
        if len(shape) == len(self.space) and kept == [
            self._plain(a) for a, n in zip(self._whole, self.space) if n != 1
        ]:
            return
        if kept != wanted:
            raise Unsupported(f"{member.spec.name} is used across rows")

    def _plain(self, affine: Affine) -> tuple[int, tuple[tuple[int, int], ...]]:
        return affine[0], tuple(t for t in affine[1] if self.space[t[0]] != 1)

    def _emit_op(
        self, op: str, dtype: DType, *arguments: tuple[bool, int], **attrs: Any
    ) -> tuple[bool, int]:
        return self._emit(op, arguments, dtype, tuple(attrs.items()))

    def _reduction(self, member: Member) -> tuple[bool, int]:
        spec = member.spec
        source = self.group.tensor(member.inputs[0])
        if source.shape != self.space:
            raise Unsupported(
                f"{spec.op} {spec.name} reduces {list(source.shape)}, the rows are "
                f"{list(self.space)}"
            )
        if reduced_axes(self.group, member) != tuple(range(self.outer, len(self.space))):
            raise Unsupported(f"{spec.op} {spec.name} reduces other axes than the rows'")
        what = reducers.OPS[spec.op]
        dtype = spec.outputs[0].dtype
        value = self.value(member.inputs[0], self._whole)
        if what.squares:
            value = self._emit_op("Square", dtype, value)
        summed = reducers.summed_dtype(what, dtype)
        if summed is not dtype:
            value = self._emit_op("Cast", summed, value)
        total = self._emit_op(REDUCE + what.kind, summed, value)
        if what.mean:
            total = self._emit_op(
                DIVIDE if dtype.is_integer else "RealDiv",
                summed,
                total,
                self._emit_op(WIDTH, summed),
            )
        if summed is not dtype:
            total = self._emit_op("Cast", dtype, total)
        if what.root:
            total = self._emit_op("Sqrt", dtype, total)
        if what.half:
            total = self._emit_op("Mul", dtype, total, self._constant_value(0.5, dtype))
        return total

    def _constant_value(self, value: float, dtype: DType) -> tuple[bool, int]:
        return self._emit_op(LITERAL, dtype, value=value)

    def _row_op(self, member: Member) -> list[tuple[bool, int]]:
        """Return all outputs of an op that is several reductions itself."""
        spec = member.spec
        dtype = spec.inputs[0].dtype
        shape = spec.outputs[-1].shape
        if shape != self.space or self.outer != len(shape) - 1:
            raise Unsupported(f"{spec.op} {spec.name} has rows of its own")
        x = self._argument(member, 0, self._whole, shape)
        shifted = self._emit_op("Sub", dtype, x, self._emit_op(REDUCE + "max", dtype, x))
        e = self._emit_op("Exp", dtype, shifted)
        total = self._emit_op(REDUCE + "sum", dtype, e)
        if spec.op == "LogSoftmax":
            return [self._emit_op("Sub", dtype, shifted, self._emit_op("Log", dtype, total))]
        softmax = self._emit_op("Mul", dtype, e, self._emit_op("Reciprocal", dtype, total))
        if spec.op == "Softmax":
            return [softmax]
        if spec.op == "SoftmaxCrossEntropyWithLogits":
            labels = self._argument(member, 1, self._whole, shape)
            log = self._emit_op("Log", dtype, total)
            terms = self._emit_op("Mul", dtype, labels, self._emit_op("Sub", dtype, log, shifted))
            return [
                self._emit_op(REDUCE + "sum", dtype, terms),
                self._emit_op("Sub", dtype, softmax, labels),
            ]
        label = self._emit_op(
            LABEL, d.int32, self.value(member.inputs[1], self._whole[: self.outer])
        )
        here = self._emit_op("Equal", d.bool, self._emit_op(POSITION, d.int32), label)
        zero, one = self._constant_value(0.0, dtype), self._constant_value(1.0, dtype)
        loss = self._emit_op(
            "Sub",
            dtype,
            self._emit_op("Log", dtype, total),
            self._emit_op(PICK, dtype, shifted, label),
        )
        return [
            loss,
            self._emit_op("Sub", dtype, softmax, self._emit_op("SelectV2", dtype, here, one, zero)),
        ]


def row_program(group: FusedGroup) -> RowProgram:
    """Return the row program of a group.

    Raises Unsupported where its members do not fit rows of one shape.
    """
    heads = [m for m in group.members if m.spec.op in reducers.OPS or m.spec.op in ROW_OPS]
    if not heads:
        raise Unsupported("no reduction")
    head = heads[0]
    if head.spec.op in ROW_OPS:
        space = head.spec.outputs[-1].shape
        outer = len(space) - 1
    else:
        space = group.tensor(head.inputs[0]).shape
        axes = reduced_axes(group, head)
        outer = len(space) - len(axes)
        if axes != tuple(range(outer, len(space))):
            raise Unsupported(f"{head.spec.op} {head.spec.name} does not reduce the last dims")
    builder = _RowBuilder(group, space, outer)
    values = []
    results = []
    rows, width = space[:outer], prod(space[outer:])
    for ref in group.outputs:
        tensor = group.tensor(ref)
        if tensor.size == prod(space) and (width != 1 or len(tensor.shape) == len(space)):
            index = (
                identity_map(len(space)) if tensor.shape == space else builder.whole(tensor.shape)
            )
            strides = c_strides(space, tensor.dtype.size)
        elif tensor.size == prod(rows):
            found = reshape_map(identity_map(outer), tensor.shape, rows, space)
            if found is None:
                raise Unsupported(
                    f"a result of shape {list(tensor.shape)} beside rows {list(rows)}"
                )
            index = found
            strides = (*c_strides(rows, tensor.dtype.size), *(0 for _ in space[outer:]))
        else:
            raise Unsupported(
                f"a result of shape {list(tensor.shape)} beside rows of {list(space)}"
            )
        values.append(builder.value(ref, index))
        results.append(
            Operand(ref, tensor.dtype, tuple(0 if n == 1 else b for n, b in zip(space, strides)))
        )
    iteration_space = builder.finish(values)
    if len(results) > MAX_OUTPUTS - 4:
        raise Unsupported(f"{len(results)} results")
    dtypes = [*iteration_space.program.inputs, *(op.dtype for op in iteration_space.program.ops)]
    for op in iteration_space.program.ops:
        if (
            "." not in op.op
            and expressions.failure(op.op, [dtypes[k] for k in op.args]) is not None
        ):
            raise Unsupported(f"{op.op} may fail")
    return RowProgram(
        space,
        outer,
        iteration_space.operands,
        _with_shifted_exp(iteration_space.program),
        tuple(results),
    )


def _with_shifted_exp(program: Program) -> Program:
    """Mark every Exp of v - max(v) in a program.

    Instead of max(v) another number may be subtracted if max(v) is not finite. The argument of such
    an Exp is above 0 only in a row with a NaN or an infinity, where the sum it adds to is one, too.
    """
    base = len(program.inputs)

    def made(value: int) -> ScalarOp | None:
        return program.ops[value - base] if value >= base else None

    def is_top(value: int, of: int) -> bool:
        op = made(value)
        if op is not None and op.op in ("Select", "SelectV2"):
            finite = made(op.args[0])
            return (
                finite is not None
                and finite.op == "IsFinite"
                and finite.args[0] == op.args[1]
                and is_top(op.args[1], of)
            )
        return op is not None and op.op == REDUCE + "max" and op.args[0] == of

    ops = []
    for op in program.ops:
        argument = made(op.args[0]) if op.op == "Exp" and op.dtype.is_floating else None
        if (
            argument is not None
            and argument.op == "Sub"
            and is_top(argument.args[1], argument.args[0])
        ):
            op = replace(op, attrs=((SHIFTED, True),))
        ops.append(op)
    return replace(program, ops=tuple(ops))
