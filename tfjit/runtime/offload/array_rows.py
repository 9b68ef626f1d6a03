"""Place rows of arrays: views by offset, writes in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tfjit.kernels.registry import NodeSpec
from tfjit.runtime.lowering.lowering import Instruction, Value, copy_out
from tfjit.runtime.step.memory_planner import ALIGNMENT


@dataclass(slots=True)
class RowView(Value):
    """A part of an array.

    offset: bytes from the start of its base.
    """

    offset: int = 0

    @property
    def is_aligned(self) -> bool:
        """Return whether the view starts where any value might start."""
        return byte_offset(self) % ALIGNMENT == 0


@dataclass(frozen=True, slots=True)
class WriteRow:
    """An instruction that replaces a row.

    rows: the array before. made: the array behind it. written: the row of `made`.
    """

    rows: Value
    row: Value
    made: Value
    written: RowView


def byte_offset(value: Value) -> int:
    """Return the bytes between a value's root and the value."""
    total = 0
    found: Value | None = value
    while found is not None:
        if isinstance(found, RowView):
            total += found.offset
        found = found.base
    return total


def place_rows(
    instructions: Sequence[Instruction],
    writes: Mapping[int, WriteRow],
    fetches: Sequence[Value],
    values: Sequence[Value],
) -> list[Instruction]:
    """Return instructions in which writes of rows are copies.

    Where nothing uses the array of before any more, the new array is that array: a write copies its
    row alone. Else the whole array is copied first. writes: by the identity of an instruction.
    """
    if not writes:
        return list(instructions)
    last: dict[int, int] = {}
    for position, instruction in enumerate(instructions):
        for value in (*instruction.inputs, *instruction.outputs):
            last[value.root.index] = position
    for value in fetches:
        last[value.root.index] = len(instructions)
    found: list[Instruction] = []
    for position, instruction in enumerate(instructions):
        write = writes.get(id(instruction))
        if write is None:
            found.append(instruction)
            continue
        root = write.rows.root
        if root.storage in ("buffer", "feed", "object") and last[root.index] <= position:
            write.made.base, write.made.storage = write.rows, root.storage
            last[root.index] = last[write.made.index]
        else:
            found.append(_copied(instruction, write.rows, write.made))
        found.append(_copied(instruction, write.row, write.written))
    return found


def _copied(instruction: Instruction, source: Value, target: Value) -> Instruction:
    spec = NodeSpec(instruction.spec.name, "DeepCopy", {}, (source.spec,), (target.spec,))
    return replace(
        instruction,
        serving="copy",
        inputs=[source],
        outputs=[target],
        spec=spec,
        compute=copy_out,
    )


__all__ = ["RowView", "WriteRow", "byte_offset", "place_rows"]
