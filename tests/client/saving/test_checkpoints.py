"""Checkpoints through sessions: TensorFlow's Saver over a tfjit session, and TensorFlow's files
both ways.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit

tf1 = tf.compat.v1


def variables(resource: bool) -> list[Any]:
    with tf1.variable_scope("model", use_resource=resource):
        plain = tf1.get_variable("v", [3, 4], initializer=tf1.random_normal_initializer(seed=1))
        double = tf1.get_variable(
            "w", [5], tf.float64, initializer=tf1.random_uniform_initializer(seed=2)
        )
        count = tf1.get_variable(
            "count", [], tf.int64, initializer=tf1.constant_initializer(12, tf.int64)
        )
        parts = tf1.get_variable(
            "p",
            [7, 3],
            partitioner=tf1.fixed_size_partitioner(2),
            initializer=tf1.random_normal_initializer(seed=3),
        )
    return [plain, double, count, *parts]


@pytest.mark.parametrize("resource", [False, True], ids=["reference", "resource"])
@pytest.mark.parametrize("sharded", [False, True], ids=["whole", "sharded"])
def test_a_saver_saves_and_restores(tmp_path: Path, resource: bool, sharded: bool) -> None:
    with tf1.Graph().as_default() as graph:
        all_variables = variables(resource)
        saver = tf1.train.Saver(sharded=sharded)
        init = tf1.global_variables_initializer()
    for folder in ("own", "theirs"):
        (tmp_path / folder).mkdir()
    with tfjit.Session(graph=graph) as session:
        session.run(init)
        values = session.run(all_variables)
        saved = saver.save(session, str(tmp_path / "own" / "model"), global_step=7)
    assert tf1.train.latest_checkpoint(str(tmp_path / "own")) == saved
    with tf1.Session(graph=graph) as session:
        saver.restore(session, saved)
        assert all(
            np.array_equal(a, b) for a, b in zip(session.run(all_variables), values, strict=True)
        )
        theirs = saver.save(session, str(tmp_path / "theirs" / "model"), global_step=7)
    for suffix in (".index", ".data-00000-of-00001"):
        assert Path(saved + suffix).read_bytes() == Path(theirs + suffix).read_bytes()
    assert sorted(p.name for p in (tmp_path / "own").iterdir()) == sorted(
        p.name for p in (tmp_path / "theirs").iterdir()
    )
    with tfjit.Session(graph=graph) as session:
        saver.restore(session, theirs)
        assert all(
            np.array_equal(a, b) for a, b in zip(session.run(all_variables), values, strict=True)
        )


def test_a_checkpoint_of_another_training(data_dir: Path, demo_dir: Path) -> None:
    """TensorFlow's checkpoint of the digits training, restored through the MetaGraph's own saver
    nodes.
    """
    with np.load(demo_dir / "digits.npz") as file:
        images, labels = file["test_images"], file["test_labels"]
    with tfjit.Session(graph=data_dir / "digits_train.pb") as session:
        session.run("save/restore_all", {"save/Const:0": str(data_dir / "digits_ckpt" / "model")})
        loss = session.run("loss:0", {"images:0": images, "labels:0": labels})
    with tf1.Graph().as_default() as graph, tf1.Session(graph=graph) as session:
        saver = tf1.train.import_meta_graph(str(data_dir / "digits_train.meta"))
        saver.restore(session, str(data_dir / "digits_ckpt" / "model"))
        np.testing.assert_allclose(
            loss, session.run("loss:0", {"images:0": images, "labels:0": labels}), rtol=1e-5
        )


def both(build: Any, prefix: str) -> tuple[BaseException, BaseException]:
    """The errors of TensorFlow and of tfjit for the same op."""
    found = []
    with tf1.Graph().as_default() as graph:
        fetch = build(prefix)
    for kind in (tf1.Session, tfjit.Session):
        with kind(graph=graph) as session, pytest.raises(Exception) as info:
            session.run(fetch)
        found.append(info.value)
    return found[0], found[1]


def restoring(name: str, spec: str, dtype: Any, suffix: str = "") -> Any:
    return lambda prefix: tf.raw_ops.RestoreV2(
        prefix=prefix + suffix, tensor_names=[name], shape_and_slices=[spec], dtypes=[dtype]
    )


@pytest.mark.parametrize(
    "build",
    [
        restoring("absent", "", tf.float32),
        restoring("a", "", tf.float64),
        restoring("a", "2 3 0,1:-", tf.float32),
        restoring("a", "", tf.float32, "-not-there"),
    ],
    ids=["name", "dtype", "shape", "file"],
)
def test_what_is_said_of_a_faulty_restore(tmp_path: Path, build: Any) -> None:
    prefix = str(tmp_path / "c")
    with tf1.Graph().as_default(), tf1.Session() as session:
        session.run(
            tf.raw_ops.SaveV2(
                prefix=prefix, tensor_names=["a"], shape_and_slices=[""], tensors=[tf.zeros([2, 2])]
            ),
        )
    theirs, ours = both(build, prefix)
    assert isinstance(ours, type(theirs))
    line = next(
        line
        for line in str(theirs).splitlines()
        if any(t in line for t in ("not found", "tensor_name", "Unsuccessful"))
    )
    assert line in str(ours)
    assert "RestoreV2" in str(ours)


def test_a_damaged_checkpoint(tmp_path: Path) -> None:
    prefix = str(tmp_path / "c")
    with tf1.Graph().as_default() as graph:
        save = tf.raw_ops.SaveV2(
            prefix=prefix, tensor_names=["a"], shape_and_slices=[""], tensors=[tf.zeros([2, 2])]
        )
        restore = restoring("a", "", tf.float32)(prefix)
    with tfjit.Session(graph=graph) as session:
        session.run(save)
        data = Path(prefix + ".data-00000-of-00001")
        data.write_bytes(b"\1" + data.read_bytes()[1:])
        with pytest.raises(tf.errors.DataLossError, match="Checksum does not match"):
            session.run(restore)
        session.run(save)
        assert session.run(restore)[0].tolist() == [[0, 0], [0, 0]]


def test_files(tmp_path: Path) -> None:
    with tf1.Graph().as_default() as graph:
        name = tf1.placeholder(tf.string, [], name="name")
        write = tf.io.write_file(name, tf.constant(b"\0text\xff"))
        read = tf.io.read_file(name)
        match = tf.io.matching_files([str(tmp_path / "*.txt"), str(tmp_path / "b*")])
    path = str(tmp_path / "sub" / "a.txt")
    for kind in (tf1.Session, tfjit.Session):
        with kind(graph=graph) as session:
            session.run(write, {name: path})
            assert session.run(read, {name: path}) == b"\0text\xff"
            for other in ("b.txt", "c.txt", "b.bin"):
                session.run(write, {name: str(tmp_path / other)})
            assert session.run(match).tolist() == [
                str(tmp_path / n).encode() for n in ("b.bin", "b.txt", "b.txt", "c.txt")
            ]
            with pytest.raises(tf.errors.NotFoundError, match="No such file or directory"):
                session.run(read, {name: str(tmp_path / "none")})


def test_strings() -> None:
    texts = np.array([[b"part-00001", b" A\xc3\xa4 \n"], [b"", b"s3://x/_temp"]], object)
    with tf1.Graph().as_default() as graph:
        x = tf1.placeholder(tf.string, [2, 2], name="x")
        fetches = {
            "join": tf.strings.join([x, "/", x], "-"),
            "full": tf.strings.regex_full_match(x, "^s3://.*"),
            "full dynamic": tf.raw_ops.RegexFullMatch(input=x, pattern=tf.constant(r"[a-z]+-\d+")),
            "replace": tf.strings.regex_replace(x, r"([a-z])(\d|-)", r"<\2\1\\\0>"),
            "replace one": tf.strings.regex_replace(x, "[0a]", "", replace_global=False),
            "length": tf.strings.length(x),
            "characters": tf.strings.length(x, unit="UTF8_CHAR"),
            "lower": tf.strings.lower(x),
            "upper": tf.strings.upper(x, encoding="utf-8"),
            "strip": tf.strings.strip(x),
            "filename": tf.raw_ops.ShardedFilename(basename="b", shard=3, num_shards=12),
            "filespec": tf.raw_ops.ShardedFilespec(basename="b", num_shards=12),
        }
    with tf1.Session(graph=graph) as theirs, tfjit.Session(graph=graph) as ours:
        expected, got = theirs.run(fetches, {x: texts}), ours.run(fetches, {x: texts})
    for name, value in expected.items():
        np.testing.assert_array_equal(got[name], value, err_msg=name)
