"""Events of a timeline for values: arrows to their users, memory."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tfjit.protos import NodeExecStats, StepStats

_LABEL: Final = re.compile(r".* = .*\((.*)\)")


Event: TypeAlias = "dict[str, object]"


class _Value(NamedTuple):
    """An output of a node run; times in microseconds."""

    name: str
    process: int
    thread: int
    created_us: float
    computed_us: float
    allocator: str
    size_bytes: int
    description: str


def times_us(node: NodeExecStats) -> tuple[float, float]:
    """Return start and duration of a node run, in microseconds."""
    duration = (
        node.all_end_rel_nanos / 1e3 if node.all_end_rel_nanos else float(node.all_end_rel_micros)
    )
    start = node.all_start_nanos / 1e3 if node.all_start_nanos else float(node.all_start_micros)
    return start, duration


def flow_events(step_stats: StepStats) -> list[Event]:
    """Return arrows from values to users on other threads or devices."""
    values = _values(step_stats)
    events: list[Event] = []
    for process, node, value in _uses(step_stats, values):
        if (process, node.thread_id) == (value.process, value.thread):
            continue
        flow: Event = {"cat": "DataFlow", "name": value.name, "id": len(events) // 2}
        ends = (
            ("s", value.process, value.thread, value.computed_us),
            ("t", process, node.thread_id, times_us(node)[0]),
        )
        for phase, pid, tid, at in ends:
            events.append({"ph": phase, **flow, "pid": pid, "tid": tid, "ts": at})
    return events


def memory_events(step_stats: StepStats) -> list[Event]:
    """Return the lives of all values, and each allocator's bytes.

    A value lives from the start of its node to the end of its last user.
    """
    values = _values(step_stats)
    deleted_us = {name: value.computed_us for name, value in values.items()}
    for _, node, value in _uses(step_stats, values):
        deleted_us[value.name] = max(deleted_us[value.name], sum(times_us(node)))
    events: list[Event] = []
    changes: dict[tuple[int, str], list[tuple[float, int]]] = defaultdict(list)
    for number, value in enumerate(values.values()):
        place = {"pid": value.process, "tid": value.thread, "id": number}
        life = {"cat": "Tensor", "name": value.name, **place}
        snapshot = {"snapshot": {"tensor_description": value.description}}
        events.append({"ph": "N", **life, "ts": value.created_us})
        events.append({"ph": "O", **life, "ts": value.computed_us, "args": snapshot})
        events.append({"ph": "D", **life, "ts": deleted_us[value.name]})
        changes[value.process, value.allocator] += [
            (value.created_us, value.size_bytes),
            (deleted_us[value.name], -value.size_bytes),
        ]
    for (process, allocator), sizes in changes.items():
        total = 0
        for at, size in sorted(sizes):
            total += size
            counter = {"cat": "Memory", "name": allocator, "pid": process, "tid": 0}
            events.append({"ph": "C", **counter, "ts": at, "args": {allocator: total}})
    return events


def _values(step_stats: StepStats) -> dict[str, _Value]:
    """Return the values of a step by tensor name.

    Of several runs of a node, the last one counts.
    """
    found = {}
    for process, device in enumerate(step_stats.dev_stats):
        for node in device.node_stats:
            start, duration = times_us(node)
            for index, output in enumerate(node.output):
                name = f"{node.node_name}:{index}" if index else node.node_name
                allocation = output.tensor_description.allocation_description
                found[name] = _Value(
                    name,
                    process,
                    node.thread_id,
                    start,
                    start + duration,
                    allocation.allocator_name,
                    allocation.requested_bytes,
                    str(output.tensor_description).replace('"', ""),
                )
    return found


def _uses(
    step_stats: StepStats, values: dict[str, _Value]
) -> Iterator[tuple[int, NodeExecStats, _Value]]:
    """Yield (process, node, input) for each value that a node's label names."""
    for process, device in enumerate(step_stats.dev_stats):
        for node in device.node_stats:
            label = _LABEL.fullmatch(node.timeline_label)
            if label is None or node.node_name == "RecvTensor":
                continue
            for name in filter(None, label[1].split(", ")):
                # a value of another device comes by way of a node "value/_1"
                value = values.get(name) or values.get(name.rpartition("/_")[0])
                if value is not None:
                    yield process, node, value
