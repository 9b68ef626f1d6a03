"""Verdicts on simulated times: noise is never called a difference, a difference of 10 % is."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tfjit.lab.measure.ratio import LEAST_NOISE, Ratio, judged, ratio_of, session_noise
from tfjit.lab.measure.signed_rank import Interval

SESSIONS, ROUNDS = 4, 20


def simulated(
    rng: np.random.Generator,
    slower: float = 1.0,
    session: float = 0.0,
    moment: float = 0.0,
    load: float = 0.0,
) -> Ratio:
    """Return the ratio of two candidates of 100 us whose sessions and moments vary.

    slower: the true ratio. session, moment: standard deviations of logarithms. load: share of the
    blocks that meet other work, which may take more than half of the machine and lasts a while.
    """
    effects = rng.normal(0.0, session, (2, SESSIONS, 1))
    times = np.log(100.0) + effects + rng.normal(0.0, moment, (2, SESSIONS, ROUNDS))
    times[1] += math.log(slower)
    busy = np.repeat(rng.random((ROUNDS // 2, 2 * SESSIONS)) < load, 2, axis=0)
    lost = np.where(busy, rng.uniform(0.0, 1.0, busy.shape), 0.0)
    for n in range(ROUNDS):
        times[:, :, n] += rng.permutation(lost[n]).reshape(2, SESSIONS)
    times = np.exp(times)
    return ratio_of(times[1], times[0])


@pytest.mark.parametrize(
    ("session", "moment", "load"),
    [(0, 0, 0), (0, 0.3, 0), (0.05, 0, 0), (0.02, 0.02, 0.1), (0.05, 0.1, 0.5), (0, 0.005, 0.1)],
)
def test_equal_candidates_have_no_difference(session: float, moment: float, load: float) -> None:
    """Twenty measurements of twenty, and more: the seeds are fixed, the share of errors is not."""
    rng = np.random.default_rng(1)
    found = [simulated(rng, 1.0, session, moment, load).verdict for _ in range(100)]
    assert found.count("no difference") == 100


@pytest.mark.parametrize(("slower", "verdict"), [(1.1, "slower"), (1 / 1.1, "faster")])
def test_ten_percent_are_found_on_a_quiet_machine(slower: float, verdict: str) -> None:
    rng = np.random.default_rng(2)
    found = [simulated(rng, slower, 0.01, 0.01) for _ in range(50)]
    assert [ratio.verdict for ratio in found].count(verdict) >= 48
    assert all(ratio.low <= slower * 1.03 and ratio.high >= slower / 1.03 for ratio in found)
    assert all(ratio.noise < 0.08 for ratio in found)


def test_twice_the_time_is_found_on_a_noisy_machine() -> None:
    rng = np.random.default_rng(3)
    assert all(simulated(rng, 2.0, 0.03, 0.1, 0.1).verdict == "slower" for _ in range(20))


def test_the_noise_of_sessions_is_named() -> None:
    quiet = np.full((2, 5), 100.0)
    apart = np.array([[100.0] * 5, [104.0] * 5])
    least = pytest.approx(LEAST_NOISE)
    assert ratio_of(quiet, quiet) == Ratio(1.0, 1.0, 1.0, least, "no difference")
    noise = session_noise([np.log(apart), np.log(apart)])
    assert noise == pytest.approx(9.925 * math.log(1.04) / math.sqrt(2))
    assert session_noise([np.log(apart[:1])] * 2) == 0.0


def test_few_rounds_call_nothing() -> None:
    slow = ratio_of(np.full((1, 7), 200.0), np.full((1, 7), 100.0))
    assert (slow.ratio, slow.verdict) == (pytest.approx(2.0), "no difference")
    assert slow.high == math.inf and slow.low == 0.0
    assert ratio_of(np.full((1, 8), 200.0), np.full((1, 8), 100.0)).verdict == "slower"


def test_an_interval_must_leave_one_by_more_than_the_noise() -> None:
    interval = Interval(0.06, 0.04, 0.08)
    assert judged(interval, 0.03).verdict == "slower"
    assert judged(interval, 0.05).verdict == "no difference"
    assert judged(Interval(-0.06, -0.08, -0.04), 0.03).verdict == "faster"
    assert str(judged(interval, 0.0)) == "1.062 [1.041, 1.083], noise 1.0%"
