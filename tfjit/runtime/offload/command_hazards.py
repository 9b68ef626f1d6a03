"""Find the commands that each command of a program has to follow.

Commands conflict where both use a byte and one of them writes it. All that a program does by itself
follows from this: a kernel behind the one that makes its input, a value placed where another one
has died, an update behind the last read. This file only decides.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

Range = tuple[int, int]
"""The first address, and the one behind the last."""

EVERYTHING: Final[Range] = (0, 1 << 64)
"""All addresses, for a command of unknown memory."""

MOST_VISITS: Final = 1 << 20
"""Visits of ranges from which on commands simply follow each other.

A program of 16384 commands that use whole values takes some ten thousand.
"""


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """The ranges of addresses that a command reads, and that it writes."""

    reads: tuple[Range, ...] = ()
    writes: tuple[Range, ...] = ()


Follows = tuple[tuple[int, ...], ...]
"""For each command, the numbers of earlier ones that it waits for."""


@dataclass(slots=True)
class _Segment:
    """Bytes with one history: their last writer, and its readers since then."""

    writer: int
    readers: list[int]


class _Memory:
    """All addresses, as segments.

    visits: the segments and readers looked at so far.
    """

    def __init__(self) -> None:
        self._starts = [0]
        self._segments = [_Segment(-1, [])]
        self.visits = 0

    def meet(self, span: Range, writes: bool, found: set[int]) -> None:
        """Add the commands that a use of bytes conflicts with."""
        for segment in self._within(span):
            if segment.writer >= 0:
                found.add(segment.writer)
            if writes:
                found.update(segment.readers)
                self.visits += len(segment.readers)

    def read(self, span: Range, command: int, before: int) -> None:
        """Note a reader. before: the commands that come before it, as bits."""
        for segment in self._within(span):
            readers = segment.readers
            # the last one of a chain of readers is enough
            if readers and before >> readers[-1] & 1:
                readers[-1] = command
            elif not readers or readers[-1] != command:
                readers.append(command)

    def write(self, span: Range, command: int) -> None:
        """Note a writer."""
        first, end = self._cut(span[0]), self._cut(span[1])
        self._starts[first:end] = [span[0]]
        self._segments[first:end] = [_Segment(command, [])]

    def _within(self, span: Range) -> list[_Segment]:
        first, end = self._cut(span[0]), self._cut(span[1])
        self.visits += end - first
        return self._segments[first:end]

    def _cut(self, address: int) -> int:
        """Let a segment start at an address; return its number."""
        at = bisect_left(self._starts, address)
        if at == len(self._starts) or self._starts[at] != address:
            before = self._segments[at - 1]
            self._starts.insert(at, address)
            self._segments.insert(at, _Segment(before.writer, list(before.readers)))
        return at


def find_hazards(uses: Sequence[MemoryUse]) -> Follows:
    """Return the commands that each command has to follow.

    Of two commands that conflict, the later one follows the earlier, perhaps through others. Each
    pair that is returned conflicts, and none follows from other pairs.
    """
    memory = _Memory()
    reach: list[int] = []  # the commands that come before, as bits
    follows: list[tuple[int, ...]] = []
    for command, use in enumerate(uses):
        reads, writes = _filled(use.reads), _filled(use.writes)
        found: set[int] = set()
        for span in reads:
            memory.meet(span, False, found)
        for span in writes:
            memory.meet(span, True, found)
        kept, before = _reduced(found, reach)
        follows.append(kept)
        reach.append(before)
        for span in reads:
            memory.read(span, command, before)
        for span in writes:
            memory.write(span, command)
        if memory.visits > MOST_VISITS:
            return in_sequence(len(uses))
    return tuple(follows)


def _filled(spans: Sequence[Range]) -> list[Range]:
    return [span for span in spans if span[0] < span[1]]


def _reduced(found: Iterable[int], reach: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """Return the commands that no other one follows, and all before."""
    kept: list[int] = []
    before = 0
    for command in sorted(found, reverse=True):
        if not before >> command & 1:
            kept.append(command)
            before |= reach[command] | 1 << command
    return tuple(reversed(kept)), before


def in_sequence(count: int) -> Follows:
    """Return the order in which each command follows the one before."""
    return tuple([(command - 1,) if command else () for command in range(count)])


def depths(follows: Follows) -> list[int]:
    """Return the length of the longest chain before each command."""
    found: list[int] = []
    for before in follows:
        found.append(1 + max([found[command] for command in before], default=-1))
    return found


__all__ = [
    "EVERYTHING",
    "MOST_VISITS",
    "Follows",
    "MemoryUse",
    "Range",
    "depths",
    "find_hazards",
    "in_sequence",
]
