"""Time a model fused, unfused and under TensorFlow, over sizes and threads."""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from tfjit.lab.compare_candidates import ROUNDS, SESSIONS, compare, graph_of, model_file
from tfjit.lab.measure.agreement import Mismatch
from tfjit.lab.measure.machine import Machine, this_machine
from tfjit.lab.measure.ratio import CONFIDENCE, Verdict
from tfjit.lab.measure.rounds import BLOCK_S, time_rounds
from tfjit.lab.sweep import Sweep, parse_sweep, swept_shapes
from tfjit.lab.table import Table, html_table, microseconds, text_table

if TYPE_CHECKING:
    from tfjit.lab.compare_candidates import ModelLike
    from tfjit.passes.manager.pipeline_spec import Pipeline

CANDIDATES: Final = ("default", "default without fuse", "tensorflow")
# Bytes of one hash, by which the speed of the machine is known again.
_YARDSTICK: Final = bytes(1 << 16)
_YARDSTICK_ROUNDS: Final = 10


@dataclass(frozen=True, slots=True)
class BenchRow:
    """One candidate in one case; the names are those of `CandidateRow`."""

    case: str
    threads: int
    name: str
    us: float
    spread: float
    ratio: float | None
    low: float | None
    high: float | None
    noise: float | None
    verdict: Verdict | None


@dataclass(frozen=True)
class Bench:
    """The result of `bench`; `str()` is its text.

    digest: of the model's graph. yardstick_us: the time of fixed work that no change of tfjit
    touches, by case. round_us: by "case, threads" and candidate, the times of each session.
    """

    model: str
    digest: str
    fetches: tuple[str, ...]
    rounds: int
    sessions: int
    rows: list[BenchRow] = field(default_factory=list)
    mismatches: dict[str, list[Mismatch]] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    machine: Machine = field(default_factory=this_machine)
    yardstick_us: dict[str, float] = field(default_factory=dict)
    round_us: dict[str, dict[str, list[list[float]]]] = field(default_factory=dict)

    @property
    def agrees(self) -> bool:
        """Return whether all candidates had the same outputs in all cases."""
        return not self.mismatches

    def as_json(self) -> dict[str, object]:
        """Return the result as JSON's types."""
        return asdict(self) | {"agrees": self.agrees, "confidence": CONFIDENCE}

    def plot(self, path: str | Path) -> None:
        """Draw the times by case. Raises ImportError without matplotlib (extra `plot`)."""
        from tfjit.lab.plot import plot_bench

        plot_bench(self, path)

    def tables(self) -> list[Table]:
        """Return (title, heading, cells) of the table."""
        heading = ["case", "candidate", "us a run", "spread", "ratio", f"{CONFIDENCE:.0%} interval"]
        cells = [
            [
                row.case,
                row.name,
                microseconds(row.us),
                f"{row.spread:.0%}",
                *(
                    ["", "", "", ""]
                    if row.ratio is None
                    else [
                        f"{row.ratio:.3f}",
                        f"{row.low:.3f} to {row.high:.3f}",
                        f"{row.noise:.1%}",
                        str(row.verdict),
                    ]
                ),
            ]
            for row in self.rows
        ]
        return [("median times of a run", [*heading, "noise", "verdict"], cells)] if cells else []

    def _lines(self) -> list[str]:
        lines = [f"{name} took no part: {why}" for name, why in self.absent.items()] + self.notes
        for case, several in self.mismatches.items():
            lines += [f"{case}: outputs differ: {mismatch}" for mismatch in several]
        return lines

    def _head(self) -> str:
        return (
            f"{self.model}: {', '.join(self.fetches)}; {self.machine}; {self.rounds} rounds, "
            f"{self.sessions} sessions of each candidate; ratios are to the first of a case"
        )

    def __str__(self) -> str:
        tables = [text_table(heading, cells, 2) for _, heading, cells in self.tables()]
        return "\n\n".join(
            [self._head(), *tables, *(["\n".join(self._lines())] * bool(self._lines()))]
        )

    def _repr_html_(self) -> str:
        import html

        lines = "".join(f"<p>{html.escape(line)}</p>" for line in [self._head(), *self._lines()])
        return f"<div>{''.join(html_table(*table) for table in self.tables())}{lines}</div>"


def bench(
    model: ModelLike,
    *,
    fetches: Sequence[str],
    feeds: Mapping[str, object] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    sweeps: Sequence[Sweep | str] = (),
    threads: Sequence[int] = (),
    candidates: Sequence[str | Pipeline] = CANDIDATES,
    setup: Sequence[str] = (),
    rounds: int = ROUNDS,
    sessions: int = SESSIONS,
    block_s: float = BLOCK_S,
    tolerance: float | None = None,
    seed: int | None = None,
    report: Callable[[str], None] = lambda work: None,
) -> Bench:
    """Time candidates in each case: all combinations of swept sizes and threads.

    sweeps: of sizes of made-up feeds, as "images.0=1,4,16". threads: numbers of threads; all cores
    by default. TensorFlow takes part where it is installed. The other arguments are those of
    `tfjit.lab.compare`, which measures each case. A model's dtypes are its own: they are not swept.
    Raises the errors of `compare`.
    """
    file = model_file(model)
    swept = [parse_sweep(one) if isinstance(one, str) else one for one in sweeps]
    fed = dict(feeds or {})
    for name in {name for sweep in swept for name, _ in sweep.axes} & set(fed):
        raise ValueError(f"sweep of {name}: it has a value; give its shape instead")
    cases = swept_shapes(swept, graph_of(file), shapes or {})
    found = Bench(
        file.path.name,
        hashlib.sha256(file.graph_def.SerializeToString(deterministic=True)).hexdigest(),
        *(tuple(fetches), rounds, sessions),
    )
    for size, chosen in cases:
        for count in threads or (None,):
            case = ", ".join(
                part for part in (size, f"{count} threads" if len(threads) > 1 else "") if part
            )
            before = _yardstick_us()

            def progress(work: str, case: str = case) -> None:
                report(f"{case}: {work}" if case else work)

            result = compare(
                *(file, candidates),
                fetches=fetches,
                feeds=fed,
                shapes=chosen,
                setup=setup,
                threads=count,
                rounds=rounds,
                sessions=sessions,
                block_s=block_s,
                tolerance=tolerance,
                seed=seed,
                optional=("tensorflow",),
                explain=False,
                report=progress,
            )
            label = case or "all"
            found.yardstick_us[label] = (before + _yardstick_us()) / 2
            found.absent.update(result.absent)
            found.notes.extend(note for note in result.notes if note not in found.notes)
            if result.mismatches:
                found.mismatches[label] = result.mismatches
            found.round_us[label] = result.round_us
            found.rows.extend(
                BenchRow(
                    *(label, result.threads, row.name, row.us, row.spread, row.ratio, row.low),
                    *(row.high, row.noise, row.verdict),
                )
                for row in result.rows
            )
    return found


def _yardstick_us() -> float:
    rng = np.random.default_rng(0)
    calls = {"yardstick": lambda: hashlib.sha256(_YARDSTICK).digest()}
    return statistics.median(time_rounds(calls, _YARDSTICK_ROUNDS, rng, 0.002)["yardstick"])


__all__ = ["CANDIDATES", "Bench", "BenchRow", "bench"]
