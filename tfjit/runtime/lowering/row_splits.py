"""Describe loops divided by batch rows into parallel shards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tfjit.runtime.lowering.lowered import Instruction, Lowered, Value

Axis = int | None


@dataclass(frozen=True, slots=True)
class Shard:
    """Select rows first..last of all `rows`."""

    first: int
    last: int
    rows: int

    def shape(self, shape: tuple[int, ...], axis: Axis) -> tuple[int, ...]:
        """Return the shard's shape of a tensor sharded along `axis`."""
        if axis is None:
            return shape
        return (*shape[:axis], self.length(shape[axis]), *shape[axis + 1 :])

    def length(self, whole: int) -> int:
        """Return the shard's length of a sharded axis."""
        return whole // self.rows * (self.last - self.first)

    def start(self, whole: int) -> int:
        """Return the start of the shard in a sharded axis."""
        return whole // self.rows * self.first

    def slices(self, shape: Sequence[int], axis: int) -> tuple[slice, ...]:
        """Return the slices of the shard in an array sharded along `axis`."""
        first = self.start(shape[axis])
        return (*(slice(None),) * axis, slice(first, first + self.length(shape[axis])))


@dataclass(frozen=True, slots=True)
class ShardProgram:
    """Hold one shard of a division.

    lowered: its instructions, with their calls; its feeds are the outside values that it reads.
    sources: for each feed, the outside value and the byte at which the shard's rows begin. targets:
    the same for each value that the shard gives, by value index.
    """

    rows: Shard
    lowered: Lowered
    sources: list[tuple[Value, int]]
    targets: dict[int, tuple[Value, int]]

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the names of the divided nodes, in order."""
        return tuple(
            dict.fromkeys(instruction.node.name for instruction in self.lowered.instructions)
        )

    def place_of(self, name: str) -> tuple[Value, int]:
        """Return a generated name's outside value and first byte."""
        kind, number = name[0], int(name[1:])
        return self.sources[number] if kind == "f" else self.targets[number]


@dataclass(frozen=True, slots=True)
class RowSplit:
    """Hold a division.

    members: the instructions that the division replaces. hoisted: the members that are the same for
    all rows and iterations; they run once, before the shards. instruction: replaces the other
    members in the step; its outputs are values that they made.
    """

    members: list[Instruction]
    hoisted: list[Instruction]
    instruction: Instruction
    shards: tuple[ShardProgram, ...]
    cost_ns: float

    def applied(self, instructions: Sequence[Instruction]) -> list[Instruction]:
        """Return a step's instructions with this one in place of its members."""
        members = {id(member) for member in self.members}
        position = next(
            k for k, instruction in enumerate(instructions) if id(instruction) in members
        )
        before = [i for i in instructions[:position] if id(i) not in members]
        return [
            *before,
            *self.hoisted,
            self.instruction,
            *(i for i in instructions[position:] if id(i) not in members),
        ]
