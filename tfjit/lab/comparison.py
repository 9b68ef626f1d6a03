"""The result of a comparison: figures, verdicts, parts that differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from tfjit.lab.measure.agreement import Mismatch
from tfjit.lab.measure.machine import Machine, this_machine
from tfjit.lab.measure.node_times import NodeDifference
from tfjit.lab.measure.ratio import CONFIDENCE, Verdict
from tfjit.lab.table import Table, count, html_table, microseconds, seconds, text_table

_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class CandidateRow:
    """One candidate's figures.

    us: the median time of a run over all rounds and sessions; spread: the distance of its quartiles
    over it. ratio: its time over the base's, within rounds, with the ends of the confidence
    interval; noise: the ratio, less 1, that two measurements of one candidate may show. None stands
    in the base's own row and, from kernels on, in rows of other runtimes. plan_s: processor seconds
    of passes, builders and layouts, median of the sessions. compile_s: the compiler's seconds; 0
    where all kernels were in the cache. first_s: seconds from the graph to the first outputs.
    """

    name: str
    us: float
    spread: float
    first_s: float
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    noise: float | None = None
    verdict: Verdict | None = None
    kernels: int | None = None
    launches: int | None = None
    bytes_moved: int | None = None
    arena_bytes: int | None = None
    plan_s: float | None = None
    compile_s: float | None = None


@dataclass(frozen=True)
class Comparison:
    """The result of `compare`; `str()` is its text.

    rows: of the candidates, the base first; none where outputs differ. absent: candidates that
    could not take part, with the reason. differences: parts of the graph by the time that they
    take more or less than in the base.
    round_us: by candidate, the times of each session's rounds.
    """

    model: str
    fetches: tuple[str, ...]
    feeds: dict[str, tuple[str, tuple[int, ...]]]
    threads: int
    rounds: int
    sessions: int
    rows: list[CandidateRow] = field(default_factory=list)
    mismatches: list[Mismatch] = field(default_factory=list)
    differences: list[NodeDifference] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    machine: Machine = field(default_factory=this_machine)
    round_us: dict[str, list[list[float]]] = field(default_factory=dict)

    @property
    def agrees(self) -> bool:
        """Return whether all outputs were those of the base."""
        return not self.mismatches

    @property
    def verdict(self) -> Verdict | None:
        """Return the verdict on the second candidate; None where nothing was timed."""
        return self.rows[1].verdict if len(self.rows) > 1 else None

    def as_json(self) -> dict[str, object]:
        """Return the result as JSON's types."""
        found = asdict(self)
        for part, entry in zip(self.differences, found["differences"], strict=True):
            entry["difference_us"] = part.difference_us
        return found | {"agrees": self.agrees, "verdict": self.verdict, "confidence": CONFIDENCE}

    def plot(self, path: str | Path) -> None:
        """Draw the candidates' times and the largest differences into a file.

        Raises ImportError without matplotlib (extra `plot`).
        """
        from tfjit.lab.plot import plot_comparison

        plot_comparison(self, path)

    def tables(self) -> list[Table]:
        """Return (title, heading, cells) of each table."""
        found: list[Table] = []
        if self.mismatches:
            found.append(
                (
                    "outputs that differ",
                    ["output"],
                    [[str(mismatch)] for mismatch in self.mismatches],
                )
            )
        if self.rows:
            base = self.rows[0].name
            found.append(("median time of a run", *_candidate_cells(self.rows)))
            confidence = f"{CONFIDENCE:.0%} interval"
            heading = [f"time over that of {base!r}", "ratio", confidence, "noise", "verdict"]
            cells = [
                [
                    row.name,
                    f"{row.ratio:.3f}",
                    f"{row.low:.3f} to {row.high:.3f}",
                    f"{row.noise:.1%}",
                    str(row.verdict),
                ]
                for row in self.rows
                if row.ratio is not None
            ]
            found.append(("verdicts", heading, cells))
        for name in dict.fromkeys(part.candidate for part in self.differences):
            parts = [part for part in self.differences if part.candidate == name][:_SHOWN]
            cells = [
                [
                    _shortened(", ".join(part.nodes), 60),
                    f"{part.difference_us:+.2f}{'' if part.apart else ' ?'}",
                    f"{microseconds(part.us)} in {len(part.kernels)}",
                    f"{microseconds(part.base_us)} in {len(part.base_kernels)}",
                ]
                for part in parts
            ]
            title = f"largest differences of parts, us, {name!r} and {parts[0].base!r}"
            heading = [f"{title} (?: sessions overlap)", "more", "us in kernels", "of the base"]
            found.append((title, heading, cells))
        return found

    def _head(self) -> list[str]:
        feeds = ", ".join(f"{n} {dtype}{list(shape)}" for n, (dtype, shape) in self.feeds.items())
        return [
            f"{self.model}: {', '.join(self.fetches)} of {feeds or 'no feeds'}",
            f"{self.machine}; {self.threads} threads, {self.rounds} rounds in random order, "
            f"{self.sessions} sessions of each candidate",
        ]

    def _tail(self) -> list[str]:
        return [f"{name} took no part: {why}" for name, why in self.absent.items()] + self.notes

    def __str__(self) -> str:
        tables = [text_table(heading, cells) for _, heading, cells in self.tables()]
        tail = "\n".join(self._tail())
        return "\n\n".join(["\n".join(self._head()), *tables, *([tail] if tail else [])])

    def _repr_html_(self) -> str:
        import html

        tables = "".join(html_table(*table) for table in self.tables())
        lines = "".join(f"<p>{html.escape(line)}</p>" for line in self._tail())
        head = "".join(f"<p>{html.escape(line)}</p>" for line in self._head())
        return f"<div>{head}{tables}{lines}</div>"


def _candidate_cells(rows: Sequence[CandidateRow]) -> tuple[list[str], list[list[str]]]:
    heading = ["candidate", "us a run", "spread", "kernels", "launches", "bytes moved", "arena"]
    cells = [
        [
            row.name,
            microseconds(row.us),
            f"{row.spread:.0%}",
            *(count(n) for n in (row.kernels, row.launches, row.bytes_moved, row.arena_bytes)),
            *(seconds(s) for s in (row.plan_s, row.compile_s, row.first_s)),
        ]
        for row in rows
    ]
    return [*heading, "plan s", "compile s", "first s"], cells


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 4]} ..."


__all__ = ["CandidateRow", "Comparison"]
