"""Run a lowered graph on an accelerator, by one program of commands."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence, Set
from typing import TYPE_CHECKING, Final

import numpy as np

from tfjit.framework.errors import ResourceExhaustedError
from tfjit.kernels.random_stream import advance
from tfjit.kernels.registry import find_initial_state
from tfjit.runtime.host.fork_safety import release_lock, watch
from tfjit.runtime.offload.binding import COPIED, Binding
from tfjit.runtime.offload.bound_programs import BoundPrograms
from tfjit.runtime.offload.launch_batching import bundle_launches, sources_of
from tfjit.runtime.offload.library_forms import Postponed, RoutineLaunch, title_of
from tfjit.runtime.offload.program_memory import NO_NAMES, ProgramMemory, ProgramNames, node_of
from tfjit.runtime.offload.program_steps import program_steps
from tfjit.runtime.offload.staging import is_large
from tfjit.runtime.resources.device_allocation import AllocatedTensor, out_of_memory
from tfjit.runtime.resources.device_tensor import DeviceTensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfjit.kernels.ir.accelerator import Accelerator, CommandProgram
    from tfjit.kernels.source import KernelSource
    from tfjit.runtime.lowering.lowering import Instruction, Lowered, Value
    from tfjit.runtime.offload.library_forms import ProgramCall

    Lookup = Callable[[KernelSource], dict[str, int] | None]
    NodeState = Callable[[str, Callable[[], np.ndarray]], np.ndarray]

_POSITIONS: Final = threading.Lock()
"""Held while a program takes positions of streams and moves them on.

Programs for other shapes or signatures draw from the same streams.
"""


class DeviceProgram:
    """The commands of one offloaded graph for one tuple of argument shapes.

    lowered: the graph. sources: the kernels that it needs. awaited: openings of libraries that
    might serve some of its calls. unplanned: whether routines that are not planned yet might. runs:
    their number so far. Thread-safe: one run at a time.

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
        postponed: Postponed | None = None,
        names: ProgramNames = NO_NAMES,
    ) -> None:
        """Select kernels and lay out memory.

        node_state: gives the session's state of a node. taken: arguments that are always device
        tensors. kept: results that are. postponed: gets the choices that libraries leave open;
        without it, the program waits for them. names: those of errors. Raises Unsupported for an
        instruction that the accelerator has no kernel for.
        """
        self.lowered = lowered
        self._kept = kept
        self._accelerator, self._names = accelerator, names
        self._groups = bundle_launches(program_steps(lowered, accelerator, postponed))
        openings = postponed.openings if postponed is not None else ()
        self.awaited = tuple(sorted(openings, key=lambda opening: opening.library))
        self.unplanned = postponed is not None and postponed.unplanned
        self._steps = [step for steps in self._groups for step in steps]
        staged = [value for index, value in sorted(lowered.feeds.items()) if index not in taken]
        self._read_back = [v for i, v in enumerate(lowered.fetches) if i not in kept]
        self._memory = ProgramMemory(
            accelerator, lowered, self._steps, staged, self._read_back, names
        )
        self._bound = BoundPrograms(
            accelerator, lowered, self._groups, self._memory, self._read_back, kept, names
        )
        self.sources = tuple(
            dict.fromkeys(source for steps in self._groups for source in sources_of(steps))
        )
        self._streams = [
            (_stream(self._steps[position][0], node_state), self._steps[position][1], start)
            for position, start in self._memory.layout.streams.items()
        ]
        self._lock = threading.Lock()
        self._unfinished: CommandProgram | None = None  # it may still read the staging memory
        self._newest: CommandProgram | None = None
        self.runs = 0
        watch(self)

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
        return self._memory.device_bytes

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
            if not self._memory.is_allocated:
                self._memory.allocate()
            self._bound.prepare(like._bound, lookup)

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
        uninitialised variable, at the node that reads it, InternalError where a kernel failed,
        Reroute for a variable whose shape has changed, and RoutineFailed where a library refuses a
        call. The last two are raised before anything has changed.
        """
        self._accelerator.check_usable()
        values = [self._reachable(value) for value in values]
        with self._lock:
            if not self._memory.is_allocated:
                self._memory.allocate()
            kept = [
                self._kept_result(value) if index in self._kept else None
                for index, value in enumerate(self.lowered.fetches)
            ]
            binding, program = self._bound.ready(values, kept, lookup)
            self._finish()
            self._bring_in(values, binding)
            self._draw()
            program.start()
            self._newest = program
            self.runs += 1
            for value, tensor, place in zip(self.lowered.fetches, kept, binding.fetches):
                if tensor is not None and place == COPIED:
                    self._copy(tensor.address, self._bound.address(value, binding), tensor.nbytes)
            for variable in self._bound.written:
                variable.written_on_device()
            # the owner of borrowed memory may use it again when the run is over
            borrowed = any(isinstance(v, DeviceTensor) and v.is_borrowed for v in values)
            self._unfinished = program
            if self._read_back or borrowed or not (self._kept or unfinished is not None):
                self._finish()
            elif unfinished is not None and not self._kept:
                unfinished.append(self.finish)
            return self._results(kept)

    def _kept_result(self, value: Value) -> DeviceTensor:
        try:
            return DeviceTensor(self._accelerator, value.dtype, value.shape)
        except ResourceExhaustedError as error:
            tensor = AllocatedTensor(value.shape, value.dtype, node_of(value))
            raise out_of_memory(error, tensor, self._accelerator, self._names.device) from None

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
        for (index, value), place in zip(self._bound.feeds, binding.feeds):
            given = values[index]
            if place == COPIED:
                assert isinstance(given, DeviceTensor)
                self._copy(self._bound.address(value, binding), given.address, given.nbytes)
            elif place:
                continue
            elif is_large(value):
                array = np.asarray(given)
                address = self._bound.address(value, binding)
                self._memory.staging.send(self._accelerator, value, array, address)
            else:
                self._memory.staging.write(value, np.asarray(given))

    def _draw(self) -> None:
        """Give the program the positions of its streams, and move these on."""
        with _POSITIONS:
            for stream, call, start in self._streams:
                assert call is not None
                self._memory.staging.write_position(start, stream)
                advance(stream, call.stream_blocks)

    def _copy(self, target: int, source: int, nbytes: int) -> None:
        if nbytes:
            self._accelerator.copy(target, source, nbytes)

    def _results(self, kept: Sequence[DeviceTensor | None]) -> list[np.ndarray | DeviceTensor]:
        read_back = iter(self._memory.staging.results())
        return [tensor if tensor is not None else next(read_back) for tensor in kept]

    def close(self) -> None:
        """Free the program's memory."""
        with self._lock:
            self._bound.close()
            self._unfinished = self._newest = None
            self._memory.release()

    def after_fork(self) -> None:
        """Free the lock: a run in the child raises its error."""
        release_lock(self._lock)

    def __del__(self) -> None:
        # a failed constructor leaves no memory behind
        if hasattr(self, "_newest"):
            self.close()


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


__all__ = ["DeviceProgram"]
