"""Choose the missing kernels that are worth their compilation.

A kernel of a group whose members' kernels are loaded saves a little of each run, and so does one of
a small node beside much other work. A program of few runs would spend more processor time on the
compiler than it saves. So such a kernel is compiled once the runs that are expected pay for it. A
plan is expected to run as often as it has run, and `FORESEEN_RUNS` times at least. So the time that
is lost by late kernels is about that of their compilation at most.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from tfjit.kernels.source import KernelSource

FORESEEN_RUNS: Final = 15
"""Number of runs that each plan is expected to have."""
KERNEL_NS: Final = 40e6
"""Processor time of the compilation of a kernel."""
START_NS: Final = 400e6
"""Processor time of the start of a compiler process."""
SMALL_SHARE: Final = 0.01
"""Share of a run's work that reference kernels may do."""


class Meanwhile(enum.Enum):
    """Name the code that does a missing kernel's work meanwhile.

    UNKNOWN: code that may take much longer, in a loop of unknown length for example.
    """

    MEMBERS = enum.auto()
    REFERENCE = enum.auto()
    UNKNOWN = enum.auto()


class MissingKernel(NamedTuple):
    """A kernel that no run has yet.

    saved_ns: the predicted time that the kernel saves in a run.
    """

    source: KernelSource
    saved_ns: float
    meanwhile: Meanwhile


class Choice(NamedTuple):
    """Hold the kernels to compile now, in order.

    runs: the number of runs after which others are worth their compilation, infinite where none
    ever is. deferred: the number of these others.
    """

    now: list[KernelSource]
    deferred: int
    runs: float


def choose(
    missing: Sequence[MissingKernel], runs: int, is_started: bool, work_ns: float = 0.0
) -> Choice:
    """Return the kernels that are worth their compilation.

    missing: in the order of compilation. runs: of the plan so far. is_started: a compiler process
    runs already. work_ns: the predicted time of reference kernels for the whole run.
    """
    replaced = sum(m.saved_ns for m in missing if m.meanwhile is Meanwhile.REFERENCE)
    may_wait = {Meanwhile.MEMBERS} | (
        {Meanwhile.REFERENCE} if replaced <= SMALL_SHARE * work_ns else set()
    )
    late = sorted((m for m in missing if m.meanwhile in may_wait), key=lambda m: -m.saved_ns)
    is_started = is_started or len(late) < len(missing)
    expected = max(runs, FORESEEN_RUNS)
    count = _number_worth(late, expected, is_started)
    put_off = {m.source for m in late[count:]}
    now = [m.source for m in missing if m.source not in put_off]
    due = _runs_until_worth(late[count:], is_started or bool(now))
    # few steps: each time at least twice as many runs
    return Choice(now, len(put_off), max(due, 2.0 * expected))


def _number_worth(late: Sequence[MissingKernel], runs: int, is_started: bool) -> int:
    """Return the number of kernels that `runs` runs pay for."""
    worth = [m for m in late if m.saved_ns * runs >= KERNEL_NS]
    gained = sum(m.saved_ns * runs - KERNEL_NS for m in worth)
    return len(worth) if is_started or gained >= START_NS else 0


def _runs_until_worth(late: Sequence[MissingKernel], is_started: bool) -> float:
    """Return the number of runs that pay for some kernels."""
    cost = 0.0 if is_started else START_NS
    saved, found = 0.0, math.inf
    for m in late:
        if m.saved_ns <= 0.0:
            break
        cost += KERNEL_NS
        saved += m.saved_ns
        found = min(found, max(cost / saved, KERNEL_NS / m.saved_ns))
    return found


__all__ = ["FORESEEN_RUNS", "Choice", "Meanwhile", "MissingKernel", "choose"]
