"""The stamps and outputs that a program leaves while it runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(slots=True)
class Record:
    """One run of a program, as its process writes it.

    ends_s: the end of each step, in seconds since the session was made. cpu_s: processor seconds
    of the process at the same moments. outputs: an array of numbers for each step that gave one.
    built_s: the time that building the graph took. built_rss_mb: resident memory when the session
    was made. peak_rss_mb: the most resident memory from then on. helper_rss_mb: the most memory of
    any child process at the end. total_cpu_s: processor seconds since the session was made, child
    processes included. others: cores that other programs kept busy meanwhile.
    """

    library: str
    ends_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    outputs: list[list[float]] = field(default_factory=list)
    built_s: float = 0.0
    built_rss_mb: float = 0.0
    peak_rss_mb: float = 0.0
    helper_rss_mb: float = 0.0
    total_cpu_s: float = 0.0
    helper_cpu_s: float = 0.0
    others: float = 0.0
    step_wall: dict[str, float] = field(default_factory=dict)
    stage_cpu: dict[str, float] = field(default_factory=dict)
    complete: bool = False
    failure: str = ""


class Recorder:
    """Stamp the steps of a running program.

    A program calls `start` just before it makes its session, then loops over `steps()`. open: makes
    the session from TensorFlow's module and a config, in place of a plain one.
    """

    def __init__(self, steps: int, limit_s: float = float("inf")) -> None:
        self.planned = steps
        self.limit_s = limit_s
        self.ends: list[float] = []
        self.cpu: list[float] = []
        self.outputs: list[Any] = []
        self.begin = 0.0
        self.begin_cpu = 0.0
        self.on_start: Any = None
        self.on_end: Any = None
        self.session: Any = None
        self.open: Any = None

    def start(self) -> None:
        """Stamp the moment when the session is made."""
        if self.on_start is not None:
            self.on_start()
        self.begin_cpu = time.process_time()
        self.begin = time.perf_counter()

    def steps(self) -> Iterator[int]:
        """Yield the numbers of the steps and stamp their ends.

        The iteration stops at the time limit.
        """
        clock, cpu_clock, ends, cpu = (
            time.perf_counter,
            time.process_time,
            self.ends.append,
            self.cpu.append,
        )
        last = self.begin + self.limit_s
        for step in range(self.planned):
            yield step
            now = clock()
            ends(now)
            cpu(cpu_clock())
            if now > last:
                break
        if self.on_end is not None:
            self.on_end()

    def output(self, *values: Any) -> None:
        """Keep numbers of the present step, to be compared between libraries."""
        self.outputs.append(values)

    def fill(self, record: Record) -> None:
        """Write the stamps and outputs into `record`."""
        record.ends_s = [end - self.begin for end in self.ends]
        record.cpu_s = [end - self.begin_cpu for end in self.cpu]
        record.outputs = [
            np.concatenate([np.ravel(np.asarray(v, np.float64)) for v in values]).tolist()
            for values in self.outputs
        ]
        record.complete = len(self.ends) == self.planned
