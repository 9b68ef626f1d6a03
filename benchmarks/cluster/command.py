"""`python -m benchmarks cluster`: servers of a cluster beside TensorFlow's.

Each candidate is a parameter server, two workers and a client on this host, each a process:
TensorFlow's servers, tfjit's, tfjit's with TCP in place of local sockets and shared memory (as
between hosts), and tfjit's with gRPC alone (as with TensorFlow's servers, and with TLS). Results
are compared before times are taken. Times are taken in alternating rounds, after steps that bring
all memory and code into use. The status is 1 when a candidate fails or is wrong.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.cluster.runner import CANDIDATES, TENSORFLOW, Candidate, Failed, settle

_MB: Final = 1_000_000
_TOLERANCE: Final = 1e-4  # of losses after five steps, between two libraries' float32 arithmetic


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement.

    what: the graph. size: bytes of its tensor. unit: "us", "ms", "GB/s" or "steps/s". workers: that
    train, each in its process; 0 for a step of the client.
    """

    name: str
    what: str
    unit: str
    size: int = 0
    workers: int = 0

    @property
    def key(self) -> str:
        """The name by which the processes know the graph."""
        return f"{self.what} {self.size}" if self.size else self.what

    @property
    def is_rate(self) -> bool:
        """Whether steps are counted in a time."""
        return self.unit == "steps/s"

    def figure(self, step_s: float) -> float:
        """Return the figure for the seconds of a step."""
        return {"us": 1e6 * step_s, "ms": 1e3 * step_s}.get(self.unit) or self.size / 1e9 / step_s


@dataclass(slots=True)
class Result:
    """The figures of a row by candidate: each round's, their medians, and ratios to TensorFlow.

    A ratio is of speeds: above 1, the candidate is faster. problem: why there are no figures.
    """

    row: Row
    rounds: dict[str, list[float]] = field(default_factory=dict)
    problem: str = ""

    @property
    def medians(self) -> dict[str, float]:
        """The median of the rounds."""
        return {name: statistics.median(found) for name, found in self.rounds.items()}

    @property
    def ratios(self) -> dict[str, float]:
        """The median of the rounds' ratios to TensorFlow, where it takes part."""
        theirs = self.rounds.get(TENSORFLOW)
        if theirs is None:
            return {}
        more_is_better = self.row.unit in ("GB/s", "steps/s")
        return {
            name: statistics.median(
                ours / other if more_is_better else other / ours
                for ours, other in zip(found, theirs, strict=True)
            )
            for name, found in self.rounds.items()
            if name != TENSORFLOW
        }


def rows(quick: bool) -> list[Row]:
    """Return all measurements; quick: with small tensors."""
    large, middle = (_MB, _MB // 10) if quick else (100 * _MB, 10 * _MB)
    return [
        Row("step of one task", "one_task", "us"),
        Row("step of two tasks", "two_tasks", "us"),
        Row(f"feed {_size(large)}", "feed", "GB/s", large),
        Row(f"fetch {_size(large)}", "fetch", "GB/s", large),
        Row("Send/Recv 1 kB", "send", "ms", 1000),
        Row(f"Send/Recv {_size(middle)}", "send", "ms", middle),
        Row(f"Send/Recv {_size(large)}", "send", "ms", large),
        Row(f"Send/Recv {_size(large)}", "send", "GB/s", large),
        Row("Send/Recv 64 x 64 B", "many", "us"),
        Row("digits, 1 worker", "replica", "steps/s", workers=1),
        Row("digits, 2 workers", "replica", "steps/s", workers=2),
        Row("digits, in-graph towers", "towers", "steps/s"),
    ]


def _size(count: int) -> str:
    return f"{count // _MB} MB" if count >= _MB else f"{count // 1000} kB"


def measure(row: Row, candidates: Sequence[Candidate], rounds: int, quick: bool) -> Result:
    """Compare the results of the candidates, warm up, and measure in alternating rounds."""
    result = Result(row)
    outputs = {c.name: _prepare(c, row) for c in candidates}
    first = next(iter(outputs.values()))
    for name, found in outputs.items():
        if not _equal(found, first, 0 if row.size or not row.is_rate else _TOLERANCE):
            result.problem = f"{name} gives {found}, {candidates[0].name} {first}"
            return result
    one = _one_round(row, quick)
    for candidate in candidates:
        _warm_up(row, candidate, quick)
    for _ in range(rounds):
        for candidate in candidates:
            settle()
            result.rounds.setdefault(candidate.name, []).append(one(candidate))
    return result


def _prepare(candidate: Candidate, row: Row) -> list[float]:
    return candidate.prepare_replicas() if row.workers else candidate.prepare(row.what, row.size)


def _equal(found: Sequence[float], expected: Sequence[float], tolerance: float) -> bool:
    return len(found) == len(expected) and all(
        math.isclose(a, b, rel_tol=tolerance) for a, b in zip(found, expected)
    )


def _warm_up(row: Row, candidate: Candidate, quick: bool) -> None:
    """Run steps that compile the graph and touch the memory of large tensors."""
    if row.is_rate:
        candidate.rate(row.key, 0.2 if quick else 4.0, row.workers)
    elif row.size:
        candidate.times_s(row.key, 2 if quick else 25)
    else:
        candidate.times_s(row.key, 20 if quick else 1000)


def _one_round(row: Row, quick: bool) -> Callable[[Candidate], float]:
    if row.is_rate:
        seconds = 0.2 if quick else 2.0
        return lambda candidate: candidate.rate(row.key, seconds, row.workers)
    count = (5 if quick else 10) if row.size > _MB else 20 if quick else 300

    def figure(candidate: Candidate) -> float:
        return row.figure(statistics.median(candidate.times_s(row.key, count)))

    return figure


def heading(names: Sequence[str]) -> str:
    """Return the line above the rows."""
    ratios = [f"{'÷tf ' + name.removeprefix('tfjit, '):>12}" for name in names[1:]]
    return f"{'':<26}{'':<8}" + "".join(f"{name:>14}" for name in names) + "".join(ratios)


def line(result: Result, names: Sequence[str]) -> str:
    """Return the line of a result; a ratio above 1 is a higher speed than TensorFlow's."""
    row = result.row
    if result.problem:
        return f"{row.name:<26}{row.unit:<8} WRONG: {result.problem}"
    medians, ratios = result.medians, result.ratios
    figures = "".join(f"{medians[name]:>14.4g}" for name in names)
    return f"{row.name:<26}{row.unit:<8}{figures}" + "".join(
        f"{ratios[name]:>12.2f}" for name in names if name in ratios
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks cluster", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="starts of rows' names; all when none is given"
    )
    parser.add_argument(
        "--candidates",
        default=";".join(CANDIDATES),
        help=f'which of "{";".join(CANDIDATES)}" take part (default: all)',
    )
    parser.add_argument("--rounds", type=int, default=5, help="alternating rounds (default 5)")
    parser.add_argument("--quick", action="store_true", help="small tensors and few steps")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Returns 1 when a candidate fails or is wrong, 2 for unknown names.
    """
    args = _parser().parse_args(argv)
    names = args.candidates.split(";")
    chosen = [r for r in rows(args.quick) if not args.names or r.name.startswith(tuple(args.names))]
    unknown = [name for name in names if name not in CANDIDATES]
    if unknown or not chosen:
        print(f"unknown: {', '.join(unknown or args.names)}", file=sys.stderr)
        return 2
    results: list[Result] = []
    candidates: list[Candidate] = []
    try:
        candidates += map(Candidate, names)
        for candidate in candidates:
            candidate.wait()
        print("medians of alternating rounds; ÷tf: speed to TensorFlow's, above 1 is faster")
        print(heading(names), flush=True)
        for row in chosen:
            results.append(measure(row, candidates, args.rounds, args.quick))
            print(line(results[-1], names), flush=True)
    except Failed as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        for candidate in candidates:
            candidate.close()
        if args.json:
            args.json.write_text(json.dumps([as_json(result) for result in results], indent=1))
    return int(any(result.problem for result in results))


def as_json(result: Result) -> dict[str, object]:
    """Return a result for a file."""
    return asdict(result) | {"medians": result.medians, "ratios": result.ratios}
