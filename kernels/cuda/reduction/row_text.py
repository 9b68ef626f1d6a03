"""Write row kernels: threads hold the values of a row in registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tfjit.kernels.codegen import expressions
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
)
from tfjit.kernels.cuda.reduction import steps
from tfjit.kernels.cuda.reduction.steps import WARP
from tfjit.kernels.cuda.template import element_kinds
from tfjit.kernels.cuda.template.kernel_text import KernelText
from tfjit.kernels.ir.scalar_program import Program, ScalarOp
from tfjit.kernels.registry import Pointer, Unsupported

HOISTED: Final = "hoisted"
"""Pattern of one value a row."""
CONTIGUOUS: Final = "contiguous"
STRIDED: Final = "strided"


@dataclass(frozen=True, slots=True)
class RowOperand:
    """An input or output of a row kernel.

    outer: steps in elements along the rows' dims; step: along the row.
    """

    place: Pointer
    outer: tuple[int, ...]
    step: int
    pattern: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class RowLayout:
    """The threads of a row.

    threads: of one row, a power of two up to the block's. width: neighbours that a thread loads at
    a time. chunks: vectors of a thread, 0 for rows too long for registers: each pass reads them
    again.
    """

    threads: int
    width: int
    chunks: int


class RowWriter:
    """Writer of one row kernel."""

    def __init__(
        self, text: KernelText, rows: RowProgram, dims: Sequence[int],
        operands: Sequence[RowOperand], layout: RowLayout,
    ) -> None:  # fmt: skip
        self.s = text
        self.rows = rows
        self.program = rows.program
        self.base = len(self.program.inputs)
        self.dims = dims
        self.inputs, self.outputs = operands[: self.base], operands[self.base :]
        self.layout = layout
        self.names = [f"x{k}" for k in range(self.base)] + [
            f"r{k}" for k in range(len(self.program.ops))
        ]
        self.dtypes = [*self.program.inputs, *(op.dtype for op in self.program.ops)]
        self.vector, self.stage = _stages(self.program, self.inputs)
        columns = [v for v, o in zip(self.program.outputs, self.outputs) if self._is_column(v, o)]
        self.reductions = {
            self.base + k: op for k, op in enumerate(self.program.ops) if op.op.startswith(REDUCE)
        }
        reduced = [op.args[0] for op in self.reductions.values()]
        self.passes = 1 + max(self.stage[v] for v in [*columns, *reduced])
        self.wanted = self._needed([*columns, *reduced])

    def _is_column(self, value: int, operand: RowOperand) -> bool:
        # with one column, strides do not tell a column from a row's own value
        return self.vector[value] if self.rows.width == 1 else operand.pattern != HOISTED

    def _needed(self, values: Sequence[int]) -> set[int]:
        """Return the vectors that values are computed from."""
        needed: set[int] = set()
        stack = list(values)
        while stack:
            value = stack.pop()
            if value not in needed and self.vector[value]:
                needed.add(value)
                stack += self.program.ops[value - self.base].args if value >= self.base else ()
        return needed

    def write(self) -> None:
        """Append the kernel's body."""
        s, threads = self.s, self.layout.threads
        rows = 1
        for n in self.dims:
            rows *= n
        s.argument("rows", rows)
        s.argument("width", self.rows.width)
        for d in range(1, len(self.dims)):
            s.argument(f"n{d}", self.dims[d])
        for k, o in enumerate([*self.inputs, *self.outputs]):
            self._pointer(k, o)
        if threads > WARP:
            for value, op in self.reductions.items():
                kind = element_kinds.register_kind(op.dtype)
                s.line(f"shared_{self.names[value]} = shared_{kind}({threads // WARP})")
        bits = threads.bit_length() - 1
        s.line(f"lane = thread() & {threads - 1}")
        s.line(f"each = threads() >> {bits}")
        s.line("first = block() * each")
        s.line("step = blocks() * each")
        # all threads of a block take part in every exchange, so none leaves the loop early
        with s.block("while first < rows:"):
            s.line(f"row = first + (thread() >> {bits})")
            s.line("live = row < rows")
            s.line("rest = select(live, row, rows - 1)")
            for d in range(len(self.dims) - 1, 0, -1):
                s.split("rest", "rest", f"i{d}", f"n{d}")
            s.line("i0 = rest")
            self._row()
            if threads > WARP:
                s.line("sync_threads()")
            s.line("first = advance(first, step)")

    def _pointer(self, k: int, o: RowOperand) -> None:
        name = self._place(k)
        dtype = self.dtypes[k] if k < self.base else self.rows.results[k - self.base].dtype
        address = self.s.argument(f"{name}_at", o.place)
        for d, stride in enumerate(o.outer):
            if stride:
                self.s.argument(f"{name}_s{d}", stride)
        if o.pattern == STRIDED:
            self.s.argument(f"{name}_step", o.step)
        self.s.line(f"{name}_p = {element_kinds.pointer(dtype, address)}")

    def _place(self, k: int) -> str:
        return f"x{k}" if k < self.base else f"y{k - self.base}"

    def _row_start(self, k: int, o: RowOperand) -> str:
        name = self._place(k)
        return " + ".join(f"i{d} * {name}_s{d}" for d, n in enumerate(o.outer) if n) or "0"

    def _load(self, k: int, index: str) -> str:
        dtype = self.dtypes[k]
        load = "ld_ro" if self.inputs[k].read_only and not dtype.is_complex else "ld"
        return expressions.loaded(dtype, f"{load}(x{k}_p, {index})")

    def _row(self) -> None:
        s = self.s
        for k, o in enumerate([*self.inputs, *self.outputs]):
            s.line(f"{self._place(k)}_row = {self._row_start(k, o)}")
        for k, o in enumerate(self.inputs):
            if o.pattern == HOISTED:
                s.line(f"x{k} = {self._load(k, f'x{k}_row')}")
        if self.layout.chunks:
            for c in range(self.layout.chunks):
                column = f"({c * self.layout.threads} + lane) * {self.layout.width}"
                s.line(f"column{c} = {column}")
                s.line(f"inside{c} = column{c} < width")
                s.line(f"at{c} = select(inside{c}, column{c}, 0)")
        self._scalars(0)
        for number in range(self.passes):
            self._pass(number)
            self._scalars(number + 1)
        single = [(k, o) for k, o in enumerate(self.outputs) if not self._stored_by_column(k)]
        if single:
            with s.block("if live and lane == 0:"):
                for k, _ in single:
                    dtype = self.rows.results[k].dtype
                    stored = expressions.stored(dtype, self.names[self.program.outputs[k]])
                    s.line(f"st(y{k}_p, y{k}_row, {stored})")

    def _stored_by_column(self, k: int) -> bool:
        return self._is_column(self.program.outputs[k], self.outputs[k])

    def _scalars(self, stage: int) -> None:
        """Assign the row's values that are known after `stage` passes."""
        for k, op in enumerate(self.program.ops):
            value = self.base + k
            if self.vector[value] or self.stage[value] != stage or value in self.reductions:
                continue
            if op.op == LABEL:
                self.s.line(f"{self.names[value]} = int32({self.names[op.args[0]]})")
            elif op.op == PICK:
                self._pick(value)
            else:
                self._op(value, self.names, "")

    def _op(self, value: int, names: Sequence[str], position: str) -> None:
        """Assign an elementwise value under its name.

        position: text of the column number.
        """
        s, op = self.s, self.program.ops[value - self.base]
        arguments = [names[a] for a in op.args]
        suffix = element_kinds.math_suffix(op.dtype)
        if op.op == LITERAL:
            result = expressions.literal(dict(op.attrs)["value"], op.dtype)
        elif op.op == DIVIDE:
            result = f"vm.truncdiv_{suffix}({arguments[0]}, {arguments[1]})"
        elif op.op == WIDTH:
            result = f"{expressions.register_type(op.dtype)}(width)"
        elif op.op == POSITION:
            result = f"int32({position})"
        elif (SHIFTED, True) in op.attrs:
            result = reducers.narrowed(op.dtype, f"vm.exp_shifted_{suffix}({arguments[0]})")
        else:
            scalar = ScalarOp(op.op, tuple(range(len(op.args))), op.dtype, op.attrs)
            program = Program(tuple(self.dtypes[a] for a in op.args), (scalar,), (len(op.args),))
            prefix = f"t_{names[value]}_"
            (result,) = expressions.emit_program(s, program, arguments, prefix=prefix)
        s.line(f"{names[value]} = {result}")

    def _pick(self, value: int) -> None:
        """Assign a vector's element in one column; NaN without it."""
        s = self.s
        source, label = self.program.ops[value - self.base].args
        needed = self._needed([source])
        names = [f"p_{name}" if k in needed else name for k, name in enumerate(self.names)]
        s.line(f"picked = int64({self.names[label]})")
        s.line("known = (picked >= 0) & (picked < width)")
        s.line("picked = select(known, picked, 0)")
        for v in sorted(needed):
            if v < self.base:
                s.line(f"{names[v]} = {self._load(v, self._index(v, 'picked'))}")
            else:
                self._op(v, names, "picked")
        dtype = self.dtypes[value]
        suffix, nan = element_kinds.math_suffix(dtype), expressions.literal(float("nan"), dtype)
        s.line(f"{self.names[value]} = vm.select_{suffix}(known, {names[source]}, {nan})")

    def _index(self, k: int, column: str) -> str:
        """Return the index of an operand's element in a column."""
        operand = [*self.inputs, *self.outputs][k]
        name = self._place(k)
        if operand.pattern == STRIDED:
            return f"{name}_row + ({column}) * {name}_step"
        return f"{name}_row + {column}"

    def _pass(self, number: int) -> None:
        """Append one pass over the row."""
        s, layout = self.s, self.layout
        reductions = [
            (v, op) for v, op in self.reductions.items() if self.stage[op.args[0]] == number
        ]
        stores = [
            k
            for k, value in enumerate(self.program.outputs)
            if self._stored_by_column(k) and self.stage[value] == number
        ]
        for value, op in reductions:
            s.line(f"{self.names[value]} = {steps.start(op.op.removeprefix(REDUCE), op.dtype)}")
        targets = [op.args[0] for _, op in reductions]
        targets += [self.program.outputs[k] for k in stores]
        if layout.chunks:
            # values of earlier passes are in registers
            new = sorted(v for v in self.wanted if self.stage[v] == number)
            for c in range(layout.chunks):
                self._elements(new, f"at{c}", str(c))
                for value, op in reductions:
                    self._accumulate(value, op, str(c), f"inside{c}")
                if stores:
                    with s.block(f"if live and inside{c}:"):
                        self._stores(stores, f"column{c}", str(c))
        else:
            s.line(f"column = lane * {layout.width}")
            with s.block("while column < width:"):
                self._elements(sorted(self._needed(targets)), "column", "")
                for value, op in reductions:
                    self._accumulate(value, op, "", "")
                if stores:
                    with s.block("if live:"):
                        self._stores(stores, "column", "")
                s.line(f"column = advance(column, {layout.threads * layout.width})")
        for value, op in reductions:
            kind, name = op.op.removeprefix(REDUCE), self.names[value]
            steps.write_block_exchange(s, kind, op.dtype, name, layout.threads, f"shared_{name}")
            if op.dtype.is_floating:
                s.line(f"{name} = {reducers.narrowed(op.dtype, name)}")

    def _element(self, value: int, chunk: str, j: int) -> str:
        """Return the name of a value's element j in a chunk."""
        return f"{self.names[value]}_{chunk}{j}" if self.vector[value] else self.names[value]

    def _elements(self, values: Sequence[int], column: str, chunk: str) -> None:
        """Append the loads and values of one vector of a thread."""
        s, width = self.s, self.layout.width
        for value in values:
            if value >= self.base:
                continue
            if self.inputs[value].pattern == CONTIGUOUS and width > 1:
                load = "ld_ro" if self.inputs[value].read_only else "ld"
                name = f"{self.names[value]}_v"
                s.line(f"{name} = {load}_vec{width}(x{value}_p, x{value}_row + {column})")
                parts = [
                    expressions.loaded(self.dtypes[value], f"{name}[{j}]") for j in range(width)
                ]
            else:
                parts = [
                    self._load(value, self._index(value, f"{column} + {j}" if j else column))
                    for j in range(width)
                ]
            for j, part in enumerate(parts):
                s.line(f"{self._element(value, chunk, j)} = {part}")
        for j in range(width):
            names = [self._element(v, chunk, j) for v in range(len(self.names))]
            for value in values:
                if value >= self.base:
                    self._op(value, names, f"{column} + {j}")

    def _accumulate(self, value: int, op: ScalarOp, chunk: str, inside: str) -> None:
        kind, total = op.op.removeprefix(REDUCE), self.names[value]
        for j in range(self.layout.width):
            element = self._element(op.args[0], chunk, j)
            if inside:
                element = steps.masked(kind, op.dtype, inside, element)
            self.s.line(f"{total} = {steps.step(kind, op.dtype, total, element)}")

    def _stores(self, outputs: Sequence[int], column: str, chunk: str) -> None:
        s, width = self.s, self.layout.width
        for k in outputs:
            dtype, value = self.rows.results[k].dtype, self.program.outputs[k]
            stored = [
                expressions.stored(dtype, self._element(value, chunk, j)) for j in range(width)
            ]
            if width > 1 and self.outputs[k].pattern == CONTIGUOUS:
                s.line(f"st_vec{width}(y{k}_p, y{k}_row + {column}, {', '.join(stored)})")
                continue
            for j, part in enumerate(stored):
                index = self._index(self.base + k, f"{column} + {j}" if j else column)
                s.line(f"st(y{k}_p, {index}, {part})")


def _stages(program: Program, inputs: Sequence[RowOperand]) -> tuple[list[bool], list[int]]:
    """Return whether values have an element a column, and the passes before.

    One entry of each list a value.
    """
    vector = [o.pattern != HOISTED for o in inputs]
    stage = [0] * len(inputs)
    for op in program.ops:
        late = max((stage[a] for a in op.args), default=0)
        if op.op.startswith(REDUCE):
            if not vector[op.args[0]]:
                raise Unsupported("a sum over one value that is the same along the row")
            vector.append(False)
            stage.append(late + 1)
        elif op.op == PICK:
            vector.append(False)
            stage.append(late)
        else:
            vector.append(op.op == POSITION or any(vector[a] for a in op.args))
            stage.append(late)
    return vector, stage
