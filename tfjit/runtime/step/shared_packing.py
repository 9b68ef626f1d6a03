"""Find packed operands that several instructions of a step can share.

A product packs its second operand before it multiplies. The products of an unrolled cell pack the
same weights again in each time step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from tfjit.kernels.registry import Launch, NativeCall, Pointer

if TYPE_CHECKING:
    from tfjit.runtime.lowering.lowered import Instruction, Lowered, Value
    from tfjit.runtime.schedule.liveness import Liveness
    from tfjit.runtime.step.memory_planner import Interval

MAX_BYTES: Final = 16 << 20
"""Largest temporary that is kept for later instructions."""


class SharedPacking:
    """Decide which launches of a schedule need not run.

    Such a launch fills a temporary with the same bytes as that of an earlier instruction: the two
    have one call, and read the same memory, which no instruction between them writes.
    Instructions are visited in the schedule's order.

    skipped: (id of the instruction, number of the launch) of each launch that does not run.
    """

    def __init__(self, lowered: Lowered, liveness: Liveness) -> None:
        self.skipped: set[tuple[int, int]] = set()
        self._liveness = liveness
        self._filled: dict[Hashable, Interval] = {}
        self._writes: Counter[int] = Counter()  # id(variable) -> writes so far
        # roots that more than one instruction may write
        self._moved = {
            liveness.root(instruction.outputs[0]).index
            for instruction in lowered.instructions
            if instruction.moves
        }

    def visit(
        self,
        position: int,
        instruction: Instruction,
        call: NativeCall,
        temps: Mapping[int, Interval],
    ) -> dict[int, Interval]:
        """Return the temporaries of a compiled instruction that earlier ones have filled.

        temps: the intervals of its temporaries, by number. That of a shared one is extended.
        """
        shared: dict[int, Interval] = {}
        if instruction.construct is not None:  # it may run in some iterations only
            return shared
        for number, launch in enumerate(call.launches):
            if launch.fills is None or call.temp_bytes[launch.fills] > MAX_BYTES:
                continue
            key = self._key(instruction, call, number, launch)
            if key is None:
                continue
            found = self._filled.setdefault(key, temps[launch.fills])
            # instructions at one position run at the same time
            if found.first < position:
                found.last = position
                shared[launch.fills] = found
                self.skipped.add((id(instruction), number))
        return shared

    def passed(self, members: Sequence[Instruction]) -> None:
        """Note the writes of the instructions at one position, Python kernels too."""
        for instruction in members:
            for value in instruction.inputs:
                if value.storage == "handle":
                    self._writes[id(value.variable)] += 1

    def _key(
        self, instruction: Instruction, call: NativeCall, number: int, launch: Launch
    ) -> Hashable:
        """Return a key of the bytes that a launch makes.

        None where the launch reads memory that may change.
        """
        read: list[Hashable] = []
        for word in launch.words:
            if not isinstance(word, Pointer) or word.kind in ("temp", "const", "code"):
                continue
            if word.kind != "in":
                return None
            memory = self._memory(self._liveness.root(instruction.inputs[word.index]))
            if memory is None:
                return None
            read.append((memory, word.offset))
        return id(call), number, tuple(read)

    def _memory(self, root: Value) -> Hashable:
        if root.storage == "variable":
            return id(root.variable), self._writes[id(root.variable)]
        if root.storage in ("feed", "buffer") and root.index not in self._moved:
            return root.index
        return None


__all__ = ["MAX_BYTES", "SharedPacking"]
