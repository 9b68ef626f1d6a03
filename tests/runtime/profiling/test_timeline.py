"""Step statistics as a timeline file."""

from __future__ import annotations

import json
from pathlib import Path

from tfjit.protos import StepStats
from tfjit.runtime.profiling.timeline import trace_events, write_timeline


def test_timeline_has_nanoseconds_and_names(tmp_path: Path) -> None:
    stats = StepStats()
    device = stats.dev_stats.add(device="/device:CPU:0", thread_names={7: "caller"})
    device.node_stats.add(
        node_name="y",
        timeline_label="y = Add(a, b)",
        thread_id=7,
        all_start_nanos=5_500,
        all_end_rel_nanos=1_250,
    )
    device.node_stats.add(node_name="z", all_start_micros=8, all_end_rel_micros=2)
    assert write_timeline(stats, tmp_path / "t.json") == 2
    events = json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))["traceEvents"]
    assert events == trace_events(stats)
    names = {event["name"]: event for event in events}
    assert (
        names["process_name"]["args"]["name"] == "/device:CPU:0"
        and names["thread_name"]["tid"] == 7
    )
    assert (names["y"]["ts"], names["y"]["dur"], names["y"]["args"]["label"]) == (
        5.5,
        1.25,
        "y = Add(a, b)",
    )
    assert (names["z"]["ts"], names["z"]["dur"]) == (8.0, 2.0)
