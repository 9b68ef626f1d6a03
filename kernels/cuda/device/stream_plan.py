"""Divide the commands of a program among streams.

This file only decides; `graph_capture.py` captures. The rates, costs and limits here are estimates
for an H100: whether and how much a fork pays has to be measured on the card.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tfjit.kernels.ir.accelerator import Command, CommandOrder, Copy, Fill, KernelLaunch

STREAMS: Final = 4
"""The most streams of a program."""
EDGE_US: Final = 3.0
"""The delay of a command that waits for one of another stream."""
BRANCH_US: Final = 6.0
"""The least work of a new branch, and time it saves.

A fork and its join cost two edges.
"""
LEAST_SAVED: Final = 0.05
"""The part of a program's time that several streams have to save."""
START: Final = -1
"""The begin of the program, in `Place.waits`."""

_LAUNCH_US: Final = 2.0  # of any command in a graph
_HOST_BYTES_PER_US: Final = 25e3
_BYTES_PER_US: Final = 2e6
_FLOPS_PER_US: Final = 20e6
_LOADING_THREADS: Final = 512  # of a multiprocessor, enough to keep its memory busy
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
    """The stream of a command.

    waits: the places of commands of other streams that it waits for.
    """

    stream: int
    waits: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """The streams of all commands.

    sequence: the numbers of the commands, in the order in which they are captured. places: of these
    commands in this order, in which waits count. joins: the ones that the first stream waits for at
    the end.
    """

    sequence: tuple[int, ...]
    places: tuple[Place, ...]
    joins: tuple[int, ...] = ()

    @property
    def streams(self) -> int:
        """Return the number of streams."""
        return max([place.stream for place in self.places], default=0) + 1


def predict(commands: Sequence[Command], order: CommandOrder, multiprocessors: int) -> list[Work]:
    """Return the predicted work of commands.

    A kernel has the rates of the device in the measure in which it fills it: with a block for each
    multiprocessor where it computes more than it moves, else with threads that load.
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
    moving, computing = moved_bytes / _BYTES_PER_US, flops / _FLOPS_PER_US
    us, share = max(moving, computing), 1.0
    if isinstance(command, KernelLaunch):
        units = float(math.prod(command.grid))
        if moving > computing:
            units = units * math.prod(command.block) / _LOADING_THREADS
        share = min(1.0, units / multiprocessors)
    return Work(_LAUNCH_US + us / share, "all" if share > _FILLING_SHARE else "")


def plan_streams(
    works: Sequence[Work], follows: Sequence[Sequence[int]], most: int = STREAMS
) -> StreamPlan:
    """Return the streams of commands.

    follows: for each command, the earlier ones that it waits for. Copies from the host are taken
    first, in order. The other commands are taken chain by chain, the longest chains first, with a
    clock for each stream and engine. A command stays in the stream where it waits for the fewest
    others, rather in that of the last one it follows. It goes elsewhere, and perhaps opens a
    stream, only where it starts earlier by `BRANCH_US` and begins a chain with as much work. So a
    chain has one stream, kernels that fill the device stay one behind the other, and a large copy,
    or a chain of small kernels, runs beside others. If all of it saves less than `LEAST_SAVED`,
    there is one stream.
    """
    chains = _chains(works, follows)
    feeds = [
        command
        for command, work in enumerate(works)
        if work.engine == "in" and not follows[command]
    ]
    sequence = _sequence(feeds, chains, follows)
    position = {command: place for place, command in enumerate(sequence)}
    scheduling = _Scheduling(
        [works[command] for command in sequence],
        [sorted([position[earlier] for earlier in follows[command]]) for command in sequence],
        most,
    )
    for place, command in enumerate(sequence):
        scheduling.place(place, chains[command])
    alone = sum([work.us for work in works])
    if scheduling.end > alone * (1 - LEAST_SAVED):
        return StreamPlan(tuple(range(len(works))), (Place(0),) * len(works))
    return StreamPlan(tuple(sequence), tuple(scheduling.places), scheduling.joins())


def _chains(works: Sequence[Work], follows: Sequence[Sequence[int]]) -> list[float]:
    """Return the work of the longest chain that each command begins."""
    found = [work.us for work in works]
    behind = [0.0] * len(works)
    for command in range(len(works) - 1, -1, -1):
        found[command] += behind[command]
        for earlier in follows[command]:
            behind[earlier] = max(behind[earlier], found[command])
    return found


def _sequence(
    first: Sequence[int], urgency: Sequence[float], follows: Sequence[Sequence[int]]
) -> list[int]:
    """Return the commands chain by chain, the most urgent ones first.

    first: commands without others before them that come at the begin.
    """
    behind: list[list[int]] = [[] for _ in follows]
    for command, before in enumerate(follows):
        for earlier in before:
            behind[earlier].append(command)
    waiting = [len(before) for before in follows]
    is_taken = [False] * len(follows)
    found: list[int] = []
    ready = [(-urgency[command], command) for command, count in enumerate(waiting) if not count]
    heapq.heapify(ready)

    def take(command: int) -> list[int]:
        """Append a command; return those that need no other one now."""
        is_taken[command] = True
        found.append(command)
        freed = []
        for later in behind[command]:
            waiting[later] -= 1
            if not waiting[later]:
                heapq.heappush(ready, (-urgency[later], later))
                freed.append(later)
        return freed

    for command in first:
        take(command)
    while ready:
        _, command = heapq.heappop(ready)
        freed = [] if is_taken[command] else take(command)
        while freed:
            freed = take(max(freed, key=lambda later: (urgency[later], -later)))
    return found


class _Engine:
    """The times at which an engine is busy, as spans in order."""

    def __init__(self) -> None:
        self._starts: list[float] = []
        self._ends: list[float] = []

    def first_gap(self, start: float, us: float) -> float:
        """Return the first time at which it is idle for so long."""
        at = bisect_right(self._starts, start) - 1
        if at >= 0:
            start = max(start, self._ends[at])
        at += 1
        while at < len(self._starts) and self._starts[at] < start + us:
            start = self._ends[at]
            at += 1
        return start

    def take(self, start: float, us: float) -> None:
        """Let it be busy."""
        at = bisect_right(self._starts, start)
        end = start + us
        if at < len(self._starts) and self._starts[at] <= end:
            end = self._ends.pop(at)
            del self._starts[at]
        if at and self._ends[at - 1] >= start:
            self._ends[at - 1] = end
        else:
            self._starts.insert(at, start)
            self._ends.insert(at, end)


class _Scheduling:
    """The state of a division of commands.

    free: the times at which streams are done. engines: their busy times. seen: for each stream, the
    newest command of each stream that is done before its next one.
    """

    def __init__(self, works: Sequence[Work], follows: Sequence[Sequence[int]], most: int) -> None:
        self._works, self._follows = works, follows
        self._free = [0.0] * most
        self._engines: defaultdict[str, _Engine] = defaultdict(_Engine)
        self._opened = 1
        none = START - 1
        self._seen = [[START, *[none] * (most - 1)]]
        self._seen += [[none] * most for _ in range(most - 1)]
        self._known: list[list[int]] = []  # of each command: what is done when it is
        self._ends: list[float] = []
        self.places: list[Place] = []

    def place(self, command: int, chain: float) -> None:
        """Choose the stream of the next command.

        chain: the work that it begins.
        """
        before = self._follows[command]
        home = 0
        if before:
            home = self.places[max(before, key=self._ends.__getitem__)].stream
        choices = []
        for stream in range(min(self._opened + 1, len(self._free))):
            waits = self._waits(command, stream)
            choices.append((self._start(command, stream, waits), len(waits), stream, waits))
        stay = min(choices, key=lambda c: (c[1], c[0] - BRANCH_US * (c[2] == home), c[2]))
        best = min(choices)
        pays = best[0] + BRANCH_US <= stay[0] and chain >= BRANCH_US
        start, _, stream, waits = best if pays else stay
        work = self._works[command]
        end = start + work.us
        self._free[stream] = end
        self._ends.append(end)
        if work.engine:
            self._engines[work.engine].take(start, work.us)
        self._opened = max(self._opened, stream + 1)
        seen = self._seen[stream]
        for earlier in waits:
            self._see(seen, earlier)
        seen[stream] = command
        self._known.append(list(seen))
        self.places.append(Place(stream, waits))

    @property
    def end(self) -> float:
        """Return the predicted time of all commands so far."""
        return max(self._free)

    def joins(self) -> tuple[int, ...]:
        """Return the ends of streams that the first one has not seen."""
        last = {place.stream: command for command, place in enumerate(self.places)}
        return self._unseen(0, [last[stream] for stream in sorted(last)])

    def _waits(self, command: int, stream: int) -> tuple[int, ...]:
        """Return the commands that a stream waits for, before another one."""
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
        """Note a wait for a command, and for all before it."""
        known = self._known[earlier] if earlier != START else [START]
        for stream, newest in enumerate(known):
            seen[stream] = max(seen[stream], newest)

    def _start(self, command: int, stream: int, waits: Sequence[int]) -> float:
        """Return the predicted start of a command in a stream."""
        start = self._free[stream]
        for earlier in waits:
            start = max(start, (self._ends[earlier] if earlier != START else 0.0) + EDGE_US)
        work = self._works[command]
        return self._engines[work.engine].first_gap(start, work.us) if work.engine else start


__all__ = [
    "BRANCH_US",
    "EDGE_US",
    "LEAST_SAVED",
    "START",
    "STREAMS",
    "Place",
    "StreamPlan",
    "Work",
    "plan_streams",
    "predict",
]
