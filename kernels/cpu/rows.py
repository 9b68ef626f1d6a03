"""Kernels that work row by row: several reductions along the same rows and what lies between them, one pass over memory.

A row stays in cache while it is read again: softmax, layer norm, log-sum-exp, normalisation, cross entropy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Final

from tfjit.framework import dtypes as d
from tfjit.framework.dtypes import DType
from tfjit.kernels import expressions
from tfjit.kernels.cpu import access, costs, reducers
from tfjit.kernels.cpu.loop import MAX_OUTPUTS
from tfjit.kernels.cpu.loop_text import CONTIGUOUS, HOISTED, STRIDED, advance_odometer, inner_pattern, write_odometer
from tfjit.kernels.cpu.reducers import ROW_OPS, reduced_axes
from tfjit.kernels.cpu.region import Affine, IndexMap, Operand, RegionBuilder, c_strides, collapse, identity_map, reshape_map, single
from tfjit.kernels.group import CONSTANT, INPUT, FusedGroup, Member, Ref
from tfjit.kernels.program import Program, ScalarOp
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, Unsupported, Word, native
from tfjit.kernels.source import KernelSource, Source

BLOCK: Final = 4096
"""Elements that are summed up in one go; longer rows are put together from such sums in float64."""
_RECOMPUTE_NS: Final = 0.12
"""What is dearer than that per element is kept in scratch memory for the next pass over the row instead of computed again."""
_SCRATCH_LIMIT: Final = 1 << 24
_LABEL_ERROR: Final = 1

# pseudo ops of a row program, beside the rows of framework.elementwise
_REDUCE: Final = "reduce."  # reduce.<kind>: a vector -> one value a row
_POSITION: Final = "row.position"  # the column number, int32
_CONSTANT: Final = "row.constant"  # attr value
_WIDTH: Final = "row.width"  # number of columns, so that the text holds no sizes
_DIVIDE: Final = "row.divide"  # of integers, towards zero, by what is not zero
_LABEL: Final = "row.label"  # a class number, checked against the row's width


@dataclass(frozen=True, slots=True)
class RowProgram:
    """space: rows' dims, then the row's; outer: how many are the rows'. program: with pseudo ops. results: how each output lies."""

    space: tuple[int, ...]
    outer: int
    operands: tuple[Operand, ...]
    program: Program
    results: tuple[Operand, ...]

    @property
    def width(self) -> int:
        """Elements of a row."""
        return prod(self.space[self.outer :])


class _RowBuilder(RegionBuilder):
    """Adds reductions along the row to the elementwise members."""

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
        """A result of a row may be used in that row only."""
        shape = member.spec.outputs[ref.index].shape
        terms = [self._plain(a) for a in index]
        own = [self._plain(a) for a in self._whole[: self.outer]]
        kept = [t for t, n in zip(terms, shape) if n != 1]
        wanted = [t for t, n in zip(own, self.space) if n != 1]
        if len(shape) == len(self.space) and kept == [self._plain(a) for a, n in zip(self._whole, self.space) if n != 1]:
            return
        if kept != wanted:
            raise Unsupported(f"{member.spec.name} is used across rows")

    def _plain(self, affine: Affine) -> tuple[int, tuple[tuple[int, int], ...]]:
        return affine[0], tuple(t for t in affine[1] if self.space[t[0]] != 1)

    def _emit_op(self, op: str, dtype: DType, *arguments: tuple[bool, int], **attrs: Any) -> tuple[bool, int]:
        return self._emit(op, arguments, dtype, tuple(attrs.items()))

    def _reduction(self, member: Member) -> tuple[bool, int]:
        spec = member.spec
        source = self.group.tensor(member.inputs[0])
        if source.shape != self.space:
            raise Unsupported(f"{spec.op} {spec.name} reduces {list(source.shape)}, the rows are {list(self.space)}")
        if reduced_axes(self.group, member) != tuple(range(self.outer, len(self.space))):
            raise Unsupported(f"{spec.op} {spec.name} reduces other axes than the rows'")
        what = reducers.OPS[spec.op]
        dtype = spec.outputs[0].dtype
        value = self.value(member.inputs[0], self._whole)
        if what.squares:
            value = self._emit_op("Square", dtype, value)
        total = self._emit_op(_REDUCE + what.kind, dtype, value)
        if what.mean:
            total = self._emit_op(_DIVIDE if dtype.is_integer else "RealDiv", dtype, total, self._emit_op(_WIDTH, dtype))
        if what.root:
            total = self._emit_op("Sqrt", dtype, total)
        if what.half:
            total = self._emit_op("Mul", dtype, total, self._constant_value(0.5, dtype))
        return total

    def _constant_value(self, value: float, dtype: DType) -> tuple[bool, int]:
        return self._emit_op(_CONSTANT, dtype, value=value)

    def _row_op(self, member: Member) -> list[tuple[bool, int]]:
        """All outputs of an op that is several reductions itself."""
        spec = member.spec
        dtype = spec.inputs[0].dtype
        shape = spec.outputs[-1].shape
        if shape != self.space or self.outer != len(shape) - 1:
            raise Unsupported(f"{spec.op} {spec.name} has rows of its own")
        x = self._argument(member, 0, self._whole, shape)
        shifted = self._emit_op("Sub", dtype, x, self._emit_op(_REDUCE + "max", dtype, x))
        e = self._emit_op("Exp", dtype, shifted)
        total = self._emit_op(_REDUCE + "sum", dtype, e)
        if spec.op == "LogSoftmax":
            return [self._emit_op("Sub", dtype, shifted, self._emit_op("Log", dtype, total))]
        softmax = self._emit_op("Mul", dtype, e, self._emit_op("Reciprocal", dtype, total))
        if spec.op == "Softmax":
            return [softmax]
        if spec.op == "SoftmaxCrossEntropyWithLogits":
            labels = self._argument(member, 1, self._whole, shape)
            log = self._emit_op("Log", dtype, total)
            terms = self._emit_op("Mul", dtype, labels, self._emit_op("Sub", dtype, log, shifted))
            return [self._emit_op(_REDUCE + "sum", dtype, terms), self._emit_op("Sub", dtype, softmax, labels)]
        label = self._emit_op(_LABEL, d.int32, self.value(member.inputs[1], self._whole[: self.outer]))
        here = self._emit_op("Equal", d.bool, self._emit_op(_POSITION, d.int32), label)
        zero, one = self._constant_value(0.0, dtype), self._constant_value(1.0, dtype)
        picked = self._emit_op(_REDUCE + "sum", dtype, self._emit_op("SelectV2", dtype, here, shifted, zero))
        loss = self._emit_op("Sub", dtype, self._emit_op("Log", dtype, total), picked)
        return [loss, self._emit_op("Sub", dtype, softmax, self._emit_op("SelectV2", dtype, here, one, zero))]


def row_program(group: FusedGroup) -> RowProgram:
    """The row program of a group. Raises Unsupported where its members do not fit rows of one shape."""
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
            index = identity_map(len(space)) if tensor.shape == space else builder.whole(tensor.shape)
            strides = c_strides(space, tensor.dtype.size)
        elif tensor.size == prod(rows):
            found = reshape_map(identity_map(outer), tensor.shape, rows, space)
            if found is None:
                raise Unsupported(f"a result of shape {list(tensor.shape)} beside rows {list(rows)}")
            index = found
            strides = (*c_strides(rows, tensor.dtype.size), *(0 for _ in space[outer:]))
        else:
            raise Unsupported(f"a result of shape {list(tensor.shape)} beside rows of {list(space)}")
        values.append(builder.value(ref, index))
        results.append(Operand(ref, tensor.dtype, tuple(0 if n == 1 else b for n, b in zip(space, strides))))
    region = builder.finish(values)
    if len(results) > MAX_OUTPUTS - 4:
        raise Unsupported(f"{len(results)} results")
    dtypes = [*region.program.inputs, *(op.dtype for op in region.program.ops)]
    for op in region.program.ops:
        if "." not in op.op and expressions.failure(op.op, [dtypes[k] for k in op.args]) is not None:
            raise Unsupported(f"{op.op} may fail")
    return RowProgram(space, outer, region.operands, region.program, tuple(results))


@dataclass(slots=True)
class _Schedule:
    """When each value is computed. vector: whether it has an element a column; stage: how many passes over the row come before it.

    passes[s]: vector values that pass s must have, in order; kept: those that later passes find in scratch, by number.
    """

    vector: list[bool]
    stage: list[int]
    passes: list[list[int]] = field(default_factory=list)
    kept: dict[int, int] = field(default_factory=dict)


def _schedule(rows: RowProgram, patterns: Sequence[str]) -> _Schedule:
    program = rows.program
    base = len(program.inputs)
    vector = [p != HOISTED for p in patterns]
    stage = [0] * base
    again = [0.0] * base  # ns to compute a value anew from operands
    for op in program.ops:
        late = max((stage[a] for a in op.args), default=0)
        if op.op.startswith(_REDUCE):
            if not vector[op.args[0]]:
                raise Unsupported("a sum over one value that is the same along the row")
            vector.append(False)
            stage.append(late + 1)
            again.append(0.0)
        else:
            wide = op.op == _POSITION or any(vector[a] for a in op.args)
            vector.append(wide)
            stage.append(late)
            again.append(sum(again[a] for a in op.args) + costs.op_ns(op.op, op.dtype.size) if wide else 0.0)
    schedule = _Schedule(vector, stage)
    columns = [  # results that have an element a column
        value
        for value, result in zip(program.outputs, rows.results)
        if any(result.strides[rows.outer :]) or (rows.width == 1 and vector[value])
    ]
    reduced = [op.args[0] for op in program.ops if op.op.startswith(_REDUCE)]
    last = max(stage[value] for value in [*columns, *reduced])
    wanted: list[set[int]] = [set() for _ in range(last + 1)]
    for value in [*columns, *reduced]:
        wanted[stage[value]].add(value)
    for s in range(last, -1, -1):
        needed: set[int] = set()
        stack = list(wanted[s])
        while stack:
            value = stack.pop()
            if value in needed or not vector[value]:
                continue
            needed.add(value)
            if value < base:
                continue
            if stage[value] < s and again[value] > _RECOMPUTE_NS:
                schedule.kept.setdefault(value, len(schedule.kept))
                wanted[stage[value]].add(value)
            else:
                stack += program.ops[value - base].args
        schedule.passes.insert(0, sorted(needed))
    return schedule


class _RowWriter:
    """Text of one row kernel."""

    def __init__(self, rows: RowProgram, rank: int, patterns: Sequence[str], outputs: Sequence[str], schedule: _Schedule) -> None:
        self.rows = rows
        self.program = rows.program
        self.base = len(self.program.inputs)
        self.rank = rank
        self.patterns = patterns
        self.outputs = outputs
        self.schedule = schedule
        self.names = [f"x{k}" for k in range(self.base)] + [f"r{k}" for k in range(len(self.program.ops))]
        self.dtypes = [*self.program.inputs, *(op.dtype for op in self.program.ops)]
        self.s = Source()

    def write(self, title: str) -> KernelSource:
        s = self.s
        s.line(f"# rows of {self.rank} outer dims: {' '.join(op.op for op in self.program.ops)}")
        for line in reducers.IMPORTS:
            s.line(line)
        checks = any(op.op == _LABEL for op in self.program.ops)
        with s.block("def kernel(args, chunk, nchunks):"):
            for k in range(self.rank):
                s.line(f"n{k} = word(args, {2 + k})")
            s.line(f"width = word(args, {2 + self.rank})")
            at = 3 + self.rank
            for k, pattern in enumerate([*self.patterns, *self.outputs]):
                name = f"x{k}" if k < self.base else f"y{k - self.base}"
                s.line(f"{name}_at = word(args, {at})")
                for dim in range(self.rank):
                    s.line(f"{name}_s{dim} = word(args, {at + 1 + dim})")
                at += 1 + self.rank
                if pattern == STRIDED:
                    s.line(f"{name}_step = word(args, {at})")
                    at += 1
            if self.schedule.kept:
                s.line(f"kept = word(args, {at}) + chunk * word(args, {at + 1})")
                for value, number in self.schedule.kept.items():
                    s.line(f"k{number}_p = {access.pointer(self.dtypes[value], f'kept + {number} * word(args, {at + 2})')}")
            if checks:
                s.line("bad = 0")
                s.line("bad_label = 0")
            s.line("parts = 1")
            s.line(f"units = {' * '.join(f'n{k}' for k in range(self.rank))}")
            s.line("first = units * chunk // nchunks")
            s.line("count = units * (chunk + 1) // nchunks - first")
            write_odometer(s, self.rank)
            with s.block("for unit in range(count):"):
                self._row()
                advance_odometer(s, self.rank)
            if checks:
                with s.block("if bad != 0:"):
                    s.line(f"fail(args, {_LABEL_ERROR}, bad_label)")
        return KernelSource(s.text(), title=title)

    def _base(self, name: str) -> str:
        return " + ".join([f"{name}_at", *(f"i{k} * {name}_s{k}" for k in range(self.rank))])

    def _row(self) -> None:
        s = self.s
        for k, pattern in enumerate(self.patterns):
            dtype = self.dtypes[k]
            if pattern == HOISTED:
                element = f"ld({access.pointer(dtype, self._base('x' + str(k)))}, 0)"
                s.line(f"x{k} = {expressions.loaded(dtype, element)}")
            else:
                s.line(f"x{k}_row = {self._base(f'x{k}')}")
        for k, pattern in enumerate(self.outputs):
            if pattern != HOISTED:
                s.line(f"y{k}_row = {self._base(f'y{k}')}")
        self._scalars(0)
        for number in range(len(self.schedule.passes)):
            self._pass(number)
            self._scalars(number + 1)
        for k, pattern in enumerate(self.outputs):
            if pattern == HOISTED:
                value = self.program.outputs[k]
                dtype = self.rows.results[k].dtype
                s.line(f"y{k}_p = {access.pointer(dtype, self._base(f'y{k}'))}")
                s.line(f"st_out(y{k}_p, 0, {expressions.stored(dtype, self.names[value])}, {k})")

    def _scalars(self, stage: int) -> None:
        """Values of the row that are known once `stage` passes are over."""
        s = self.s
        for k, op in enumerate(self.program.ops):
            value = self.base + k
            if self.schedule.vector[value] or self.schedule.stage[value] != stage or op.op.startswith(_REDUCE):
                continue
            if op.op == _LABEL:
                label = self.names[op.args[0]]
                with s.block(f"if {label} < 0 or {label} >= width:"):
                    s.line("bad = 1")
                    s.line(f"bad_label = int64({label})")
                s.line(f"{self.names[value]} = int32({label})")
            else:
                self._ops([value], lambda v: self.names[v])

    def _ops(self, values: Sequence[int], name: Any) -> None:
        """Assign elementwise values, in order, under their names."""
        s = self.s
        for value in values:
            op = self.program.ops[value - self.base]
            if op.op == _CONSTANT:
                s.line(f"{self.names[value]} = {expressions.literal(dict(op.attrs)['value'], op.dtype)}")
            elif op.op == _DIVIDE:
                s.line(f"{self.names[value]} = idiv({name(op.args[0])}, {name(op.args[1])})")
            elif op.op == _WIDTH:
                s.line(f"{self.names[value]} = {expressions.register_type(op.dtype)}(width)")
            elif op.op == _POSITION:
                s.line(f"{self.names[value]} = int32(start + i)")
            else:
                arguments = tuple(range(len(op.args)))
                scalar = ScalarOp(op.op, arguments, op.dtype, op.attrs)
                program = Program(tuple(self.dtypes[a] for a in op.args), (scalar,), (len(op.args),))
                (result,) = expressions.emit_program(s, program, [name(a) for a in op.args], "failed", prefix=f"t{value - self.base}_")
                s.line(f"{self.names[value]} = {result}")

    def _pass(self, number: int) -> None:
        """One pass over the row."""
        s, schedule, base = self.s, self.schedule, self.base
        needed = schedule.passes[number]
        reductions = [
            (base + k, op) for k, op in enumerate(self.program.ops) if op.op.startswith(_REDUCE) and schedule.stage[op.args[0]] == number
        ]
        stores = [k for k, value in enumerate(self.program.outputs) if self.outputs[k] != HOISTED and schedule.stage[value] == number]
        for value, op in reductions:
            kind = op.op.removeprefix(_REDUCE)
            wide = reducers.wide_type(kind, op.dtype)
            begin = reducers.start(kind, op.dtype)
            s.line(f"{self.names[value]}_w = {f'{wide}({begin})' if wide == 'float64' else begin}")
        with s.block(f"for block in range((width + {BLOCK - 1}) // {BLOCK}):"):
            s.line(f"start = block * {BLOCK}")
            s.line(f"m = min(width - start, {BLOCK})")
            for value in needed:
                if value < base:
                    self._pointer(f"x{value}", self.dtypes[value], self.patterns[value])
            for k in stores:
                self._pointer(f"y{k}", self.rows.results[k].dtype, self.outputs[k])
            for value, op in reductions:
                s.line(f"{self.names[value]} = {reducers.start(op.op.removeprefix(_REDUCE), op.dtype)}")
            with s.block("for i in range(m):"):
                for value in needed:
                    if value < base:
                        dtype = self.dtypes[value]
                        strided = self.patterns[value] == STRIDED
                        element = f"ld_at(x{value}_p, i * x{value}_step)" if strided else f"ld(x{value}_p, i)"
                        s.line(f"x{value} = {expressions.loaded(dtype, element)}")
                    elif value in schedule.kept and schedule.stage[value] < number:
                        element = f"ld_out(k{schedule.kept[value]}_p, start + i, {self._scope(value)})"
                        s.line(f"{self.names[value]} = {expressions.loaded(self.dtypes[value], element)}")
                    else:
                        self._ops([value], lambda v: self.names[v])
                for value in needed:
                    if schedule.kept.get(value) is not None and schedule.stage[value] == number:
                        stored = expressions.stored(self.dtypes[value], self.names[value])
                        s.line(f"st_out(k{schedule.kept[value]}_p, start + i, {stored}, {self._scope(value)})")
                for k in stores:
                    stored = expressions.stored(self.rows.results[k].dtype, self.names[self.program.outputs[k]])
                    s.line(f"st_out(y{k}_p, i, {stored}, {k})")
                for value, op in reductions:
                    name = self.names[value]
                    s.line(f"{name} = {reducers.step(op.op.removeprefix(_REDUCE), op.dtype, name, self.names[op.args[0]])}")
            for value, op in reductions:
                kind, name = op.op.removeprefix(_REDUCE), self.names[value]
                wide = reducers.wide_type(kind, op.dtype)
                taken = f"float64({name})" if wide == "float64" else name
                in_order = reducers.step(kind, op.dtype, f"{name}_w", taken, in_order=True)
                s.line(f"{name}_w = {in_order}")
        for value, op in reductions:
            s.line(f"{self.names[value]} = {reducers.narrowed(op.dtype, self.names[value] + '_w')}")

    def _scope(self, value: int) -> int:
        return len(self.outputs) + self.schedule.kept[value]

    def _pointer(self, name: str, dtype: DType, pattern: str) -> None:
        step = f"{name}_step" if pattern == STRIDED else str(dtype.size)
        self.s.line(f"{name}_p = {access.pointer(dtype, f'{name}_row + start * {step}')}")


def rows_call(group: FusedGroup) -> NativeCall:
    """Launches of a rows group. Raises Unsupported where it does not fit the template."""
    rows = row_program(group)
    total = prod(rows.space)
    if total == 0:
        raise Unsupported("empty rows")
    operands = [*rows.operands, *rows.results]
    row_dims, row_strides = collapse(rows.space[rows.outer :], [o.strides[rows.outer :] for o in operands])
    if len(row_dims) > 1:
        raise Unsupported("an operand does not run evenly along the row")
    steps = [s[0] if s else 0 for s in row_strides]
    dims, strides = collapse(rows.space[: rows.outer], [o.strides[: rows.outer] for o in operands])
    if not dims:
        dims, strides = (1,), [(0,) for _ in operands]
    patterns = [inner_pattern(step, o.dtype) for step, o in zip(steps, operands)]
    inputs, outputs = patterns[: len(rows.operands)], patterns[len(rows.operands) :]
    if rows.width == 1:  # no stride tells a column from a row's own value: all may as well be columns, but for labels
        labels = {op.args[0] for op in rows.program.ops if op.op == _LABEL}
        inputs = [HOISTED if k in labels else CONTIGUOUS for k in range(len(inputs))]
    schedule = _schedule(rows, inputs)
    if rows.width == 1:
        outputs = [CONTIGUOUS if schedule.vector[value] else HOISTED for value in rows.program.outputs]
    title = "rows " + "+".join(dict.fromkeys(m.spec.op.lower() for m in group.members))
    source = _RowWriter(rows, len(dims), inputs, outputs, schedule).write(title)
    words: list[Word] = [*dims, rows.width]
    for k, (operand, outer, step, pattern) in enumerate(zip(operands, strides, steps, [*inputs, *outputs])):
        output = k - len(rows.operands)
        words.append(Pointer("out", output) if output >= 0 else Pointer("in", operand.ref.index, operand.offset))
        words.extend(outer)
        if pattern == STRIDED:
            words.append(step)
    moved = sum(o.dtype.size * prod(n for n, b in zip(rows.space, o.strides) if b) for o in operands)
    elements = sum(len(p) for p in schedule.passes) * total
    cost = costs.FIXED_NS + costs.traffic_ns(moved) + 15.0 * prod(dims) * len(schedule.passes)
    cost += total * sum(costs.op_ns(op.op, op.dtype.size) for k, op in enumerate(rows.program.ops) if schedule.vector[len(inputs) + k])
    chunks = costs.chunks_for(cost, prod(dims))
    temps: tuple[int, ...] = ()
    if schedule.kept:
        size = -(-rows.width * 8 // 64) * 64
        chunks = max(1, min(chunks, _SCRATCH_LIMIT // (size * len(schedule.kept))))
        temps = (size * len(schedule.kept) * chunks,)
        words += [Pointer("temp", 0), size * len(schedule.kept), size]
    message = f"Received a label value of {{detail}} which is outside the valid range of [0, {rows.width})."
    errors = {_LABEL_ERROR: ("InvalidArgumentError", message)} if any(op.op == _LABEL for op in rows.program.ops) else {}
    launch = Launch(source, tuple(words), chunks=chunks, cost_ns=cost, errors=errors)
    return NativeCall((launch,), temp_bytes=temps, bytes_moved=moved, flops=elements)


def _standalone(spec: NodeSpec) -> NativeCall:
    group = replace(single(spec), kind="rows")
    return rows_call(group)


native(*sorted(ROW_OPS))(_standalone)
