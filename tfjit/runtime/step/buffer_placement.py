"""Assign memory to the outputs and temporaries of compiled instructions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tfjit.framework.cooperative_yield import yield_interpreter
from tfjit.runtime.step.memory_planner import Interval, align, lay_out
from tfjit.runtime.step.shared_packing import SharedPacking

if TYPE_CHECKING:
    from tfjit.kernels.registry import NativeCall
    from tfjit.runtime.lowering.lowered import Instruction, Lowered, Value
    from tfjit.runtime.schedule.liveness import Liveness


class BufferPlacement:
    """Holds the places of a step's values in its arena.

    calls: the compiled call of each instruction, by its id. buffers: by root index of a value, its
    live interval in the arena. fresh: by root index, the values in newly allocated output memory.
    temps: live intervals of temporaries, by (id of the instruction, number). skipped: the launches
    that need not run, by (id of the instruction, number). arena_bytes: size of the arena.
    """

    def __init__(
        self,
        lowered: Lowered,
        schedule: Sequence[Sequence[Instruction]],
        calls: Mapping[int, NativeCall],
        liveness: Liveness,
    ) -> None:
        self._lowered, self._schedule = lowered, schedule
        self._calls, self._liveness = calls, liveness
        self._packing = SharedPacking(lowered, liveness)
        self.buffers: dict[int, Interval] = {}
        self.fresh: dict[int, Value] = {}
        self.temps: dict[tuple[int, int], Interval] = {}
        self._place()
        self.skipped = self._packing.skipped
        # An in-place chain is listed under several values but is one interval.
        # So is a temporary that several instructions share.
        intervals = {id(life): life for life in (*self.buffers.values(), *self.temps.values())}
        self.arena_bytes = lay_out([*intervals.values()])

    def _place(self) -> None:
        """Visit the compiled instructions in the order of the schedule.

        Liveness is counted in positions of the schedule: the inputs and outputs of a bundle's
        members are alive at the same time.
        """
        fetched_roots = {self._liveness.root(value).index for value in self._lowered.fetches}
        for position, members in enumerate(self._schedule):
            yield_interpreter()
            # intervals of the outputs here: two outputs never share one
            given: list[Interval] = []
            for instruction in members:
                if id(instruction) in self._calls:
                    self._place_outputs(position, instruction, fetched_roots, given)
                    self._place_temps(position, instruction)
            self._packing.passed(members)

    def _place_outputs(
        self,
        position: int,
        instruction: Instruction,
        fetched_roots: set[int],
        given: list[Interval],
    ) -> None:
        for output, value in enumerate(instruction.outputs):
            if value.storage != "buffer" or value.base is not None:
                continue
            value = self._liveness.root(value)
            if value.index in self.buffers or value.index in self.fresh:
                continue
            if value.index in fetched_roots and (value.shape != () or self._lowered.is_shard):
                self.fresh[value.index] = value
                continue
            life = self._reused(position, instruction, output, fetched_roots)
            if life is None or any(life is other for other in given):
                life = Interval(value.spec.nbytes, position, position)
            given.append(life)
            life.last = self._liveness.last[value.index]
            self.buffers[value.index] = life

    def _place_temps(self, position: int, instruction: Instruction) -> None:
        call = self._calls[id(instruction)]
        temps = {
            i: Interval(nbytes, position, position) for i, nbytes in enumerate(call.temp_bytes)
        }
        temps |= self._packing.visit(position, instruction, call, temps)
        for i, life in temps.items():
            self.temps[id(instruction), i] = life

    def _reused(
        self, position: int, instruction: Instruction, output: int, fetched_roots: set[int]
    ) -> Interval | None:
        """Return the input buffer that this output may overwrite, or None.

        The input has its last use here, and no other member of the bundle reads it.
        """
        value = instruction.outputs[output]
        for written, index in self._calls[id(instruction)].in_place:
            source = self._liveness.root(instruction.inputs[index])
            life = self.buffers.get(source.index)
            if (
                written == output
                and life is not None
                and self._liveness.last[source.index] == position == life.last
                and source.index not in fetched_roots
                and sum(
                    1
                    for member in self._schedule[position]
                    for v in member.inputs
                    if self._liveness.root(v) is source
                )
                == 1
                and align(life.nbytes) >= align(value.spec.nbytes)
            ):
                return life
        return None
