"""Arrows and memory in a timeline, beside TensorFlow's timeline of the same statistics."""

from __future__ import annotations

import json
from typing import Any

from tensorflow.core.framework import step_stats_pb2
from tensorflow.python.client import timeline

from tfjit.protos import StepStats
from tfjit.runtime.profiling.timeline_flows import flow_events, memory_events

NODES = (
    # device, thread, name, label, start, duration, bytes of outputs
    (0, 0, "a", "a = Const()", 10, 5, (8,)),
    (0, 0, "b", "b = Square(a)", 20, 5, (16, 4)),
    (0, 1, "c", "c = Add(a, b:1)", 30, 5, (32,)),
    (1, 0, "d", "d = Neg(c/_3)", 40, 9, (64,)),
    (1, 0, "RecvTensor", "RecvTensor = x(c)", 36, 2, ()),
    (1, 0, "e", "e", 50, 1, ()),
    (1, 0, "f", "f = Sub(nowhere, d)", 60, 1, (2,)),
)


def statistics() -> StepStats:
    stats = StepStats()
    devices = [stats.dev_stats.add(device=f"/job:w/task:{index}") for index in range(2)]
    for device, thread, name, label, start, duration, sizes in NODES:
        node = devices[device].node_stats.add(
            node_name=name,
            timeline_label=label,
            thread_id=thread,
            all_start_micros=start,
            all_end_rel_micros=duration,
        )
        for slot, size in enumerate(sizes):
            description = node.output.add(slot=slot).tensor_description
            description.allocation_description.requested_bytes = size
            description.allocation_description.allocator_name = "cpu"
    return stats


def theirs() -> list[dict[str, Any]]:
    """TensorFlow's events; it gives overlapping nodes lanes of its own as threads."""
    stats = step_stats_pb2.StepStats.FromString(statistics().SerializeToString())
    text = timeline.Timeline(stats).generate_chrome_trace_format(True, True)
    events: list[dict[str, Any]] = json.loads(text)["traceEvents"]
    return events


def test_arrows_lead_to_users_on_other_threads_and_devices() -> None:
    events = flow_events(statistics())
    starts, ends = ([e for e in events if e["ph"] == phase] for phase in "st")
    got = [
        (s["name"], s["pid"], s["tid"], s["ts"], e["pid"], e["tid"], e["ts"])
        for s, e in zip(starts, ends, strict=True)
    ]
    assert got == [
        ("a", 0, 0, 15.0, 0, 1, 30.0),
        ("b:1", 0, 0, 25.0, 0, 1, 30.0),
        ("c", 0, 1, 35.0, 1, 0, 40.0),
    ]
    assert [e["id"] for e in events] == [0, 0, 1, 1, 2, 2]
    between_devices = {(e["name"], e["ts"]) for e in theirs() if e["ph"] == "t"}
    assert between_devices == {("c", 40)}


def test_lives_and_bytes_are_tensorflows() -> None:
    """TensorFlow ends a life with its last user; the microsecond before, for a later user."""
    ours, expected = memory_events(statistics()), theirs()
    for phase in "ND":
        lives = {e["name"]: e["ts"] for e in ours if e["ph"] == phase}
        known = {e["name"]: e["ts"] for e in expected if e["ph"] == phase}
        assert lives.keys() == known.keys()
        assert all(0 <= at - known[name] <= 1 for name, at in lives.items())
    most = max(e["args"]["cpu"] for e in expected if e["ph"] == "C")
    per_device = [
        max(e["args"]["cpu"] for e in ours if e["ph"] == "C" and e["pid"] == device)
        for device in range(2)
    ]
    assert per_device == [44, 66] and most <= sum(per_device)
    snapshots = [e["args"]["snapshot"]["tensor_description"] for e in ours if e["ph"] == "O"]
    assert "requested_bytes: 8" in snapshots[0]
