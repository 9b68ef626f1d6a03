"""Write a loop program's runs of elementwise steps.

Each run, a stage, is one loop over elements, with its reductions in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.loop_program.schedule import Buffer, Item, Target
from tfjit.kernels.cpu.reduction import reducers
from tfjit.kernels.cpu.template import cost_model
from tfjit.kernels.ir.loop_program import FILL, REDUCTIONS, LoopProgram, Step
from tfjit.kernels.source import Source

FIRST_FAILURE: Final = 16
"""Status of the first step that may fail; others follow in order."""
_SUM_BLOCK: Final = 4096
"""Elements of a block with a float sum in the elements' dtype."""


class StageWriter:
    """Writer of a program's stages.

    counts: name of the number of elements, by size; names: of scalar values; where: buffers of
    array values; failures: errors that the kernel may report, by status; element_ns: the time of an
    element in all stages.
    """

    def __init__(self, program: LoopProgram, counts: dict[int, str]) -> None:
        self.program = program
        self.counts = counts
        self.s = Source()
        self.names: dict[int, str] = {}
        self.where: dict[int, Buffer] = {}
        self.failures: dict[int, tuple[str, str, str]] = {}
        self.element_ns = 0.0

    def temp(self, value: int) -> Buffer:
        """Return memory for an array value."""
        raise NotImplementedError

    # ---- one step

    def fails(self, step: Step) -> str | None:
        """Return the condition under which a step fails, or None.

        The step is of scalars or elements; None means that it cannot fail.
        """
        if step.op in REDUCTIONS or step.op == FILL:
            return None
        error = expressions.failure(step.op, [self.program.values[a].dtype for a in step.args])
        return None if error is None else error.condition

    def status(self, step: Step) -> int:
        """Return the status that reports the failure of a step."""
        error = expressions.failure(step.op, [self.program.values[a].dtype for a in step.args])
        assert error is not None
        for status, (kind, message, name) in self.failures.items():
            if name == step.name and (kind, message) == (error.kind, error.message):
                return status
        status = FIRST_FAILURE + len(self.failures)
        self.failures[status] = (error.kind, error.message, step.name)
        return status

    def expression(self, step: Step, names: Sequence[str]) -> str:
        """Return the expression of a step over its arguments' names."""
        if step.op == FILL:
            return names[0]
        dtypes = [self.program.values[a].dtype for a in step.args]
        return expressions.emit_op(
            step.op, names, dtypes, self.program.values[step.results[0]].dtype, dict(step.attrs)
        )

    def fail(self, status: int, detail: str = "0") -> None:
        """End the kernel with a status."""
        self.s.line(f"fail(args, {status}, {detail})")
        self.s.line("return")

    # ---- stages

    def stage(self, item: Item, targets: Sequence[Target], later: set[int]) -> None:
        """Write a stage.

        targets: the buffers that some of its values must be written to. later: values that are read
        after it.
        """
        stores: dict[int, list[Buffer]] = {}
        for t in targets:
            stores.setdefault(t.value, []).append(t.buffer)
        for v in sorted(item.defines & later):
            if not self.program.is_scalar(v) and v not in stores:
                stores[v] = [self.temp(v)]
        for v, buffers in stores.items():
            self.where[v] = buffers[0]
        self._stage(item.steps, stores)

    def _stage(self, steps: Sequence[Step], stores: dict[int, list[Buffer]]) -> None:
        """Write one loop over elements (two for sums of floats).

        The two are short sums in the elements' dtype, and their sum in float64.
        """
        s, program = self.s, self.program
        made = {r for step in steps for r in step.results}
        loads = list(
            dict.fromkeys(
                a for step in steps for a in step.args if not program.is_scalar(a) and a not in made
            )
        )
        size = next(
            program.values[v].size
            for step in steps
            for v in (*step.args, *step.results)
            if not program.is_scalar(v)
        )
        count = self.counts[size]
        reductions = [step for step in steps if step.op in REDUCTIONS]
        wide = [
            step
            for step in reductions
            if self._reduced(step)[1] != expressions.register_type(self._taken(step))
        ]
        fails = [step for step in steps if self.fails(step) is not None]
        for step in reductions:
            kind = reducers.OPS[step.op].kind
            start = reducers.start(kind, self._taken(step))
            s.line(f"v{step.results[0]}_t = {f'float64({start})' if step in wide else start}")
        for k in range(len(fails)):
            s.line(f"bad{k} = 0")
        if wide:
            with s.block(f"for at in range(0, {count}, {_SUM_BLOCK}):"):
                for step in wide:
                    s.line(
                        f"v{step.results[0]}_p = "
                        f"{reducers.start(reducers.OPS[step.op].kind, self._taken(step))}"
                    )
                s.line(f"span = min({_SUM_BLOCK}, {count} - at)")
                self._elements("span", "at + j", steps, loads, stores, fails, wide)
                for step in wide:
                    kind, total = reducers.OPS[step.op].kind, f"v{step.results[0]}_t"
                    s.line(
                        f"{total} = {reducers.step(kind, self._taken(step), total, f'float64(v{step.results[0]}_p)', in_order=True)}"
                    )
        else:
            self._elements(count, "j", steps, loads, stores, fails, wide)
        for k, step in enumerate(fails):
            with s.block(f"if bad{k} != 0:"):
                self.fail(self.status(step))
        for step in reductions:
            self._finish(step, count)
        self.element_ns += sum(
            cost_model.op_ns(step.op, program.values[step.results[0]].dtype.size) for step in steps
        ) + 0.02 * len(loads)

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
                s.line(f"e{v} = {load(self.where[v], index)}")
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
                    s.line(
                        f"{total} = "
                        f"{reducers.step(reducers.OPS[step.op].kind, taken, total, value)}"
                    )
                    continue
                if step in fails:
                    condition = expressions.filled_condition(
                        self.fails(step) or "", arguments, program.values[step.args[0]].dtype
                    )
                    s.line(f"bad{fails.index(step)} |= int64({condition})")
                s.line(f"e{result} = {self.expression(step, arguments)}")
                names[result] = f"e{result}"
            for v, buffers in stores.items():
                for b in buffers:
                    s.line(store(b, index, names[v]))

    def _taken(self, step: Step) -> DType:
        return reducers.summed_dtype(reducers.OPS[step.op], self.program.values[step.args[0]].dtype)

    def _reduced(self, step: Step) -> tuple[str, str]:
        kind = reducers.OPS[step.op].kind
        return kind, reducers.wide_type(kind, self._taken(step))

    def _finish(self, step: Step, count: str) -> None:
        """Assign a reduction's result in registers."""
        result, dtype, taken = (
            step.results[0],
            self.program.values[step.results[0]].dtype,
            self._taken(step),
        )
        total = f"v{result}_t"
        self.names[result] = f"v{result}"
        if reducers.OPS[step.op].mean:
            if taken.is_integer:
                name = expressions.register_type(taken)
                zero = expressions.literal(0, taken)
                total = (
                    f"{expressions.register_type(dtype)}(idiv({total}, {name}({count})) if "
                    f"{count} > 0 else {zero})"
                )
                self.s.line(f"v{result} = {total}")
                return
            total = f"({total} / {'float64' if taken.is_floating else expressions.register_type(taken)}({count}))"
        self.s.line(f"v{result} = {reducers.narrowed(dtype, total)}")

    def copies(self, pairs: Sequence[tuple[Buffer | str, Buffer]]) -> None:
        """Fill buffers from others, or with a named value, in parallel.

        All reads see the values from before the copies.
        """
        for size in dict.fromkeys(place.size for _, place in pairs):
            here = [
                (source, place) for source, place in pairs if place.size == size and source != place
            ]
            if not here:
                continue
            with self.s.block(f"for j in range({self.counts[size]}):"):
                sources = [
                    read
                    for read in dict.fromkeys(source for source, _ in here)
                    if isinstance(read, Buffer)
                ]
                for read in sources:
                    self.s.line(f"c_{read.name} = {load(read, 'j')}")
                for source, place in here:
                    self.s.line(
                        store(place, "j", source if isinstance(source, str) else f"c_{source.name}")
                    )
            self.element_ns += 0.03 * len(here)


def load(b: Buffer, index: str) -> str:
    """Return an element of a buffer, in a register."""
    element = f"ld({b.name}, {index})" if b.scope < 0 else f"ld_out({b.name}, {index}, {b.scope})"
    return expressions.loaded(b.dtype, element)


def store(b: Buffer, index: str, value: str) -> str:
    """Return the statement that puts a value into a buffer."""
    return f"st_out({b.name}, {index}, {expressions.stored(b.dtype, value)}, {b.scope})"
