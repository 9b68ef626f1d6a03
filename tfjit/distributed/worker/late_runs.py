"""The runs of a worker whose tensors of other tasks are late."""

from __future__ import annotations

import threading
import time
from typing import Final

from tfjit.distributed.worker.graph_run import GraphRun

LATE_S: Final = 0.05
"""A run is late after these seconds, or twice as many."""
_IDLE_TICKS: Final = 20
"""The thread ends after so many ticks without a run."""


class LateRuns:
    """Check runs that have not ended after a while, again and again.

    One thread ticks while there are runs, so that to add and remove a run costs next to nothing.
    Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[GraphRun, int] = {}  # by the tick in which they came
        self._tick = 0
        self._ticks = False

    def add(self, run: GraphRun) -> None:
        """Check a run from now on, unless it ends soon."""
        self._runs[run] = self._tick
        if not self._ticks:
            with self._lock:
                if self._ticks:
                    return
                self._ticks = True
            threading.Thread(target=self._work, name="tfjit-late-runs", daemon=True).start()

    def remove(self, run: GraphRun) -> None:
        """Forget a run that is over."""
        self._runs.pop(run, None)

    def _work(self) -> None:
        idle = 0
        while True:
            time.sleep(LATE_S)
            self._tick += 1
            idle = 0 if self._runs else idle + 1
            if idle > _IDLE_TICKS and self._ends():
                return
            for run, tick in self._runs.copy().items():
                if tick + 1 < self._tick:
                    run.check()

    def _ends(self) -> bool:
        """Let the next run start a thread, unless one has just come."""
        with self._lock:
            self._ticks = False  # first: `add` looks at it behind its change of the runs
            if self._runs:
                self._ticks = True
            return not self._ticks


__all__ = ["LATE_S", "LateRuns"]
