"""Checkpoints of version 1, both ways with TensorFlow: files, nodes, savers, readers, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests import oracle
from tfjit.framework import errors
from tfjit.framework.files.saved_slices import SlicesReader, SlicesWriter
from tfjit.framework.files.slices import FULL
from tfjit.framework.files.sorted_table import read_table, write_table
from tfjit.protos import SavedTensorSlices

tf1 = tf.compat.v1
raw = tf.raw_ops

RNG = np.random.default_rng(3)
X = RNG.standard_normal((4, 3)).astype(np.float32)
KINDS: tuple[Any, ...] = (
    *(np.float32, np.float64, np.float16, np.complex64, np.complex128, np.int8, np.int16),
    *(np.int32, np.int64, np.uint8, np.uint16, np.bool_),
)
VALUES: list[Any] = [
    *((RNG.standard_normal((2, 3)) * 50).astype(kind) for kind in KINDS),
    np.array([b"", b"a\xff\0b"], object),
    np.float32(-0.0),
    np.array([np.nan, np.inf], np.float32),
    np.zeros((0, 3), np.float32),
]
NAMES = [f"v{i}" for i in range(len(VALUES))]


class Both:
    """One graph of the four operations with fed arguments, run by TensorFlow and by tfjit."""

    def __init__(self) -> None:
        with tf1.Graph().as_default() as graph:
            self.path, self.names, self.specs = (tf1.placeholder(tf.string) for _ in range(3))
            self.a, self.b = tf1.placeholder(tf.float32), tf1.placeholder(tf.float32)
            at = {"file_pattern": self.path, "tensor_name": self.names}
            self.ops = {
                "save": raw.Save(
                    filename=self.path, tensor_names=self.names, data=[self.a, self.b]
                ),
                "slices": raw.SaveSlices(
                    filename=self.path,
                    tensor_names=self.names,
                    shapes_and_slices=self.specs,
                    data=[self.a, self.b],
                ),
                "odd": raw.Save(
                    filename=self.path, tensor_names=["v"], data=[tf.zeros(1, "bfloat16")]
                ),
                "restore": raw.Restore(**at, dt=tf.float32),
                "int": raw.Restore(**at, dt=tf.int32),
                "slice": raw.RestoreSlice(**at, shape_and_slice=self.specs, dt=tf.float32),
                "v2": raw.RestoreV2(
                    prefix=self.path,
                    tensor_names=self.names,
                    shape_and_slices=self.specs,
                    dtypes=[tf.float32],
                ),
                "values": raw.Save(filename=self.path, tensor_names=NAMES, data=VALUES),
                "all": [
                    raw.Restore(**at | {"tensor_name": n}, dt=tf.as_dtype(v.dtype))
                    for n, v in zip(NAMES, VALUES)
                ],
            }
        self.sessions = (tf1.Session(graph=graph), tfjit.Session(graph=graph))

    def run(
        self, op: str, paths: Any, names: Any = "v", specs: Any = "", a: Any = X, b: Any = X
    ) -> list[Any]:
        """Return both answers: a value or (class, message). paths: one for each session."""
        found: list[Any] = []
        for session, path in zip(self.sessions, paths):
            feeds = {self.path: path, self.names: names, self.specs: specs, self.a: a, self.b: b}
            try:
                found.append(session.run(self.ops[op], feeds))
            except Exception as error:
                text = oracle.cause(error.message).split("\t [[")[0]
                if isinstance(path, str):
                    text = text.replace(path, "PATH")
                found.append((type(error).__name__, text))
        return found


def same(answers: list[Any]) -> None:
    theirs, ours = answers
    if isinstance(theirs, tuple):
        assert ours[0] == theirs[0]
        assert ours[1].startswith(theirs[1].strip()), f"{theirs[1]}\n{ours[1]}"
    else:
        np.testing.assert_equal(ours, theirs)


def test_files_and_answers(tmp_path: Path) -> None:
    both = Both()
    pair = [str(tmp_path / "theirs"), str(tmp_path / "ours")]

    def bytes_of() -> list[bytes]:
        return [Path(path).read_bytes() for path in pair]

    both.run("values", pair)
    assert bytes_of()[0] == bytes_of()[1]
    same(both.run("all", pair[::-1]))
    both.run("slices", pair, ["v", "v"], ["4 6 -:0,3", "4 6 -:3,3"])
    assert bytes_of()[0] == bytes_of()[1]
    for op in ("restore", "int"):
        same(both.run(op, pair))
    for spec in ("", "4 6 1,2:2,3", "4 6 -:3,1", "5 6 -:-", "4 6 -", "4 6 1,4:-", "4", "4 6 0,0:-"):
        same(both.run("slice", pair, specs=spec))
        same(both.run("v2", pair, ["v"], [spec]))
    same(both.run("restore", pair, "absent"))
    same(both.run("restore", [str(tmp_path / "none")] * 2))
    same(both.run("restore", [[pair[0]] * 2] * 2))
    same(both.run("restore", pair, np.zeros(0, object)))
    same(both.run("odd", pair))
    for kind, text in both.run("save", [str(tmp_path / "no" / "folder")] * 2, ["v", "w"]):
        assert kind == "NotFoundError"
        assert text.startswith("PATH.tempstate")
        assert "No such file or directory" in text
    for names, specs in (
        (["v"], [""]),
        (["v", "w"], [""]),
        (["v", "v"], ["4 3 0,4:-", "5 3 0,4:-"]),
        (["v", "w"], ["4 3 0,4", ""]),
        (["v", "w"], ["4 3 0,x:-", ""]),
        (["v", "w"], ["4 3 0,2:-", ""]),
        (["v", "w"], [" ", ""]),
        (["v", "w"], ["4  3 -:-", ""]),
        (["v", "w"], ["4 3 -1,2:-", ""]),
    ):
        same(both.run("slices", pair, names, specs))
    same(both.run("save", pair, ["v"]))

    # files that contradict each other, and shards that do not
    for first, second, value in (
        ("8 3 0,4:-", "8 3 4,4:-", X),
        ("8 3 0,4:-", "8 3 3,4:-", X),
        ("8 3 0,4:-", "9 3 4,4:-", X),
    ):
        for k, spec in enumerate((first, second)):
            shard = [str(tmp_path / f"s-0000{k}-of-00002")] * 2
            both.run("slices", shard[:1] * 2, ["v", f"w{k}"], [spec, ""], value, value)
        answers = both.run("restore", [str(tmp_path / "s-?????-of-00002")] * 2)
        if isinstance(answers[0], tuple):  # TensorFlow opens the shards in the folder's order
            answers = [(kind, text[:20]) for kind, text in answers]
        same(answers)
    both.run("save", pair, ["v", "w"])

    # damage
    data = bytes_of()[1]
    bad = [str(tmp_path / "bad")] * 2
    for cut in (
        b"",
        data[:30],
        data[:-1] + b"x",
        data[:8] + b"\1" + data[9:],
        data[:60] + bytes([data[60] ^ 1]) + data[61:],
    ):
        Path(bad[0]).write_bytes(cut)
        same(both.run("restore", bad))
        readers = []
        for kind in (tf1.train.NewCheckpointReader, tfjit.train.NewCheckpointReader):
            try:
                readers.append(kind(bad[0]).get_tensor("v"))
            except Exception as error:
                readers.append((type(error).__name__, str(error)))
        same(readers)
    for session in both.sessions:
        session.close()


@pytest.mark.parametrize("sharded", [False, True])
def test_savers_and_readers(tmp_path: Path, sharded: bool) -> None:
    """A Saver of each side restores the other's files, and its nodes are the same."""
    nodes, saved, paths, state = [], [], [], []
    for module, session_kind in ((tf1, tf1.Session), (tfjit, tfjit.Session)):
        folder = tmp_path / module.__name__.replace(".", "_")
        folder.mkdir()
        with module.Graph().as_default() as graph:
            with module.device("/cpu:0"):
                module.Variable(X, name="v", use_resource=False)
            module.Variable([1.5, 2], name="w", use_resource=False)
            saver = module.train.Saver(
                write_version=module.train.SaverDef.V1, sharded=sharded, max_to_keep=2
            )
            nodes.append(
                [
                    (node.op, list(node.input), node.device)
                    for node in graph.as_graph_def().node
                    if "Save" in node.op
                    or node.name in ("save/control_dependency", "save/ShardedFilespec")
                ]
            )
            with session_kind() as session:
                session.run(module.global_variables_initializer())
                for step in range(3):
                    paths.append(saver.save(session, str(folder / "m"), global_step=step))
        saved.append(sorted(path.name for path in folder.iterdir()))
        listed = (folder / "checkpoint").read_text().replace(str(folder), "")
        state.append([line for line in listed.splitlines() if "time" not in line])
        assert saver.saver_def.version == 1
        assert module.train.latest_checkpoint(str(folder)) == paths[-1]
        assert module.train.checkpoint_exists(paths[-1])
    assert saved[0] == saved[1]
    assert nodes[0] == nodes[1]
    assert state[0] == state[1]
    for path in (paths[2], paths[5]):
        ours, theirs = (m.train.NewCheckpointReader(path) for m in (tfjit, tf1))
        assert ours.get_variable_to_shape_map() == theirs.get_variable_to_shape_map()
        assert ours.has_tensor("v") and not ours.has_tensor("x")
        np.testing.assert_equal(ours.get_tensor("v"), X)
        assert tfjit.train.list_variables(path) == [("v", [4, 3]), ("w", [2])]
    with tfjit.Graph().as_default(), tfjit.Session() as session:
        v = tfjit.Variable(X * 0, name="v", use_resource=False)
        saver = tfjit.train.Saver([v])
        saver.restore(session, paths[2])
        np.testing.assert_equal(session.run(v), X)
        saver.recover_last_checkpoints(paths)
        assert saver.last_checkpoints == [paths[i] for i in (1, 2, 4, 5)]
        with pytest.raises(tfjit.errors.NotFoundError, match='Tensor name "u" not found'):
            tfjit.train.Saver({"u": v}).restore(session, paths[2])
        with pytest.raises(TypeError, match="write_version must be"):
            tfjit.train.Saver(write_version=7)


def test_damaged_entries_are_errors(tmp_path: Path) -> None:
    """Bytes that a checksum does not find: each entry is damaged before the table is made."""
    path = tmp_path / "c"
    writer = SlicesWriter(str(path))
    writer.add("v", (4, 3), ((0, FULL), (0, FULL)), X)
    writer.add("w", (8, 3), ((0, 4), (0, FULL)), X)
    writer.add("s", (2,), ((0, FULL),), np.array([b"a", b"bb"], object))
    writer.finish()
    entries = list(read_table(path.read_bytes(), "c"))
    refused = 0
    for k, (key, value) in enumerate(entries):
        for at in range(0, len(value), 2):
            damaged = value[:at] + bytes([value[at] ^ 0x7F]) + value[at + 1 :]
            path.write_bytes(write_table([*entries[:k], (key, damaged), *entries[k + 1 :]]))
            try:
                reader = SlicesReader(str(path))
                for name in reader.names():
                    reader.read(name)
            except errors.OpError:
                refused += 1
    assert refused > 50
    huge = SavedTensorSlices()
    tensor = huge.meta.tensor.add(name="q", type=7)
    for size in (1 << 30, 1 << 20):
        tensor.shape.dim.add(size=size)
    tensor.slice.add().extent.add()
    tensor.slice[0].extent.add()
    path.write_bytes(write_table([(b"", huge.SerializeToString())]))
    with pytest.raises(errors.InvalidArgumentError, match="Error copying slice data"):
        SlicesReader(str(path)).read("q")
