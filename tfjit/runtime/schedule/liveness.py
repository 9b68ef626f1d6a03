"""Compute the liveness and shared memory of a step's values.

The layout of the arena depends on both. Times are positions in the schedule. A value that all
iterations of a loop use lives until the loop ends. A loop-carried value, or a branch output, is
written by copies. A copy is coalesced if its source may lie in its target's memory from the start:
the loop-carried update is computed in place after the old value's last use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfjit.kernels.registry import NativeCall
    from tfjit.runtime.lowering.lowered import Instruction, Lowered, Value
    from tfjit.runtime.lowering.structured_control_flow import Construct


class Liveness:
    """Hold last uses and shared memory.

    schedule: the step's instructions in order, the members of a bundle together. calls:
    id(instruction) -> its compiled code. last: root value index -> the position of its last
    definition or use; for fetched values, the position after all others. first: the position of
    its first definition or use.
    """

    def __init__(
        self,
        lowered: Lowered,
        schedule: Sequence[Sequence[Instruction]],
        calls: Mapping[int, NativeCall],
    ) -> None:
        self._lowered, self._schedule, self._calls = lowered, schedule, calls
        self.begins: dict[int, int] = {}  # id(construct) -> position of its first marker
        self.ends: dict[int, int] = {}
        for position, members in enumerate(schedule):
            marker = members[0]
            if marker.role is not None:
                self.begins.setdefault(id(marker.construct), position)
                self.ends[id(marker.construct)] = position
        # root value index -> the root value that provides its memory
        self._shared: dict[int, Value] = {}
        self.first: dict[int, int] = {}
        self.last: dict[int, int] = {}
        self._measure()
        if any(members[0].moves for members in schedule):
            self._share()
            self._measure()

    def root(self, value: Value) -> Value:
        """Return the value that provides this one's memory."""
        found = value.root
        while found.index in self._shared:
            found = self._shared[found.index]
        return found

    def loops(self, instruction: Instruction) -> list[Construct]:
        """Return the loops around an instruction, from inside out."""
        return (
            [c for c in instruction.construct.chain if c.is_loop]
            if instruction.construct is not None
            else []
        )

    def _measure(self) -> None:
        first, last = self.first, self.last
        first.clear()
        last.clear()
        for position, members in enumerate(self._schedule):
            for instruction in members:
                for value in (*instruction.outputs, *instruction.inputs):
                    index = self.root(value).index
                    first.setdefault(index, position)
                    last[index] = max(position, last.get(index, 0))
                    for loop in self.loops(instruction):
                        if first[index] < self.begins[id(loop)]:
                            last[index] = max(last[index], self.ends[id(loop)])
        for value in self._lowered.fetches:
            last[self.root(value).index] = len(self._schedule)

    def _share(self) -> None:
        """Find the copies whose source may be computed in the target's memory."""
        made: dict[int, list[tuple[int, Instruction]]] = {}  # by root value index
        touched: dict[int, list[int]] = {}
        for position, members in enumerate(self._schedule):
            for instruction in members:
                for value in instruction.outputs:
                    made.setdefault(value.root.index, []).append((position, instruction))
                for value in (*instruction.inputs, *instruction.outputs):
                    touched.setdefault(value.root.index, []).append(position)
        fetched = {value.root.index for value in self._lowered.fetches}
        for position, members in enumerate(self._schedule):
            copy = members[0]
            if len(members) > 1 or not copy.moves or id(copy) not in self._calls:
                continue
            source, target = copy.inputs[0].root, copy.outputs[0].root
            if (
                source.storage != "buffer"
                or target.storage != "buffer"
                or source.index in fetched
                or source.index in self._shared
                or len(made.get(source.index, ())) != 1
                or self.last[source.index] != position
            ):
                continue
            begin, maker = made[source.index][0]
            into = self.root(target)
            if id(maker) not in self._calls or into is source or not self._stands_with(maker, copy):
                continue
            uses = [use for use in touched.get(into.index, ()) if begin <= use < position]
            if not uses or (set(uses) == {begin} and self._in_place(begin, maker, source, into)):
                self._shared[source.index] = into
                touched.setdefault(into.index, []).extend(touched[source.index])

    def _stands_with(self, maker: Instruction, copy: Instruction) -> bool:
        """Return whether the copy runs exactly as often as its source's definition."""
        return maker.construct is copy.construct

    def _in_place(self, position: int, maker: Instruction, source: Value, target: Value) -> bool:
        """Return whether the kernel of `source` may write over `target`.

        Only that kernel reads the target then.
        """
        members = self._schedule[position]
        readers = [
            (m, i)
            for m in members
            for i, value in enumerate(m.inputs)
            if self.root(value) is target
        ]
        if len(readers) != 1 or readers[0][0] is not maker:
            return False
        output = next((k for k, value in enumerate(maker.outputs) if value.root is source), -1)
        return (output, readers[0][1]) in self._calls[id(maker)].in_place
