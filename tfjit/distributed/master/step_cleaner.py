"""Tells workers that steps are over, behind the steps' backs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from queue import SimpleQueue
from typing import Final

from tfjit.distributed.master.client_graph import ClientGraph

log: Final = logging.getLogger("tfjit.distributed")

_PAUSE_S: Final = 0.02
"""The time in which ended steps gather.

Tasks of tfjit get one call for all. Of calls to others that go together, each takes a quarter.
"""


class StepCleaner:
    """A thread that sends CleanupGraph.

    The first step with remote parts starts it.
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[tuple[ClientGraph, int] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def clean(self, graph: ClientGraph, step_id: int, is_reused: bool = False) -> None:
        """Have the workers of a graph drop the values of a step.

        is_reused: the next step has the same id, so they must be dropped on return.
        """
        if graph.only is not None or is_reused:  # one call is as cheap as handing it over
            _cleanup(graph, [step_id])
            return
        if self._thread is None:
            self._start()
        self._queue.put((graph, step_id))

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="tfjit-step-cleaner", daemon=True
                )
                self._thread.start()

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            time.sleep(_PAUSE_S)
            gathered = [item]
            while not self._queue.empty():
                following = self._queue.get()
                if following is None:
                    self._queue.put(None)
                    break
                gathered.append(following)
            by_graph: dict[ClientGraph, list[int]] = {}
            for graph, step_id in gathered:
                by_graph.setdefault(graph, []).append(step_id)
            for graph, step_ids in by_graph.items():
                _cleanup(graph, step_ids)
            del item, gathered, by_graph, graph  # the graphs, while the thread waits

    def close(self) -> None:
        """End the thread, once it has seen the steps before this call."""
        self._queue.put(None)


def _cleanup(graph: ClientGraph, step_ids: Sequence[int]) -> None:
    for part in graph.parts:
        try:
            part.worker.cleanup_graphs(step_ids)
        except Exception as error:  # a worker that is gone has no values of the step either
            log.debug("CleanupGraph of %s: %s", part.task, error)


__all__ = ["StepCleaner"]
