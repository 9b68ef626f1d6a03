"""Print the changes of events, as graph text and as HTML."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from tfjit.passes.history.recording import Changed, GraphRecord, NodeState, States, rebuilt
from tfjit.passes.text.text_format import format_node, print_graph

if TYPE_CHECKING:
    from tfjit.passes.history.events import Event
    from tfjit.passes.history.history import History

_MAX_SHOWN: Final = 16
"""Nodes of which the readers are shown too."""


def graph_text(graphs: Sequence[GraphRecord], number: int) -> str:
    """Return graphs after an event as text, each under its device."""
    texts = []
    for record in graphs:
        title = f"# {record.device}\n" if record.device else ""
        graph = rebuilt(record.states(number), functions=record.functions)
        texts.append(title + print_graph(graph))
    return "\n".join(texts)


def _share_device(states: Sequence[NodeState]) -> bool:
    """Return whether all nodes are on one device."""
    return len({state.assigned_device for state in states}) == 1


def _without_devices(states: States) -> dict[str, NodeState]:
    return {name: state._replace(assigned_device="") for name, state in states.items()}


def node_lines(states: States, names: Sequence[str]) -> dict[str, str]:
    """Return the lines of some nodes, by name."""
    graph = rebuilt(states, names)
    return {name: format_node(graph, graph.node(name)) for name in names if name in states}


def changed_lines(changed: Changed) -> list[str]:
    """Return old and new lines of nodes.

    A node of which only its place among equal lines changed has none.
    """
    before = {name: pair[0] for name, pair in changed.items() if pair[0] is not None}
    after = {name: pair[1] for name, pair in changed.items() if pair[1] is not None}
    if _share_device([*before.values(), *after.values()]):
        before, after = _without_devices(before), _without_devices(after)
    order = sorted(changed, key=lambda name: (before.get(name) or after[name]).id)
    old, new = node_lines(before, order), node_lines(after, order)
    lines = []
    for name in order:
        if old.get(name) == new.get(name):
            continue
        lines += [f"- {line}" for line in old.get(name, "").splitlines()]
        lines += [f"+ {line}" for line in new.get(name, "").splitlines()]
    return lines


def neighbourhood(states: States, names: Iterable[str]) -> str:
    """Return the lines of nodes, their inputs and their users."""
    chosen = {name for name in names if name in states}
    near = set(chosen)
    for name in chosen:
        near.update(src for src, _ in states[name].inputs if src in states)
    if len(chosen) <= _MAX_SHOWN:
        near.update(
            name
            for name, state in states.items()
            if not chosen.isdisjoint(src for src, _ in state.inputs)
        )
    order = sorted(near, key=lambda name: states[name].id)
    left = len(order) - 4 * _MAX_SHOWN
    order = order[: 4 * _MAX_SHOWN]
    shown = {name: states[name] for name in order}
    if _share_device(list(shown.values())):
        shown = _without_devices(shown)
    lines = list(node_lines(shown, order).values())
    lines += [f"# and {left} more"] if left > 0 else []
    return "".join(f"{line}\n" for line in lines)


def net_changes(history: History, first: int, last: int) -> list[tuple[GraphRecord, Changed]]:
    """Return the changes of a range of events in all, by graph."""
    found: dict[int, tuple[GraphRecord, Changed]] = {}
    for event in history.events[first - 1 : last]:
        for record, changed in event.changes:
            _, whole = found.setdefault(id(record), (record, {}))
            for name, (before, after) in changed.items():
                whole[name] = whole[name][0] if name in whole else before, after
    return [
        (record, {name: pair for name, pair in changed.items() if pair[0] is not pair[1]})
        for record, changed in found.values()
    ]


def range_diff(history: History, first: int, last: int) -> str:
    """Return the changed lines of a range of events."""
    events = history.events[first - 1 : last]
    title = str(events[0]) if first == last else f"events {first} to {last}"
    lines = [title]
    for record, changed in net_changes(history, first, last):
        body = changed_lines(changed)
        if record.region and body:
            lines.append(f"  in {record.region}:")
        lines += [f"  {line}" for line in body]
    return "\n".join(lines) + "\n"


def pass_diff(history: History, name: str) -> str:
    """Return the changed lines of all runs of a pass."""
    ends = [event for event in history.events if event.pass_name == name]
    if not ends:
        known = ", ".join(dict.fromkeys(event.pass_name for event in history.events))
        raise ValueError(f"pass {name!r} did not run; these did: {known}")
    return "".join(
        range_diff(history, event.number, event.number) for event in ends if event.changes
    )


def history_html(history: History) -> str:
    """Return a table of events; a click shows the changed lines."""
    rows = []
    for event in history.events:
        if event.changes:
            rows.append(_row(history, event))
    return (
        f"<p>{html.escape(repr(history))}</p>"
        "<table><tr><th>event</th><th>pass</th><th>where</th><th>node</th><th>reason</th>"
        f"<th>nodes</th></tr>{''.join(rows)}</table>"
    )


def _row(history: History, event: Event) -> str:
    reason = html.escape(event.reason or "end of the pass")
    diff = html.escape(history.diff(event.number))
    cells = (
        str(event.number),
        html.escape(event.pass_name),
        html.escape(event.where),
        html.escape(event.node),
        f"<details><summary>{reason}</summary><pre>{diff}</pre></details>",
        f"{event.nodes_before} &rarr; {event.nodes_after}",
    )
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


__all__ = [
    "changed_lines",
    "graph_text",
    "history_html",
    "neighbourhood",
    "net_changes",
    "pass_diff",
    "range_diff",
]
