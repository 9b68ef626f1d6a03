"""Write the events of one plan while its passes run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.passes.history.events import PASS, REWRITE, Event
from tfjit.passes.history.libraries import KeptLibrary
from tfjit.passes.history.recording import GraphRecord

if TYPE_CHECKING:
    from tfjit.passes.history.history import History
    from tfjit.passes.ir.dataflow_graph import DataflowGraph


class PlanRecorder:
    """Writes the events of one plan into a history."""

    def __init__(self, history: History, plan: int) -> None:
        self._history, self._plan = history, plan
        self._live: list[GraphRecord] = []
        self._all: list[GraphRecord] = []
        self._records: dict[int, GraphRecord] = {}  # by the id of the graph
        self._depth = 0

    def watch(
        self,
        graph: DataflowGraph,
        region: str,
        purpose: str,
        device: str = "",
        is_scope: bool = False,
    ) -> None:
        """Record the changes of a graph from now on.

        is_scope: it is a body that is rewritten together with the graph around it.
        """
        if id(graph) in self._records:
            return
        born = len(self._history.events) + 1
        record = GraphRecord(graph, self._plan, born, region, purpose, device, is_scope)
        self._live.append(record)
        self._all.append(record)
        self._records[id(graph)] = record
        self._history.graphs.append(record)

    def enter(
        self, graph: DataflowGraph, region: str, purpose: str, device: str, depth: int
    ) -> None:
        """Record that a pass begins; depth: the number of enclosing passes."""
        self.watch(graph, region, purpose, device)
        self._depth = depth + 1

    def leave(self, name: str, graph: DataflowGraph, where: str, depth: int) -> None:
        """Record the end of a pass, with changes since its last rewrite."""
        self._records[id(graph)].compare()
        self._depth = depth
        event = self._made(PASS, name, where, "", "", "")
        self._fill(event)
        if self._depth == 0:
            for record in [record for record in self._live if record.region]:
                record.close()
            self._live = [record for record in self._live if not record.region]
            self._records = {id(record._graph): record for record in self._live}

    def add(
        self, name: str, where: str, node: str, reason: str, rule: str, count: int | None
    ) -> Event:
        """Record a rewrite, with the changes since the last event."""
        event = self._made(REWRITE, name, where, rule, node, reason)
        event.count = count
        self._fill(event)
        return event

    def finish(self, event: Event, reason: str) -> Event:
        """Record the changes of a rewrite that was begun before."""
        event.reason = reason
        self._fill(event)
        return event

    def text_of(self, event: Event) -> str:
        """Return the changed lines of an event."""
        return self._history.diff(event.number)

    def close(self) -> None:
        """Stop the recording of this plan, and keep its functions."""
        kept: dict[int, KeptLibrary] = {}
        for record in self._all:
            record.close()
            library = record.functions
            if id(library) not in kept:
                kept[id(library)] = KeptLibrary(library)
            record.get_functions = kept[id(library)].library
        self._live, self._all, self._records = [], [], {}

    def _made(self, kind: str, name: str, where: str, rule: str, node: str, reason: str) -> Event:
        with self._history.lock:
            events = self._history.events
            event = Event(len(events) + 1, self._plan, kind, name, where, rule, node, reason)
            event.depth = self._depth
            events.append(event)
        return event

    def _fill(self, event: Event) -> None:
        touched = [record for record in self._live if record.is_touched]
        for record in touched:
            event.nodes_before += record.count
            changed = record.take(event.number)
            event.nodes_after += record.count
            if changed:
                event.changes.append((record, changed))


__all__ = ["PlanRecorder"]
