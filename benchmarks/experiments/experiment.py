"""Define an experiment, its budget and its findings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tfjit.lab.compare_candidates import compare
from tfjit.lab.comparison import CandidateRow, Comparison
from tfjit.lab.table import Table


@dataclass(frozen=True, slots=True)
class Budget:
    """The effort of an experiment.

    rounds, sessions, block_s: as `tfjit.lab.compare` has them. threads: of every candidate.
    quick: measure small cases only, to see that the experiment works.
    """

    rounds: int = 12
    sessions: int = 3
    block_s: float = 0.01
    threads: int = 1
    quick: bool = False


QUICK = Budget(rounds=5, sessions=2, block_s=0.001, quick=True)


@dataclass(frozen=True, slots=True)
class Findings:
    """The outcome of an experiment.

    figures: JSON's types. draw: draws into axes of matplotlib. agrees: whether all outputs did.
    """

    tables: Sequence[Table]
    figures: Any
    draw: Callable[[Any], None]
    agrees: bool = True


@dataclass(frozen=True, slots=True)
class Experiment:
    """A question with the function that answers it."""

    name: str
    question: str
    run: Callable[[Budget], Findings]


def compared(budget: Budget, model: Any, candidates: Sequence[str], **given: Any) -> Comparison:
    """Compare candidates within a budget; the other arguments are those of `compare`."""
    return compare(
        model,
        candidates,
        threads=budget.threads,
        rounds=budget.rounds,
        sessions=budget.sessions,
        block_s=budget.block_s,
        seed=0,
        **given,
    )


def verdict(row: CandidateRow) -> str:
    """Return a row's ratio to the base with its interval and verdict, "" for the base."""
    if row.ratio is None:
        return ""
    return f"{row.ratio:.2f} ({row.low:.2f} to {row.high:.2f}), {row.verdict}"


def not_equal(comparison: Comparison) -> Findings:
    """Return the findings of a comparison whose outputs differ."""
    cells = [[str(mismatch)] for mismatch in comparison.mismatches]
    return Findings(
        [("outputs differ: nothing was timed", ["output"], cells)],
        {"mismatches": [row[0] for row in cells]},
        lambda axes: None,
        agrees=False,
    )


__all__ = ["QUICK", "Budget", "Experiment", "Findings", "compared", "not_equal", "verdict"]
