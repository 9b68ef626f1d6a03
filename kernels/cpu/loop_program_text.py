"""Text of a loop program's kernel: scalars in registers, arrays in buffers, stretches of elementwise steps as one loop each.

Three forms. WHOLE: every stage runs over all elements before the next one. TILED: the whole program runs on one tile of elements after
the other, which stays in the first-level cache through all iterations; for programs that compute no scalar from an array. LANES: tiles of
so few elements that LLVM unrolls every stage and keeps what the loop carries in vector registers; for short bodies. The last tile then
overlaps the one before, computing some elements twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from tfjit.framework.dtypes import DType
from tfjit.kernels import expressions
from tfjit.kernels.cpu import access, costs, reducers
from tfjit.kernels.cpu.loop import MAX_OUTPUTS
from tfjit.kernels.loop_program import (
    CASE,
    CONTROL,
    ELEMENT,
    FILL,
    IF,
    REDUCTIONS,
    SET_ELEMENT,
    Block,
    LoopProgram,
    Step,
    block_reads,
    free_values,
)
from tfjit.kernels.registry import Unsupported
from tfjit.kernels.source import KernelSource, Source

INDEXED: Final = frozenset({ELEMENT, SET_ELEMENT})
Form = Literal["whole", "tiled", "lanes"]

CANCELLED: Final = 1
"""Status of a kernel that was told to stop."""
FIRST_FAILURE: Final = 16
"""Status of the first step that may fail; the others follow in order."""
_BUDGET_NS: Final = 1_000_000
_SCALAR_NS: Final = 1
_SUM_BLOCK: Final = 4096
"""Elements whose float sum stays in the dtype of the elements."""
_COMPARISONS: Final = frozenset({"Less", "LessEqual", "Greater", "GreaterEqual"})


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory of an array. place: "in", "out" or "temp" and its number there; scope: which accesses may alias it, -1 for an input."""

    name: str
    dtype: DType
    size: int
    place: Literal["in", "out", "temp"]
    index: int
    scope: int


@dataclass(frozen=True, slots=True)
class Target:
    """Where a block's result must be when it ends. old: the value that is in the buffer as the block begins, or -1."""

    value: int
    buffer: Buffer
    old: int = -1


@dataclass(slots=True)
class Item:
    """What is emitted in one piece: a scalar step, a control step, or a stage (steps of one loop over elements)."""

    steps: list[Step]
    is_stage: bool = False
    reads: set[int] = field(default_factory=set)
    gives: set[int] = field(default_factory=set)


@dataclass(slots=True)
class ProgramText:
    """The finished text and what its words are.

    buffers: arrays in the order of their words. scalars: (input number) of scalar inputs; outputs: of scalar outputs; numbers: values of
    the constants that are words. sizes: element counts in the order of their words (whole form); extents: first dimensions, likewise.
    """

    source: KernelSource
    form: Form
    buffers: list[Buffer]
    scalars: list[int]
    outputs: list[int]
    numbers: list[int]
    sizes: list[int]
    extents: list[int]
    failures: dict[int, tuple[str, str, str]]
    element_ns: float


def is_tileable(program: LoopProgram) -> bool:
    """Whether every element goes its own way: no scalar is computed from an array, and all arrays have one size."""
    steps = list(program.block.walk())
    return not any(step.op in REDUCTIONS or step.op in INDEXED for step in steps) and len(array_sizes(program)) == 1


def array_sizes(program: LoopProgram) -> list[int]:
    """The different element counts of a program's arrays, in order of appearance."""
    return list(dict.fromkeys(spec.size for spec in program.values if spec.size != 1))


def program_source(program: LoopProgram, form: Form, lanes: int = 0) -> ProgramText:
    """The kernel of a program. lanes: elements of a tile, for LANES. Raises Unsupported for what has no generated form.

    Argument words: address of the cancel flag; TILED: number of elements, elements of a tile; LANES: number of elements; WHOLE: the
    sizes; extents of arrays that are read by index; addresses of scalar inputs and outputs; constants that are words; for each buffer its
    address, for temporaries of TILED also the bytes a chunk. LANES has its temporaries on the stack.
    """
    trial = _Writer(program, form, lanes, [], [])
    trial.write()
    writer = _Writer(program, form, lanes, trial.temps, trial.extents)
    return writer.write()


class _Writer:
    def __init__(self, program: LoopProgram, form: Form, lanes: int, temps: Sequence[Buffer], extents: Sequence[int]) -> None:
        self.program = program
        self.extents = list(extents)  # first dimensions of arrays that are read by index
        self.form = form
        self.lanes = lanes
        self.s = Source()
        self.known_temps = list(temps)
        self.temps: list[Buffer] = []
        self.names: dict[int, str] = {}  # of scalar values
        self.where: dict[int, Buffer] = {}  # of array values that are in memory
        self.scopes = 0
        self.failures: dict[int, tuple[str, str, str]] = {}
        self.element_ns = 0.0
        sizes = array_sizes(program)
        self.sizes = sizes if form == "whole" else []
        names = {"whole": "m{}", "tiled": "m", "lanes": str(lanes)}
        self.counts = {size: names[form].format(k) for k, size in enumerate(sizes)}
        self.inputs = [
            Buffer(f"x{k}", program.values[v].dtype, program.values[v].size, "in", k, -1)
            for k, v in enumerate(program.inputs)
            if not program.is_scalar(v)
        ]
        self.outputs = [
            Buffer(f"y{k}", program.values[v].dtype, program.values[v].size, "out", k, self._scope())
            for k, v in enumerate(program.outputs)
            if not program.is_scalar(v)
        ]

    def _scope(self) -> int:
        self.scopes += 1
        if self.scopes > MAX_OUTPUTS:
            raise Unsupported(f"more than {MAX_OUTPUTS} arrays are written")
        return self.scopes - 1

    def _temp(self, value: int) -> Buffer:
        spec = self.program.values[value]
        made = Buffer(f"t{len(self.temps)}", spec.dtype, spec.size, "temp", len(self.temps), self._scope())
        self.temps.append(made)
        return made

    # ---- the frame

    def write(self) -> ProgramText:
        program, s = self.program, self.s
        s.line(f"# {program.title or 'loop program'}: {' '.join(program.ops)}")
        for line in reducers.IMPORTS:
            s.line(line)
        scalars = [k for k, v in enumerate(program.inputs) if program.is_scalar(v)]
        outputs = [k for k, v in enumerate(program.outputs) if program.is_scalar(v)]
        numbers = self._word_constants()
        on_stack = self.known_temps if self.form == "lanes" else []
        buffers = [*self.inputs, *self.outputs, *([] if on_stack else self.known_temps)]
        with s.block("def kernel(args, chunk, nchunks):"):
            s.line("cancel = word(args, 2)")
            at = 3
            counts = {"tiled": ["n", "tile"], "lanes": ["n"], "whole": [f"m{k}" for k in range(len(self.sizes))]}
            for name in counts[self.form]:
                s.line(f"{name} = word(args, {at})")
                at += 1
            for k in range(len(self.extents)):
                s.line(f"d{k} = word(args, {at})")
                at += 1
            for k in scalars:
                value = program.inputs[k]
                dtype = program.values[value].dtype
                element = f"ld({access.pointer(dtype, f'word(args, {at})')}, 0)"
                s.line(f"v{value} = {expressions.loaded(dtype, element)}")
                self.names[value] = f"v{value}"
                at += 1
            results = {}
            for k in outputs:
                results[k] = access.pointer(program.values[program.outputs[k]].dtype, f"word(args, {at})")
                at += 1
            for value, constant in program.constants:
                dtype = program.values[value].dtype
                self.names[value] = f"v{value}"
                if value in numbers:
                    s.line(f"v{value} = {expressions.register_type(dtype)}(word(args, {at}))")
                    at += 1
                else:
                    s.line(f"v{value} = {expressions.literal(constant, dtype)}")
            for b in buffers:
                s.line(f"{b.name}_at = word(args, {at})")
                at += 1
                if self.form == "tiled" and b.place == "temp":
                    s.line(f"{b.name}_at += chunk * word(args, {at})")
                    at += 1
            for b in on_stack:
                s.line(f"{b.name} = stack_like({access.pointer(b.dtype, '0')}, {self.lanes})")
            s.line(f"left = {_BUDGET_NS}")
            if self.form != "whole":
                if self.form == "tiled":
                    s.line("first = n * chunk // nchunks")
                    s.line("count = n * (chunk + 1) // nchunks - first")
                    loop = "for t in range(max((count + tile - 1) // tile, 1)):"
                else:
                    s.line(f"tiles = (n + {self.lanes - 1}) // {self.lanes}")
                    s.line("first = tiles * chunk // nchunks")
                    loop = "for t in range(tiles * (chunk + 1) // nchunks - first):"
                with s.block(loop):
                    if self.form == "tiled":
                        s.line("lo = first + t * tile")
                        s.line("m = min(tile, first + count - lo)")
                    else:
                        s.line(f"lo = min((first + t) * {self.lanes}, n - {self.lanes})")
                    for b in buffers:
                        start = f" + lo * {b.dtype.size}" if b.place != "temp" else ""
                        s.line(f"{b.name} = {access.pointer(b.dtype, f'{b.name}_at{start}')}")
                    self._program_text()
                    if results:
                        with s.block("if lo == 0:"):
                            self._scalar_outputs(results)
            else:
                for b in buffers:
                    s.line(f"{b.name} = {access.pointer(b.dtype, f'{b.name}_at')}")
                self._program_text()
                self._scalar_outputs(results)
        source = KernelSource(s.text(), title=program.title)
        return ProgramText(source, self.form, buffers, scalars, outputs, numbers, self.sizes, self.extents, self.failures, self.element_ns)

    def _word_constants(self) -> list[int]:
        """Integer constants that are only compared with, or stand for where a loop begins: sizes and counts, which vary from run to run."""
        used: dict[int, bool] = {}
        for step in self.program.block.walk():
            for a in step.args:
                used[a] = used.get(a, True) and step.op in _COMPARISONS
        reads = {r for step in self.program.block.walk() for block in step.blocks for r in block.results}
        return [
            v
            for v, value in self.program.constants
            if self.program.values[v].dtype.is_integer and used.get(v, False) and v not in reads and abs(int(value)) > 16
        ]

    def _program_text(self) -> None:
        program = self.program
        for b, v in zip(self.inputs, [v for v in program.inputs if not program.is_scalar(v)]):
            self.where[v] = b
        arrays = [v for v in program.outputs if not program.is_scalar(v)]
        homes = [self._temp(v) for v in arrays] if self.form == "lanes" else self.outputs
        self._block(program.block, [Target(v, b) for b, v in zip(homes, arrays)])
        if self.form == "lanes":
            self._copies(list(zip(homes, self.outputs)))

    def _scalar_outputs(self, results: dict[int, str]) -> None:
        for k, place in results.items():
            value = self.program.outputs[k]
            self.s.line(f"st({place}, 0, {expressions.stored(self.program.values[value].dtype, self.names[value])})")

    # ---- blocks

    def _items(self, block: Block) -> list[Item]:
        """The block's steps in pieces. A scalar step moves before the stage that is being collected, unless it needs a reduction of it."""
        program = self.program
        found: list[Item] = []
        stage = Item([], True)
        size = -1

        def close() -> None:
            nonlocal stage
            if stage.steps:
                found.append(stage)
            stage = Item([], True)

        for step in block.steps:
            reads = free_values(step)
            scalars = {r for r in stage.gives if program.is_scalar(r)}
            arrays = [v for v in (*step.args, *step.results) if not program.is_scalar(v)]
            if step.op in CONTROL or step.op in INDEXED or not arrays:
                if reads & stage.gives or step.op == SET_ELEMENT or (step.op in CONTROL and self._touches_arrays(step)):
                    close()
                found.append(Item([step], False, reads, set(step.results)))
                continue
            if stage.steps and (program.values[arrays[0]].size != size or reads & scalars):
                close()
            size = program.values[arrays[0]].size
            stage.steps.append(step)
            stage.reads |= reads - stage.gives
            stage.gives.update(step.results)
        close()
        return found

    def _touches_arrays(self, step: Step) -> bool:
        values = {*step.args, *step.results, *free_values(step)}
        inner = {r for block in step.blocks for other in block.walk() for r in (*other.args, *other.results)}
        return any(not self.program.is_scalar(v) for v in values | inner)

    def _block(self, block: Block, targets: Sequence[Target]) -> None:
        """The text of a block; afterwards every target's value is in its buffer."""
        items = self._items(block)
        direct, late = self._split(items, targets)
        wanted = {t.value for t in late}
        for number, item in enumerate(items):
            later = set(wanted)
            for other in items[number + 1 :]:
                later |= other.reads
            if item.is_stage:
                self._stage_of(item, direct.get(number, []), later)
            elif item.steps[0].op in CONTROL:
                self._control(item.steps[0], direct.get(number, []), later)
            elif item.steps[0].op == ELEMENT:
                self._element(item.steps[0], direct.get(number, []))
            elif item.steps[0].op == SET_ELEMENT:
                self._set_element(item.steps[0], direct.get(number, []))
            else:
                self._scalar(item.steps[0])
        self._copies([(self.where[t.value], t.buffer) for t in late])

    def _split(self, items: Sequence[Item], targets: Sequence[Target]) -> tuple[dict[int, list[Target]], list[Target]]:
        """Which targets are written by the item that computes their value, and which are copied at the end.

        A buffer may be written early when nothing reads what it held any more, the copies at the end included.
        """
        targets = [t for t in targets if t.value != t.old]
        maker = {v: number for number, item in enumerate(items) for v in item.gives}
        late = [t for t in targets if t.value not in maker]
        early = [t for t in targets if t.value in maker]
        while True:
            read_last = {t.value for t in late}
            refused = [t for t in early if t.old in read_last or not self._is_last_reader(items, maker[t.value], t)]
            if not refused:
                break
            late += refused
            early = [t for t in early if t not in refused]
        direct: dict[int, list[Target]] = {}
        for t in early:
            direct.setdefault(maker[t.value], []).append(t)
        return direct, late

    @staticmethod
    def _is_last_reader(items: Sequence[Item], number: int, target: Target) -> bool:
        if any(target.old in item.reads for item in items[number + 1 :]):
            return False
        step = items[number].steps[0]
        if step.op != "While":
            return True
        return all(target.old not in block_reads(block) for block in step.blocks)

    # ---- scalars

    def _fails(self, step: Step) -> str | None:
        """The condition under which a step of scalars or elements fails; None when it cannot."""
        if step.op in REDUCTIONS or step.op == FILL:
            return None
        error = expressions.failure(step.op, [self.program.values[a].dtype for a in step.args])
        return None if error is None else error.condition

    def _status(self, step: Step) -> int:
        error = expressions.failure(step.op, [self.program.values[a].dtype for a in step.args])
        assert error is not None
        for status, (_, message, name) in self.failures.items():
            if name == step.name and message == error.message:
                return status
        status = FIRST_FAILURE + len(self.failures)
        self.failures[status] = ("InvalidArgumentError", error.message, step.name)
        return status

    def _expression(self, step: Step, names: Sequence[str]) -> str:
        if step.op == FILL:
            return names[0]
        dtypes = [self.program.values[a].dtype for a in step.args]
        return expressions.emit_op(step.op, names, dtypes, self.program.values[step.results[0]].dtype, dict(step.attrs))

    def _scalar(self, step: Step) -> None:
        names = [self.names[a] for a in step.args]
        result = step.results[0]
        condition = self._fails(step)
        if condition is not None:
            with self.s.block(f"if {expressions.filled_condition(condition, names, self.program.values[step.args[0]].dtype)}:"):
                self._fail(self._status(step))
        self.names[result] = f"v{result}"
        self.s.line(f"v{result} = {self._expression(step, names)}")

    def _fail(self, status: int, detail: str = "0") -> None:
        self.s.line(f"fail(args, {status}, {detail})")
        self.s.line("return")

    # ---- parts of arrays

    def _checked_index(self, step: Step) -> str:
        """The name of an index within the first dimension; the kernel fails for another one."""
        extent = self.program.values[step.args[0]].shape[0]
        if extent not in self.extents:
            self.extents.append(extent)
        index = self.names[step.args[1]]
        message = str(dict(step.attrs)["failure"])
        status = FIRST_FAILURE + len(self.failures)
        self.failures[status] = ("InvalidArgumentError", message, step.name)
        with self.s.block(f"if {index} < 0 or {index} >= d{self.extents.index(extent)}:"):
            self._fail(status, f"int64({index})")
        return f"int64({index})"

    def _part(self, array: Buffer, index: str, size: int) -> str:
        return access.pointer(array.dtype, f"{array.name}_at + {index} * {self.counts[size]} * {array.dtype.size}")

    def _element(self, step: Step, targets: Sequence[Target]) -> None:
        source, result = step.args[0], step.results[0]
        index = self._checked_index(step)
        if self.program.is_scalar(source):
            self.names[result] = self.names[source]
            return
        array = self.where[source]
        if self.program.is_scalar(result):
            self.names[result] = f"v{result}"
            self.s.line(f"v{result} = {_load(array, index)}")
            return
        size = self.program.values[result].size
        self.s.line(f"p{result} = {self._part(array, index, size)}")
        part = Buffer(f"p{result}", array.dtype, size, array.place, array.index, array.scope)
        places = [t.buffer for t in targets]
        if array.scope >= 0 and not places:
            places = [self._temp(result)]  # the array may change before the part is read
        self._copies([(part, place) for place in places])
        self.where[result] = places[0] if places else part

    def _set_element(self, step: Step, targets: Sequence[Target]) -> None:
        source, result, value = step.args[0], step.results[0], step.args[2]
        index = self._checked_index(step)
        if self.program.is_scalar(result):
            self.names[result] = f"v{result}"
            self.s.line(f"v{result} = {self.names[value]}")
            return
        homes = [t.buffer for t in targets] or [self._temp(result)]
        first = targets[0] if targets else None
        if first is None or first.old != source:
            self._copies([(self.where[source], homes[0])])
        self.where[result] = homes[0]
        size = self.program.values[source].size // self.program.values[source].shape[0]
        if size == 1:
            self.s.line(_store(homes[0], index, self.names[value]))
        else:
            self.s.line(f"p{result} = {self._part(homes[0], index, size)}")
            part = Buffer(f"p{result}", homes[0].dtype, size, homes[0].place, homes[0].index, homes[0].scope)
            self._copies([(self.names[value] if self.program.is_scalar(value) else self.where[value], part)])
        self._copies([(homes[0], home) for home in homes[1:]])

    # ---- stages

    def _stage_of(self, item: Item, targets: Sequence[Target], later: set[int]) -> None:
        stores: dict[int, list[Buffer]] = {}
        for t in targets:
            stores.setdefault(t.value, []).append(t.buffer)
        for v in sorted(item.gives & later):
            if not self.program.is_scalar(v) and v not in stores:
                stores[v] = [self._temp(v)]
        for v, buffers in stores.items():
            self.where[v] = buffers[0]
        self._stage(item.steps, stores)

    def _stage(self, steps: Sequence[Step], stores: dict[int, list[Buffer]]) -> None:
        """One loop over elements (two for sums of floats: short ones in the elements' dtype, put together in float64)."""
        s, program = self.s, self.program
        made = {r for step in steps for r in step.results}
        loads = list(dict.fromkeys(a for step in steps for a in step.args if not program.is_scalar(a) and a not in made))
        size = next(program.values[v].size for step in steps for v in (*step.args, *step.results) if not program.is_scalar(v))
        count = self.counts[size]
        reductions = [step for step in steps if step.op in REDUCTIONS]
        wide = [step for step in reductions if self._reduced(step)[1] != expressions.register_type(self._taken(step))]
        fails = [step for step in steps if self._fails(step) is not None]
        for step in reductions:
            kind = reducers.OPS[step.op].kind
            start = reducers.start(kind, self._taken(step))
            s.line(f"v{step.results[0]}_t = {f'float64({start})' if step in wide else start}")
        for k in range(len(fails)):
            s.line(f"bad{k} = 0")
        if wide:
            with s.block(f"for at in range(0, {count}, {_SUM_BLOCK}):"):
                for step in wide:
                    s.line(f"v{step.results[0]}_p = {reducers.start(reducers.OPS[step.op].kind, self._taken(step))}")
                s.line(f"span = min({_SUM_BLOCK}, {count} - at)")
                self._elements("span", "at + j", steps, loads, stores, fails, wide)
                for step in wide:
                    kind, total = reducers.OPS[step.op].kind, f"v{step.results[0]}_t"
                    s.line(f"{total} = {reducers.step(kind, self._taken(step), total, f'float64(v{step.results[0]}_p)', in_order=True)}")
        else:
            self._elements(count, "j", steps, loads, stores, fails, wide)
        for k, step in enumerate(fails):
            with s.block(f"if bad{k} != 0:"):
                self._fail(self._status(step))
        for step in reductions:
            self._finish(step, count)
        self.element_ns += sum(costs.op_ns(step.op, program.values[step.results[0]].dtype.size) for step in steps) + 0.02 * len(loads)

    def _elements(
        self,
        count: str,
        index: str,
        steps: Sequence[Step],
        loads: Sequence[int],
        stores: dict[int, list[Buffer]],
        fails: Sequence[Step],
        wide: Sequence[Step],
    ) -> None:
        s, program = self.s, self.program
        with s.block(f"for j in range({count}):"):
            if index != "j":
                s.line(f"i = {index}")
                index = "i"
            names = dict(self.names)
            for v in loads:
                s.line(f"e{v} = {_load(self.where[v], index)}")
                names[v] = f"e{v}"
            for step in steps:
                arguments = [names[a] for a in step.args]
                result = step.results[0]
                if step.op in REDUCTIONS:
                    total = f"v{result}_p" if step in wide else f"v{result}_t"
                    taken = self._taken(step)
                    value = arguments[0]
                    if taken is not program.values[step.args[0]].dtype:
                        value = f"{expressions.register_type(taken)}({value})"
                    s.line(f"{total} = {reducers.step(reducers.OPS[step.op].kind, taken, total, value)}")
                    continue
                if step in fails:
                    condition = expressions.filled_condition(self._fails(step) or "", arguments, program.values[step.args[0]].dtype)
                    s.line(f"bad{fails.index(step)} |= int64({condition})")
                s.line(f"e{result} = {self._expression(step, arguments)}")
                names[result] = f"e{result}"
            for v, buffers in stores.items():
                for b in buffers:
                    s.line(_store(b, index, names[v]))

    def _taken(self, step: Step) -> DType:
        return reducers.summed_dtype(reducers.OPS[step.op], self.program.values[step.args[0]].dtype)

    def _reduced(self, step: Step) -> tuple[str, str]:
        kind = reducers.OPS[step.op].kind
        return kind, reducers.wide_type(kind, self._taken(step))

    def _finish(self, step: Step, count: str) -> None:
        """A reduction's result in registers."""
        result, dtype, taken = step.results[0], self.program.values[step.results[0]].dtype, self._taken(step)
        total = f"v{result}_t"
        self.names[result] = f"v{result}"
        if reducers.OPS[step.op].mean:
            if taken.is_integer:
                name = expressions.register_type(taken)
                zero = expressions.literal(0, taken)
                total = f"{expressions.register_type(dtype)}(idiv({total}, {name}({count})) if {count} > 0 else {zero})"
                self.s.line(f"v{result} = {total}")
                return
            total = f"({total} / {'float64' if taken.is_floating else expressions.register_type(taken)}({count}))"
        self.s.line(f"v{result} = {reducers.narrowed(dtype, total)}")

    def _copies(self, pairs: Sequence[tuple[Buffer | str, Buffer]]) -> None:
        """Fill buffers from others, or with the value of a name, at the same time: what is read is what was there before."""
        for size in dict.fromkeys(place.size for _, place in pairs):
            here = [(source, place) for source, place in pairs if place.size == size and source != place]
            if not here:
                continue
            with self.s.block(f"for j in range({self.counts[size]}):"):
                sources = [read for read in dict.fromkeys(source for source, _ in here) if isinstance(read, Buffer)]
                for read in sources:
                    self.s.line(f"c_{read.name} = {_load(read, 'j')}")
                for source, place in here:
                    self.s.line(_store(place, "j", source if isinstance(source, str) else f"c_{source.name}"))
            self.element_ns += 0.03 * len(here)

    # ---- control

    def _control(self, step: Step, targets: Sequence[Target], later: set[int]) -> None:
        program = self.program
        buffers: dict[int, Target] = {}
        extra: list[Target] = []  # a second place for the same value
        for t in targets:
            if t.value in buffers:
                extra.append(t)
            else:
                buffers[t.value] = t
        for v in step.results:
            if not program.is_scalar(v) and v not in buffers and (v in later or step.op == "While"):
                buffers[v] = Target(v, self._temp(v))
        if step.op == "While":
            self._while(step, buffers)
        else:
            self._branches(step, buffers)
        for v, t in buffers.items():
            self.where.setdefault(v, t.buffer)
        self._copies([(self.where[t.value], t.buffer) for t in extra])

    def _branches(self, step: Step, buffers: dict[int, Target]) -> None:
        s, program = self.s, self.program
        name = self.names[step.args[0]]
        for v in step.results:
            if program.is_scalar(v):
                self.names[v] = f"v{v}"
        if step.op == IF:
            headers = [f"if {name}:", "else:"]
        else:
            headers = [f"{'el' if k else ''}if {name} == {k}:" for k in range(len(step.blocks) - 1)] + ["else:"]
        alone = len(step.blocks) == 1
        assert step.op in (IF, CASE)
        for header, block in zip(headers, step.blocks):
            with s.block("if True:" if alone else header):
                self._block(
                    block, [Target(r, buffers[v].buffer, buffers[v].old) for v, r in zip(step.results, block.results) if v in buffers]
                )
                for v, r in zip(step.results, block.results):
                    if program.is_scalar(v):
                        s.line(f"v{v} = {self.names[r]}")
                s.line("pass")

    def _while(self, step: Step, buffers: dict[int, Target]) -> None:
        s, program = self.s, self.program
        condition, body = step.blocks
        carried: list[tuple[int, int, int]] = []  # scalars: parameter, first value, next value
        homes: list[Target] = []
        begin: list[tuple[Buffer | str, Buffer]] = []
        for first, a, p, following, result in zip(step.args, condition.params, body.params, body.results, step.results):
            if program.is_scalar(p):
                carried.append((p, first, following))
                self.names[a] = self.names[p] = self.names[result] = f"v{p}"
                continue
            home = buffers[result].buffer
            if program.is_scalar(first):
                begin.append((self.names[first], home))
            elif first != buffers[result].old:
                begin.append((self.where[first], home))
            self.where[a] = self.where[p] = self.where[result] = home
            homes.append(Target(following, home, p))
        self._copies(begin)
        for p, first, _ in carried:
            s.line(f"v{p} = {self.names[first]}")
        before = self.element_ns
        with s.block("while True:"):
            self._block(condition, [])
            with s.block(f"if not {self.names[condition.results[0]]}:"):
                s.line("break")
            self._block(body, homes)
            for p, _, following in carried:
                s.line(f"n{p} = {self.names[following]}")
            for p, _, _ in carried:
                s.line(f"v{p} = n{p}")
            self._poll(step, self.element_ns - before)

    def _poll(self, step: Step, element_ns: float) -> None:
        """Look at the cancel flag about once a millisecond."""
        scalar_ns = _SCALAR_NS * max(sum(len(block.steps) for block in step.blocks), 1)
        cost = [str(scalar_ns)]
        if element_ns:
            largest = self.counts[max(self.counts)]
            cost.append(f"({largest} * {int(element_ns * 64) + 1} >> 6)")
        self.s.line(f"left -= {' + '.join(cost)}")
        with self.s.block("if left < 0:"):
            self.s.line(f"left = {_BUDGET_NS}")
            with self.s.block("if atomic_load(cancel) != 0:"):
                self._fail(CANCELLED)


def _load(b: Buffer, index: str) -> str:
    element = f"ld({b.name}, {index})" if b.scope < 0 else f"ld_out({b.name}, {index}, {b.scope})"
    return expressions.loaded(b.dtype, element)


def _store(b: Buffer, index: str, value: str) -> str:
    return f"st_out({b.name}, {index}, {expressions.stored(b.dtype, value)}, {b.scope})"
