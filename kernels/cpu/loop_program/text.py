"""Write a loop program's kernel.

Scalars are in registers, arrays in buffers; a run of elementwise steps is one loop. There are three
forms. WHOLE: every stage runs over all elements before the next one. TILED: the whole program runs
on one tile of elements after the other, which stays in the first-level cache through all
iterations; for programs that compute no scalar from an array. LANES: tiles of so few elements that
LLVM unrolls every stage and keeps the loop-carried values in vector registers; for short bodies.
The last tile then overlaps the previous one, computing some elements twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.elementwise.loop import MAX_OUTPUTS
from tfjit.kernels.cpu.loop_program.schedule import INDEXED, Buffer, Target, items_of, split_targets
from tfjit.kernels.cpu.loop_program.stages import FIRST_FAILURE, StageWriter, load, store
from tfjit.kernels.cpu.reduction import reducers
from tfjit.kernels.cpu.template import typed_pointers
from tfjit.kernels.ir.loop_program import (
    CASE,
    CONTROL,
    ELEMENT,
    IF,
    REDUCTIONS,
    SET_ELEMENT,
    Block,
    LoopProgram,
    Step,
)
from tfjit.kernels.registry import Unsupported
from tfjit.kernels.source import KernelSource

Form = Literal["whole", "tiled", "lanes"]

CANCELLED: Final = 1
"""Status of a kernel that was told to stop."""
_BUDGET_NS: Final = 1_000_000
_SCALAR_NS: Final = 1
_COMPARISONS: Final = frozenset({"Less", "LessEqual", "Greater", "GreaterEqual"})


@dataclass(slots=True)
class ProgramText:
    """The finished text and the meaning of its words.

    buffers: arrays in the order of their words. scalars: (input number) of scalar inputs; outputs:
    of scalar outputs; numbers: values of the constants that are words. sizes: element counts in the
    order of their words (whole form); extents: first dimensions, likewise.
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
    """Return whether elements do not depend on each other.

    No scalar is computed from an array, and all arrays have one size.
    """
    steps = list(program.block.all_steps())
    return (
        not any(step.op in REDUCTIONS or step.op in INDEXED for step in steps)
        and len(array_sizes(program)) == 1
    )


def array_sizes(program: LoopProgram) -> list[int]:
    """Return the different element counts of a program's arrays.

    They are in order of appearance.
    """
    return list(dict.fromkeys(spec.size for spec in program.values if spec.size != 1))


def program_source(program: LoopProgram, form: Form, lanes: int = 0) -> ProgramText:
    """Write the kernel of a program.

    lanes: elements of a tile, for LANES. Raises Unsupported for steps without a generated form.

    Argument words: address of the cancel flag; TILED: number of elements, elements of a tile;
    LANES: number of elements; WHOLE: the sizes; extents of arrays that are read by index; addresses
    of scalar inputs and outputs; constants that are words; for each buffer its address, for
    temporaries of TILED also the bytes a chunk. LANES has its temporaries on the stack.
    """
    trial = _Writer(program, form, lanes, [], [])
    trial.write()
    writer = _Writer(program, form, lanes, trial.temps, trial.extents)
    return writer.write()


class _Writer(StageWriter):
    def __init__(
        self,
        program: LoopProgram,
        form: Form,
        lanes: int,
        temps: Sequence[Buffer],
        extents: Sequence[int],
    ) -> None:
        sizes = array_sizes(program)
        names = {"whole": "m{}", "tiled": "m", "lanes": str(lanes)}
        super().__init__(program, {size: names[form].format(k) for k, size in enumerate(sizes)})
        self.sizes = sizes if form == "whole" else []
        self.extents = list(extents)  # first dimensions of arrays that are read by index
        self.form = form
        self.lanes = lanes
        self.known_temps = list(temps)
        self.temps: list[Buffer] = []
        self.scopes = 0
        self.inputs = [
            Buffer(f"x{k}", program.values[v].dtype, program.values[v].size, "in", k, -1)
            for k, v in enumerate(program.inputs)
            if not program.is_scalar(v)
        ]
        self.outputs = [
            Buffer(
                f"y{k}", program.values[v].dtype, program.values[v].size, "out", k, self._scope()
            )
            for k, v in enumerate(program.outputs)
            if not program.is_scalar(v)
        ]

    def _scope(self) -> int:
        self.scopes += 1
        if self.scopes > MAX_OUTPUTS:
            raise Unsupported(f"more than {MAX_OUTPUTS} arrays are written")
        return self.scopes - 1

    def temp(self, value: int) -> Buffer:
        spec = self.program.values[value]
        made = Buffer(
            f"t{len(self.temps)}", spec.dtype, spec.size, "temp", len(self.temps), self._scope()
        )
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
            counts = {
                "tiled": ["n", "tile"],
                "lanes": ["n"],
                "whole": [f"m{k}" for k in range(len(self.sizes))],
            }
            for name in counts[self.form]:
                s.line(f"{name} = word(args, {at})")
                at += 1
            for k in range(len(self.extents)):
                s.line(f"d{k} = word(args, {at})")
                at += 1
            for k in scalars:
                value = program.inputs[k]
                dtype = program.values[value].dtype
                element = f"ld({typed_pointers.pointer(dtype, f'word(args, {at})')}, 0)"
                s.line(f"v{value} = {expressions.loaded(dtype, element)}")
                self.names[value] = f"v{value}"
                at += 1
            results = {}
            for k in outputs:
                results[k] = typed_pointers.pointer(
                    program.values[program.outputs[k]].dtype, f"word(args, {at})"
                )
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
                s.line(
                    f"{b.name} = stack_like({typed_pointers.pointer(b.dtype, '0')}, {self.lanes})"
                )
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
                        s.line(
                            f"{b.name} = {typed_pointers.pointer(b.dtype, f'{b.name}_at{start}')}"
                        )
                    self._program_text()
                    if results:
                        with s.block("if lo == 0:"):
                            self._scalar_outputs(results)
            else:
                for b in buffers:
                    s.line(f"{b.name} = {typed_pointers.pointer(b.dtype, f'{b.name}_at')}")
                self._program_text()
                self._scalar_outputs(results)
        source = KernelSource(s.text(), title=program.title, module=__name__)
        return ProgramText(
            source,
            self.form,
            buffers,
            scalars,
            outputs,
            numbers,
            self.sizes,
            self.extents,
            self.failures,
            self.element_ns,
        )

    def _word_constants(self) -> list[int]:
        """Return the integer constants that are passed as words.

        They are only compared with, or begin a loop: sizes and counts, which vary from run to run.
        """
        used: dict[int, bool] = {}
        for step in self.program.block.all_steps():
            for a in step.args:
                used[a] = used.get(a, True) and step.op in _COMPARISONS
        reads = {
            r
            for step in self.program.block.all_steps()
            for block in step.blocks
            for r in block.results
        }
        return [
            v
            for v, value in self.program.constants
            if self.program.values[v].dtype.is_integer
            and used.get(v, False)
            and v not in reads
            and abs(int(value)) > 16
        ]

    def _program_text(self) -> None:
        program = self.program
        for b, v in zip(self.inputs, [v for v in program.inputs if not program.is_scalar(v)]):
            self.where[v] = b
        arrays = [v for v in program.outputs if not program.is_scalar(v)]
        homes = [self.temp(v) for v in arrays] if self.form == "lanes" else self.outputs
        self._block(program.block, [Target(v, b) for b, v in zip(homes, arrays)])
        if self.form == "lanes":
            self.copies(list(zip(homes, self.outputs)))

    def _scalar_outputs(self, results: dict[int, str]) -> None:
        for k, place in results.items():
            value = self.program.outputs[k]
            self.s.line(
                f"st({place}, 0, "
                f"{expressions.stored(self.program.values[value].dtype, self.names[value])})"
            )

    # ---- blocks

    def _block(self, block: Block, targets: Sequence[Target]) -> None:
        """Append a block; afterwards its targets' values are in their buffers."""
        items = items_of(self.program, block)
        direct, late = split_targets(items, targets)
        wanted = {t.value for t in late}
        for number, item in enumerate(items):
            later = set(wanted)
            for other in items[number + 1 :]:
                later |= other.reads
            if item.is_stage:
                self.stage(item, direct.get(number, []), later)
            elif item.steps[0].op in CONTROL:
                self._control(item.steps[0], direct.get(number, []), later)
            elif item.steps[0].op == ELEMENT:
                self._element(item.steps[0], direct.get(number, []))
            elif item.steps[0].op == SET_ELEMENT:
                self._set_element(item.steps[0], direct.get(number, []))
            else:
                self._scalar(item.steps[0])
        self.copies([(self.where[t.value], t.buffer) for t in late])

    # ---- scalars

    def _scalar(self, step: Step) -> None:
        names = [self.names[a] for a in step.args]
        result = step.results[0]
        condition = self.fails(step)
        if condition is not None:
            with self.s.block(
                f"if {expressions.filled_condition(condition, names, self.program.values[step.args[0]].dtype)}:"
            ):
                self.fail(self.status(step))
        self.names[result] = f"v{result}"
        self.s.line(f"v{result} = {self.expression(step, names)}")

    # ---- parts of arrays

    def _checked_index(self, step: Step) -> str:
        """Return the name of an index within the first dimension.

        The kernel fails for any other index.
        """
        extent = self.program.values[step.args[0]].shape[0]
        if extent not in self.extents:
            self.extents.append(extent)
        index = self.names[step.args[1]]
        message = str(dict(step.attrs)["failure"])
        status = FIRST_FAILURE + len(self.failures)
        self.failures[status] = ("InvalidArgumentError", message, step.name)
        with self.s.block(f"if {index} < 0 or {index} >= d{self.extents.index(extent)}:"):
            self.fail(status, f"int64({index})")
        return f"int64({index})"

    def _part(self, array: Buffer, index: str, size: int) -> str:
        return typed_pointers.pointer(
            array.dtype, f"{array.name}_at + {index} * {self.counts[size]} * {array.dtype.size}"
        )

    def _element(self, step: Step, targets: Sequence[Target]) -> None:
        source, result = step.args[0], step.results[0]
        index = self._checked_index(step)
        if self.program.is_scalar(source):
            self.names[result] = self.names[source]
            return
        array = self.where[source]
        if self.program.is_scalar(result):
            self.names[result] = f"v{result}"
            self.s.line(f"v{result} = {load(array, index)}")
            return
        size = self.program.values[result].size
        self.s.line(f"p{result} = {self._part(array, index, size)}")
        part = Buffer(f"p{result}", array.dtype, size, array.place, array.index, array.scope)
        places = [t.buffer for t in targets]
        if array.scope >= 0 and not places:
            places = [self.temp(result)]  # the array may change before the part is read
        self.copies([(part, place) for place in places])
        self.where[result] = places[0] if places else part

    def _set_element(self, step: Step, targets: Sequence[Target]) -> None:
        source, result, value = step.args[0], step.results[0], step.args[2]
        index = self._checked_index(step)
        if self.program.is_scalar(result):
            self.names[result] = f"v{result}"
            self.s.line(f"v{result} = {self.names[value]}")
            return
        homes = [t.buffer for t in targets] or [self.temp(result)]
        first = targets[0] if targets else None
        if first is None or first.old != source:
            self.copies([(self.where[source], homes[0])])
        self.where[result] = homes[0]
        size = self.program.values[source].size // self.program.values[source].shape[0]
        if size == 1:
            self.s.line(store(homes[0], index, self.names[value]))
        else:
            self.s.line(f"p{result} = {self._part(homes[0], index, size)}")
            part = Buffer(
                f"p{result}", homes[0].dtype, size, homes[0].place, homes[0].index, homes[0].scope
            )
            self.copies(
                [(self.names[value] if self.program.is_scalar(value) else self.where[value], part)]
            )
        self.copies([(homes[0], home) for home in homes[1:]])

    # ---- control

    def _control(self, step: Step, targets: Sequence[Target], later: set[int]) -> None:
        program = self.program
        buffers: dict[int, Target] = {}
        extra: list[Target] = []  # other buffers for the same value
        for t in targets:
            if t.value in buffers:
                extra.append(t)
            else:
                buffers[t.value] = t
        for v in step.results:
            if not program.is_scalar(v) and v not in buffers and (v in later or step.op == "While"):
                buffers[v] = Target(v, self.temp(v))
        if step.op == "While":
            self._while(step, buffers)
        else:
            self._branches(step, buffers)
        for v, t in buffers.items():
            self.where.setdefault(v, t.buffer)
        self.copies([(self.where[t.value], t.buffer) for t in extra])

    def _branches(self, step: Step, buffers: dict[int, Target]) -> None:
        s, program = self.s, self.program
        name = self.names[step.args[0]]
        for v in step.results:
            if program.is_scalar(v):
                self.names[v] = f"v{v}"
        if step.op == IF:
            headers = [f"if {name}:", "else:"]
        else:
            headers = [
                f"{'el' if k else ''}if {name} == {k}:" for k in range(len(step.blocks) - 1)
            ] + ["else:"]
        alone = len(step.blocks) == 1
        assert step.op in (IF, CASE)
        for header, block in zip(headers, step.blocks):
            with s.block("if True:" if alone else header):
                self._block(
                    block,
                    [
                        Target(r, buffers[v].buffer, buffers[v].old)
                        for v, r in zip(step.results, block.results)
                        if v in buffers
                    ],
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
        for first, a, p, following, result in zip(
            step.args, condition.params, body.params, body.results, step.results
        ):
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
        self.copies(begin)
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
        """Read the cancel flag about once a millisecond."""
        scalar_ns = _SCALAR_NS * max(sum(len(block.steps) for block in step.blocks), 1)
        cost = [str(scalar_ns)]
        if element_ns:
            largest = self.counts[max(self.counts)]
            cost.append(f"({largest} * {int(element_ns * 64) + 1} >> 6)")
        self.s.line(f"left -= {' + '.join(cost)}")
        with self.s.block("if left < 0:"):
            self.s.line(f"left = {_BUDGET_NS}")
            with self.s.block("if atomic_load(cancel) != 0:"):
                self.fail(CANCELLED)
