"""Run a lowered graph on an accelerator, by one program of commands."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from tfjit.framework.op_defs.op_traits import ASSIGN
from tfjit.kernels.ir.accelerator import Command, Copy
from tfjit.kernels.random_stream import advance
from tfjit.kernels.registry import NativeCall, Pointer, Unsupported, find_initial_state
from tfjit.runtime.lowering.lowering import compilable
from tfjit.runtime.offload.device_memory import DeviceLayout, lay_out_program
from tfjit.runtime.offload.launch_batching import bundle_launches, sources_of, table_words
from tfjit.runtime.offload.program_commands import CommandWriter
from tfjit.runtime.resources.migrating_variable import MigratingVariable
from tfjit.runtime.schedule.kernel_selection import CallMemo, group_of
from tfjit.runtime.step.memory_planner import align

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfjit.kernels.ir.accelerator import Accelerator, CommandProgram
    from tfjit.kernels.source import KernelSource
    from tfjit.runtime.lowering.lowering import Instruction, Lowered, Value

    NodeState = Callable[[str, Callable[[], np.ndarray]], np.ndarray]

_POSITIONS: Final = threading.Lock()
"""Held while a program takes positions of streams and moves them on.

Programs for other shapes or signatures draw from the same streams.
"""


class DeviceProgram:
    """The commands of one offloaded graph for one tuple of argument shapes.

    sources: the kernels that it needs. Thread-safe: one run at a time.
    """

    def __init__(self, lowered: Lowered, accelerator: Accelerator, node_state: NodeState) -> None:
        """Select kernels and lay out memory.

        node_state: gives the session's state of a node. Raises Unsupported for an instruction that
        the accelerator has no kernel for.
        """
        self._lowered = lowered
        self._accelerator = accelerator
        self._groups = bundle_launches(_steps(lowered))
        self._steps = [step for steps in self._groups for step in steps]
        self._layout: DeviceLayout = lay_out_program(
            lowered, self._steps, sum(map(table_words, self._groups))
        )
        self.sources = tuple(
            dict.fromkeys(source for steps in self._groups for source in sources_of(steps))
        )
        self._streams = [
            (_stream(self._steps[position][0], node_state), self._steps[position][1], start)
            for position, start in self._layout.streams.items()
        ]
        self._written, self._variables = _variables(lowered, self._steps)
        self._feeds = sorted(lowered.feeds.items())
        self._lock = threading.Lock()
        self._arena = self._constants = 0
        self._staging: np.ndarray | None = None
        self._addresses: tuple[int, ...] = ()
        self._program: CommandProgram | None = None

    @property
    def launches(self) -> int:
        """Return the number of kernels of a run."""
        return sum(
            len(steps[0][1].launches) if len(steps) == 1 else 1
            for steps in self._groups
            if steps[0][1] is not None
        )

    @property
    def device_bytes(self) -> int:
        """Return the bytes of device memory, without variables."""
        return self._layout.arena_bytes + self._layout.constant_bytes

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
        self, values: Sequence[object], lookup: Callable[[KernelSource], dict[str, int] | None]
    ) -> list[np.ndarray]:
        """Return the results for arguments, as new arrays.

        values: arrays of the shapes that the program was made for, and variables. lookup: gives
        the addresses of the program's kernels, which are loaded. Raises FailedPreconditionError for
        an uninitialised variable, InternalError where a kernel failed.
        """
        with self._lock:
            program = self._ready(lookup)
            staging = self._staging
            assert staging is not None
            for (index, value), (start, _) in zip(self._feeds, self._places_in()):
                _view(staging, start, value)[...] = values[index]
            self._draw(staging)
            program.start()
            program.wait()
            for variable in self._written:
                variable.written_on_device()
            results = []
            for value, (start, _) in zip(self._lowered.fetches, self._places_out()):
                results.append(_view(staging, start, value).copy())
            return results

    def _draw(self, staging: np.ndarray) -> None:
        """Give the program the positions of its streams, and move these on."""
        first = self._stream_place()
        with _POSITIONS:
            for stream, call, start in self._streams:
                assert call is not None
                staging[first + start :][: stream.nbytes] = stream.view(np.uint8)
                advance(stream, call.stream_blocks)

    def close(self) -> None:
        """Free the program's memory."""
        with self._lock:
            if self._program is not None:
                self._program.close()
                self._program = None
            for address in (self._arena, self._constants):
                if address:
                    self._accelerator.free(address)
            self._arena = self._constants = 0
            self._staging = None

    def __del__(self) -> None:
        # a failed constructor leaves no memory behind
        if hasattr(self, "_program"):
            self.close()

    def _ready(self, lookup: Callable[[KernelSource], dict[str, int] | None]) -> CommandProgram:
        """Return the program for the variables' present places."""
        if self._staging is None:
            self._allocate()
        addresses = tuple(
            variable.device_address(shape, initializes)
            for variable, shape, initializes in self._variables
        )
        if self._program is None or addresses != self._addresses:
            if self._program is not None:
                self._program.close()
            by_variable = {
                id(variable): address
                for (variable, _, _), address in zip(self._variables, addresses, strict=True)
            }
            writer = CommandWriter(self._layout, self._arena, self._constants, by_variable, lookup)
            self._program = self._accelerator.program(self._commands(writer))
            if writer.table.size:
                start = self._arena + self._layout.table_start
                self._accelerator.write(start, writer.table)
            self._addresses = addresses
        return self._program

    def _allocate(self) -> None:
        device = self._accelerator
        self._arena = device.allocate(max(self._layout.arena_bytes, 1))
        if self._layout.constants:
            self._constants = device.allocate(self._layout.constant_bytes)
            for start, array in {
                id(a): (s, a) for s, a in self._layout.constants.values()
            }.values():
                device.write(self._constants + start, np.ascontiguousarray(array))
        self._staging = device.pinned(self._stream_place() + max(self._layout.stream_bytes, 1))

    def _places_in(self) -> list[tuple[int, int]]:
        return _places([value for _, value in self._feeds], 0)

    def _places_out(self) -> list[tuple[int, int]]:
        inputs = self._places_in()
        start = align(inputs[-1][0] + inputs[-1][1]) if inputs else 0
        return _places(self._lowered.fetches, start)

    def _stream_place(self) -> int:
        places = [*self._places_in(), *self._places_out()]
        return align(max([start + nbytes for start, nbytes in places], default=0))

    def _commands(self, writer: CommandWriter) -> list[Command]:
        assert self._staging is not None
        host = self._staging.ctypes.data
        commands, layout = writer.commands, self._layout
        for (_, value), (start, nbytes) in zip(self._feeds, self._places_in()):
            if nbytes:
                commands.append(Copy("in", writer.address(value), host + start, nbytes))
        if layout.stream_bytes:
            start = self._arena + layout.stream_start
            commands.append(Copy("in", start, host + self._stream_place(), layout.stream_bytes))
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
        for value, (start, nbytes) in zip(self._lowered.fetches, self._places_out()):
            if nbytes:
                commands.append(Copy("out", host + start, writer.address(value), nbytes))
        return commands


def _kernels(call: NativeCall | None, others: int) -> str:
    """Return the kernels of an instruction. others: instructions of the same launch."""
    if call is None:
        return "copy"
    titles = "; ".join(launch.source.title or launch.entry for launch in call.launches)
    return f"{titles}, in one launch with {others} more" if others else titles


def _places(values: Sequence[Value], start: int) -> list[tuple[int, int]]:
    """Return (start, bytes) of values one after the other."""
    found = []
    for value in values:
        nbytes = value.spec.nbytes
        found.append((start, nbytes))
        start = align(start + nbytes)
    return found


def _view(staging: np.ndarray, start: int, value: Value) -> np.ndarray:
    spec = value.spec
    dtype = spec.dtype.as_numpy_dtype
    return staging[start : start + spec.nbytes].view(dtype).reshape(spec.shape)


def _stream(instruction: Instruction, node_state: NodeState) -> np.ndarray:
    """Return the position of a node's stream, which the session keeps."""
    make = find_initial_state(instruction.node.op)
    assert make is not None, f"{instruction.node.op} has no initial state"
    return node_state(instruction.node.name, lambda: make(instruction.spec))


def _steps(lowered: Lowered) -> list[tuple[Instruction, NativeCall | None]]:
    """Return the instructions with their calls, None for a copy.

    Raises Unsupported.
    """
    memo = CallMemo(lowered.backend)
    compiled = {id(instruction) for instruction in compilable(lowered)}
    calls: dict[int, NativeCall] = {}  # iterations of a loop share their specs
    found: list[tuple[Instruction, NativeCall | None]] = []
    for instruction in lowered.instructions:
        node = instruction.node
        if instruction.role is not None:
            raise Unsupported(f"{node.name} ({node.op}) is a loop or branch")
        if instruction.serving == "copy":
            found.append((instruction, None))
            continue
        if id(instruction) not in compiled and not node.has_trait(ASSIGN):
            raise Unsupported(f"{node.name} ({node.op}) needs the host")
        call = calls.get(id(instruction.spec))
        if call is not None:
            found.append((instruction, call))
            continue
        group = group_of(instruction.spec)
        call, reason = memo.call(instruction.spec, group)
        if call is None and group is not None:
            call = memo.members(group, instruction.spec)
        if call is None:
            raise Unsupported(f"{node.name} ({node.op}): {reason}")
        calls[id(instruction.spec)] = call
        for launch in call.launches:
            for item in launch.words:
                if isinstance(item, Pointer) and item.kind in ("code", "cancel"):
                    raise Unsupported(f"{node.name} ({node.op}) needs its {item.kind}")
        found.append((instruction, call))
    return found


def _variables(
    lowered: Lowered, steps: Sequence[tuple[Instruction, NativeCall | None]]
) -> tuple[list[MigratingVariable], list[tuple[MigratingVariable, tuple[int, ...], bool]]]:
    """Return the variables that a program writes, and all of them.

    The latter with their shapes, and whether the first use is an assignment.
    """
    used: dict[int, tuple[MigratingVariable, tuple[int, ...], bool]] = {}
    written: dict[int, MigratingVariable] = {}

    def meet(value: Value, initializes: bool) -> None:
        root = value.root
        if root.storage not in ("variable", "handle") or root.variable is None:
            return
        if not isinstance(root.variable, MigratingVariable):
            raise Unsupported(f"variable {root.variable.name} is in host memory")
        used.setdefault(id(root.variable), (root.variable, root.shape, initializes))

    for instruction, _ in steps:
        assigns = instruction.node.has_trait(ASSIGN)
        for index, value in reversed(list(enumerate(instruction.inputs))):
            meet(value, assigns and index == 0)
            variable = value.variable
            if value.storage == "handle" and isinstance(variable, MigratingVariable):
                written[id(variable)] = variable
    for value in lowered.fetches:
        meet(value, False)
    return list(written.values()), list(used.values())


__all__ = ["DeviceProgram"]
