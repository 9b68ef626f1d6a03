"""Keep an offloaded graph's programs for one tuple of argument shapes."""

from __future__ import annotations

import threading
from collections.abc import Sequence, Set
from typing import TYPE_CHECKING, Final

import numpy as np

from tfjit.framework import settings
from tfjit.framework.errors import OpError
from tfjit.kernels.registry import Unsupported
from tfjit.runtime.host.fork_safety import release_lock, watch
from tfjit.runtime.offload.device_program import DeviceProgram
from tfjit.runtime.offload.library_forms import Postponed
from tfjit.runtime.offload.loop_unrolling import deciding_feeds, unroll
from tfjit.runtime.offload.program_memory import NO_NAMES, ProgramNames
from tfjit.runtime.offload.program_renewal import ProgramRenewal

if TYPE_CHECKING:
    from tfjit.kernels.ir.accelerator import Accelerator, RoutineFailed
    from tfjit.runtime.executor.requested_kernels import RequestedKernels
    from tfjit.runtime.lowering.lowered import Lowered
    from tfjit.runtime.offload.device_program import NodeState
    from tfjit.runtime.plan.renewals import Renewals

    Numbers = tuple[bytes, ...]

AT_ONCE: Final = 4
MAX_UNROLLED: Final = 8
"""Programs with unrolled loops, each with memory; numbers beyond these get none."""
MAX_SEEN: Final = 256


class GraphForm:
    """A lowered graph with its programs.

    A graph without loops has one. One with loops has a program for each tuple of the numbers that
    decide on iterations: the first few at once, another when it comes again, since a program of
    many instructions pays from its second run on. Thread-safe.

    failures: the messages of routines that programs have given up.
    """

    def __init__(
        self,
        lowered: Lowered,
        accelerator: Accelerator,
        node_state: NodeState,
        kernels: RequestedKernels,
        renewals: Renewals | None = None,
        taken: Set[int] = frozenset(),
        kept: Set[int] = frozenset(),
        names: ProgramNames = NO_NAMES,
    ) -> None:
        """Raise Unsupported where the accelerator has no form of the graph.

        kernels: those of the session, which a new program requests. renewals: make programs again
        that need libraries which are not open yet; without it, programs wait for them. taken,
        kept, names: as `DeviceProgram` has them.
        """
        self.unrolls = lowered.has_loops
        self._lowered, self._accelerator = lowered, accelerator
        self._node_state, self._kernels, self._renewals = node_state, kernels, renewals
        self.lookup = kernels.lookup
        self._taken, self._kept, self._names = taken, kept, names
        self._deciding = deciding_feeds(lowered) if self.unrolls else ()
        self._lock = threading.Lock()
        # None for numbers that came once
        self._programs: dict[Numbers, DeviceProgram | str | None] = {}
        self._is_closed = False
        self.failures: list[str] = []
        watch(self)
        if not self.unrolls:
            program = self._programs[()] = self._made(lowered)
            self.await_libraries((), program, program)

    def program(self, values: Sequence[object]) -> DeviceProgram | str:
        """Return the program for arguments, or the reason for having none."""
        numbers = self._numbers(values)
        found = self._programs.get(numbers)
        if found is not None:
            return found
        with self._lock:
            found = self._programs.get(numbers)
            if found is not None:
                return found
            made = sum(program is not None for program in self._programs.values())
            if made >= AT_ONCE and numbers not in self._programs:
                if len(self._programs) < MAX_SEEN:
                    self._programs[numbers] = None
                return "these numbers came for the first time"
            if sum(isinstance(p, DeviceProgram) for p in self._programs.values()) >= MAX_UNROLLED:
                return f"there are {MAX_UNROLLED} programs for other numbers"
            try:
                known = {k: np.asarray(values[k]).copy() for k in self._deciding}
                found = self._made(unroll(self._lowered, known))
            except (Unsupported, OpError) as why:
                found = str(why)
            self._programs[numbers] = found
        if isinstance(found, DeviceProgram):
            self.await_libraries(numbers, found, found)
        return found

    @property
    def memory_limit(self) -> int:
        """Return the bytes that this process may allocate on the device."""
        return self._accelerator.memory_limit

    def await_libraries(
        self, numbers: Numbers, program: DeviceProgram, like: DeviceProgram
    ) -> None:
        """Renew a program once libraries can serve more of it.

        like: a program of the same graph, which names the libraries.
        """
        if (like.awaited or like.unplanned) and self._renewals is not None:
            renewal = ProgramRenewal(self, numbers, program)
            self._renewals.expect(renewal, like.awaited, is_due=like.unplanned)

    def remade(self, program: DeviceProgram) -> DeviceProgram:
        """Return a new program of a program's graph.

        Its routines are planned, and its kernels not requested. Raises Unsupported.
        """
        return self._unrequested(program.lowered, plans=True)

    def replace(self, numbers: Numbers, program: DeviceProgram) -> None:
        """Let runs take another program from now on.

        The one before is freed behind the run that uses it.
        """
        with self._lock:
            if self._is_closed:
                program.close()
                return
            self._programs[numbers] = program
        self.await_libraries(numbers, program, program)

    def give_up_routine(
        self, values: Sequence[object], program: DeviceProgram, failure: RoutineFailed
    ) -> None:
        """Let later runs have a program without a routine that has failed.

        program: the one with it. Raises Unsupported.
        """
        numbers = self._numbers(values)
        with self._lock:
            if self._programs.get(numbers) is not program or self._is_closed:
                return
            self.note_failure(failure)
            made = self._programs[numbers] = self._made(program.lowered)
        self.await_libraries(numbers, made, made)

    def refuse(self, values: Sequence[object], reason: str) -> None:
        """Note that a kernel of a program cannot be had."""
        with self._lock:
            self._programs[self._numbers(values)] = reason

    def programs(self) -> list[tuple[str, DeviceProgram | str]]:
        """Return programs, or reasons for having none, with their numbers."""
        with self._lock:
            known = list(self._programs.items())
        return [(self._text(numbers), p) for numbers, p in known if p is not None]

    def close(self) -> None:
        """Free the programs' memory."""
        with self._lock:
            self._is_closed = True
            for program in self._programs.values():
                if isinstance(program, DeviceProgram):
                    program.close()

    def note_failure(self, failure: RoutineFailed) -> None:
        """Tell that kernels serve instead of a routine."""
        settings.tell("kernels", "kernels of tfjit serve instead: %s", failure.message)
        self.failures.append(failure.message)

    def after_fork(self) -> None:
        """Free the lock: a run in the child raises its error."""
        release_lock(self._lock)

    def _made(self, lowered: Lowered) -> DeviceProgram:
        program = self._unrequested(lowered, plans=False)
        self._kernels.request(program.sources)
        return program

    def _unrequested(self, lowered: Lowered, plans: bool) -> DeviceProgram:
        postponed = None if self._renewals is None else Postponed(plans)
        return DeviceProgram(
            *(lowered, self._accelerator, self._node_state, self._taken, self._kept),
            postponed=postponed,
            names=self._names,
        )

    def _numbers(self, values: Sequence[object]) -> Numbers:
        return tuple([np.asarray(values[k]).tobytes() for k in self._deciding])

    def _text(self, numbers: Numbers) -> str:
        found = []
        for k, text in zip(self._deciding, numbers, strict=True):
            value = self._lowered.feeds[k]
            array = np.frombuffer(text, value.dtype.as_numpy_dtype).reshape(value.shape)
            found.append(f"argument {k} = {array.tolist()}")
        return ", ".join(found)


__all__ = ["GraphForm"]
