"""RunMetadata: statistics, cost graphs and partition graphs of a step, read by TensorFlow's and
TensorBoard's own classes.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.client import timeline

import tfjit
from tests.runtime.covering import covers
from tests.runtime.session.configs import CPU, World, X, config
from tfjit.framework.env import Env
from tfjit.runtime.profiling.cost_model import is_due

tf1 = tf.compat.v1
PLAIN = (
    "graph_options { optimizer_options { opt_level: L0 } rewrite_options { "
    "disable_meta_optimizer: true }"
)


@pytest.fixture(scope="module")
def world() -> World:
    return World()


def traced(world: World, chosen: Any = None, **options: Any) -> Any:
    """TensorFlow's RunMetadata of a traced run."""
    metadata = tf1.RunMetadata()
    with tfjit.Session(graph=world.graph, config=chosen) as session:
        for _ in range(3):
            world.check(
                session, options=tf1.RunOptions(trace_level=3, **options), run_metadata=metadata
            )
    return metadata


@covers("RunOptions.trace_level")
def test_tensorflows_timeline_reads_a_trace(world: World) -> None:
    for level in (1, 2, 3):
        with tfjit.Session(graph=world.graph) as session:
            metadata = tf1.RunMetadata()
            world.check(session, options=tf1.RunOptions(trace_level=level), run_metadata=metadata)
        read = timeline.Timeline(metadata.step_stats, graph=world.graph)
        events = json.loads(
            read.generate_chrome_trace_format(show_dataflow=True, show_memory=True)
        )["traceEvents"]
        assert {"_arg_x_0_0", "y", "_retval_y_0_0"} <= {
            e["args"]["name"] for e in events if e["ph"] == "X"
        }
        assert [e for e in events if e["ph"] == "C"]  # memory over time
    with tfjit.Session(graph=world.graph) as session:
        metadata = tf1.RunMetadata()
        world.check(session, options=tf1.RunOptions(trace_level=0), run_metadata=metadata)
    assert not metadata.step_stats.dev_stats


def test_statistics_of_a_node(world: World) -> None:
    """Field by field what TensorFlow says of the same nodes, of a graph that neither rewrites."""
    ours = traced(world, config(PLAIN + "}"))
    theirs = tf1.RunMetadata()
    with tf1.Session(graph=world.graph) as session:
        world.check(session, options=tf1.RunOptions(trace_level=3), run_metadata=theirs)

    def by_name(metadata: Any) -> dict[str, Any]:
        (device,) = metadata.step_stats.dev_stats
        assert device.device == f"{CPU}0"
        return {stats.node_name: stats for stats in device.node_stats}

    mine, expected = by_name(ours), by_name(theirs)
    assert set(mine) == set(expected)
    for name, stats in mine.items():
        other = expected[name]
        assert stats.timeline_label == other.timeline_label.replace("_MklMatMul", "MatMul")
        assert [o.slot for o in stats.output] == [o.slot for o in other.output]
        for got, want in zip(stats.output, other.output):
            a, b = got.tensor_description, want.tensor_description
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            assert (
                a.allocation_description.requested_bytes == b.allocation_description.requested_bytes
            )
            assert a.allocation_description.allocator_name
        assert (
            stats.memory_stats.persistent_memory_size == other.memory_stats.persistent_memory_size
        )
        # theirs reuses mm's memory
        assert [m.total_bytes for m in stats.memory] == [
            m.total_bytes for m in other.memory
        ] or name == "y"
        assert stats.all_start_nanos // 1000 == stats.all_start_micros
        assert 0 <= stats.op_end_rel_nanos <= stats.all_end_rel_nanos
    assert dict(ours.step_stats.dev_stats[0].thread_names) == {0: "MainThread"}


def test_a_fused_node_names_its_members() -> None:
    graph = tf1.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [4, 4], name="x")
        h = tf.tanh(x * 2.0, name="h")
        y = tf.nn.relu(h + 1.0, name="y")
    metadata = tf1.RunMetadata()
    with tfjit.Session(graph=graph) as session:
        session.run(
            y,
            {x: np.ones((4, 4), "f4")},
            tf1.RunOptions(trace_level=3, output_partition_graphs=True),
            metadata,
        )
    (stats,) = (s for s in metadata.step_stats.dev_stats[0].node_stats if s.node_name == "y")
    name, _, rest = stats.timeline_label.partition(" = ")
    assert name == "y"
    assert (
        rest.startswith("_Fused[")
        and "h:Tanh" in rest
        and "y:Relu" in rest
        and "](_arg_x_0_0, " in rest
    )
    fused = next(node for node in metadata.partition_graphs[0].node if node.op == "_Fused")
    assert {b"h", b"y"} <= set(fused.attr["members"].list.s)
    assert "y" in timeline.Timeline(metadata.step_stats).generate_chrome_trace_format()


def test_two_devices() -> None:
    graph = tf1.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [3], name="x")
        with tf.device("/cpu:1"):
            a = tf.exp(x, name="a")
        y = tf.add(a, 1.0, name="y")
    metadata = tf1.RunMetadata()
    chosen = config("graph_options { build_cost_model: 1 }", device_count={"CPU": 2})
    with tfjit.Session(graph=graph, config=chosen) as session:
        for _ in range(3):
            session.run(
                y,
                {x: [1, 2, 3]},
                tf1.RunOptions(trace_level=3, output_partition_graphs=True),
                metadata,
            )
    assert [d.device for d in metadata.step_stats.dev_stats] == [f"{CPU}0", f"{CPU}1"]
    assert {op for g in metadata.partition_graphs for op in (n.op for n in g.node)} >= {
        "_Send",
        "_Recv",
        "Exp",
        "AddV2",
    }
    nodes = metadata.cost_graph.node
    assert [node.id for node in nodes] == list(range(len(nodes)))
    assert {node.device for node in nodes} == {"", f"{CPU}0", f"{CPU}1"}
    assert not metadata.function_graphs
    read = timeline.Timeline(metadata.step_stats).generate_chrome_trace_format(show_memory=True)
    assert f"{CPU}1 Compute" in read


def costs_by_name(metadata: Any) -> dict[str, dict[str, Any]]:
    nodes = {node.id: node for node in metadata.cost_graph.node}
    return {
        node.name: {
            "device": node.device,
            "inputs": [(nodes[i.preceding_node].name, i.preceding_port) for i in node.input_info],
            "outputs": [(o.size, str(o.shape), o.dtype) for o in node.output_info],
            "waits": sorted({nodes[i].name for i in node.control_input}),
            "persistent": node.persistent_memory_size,
        }
        for node in nodes.values()
    }


@covers("GraphOptions.build_cost_model", "GraphOptions.build_cost_model_after")
@pytest.mark.parametrize(("every", "after"), [(1, 0), (2, 1), (3, 2)])
def test_cost_graphs_come_when_tensorflows_do(world: World, every: int, after: int) -> None:
    text = f"{PLAIN} build_cost_model: {every} build_cost_model_after: {after} }}"
    seen: list[list[tuple[bool, bool]]] = []
    graphs = []
    for make in (tfjit.Session, tf1.Session):
        with make(
            graph=world.graph, config=tf1.ConfigProto.FromString(config(text).SerializeToString())
        ) as session:
            runs = []
            for _ in range(8):
                metadata = tf1.RunMetadata()
                world.check(session, run_metadata=metadata)
                runs.append((bool(metadata.cost_graph.node), bool(metadata.step_stats.dev_stats)))
                if metadata.cost_graph.node:
                    last = metadata
                session.run(world.h, {world.x: X})  # another signature counts its own steps
        seen.append(runs)
        graphs.append(costs_by_name(last))
    assert (
        seen[0]
        == seen[1]
        == [(due, due) for due in (is_due(step, every, after) for step in range(8))]
    )
    ours, theirs = graphs
    assert set(ours) == set(theirs)
    for name in ours:
        for key in ("device", "inputs", "outputs", "persistent"):
            assert ours[name][key] == theirs[name][key], (name, key)


@covers("GraphOptions.timeline_step")
@pytest.mark.parametrize("dump", [True, False])
def test_timelines_of_a_session(
    world: World, tmp_path: Path, dump: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    options = tfjit.SessionOptions(env=Env(variables={"TFJIT_DUMP": str(tmp_path)} if dump else {}))
    chosen = config("graph_options { timeline_step: 2 }", session_handle=f"timed {dump}")
    with tfjit.Session(graph=world.graph, config=chosen, options=options) as session:
        for _ in range(5):
            world.check(session)
    found = sorted(tmp_path.rglob("timeline_*.json"))
    assert [path.name for path in found] == [
        f"timeline_timed {dump}_00000{step}.json" for step in (2, 4)
    ]
    events = json.loads(found[0].read_text(encoding="utf-8"))["traceEvents"]
    assert "_retval_y_0_0" in {event["name"] for event in events}


def write_events(world: World, folder: Path) -> Any:
    with tfjit.summary.FileWriter(folder, world.graph) as writer:
        metadata = traced(
            world, config("graph_options { build_cost_model: 1 }"), output_partition_graphs=True
        )
        writer.add_run_metadata(metadata, "step 1", 1)
    return metadata


def test_tensorflow_reads_the_event_file(world: World, tmp_path: Path) -> None:
    metadata = write_events(world, tmp_path)
    (path,) = tmp_path.iterdir()
    events = list(tf1.train.summary_iterator(str(path)))
    assert {n.name for n in tf1.GraphDef.FromString(events[1].graph_def).node} == {
        op.name for op in world.graph.get_operations()
    }
    (run,) = (event.tagged_run_metadata for event in events if event.tagged_run_metadata.tag)
    assert tf1.RunMetadata.FromString(run.run_metadata) == metadata


def test_tensorboard_opens_the_event_file(world: World, tmp_path: Path) -> None:
    accumulators = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator",
        reason="TensorBoard is not installed",
    )
    metadata = write_events(world, tmp_path)
    opened = accumulators.EventAccumulator(str(tmp_path))
    opened.Reload()
    assert opened.Tags()["graph"] and opened.Tags()["run_metadata"] == ["step 1"]
    assert {n.name for n in opened.Graph().node} == {op.name for op in world.graph.get_operations()}
    read = opened.RunMetadata("step 1")
    assert read.SerializeToString(deterministic=True) == metadata.SerializeToString(
        deterministic=True
    )
