"""Judge the values and the time of a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

TOLERANCE: Final = 1e-3
"""The largest right difference, of |x| + 1: rewrites reorder sums."""
_ROUNDS: Final = 7
_SHORTEST_S: Final = 2e-3
"""A timed loop of runs takes at least this long."""


def difference(
    names: Sequence[str], found: Sequence[object], expected: Sequence[object], tolerance: float
) -> str:
    """Return the first difference beyond the tolerance as text, "" for none.

    |x - y| <= tolerance * (1 + |y|) is none; other values than numbers must be equal. NaN equals
    NaN, and an infinity itself.
    """
    for name, x, y in zip(names, found, expected, strict=True):
        if x is None and y is None:
            continue
        a, b = np.asarray(x), np.asarray(y)
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{name} is {a.dtype}{list(a.shape)}, not {b.dtype}{list(b.shape)}"
        if a.dtype.kind not in "fcV" or a.dtype == object:
            wrong = np.asarray(a != b)
        else:
            kind = np.complex128 if a.dtype.kind == "c" else np.float64
            a, b = a.astype(kind), b.astype(kind)
            with np.errstate(invalid="ignore"):
                close = np.abs(a - b) <= tolerance * (1 + np.abs(b))
            wrong = ~(close | (a == b) | (np.isnan(a) & np.isnan(b)))
        if wrong.any():
            index = tuple(int(i) for i in np.argwhere(wrong)[0])
            count = int(np.count_nonzero(wrong))
            at = f"{name}{list(index)}" if index else name
            return f"{at} is {a[index]}, not {b[index]} ({count} of {a.size} values differ)"
    return ""


def slowdown(run: Callable[[], object], reference: Callable[[], object]) -> float:
    """Return the least time of a run by that of a reference.

    Both are timed in turn.
    """
    repeats = [_repeats(run), _repeats(reference)]
    best = [float("inf"), float("inf")]
    for _ in range(_ROUNDS):
        for k, one in enumerate((run, reference)):
            best[k] = min(best[k], _seconds(one, repeats[k]) / repeats[k])
    return best[0] / best[1]


def _repeats(run: Callable[[], object]) -> int:
    once = min(_seconds(run, 1) for _ in range(2))
    return max(1, int(_SHORTEST_S / max(once, 1e-9)))


def _seconds(run: Callable[[], object], times: int) -> float:
    began = time.perf_counter()
    for _ in range(times):
        run()
    return time.perf_counter() - began


__all__ = ["TOLERANCE", "difference", "slowdown"]
