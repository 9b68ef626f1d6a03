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
    instructions: Sequence[Instruction], writes: Mapping[int, WriteRow], fetches: Sequence[Value]
) -> list[Instruction]:
    """Return instructions in which writes of rows are copies, or nothing.

    Where nothing uses the array of before any more, the new array is that array, and its maker may
    compute the row into it. Else the whole array is copied first. writes: by the identity of an
    instruction.
    """
    return _Rows(instructions, writes, fetches).placed() if writes else list(instructions)


class _Rows:
    """One walk over instructions, with facts by index of the root value.

    made: position of the instruction that makes it. last: of its last use. touched: of its last use
    before the present position. next_write: of the first write that changes it.
    """

    def __init__(
        self,
        instructions: Sequence[Instruction],
        writes: Mapping[int, WriteRow],
        fetches: Sequence[Value],
    ) -> None:
        self._instructions, self._writes = instructions, writes
        self._made: dict[int, int] = {}
        self._last: dict[int, int] = {}
        self._touched: dict[int, int] = {}
        self._next_write: dict[int, int] = {}
        for position, instruction in enumerate(instructions):
            for value in (*instruction.inputs, *instruction.outputs):
                self._last[value.root.index] = position
            for value in instruction.outputs:
                self._made.setdefault(value.root.index, position)
            write = writes.get(id(instruction))
            if write is not None:
                self._next_write.setdefault(write.rows.root.index, position)
        for value in fetches:
            self._last[value.root.index] = len(instructions)

    def placed(self) -> list[Instruction]:
        found: list[Instruction] = []
        for position, instruction in enumerate(self._instructions):
            write = self._writes.get(id(instruction))
            if write is None:
                found.append(instruction)
            elif self._replaces(write, position):
                self._extend(write.made, write.rows)
                if self._computes_in_place(write):
                    self._extend(write.row, write.written)
                else:
                    found.append(_copied(instruction, write.row, write.written))
            else:
                found.append(_copied(instruction, write.rows, write.made))
                found.append(_copied(instruction, write.row, write.written))
            for value in (*instruction.inputs, *instruction.outputs):
                self._touched[value.root.index] = position
        return found

    def _replaces(self, write: WriteRow, position: int) -> bool:
        """Return whether nothing uses the array of before any more.

        A fed array may be a tensor of the device, which belongs to the caller.
        """
        root = write.rows.root
        return root.storage == "buffer" and self._last[root.index] <= position

    def _extend(self, value: Value, base: Value) -> None:
        """Let a value be a part of another one."""
        root = base.root
        last = self._last[value.index]
        value.base, value.storage = base, root.storage
        self._last[root.index] = max(self._last[root.index], last)

    def _computes_in_place(self, write: WriteRow) -> bool:
        """Return whether the row's maker may write into the array.

        Nothing uses the array between both, and nothing uses the row once it is overwritten. The
        maker may read other rows.
        """
        row, root = write.row, write.rows.root
        maker = self._made.get(row.index, -1)
        if row.base is not None or row.storage != "buffer" or maker < 0:
            return False
        if id(self._instructions[maker]) in self._writes or not write.written.is_aligned:
            return False
        next_write = self._next_write.get(write.made.index)
        return (
            self._touched.get(root.index, -1) <= maker
            and not any(
                _overlap(value, write.written) for value in self._instructions[maker].inputs
            )
            and (next_write is None or self._last[row.index] < next_write)
        )


def _overlap(one: Value, other: Value) -> bool:
    """Return whether two values share bytes."""
    start, start_other = byte_offset(one), byte_offset(other)
    return (
        one.root is other.root
        and start < start_other + other.spec.nbytes
        and start_other < start + one.spec.nbytes
    )


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
