"""Turn the history of a plan into runs of passes, with frames."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tfjit.lab.page.frames import Frame, NodeRecord, PassRun, frame_between, record_of
from tfjit.passes.history.events import PASS
from tfjit.passes.ir.region_path import node_path
from tfjit.passes.manager.pass_context import LOOP_PROGRAM

if TYPE_CHECKING:
    from tfjit.passes.history.events import Event
    from tfjit.passes.history.history import History
    from tfjit.passes.history.recording import GraphRecord, NodeState
    from tfjit.passes.manager.pass_manager import PassReport
    from tfjit.passes.pipeline import PipelineReport

_GIVEN: Final = "the given graph"
_RUNNING: Final = "the graph that runs"
_OPENED: Final = "the passes open this region"
_DIVIDED: Final = "the graph is divided among devices"


@dataclass(frozen=True, slots=True)
class GraphStory:
    """Hold the given graph, the passes, and the graph that runs.

    final: the nodes of the last. A pass that runs others has one run before and one behind them.
    """

    runs: tuple[PassRun, ...] = (PassRun(_RUNNING, ()),)
    final: tuple[NodeRecord, ...] = ()


def graph_story(history: History, report: PipelineReport, executed: Iterable[str]) -> GraphStory:
    """Return the story that a history tells.

    report: of the same passes, for their times and remarks. executed: the paths of the nodes that
    run; bodies without any are gone at the end.
    """
    if not history.graphs:
        return GraphStory()
    reader = _Reader(history, report)
    runs = reader.runs()
    known = set(executed)
    final = [
        record
        for region, nodes in reader.nodes.items()
        if not region or not known.isdisjoint(nodes)
        for record in nodes.values()
    ]
    shown = [record for nodes in reader.nodes.values() for record in nodes.values()]
    end = PassRun(_RUNNING, (frame_between(shown, final),))
    return GraphStory((*runs, end), tuple(final))


class _Reader:
    """Goes through the events once, with the nodes at each.

    A region is shown as the newest of its copies; copies that are tried as one kernel, and bodies
    that are opened for their shapes alone, are not shown.
    """

    def __init__(self, history: History, report: PipelineReport) -> None:
        self.events = history.events
        whole, *others = history.graphs
        self.whole = whole
        self.parts = [record for record in others if record.device and not record.region]
        self.regions = deque(
            record for record in others if record.region and LOOP_PROGRAM not in record.region
        )
        # region -> the copy that is shown, with its nodes
        self.shown: dict[str, GraphRecord] = {}
        self.nodes: dict[str, dict[str, NodeRecord]] = {"": _records(whole.start.values(), "")}
        self.entries: dict[tuple[str, str], deque[PassReport]] = defaultdict(deque)
        for entry in report.passes:
            self.entries[entry.name, entry.where].append(entry)

    def runs(self) -> list[PassRun]:
        given = Frame(added=tuple(self.nodes[""].values()))
        found = [PassRun(_GIVEN, (given,))]
        key, frames = ("", ""), list[Frame]()
        for event in self.events:
            if (event.pass_name, event.where) != key and frames:
                found.append(self._run(key, frames, None))
                frames = []
            key = event.pass_name, event.where
            frames += [*self._opened(event), *self._frames(event)]
            if event.kind == PASS:
                entries = self.entries[key]
                found.append(self._run(key, frames, entries.popleft() if entries else None))
                frames = []
        return found

    def _run(self, key: tuple[str, str], frames: list[Frame], entry: PassReport | None) -> PassRun:
        name, where = key
        if entry is None:
            return PassRun(name, tuple(frames), where)
        region = "" if "/device:" in where else where
        rewrites = {(frame.node, frame.reason) for frame in frames}
        messages = ((node and node_path(region, node), text) for node, text in entry.messages)
        remarks = tuple(dict.fromkeys(pair for pair in messages if pair not in rewrites))
        return PassRun(name, tuple(frames), where, entry.elapsed_us, remarks)

    def _opened(self, event: Event) -> list[Frame]:
        """Return frames for copies of bodies made since the last event."""
        frames = []
        if self.parts and self.parts[0].born <= event.number:
            nodes: dict[str, NodeRecord] = {}
            for part in self.parts:
                nodes |= _records(part.start.values(), "")
            frames.append(self._replaced("", nodes, _DIVIDED))
            self.parts = []
        while self.regions and self.regions[0].born <= event.number:
            record = self.regions.popleft()
            self.shown[record.region] = record
            nodes = _records(record.start.values(), record.region)
            frames.append(self._replaced(record.region, nodes, _OPENED, record.region))
        return [frame for frame in frames if not frame.is_empty]

    def _replaced(
        self, region: str, nodes: dict[str, NodeRecord], reason: str, node: str = ""
    ) -> Frame:
        change = frame_between(self.nodes.get(region, {}).values(), nodes.values())
        self.nodes[region] = nodes
        return Frame(node, reason, change.added, change.removed, change.changed)

    def _frames(self, event: Event) -> list[Frame]:
        """Return the frame of an event.

        There is none for the end of a pass that changed nothing more.
        """
        added: list[NodeRecord] = []
        removed: list[str] = []
        changed: list[NodeRecord] = []
        region = "" if "/device:" in event.where else event.where
        for record, states in event.changes:
            if record is not self.shown.get(record.region) and not self._is_own(record):
                continue
            nodes = self.nodes[record.region]
            for name, (_, after) in states.items():
                path = node_path(record.region, name)
                before = nodes.pop(path, None)
                if after is None:
                    if before is not None:
                        removed.append(path)
                    continue
                now = nodes[path] = _record(after, record.region)
                if before is None:
                    added.append(now)
                elif before != now:
                    changed.append(now)
        node = event.node and node_path(region, event.node)
        frame = Frame(node, event.reason, tuple(added), tuple(removed), tuple(changed))
        return [] if frame.is_empty and event.kind == PASS else [frame]

    def _is_own(self, record: GraphRecord) -> bool:
        return record is self.whole or bool(record.device and not record.region)


def _records(states: Iterable[NodeState], region: str) -> dict[str, NodeRecord]:
    """Return the records of nodes by path, in the order of ids."""
    ordered = sorted(states, key=lambda state: state.id)
    return {record.name: record for record in (_record(state, region) for state in ordered)}


def _record(state: NodeState, region: str) -> NodeRecord:
    return record_of(state, state.inputs, state.control_inputs, region)


__all__ = ["GraphStory", "graph_story"]
