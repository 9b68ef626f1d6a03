"""Keep the commands of a program for the addresses of its runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import TYPE_CHECKING, Final

from tfjit.framework import settings
from tfjit.framework.types import dtypes
from tfjit.kernels.ir.accelerator import Copy
from tfjit.runtime.offload.array_rows import byte_offset
from tfjit.runtime.offload.binding import Binding, feed_place
from tfjit.runtime.offload.launch_batching import table_words
from tfjit.runtime.offload.program_commands import CommandWriter
from tfjit.runtime.offload.program_memory import NO_NAMES, ProgramMemory, ProgramNames
from tfjit.runtime.offload.program_steps import first_uses, used_variables
from tfjit.runtime.offload.staging import is_large
from tfjit.runtime.resources.device_allocation import AllocatedTensor, allocating
from tfjit.runtime.resources.device_tensor import DeviceTensor

if TYPE_CHECKING:
    from tfjit.kernels.ir.accelerator import Accelerator, CommandProgram
    from tfjit.kernels.source import KernelSource
    from tfjit.runtime.lowering.lowering import Instruction, Lowered, Value
    from tfjit.runtime.offload.library_forms import ProgramCall

    Lookup = Callable[[KernelSource], dict[str, int] | None]
    Step = tuple[Instruction, ProgramCall | None]

MAX_BINDINGS: Final = 8
"""Programs for addresses of device tensors that recur."""


class BoundPrograms:
    """The commands of one `DeviceProgram`, for some addresses each.

    feeds: the arguments with their indices. written: the variables that the commands write. The
    owner's lock is held during each call.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        lowered: Lowered,
        groups: Sequence[tuple[Step, ...]],
        memory: ProgramMemory,
        read_back: Sequence[Value],
        kept: Set[int],
        names: ProgramNames = NO_NAMES,
    ) -> None:
        """Find the variables; no commands are made.

        groups: the instructions, those of one launch together. memory: the places of values.
        read_back: results in host memory. kept: numbers of the others. Raises
        Unsupported for a variable in host memory.
        """
        self._accelerator, self._names = accelerator, names
        self._lowered, self._groups, self._memory = lowered, groups, memory
        self._read_back, self._kept = read_back, kept
        steps = [step for group in groups for step in group]
        self.written, self._variables = used_variables(lowered, steps)
        self.feeds = sorted(lowered.feeds.items())
        self._first_use = first_uses(lowered, steps)
        # with the addresses of the tables of bundles, 0 without any
        self._programs: dict[Binding, tuple[CommandProgram, int]] = {}
        self._met: dict[Binding, None] = {}  # bindings that were served by copies

    def prepare(self, like: BoundPrograms, lookup: Lookup) -> None:
        """Make the commands for the addresses of another program's runs.

        like: that of a program of the same graph. Raises ResourceExhaustedError, RoutineFailed.
        """
        for binding in list(like._programs):
            if binding not in self._programs:
                self._programs[binding] = self._program_for(binding, lookup)
                self._programs[binding][0].prepare()

    def close(self) -> None:
        """Free the commands."""
        for binding in list(self._programs):
            self._drop(binding)

    def ready(
        self,
        values: Sequence[object],
        kept: Sequence[DeviceTensor | None],
        lookup: Lookup,
    ) -> tuple[Binding, CommandProgram]:
        """Return the program for the present places of variables and tensors.

        values: the arguments. kept: the results that are device tensors. Raises
        ResourceExhaustedError, RoutineFailed, FailedPreconditionError for an uninitialised variable
        and Reroute for one of another shape.
        """
        addresses = tuple([use.address() for use in self._variables])
        feeds = [values[index] for index, _ in self.feeds]
        exact = Binding(
            addresses,
            tuple([feed_place(v.address) if isinstance(v, DeviceTensor) else 0 for v in feeds]),
            tuple([tensor.address if tensor is not None else 0 for tensor in kept]),
        )
        found = self._programs.get(exact)
        if found is not None:
            return exact, found[0]
        binding = exact.copied()
        if exact != binding:
            if self._met.pop(exact, ...) is None:
                binding = exact
            elif len(self._met) < 4 * MAX_BINDINGS:
                self._met[exact] = None
            else:
                self._met = {exact: None}
        found = self._programs.get(binding)
        if found is None:
            for old in [b for b in self._programs if b.variables != addresses]:
                self._drop(old)
            while len(self._programs) > MAX_BINDINGS:
                self._drop(next(iter(self._programs)))
            found = self._programs[binding] = self._program_for(binding, lookup)
            try:
                found[0].prepare()  # a library may refuse here, while nothing has changed
            except BaseException:
                self._drop(binding)
                raise
        return binding, found[0]

    def _program_for(self, binding: Binding, lookup: Lookup) -> tuple[CommandProgram, int]:
        """Return a program for these addresses, and the address of its tables."""
        device = self._accelerator
        size = 8 * sum(map(table_words, self._groups))
        tables = 0
        if size:
            table = AllocatedTensor((size // 8,), dtypes.int64)
            with allocating(table, device, self._names.device):
                tables = device.allocate(size)
        try:
            writer = CommandWriter(
                *(self._memory.layout, self._memory.arena, self._memory.constants),
                tables,
                lambda root: self._root_address(root, binding),
                lookup,
            )
            self._write_commands(writer, binding)
            if size:
                device.write(tables, writer.table)
            return device.program(writer.commands, writer.order() if overlaps() else None), tables
        except BaseException:
            if tables:
                device.free(tables)
            raise

    def _drop(self, binding: Binding) -> None:
        program, tables = self._programs.pop(binding)
        program.close()
        if tables:
            self._accelerator.free(tables)

    def address(self, value: Value, binding: Binding) -> int:
        """Return the address of a value."""
        return self._root_address(value.root, binding) + byte_offset(value)

    def _root_address(self, root: Value, binding: Binding) -> int:
        """Return the address of a value that is no view."""
        if root.storage == "const":
            return self._memory.constants + self._memory.layout.constants[root.index][0]
        if root.storage in ("variable", "handle"):
            return next(
                address
                for use, address in zip(self._variables, binding.variables, strict=True)
                if use.variable is root.variable
            )
        for (_, feed), place in zip(self.feeds, binding.feeds):
            if feed.root is root and place > 0:
                return place
        for fetch, place in zip(self._lowered.fetches, binding.fetches):
            if fetch.root is root and place > 0 and self._is_written_in_place(fetch):
                return place
        return self._memory.arena + self._memory.layout.offsets[root.index]

    def _is_written_in_place(self, fetch: Value) -> bool:
        """Return whether kernels may write a result where it stays.

        It has to be the whole of a buffer that no other kept result shares.
        """
        root = fetch.root
        return (
            root.storage == "buffer"
            and root.spec.nbytes == fetch.spec.nbytes
            and fetch
            is next(
                v for i, v in enumerate(self._lowered.fetches) if v.root is root and i in self._kept
            )
        )

    def _write_commands(self, writer: CommandWriter, binding: Binding) -> None:
        staging, layout = self._memory.staging, self._memory.layout
        if layout.stream_bytes:
            start = self._memory.arena + layout.stream_start
            writer.move(Copy("in", start, staging.stream_address, layout.stream_bytes))
        given = [
            value
            for (_, value), place in zip(self.feeds, binding.feeds)
            if not place and not is_large(value)
        ]
        # the feed that is needed first comes first, so that kernels may start
        for value in sorted(given, key=lambda value: self._first_use[value.root.index]):
            source = staging.feed_address(value)
            writer.move(Copy("in", writer.address(value), source, value.spec.nbytes))
        position = 0
        for steps in self._groups:
            numbered = [(position + k, *step) for k, step in enumerate(steps)]
            position += len(steps)
            if len(steps) > 1:
                writer.bundle([(k, one, call) for k, one, call in numbered if call is not None])
                continue
            ((number, instruction, call),) = numbered
            if call is None:
                writer.copy(instruction.inputs[-1], instruction.outputs[0])
            else:
                writer.launches(number, instruction, call)
        for value, target in zip(self._read_back, staging.result_addresses(), strict=True):
            writer.move(Copy("out", target, writer.address(value), value.spec.nbytes))
        for value, place in zip(self._lowered.fetches, binding.fetches):
            address = writer.address(value)
            if place > 0 and address != place:
                writer.move(Copy("within", place, address, value.spec.nbytes))


def overlaps() -> bool:
    """Return whether independent commands may run at the same time.

    TFJIT_DISABLE=overlap runs them one after the other.
    """
    return "overlap" not in settings.names("TFJIT_DISABLE")


__all__ = ["MAX_BINDINGS", "BoundPrograms", "overlaps"]
