"""Loops divided by batch rows: the parts that threads run side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tfjit.runtime.lowering.lowering import Instruction, Lowered, Value

Axis = int | None


@dataclass(frozen=True, slots=True)
class Part:
    """Rows first..last of all `rows`."""

    first: int
    last: int
    rows: int

    def shape(self, shape: tuple[int, ...], axis: Axis) -> tuple[int, ...]:
        """What is left of a shape that is by rows along `axis`."""
        if axis is None:
            return shape
        return (*shape[:axis], self.length(shape[axis]), *shape[axis + 1 :])

    def length(self, whole: int) -> int:
        """What is left of an axis by rows."""
        return whole // self.rows * (self.last - self.first)

    def start(self, whole: int) -> int:
        """Where the part of an axis by rows begins."""
        return whole // self.rows * self.first

    def slices(self, shape: Sequence[int], axis: int) -> tuple[slice, ...]:
        """The part of an array by rows along `axis`."""
        first = self.start(shape[axis])
        return (*(slice(None),) * axis, slice(first, first + self.length(shape[axis])))


@dataclass(frozen=True, slots=True)
class RowPart:
    """One part of a division. lowered: its instructions, with their calls; its feeds are what it
    reads outside.

    sources: by feed, the value outside and the byte where the part's begins. targets: by value
    index of what the part gives, the same.
    """

    rows: Part
    lowered: Lowered
    sources: list[tuple[Value, int]]
    targets: dict[int, tuple[Value, int]]

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes that are divided, in order."""
        return tuple(
            dict.fromkeys(instruction.node.name for instruction in self.lowered.instructions)
        )

    def place_of(self, name: str) -> tuple[Value, int]:
        """What a name in the part's generated code stands for: a value outside, and the byte where
        the part's begins.
        """
        kind, number = name[0], int(name[1:])
        return self.sources[number] if kind == "f" else self.targets[number]


@dataclass(frozen=True, slots=True)
class RowSplit:
    """A division. members: the instructions that it replaces. hoisted: those of them that are the
    same for all rows and for all iterations; they run once, before it. instruction: stands for the
    others in the step; its outputs are values that they made.
    """

    members: list[Instruction]
    hoisted: list[Instruction]
    instruction: Instruction
    parts: tuple[RowPart, ...]
    cost_ns: float

    def applied(self, instructions: Sequence[Instruction]) -> list[Instruction]:
        """A step's instructions with this one in the place of its members."""
        members = {id(member) for member in self.members}
        at = next(k for k, instruction in enumerate(instructions) if id(instruction) in members)
        before = [i for i in instructions[:at] if id(i) not in members]
        return [
            *before,
            *self.hoisted,
            self.instruction,
            *(i for i in instructions[at:] if id(i) not in members),
        ]
