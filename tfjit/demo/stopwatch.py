"""Time several ways of doing one thing alternately.

So other work of the machine affects all of them alike.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

Step = Callable[[int], object]  # called with the number of the call, so that inputs can change


def medians_us(
    candidates: Mapping[str, Step], seconds: float, calls_per_round: int = 20
) -> dict[str, float]:
    """Return the median time of one call of each candidate, in microseconds.

    The whole takes about `seconds` seconds. Each turn calls one candidate `calls_per_round` times
    and counts all but the first fifth, which finds the caches as another candidate left them.
    """
    times_ns: dict[str, list[int]] = {name: [] for name in candidates}
    skipped = calls_per_round // 5
    end = time.perf_counter() + seconds
    number = 0
    while number == 0 or time.perf_counter() < end:
        for name, step in candidates.items():
            for call in range(calls_per_round):
                start = time.perf_counter_ns()
                step(number + call)
                elapsed = time.perf_counter_ns() - start
                if call >= skipped:
                    times_ns[name].append(elapsed)
        number += calls_per_round
    return {name: statistics.median(times) / 1e3 for name, times in times_ns.items()}
