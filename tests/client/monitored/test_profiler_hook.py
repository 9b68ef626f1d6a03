"""ProfilerHook beside TensorFlow's: the steps it traces, and what its files hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow
from tensorflow.python.training import training_util

import tfjit
from tests.client.monitored.programs import files, model, on_both
from tfjit.client.variables.global_step import global_step_read

tf1 = tensorflow.compat.v1
READ_STEP = {
    tf1: training_util._get_or_create_global_step_read,
    tfjit: global_step_read,
}


def tags(folder: Path) -> list[str]:
    """Return the tags of the RunMetadata in the event files of a folder."""
    return [
        event.tagged_run_metadata.tag
        for path in sorted(folder.glob("events*"))
        for event in tf1.train.summary_iterator(str(path))
        if event.WhichOneof("what") == "tagged_run_metadata"
    ]


@pytest.mark.parametrize("every", [1, 3])
def test_steps_are_traced_at_intervals(tmp_path: Path, every: int) -> None:
    def program(m: Any, noted: list[Any]) -> None:
        folder = tmp_path / m.__name__
        step = m.train.get_or_create_global_step()
        with m.control_dependencies([READ_STEP[m]()]):  # TensorFlow's order is open
            train = step.assign_add(1)
        hook = m.train.ProfilerHook(save_steps=every, output_dir=str(folder))
        with m.train.MonitoredSession(hooks=[hook]) as session:
            for _ in range(7):
                session.run(train)
                noted.append(files(folder))
        writers = m.summary.FileWriterCache if hasattr(m.summary, "FileWriterCache") else None
        (writers or tf1.summary.FileWriterCache).clear()
        noted.append(tags(folder))

    noted = on_both(program)
    assert len(noted[-2]) == (6 if every == 1 else 2)


def test_what_a_timeline_shows(tmp_path: Path) -> None:
    def program(m: Any, noted: list[Any]) -> None:
        folder = tmp_path / m.__name__
        loss, train, x = model(m)
        hook = m.train.ProfilerHook(
            save_steps=1, output_dir=str(folder), show_dataflow=True, show_memory=True
        )
        with m.train.MonitoredSession(hooks=[hook]) as session:
            for _ in range(2):
                session.run([loss, train], {x: np.zeros(2, np.float32)})
        (path,) = folder.glob("timeline-*.json")
        events = json.loads(path.read_text())["traceEvents"]
        of = [event["ph"] for event in events]
        noted.append((path.name, {"M", "X", "N", "O", "D", "C"} <= set(of)))
        noted.append([of.count(one) == of.count("N") for one in "OD"])
        noted.append(of.count("s") == of.count("t"))

    on_both(program)


def test_arguments(tmp_path: Path) -> None:
    def program(m: Any, noted: list[Any]) -> None:
        for arguments in ({}, {"save_steps": 1, "save_secs": 1}):
            try:
                m.train.ProfilerHook(output_dir=str(tmp_path), **arguments)
            except ValueError as error:
                noted.append(str(error))
        m.train.ProfilerHook(save_secs=1, output_dir=str(tmp_path)).begin()

    assert len(on_both(program)) == 3
