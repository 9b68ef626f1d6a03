"""Time a TensorFlow 1 program, unmodified: fused, unfused, and under TensorFlow.

Each run is a fresh process, from its start to its end. The processes of a round run in random
order. Every way has its own cache of kernels: empty in its first, cold run, filled in all others.
"""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from tfjit.lab.measure.machine import Machine, this_machine
from tfjit.lab.measure.ratio import CONFIDENCE, Verdict, judged
from tfjit.lab.measure.rounds import spread
from tfjit.lab.measure.signed_rank import centre, fewest_values
from tfjit.lab.peers.presence import installed
from tfjit.lab.table import Table, html_table, seconds, text_table

ROUNDS: Final = 8
LEAST_NOISE: Final = 0.02
LIMIT_S: Final = 600.0
# Way -> (arguments of Python before the script's, environment).
WAYS: Final[dict[str, tuple[tuple[str, ...], dict[str, str]]]] = {
    "default": (("-m", "tfjit"), {}),
    "default without fuse": (("-m", "tfjit"), {"TFJIT_DISABLE": "fuse"}),
    "tensorflow": ((), {}),
}


@dataclass(frozen=True, slots=True)
class ScriptRun:
    """One process: its exit status, time, and printed text.

    status: None if it took too long.
    """

    status: int | None
    elapsed_s: float
    printed: str
    errors: str


@dataclass(frozen=True, slots=True)
class ScriptRow:
    """One way to run the script.

    cold_s: with an empty cache of kernels; warm_s: median of the rounds. ratio: of warm times, to
    the first way's, within rounds.
    """

    name: str
    cold_s: float
    warm_s: float
    spread: float
    ratio: float | None
    low: float | None
    high: float | None
    noise: float | None
    verdict: Verdict | None


@dataclass(frozen=True)
class ScriptBench:
    """The result of `bench_script`; `str()` is its text.

    failures: differences of exit status and, where asked for, of printed lines.
    """

    script: str
    arguments: tuple[str, ...]
    rounds: int
    rows: list[ScriptRow] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    machine: Machine = field(default_factory=this_machine)
    round_s: dict[str, list[float]] = field(default_factory=dict)

    @property
    def agrees(self) -> bool:
        """Return whether all ways ended alike."""
        return not self.failures

    def as_json(self) -> dict[str, object]:
        """Return the result as JSON's types."""
        return asdict(self) | {"agrees": self.agrees, "confidence": CONFIDENCE}

    def tables(self) -> list[Table]:
        """Return (title, heading, cells) of the table."""
        heading = ["way", "cold s", "warm s", "spread", "ratio", f"{CONFIDENCE:.0%} interval"]
        cells = [
            [
                *(row.name, seconds(row.cold_s), seconds(row.warm_s), f"{row.spread:.0%}"),
                *(
                    ("", "", "", "")
                    if row.ratio is None
                    else (
                        *(f"{row.ratio:.3f}", f"{row.low:.3f} to {row.high:.3f}"),
                        *(f"{row.noise:.1%}", str(row.verdict)),
                    )
                ),
            ]
            for row in self.rows
        ]
        return [("seconds of a process", [*heading, "noise", "verdict"], cells)] if cells else []

    def _head(self) -> str:
        command = " ".join((self.script, *self.arguments))
        return f"{command}; {self.machine}; {self.rounds} rounds of fresh processes"

    def __str__(self) -> str:
        tables = [text_table(heading, cells) for _, heading, cells in self.tables()]
        lines = "\n".join([*self.notes, *self.failures])
        return "\n\n".join([self._head(), *tables, *([lines] if lines else [])])

    def _repr_html_(self) -> str:
        import html

        lines = [self._head(), *self.notes, *self.failures]
        tables = "".join(html_table(*table) for table in self.tables())
        return f"<div>{tables}{''.join(f'<p>{html.escape(line)}</p>' for line in lines)}</div>"


def bench_script(
    script: str | Path,
    arguments: Sequence[str] = (),
    *,
    ways: Sequence[str] = tuple(WAYS),
    rounds: int = ROUNDS,
    check_output: bool = False,
    limit_s: float = LIMIT_S,
    seed: int | None = None,
    report: Callable[[str], None] = lambda work: None,
) -> ScriptBench:
    """Time whole processes of a script, fused, unfused and under TensorFlow.

    ways: of WAYS; ratios are to the first. check_output: compare printed lines, too. limit_s: of
    each process. The exit statuses are always compared; the first round is a cold one and not
    judged. Raises ValueError for an unknown way, too few rounds and a script that is not there.
    """
    path = Path(script)
    if not path.is_file():
        raise ValueError(f"there is no script {path}")
    unknown = [way for way in ways if way not in WAYS]
    if unknown or len(ways) < 2 or len(set(ways)) < len(ways):
        raise ValueError(f"{', '.join(ways)}: expected two or more of {', '.join(WAYS)}")
    if rounds < fewest_values(CONFIDENCE):
        raise ValueError(f"{rounds} rounds: {fewest_values(CONFIDENCE)} are the fewest")
    found = ScriptBench(str(path), tuple(arguments), rounds)
    if not installed("tensorflow"):
        found.notes.append(
            "TensorFlow is not installed: the script must import tfjit by itself, and is not run "
            "under TensorFlow"
        )
        ways = [way for way in ways if way != "tensorflow"]
    rng = np.random.default_rng(seed)
    colds: dict[str, ScriptRun] = {}
    times: dict[str, list[float]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory(prefix="tfjit-bench-") as folder:
        for number in range(rounds + 1):
            for k in rng.permutation(len(ways)):
                way = ways[k]
                report(f"{way}, {f'round {number}' if number else 'cold cache'}")
                run = _run(path, arguments, way, Path(folder), limit_s)
                if number:
                    times[way].append(run.elapsed_s)
                colds.setdefault(way, run)
                found.failures.extend(_failures(way, run, ways, colds, check_output))
            if found.failures:
                return found
    found.round_s.update(times)
    found.rows.extend(_row(way, colds[way].elapsed_s, times, ways[0]) for way in ways)
    return found


def _run(
    script: Path, arguments: Sequence[str], way: str, folder: Path, limit_s: float
) -> ScriptRun:
    before, variables = WAYS[way]
    cache = folder / way.replace(" ", "_")
    environment = {**os.environ, **variables, "TFJIT_CACHE_DIR": str(cache)}
    command = [sys.executable, *before, str(script), *arguments]
    started = time.perf_counter()
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return ScriptRun(None, limit_s, "", "")
    return ScriptRun(done.returncode, time.perf_counter() - started, done.stdout, done.stderr)


def _failures(
    way: str,
    run: ScriptRun,
    ways: Sequence[str],
    colds: dict[str, ScriptRun],
    check_output: bool,
) -> list[str]:
    """Return the differences of a run from another way's first run."""
    if run.status is None:
        return [f"{way}: took more than {run.elapsed_s:.0f} s"]
    other = next((name for name in ways if name != way and name in colds), None)
    if other is None:
        return []
    first = colds[other]
    if run.status != first.status:
        pair = [(way, run), (other, first)]
        (bad, failed), (good, ended) = pair if run.status else pair[::-1]
        last = "\n".join(failed.errors.strip().splitlines()[-3:])
        return [f"{bad} ended with status {failed.status}, {good} with {ended.status}:\n{last}"]
    if check_output and run.printed != first.printed:
        lines = zip([*run.printed.splitlines(), "(end)"], [*first.printed.splitlines(), "(end)"])
        number, (mine, theirs) = next(
            (n, pair) for n, pair in enumerate(lines, 1) if pair[0] != pair[1]
        )
        return [f"line {number}: {way} printed {mine!r}, {other} {theirs!r}"]
    return []


def _row(way: str, cold_s: float, times: dict[str, list[float]], base: str) -> ScriptRow:
    mine = times[way]
    common = (way, cold_s, statistics.median(mine), spread(mine))
    if way == base:
        return ScriptRow(*common, *(None,) * 5)
    interval = centre((np.log(mine) - np.log(times[base])).tolist(), CONFIDENCE)
    ratio = judged(interval, math.log1p(LEAST_NOISE))
    return ScriptRow(*common, ratio.ratio, ratio.low, ratio.high, ratio.noise, ratio.verdict)


__all__ = ["WAYS", "ScriptBench", "ScriptRow", "bench_script"]
