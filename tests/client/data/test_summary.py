"""Event files: read back by TensorFlow, damage found."""

from __future__ import annotations

import io
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tfjit.framework.errors import DataLossError
from tfjit.framework.files.records import pack_record, read_records

tf1 = tf.compat.v1


def events(path: Path) -> list[tf1.Event]:
    return list(tf1.train.summary_iterator(str(path)))


def test_tensorflow_reads_graph_and_run_metadata(tmp_path: Path) -> None:
    with tfjit.Graph().as_default() as graph:
        x = tfjit.placeholder(tfjit.float32, [None], name="x")
        y = tfjit.tanh(x * 2.0, name="y")
    writer = tfjit.summary.FileWriter(tmp_path / "log" / "run1", graph, filename_suffix=".v2")
    metadata = tfjit.RunMetadata()
    with tfjit.Session(graph=graph) as session:
        session.run(
            y,
            {x: [1.0]},
            options=tfjit.RunOptions(trace_level=tfjit.RunOptions.FULL_TRACE),
            run_metadata=metadata,
        )
    writer.add_run_metadata(metadata, "step 3", 3)
    with pytest.raises(ValueError, match="already used"):
        writer.add_run_metadata(metadata, "step 3", 4)
    writer.add_summary(
        tf1.Summary(value=[tf1.Summary.Value(tag="loss", simple_value=0.5)]).SerializeToString(), 7
    )
    writer.close()
    (path,) = (tmp_path / "log" / "run1").iterdir()
    assert path.name.startswith("events.out.tfevents.") and path.name.endswith(".v2")
    version, drawn, meta, run, summary = events(path)
    assert version.file_version == "brain.Event:2"
    assert {n.name: n.op for n in tf1.GraphDef.FromString(drawn.graph_def).node} == {
        op.name: op.type for op in graph.get_operations()
    }
    assert tf1.MetaGraphDef.FromString(meta.meta_graph_def).graph_def.node[0].name == "x"
    assert (run.step, run.tagged_run_metadata.tag) == (3, "step 3")
    theirs = tf1.RunMetadata.FromString(run.tagged_run_metadata.run_metadata)
    assert (
        "y" in {s.node_name for d in theirs.step_stats.dev_stats for s in d.node_stats}
        or theirs.step_stats.dev_stats
    )
    assert (summary.step, summary.summary.value[0].tag, summary.summary.value[0].simple_value) == (
        7,
        "loss",
        0.5,
    )
    assert abs(version.wall_time - time.time()) < 600


def test_a_graph_of_tensorflow_and_a_reopened_writer(tmp_path: Path) -> None:
    with tf1.Graph().as_default() as graph:
        tf.constant(1, name="c")
    with tfjit.summary.FileWriter(tmp_path) as writer:
        writer.add_graph(graph)
        writer.flush()
        writer.add_graph(None, graph_def=graph.as_graph_def())
        writer.add_session_log(tf1.SessionLog(status=tf1.SessionLog.START), 2)
    writer.add_graph(graph)  # closed: not written
    first = writer.path
    writer.reopen()
    writer.add_graph(graph)
    writer.close()
    assert len(events(first)) == 4
    assert events(first)[3].session_log.status == tf1.SessionLog.START
    assert len(events(writer.path)) == 2
    with pytest.raises(TypeError, match="must be an instance of `Graph`"):
        writer.add_graph(3)


def test_records() -> None:
    data = [b"", b"x" * 1000, b"\0\xff"]
    whole = b"".join(map(pack_record, data))
    assert list(read_records(io.BytesIO(whole), "f")) == data
    for at in range(0, len(whole), 5):
        damaged = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
        with pytest.raises(DataLossError, match=r"^corrupted record at \d+.* in f"):
            list(read_records(io.BytesIO(damaged), "f"))
    for end in range(1, len(whole)):
        if end in (16, 16 + 1016):
            continue  # between records
        with pytest.raises(DataLossError, match=r"record at \d+.* in f"):
            list(read_records(io.BytesIO(whole[:end]), "f"))


def test_operations_are_tensorflows(tmp_path: Path) -> None:
    """Names, tags and messages, beside TensorFlow's operations of the same calls."""
    tf1 = tf.compat.v1
    found = []
    for lib, message in ((tfjit, tfjit.Summary), (tf1, tf1.Summary)):
        with lib.Graph().as_default(), lib.Session() as session:
            with lib.name_scope("outer"):
                lib.summary.scalar("a loss", lib.constant(1.5))
                lib.summary.scalar("loss", 2.5, family="all")
            lib.summary.histogram("h", lib.constant([1.0, 2.0, 2.0]))
            lib.summary.text("words", lib.constant(["one"]))
            lib.summary.image("p", lib.constant(np.zeros((1, 2, 2, 1), np.uint8)), max_outputs=1)
            lib.summary.tensor_summary(
                "t", lib.constant([1, 2]), summary_description="what it is", display_name="T"
            )
            sound = lib.constant(np.linspace(-1, 1, 40, dtype="f4").reshape(2, 10, 2))
            lib.summary.audio("s", sound, 8000)
            lib.summary.audio("s", sound, lib.constant(44100.0), max_outputs=1, family="all")
            assert lib.summary.all_v2_summary_ops() == []
            with pytest.raises(RuntimeError, match="No default tf.contrib.summary.SummaryWriter"):
                lib.summary.initialize()
            node = lib.NodeDef(op="TensorSummary")
            node.attr["description"].s = b'{"typeHint": "scalar"}'
            assert lib.summary.get_summary_description(node).type_hint == "scalar"
            names = [s.name for s in lib.get_collection(lib.GraphKeys.SUMMARIES)]
            summary = message.FromString(session.run(lib.summary.merge_all()))
            for value in summary.value:
                value.ClearField("image")
                value.ClearField("tensor")
            found.append((names, summary.SerializeToString(deterministic=True)))
            assert lib.summary.merge_all("none") is None
    assert found[0] == found[1]
