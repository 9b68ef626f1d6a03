"""Whole trainings in monitored sessions, beside TensorFlow's: losses, files, events, restarts."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import tensorflow

import tfjit
from tests.client.monitored.programs import files, model, recording

tf1 = tensorflow.compat.v1


def events(folder: Path) -> list[Any]:
    """Return kind, step and tags of each event that a training wrote, graphs aside."""
    found = []
    for path in sorted(folder.glob("events*")):
        for event in tf1.train.summary_iterator(str(path)):
            kind = event.WhichOneof("what")
            if kind not in ("file_version", "graph_def", "meta_graph_def"):
                tags = [value.tag for value in event.summary.value]
                found.append((kind, event.step, tags, event.session_log.status))
    return found


def trained(m: Any, folder: Path, resource: bool) -> dict[str, Any]:
    seen: dict[str, Any] = {"losses": [], "calls": []}
    for stop in ({"last_step": 5}, {"num_steps": 3}):
        with m.Graph().as_default() as graph:
            loss, train, x = model(m, resource)
            m.summary.scalar("loss_summary", loss)
            with m.train.MonitoredTrainingSession(
                checkpoint_dir=str(folder),
                save_checkpoint_steps=2,
                save_summaries_steps=2,
                log_step_count_steps=2,
                hooks=[recording(m, seen["calls"]), m.train.StopAtStepHook(**stop)],
            ) as session:
                assert session.graph is graph and graph.finalized
                while not session.should_stop():
                    seen["losses"].append(float(session.run([loss, train], {x: [0, 1]})[0]))
            assert session.should_stop() and not graph.finalized
    seen["files"] = files(folder)
    m.summary.FileWriterCache.clear()
    seen["events"] = events(folder)
    return seen


@pytest.mark.parametrize("resource", [True, False])
def test_a_training_and_its_restart(resource: bool, tmp_path: Path) -> None:
    theirs, ours = (
        trained(m, tmp_path / name, resource) for m, name in ((tf1, "theirs"), (tfjit, "ours"))
    )
    assert ours.pop("losses") == pytest.approx(theirs.pop("losses"), rel=1e-6)
    assert ours == theirs
    assert "model.ckpt-8.index" in ours["files"] and "model.ckpt-0.index" not in ours["files"]
    # from the checkpoint of the other library: one run at step 8, then three
    assert len(trained(tfjit, tmp_path / "theirs", resource)["losses"]) == 4


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"save_checkpoint_secs": None, "log_step_count_steps": 0},
        {"save_checkpoint_steps": 3, "save_summaries_steps": None},
        {"save_checkpoint_secs": 0, "save_summaries_secs": 100, "save_graph_def": False},
        {"save_checkpoint_steps": 100, "save_graph_def": False},
    ],
)
def test_arguments_choose_the_files(arguments: dict[str, Any], tmp_path: Path) -> None:
    seen = []
    for m, name in ((tf1, "theirs"), (tfjit, "ours")):
        folder = tmp_path / name
        with m.Graph().as_default():
            _, train, x = model(m)
            with m.train.MonitoredTrainingSession(
                checkpoint_dir=str(folder), **arguments
            ) as session:
                for _ in range(4):
                    session.run(train, {x: [0, 0]})
        m.summary.FileWriterCache.clear()
        seen.append((files(folder) if folder.is_dir() else None, events(folder)))
    assert seen[0] == seen[1]


def test_summaries_have_a_folder_of_their_own(tmp_path: Path) -> None:
    with tfjit.Graph().as_default():
        _, train, x = model(tfjit)
        calls: list[Any] = []
        with tfjit.train.MonitoredTrainingSession(
            checkpoint_dir=str(tmp_path / "a"),
            summary_dir=str(tmp_path / "b"),
            chief_only_hooks=[recording(tfjit, calls, "chief")],
            hooks=[recording(tfjit, calls, "all")],
        ) as session:
            session.run(train, {x: [0, 0]})
    assert [call[0] for call in calls[:2]] == ["chief", "all"]
    assert files(tmp_path / "b") == ["events"]
    tfjit.summary.FileWriterCache.clear()


def test_a_worker_that_is_not_the_chief_waits_in_vain() -> None:
    seen = []
    for m in (tf1, tfjit):
        with m.Graph().as_default():
            model(m)
            with pytest.raises(m.errors.DeadlineExceededError) as caught:
                m.train.MonitoredTrainingSession(is_chief=False, max_wait_secs=0.5)
            seen.append(caught.value.message)
    assert seen[0] == seen[1]


def test_a_training_tells_its_steps(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A second session of the same folder, with TensorFlow's messages."""
    with caplog.at_level(logging.INFO, "tensorflow"):
        for _ in range(2):
            caplog.clear()
            with tfjit.Graph().as_default():
                tfjit.train.get_or_create_global_step()
                with tfjit.train.MonitoredTrainingSession(
                    checkpoint_dir=str(tmp_path),
                    save_summaries_steps=None,
                    save_summaries_secs=None,
                ):
                    pass
    path = tmp_path / "model.ckpt"
    assert [record.getMessage() for record in caplog.records] == [
        "Create CheckpointSaverHook.",
        "Graph was finalized.",
        f"Restoring parameters from {path}-0",
        "Running local_init_op.",
        "Done running local_init_op.",
        "Calling checkpoint listeners before saving checkpoint 0...",
        f"Saving checkpoints for 0 into {path}.",
        "Calling checkpoint listeners after saving checkpoint 0...",
    ]
