"""Summary writers: their event files and errors beside TensorFlow's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import tfjit
from tests import oracle

tf1 = tf.compat.v1
raw = tf.raw_ops

X = np.sin(np.arange(40) / 3).astype(np.float32).reshape(2, 20) * np.float32(1.2)
ODD = np.array([[np.nan, np.inf, -np.inf, 0.5, 0.99999, -1, 1, -0.0, 3e-5]], np.float32)
GRAPH = tf1.GraphDef()
GRAPH.node.add(name="a", op="NoOp")
SUMMARY = tf1.Summary()
SUMMARY.value.add(tag="q", simple_value=2)
META = tf1.SummaryMetadata(display_name="shown").SerializeToString()
PICTURES = np.arange(24, dtype=np.float32).reshape(2, 2, 2, 3)

# (operation, value, bytes)
CASES: list[tuple[str, Any, bytes]] = [
    ("scalar", np.float32(1.5), b""),
    ("scalar", np.ones(1, np.float32), b""),
    ("histogram", X, b""),
    ("histogram", np.zeros(0, np.float32), b""),
    ("histogram", ODD, b""),
    ("image", PICTURES, b""),
    ("image", PICTURES[0], b""),
    ("audio", X, b""),
    ("audio", X.reshape(2, 10, 2), b""),
    ("audio", ODD, b""),
    ("audio", X[:, :0], b""),
    ("graph", X, b""),
    ("graph", X, GRAPH.SerializeToString()),
    ("graph", X, b"\xff\xff"),
    ("raw", X, SUMMARY.SerializeToString()),
    ("raw", X, b"\xff\xff"),
    ("any", X, META),
    ("any", X, b"\xff"),
    ("any", np.float32(2), META),
]


def build(folder: Any) -> dict[str, Any]:
    w = raw.SummaryWriter(shared_name="w")
    x, data = tf1.placeholder(tf.float32, name="x"), tf1.placeholder(tf.string, name="data")
    return {
        "create": raw.CreateSummaryFileWriter(
            writer=w, logdir=folder, max_queue=100, flush_millis=10**6, filename_suffix=".end"
        ),
        "flush": raw.FlushSummaryWriter(writer=w),
        "close": raw.CloseSummaryWriter(writer=w),
        "scalar": raw.WriteScalarSummary(writer=w, step=1, tag="t", value=x),
        "histogram": raw.WriteHistogramSummary(writer=w, step=2, tag="t", values=x),
        "image": raw.WriteImageSummary(
            writer=w, step=3, tag="t", tensor=x, bad_color=np.array([255, 0, 0, 255], np.uint8)
        ),
        "audio": raw.WriteAudioSummary(writer=w, step=4, tag="t", tensor=x, sample_rate=8000.0),
        "graph": raw.WriteGraphSummary(writer=w, step=5, tensor=data),
        "raw": raw.WriteRawProtoSummary(writer=w, step=6, tensor=data),
        "any": raw.WriteSummary(writer=w, step=7, tensor=x, tag="t", summary_metadata=data),
        "sound": raw.AudioSummaryV2(tag="t", tensor=x, sample_rate=8000.0, max_outputs=1),
    }


def events(folder: Path) -> list[Any]:
    """Return the events of a folder's files as TensorFlow reads them."""
    found = []
    for path in sorted(folder.iterdir(), key=lambda p: p.name.split(".")[-2]):
        assert path.name.startswith("events.out.tfevents.") and path.name.endswith(".end")
        for event in tf1.train.summary_iterator(str(path)):
            assert event.wall_time > 1e9
            event.wall_time = 0
            event.ClearField("source_metadata")
            for value in event.summary.value:
                if value.HasField("image"):  # zlib's level is a choice
                    value.image.encoded_image_string = b""
                if value.HasField("tensor"):
                    tensor = tf.make_ndarray(value.tensor)
                    value.tensor.CopyFrom(tf.make_tensor_proto(tensor))
            found.append(event)
    return found


def answers(kind: Any, folder: Path) -> list[Any]:
    """Return values and errors of one session of writers."""
    with tf1.Graph().as_default() as graph:
        ops = build(str(folder))
    with kind(graph=graph) as session:

        def run(name: str, x: Any = X, data: bytes = b"") -> Any:
            try:
                return session.run(ops[name], {"x:0": x, "data:0": data})
            except Exception as error:
                return type(error).__name__, oracle.cause(error.message).split("\t [[")[0]

        found = [run(name)[0] for name in ("scalar", "flush", "close")]
        found += [run("create"), run("create")]
        (path,) = folder.iterdir()
        before = path.stat().st_size
        found += [run(*case) for case in CASES]
        found += [path.stat().st_size == before, run("flush"), path.stat().st_size > before]
        found += [run("close"), run("flush"), run("scalar"), run("create"), run("scalar")]
        found += [run("sound", value) for value in (X, ODD, X.reshape(40), X[None, None])]
        return [*found, run("flush")]


def test_event_files_are_tensorflows(tmp_path: Path) -> None:
    theirs = answers(tf1.Session, tmp_path / "theirs")
    ours = answers(tfjit.Session, tmp_path / "ours")
    for a, b in zip(theirs, ours, strict=True):
        if isinstance(a, tuple):
            assert a[0] == b[0] and b[1].startswith(a[1].strip()), f"{a}\n{b}"
        else:
            assert a == b
    found = [[str(event) for event in events(tmp_path / name)] for name in ("ours", "theirs")]
    assert found[0] == found[1]
    assert len(found[0]) > 15


def test_arguments_that_would_end_tensorflows_process(tmp_path: Path) -> None:
    with tf1.Graph().as_default() as graph:
        ops = build(str(tmp_path))
        w = raw.SummaryWriter(shared_name="w")
        step = tf1.placeholder(tf.int64, name="step")
        two_steps = raw.WriteScalarSummary(writer=w, step=step, tag="t", value=1.0)
    with tfjit.Session(graph=graph) as session:
        session.run(ops["create"])
        for name, feeds in (
            ("audio", {"x:0": X.reshape(40)}),
            ("graph", {"data:0": [b"", b""]}),
            ("scalar", {"x:0": X[:0]}),
        ):
            try:
                session.run(ops[name], feeds)
            except tfjit.errors.InvalidArgumentError:
                continue
            raise AssertionError(name)
        try:
            session.run(two_steps, {"step:0": [1, 2]})
        except tfjit.errors.InvalidArgumentError as error:
            assert "step must be a scalar" in error.message
