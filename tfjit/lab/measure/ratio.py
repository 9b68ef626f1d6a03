"""Judge the ratio of two candidates' times; call no noise a difference.

Two kinds of noise are told apart, as in Kalibera and Jones, Rigorous Benchmarking in Reasonable
Time, ISMM 2013: that of the moments, and that of the sessions.

Moments: other work comes and goes. Times are compared within rounds of random order (`rounds.py`),
a session of one candidate with one of the other, as differences of logarithms. For equal candidates
their signs are then coin tosses, whatever the load of the machine, and Wilcoxon's interval
(`signed_rank.py`) is exact.

Sessions: one graph runs some percent faster in one session than in the next, since its memory lies
elsewhere (Mytkowicz et al., ASPLOS 2009), and no number of rounds averages that out. So each
candidate has several sessions. Their spread within a candidate, pooled over both, gives the noise:
the half-width of Student's interval for the difference of two means of sessions.

A difference is called when the interval of the moments leaves 1 by more than the noise of the
sessions, which is never taken for less than 1 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from tfjit.lab.measure.signed_rank import Interval, centre

CONFIDENCE: Final = 0.99
LEAST_NOISE: Final = 0.01
# Student's t at (1 + CONFIDENCE) / 2 by degrees of freedom.
_STUDENT: Final = (
    *(63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055),
    *(3.012, 2.977, 2.947, 2.921, 2.898, 2.878, 2.861, 2.845),
)

Verdict = Literal["faster", "slower", "no difference"]
# By session, the times of the rounds.
SessionTimes = Sequence[Sequence[float]]


@dataclass(frozen=True, slots=True)
class Ratio:
    """One candidate's time over another's, and the claim that the measurement allows.

    low, high: the confidence interval. noise: the ratio up to which two measurements of one
    candidate differ, less 1 (0.02 is 2 %).
    """

    ratio: float
    low: float
    high: float
    noise: float
    verdict: Verdict

    def __str__(self) -> str:
        return f"{self.ratio:.3f} [{self.low:.3f}, {self.high:.3f}], noise {self.noise:.1%}"


def ratio_of(times: SessionTimes, base: SessionTimes) -> Ratio:
    """Return the ratio of a candidate's times to those of a base.

    Both have as many sessions, and each session a time of each round. The noise of a single
    session is unknown, and taken for none.
    """
    above, below = np.log(np.asarray(times)), np.log(np.asarray(base))
    moments = centre((above - below).ravel().tolist(), CONFIDENCE)
    return judged(moments, session_noise([above, below]))


def judged(interval: Interval, noise: float) -> Ratio:
    """Return the ratio of an interval of logarithms.

    noise: also a logarithm, at least LEAST_NOISE counts.
    """
    noise = max(noise, math.log1p(LEAST_NOISE))
    verdict: Verdict = "no difference"
    if interval.low > noise:
        verdict = "slower"
    elif interval.high < -noise:
        verdict = "faster"
    with np.errstate(over="ignore"):
        low, ratio, high, factor = np.exp(
            [interval.low, interval.estimate, interval.high, noise]
        ).tolist()
    return Ratio(ratio, low, high, factor - 1, verdict)


def session_noise(logarithms: Sequence[np.ndarray]) -> float:
    """Return the half-width of Student's interval for differences of sessions.

    The difference is that of two means.

    logarithms: of each candidate, [sessions, rounds]. 0 where no candidate has two sessions.
    """
    squares, freedom, share = 0.0, 0, 0.0
    for times in logarithms:
        sessions = len(times)
        share += 1 / sessions
        if sessions < 2:
            continue
        # within rounds, so that the load of the machine is not taken for an effect of a session
        effects = np.array(
            [centre(row.tolist(), CONFIDENCE).estimate for row in times - times.mean(axis=0)]
        )
        squares += float(((effects - effects.mean()) ** 2).sum())
        freedom += sessions - 1
    if not freedom:
        return 0.0
    student = _STUDENT[min(freedom, len(_STUDENT)) - 1]
    return student * math.sqrt(squares / freedom * share)


__all__ = ["CONFIDENCE", "Ratio", "SessionTimes", "Verdict", "judged", "ratio_of", "session_noise"]
