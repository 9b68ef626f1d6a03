"""Time several ways of doing one thing in rounds, in random order.

Each round has one block of runs of each candidate. The order is drawn anew in each round, so that
other work of the machine is as likely to meet one candidate as another, and a comparison within
rounds holds however that work comes and goes.
Source: Mytkowicz et al., Producing Wrong Data Without Doing Anything Obviously Wrong, ASPLOS 2009
(randomised set-ups); Georges et al., Statistically Rigorous Java Performance Evaluation, OOPSLA
2007 (confidence intervals of steady state).
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Hashable, Mapping
from typing import Final, TypeVar

import numpy as np

BLOCK_S: Final = 0.02
PAUSE_S: Final = 0.002  # before each block: another candidate's threads may still spin
_MOST_RUNS: Final = 100_000

Call = Callable[[], object]
Key = TypeVar("Key", bound=Hashable)


def time_rounds(
    calls: Mapping[Key, Call],
    rounds: int,
    rng: np.random.Generator,
    block_s: float = BLOCK_S,
    report: Callable[[int], None] = lambda done: None,
) -> dict[Key, list[float]]:
    """Return the median time of a run in each round, in us.

    calls: of the candidates, at full speed already. block_s: about the length of a block. report:
    is called with the number of finished rounds. The first run of a block is not counted: it finds
    the caches as another candidate left them.
    """
    counts = {name: _runs_of_a_block(call, block_s) for name, call in calls.items()}
    times: dict[Key, list[float]] = {name: [] for name in calls}
    names = list(calls)
    collects = gc.isenabled()
    try:
        for done in range(rounds):
            gc.collect(0)
            gc.disable()
            for k in rng.permutation(len(names)):
                name = names[k]
                time.sleep(PAUSE_S)
                times[name].append(_block_us(calls[name], counts[name]))
            if collects:
                gc.enable()
            report(done + 1)
    finally:
        if collects:
            gc.enable()
    return times


def runs_in(seconds: float, seconds_of: Callable[[int], float], fewest: int = 1) -> int:
    """Return the number of runs that take about `seconds`.

    seconds_of: count -> the seconds that many runs took.
    """
    count = fewest
    while True:
        elapsed = seconds_of(count)
        if elapsed > seconds / 4 or count > _MOST_RUNS:
            return max(fewest, int(count * seconds / max(elapsed, 1e-9)))
        count *= 4


def spread(times: list[float]) -> float:
    """Return the distance of the quartiles over the median."""
    if len(times) < 2:
        return 0.0
    low, middle, high = statistics.quantiles(times, n=4)
    return (high - low) / middle


def _runs_of_a_block(call: Call, block_s: float) -> int:
    def seconds(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            call()
        return time.perf_counter() - start

    return runs_in(block_s, seconds)


def _block_us(call: Call, count: int) -> float:
    clock = time.perf_counter_ns
    call()
    taken = []
    for _ in range(count):
        start = clock()
        call()
        taken.append(clock() - start)
    return statistics.median(taken) / 1e3


__all__ = ["BLOCK_S", "Call", "runs_in", "spread", "time_rounds"]
