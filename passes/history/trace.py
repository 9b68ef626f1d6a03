"""Follow a node through a history, back and forth."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfjit.kernels.ir.fused_group import FusedGroup
from tfjit.passes.history.recording import NodeState

if TYPE_CHECKING:
    from tfjit.passes.history.events import Event
    from tfjit.passes.history.history import History


@dataclass(frozen=True)
class Trace:
    """The way of one node.

    question: "comes from" or "goes to". events: in order. ends: the user's nodes that it
    implements, or the nodes that compute it at the end; none where nothing needs it.
    """

    node: str
    question: str
    events: tuple[Event, ...]
    ends: tuple[str, ...]

    def __str__(self) -> str:
        ends = ", ".join(self.ends) or "nothing: no node needs it"
        lines = [f"{self.node} {self.question} {ends}"]
        lines += [f"  {event}" for event in self.events]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        first, *rest = str(self).splitlines()
        rows = "".join(f"<li>{html.escape(line.strip())}</li>" for line in rest)
        return f"<p>{html.escape(first)}</p><ul>{rows}</ul>"


def origin_of(history: History, node: str) -> Trace:
    """Return the events that made a node; `History.origin_of` has the contract."""
    states = [state for _, state in _states(history, node) if state is not None]
    _expect(history, node, bool(states))
    ends = tuple(dict.fromkeys(name for state in states for name in state.origin))
    names = {node, *ends}
    events = tuple(
        event
        for event in history.events
        if any(
            name in changed
            and not _is_relabelled(changed[name])
            and (name == node or changed[name][1] is None or node in changed)
            for _, changed in event.changes
            for name in names
        )
    )
    return Trace(node, "comes from", events, ends)


def fate_of(history: History, node: str) -> Trace:
    """Return the events that a node went through; `History.fate_of` has the contract."""
    _expect(history, node, any(True for _ in _states(history, node)))
    events: dict[int, Event] = {}
    ends: dict[str, None] = {}
    waiting, seen = [node], {node}
    while waiting:
        name = waiting.pop()
        gone = None
        for event, state in _states(history, name):
            if event is not None:
                events[event.number] = event
            gone = event if state is None else None
        holders = _holders(history, name)
        ends |= dict.fromkeys(holders)
        if holders or gone is None:
            continue
        for other in _replacements(gone, name):
            if other not in seen:
                seen.add(other)
                waiting.append(other)
    return Trace(node, "goes to", tuple(events[k] for k in sorted(events)), tuple(ends))


def _expect(history: History, node: str, known: bool) -> None:
    if not known:
        names = {name for record in history.graphs for name in record.start}
        near = sorted(name for name in names if node in name or name in node)[:4]
        hint = f"; near are {', '.join(near)}" if near else ""
        raise ValueError(f"the history has no node {node!r}{hint}")


def _states(history: History, node: str) -> Iterator[tuple[Event | None, NodeState | None]]:
    """Yield (event, state) of a node in order; first without event."""
    for record in history.graphs:
        if node in record.start:
            yield None, record.start[node]
    for event in history.events:
        for _, changed in event.changes:
            if node in changed and not _is_relabelled(changed[node]):
                yield event, changed[node][1]


def _is_relabelled(pair: tuple[NodeState | None, NodeState | None]) -> bool:
    """Return whether only shapes, attrs or device of a node changed."""
    before, after = pair
    return before is not None and before == (
        after
        and after._replace(
            output_shapes=before.output_shapes,
            assigned_device=before.assigned_device,
            attrs=before.attrs,
        )
    )


def _holders(history: History, node: str) -> list[str]:
    """Return the nodes that compute a node in the last graph."""
    last = max(event.number for event in history.events)
    found = []
    for state in history.nodes_after(last).values():
        group = state.attrs.get("group")
        members = group.names if isinstance(group, FusedGroup) else ()
        implements = node in members or (node in state.origin and state.op != "_Retval")
        if node == state.name or implements:
            found.append(state.name)
    return found


def _replacements(event: Event, node: str) -> list[str]:
    """Return the nodes that the users of a removed node use instead."""
    found = []
    for _, changed in event.changes:
        for before, after in changed.values():
            if before is None or after is None or len(before.inputs) != len(after.inputs):
                continue
            found += [
                new[0]
                for old, new in zip(before.inputs, after.inputs, strict=True)
                if old[0] == node and new != old
            ]
    return list(dict.fromkeys(found))


__all__ = ["Trace", "fate_of", "origin_of"]
