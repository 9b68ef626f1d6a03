"""Hold the history of plans: events, and the graph after each."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfjit.passes.history.events import REWRITE, Event
from tfjit.passes.history.plan_recorder import PlanRecorder
from tfjit.passes.history.recording import GraphRecord, NodeState

if TYPE_CHECKING:
    from tfjit.passes.history.export import ExportedGraph
    from tfjit.passes.history.trace import Trace


@dataclass(frozen=True)
class Moment:
    """The graph of a plan after one event."""

    history: History
    number: int

    @property
    def event(self) -> Event | None:
        """Return the event, None before the first."""
        return self.history.events[self.number - 1] if self.number else None

    def next(self) -> Moment:
        """Return the moment after the next event, or the last one."""
        return Moment(self.history, min(self.number + 1, len(self.history.events)))

    def previous(self) -> Moment:
        """Return the moment before this event, or the first one."""
        return Moment(self.history, max(self.number - 1, 0))

    @property
    def nodes(self) -> dict[str, NodeState]:
        """Return the nodes of the plan's own graph, by name."""
        return self.history.nodes_after(self.number)

    def as_text(self) -> str:
        """Return the graph as text."""
        return self.history.text_after(self.number)

    def graph_def(self) -> ExportedGraph:
        """Return the graph in standard ops; `History.graph_after` has the contract."""
        return self.history.graph_after(self.number)

    def __str__(self) -> str:
        if self.event is None:
            return "before all passes"
        return self.history.diff(self.number)


class History:
    """Every pass and rewrite of some plans, in order.

    `PassOptions(history=...)` fills it; it is empty where no plan was built. events: from number 1.
    graphs: the graphs that changed, with their states. Numbers of events that a method is given
    must be of the history, 0 for the time before all; else it raises ValueError.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.graphs: list[GraphRecord] = []
        self.lock = threading.Lock()
        self._plans = 0

    def recorder(self) -> PlanRecorder:
        """Return the recorder of one further plan."""
        with self.lock:
            self._plans += 1
            return PlanRecorder(self, self._plans)

    def __len__(self) -> int:
        return len(self.events)

    def __iter__(self) -> Iterator[Event]:
        return iter(list(self.events))

    def __getitem__(self, number: int) -> Event:
        """Return the event of that number, from 1."""
        self._check(number, first=1)
        return self.events[number - 1]

    @property
    def rewrites(self) -> list[Event]:
        """Return the events that are rewrites."""
        return [event for event in self.events if event.kind == REWRITE]

    def counted(self, count: int) -> Event:
        """Return the optional rewrite of that number, as an event limit counts.

        Raises ValueError where there is none.
        """
        for event in self.events:
            if event.count == count:
                return event
        raise ValueError(f"no event is the optional rewrite {count} of this history")

    def at(self, number: int) -> Moment:
        """Return the moment after an event; 0 is the time before all."""
        self._check(number)
        return Moment(self, number)

    # ---- graphs

    def nodes_after(self, number: int) -> dict[str, NodeState]:
        """Return the nodes of the plan's graph after an event, by name."""
        found: dict[str, NodeState] = {}
        for record in self.own_graphs(number):
            found.update(record.states(number))
        return found

    def own_graphs(self, number: int) -> list[GraphRecord]:
        """Return the plan's graph after an event: the whole, or its partitions."""
        self._check(number)
        plan = self.events[number - 1].plan if number else 1
        own = [g for g in self.graphs if g.plan == plan and not g.region]
        there = [g for g in own if g.born <= number] or own[:1]
        # a graph that replaced another, after a failed pass of the user's, comes later
        return [g for g in there if g.device] or there[-1:]

    def text_after(self, number: int) -> str:
        """Return the plan's graph after an event as text."""
        from tfjit.passes.history.text import graph_text

        return graph_text(self.own_graphs(number), number)

    def graph_after(self, number: int) -> ExportedGraph:
        """Return the plan's graph after an event in ops that TensorFlow has.

        A pass that rewrites bodies together with the graph is done at its end alone: for events in
        it, the graph is that after the pass. Raises UnimplementedError that names a node with an op
        that TensorFlow lacks and that cannot be written back.
        """
        from tfjit.passes.history.export import export

        return export(self, number)

    # ---- changes

    def diff(self, first: int | str, last: int | None = None) -> str:
        """Return the changed lines as text, in the dumps' form.

        "-" marks lines before, "+" lines after.

        first: the number of an event, or the name of a pass for all of its runs. last: the last
        event of a range that begins with `first`. Raises ValueError for a pass that did not run.
        """
        from tfjit.passes.history.text import pass_diff, range_diff

        if isinstance(first, str):
            return pass_diff(self, first)
        self._check(first, first=1)
        last = first if last is None else last
        self._check(last, first=first)
        return range_diff(self, first, last)

    def origin_of(self, node: str) -> Trace:
        """Return the events that made a node, and the user's nodes.

        Raises ValueError for a node that was never in the graph.
        """
        from tfjit.passes.history.trace import origin_of

        return origin_of(self, node)

    def fate_of(self, node: str) -> Trace:
        """Return the events of a node, and the nodes that compute it.

        Raises ValueError for a node that was never in the graph.
        """
        from tfjit.passes.history.trace import fate_of

        return fate_of(self, node)

    # ---- printing

    def __str__(self) -> str:
        return "\n".join(map(str, self.events))

    def __repr__(self) -> str:
        return f"<History of {len(self.events)} events, {len(self.rewrites)} of them rewrites>"

    def _repr_html_(self) -> str:
        from tfjit.passes.history.text import history_html

        return history_html(self)

    def _check(self, number: int, first: int = 0) -> None:
        if not isinstance(number, int) or not first <= number <= len(self.events):
            raise ValueError(
                f"event {number!r}: the history has events {first} to {len(self.events)}"
            )


__all__ = ["History", "Moment"]
