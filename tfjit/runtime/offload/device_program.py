"""Run a lowered graph on an accelerator, by one program of commands."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence, Set
from typing import TYPE_CHECKING, Final

import numpy as np

from tfjit.framework import settings
from tfjit.kernels.ir.accelerator import Copy
from tfjit.kernels.random_stream import advance
from tfjit.kernels.registry import find_initial_state
from tfjit.runtime.offload.array_rows import byte_offset
from tfjit.runtime.offload.binding import COPIED, Binding, feed_place
from tfjit.runtime.offload.device_memory import DeviceLayout, lay_out_program
from tfjit.runtime.offload.launch_batching import bundle_launches, sources_of, table_words
from tfjit.runtime.offload.library_forms import RoutineLaunch, title_of
from tfjit.runtime.offload.program_commands import CommandWriter
from tfjit.runtime.offload.program_steps import first_uses, program_steps, used_variables
from tfjit.runtime.offload.staging import Staging, is_large
from tfjit.runtime.resources.device_tensor import DeviceTensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfjit.kernels.ir.accelerator import Accelerator, CommandProgram
    from tfjit.kernels.ir.library_opening import LibraryOpening
    from tfjit.kernels.source import KernelSource
    from tfjit.runtime.lowering.lowering import Instruction, Lowered, Value
    from tfjit.runtime.offload.library_forms import ProgramCall

    Lookup = Callable[[KernelSource], dict[str, int] | None]
    NodeState = Callable[[str, Callable[[], np.ndarray]], np.ndarray]

_POSITIONS: Final = threading.Lock()
"""Held while a program takes positions of streams and moves them on.

Programs for other shapes or signatures draw from the same streams.
"""


MAX_BINDINGS: Final = 8
"""Programs for addresses of device tensors that recur."""


class DeviceProgram:
    """The commands of one offloaded graph for one tuple of argument shapes.

    lowered: the graph. sources: the kernels that it needs. awaited: openings of libraries that
    might serve some of its calls. runs: their number so far. Thread-safe: one run at a time.

    Device tensors are arguments and results without a copy once their addresses recur, as those of
    a loop do: such addresses get commands of their own. Until then they are copied on the device.
    """

    def __init__(
        self,
        lowered: Lowered,
        accelerator: Accelerator,
        node_state: NodeState,
        taken: Set[int] = frozenset(),
        kept: Set[int] = frozenset(),
        waits: bool = True,
    ) -> None:
        """Select kernels and lay out memory.

        node_state: gives the session's state of a node. taken: arguments that are always device
        tensors. kept: results that are. waits: for a vendor's libraries to open; else kernels stand
        in for them. Raises Unsupported for an instruction that the accelerator has no kernel for.
        """
        awaited: set[LibraryOpening] = set()
        self.lowered = lowered
        self._kept = kept
        self._accelerator = accelerator
        self._groups = bundle_launches(
            program_steps(lowered, accelerator, None if waits else awaited)
        )
        self.awaited = tuple(sorted(awaited, key=lambda opening: opening.library))
        self._steps = [step for steps in self._groups for step in steps]
        self._layout: DeviceLayout = lay_out_program(lowered, self._steps)
        self.sources = tuple(
            dict.fromkeys(source for steps in self._groups for source in sources_of(steps))
        )
        self._streams = [
            (_stream(self._steps[position][0], node_state), self._steps[position][1], start)
            for position, start in self._layout.streams.items()
        ]
        self._written, self._variables = used_variables(lowered, self._steps)
        self._feeds = sorted(lowered.feeds.items())
        self._first_use = first_uses(lowered, self._steps)
        staged = [value for index, value in self._feeds if index not in taken]
        self._read_back = [v for i, v in enumerate(lowered.fetches) if i not in kept]
        self._staging = Staging(staged, self._read_back, self._layout.stream_bytes)
        self._lock = threading.Lock()
        self._arena = self._constants = 0
        # with the addresses of the tables of bundles, 0 without any
        self._programs: dict[Binding, tuple[CommandProgram, int]] = {}
        self._met: dict[Binding, None] = {}  # bindings that were served by copies
        self._unfinished: CommandProgram | None = None  # it may still read the staging memory
        self._newest: CommandProgram | None = None
        self.runs = 0

    @property
    def launches(self) -> int:
        """Return the number of kernels and routines of a run."""
        return sum(
            len(steps[0][1].launches) if len(steps) == 1 else 1
            for steps in self._groups
            if steps[0][1] is not None
        )

    @property
    def libraries(self) -> Counter[str]:
        """Return the number of routines of each vendor's library in a run."""
        return Counter(
            launch.library
            for _, call in self._steps
            for launch in (call.launches if call is not None else ())
            if isinstance(launch, RoutineLaunch)
        )

    @property
    def device_bytes(self) -> int:
        """Return the bytes of device memory, without variables."""
        return self._layout.arena_bytes + self._layout.constant_bytes

    @property
    def routines(self) -> tuple[str, ...]:
        """Return the titles of the routines of a run."""
        return tuple(
            [
                launch.title
                for _, call in self._steps
                for launch in (call.launches if call is not None else ())
                if isinstance(launch, RoutineLaunch)
            ]
        )

    def prepare(self, like: DeviceProgram, lookup: Lookup) -> None:
        """Get ready for the addresses of another program's runs.

        like: a program of the same graph. Raises ResourceExhaustedError.
        """
        with self._lock:
            if not self._staging.is_allocated:
                self._allocate()
            for binding in list(like._programs):
                if binding not in self._programs:
                    self._programs[binding] = self._program_for(binding, lookup)
                    self._programs[binding][0].prepare()

    def describe(self) -> list[tuple[str, str]]:
        """Return (node, kernels) of each instruction; those of iterations are one line."""
        found = Counter(
            (instruction.node_path, _kernels(call, len(steps) - 1))
            for steps in self._groups
            for instruction, call in steps
        )
        return [
            (node, kernels if times == 1 else f"{kernels}, {times} times")
            for (node, kernels), times in found.items()
        ]

    def run(
        self,
        values: Sequence[object],
        lookup: Lookup,
        unfinished: list[Callable[[], None]] | None = None,
    ) -> list[np.ndarray | DeviceTensor]:
        """Return the results for arguments, as new arrays and device tensors.

        values: arrays of the shapes that the program was made for, device tensors, and variables.
        lookup: gives the addresses of the program's kernels, which are loaded. unfinished: gets the
        wait of a program without results. Waits for the device only where a result is in host
        memory, or an argument is borrowed. Raises FailedPreconditionError for an
        uninitialised variable, at the node that reads it, InternalError where a kernel failed, and
        Reroute for a variable whose shape has changed.
        """
        values = [self._reachable(value) for value in values]
        with self._lock:
            if not self._staging.is_allocated:
                self._allocate()
            kept = [
                DeviceTensor(self._accelerator, value.dtype, value.shape)
                if index in self._kept
                else None
                for index, value in enumerate(self.lowered.fetches)
            ]
            binding, program = self._ready(values, kept, lookup)
            self._finish()
            self._bring_in(values, binding)
            self._draw()
            program.start()
            self._newest = program
            self.runs += 1
            for value, tensor, place in zip(self.lowered.fetches, kept, binding.fetches):
                if tensor is not None and place == COPIED:
                    self._copy(tensor.address, self._address(value, binding), tensor.nbytes)
            for variable in self._written:
                variable.written_on_device()
            # the owner of borrowed memory may use it again when the run is over
            borrowed = any(isinstance(v, DeviceTensor) and v.is_borrowed for v in values)
            self._unfinished = program
            if self._read_back or borrowed or not (self._kept or unfinished is not None):
                self._finish()
            elif unfinished is not None and not self._kept:
                unfinished.append(self.finish)
            return self._results(kept)

    def finish(self) -> None:
        """Wait for the newest run. Raises InternalError where a kernel failed."""
        with self._lock:
            self._finish()

    def _finish(self) -> None:
        if self._unfinished is not None:
            self._unfinished.wait()
            self._unfinished = None

    def _reachable(self, value: object) -> object:
        """Return a tensor of another device as an array of the host."""
        if isinstance(value, DeviceTensor) and value.accelerator is not self._accelerator:
            return value.numpy()
        return value

    def replay(self, times: int) -> None:
        """Queue the commands of the newest run again, to measure them.

        The device tensors of that run have to be alive.
        """
        with self._lock:
            for _ in range(times if self._newest is not None else 0):
                assert self._newest is not None
                self._newest.start()

    def _bring_in(self, values: Sequence[object], binding: Binding) -> None:
        """Bring feeds to the staging memory, or to the device."""
        for (index, value), place in zip(self._feeds, binding.feeds):
            given = values[index]
            if place == COPIED:
                assert isinstance(given, DeviceTensor)
                self._copy(self._address(value, binding), given.address, given.nbytes)
            elif place:
                continue
            elif is_large(value):
                array = np.asarray(given)
                address = self._address(value, binding)
                self._staging.send(self._accelerator, value, array, address)
            else:
                self._staging.write(value, np.asarray(given))

    def _draw(self) -> None:
        """Give the program the positions of its streams, and move these on."""
        with _POSITIONS:
            for stream, call, start in self._streams:
                assert call is not None
                self._staging.write_position(start, stream)
                advance(stream, call.stream_blocks)

    def _copy(self, target: int, source: int, nbytes: int) -> None:
        if nbytes:
            self._accelerator.copy(target, source, nbytes)

    def _results(self, kept: Sequence[DeviceTensor | None]) -> list[np.ndarray | DeviceTensor]:
        read_back = iter(self._staging.results())
        return [tensor if tensor is not None else next(read_back) for tensor in kept]

    def close(self) -> None:
        """Free the program's memory."""
        with self._lock:
            for binding in list(self._programs):
                self._drop(binding)
            self._unfinished = self._newest = None
            for address in (self._arena, self._constants):
                if address:
                    self._accelerator.free(address)
            self._arena = self._constants = 0
            self._staging.release()

    def _drop(self, binding: Binding) -> None:
        program, tables = self._programs.pop(binding)
        program.close()
        if tables:
            self._accelerator.free(tables)

    def __del__(self) -> None:
        # a failed constructor leaves no memory behind
        if hasattr(self, "_unfinished"):
            self.close()

    def _ready(
        self,
        values: Sequence[object],
        kept: Sequence[DeviceTensor | None],
        lookup: Lookup,
    ) -> tuple[Binding, CommandProgram]:
        """Return the program for the present places of variables and tensors."""
        addresses = tuple([use.address() for use in self._variables])
        feeds = [values[index] for index, _ in self._feeds]
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
        return binding, found[0]

    def _program_for(self, binding: Binding, lookup: Lookup) -> tuple[CommandProgram, int]:
        """Return a program for these addresses, and the address of its tables."""
        device = self._accelerator
        size = 8 * sum(map(table_words, self._groups))
        tables = device.allocate(size) if size else 0
        try:
            writer = CommandWriter(
                self._layout,
                self._arena,
                self._constants,
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

    def _allocate(self) -> None:
        device = self._accelerator
        self._arena = device.allocate(max(self._layout.arena_bytes, 1))
        if self._layout.constants:
            self._constants = device.allocate(self._layout.constant_bytes)
            for start, array in {
                id(a): (s, a) for s, a in self._layout.constants.values()
            }.values():
                device.write(self._constants + start, np.ascontiguousarray(array))
        self._staging.allocate(device)

    def _address(self, value: Value, binding: Binding) -> int:
        """Return the address of a value."""
        return self._root_address(value.root, binding) + byte_offset(value)

    def _root_address(self, root: Value, binding: Binding) -> int:
        """Return the address of a value that is no view."""
        if root.storage == "const":
            return self._constants + self._layout.constants[root.index][0]
        if root.storage in ("variable", "handle"):
            return next(
                address
                for use, address in zip(self._variables, binding.variables, strict=True)
                if use.variable is root.variable
            )
        for (_, feed), place in zip(self._feeds, binding.feeds):
            if feed.root is root and place > 0:
                return place
        for fetch, place in zip(self.lowered.fetches, binding.fetches):
            if fetch.root is root and place > 0 and self._is_written_in_place(fetch):
                return place
        return self._arena + self._layout.offsets[root.index]

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
                v for i, v in enumerate(self.lowered.fetches) if v.root is root and i in self._kept
            )
        )

    def _write_commands(self, writer: CommandWriter, binding: Binding) -> None:
        staging, layout = self._staging, self._layout
        if layout.stream_bytes:
            start = self._arena + layout.stream_start
            writer.move(Copy("in", start, staging.stream_address, layout.stream_bytes))
        given = [
            value
            for (_, value), place in zip(self._feeds, binding.feeds)
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
        for value, place in zip(self.lowered.fetches, binding.fetches):
            address = writer.address(value)
            if place > 0 and address != place:
                writer.move(Copy("within", place, address, value.spec.nbytes))


def overlaps() -> bool:
    """Return whether independent commands may run at the same time.

    TFJIT_DISABLE=overlap runs them one after the other.
    """
    return "overlap" not in settings.names("TFJIT_DISABLE")


def _kernels(call: ProgramCall | None, others: int) -> str:
    """Return the kernels of an instruction. others: instructions of the same launch."""
    if call is None:
        return "copy"
    titles = "; ".join(map(title_of, call.launches))
    return f"{titles}, in one launch with {others} more" if others else titles


def _stream(instruction: Instruction, node_state: NodeState) -> np.ndarray:
    """Return the position of a node's stream, which the session keeps."""
    make = find_initial_state(instruction.node.op)
    assert make is not None, f"{instruction.node.op} has no initial state"
    return node_state(instruction.node.name, lambda: make(instruction.spec))


__all__ = ["DeviceProgram", "overlaps"]
