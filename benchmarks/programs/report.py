"""Prints figures of programs: a table a program, and the machine's state."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping

from benchmarks.programs.figures import Figures
from benchmarks.programs.profile import largest
from benchmarks.programs.record import Record
from benchmarks.programs.runner import COLD, PACKED, TENSORFLOW, WARM

_NAME = 18
LEGEND = """\
Seconds count from the moment when the session is made, after the graph is built.
first: end of the first step. 1s 3s 10s: steps done by then. even: first time with as many steps as
TensorFlow; for good: the time from which it stays so (never: the last step was later). all: end of
the last step. steady: median of the last tenth, ms. ratio: to TensorFlow's steady step. cpu: the
same in processor time of the process, ms. >1s >5s: the slowest half second (median of its steps)
from then on, over TensorFlow's steady step; in brackets the slowest single step. MB: growth of
resident memory from the session's making to its peak (of the compiler process). CPU s: processor
seconds, compiler included. others: cores that other programs kept busy."""


def heading() -> str:
    """Return the table's heading."""
    return (
        f"{'':<{_NAME}} {'first':>6} {'1s':>5} {'3s':>5} {'10s':>6} {'even':>6} {'for good':>8} "
        f"{'all':>7} {'steady':>7} {'ratio':>5} {'cpu':>7} {'>1s':>12} {'>5s':>12} "
        f"{'MB':>10} {'CPU s':>6} {'others':>6}"
    )


def _seconds(value: float) -> str:
    return "never" if math.isinf(value) else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def _worst(window: float | None, step: float | None) -> str:
    return "-" if window is None or step is None else f"{window:.1f} ({step:.0f})"


def rows(name: str, by_kind: Mapping[str, Figures]) -> Iterator[str]:
    """Yield a program's lines: one a run, and one a problem."""
    steps = max(f.steps for f in by_kind.values())
    yield f"{name}, {steps} steps"
    theirs = by_kind[TENSORFLOW]
    for kind, f in by_kind.items():
        ours = kind in (COLD, WARM, PACKED)
        total = _seconds(f.total_s) if f.complete else f"{f.steps} st"
        yield (
            f"  {kind.replace('tensorflow, other oneDNN mode', 'tf, other mode'):<{_NAME - 2}} "
            f"{_seconds(f.first_s):>6} "
            f"{f.done[0]:>5} {f.done[1]:>5} {f.done[2]:>6} "
            f"{_seconds(f.even_s) if ours else '':>6} "
            f"{_seconds(f.break_even_s) if ours else '':>8} {total:>7} "
            f"{f.steady_s * 1e3:>7.2f} {f.steady_s / theirs.steady_s:>5.2f} "
            f"{f.steady_cpu_s * 1e3:>7.2f} "
            f"{_worst(f.slow_window[0], f.slowest[0]):>12} "
            f"{_worst(f.slow_window[1], f.slowest[1]):>12} "
            f"{f.grown_rss_mb:>4.0f} ({f.helper_rss_mb:>3.0f}) {f.cpu_s:>6.1f} {f.others:>6.2f}"
        )
    for kind, f in by_kind.items():
        for problem in f.problems:
            yield f"  {kind}: {problem}"


def profile_lines(record: Record) -> Iterator[str]:
    """Yield the seconds by stage of a run that was profiled."""
    if record.step_wall:
        for line in largest(record.step_wall):
            yield f"    {record.library}, wall s of the step thread: {line}"
        for line in largest(record.stage_cpu):
            yield f"    {record.library}, processor s: {line}"


def machine() -> str:
    """Return the cores and the machine's present load."""
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    return f"{len(os.sched_getaffinity(0))} cores, load {load}"
