"""Run one workload: check outputs, time all candidates, check again.

Outputs are checked against each other; candidates are timed in turn.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from benchmarks.candidates import PEERS, Candidate, candidates_for
from benchmarks.machine import Limits
from benchmarks.work import work
from benchmarks.workload import Feeds, Workload
from tfjit.lab.measure.rounds import runs_in, spread
from tfjit.lab.peers.presence import Absent, installed

ROUND_S = 0.05  # each candidate's share of a round
FEED_SETS = 4
OURS = ("tfjit", "unfused", "tfjit call")
TENSORFLOW = ("tf", "tf other")
LEFT_OUT = "left out"


@dataclass(frozen=True, slots=True)
class Options:
    """Hold the settings of a measurement.

    rounds: alternating ones, the order reversed in every second. feeds: changed each round or each
    run.
    """

    rounds: int = 7
    threads: int = 1
    feeds: Literal["round", "run"] = "round"
    peers: Sequence[str] = PEERS


@dataclass(slots=True)
class Timing:
    """Hold one candidate's figures.

    us: median of the rounds' times a run; spread: (third - first quartile) / median.
    """

    us: float
    spread: float
    first_s: float
    ready_s: float
    rounds_us: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Result:
    """Hold one workload's figures by candidate.

    ratios: tfjit's time over a candidate's, medians over the rounds. first_s: seconds to the first
    result in fresh sessions, where the workload asks for them; limit_us: the least time by the
    machine's measured limits; notes: reasons why candidates are absent, and their errors.
    """

    name: str
    timings: dict[str, Timing]
    ratios: dict[str, float]
    wanted: float | None = None
    wanted_first: float | None = None
    first_s: dict[str, list[float]] = field(default_factory=dict)
    bytes_moved: int = 0
    flops: int = 0
    limit_us: float = 0.0
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Return whether tfjit is missing, wrong, or not wholly compiled."""
        return any(
            name in OURS and not note.startswith(LEFT_OUT) for name, note in self.notes.items()
        )

    @property
    def first_ratio(self) -> float | None:
        """tfjit's time to the first result over TensorFlow's."""
        if "tfjit" not in self.first_s or "tf" not in self.first_s:
            return None
        return statistics.median(self.first_s["tfjit"]) / statistics.median(self.first_s["tf"])

    def tensorflow(self) -> str | None:
        """Return the faster of TensorFlow's two modes.

        Both are measured through the default session. A wanted ratio refers to this time.
        """
        modes = [name for name in TENSORFLOW if name in self.timings]
        return min(modes, key=lambda name: self.timings[name].us, default=None)

    def best_peer(self) -> str | None:
        """The fastest other runtime, through its ordinary call."""
        peers = [name for name in self.timings if name not in (*OURS, "tf call", "numpy")]
        return min(peers, key=lambda name: self.timings[name].us, default=None)

    def as_json(self) -> dict[str, Any]:
        """For the JSON file."""
        return asdict(self) | {"best_peer": self.best_peer(), "first_ratio": self.first_ratio}


def graph_bytes(workload: Workload) -> bytes:
    """Return the workload's GraphDef.

    TensorFlow builds it where it is installed, else tfjit.
    """
    if workload.graph_def is not None:
        return workload.graph_def()
    assert workload.build is not None
    if installed("tensorflow"):
        import tensorflow as tf

        module: Any = tf.compat.v1
    else:
        import tfjit as module
    graph = module.Graph()
    with graph.as_default():
        workload.build(module)
    data: bytes = graph.as_graph_def().SerializeToString()
    return data


def outputs_of(candidate: Candidate, feeds: Sequence[Feeds]) -> list[list[Any]]:
    """Return the outputs of the runs to be compared.

    The runs start from the state that the set-up operations leave.
    """
    candidate.reset()
    steps = candidate.workload.steps
    return [
        candidate.outputs(candidate.run(candidate.bind(feeds[i % len(feeds)])))
        for i in range(steps)
    ]


def check(workload: Workload, outputs: dict[str, list[list[Any]]], when: str) -> dict[str, str]:
    """Return the errors of candidates with differing outputs.

    Outputs are compared with TensorFlow's (or NumPy's, or the first candidate's).
    """
    judge = next((name for name in ("tf", "numpy") if name in outputs), next(iter(outputs)))
    wrong = {}
    for name, runs in outputs.items():
        try:
            for step, (values, expected) in enumerate(zip(runs, outputs[judge], strict=True)):
                for fetch, got, want in zip(workload.fetches, values, expected, strict=True):
                    where = f"{fetch}, run {step}"
                    if np.asarray(want).dtype == object:
                        np.testing.assert_array_equal(got, want, err_msg=where)
                    else:
                        np.testing.assert_allclose(
                            got, want, workload.rtol, workload.atol, err_msg=where
                        )
        except AssertionError as error:
            wrong[name] = f"WRONG against {judge} {when}: {' '.join(str(error).split())[:300]}"
    return wrong


def measure(workload: Workload, options: Options, limits: Limits | None = None) -> Result:
    """Time a workload.

    A candidate that fails is left out and its reason noted.
    """
    data = graph_bytes(workload)
    rng = np.random.default_rng(0)
    feeds: list[Feeds] = [workload.feeds(rng) for _ in range(FEED_SETS)]
    candidates: dict[str, Candidate] = {}
    notes: dict[str, str] = {}
    for kind in candidates_for(workload, options.peers):
        try:
            if kind.name in workload.leave_out:
                raise Absent(workload.leave_out[kind.name])
            candidates[kind.name] = kind(workload, data, feeds[0], options.threads, candidates)
        # a peer's failure must not lose the others' figures; it is reported with the row
        except Exception as error:
            notes[kind.name] = _reason(error)
            continue
        if candidates[kind.name].note:
            notes[kind.name] = candidates[kind.name].note
    times: dict[str, list[float]] = {name: [] for name in candidates}
    result = Result(workload.name, {}, {}, workload.wanted, workload.wanted_first, notes=notes)
    try:
        outputs = {name: outputs_of(c, feeds) for name, c in candidates.items()}
        notes |= check(workload, outputs, "before timing")
        if outputs:
            result.bytes_moved, result.flops = work(
                workload, data, feeds[0], next(iter(outputs.values()))[0]
            )
        bound = {name: [c.bind(f) for f in feeds] for name, c in candidates.items()}
        order = [(c, _runs_in_a_round(c, bound[name])) for name, c in candidates.items()]
        for n in range(options.rounds):
            for candidate, count in order:
                sets = bound[candidate.name]
                used = sets if options.feeds == "run" else [sets[n % len(sets)]]
                times[candidate.name].append(candidate.seconds(used, count))
            order.reverse()
        for name, wrong in check(
            workload, {n: outputs_of(c, feeds) for n, c in candidates.items()}, "after timing"
        ).items():
            notes.setdefault(name, wrong)
    finally:
        for candidate in candidates.values():
            candidate.close()
    result.timings = {name: _timing(c, times[name]) for name, c in candidates.items()}
    if "tfjit" in times:
        result.ratios = {
            name: statistics.median(a / b for a, b in zip(times["tfjit"], other))
            for name, other in times.items()
        }
    if limits is not None:
        result.limit_us = limits.least_us(result.bytes_moved, result.flops, options.threads)
    if workload.wanted_first is not None:
        result.first_s = {
            name: [result.timings[name].first_s]
            for name in ("tfjit", "tf")
            if name in result.timings
        }
        for name, seconds in _first_results(workload, data, feeds[0], options).items():
            result.first_s[name] = seconds or result.first_s[name]
    return result


def _first_results(
    workload: Workload, data: bytes, feeds: Feeds, options: Options
) -> dict[str, list[float]]:
    """Return seconds from the GraphDef to the first result.

    In fresh sessions, tfjit and TensorFlow in turn.
    """
    kinds = [
        kind for kind in candidates_for(workload, options.peers) if kind.name in ("tfjit", "tf")
    ]
    found: dict[str, list[float]] = {kind.name: [] for kind in kinds}
    for _ in range(workload.fresh_sessions):
        for kind in kinds:
            gc.collect()
            # its warming lets the work after the first result finish
            candidate = kind(workload, data, feeds, options.threads, {})
            found[kind.name].append(candidate.first_s)
            candidate.close()
            del candidate
        kinds.reverse()
    return found


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())
    # TensorFlow's messages end with the relevant part
    text = text if len(text) < 300 else f"{text[:50]} ... {text[-240:]}"
    return (
        f"{LEFT_OUT}: {text}"
        if isinstance(error, Absent)
        else f"failed: {type(error).__name__}: {text}"
    )


def _timing(candidate: Candidate, seconds: list[float]) -> Timing:
    us = [s * 1e6 for s in seconds]
    middle = statistics.median(us)
    return Timing(middle, spread(us), candidate.first_s, candidate.ready_s, us)


def _runs_in_a_round(candidate: Candidate, bound: list[Any]) -> int:
    return runs_in(
        ROUND_S, lambda count: candidate.seconds(bound, count) * count, candidate.workload.callers
    )
