"""Build kernels of several reductions along the same rows.

Reductions and the nodes between them run row by row, in one pass over memory. A row stays in cache
while it is read again: softmax, layer norm, log-sum-exp, normalisation, cross entropy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Final

from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.elementwise.loop import MAX_OUTPUTS
from tfjit.kernels.cpu.elementwise.loop_text import (
    CONTIGUOUS,
    HOISTED,
    STRIDED,
    advance_odometer,
    inner_pattern,
    write_odometer,
)
from tfjit.kernels.cpu.reduction import reducers
from tfjit.kernels.cpu.reduction.row_program import (
    DIVIDE,
    LABEL,
    LITERAL,
    PICK,
    POSITION,
    REDUCE,
    SHIFTED,
    WIDTH,
    RowProgram,
    row_program,
)
from tfjit.kernels.cpu.template import cost_model, typed_pointers
from tfjit.kernels.cpu.template.iteration_space import collapse, single
from tfjit.kernels.ir.fused_group import FusedGroup
from tfjit.kernels.ir.op_forms import ROW_OPS
from tfjit.kernels.ir.scalar_program import Program, ScalarOp
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, Unsupported, Word, native
from tfjit.kernels.source import KernelSource, Source

BLOCK: Final = 4096
"""Elements that are summed up in one block.

Sums of longer rows are combined from such sums in float64.
"""
_RECOMPUTE_NS: Final = 0.12
"""Time per element above which a value is kept.

It is kept in scratch memory for the next pass over the row instead of computed again.
"""
_SCRATCH_LIMIT: Final = 1 << 24
_LABEL_ERROR: Final = 1


@dataclass(slots=True)
class _Schedule:
    """The pass in which each value is computed.

    vector: whether a value has an element a column; stage: the number of passes over the row before
    it. passes[s]: vector values that pass s must have, in order; kept: values that later passes
    read from memory, by number, either in the row of an output that is written later (in_output:
    value -> output) or in scratch.
    """

    vector: list[bool]
    stage: list[int]
    passes: list[list[int]] = field(default_factory=list)
    kept: dict[int, int] = field(default_factory=dict)
    in_output: dict[int, int] = field(default_factory=dict)

    @property
    def in_scratch(self) -> list[int]:
        """Return the values kept in scratch memory."""
        return [value for value in self.kept if value not in self.in_output]


def _schedule(rows: RowProgram, patterns: Sequence[str]) -> _Schedule:
    program = rows.program
    base = len(program.inputs)
    vector = [p != HOISTED for p in patterns]
    stage = [0] * base
    again = [0.0] * base  # time in ns to compute a value again from operands
    for op in program.ops:
        late = max((stage[a] for a in op.args), default=0)
        if op.op.startswith(REDUCE):
            if not vector[op.args[0]]:
                raise Unsupported("a sum over one value that is the same along the row")
            vector.append(False)
            stage.append(late + 1)
            again.append(0.0)
        elif op.op == PICK:
            vector.append(False)
            stage.append(late)
            again.append(0.0)
        else:
            wide = op.op == POSITION or any(vector[a] for a in op.args)
            vector.append(wide)
            stage.append(late)
            again.append(
                sum(again[a] for a in op.args) + cost_model.op_ns(op.op, op.dtype.size)
                if wide
                else 0.0
            )
    schedule = _Schedule(vector, stage)
    columns = [  # results that have an element a column
        value
        for value, result in zip(program.outputs, rows.results)
        if any(result.strides[rows.outer :]) or (rows.width == 1 and vector[value])
    ]
    reduced = [op.args[0] for op in program.ops if op.op.startswith(REDUCE)]
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


def _keep_in_outputs(schedule: _Schedule, rows: RowProgram, outputs: Sequence[str]) -> None:
    """Keep values for later passes in the rows of outputs.

    The output must be written at or after the last such pass. Separate scratch costs a further
    stream through the cache, and the output's row arrives while a pass computes.
    """
    program = rows.program
    dtypes = [*program.inputs, *(op.dtype for op in program.ops)]
    free = [k for k, pattern in enumerate(outputs) if pattern == CONTIGUOUS]
    for value in schedule.kept:
        last = max(s for s, needed in enumerate(schedule.passes) if value in needed)
        for k in free:
            if (
                rows.results[k].dtype is dtypes[value]
                and schedule.stage[program.outputs[k]] >= last
            ):
                schedule.in_output[value] = k
                free.remove(k)
                break


class _RowWriter:
    """Writer of one row kernel."""

    def __init__(
        self,
        rows: RowProgram,
        rank: int,
        patterns: Sequence[str],
        outputs: Sequence[str],
        schedule: _Schedule,
    ) -> None:
        self.rows = rows
        self.program = rows.program
        self.base = len(self.program.inputs)
        self.rank = rank
        self.patterns = patterns
        self.outputs = outputs
        self.schedule = schedule
        self.names = [f"x{k}" for k in range(self.base)] + [
            f"r{k}" for k in range(len(self.program.ops))
        ]
        self.dtypes = [*self.program.inputs, *(op.dtype for op in self.program.ops)]
        self.s = Source()

    def write(self, title: str) -> KernelSource:
        s = self.s
        s.line(f"# rows of {self.rank} outer dims: {' '.join(op.op for op in self.program.ops)}")
        for line in reducers.IMPORTS:
            s.line(line)
        checks = any(op.op == LABEL for op in self.program.ops)
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
            if self.schedule.in_scratch:
                s.line(f"kept = word(args, {at}) + chunk * word(args, {at + 1})")
                for number, value in enumerate(self.schedule.in_scratch):
                    place = f"kept + {number} * word(args, {at + 2})"
                    s.line(
                        f"k{self.schedule.kept[value]}_p = "
                        f"{typed_pointers.pointer(self.dtypes[value], place)}"
                    )
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
        return KernelSource(s.text(), title=title, module=__name__)

    def _base(self, name: str) -> str:
        return " + ".join([f"{name}_at", *(f"i{k} * {name}_s{k}" for k in range(self.rank))])

    def _row(self) -> None:
        s = self.s
        for k, pattern in enumerate(self.patterns):
            dtype = self.dtypes[k]
            if pattern == HOISTED:
                element = f"ld({typed_pointers.pointer(dtype, self._base('x' + str(k)))}, 0)"
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
                s.line(f"y{k}_p = {typed_pointers.pointer(dtype, self._base(f'y{k}'))}")
                s.line(f"st_out(y{k}_p, 0, {expressions.stored(dtype, self.names[value])}, {k})")

    def _scalars(self, stage: int) -> None:
        """Assign the row's values that are known after `stage` passes."""
        s = self.s
        for k, op in enumerate(self.program.ops):
            value = self.base + k
            if (
                self.schedule.vector[value]
                or self.schedule.stage[value] != stage
                or op.op.startswith(REDUCE)
            ):
                continue
            if op.op == LABEL:
                label = self.names[op.args[0]]
                with s.block(f"if {label} < 0 or {label} >= width:"):
                    s.line("bad = 1")
                    s.line(f"bad_label = int64({label})")
                s.line(f"{self.names[value]} = int32({label})")
            elif op.op == PICK:
                self._pick(value)
            else:
                self._op(value, self.names)

    def _op(self, value: int, names: Sequence[str], position: str = "start + i") -> None:
        """Assign an elementwise value under its name.

        position: text of the column number.
        """
        s = self.s
        op = self.program.ops[value - self.base]
        arguments = [names[a] for a in op.args]
        if op.op == LITERAL:
            result = expressions.literal(dict(op.attrs)["value"], op.dtype)
        elif op.op == DIVIDE:
            result = f"idiv({arguments[0]}, {arguments[1]})"
        elif op.op == WIDTH:
            result = f"{expressions.register_type(op.dtype)}(width)"
        elif op.op == POSITION:
            result = f"int32({position})"
        elif (SHIFTED, True) in op.attrs:
            kind = "f64" if expressions.register_type(op.dtype) == "float64" else "f32"
            result = reducers.narrowed(op.dtype, f"vm.exp_shifted_{kind}({arguments[0]})")
        else:
            scalar = ScalarOp(op.op, tuple(range(len(op.args))), op.dtype, op.attrs)
            program = Program(tuple(self.dtypes[a] for a in op.args), (scalar,), (len(op.args),))
            (result,) = expressions.emit_program(
                s, program, arguments, "failed", prefix=f"t_{names[value]}_"
            )
        s.line(f"{names[value]} = {result}")

    def _pick(self, value: int) -> None:
        """Assign the element of a vector in one column, computed from operands."""
        s, program = self.s, self.program
        source, label = program.ops[value - self.base].args
        needed: set[int] = set()
        stack = [source]
        while stack:
            v = stack.pop()
            if v not in needed and self.schedule.vector[v]:
                needed.add(v)
                stack += program.ops[v - self.base].args if v >= self.base else ()
        names = [f"p_{name}" if k in needed else name for k, name in enumerate(self.names)]
        s.line(f"column = int64({self.names[label]})")
        with s.block("if column < 0 or column >= width:"):
            s.line("column = 0")
        for v in sorted(needed):
            if v < self.base:
                step = f"x{v}_step" if self.patterns[v] == STRIDED else str(self.dtypes[v].size)
                element = f"ld({typed_pointers.pointer(self.dtypes[v], f'x{v}_row + column * {step}')}, 0)"
                s.line(f"{names[v]} = {expressions.loaded(self.dtypes[v], element)}")
            else:
                self._op(v, names, "column")
        s.line(f"{self.names[value]} = {names[source]}")

    def _pass(self, number: int) -> None:
        """Append one pass over the row."""
        s, schedule, base = self.s, self.schedule, self.base
        needed = schedule.passes[number]
        reductions = [
            (base + k, op)
            for k, op in enumerate(self.program.ops)
            if op.op.startswith(REDUCE) and schedule.stage[op.args[0]] == number
        ]
        stores = [
            k
            for k, value in enumerate(self.program.outputs)
            if self.outputs[k] != HOISTED and schedule.stage[value] == number
        ]
        for value, op in reductions:
            kind = op.op.removeprefix(REDUCE)
            wide = reducers.wide_type(kind, op.dtype)
            begin = reducers.start(kind, op.dtype)
            s.line(f"{self.names[value]}_w = {f'{wide}({begin})' if wide == 'float64' else begin}")
        with s.block(f"for block in range((width + {BLOCK - 1}) // {BLOCK}):"):
            s.line(f"start = block * {BLOCK}")
            s.line(f"m = min(width - start, {BLOCK})")
            for value in needed:
                if value < base:
                    self._pointer(f"x{value}", self.dtypes[value], self.patterns[value])
            used = {schedule.in_output[v] for v in needed if v in schedule.in_output}
            for k in sorted(used.union(stores)):
                self._pointer(f"y{k}", self.rows.results[k].dtype, self.outputs[k])
            for value, op in reductions:
                s.line(
                    f"{self.names[value]} = {reducers.start(op.op.removeprefix(REDUCE), op.dtype)}"
                )
            with s.block("for i in range(m):"):
                for value in needed:
                    if value < base:
                        dtype = self.dtypes[value]
                        strided = self.patterns[value] == STRIDED
                        element = (
                            f"ld_at(x{value}_p, i * x{value}_step)"
                            if strided
                            else f"ld(x{value}_p, i)"
                        )
                        s.line(f"x{value} = {expressions.loaded(dtype, element)}")
                    elif value in schedule.kept and schedule.stage[value] < number:
                        element = f"ld_out({self._kept_place(value)}, {self._scope(value)})"
                        s.line(
                            f"{self.names[value]} = "
                            f"{expressions.loaded(self.dtypes[value], element)}"
                        )
                    else:
                        self._op(value, self.names)
                for value in needed:
                    if schedule.kept.get(value) is not None and schedule.stage[value] == number:
                        stored = expressions.stored(self.dtypes[value], self.names[value])
                        place = self._kept_place(value)
                        s.line(f"st_out({place}, {stored}, {self._scope(value)})")
                for k in stores:
                    stored = expressions.stored(
                        self.rows.results[k].dtype, self.names[self.program.outputs[k]]
                    )
                    s.line(f"st_out(y{k}_p, i, {stored}, {k})")
                for value, op in reductions:
                    name = self.names[value]
                    s.line(
                        f"{name} = {reducers.step(op.op.removeprefix(REDUCE), op.dtype, name, self.names[op.args[0]])}"
                    )
            for value, op in reductions:
                kind, name = op.op.removeprefix(REDUCE), self.names[value]
                wide = reducers.wide_type(kind, op.dtype)
                taken = f"float64({name})" if wide == "float64" else name
                in_order = reducers.step(kind, op.dtype, f"{name}_w", taken, in_order=True)
                s.line(f"{name}_w = {in_order}")
        for value, op in reductions:
            s.line(f"{self.names[value]} = {reducers.narrowed(op.dtype, self.names[value] + '_w')}")

    def _kept_place(self, value: int) -> str:
        output = self.schedule.in_output.get(value)
        return (
            f"y{output}_p, i"
            if output is not None
            else f"k{self.schedule.kept[value]}_p, start + i"
        )

    def _scope(self, value: int) -> int:
        """Return the alias scope of the buffer of a kept value.

        Buffers beyond the last scope share it. Buffers of one scope may alias each other, so
        sharing promises less and is always true.
        """
        output = self.schedule.in_output.get(value)
        return (
            output
            if output is not None
            else min(len(self.outputs) + self.schedule.in_scratch.index(value), MAX_OUTPUTS)
        )

    def _pointer(self, name: str, dtype: DType, pattern: str) -> None:
        step = f"{name}_step" if pattern == STRIDED else str(dtype.size)
        self.s.line(f"{name}_p = {typed_pointers.pointer(dtype, f'{name}_row + start * {step}')}")


def rows_call(group: FusedGroup) -> NativeCall:
    """Return the launches of a rows group.

    Raises Unsupported where it does not fit the template.
    """
    rows = row_program(group)
    total = prod(rows.space)
    if total == 0:
        raise Unsupported("empty rows")
    operands = [*rows.operands, *rows.results]
    row_dims, row_strides = collapse(
        rows.space[rows.outer :], [o.strides[rows.outer :] for o in operands]
    )
    if len(row_dims) > 1:
        raise Unsupported("an operand does not run evenly along the row")
    steps = [s[0] if s else 0 for s in row_strides]
    dims, strides = collapse(rows.space[: rows.outer], [o.strides[: rows.outer] for o in operands])
    if not dims:
        dims, strides = (1,), [(0,) for _ in operands]
    patterns = [inner_pattern(step, o.dtype) for step, o in zip(steps, operands)]
    inputs, outputs = patterns[: len(rows.operands)], patterns[len(rows.operands) :]
    # Strides do not tell a column from a row's own value here: all may as well be columns, but for
    # labels.
    if rows.width == 1:
        labels = {op.args[0] for op in rows.program.ops if op.op == LABEL}
        inputs = [HOISTED if k in labels else CONTIGUOUS for k in range(len(inputs))]
    schedule = _schedule(rows, inputs)
    if rows.width == 1:
        outputs = [
            CONTIGUOUS if schedule.vector[value] else HOISTED for value in rows.program.outputs
        ]
    _keep_in_outputs(schedule, rows, outputs)
    title = "rows " + "+".join(dict.fromkeys(m.spec.op.lower() for m in group.members))
    source = _RowWriter(rows, len(dims), inputs, outputs, schedule).write(title)
    words: list[Word] = [*dims, rows.width]
    for k, (operand, outer, step, pattern) in enumerate(
        zip(operands, strides, steps, [*inputs, *outputs])
    ):
        output = k - len(rows.operands)
        words.append(
            Pointer("out", output)
            if output >= 0
            else Pointer("in", operand.ref.index, operand.offset)
        )
        words.extend(outer)
        if pattern == STRIDED:
            words.append(step)
    moved = sum(
        o.dtype.size * prod(n for n, b in zip(rows.space, o.strides) if b) for o in operands
    )
    elements = sum(len(p) for p in schedule.passes) * total
    cost = (
        cost_model.FIXED_NS
        + cost_model.traffic_ns(moved)
        + 15.0 * prod(dims) * len(schedule.passes)
    )
    cost += total * sum(
        cost_model.op_ns(op.op, op.dtype.size)
        for k, op in enumerate(rows.program.ops)
        if schedule.vector[len(inputs) + k]
    )
    chunks = cost_model.chunks_for(cost, prod(dims))
    temps: tuple[int, ...] = ()
    scratch = len(schedule.in_scratch)
    if scratch:
        size = -(-rows.width * 8 // 64) * 64
        chunks = max(1, min(chunks, _SCRATCH_LIMIT // (size * scratch)))
        temps = (size * scratch * chunks,)
        words += [Pointer("temp", 0), size * scratch, size]
    errors = {}
    if any(op.op == LABEL for op in rows.program.ops):
        message = (
            f"Received a label value of {{detail}} which is outside the valid range of [0, "
            f"{rows.width})."
        )
        errors[_LABEL_ERROR] = ("InvalidArgumentError", message)
    launch = Launch(source, tuple(words), chunks=chunks, cost_ns=cost, errors=errors)
    return NativeCall((launch,), temp_bytes=temps, bytes_moved=moved, flops=elements)


def _standalone(spec: NodeSpec) -> NativeCall:
    group = replace(single(spec), kind="rows")
    return rows_call(group)


native(*sorted(ROW_OPS))(_standalone)
