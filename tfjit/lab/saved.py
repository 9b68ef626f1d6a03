"""Save benches by name, and compare new ones with them.

Two measurements at two times share no rounds, so more is taken for noise than within one: the
spread of the sessions (Student's interval), half the spread of the moments, and the change of a
yardstick, fixed work that was timed beside both. Less than 3 % is never called a difference.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from tfjit.lab.bench_cases import Bench
from tfjit.lab.measure.ratio import CONFIDENCE, Verdict, judged, session_noise
from tfjit.lab.measure.rounds import spread
from tfjit.lab.measure.signed_rank import Interval
from tfjit.lab.table import Table, html_table, microseconds, text_table

LEAST_NOISE: Final = 0.03
_VERSION: Final = 1
_NAME: Final = re.compile(r"[\w][\w.+-]*")


@dataclass(frozen=True, slots=True)
class Change:
    """One candidate's time in a case, now and when it was saved.

    ratio: now over then. noise: the ratio, less 1, that equal code may show. yardstick: the ratio
    of the fixed work, now over then.
    """

    case: str
    name: str
    us: float
    saved_us: float
    ratio: float
    low: float
    high: float
    noise: float
    yardstick: float
    verdict: Verdict


@dataclass(frozen=True)
class Changes:
    """The changes since a saved bench; `str()` is their text.

    notes: other versions and models than in the saved one, and cases that only one has.
    """

    saved: str
    rows: list[Change] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, object]:
        """Return the changes as JSON's types."""
        return asdict(self) | {"confidence": CONFIDENCE}

    def tables(self) -> list[Table]:
        """Return (title, heading, cells) of the table."""
        heading = [f"since {self.saved!r}", "candidate", "us now", "us then", "ratio"]
        cells = [
            [
                *(row.case, row.name, microseconds(row.us), microseconds(row.saved_us)),
                *(f"{row.ratio:.3f}", f"{row.low:.3f} to {row.high:.3f}"),
                *(f"{row.noise:.1%}", f"{row.yardstick:.3f}", row.verdict),
            ]
            for row in self.rows
        ]
        ends = [f"{CONFIDENCE:.0%} interval", "noise", "yardstick", "verdict"]
        return [("changes", [*heading, *ends], cells)]

    def __str__(self) -> str:
        tables = [text_table(heading, cells, 2) for _, heading, cells in self.tables()]
        return "\n".join([*tables, *self.notes])

    def _repr_html_(self) -> str:
        import html

        lines = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        return f"<div>{''.join(html_table(*table) for table in self.tables())}{lines}</div>"


def bench_folder() -> Path:
    """Return the user's folder of saved benches, in XDG_STATE_HOME or ~/.local/state."""
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "tfjit" / "bench"


def saved_path(name: str, folder: Path | None = None) -> Path:
    """Return the file of a name.

    Raises ValueError for a name that is no file name.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r}: a saved bench is named by letters, digits and . _ + -")
    return (folder or bench_folder()) / f"{name}.json"


def save_bench(bench: Bench, name: str, folder: Path | None = None) -> Path:
    """Write a bench under a name, replacing any earlier; return the file."""
    path = saved_path(name, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"version": _VERSION} | bench.as_json(), indent=1)
    unfinished = path.with_suffix(f".{os.getpid()}.tmp")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)
    return path


def load_bench(name: str, folder: Path | None = None) -> dict[str, Any]:
    """Return the figures of a saved bench.

    Raises ValueError for a name without a file, with the names that there are, and for a file of
    another form.
    """
    path = saved_path(name, folder)
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in path.parent.glob("*.json"))) or "none"
        raise ValueError(f"there is no saved bench {name!r} in {path.parent}: it has {known}")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is no saved bench: {error}") from None
    needed = {"version", "machine", "digest", "yardstick_us", "round_us", "model"}
    if not isinstance(found, dict) or not needed <= set(found) or found["version"] != _VERSION:
        raise ValueError(f"{path} is no saved bench of version {_VERSION}")
    return found


def changes_since(bench: Bench, saved: dict[str, Any], name: str) -> Changes:
    """Return the changes of a bench since a saved one.

    saved: of `load_bench`. Raises ValueError where the two are of two machines, or have no case in
    common.
    """
    now, then = asdict(bench.machine), saved["machine"]
    for fact in ("cpu", "cores"):
        if now[fact] != then.get(fact):
            raise ValueError(
                f"{name!r} was measured on another machine ({fact}: {then.get(fact)}, here "
                f"{now[fact]}): its times say nothing about a change"
            )
    found = Changes(name)
    if saved["digest"] != bench.digest:
        found.notes.append(f"the graph is not that of {name!r} ({saved['model']})")
    for package in sorted(set(now["versions"]) | set(then["versions"])):
        here, there = now["versions"].get(package), then["versions"].get(package)
        if here != there:
            found.notes.append(f"{package} is {here or 'absent'}, and was {there or 'absent'}")
    for case in dict.fromkeys((*bench.round_us, *saved["round_us"])):
        mine, others = bench.round_us.get(case), saved["round_us"].get(case)
        if mine is None or others is None:
            found.notes.append(f"only {'now' if others is None else 'then'}: case {case}")
            continue
        for candidate in dict.fromkeys((*mine, *others)):
            if candidate not in mine or candidate not in others:
                when = "now" if candidate in mine else "then"
                found.notes.append(f"only {when}: {candidate} in case {case}")
                continue
            yardstick = bench.yardstick_us[case] / saved["yardstick_us"][case]
            found.rows.append(
                change_of(case, candidate, mine[candidate], others[candidate], yardstick)
            )
    if not found.rows:
        raise ValueError(f"{name!r} has no case and candidate of this bench: nothing to compare")
    return found


def change_of(
    case: str,
    name: str,
    now: Sequence[Sequence[float]],
    then: Sequence[Sequence[float]],
    yardstick: float,
) -> Change:
    """Return a candidate's change.

    now, then: by session, the times of the rounds.
    """
    logarithms = [np.log(np.asarray(times)) for times in (now, then)]
    here, there = (float(np.median(times)) for times in logarithms)
    width = session_noise(logarithms)
    moments = max(spread([us for session in times for us in session]) for times in (now, then)) / 2
    noise = max(math.log1p(LEAST_NOISE), moments + abs(math.log(yardstick)))
    shift = here - there
    ratio = judged(Interval(shift, shift - width, shift + width), noise)
    return Change(
        *(case, name, math.exp(here), math.exp(there), ratio.ratio, ratio.low, ratio.high),
        *(ratio.noise, yardstick, ratio.verdict),
    )


__all__ = [
    "Change",
    "Changes",
    "bench_folder",
    "change_of",
    "changes_since",
    "load_bench",
    "save_bench",
]
