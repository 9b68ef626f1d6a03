"""Search for the first bad event limit, and describe the answer."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Final

FURTHER: Final = 3
"""Limits to try on each side of a found one."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One run with an event limit.

    limit: None for none. detail: the reason for the judgement.
    """

    limit: int | None
    good: bool
    detail: str = ""

    def __str__(self) -> str:
        limit = "all rewrites" if self.limit is None else f"{self.limit} rewrites"
        return (
            f"{limit}: {'good' if self.good else 'bad'}{f', {self.detail}' if self.detail else ''}"
        )


@dataclass(frozen=True, slots=True)
class Culprit:
    """The rewrite from which on a run is bad.

    number: as an event limit counts. before, after: the changed nodes and their neighbours, as
    graph text. changes: the changed lines alone.
    """

    number: int
    pass_name: str
    where: str = ""
    rule: str = ""
    node: str = ""
    reason: str = ""
    before: str = ""
    after: str = ""
    changes: str = ""

    def __str__(self) -> str:
        rule = f" ({self.rule})" if self.rule else ""
        place = self.where.rpartition("/device:")[2]
        lines = [
            f"pass {self.pass_name}{rule}{f' in {place}' if place else ''}, rewrite {self.number}: "
            f"{self.node + ' ' if self.node else ''}{self.reason}"
        ]
        for title, text in (("before", self.before), ("after", self.after)):
            if text:
                lines += [f"{title}:", *(f"  {line}" for line in text.splitlines())]
        if not self.before and not self.after and self.changes:
            lines += [f"  {line}" for line in self.changes.splitlines()]
        return "\n".join(lines)


@dataclass(frozen=True)
class Bisection:
    """The rewrite from which on a run is wrong or slow.

    culprit: None where there is none, with the reason in `note`. rewrites: of the run without a
    limit. trials: every run, in order. exceptions: limits that were judged otherwise than by the
    culprit, where the answer is one of several.
    """

    culprit: Culprit | None
    rewrites: int
    trials: tuple[Trial, ...]
    exceptions: tuple[Trial, ...] = ()
    note: str = ""

    @property
    def is_monotone(self) -> bool:
        """Return whether every tried limit agrees with the culprit."""
        return not self.exceptions

    def as_json(self) -> dict[str, object]:
        """Return the answer as values that JSON has."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [str(self.culprit)] if self.culprit is not None else []
        lines += [self.note] if self.note else []
        if self.exceptions:
            lines.append("the judgement is not monotone; another rewrite may be at fault too:")
            lines += [f"  {trial}" for trial in self.exceptions]
        lines.append(f"{self.rewrites} rewrites, {len(self.trials)} runs")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{'all' if t.limit is None else t.limit}</td>"
            f"<td>{'good' if t.good else 'bad'}</td><td>{html.escape(t.detail)}</td></tr>"
            for t in self.trials
        )
        found = self.culprit
        graphs = ""
        if found is not None:
            cells = "".join(
                f"<td><pre>{html.escape(t)}</pre></td>" for t in (found.before, found.after)
            )
            title = html.escape(str(found).splitlines()[0])
            head = "<tr><th>before</th><th>after</th></tr>"
            graphs = f"<p>{title}</p><table>{head}<tr>{cells}</tr></table>"
        return (
            f"{graphs}<p>{html.escape(self.note)}</p><details><summary>{len(self.trials)} runs"
            f"</summary><table><tr><th>limit</th><th>result</th><th></th></tr>{rows}</table>"
            "</details>"
        )


@dataclass(slots=True)
class Search:
    """A binary search over event limits.

    judge: limit -> (whether the run is good, the reason).
    """

    judge: Callable[[int | None], tuple[bool, str]]
    trials: list[Trial] = field(default_factory=list)

    def first_bad(self, rewrites: int) -> int:
        """Return a bad limit, where one rewrite fewer is good.

        rewrites: a bad limit; 0 is a good one.
        """
        good, bad = 0, rewrites
        while bad - good > 1:
            middle = (good + bad) // 2
            if self.try_limit(middle).good:
                good = middle
            else:
                bad = middle
        return bad

    def try_limit(self, limit: int | None) -> Trial:
        """Return the judgement of a limit; each is tried once."""
        for trial in self.trials:
            if trial.limit == limit:
                return trial
        trial = Trial(limit, *self.judge(limit))
        self.trials.append(trial)
        return trial

    def exceptions(self, found: int, rewrites: int, further: int = FURTHER) -> tuple[Trial, ...]:
        """Return tried limits that disagree with the found one.

        further: limits to try on each side of it first.
        """
        for k in range(1, further + 1):
            self.try_limit(found * k // (further + 1))
            self.try_limit(found + (rewrites - found) * k // (further + 1))
        return tuple(
            trial
            for trial in sorted(self.trials, key=lambda t: -1 if t.limit is None else t.limit)
            if trial.limit is not None and trial.good != (trial.limit < found)
        )


__all__ = ["Bisection", "Culprit", "Search", "Trial"]
