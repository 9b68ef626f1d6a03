"""Write the commands of a program for known addresses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from tfjit.kernels.ir.accelerator import Command, Copy, KernelLaunch, LibraryCall
from tfjit.kernels.registry import Pointer, Word
from tfjit.runtime.offload.array_rows import byte_offset
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
    """Collects commands, and the tables of bundles.

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
        self._known: dict[int, int] = {}
        self._table: list[int] = []

    @property
    def table(self) -> np.ndarray:
        """Return the words of all tables, one after the other."""
        return np.array(self._table, np.uint64).view(np.int64)

    def address(self, value: Value) -> int:
        """Return the address of a value."""
        root = value.root
        found = self._known.get(root.index)
        if found is None:
            found = self._known[root.index] = self._address_of(root)
        return found + byte_offset(value)

    def copy(self, source: Value, target: Value) -> None:
        """Add a copy within the device."""
        if source.spec.nbytes:
            command = Copy("within", self.address(target), self.address(source), source.spec.nbytes)
            self.commands.append(command)

    def launches(self, position: int, instruction: Instruction, call: ProgramCall) -> None:
        """Add the launches of an instruction."""
        for launch in call.launches:
            words = self._words(launch, position, instruction)
            if isinstance(launch, RoutineLaunch):
                self.commands.append(LibraryCall(launch.routine, words))
                continue
            device_launch = cast("DeviceLaunch", launch)
            self._launch(launch.source, launch.entry, words, device_launch, device_launch.grid)

    def bundle(self, members: Sequence[tuple[int, Instruction, ProgramCall]]) -> None:
        """Add one launch for several instructions of one launch each.

        members: with their positions.
        """
        address = self._tables + 8 * len(self._table)
        first = 0
        for position, instruction, call in members:
            (launch,) = call.launches
            blocks = cast("DeviceLaunch", launch).grid[0]
            self._table += [first, blocks, *self._words(launch, position, instruction)]
            first += blocks
        like = cast("DeviceLaunch", members[0][2].launches[0])
        assert like.table_form is not None
        self._launch(like.table_form, "kernel", (address, len(members)), like, (first, 1, 1))

    def _launch(
        self,
        source: KernelSource,
        entry: str,
        words: tuple[int, ...],
        like: DeviceLaunch,
        grid: tuple[int, int, int],
    ) -> None:
        found = self._lookup(source)
        assert found is not None
        command = KernelLaunch(found[entry], words, grid, like.block, like.shared_bytes)
        self.commands.append(command)

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
