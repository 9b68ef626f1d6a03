"""Write the commands of a program for known addresses."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from tfjit.kernels.ir.accelerator import Command, CommandOrder, Copy, KernelLaunch, LibraryCall
from tfjit.kernels.random_stream import POSITION_BYTES
from tfjit.kernels.registry import Pointer, Word
from tfjit.runtime.offload.array_rows import byte_offset
from tfjit.runtime.offload.command_hazards import EVERYTHING, MemoryUse, Range, find_hazards
from tfjit.runtime.offload.launch_batching import DeviceLaunch
from tfjit.runtime.offload.library_forms import RoutineLaunch

if TYPE_CHECKING:
    from tfjit.kernels.registry import Launch
    from tfjit.kernels.source import KernelSource
    from tfjit.runtime.lowering.lowering import Instruction, Value
    from tfjit.runtime.offload.device_memory import DeviceLayout
    from tfjit.runtime.offload.library_forms import ProgramCall

    Lookup = Callable[[KernelSource], dict[str, int] | None]


class CommandWriter:
    """Collects commands with their memory, and the tables of bundles.

    arena, constants: addresses of the two blocks that `layout` describes. tables: that of the
    tables. address_of: gives the address of a root value. lookup: gives the addresses of loaded
    kernels.
    """

    def __init__(
        self,
        layout: DeviceLayout,
        arena: int,
        constants: int,
        tables: int,
        address_of: Callable[[Value], int],
        lookup: Lookup,
    ) -> None:
        self.commands: list[Command] = []
        self._layout, self._arena, self._constants = layout, arena, constants
        self._tables, self._address_of, self._lookup = tables, address_of, lookup
        self._uses: list[MemoryUse] = []
        self._work: list[tuple[int, int]] = []
        self._known: dict[int, int] = {}
        self._table: list[int] = []

    @property
    def table(self) -> np.ndarray:
        """Return the words of all tables, one after the other."""
        return np.array(self._table, np.uint64).view(np.int64)

    def order(self) -> CommandOrder:
        """Return the order that the commands need, with their predicted work."""
        moved, flops = zip(*self._work, strict=True) if self._work else ((), ())
        return CommandOrder(find_hazards(self._uses), moved, flops)

    def address(self, value: Value) -> int:
        """Return the address of a value."""
        root = value.root
        found = self._known.get(root.index)
        if found is None:
            found = self._known[root.index] = self._address_of(root)
        return found + byte_offset(value)

    def move(self, copy: Copy) -> None:
        """Add a copy, unless it is empty."""
        if copy.nbytes:
            reads, writes = ((start, start + copy.nbytes) for start in (copy.source, copy.target))
            self._add(copy, MemoryUse((reads,), (writes,)), (copy.nbytes, 0))

    def copy(self, source: Value, target: Value) -> None:
        """Add a copy within the device."""
        nbytes = source.spec.nbytes
        self.move(Copy("within", self.address(target), self.address(source), nbytes))

    def launches(self, position: int, instruction: Instruction, call: ProgramCall) -> None:
        """Add the launches of an instruction."""
        parts = len(call.launches)
        work = call.bytes_moved // max(parts, 1), call.flops // max(parts, 1)
        for launch in call.launches:
            words = self._words(launch, position, instruction)
            command: Command
            if isinstance(launch, RoutineLaunch):
                command = LibraryCall(launch.routine, words)
            else:
                kernel = cast("DeviceLaunch", launch)
                command = self._launch(launch.source, launch.entry, words, kernel, kernel.grid)
            self._add(command, self._use(launch, position, instruction, call), work)

    def bundle(self, members: Sequence[tuple[int, Instruction, ProgramCall]]) -> None:
        """Add one launch for several instructions of one launch each.

        members: with their positions.
        """
        address = self._tables + 8 * len(self._table)
        first = 0
        uses = []
        for position, instruction, call in members:
            (launch,) = call.launches
            blocks = cast("DeviceLaunch", launch).grid[0]
            self._table += [first, blocks, *self._words(launch, position, instruction)]
            first += blocks
            uses.append(self._use(launch, position, instruction, call))
        like = cast("DeviceLaunch", members[0][2].launches[0])
        assert like.table_form is not None
        words = (address, len(members))
        command = self._launch(like.table_form, "kernel", words, like, (first, 1, 1))
        use = MemoryUse(
            tuple([span for use in uses for span in use.reads]),
            tuple([span for use in uses for span in use.writes]),
        )
        work = (
            sum(call.bytes_moved for _, _, call in members),
            sum(call.flops for _, _, call in members),
        )
        self._add(command, use, work)

    def _add(self, command: Command, use: MemoryUse, work: tuple[int, int]) -> None:
        self.commands.append(command)
        self._uses.append(use)
        self._work.append(work)

    def _launch(
        self,
        source: KernelSource,
        entry: str,
        words: tuple[int, ...],
        like: DeviceLaunch,
        grid: tuple[int, int, int],
    ) -> KernelLaunch:
        found = self._lookup(source)
        assert found is not None
        return KernelLaunch(found[entry], words, grid, like.block, like.shared_bytes)

    def _use(
        self,
        launch: Launch | RoutineLaunch,
        position: int,
        instruction: Instruction,
        call: ProgramCall,
    ) -> MemoryUse:
        """Return the memory that a launch reaches by its words.

        Constants and tables are left out: no command writes them. A launch may read its outputs,
        as an earlier one of the same call has written them.
        """
        layout = self._layout
        reads: dict[Range, None] = {}
        writes: dict[Range, None] = {}
        for item in launch.words:
            if not isinstance(item, Pointer):
                continue
            if item.kind == "in":
                value = instruction.inputs[item.index]
                if value.root.storage == "const":
                    continue
                span = self._span(value)
                (writes if value.storage == "handle" else reads)[span] = None
            elif item.kind == "out":
                writes[self._span(instruction.outputs[item.index])] = None
            elif item.kind == "temp":
                start = self._arena + layout.temps[position][item.index]
                writes[start, start + call.temp_bytes[item.index]] = None
            elif item.kind == "state":
                start = self._arena + layout.stream_start + layout.streams[position]
                reads[start, start + POSITION_BYTES] = None
            elif item.kind != "const":
                writes[EVERYTHING] = None
        return MemoryUse(tuple(reads), tuple(writes))

    def _span(self, value: Value) -> Range:
        """Return the bytes of a value.

        Those of a variable are all, since kernels may write rows of it.
        """
        root = value.root
        if root.variable is not None:
            start = self.address(root)
            return start, start + math.prod(root.shape) * root.variable.dtype.size
        start = self.address(value)
        return start, start + value.spec.nbytes

    def _words(
        self, launch: Launch | RoutineLaunch, position: int, instruction: Instruction
    ) -> tuple[int, ...]:
        return tuple([self._word(item, position, instruction) for item in launch.words])

    def _word(self, item: Word, position: int, instruction: Instruction) -> int:
        layout = self._layout
        if not isinstance(item, Pointer):
            return int(item)
        if item.kind == "in":
            base = self.address(instruction.inputs[item.index])
        elif item.kind == "out":
            base = self.address(instruction.outputs[item.index])
        elif item.kind == "temp":
            base = self._arena + layout.temps[position][item.index]
        elif item.kind == "state":
            base = self._arena + layout.stream_start + layout.streams[position]
        else:
            base = self._constants + layout.constants[position, item.index][0]
        return base + item.offset


__all__ = ["CommandWriter"]
