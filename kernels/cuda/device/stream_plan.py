"""Divide the commands of a program among streams.

This file only decides; `accelerator.py` captures. The rates, costs and limits here are estimates
for an H100: whether and how much a fork pays has to be measured on the card.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tfjit.kernels.ir.accelerator import Command, CommandOrder, Copy, Fill, KernelLaunch

STREAMS: Final = 4
"""The most streams of a program."""
EDGE_US: Final = 3.0
"""The delay of a command that waits for one of another stream."""
BRANCH_US: Final = 6.0
"""The work that a new branch has to hold, and the time by which it has to start earlier.

A fork and its join cost two edges.
"""
START: Final = -1
"""Stands for the begin of the program in `Place.waits`."""

_LAUNCH_US: Final = 2.0  # of any command in a graph
_HOST_BYTES_PER_US: Final = 25e3
_BYTES_PER_US: Final = 2e6
_FLOPS_PER_US: Final = 20e6
_FILLING_THREADS: Final = 1024  # of a multiprocessor: half of those that it holds
_FILLING_SHARE: Final = 0.5


@dataclass(frozen=True, slots=True)
class Work:
    """The predicted work of one command.

    us: its time alone. engine: a part of the device that does one such command at a time, or "":
    copies from the host and to it have one each; "all" are kernels that fill the multiprocessors.
    """

    us: float
    engine: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """The stream of a command, and the commands of other streams that it waits for."""

    stream: int
    waits: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """The places of all commands. joins: commands that the first stream waits for at the end."""

    places: tuple[Place, ...]
    joins: tuple[int, ...] = ()

    @property
    def streams(self) -> int:
        """Return the number of streams."""
        return max([place.stream for place in self.places], default=0) + 1


def predict(commands: Sequence[Command], order: CommandOrder, multiprocessors: int) -> list[Work]:
    """Return the predicted work of commands.

    A kernel has the rates of the device in the measure in which its threads fill it.
    """
    return [
        _predicted(command, moved_bytes, flops, multiprocessors)
        for command, moved_bytes, flops in zip(
            commands, order.moved_bytes, order.flops, strict=True
        )
    ]


def _predicted(command: Command, moved_bytes: int, flops: int, multiprocessors: int) -> Work:
    if isinstance(command, Copy) and command.direction != "within":
        return Work(_LAUNCH_US + command.nbytes / _HOST_BYTES_PER_US, command.direction)
    if isinstance(command, Copy | Fill):
        us = 2 * command.nbytes / _BYTES_PER_US
        return Work(_LAUNCH_US + us, "all" if us > _LAUNCH_US else "")
    us = max(moved_bytes / _BYTES_PER_US, flops / _FLOPS_PER_US)
    share = 1.0
    if isinstance(command, KernelLaunch):
        threads = 1
        for extent in (*command.grid, *command.block):
            threads *= extent
        share = min(1.0, threads / (multiprocessors * _FILLING_THREADS))
    return Work(_LAUNCH_US + us / share, "all" if share > _FILLING_SHARE else "")


def plan_streams(
    works: Sequence[Work], follows: Sequence[Sequence[int]], most: int = STREAMS
) -> StreamPlan:
    """Return the streams of commands that wait for the ones they follow.

    Commands are taken in order, with a clock for each stream and engine. A command stays in the
    stream where it waits for the fewest others, if possible that of the last one it follows. It
    goes elsewhere, and perhaps opens a stream, only where it starts earlier by `BRANCH_US` and the
    chain that it begins has as much work. So a chain has one stream, kernels that fill the device
    stay one behind the other, and a large copy, or a chain of small kernels, runs beside others.
    """
    walk = _Walk(works, follows, most)
    for command in range(len(works)):
        walk.place(command)
    return StreamPlan(tuple(walk.places), walk.joins())


class _Walk:
    """One walk over commands.

    free, engines: the times at which streams and engines are done. seen: for each stream, the
    newest command of each stream that is done before its next one.
    """

    def __init__(self, works: Sequence[Work], follows: Sequence[Sequence[int]], most: int) -> None:
        self._works, self._follows = works, follows
        self._chains = _chains(works, follows)
        self._free = [0.0] * most
        self._engines: dict[str, float] = {}
        self._opened = 1
        none = START - 1
        self._seen = [[START, *[none] * (most - 1)]]
        self._seen += [[none] * most for _ in range(most - 1)]
        self._known: list[list[int]] = []  # of each command: what is done when it is
        self._ends: list[float] = []
        self.places: list[Place] = []

    def place(self, command: int) -> None:
        """Choose the stream of the next command."""
        before = self._follows[command]
        home = 0
        if before:
            home = self.places[max(before, key=self._ends.__getitem__)].stream
        choices = []
        for stream in range(min(self._opened + 1, len(self._free))):
            waits = self._waits(command, stream)
            choices.append((self._start(command, stream, waits), len(waits), stream, waits))
        stay = min(choices, key=lambda c: (c[1], c[2] != home, c[0], c[2]))
        best = min(choices)
        pays = best[0] + BRANCH_US <= stay[0] and self._chains[command] >= BRANCH_US
        start, _, stream, waits = best if pays else stay
        work = self._works[command]
        end = start + work.us
        self._free[stream] = end
        self._ends.append(end)
        if work.engine:
            self._engines[work.engine] = end
        self._opened = max(self._opened, stream + 1)
        seen = self._seen[stream]
        for earlier in waits:
            self._see(seen, earlier)
        seen[stream] = command
        self._known.append(list(seen))
        self.places.append(Place(stream, waits))

    def joins(self) -> tuple[int, ...]:
        """Return the last commands of streams that the first one has not seen."""
        last = {place.stream: command for command, place in enumerate(self.places)}
        return self._unseen(0, [last[stream] for stream in sorted(last)])

    def _waits(self, command: int, stream: int) -> tuple[int, ...]:
        """Return the commands that a stream has to wait for, before it has another one."""
        waits = self._unseen(stream, self._follows[command])
        is_new = self._seen[stream][0] < START
        return waits or ((START,) if is_new else ())

    def _unseen(self, stream: int, commands: Sequence[int]) -> tuple[int, ...]:
        seen = list(self._seen[stream])
        found = []
        for earlier in sorted(commands, reverse=True):
            if seen[self.places[earlier].stream] < earlier:
                found.append(earlier)
                self._see(seen, earlier)
        return tuple(reversed(found))

    def _see(self, seen: list[int], earlier: int) -> None:
        """Note a wait for a command, and so for all that is done before it."""
        known = self._known[earlier] if earlier != START else [START]
        for stream, newest in enumerate(known):
            seen[stream] = max(seen[stream], newest)

    def _start(self, command: int, stream: int, waits: Sequence[int]) -> float:
        """Return the predicted start of a command in a stream."""
        start = max(self._free[stream], self._engines.get(self._works[command].engine, 0.0))
        for earlier in waits:
            start = max(start, (self._ends[earlier] if earlier != START else 0.0) + EDGE_US)
        return start


def _chains(works: Sequence[Work], follows: Sequence[Sequence[int]]) -> list[float]:
    """Return the work of each command with the commands that wait for it longest.

    Each command belongs to the last one that it follows, if all start as early as they may.
    """
    ends: list[float] = []
    for work, before in zip(works, follows, strict=True):
        ends.append(work.us + max([ends[earlier] for earlier in before], default=0.0))
    found = [work.us for work in works]
    for command in range(len(works) - 1, -1, -1):
        if follows[command]:
            latest = max(follows[command], key=lambda earlier: (ends[earlier], earlier))
            found[latest] += found[command]
    return found


__all__ = [
    "BRANCH_US",
    "EDGE_US",
    "START",
    "STREAMS",
    "Place",
    "StreamPlan",
    "Work",
    "plan_streams",
    "predict",
]
