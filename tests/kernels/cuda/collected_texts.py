"""Compile collected texts and find their faults: refusals, launches that do not fit, spills."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, Final

from tfjit.kernels.cuda.device import compiler
from tfjit.kernels.jit.object_file import Refused

_REGISTERS: Final = 65536
"""Registers of a multiprocessor; those of a block have to fit."""
_GRANULE: Final = 8
"""Threads have registers in multiples of it."""
_MOST_THREADS: Final = 1024
_MOST_ROWS: Final = 65535
"""Blocks of a grid along y and along z."""
_MOST_SHARED: Final = 48 << 10
"""Bytes of shared memory of a kernel that asks for no more."""
_RESERVED: Final = 1 << 10
"""Bytes of shared memory that the hardware adds from sm_80 on."""
_COUNTED: Final = {
    "vectors": r"(ld|st)\.global\S*\.v[24]\.",
    "elements": r"(ld|st)\.global(?!\S*\.v[24]\.)",
    "float64": r"^\s*(add|sub|mul|fma|div|min|max|cvt)\.\S*f64",
    "local": r"(ld|st)\.local",
    "calls": r"^\s*call",
}
"""Instructions of PTX that are counted."""

_NONE: Final = compiler.Resources(0, 0, 0)

Form = tuple[tuple[int, ...], tuple[int, ...], int]
"""Grid, block and bytes of dynamic shared memory of a launch."""


@dataclass(slots=True)
class CollectedText:
    """A kernel, the forms of its launches, and the tests and programs that build them."""

    text: str
    entries: tuple[str, ...]
    arity: int
    title: str
    writer: str
    forms: set[Form] = field(default_factory=set)
    origins: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of compiling a text for an architecture.

    refused: the reason, or "". resources: the most that one of its kernels takes. counts: of
    instructions in PTX. warnings: of the linker.
    """

    digest: str
    architecture: str
    refused: str = ""
    resources: compiler.Resources = _NONE
    counts: tuple[tuple[str, int], ...] = ()
    warnings: tuple[str, ...] = ()

    def faults(self, one: CollectedText) -> Iterator[str]:
        """Yield each reason why a GPU could not run the text, or would run it slowly."""
        if self.refused:
            yield f"refused: {self.refused}"
            return
        registers = -(-self.resources.registers // _GRANULE) * _GRANULE
        for grid, block, dynamic in sorted(one.forms):
            threads = -(-prod(block) // 32) * 32
            if threads > _MOST_THREADS:
                yield f"a block of {threads} threads"
            if threads * registers > _REGISTERS:
                yield f"{threads} threads of {registers} registers in a block"
            if max(grid[1:]) > _MOST_ROWS:
                yield f"a grid of {grid} blocks"
            if self.resources.shared_bytes - _RESERVED + dynamic > _MOST_SHARED:
                yield f"{self.resources.shared_bytes} + {dynamic} bytes of shared memory"
        if self.resources.local_bytes:
            yield f"{self.resources.local_bytes} bytes of local memory"
        yield from self.warnings


def read_texts(folder: Path) -> dict[str, CollectedText]:
    """Return the texts that `LaunchCollection` has written, by digest."""
    rows: list[dict[str, Any]] = [
        json.loads(line)
        for file in sorted(folder.glob("*.jsonl"))
        for line in file.read_text(encoding="utf-8").splitlines()
    ]
    found: dict[str, CollectedText] = {}
    # a process writes a text once, in its first form
    for row in sorted(rows, key=lambda row: not row["text"]):
        parts = row["text"], tuple(row["entries"]), row["arity"], row["title"], row["writer"]
        one = found.setdefault(row["digest"], CollectedText(*parts))
        one.forms.add((tuple(row["grid"]), tuple(row["block"]), row["shared_bytes"]))
        one.origins.add(row["origin"])
    return found


def compiled(request: tuple[str, CollectedText, str]) -> Outcome:
    """Return the outcome for a digest, its text and an architecture."""
    digest, one, architecture = request
    most = _NONE
    counts: Counter[str] = Counter()
    warnings: list[str] = []
    try:
        for entry in one.entries:
            ptx = compiler.ptx_of(one.text, one.arity, architecture, entry)
            taken, log = compiler.linked(ptx, architecture)
            most = compiler.Resources(
                max(most.registers, taken.registers),
                max(most.shared_bytes, taken.shared_bytes),
                max(most.local_bytes, taken.local_bytes),
            )
            warnings += [line for line in log.splitlines() if "warning" in line.lower()]
            for name, pattern in _COUNTED.items():
                counts[name] += len(re.findall(pattern, ptx, re.MULTILINE))
    except Refused as why:
        return Outcome(digest, architecture, str(why))
    return Outcome(digest, architecture, "", most, tuple(sorted(counts.items())), tuple(warnings))


__all__ = ["CollectedText", "Outcome", "compiled", "read_texts"]
