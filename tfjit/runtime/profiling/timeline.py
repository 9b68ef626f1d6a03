"""Step statistics as a timeline file that chrome://tracing and Perfetto open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tfjit.runtime.profiling.timeline_flows import Event, flow_events, memory_events, times_us

if TYPE_CHECKING:
    from tfjit.protos import StepStats


def trace_events(step_stats: StepStats) -> list[Event]:
    """Return one complete event for each node and run.

    A row is a thread, a process a device. Times are in microseconds, with the nanoseconds as
    decimals.
    """
    events: list[Event] = []
    for process, device in enumerate(step_stats.dev_stats):
        events.append(
            {"ph": "M", "name": "process_name", "pid": process, "args": {"name": device.device}}
        )
        for thread, name in sorted(device.thread_names.items()):
            events.append(
                {
                    "ph": "M",
                    "name": "thread_name",
                    "pid": process,
                    "tid": thread,
                    "args": {"name": name},
                }
            )
        for node in device.node_stats:
            start_us, duration_us = times_us(node)
            events.append(
                {
                    "ph": "X",
                    "name": node.node_name,
                    "pid": process,
                    "tid": node.thread_id,
                    "ts": start_us,
                    "dur": duration_us,
                    "args": {"label": node.timeline_label or node.node_name},
                }
            )
    return events


def write_timeline(
    step_stats: StepStats, path: str | Path, dataflow: bool = False, memory: bool = False
) -> int:
    """Write the timeline of a step to `path` as JSON.

    dataflow: with arrows from values to their users. memory: with the lives of values. Returns the
    number of node runs in it.
    """
    events = trace_events(step_stats)
    if dataflow:
        events += flow_events(step_stats)
    if memory:
        events += memory_events(step_stats)
    Path(path).write_text(
        json.dumps({"displayTimeUnit": "ns", "traceEvents": events}), encoding="utf-8"
    )
    return sum(event["ph"] == "X" for event in events)
