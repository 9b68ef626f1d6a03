"""Estimate the centre of a symmetric distribution with an exact confidence interval.

The estimator is Hodges and Lehmann's, the interval that of Wilcoxon's signed-rank test.
Source: Hollander, Wolfe and Chicken, Nonparametric Statistical Methods, 3rd edition, sections 3.2
and 3.3 (intervals from Walsh averages: Tukey 1949).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its confidence interval.

    The ends are infinite where values are too few.
    """

    estimate: float
    low: float
    high: float

    @property
    def largest(self) -> float:
        """Return the end that is farther from 0, as a magnitude."""
        return max(abs(self.low), abs(self.high))


def centre(values: Sequence[float], confidence: float) -> Interval:
    """Return the centre of values that are spread symmetrically.

    The values need no normal distribution: the interval covers the centre with at least the
    confidence for any symmetric one, and a quarter of the values may be outliers.
    """
    array = np.asarray(values, np.float64)
    n = array.size
    if not n:
        raise ValueError("there are no values to estimate from")
    rows, columns = np.triu_indices(n)
    averages = np.sort((array[rows] + array[columns]) / 2)
    estimate = float(np.median(averages))
    rank = _rank(n, confidence)
    if not rank:
        return Interval(estimate, -math.inf, math.inf)
    return Interval(estimate, float(averages[rank - 1]), float(averages[averages.size - rank]))


def fewest_values(confidence: float) -> int:
    """Return the number of values below which no interval is finite."""
    return math.ceil(1 - math.log2(1 - confidence))


@lru_cache(maxsize=64)
def _rank(n: int, confidence: float) -> int:
    """Return the rank of the Walsh average at the interval's lower end.

    It is 0 where there is no such end.

    It is the largest C with P(T < C) <= (1 - confidence) / 2, for the signed-rank statistic T.
    """
    # chances[t] = P(T = t): rank k adds k to T with probability 1/2
    chances = np.zeros(n * (n + 1) // 2 + 1)
    chances[0] = 1.0
    for k in range(1, n + 1):
        chances[k:] = (chances[k:] + chances[:-k]) / 2
        chances[:k] /= 2
    below = np.cumsum(chances)  # below[t] = P(T < t + 1)
    return int(np.searchsorted(below, (1 - confidence) / 2 * (1 + 1e-12), side="right"))


__all__ = ["Interval", "centre", "fewest_values"]
