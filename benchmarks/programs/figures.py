"""Compute figures of records.

Break-even, steps done, steady step, and the comparison of outputs.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from benchmarks.programs.catalogue import Program
from benchmarks.programs.record import Record

MARKS_S: Final = (1.0, 3.0, 10.0)  # steps done are counted at these times
AFTER_S: Final = (1.0, 5.0)  # the slowest step is sought after these times
_WINDOW_S: Final = 0.5


@dataclass(slots=True)
class Figures:
    """Hold the figures of one run.

    Seconds count from the moment when the session was made.

    done: steps done at the times of MARKS_S. steady_s: the median of the last tenth of the steps;
    steady_cpu_s: the same in processor time of the program's process. slowest, slow_window: by the
    times of AFTER_S, the slowest step, and the slowest half second by the median of its steps, over
    TensorFlow's steady step; None if no step began so late. even_s: the first time when the run had
    done as many steps as TensorFlow's. break_even_s: the time from which this was so for good;
    infinite if the last step came later than TensorFlow's.
    """

    steps: int
    complete: bool
    first_s: float
    done: list[int]
    total_s: float
    steady_s: float
    steady_cpu_s: float
    slowest: list[float | None]
    slow_window: list[float | None]
    even_s: float
    break_even_s: float
    peak_rss_mb: float
    grown_rss_mb: float
    helper_rss_mb: float
    cpu_s: float
    others: float
    built_s: float
    problems: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return the figures by name; an infinite time is None."""
        return {
            name: None if isinstance(value, float) and math.isinf(value) else value
            for name in self.__slots__
            for value in [getattr(self, name)]
        }


def durations(ends: Sequence[float]) -> list[float]:
    """Return the times of the steps from the times of their ends."""
    return [end - begin for begin, end in zip([0.0, *ends], ends)]


def last_tenth(values: Sequence[float]) -> Sequence[float]:
    """Return the last tenth, at least five values if possible."""
    return values[-max(len(values) // 10, min(5, len(values)), 1) :]


def even(ends: Sequence[float], other: Sequence[float]) -> float:
    """Return the first time when as many steps were done.

    The comparison is with the other run, from one step on. The time is infinite when the other run
    had ended before.
    """
    for count, end in enumerate(ends, 1):
        if not other or end > other[-1]:
            break
        if bisect_right(other, end) <= count:
            return end
    return math.inf


def break_even(ends: Sequence[float], other: Sequence[float]) -> float:
    """Return the time from which no fewer steps were done.

    The comparison is with the other run. The time is infinite when the run ended with fewer steps,
    or did its last step later.
    """
    if not ends or not other or len(ends) < len(other) or ends[len(other) - 1] > other[-1]:
        return math.inf
    behind = [end for end, theirs in zip(ends, other) if end > theirs]
    return behind[-1] if behind else ends[0]


def slowest_step(ends: Sequence[float], after_s: float) -> float | None:
    """Return the longest time of a step that began later than `after_s`."""
    return max(
        (end - begin for begin, end in zip([0.0, *ends], ends) if begin >= after_s), default=None
    )


def slowest_window(
    ends: Sequence[float], after_s: float, window_s: float = _WINDOW_S
) -> float | None:
    """Return the largest median step of a window after `after_s`.

    Windows follow one another. A step belongs to the window in which it ends.
    """
    windows: dict[int, list[float]] = {}
    for begin, end in zip([0.0, *ends], ends):
        if begin >= after_s:
            windows.setdefault(int((end - after_s) / window_s), []).append(end - begin)
    return max(map(statistics.median, windows.values()), default=None)


def figures(record: Record, reference: Record, program: Program) -> Figures:
    """Return the figures of a record beside TensorFlow's."""
    ends, theirs = record.ends_s, reference.ends_s
    problems = [f"failed: {record.failure.strip().splitlines()[-1]}"] if record.failure else []
    if not record.failure and record is not reference:
        problems += differences(record, reference, program)
    their_steady = statistics.median(last_tenth(durations(theirs))) if theirs else math.nan

    def over(step_s: float | None) -> float | None:
        return None if step_s is None else step_s / their_steady

    return Figures(
        steps=len(ends),
        complete=record.complete,
        first_s=ends[0] if ends else math.inf,
        done=[bisect_right(ends, mark) for mark in MARKS_S],
        total_s=ends[-1] if record.complete and ends else math.inf,
        steady_s=statistics.median(last_tenth(durations(ends))) if ends else math.inf,
        steady_cpu_s=statistics.median(last_tenth(durations(record.cpu_s))) if ends else math.inf,
        slowest=[over(slowest_step(ends, after)) for after in AFTER_S],
        slow_window=[over(slowest_window(ends, after)) for after in AFTER_S],
        even_s=even(ends, theirs),
        break_even_s=break_even(ends, theirs),
        peak_rss_mb=record.peak_rss_mb,
        grown_rss_mb=record.peak_rss_mb - record.built_rss_mb,
        helper_rss_mb=record.helper_rss_mb,
        cpu_s=record.total_cpu_s,
        others=record.others,
        built_s=record.built_s,
        problems=problems,
    )


def differences(record: Record, reference: Record, program: Program) -> list[str]:
    """Return the outputs' differences from TensorFlow's beyond the program's tolerances.

    A run that the time limit ended is compared as far as it came.
    """
    pairs = list(zip(record.outputs, reference.outputs))
    if not pairs:
        return ["no outputs to compare"]
    if record.complete and reference.complete and len(record.outputs) != len(reference.outputs):
        return [f"{len(record.outputs)} outputs, TensorFlow {len(reference.outputs)}"]
    wrong = []
    for number, (got, want) in enumerate(pairs[: program.strict]):
        try:
            np.testing.assert_allclose(got, want, program.rtol, program.atol)
        except AssertionError as error:
            wrong.append(f"output {number} differs: {' '.join(str(error).split())[:300]}")
    compared = len(pairs[: program.strict])
    if len(wrong) > program.spared * compared:
        return [wrong[0] + (f"; {len(wrong)} of {compared} differ" if wrong[1:] else "")]
    late = pairs[program.strict :] if program.strict is not None else []
    if program.late is None or len(late) < 10:
        return []
    ours, theirs = (
        statistics.median(values[0] for values in side)
        for side in zip(*late[-max(len(late) // 10, 10) :])
    )
    if not abs(ours - theirs) <= program.late * abs(theirs) + program.atol:
        return [f"the last tenth of the outputs has median {ours:.6g}, TensorFlow {theirs:.6g}"]
    return []
