"""Choose between kernels and the routines of a vendor's libraries.

The accelerator has routines for some problems. A call whose forms need others keeps its kernels.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from tfjit.kernels.ir.accelerator import LibraryRoutine
from tfjit.kernels.registry import Launch, LibraryLaunch, Word

if TYPE_CHECKING:
    import numpy as np

    from tfjit.kernels.ir.accelerator import Accelerator
    from tfjit.kernels.ir.library_opening import LibraryOpening
    from tfjit.kernels.registry import LibraryForm, NativeCall
    from tfjit.kernels.source import KernelSource


@dataclass(frozen=True, slots=True)
class RoutineLaunch:
    """One call of a routine of a library. words: its addresses."""

    routine: LibraryRoutine
    library: str
    title: str
    words: tuple[Word, ...]


class ProgramCall(Protocol):
    """Describe the calls of a program; a `NativeCall` is one.

    bytes_moved, flops, stream_blocks: those of the call.
    """

    @property
    def launches(self) -> tuple[Launch | RoutineLaunch, ...]: ...

    @property
    def temp_bytes(self) -> tuple[int, ...]: ...

    @property
    def constants(self) -> tuple[np.ndarray, ...]: ...

    @property
    def bytes_moved(self) -> int: ...

    @property
    def flops(self) -> int: ...

    @property
    def stream_blocks(self) -> int: ...


@dataclass(frozen=True, slots=True)
class RoutineCall:
    """A call that routines serve, perhaps with kernels before and behind them."""

    launches: tuple[Launch | RoutineLaunch, ...]
    temp_bytes: tuple[int, ...]
    constants: tuple[np.ndarray, ...]
    bytes_moved: int
    flops: int
    stream_blocks: int = 0


@dataclass(slots=True)
class Postponed:
    """The choices of a program that come later, by a renewal.

    plans: routines of open libraries are planned now, which may take a second each; otherwise only
    known ones are taken. openings: of libraries that might serve once they are open. unplanned:
    whether a problem of an open library has no plan yet.
    """

    plans: bool
    openings: set[LibraryOpening] = field(default_factory=set)
    unplanned: bool = False


def chosen_form(
    call: NativeCall, accelerator: Accelerator, postponed: Postponed | None = None
) -> ProgramCall:
    """Return the form of a call that an accelerator takes.

    It is the first library form whose problems all have routines, else the call itself. postponed:
    gets the reasons of forms that are passed over. Without it, the call waits for libraries to
    open, and plans their routines.
    """
    for form in call.library_forms:
        if postponed is not None and _is_left_for_later(form, accelerator, postponed):
            continue
        found = _with_routines(form, call, accelerator)
        if found is not None:
            return found
    return call


def _is_left_for_later(form: LibraryForm, accelerator: Accelerator, postponed: Postponed) -> bool:
    """Return whether a form is postponed, and note the reason."""
    problems = [one.problem for one in form.launches if isinstance(one, LibraryLaunch)]
    openings = [accelerator.opening(name) for name in sorted({one.library for one in problems})]
    closed = [opening for opening in openings if opening is not None]
    postponed.openings.update(closed)
    if closed:
        return True
    if postponed.plans or all(map(accelerator.is_planned, problems)):
        return False
    postponed.unplanned = True
    return True


def _with_routines(
    form: LibraryForm, call: NativeCall, accelerator: Accelerator
) -> RoutineCall | None:
    launches: list[Launch | RoutineLaunch] = []
    workspaces: dict[int, int] = {}
    for launch in form.launches:
        if not isinstance(launch, LibraryLaunch):
            launches.append(launch)
            continue
        routine = accelerator.routine(launch.problem)
        if routine is None or not accelerator.accepts(routine, len(launch.words)):
            return None
        if launch.workspace is not None:
            so_far = workspaces.get(launch.workspace, 0)
            workspaces[launch.workspace] = max(so_far, routine.workspace_bytes)
        problem = launch.problem
        launches.append(RoutineLaunch(routine, problem.library, problem.title, launch.words))
    temps = tuple([workspaces.get(k, size) for k, size in enumerate(form.temp_bytes)])
    work = call.bytes_moved, call.flops
    return RoutineCall(tuple(launches), temps, form.constants, *work, call.stream_blocks)


def sources_of_call(call: ProgramCall) -> tuple[KernelSource, ...]:
    """Return the kernels of a call."""
    return tuple(dict.fromkeys(one.source for one in call.launches if isinstance(one, Launch)))


def title_of(launch: Launch | RoutineLaunch) -> str:
    """Return the title of a launch's kernel or routine."""
    if isinstance(launch, RoutineLaunch):
        return launch.title
    return launch.source.title or launch.entry


__all__ = [
    "Postponed", "ProgramCall", "RoutineCall", "RoutineLaunch", "chosen_form", "sources_of_call",
    "title_of",
]  # fmt: skip
