"""Print and parse the text form of loop programs.

    loop {
        '' (%0: int32<>, %1: float32<3>)
        %4 = int32<>[1]
        %9: int32<>, %10: float32<3> = 'y' While(%0, %1)
            while(%2: int32<>, %3: float32<3>) {
                %5: bool<> = 'go' Greater(%2, %4)
                give %5
            }
            do(%6: int32<>, %7: float32<3>) {
                %8: float32<3> = 'm' Mul(%7, %7, T=float32)
                give %6, %8
            }
        give %10
    }

The form is used in dumps and in tests. The head has the title and the inputs. Values have the
program's numbers and stand with their types where they are defined. Constants come first. A step
has the name of the node that it was.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tfjit.framework.types import dtypes
from tfjit.kernels.ir.loop_program import IF, WHILE, Block, LoopProgram, Step
from tfjit.kernels.registry import TensorSpec
from tfjit.passes.text.group_text import KEY, WORD, Reader, quoted, read_tensor, tensor_text

OPENING: Final = re.compile(r"\bloop \{$")
"""The end of the first line of a program."""
CLOSING: Final = re.compile(r"\s*\}\s*[,)]")
"""The beginning of the last line of a program."""

_VALUE: Final = re.compile(r"%(\d+)")
_LABEL: Final = re.compile(r"(\w+)\(")
_LABELS: Final = {IF: ("then", "else"), WHILE: ("while", "do")}
_TAB: Final = "    "


def format_program(program: LoopProgram, value: Callable[[Any], str]) -> str:
    """Return a program as text.

    value: formats attr values and arrays.
    """
    printer = _Printer(program, value)
    return "\n".join(["loop {", *printer.lines(_TAB), "}"])


class _Printer:
    """Prints the blocks of one program."""

    def __init__(self, program: LoopProgram, value: Callable[[Any], str]) -> None:
        self.program = program
        self.value = value

    def lines(self, indent: str) -> list[str]:
        """Return head, constants, steps and outputs."""
        program = self.program
        found = [f"{indent}{program.title!r} ({self.typed(program.inputs)})"]
        for number, constant in program.constants:
            spec = program.values[number]
            array = np.asarray(constant, spec.dtype.as_numpy_dtype).reshape(spec.shape)
            found.append(f"{indent}%{number} = {self.value(array)}")
        found += self.steps(program.block, indent)
        return [*found, f"{indent}give {_names(program.outputs)}"]

    def typed(self, values: Sequence[int]) -> str:
        """Return values with their types."""
        return ", ".join(f"%{v}: {tensor_text(self.program.values[v])}" for v in values)

    def steps(self, block: Block, indent: str) -> list[str]:
        """Return the lines of a block's steps."""
        found: list[str] = []
        for step in block.steps:
            given = [_names(step.args)] if step.args else []
            given += [
                f"{key}={value!r}" if isinstance(value, str) else f"{key}={self.value(value)}"
                for key, value in step.attrs
            ]
            found.append(
                f"{indent}{self.typed(step.results)} = {step.name!r} {step.op}({', '.join(given)})"
            )
            labels = _LABELS.get(step.op) or [f"case{k}" for k in range(len(step.blocks))]
            for label, inner in zip(labels, step.blocks):
                found.append(f"{indent}{_TAB}{label}({self.typed(inner.params)}) {{")
                found += self.steps(inner, indent + 2 * _TAB)
                found += [
                    f"{indent}{2 * _TAB}give {_names(inner.results)}".rstrip(),
                    f"{indent}{_TAB}}}",
                ]
        return found


def _names(values: Sequence[int]) -> str:
    return ", ".join(f"%{v}" for v in values)


def read_program(reader: Reader, fail: Callable[[str], Any]) -> LoopProgram:
    """Read a program behind its opening `loop {`.

    fail: raises TextError with a reason.
    """
    return _ProgramReader(reader, fail).read()


class _ProgramReader:
    """Reads one program; values have types once they are defined."""

    def __init__(self, reader: Reader, fail: Callable[[str], Any]) -> None:
        self.reader = reader
        self.fail = fail
        self.specs: dict[int, TensorSpec] = {}

    def read(self) -> LoopProgram:
        """Read the whole program and its closing brace."""
        reader = self.reader
        reader.take("")
        title = quoted(reader)
        reader.expect("(")
        inputs = self.typed(")")
        constants: list[tuple[int, Any]] = []
        steps: list[Step] = []
        while not reader.take("give"):
            number = self.number()
            if reader.take("="):
                array = reader.value()
                if not isinstance(array, np.ndarray):
                    self.fail("a constant is a tensor such as int32<>[1]")
                self.specs[number] = TensorSpec(dtypes.as_dtype(array.dtype), array.shape)
                constants.append((number, array.reshape(-1)[0] if array.size == 1 else array))
            else:
                steps.append(self.step(number))
        outputs = self.names("}")
        for number in range(len(self.specs)):
            if number not in self.specs:
                self.fail(f"value %{number} is not defined, but a larger one is")
        values = tuple(self.specs[number] for number in range(len(self.specs)))
        block = Block((), tuple(steps), ())
        return LoopProgram(values, tuple(constants), inputs, block, outputs, title)

    def number(self) -> int:
        """Read the number of a value."""
        return int(self.reader.match(_VALUE, "a value such as %0")[1])

    def define(self, number: int) -> int:
        """Read the type of a value behind its number."""
        self.reader.expect(":")
        self.specs[number] = read_tensor(self.reader)
        return number

    def typed(self, end: str) -> tuple[int, ...]:
        """Read values with their types up to `end`."""
        found: list[int] = []
        while not self.reader.take(end):
            found.append(self.define(self.number()))
            if not self.reader.take(","):
                self.reader.expect(end)
                break
        return tuple(found)

    def use(self) -> int:
        """Read a value that is defined."""
        number = self.number()
        if number not in self.specs:
            self.fail(f"value %{number} is used before its definition")
        return number

    def names(self, end: str) -> tuple[int, ...]:
        """Read values that are defined up to `end`."""
        found: list[int] = []
        while not self.reader.take(end):
            found.append(self.use())
            if not self.reader.take(","):
                self.reader.expect(end)
                break
        return tuple(found)

    def step(self, first: int) -> Step:
        """Read a step behind its first result's number."""
        reader = self.reader
        results = [self.define(first)]
        while reader.take(","):
            results.append(self.define(self.number()))
        reader.expect("=")
        name = quoted(reader)
        reader.take("")
        op = reader.match(WORD, "an op type")[0]
        reader.expect("(")
        args: list[int] = []
        attrs: list[tuple[str, Any]] = []
        while not reader.take(")"):
            if reader.text.startswith("%", reader.position):
                args.append(self.use())
            else:
                key = reader.match(KEY, "a value or key=value")[1]
                reader.take("")
                is_text = reader.text.startswith(("'", '"'), reader.position)
                attrs.append((key, quoted(reader) if is_text else reader.value()))
            if not reader.take(","):
                reader.expect(")")
                break
        blocks: list[Block] = []
        while _LABEL.match(reader.text, reader.position):
            reader.match(_LABEL, "a label")
            params = self.typed(")")
            reader.expect("{")
            steps: list[Step] = []
            while not reader.take("give"):
                steps.append(self.step(self.number()))
            blocks.append(Block(params, tuple(steps), self.names("}")))
        return Step(op, tuple(args), tuple(results), tuple(attrs), tuple(blocks), name)
