"""Histories as runs of passes: every moment has the nodes that the history has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tfjit
from tfjit.lab.page.frames import NodeRecord, PassRun
from tfjit.lab.page.history_runs import GraphStory, graph_story
from tfjit.passes.history.history import History
from tfjit.protos import GraphDef


def replayed(runs: tuple[PassRun, ...]) -> dict[str, NodeRecord]:
    """Apply all frames; each adds, removes and changes nodes that fit."""
    state: dict[str, NodeRecord] = {}
    for run in runs:
        for frame in run.frames:
            for path in frame.removed:
                del state[path]
            for record in frame.changed:
                assert state[record.name] != record
                state[record.name] = record
            for record in frame.added:
                assert record.name not in state
                state[record.name] = record
    return state


def told(session: tfjit.Session, fetch: object, feeds: dict) -> tuple[GraphStory, History]:
    explanation = session.explain(fetch, feeds)
    history = History()
    _, report = explanation.plan.session.build_partitions(
        explanation.plan.spec(explanation.variant.feed_shapes), history=history
    )
    return graph_story(history, report, [node.name for node in explanation.nodes]), history


def test_a_dense_layer_is_fused_before_ones_eyes() -> None:
    with tfjit.Graph().as_default(), tfjit.Session() as session:
        x = tfjit.placeholder(tfjit.float32, [4, 8], name="x")
        y = tfjit.tanh(tfjit.matmul(x, tfjit.constant(np.ones((8, 3), np.float32))) + 1.0, name="y")
        story, history = told(session, y, {})
    assert story.runs[0].name == "the given graph" and story.runs[-1].name == "the graph that runs"
    assert replayed(story.runs) == {record.name: record for record in story.final}
    assert set(replayed(story.runs)) == set(history.at(len(history)).nodes)
    (fused,) = [record for record in story.final if record.fused]
    assert fused.fused == ("matmul", "MatMul", "AddV2", "Tanh")
    (fuse,) = [run for run in story.runs if run.name == "fuse"]
    assert fuse.elapsed_us > 0
    assert set(fuse.frames[0].removed) == {"MatMul", "add"}
    assert fuse.frames[0].reason


def test_bodies_of_loops_are_regions(data_dir: Path) -> None:
    graph = GraphDef.FromString((data_dir / "lstm_v1_loop.pb").read_bytes())
    with tfjit.Session(graph=graph) as session:
        story, _ = told(session, "y:0", {"x:0": (2, 5, 8)})
    state = replayed(story.runs)
    assert state == {record.name: record for record in story.final}
    assert any(name.startswith("while/body/") for name in state)
    assert any(run.where == "while/body" for run in story.runs)
    inputs = {src for record in story.final for src, _ in record.inputs}
    assert inputs <= set(state)


def test_partitions_of_several_devices() -> None:
    config = tfjit.ConfigProto(device_count={"CPU": 2})
    with tfjit.Graph().as_default(), tfjit.Session(config=config) as session:
        x = tfjit.placeholder(tfjit.float32, [3, 4], name="x")
        with tfjit.device("/cpu:1"):
            y = tfjit.exp(x, name="far") * 2.0
        z = tfjit.negative(y, name="near")
        story, _ = told(session, z, {})
    assert replayed(story.runs) == {record.name: record for record in story.final}
    assert {"_Send", "_Recv"} <= {record.op for record in story.final}
    reasons = [frame.reason for run in story.runs for frame in run.frames]
    assert reasons.count("the graph is divided among devices") == 1


@pytest.mark.parametrize("fetches", [["x:0"], []])
def test_a_run_of_nothing_has_a_page(fetches: list[str]) -> None:
    with tfjit.Graph().as_default(), tfjit.Session() as session:
        tfjit.placeholder(tfjit.float32, [4], name="x")
        shown = session.explain(fetches, {"x:0": (4,)})._repr_html_()
    assert shown.startswith("<iframe ")
