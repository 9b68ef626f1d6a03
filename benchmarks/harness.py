"""Runs one workload: outputs checked against each other, then all candidates timed in turn, then checked again."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from benchmarks.candidates import Candidate, candidates_for, has_tensorflow
from benchmarks.workload import Feeds, Workload

ROUND_S = 0.05  # each candidate's share of a round
FEED_SETS = 4


@dataclass(slots=True)
class Timing:
    """One candidate's figures. us: median of the rounds' times a run; spread: (third - first quartile) / median."""

    us: float
    spread: float
    first_s: float
    ready_s: float
    rounds_us: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Result:
    """One workload's figures by candidate. ratios: tfjit's time over a candidate's, medians over the rounds."""

    name: str
    timings: dict[str, Timing]
    ratios: dict[str, float]
    bytes_moved: int
    flops: int

    def as_json(self) -> dict[str, Any]:
        """For the JSON file."""
        return asdict(self)


def graph_bytes(workload: Workload) -> bytes:
    """The workload's GraphDef, built by TensorFlow where it is installed, else by tfjit."""
    if workload.graph_def is not None:
        return workload.graph_def()
    assert workload.build is not None
    if has_tensorflow():
        import tensorflow as tf

        module: Any = tf.compat.v1
    else:
        import tfjit as module
    graph = module.Graph()
    with graph.as_default():
        workload.build(module)
    data: bytes = graph.as_graph_def().SerializeToString()
    return data


def check(workload: Workload, outputs: dict[str, Sequence[Any]], when: str) -> None:
    """Raises AssertionError naming workload and candidate when outputs differ from the first peer's."""
    judge = next((name for name in ("tf", "numpy") if name in outputs), next(iter(outputs)))
    for name, values in outputs.items():
        for fetch, got, expected in zip(workload.fetches, values, outputs[judge], strict=True):
            np.testing.assert_allclose(
                got, expected, rtol=workload.rtol, atol=workload.atol, err_msg=f"{workload.name}: {name} against {judge}, {fetch}, {when}"
            )


def measure(workload: Workload, rounds: int, threads: int, peers: bool = True) -> Result:
    """Time a workload. rounds: alternating rounds, the order reversed in every second one."""
    data = graph_bytes(workload)
    rng = np.random.default_rng(0)
    feeds: list[Feeds] = [workload.feeds(rng) for _ in range(FEED_SETS)]
    candidates = [kind(workload, data, feeds[0], threads) for kind in candidates_for(workload, peers)]
    try:
        check(workload, {c.name: c.run(feeds[1]) for c in candidates}, "before timing")
        counts = [_runs_in_a_round(c, feeds) for c in candidates]
        times: dict[str, list[float]] = {c.name: [] for c in candidates}
        order = list(zip(candidates, counts, strict=True))
        for _ in range(rounds):
            for candidate, count in order:
                times[candidate.name].append(_time(candidate, feeds, count))
            order.reverse()
        check(workload, {c.name: c.run(feeds[2]) for c in candidates}, "after timing")
    finally:
        for candidate in candidates:
            candidate.close()
    timings = {c.name: _timing(c, times[c.name]) for c in candidates}
    ratios = {name: statistics.median(a / b for a, b in zip(times["tfjit"], other, strict=True)) for name, other in times.items()}
    return Result(workload.name, timings, ratios, workload.bytes_moved, workload.flops)


def _timing(candidate: Candidate, seconds: list[float]) -> Timing:
    us = [s * 1e6 for s in seconds]
    middle = statistics.median(us)
    quartiles = statistics.quantiles(us, n=4) if len(us) > 1 else [middle] * 3
    return Timing(middle, (quartiles[2] - quartiles[0]) / middle, candidate.first_s, candidate.ready_s, us)


def _runs_in_a_round(candidate: Candidate, feeds: list[Feeds]) -> int:
    count = 1
    while True:
        elapsed = _time(candidate, feeds, count) * count
        if elapsed > ROUND_S / 4 or count > 100_000:
            return max(1, int(count * ROUND_S / max(elapsed, 1e-9)))
        count *= 4


def _time(candidate: Candidate, feeds: list[Feeds], count: int) -> float:
    """Seconds a run, feeds changed each time."""
    run = candidate.run
    sets = len(feeds)
    start = time.perf_counter()
    for i in range(count):
        run(feeds[i % sets])
    return (time.perf_counter() - start) / count
