"""Parsing and file nodes are TensorFlow's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow

import tfjit
from tests.client.variables.same_graphs import same_graph

tf1 = tensorflow.compat.v1


@pytest.fixture(autouse=True, scope="module")
def tensorflow_1() -> Iterator[None]:
    """TensorFlow makes reference variables, as tfjit does."""
    tf1.disable_resource_variables()
    yield
    tf1.enable_resource_variables()


def parsed(tf: Any) -> dict[str, Any]:
    io = tf.io
    features = {
        "one": io.SparseFeature("ix", "value", tf.float32, 100),
        "two": io.SparseFeature(["ix", "iy"], "value", tf.float32, [10, 20], already_sorted=True),
        "kept": io.VarLenFeature(tf.int64),
        "d e": io.FixedLenFeature([2], tf.float32, [1.0, 2.0]),
        "f": io.FixedLenFeature([], tf.string),
        "g": io.FixedLenSequenceFeature([2], tf.int64, True),
        "ix": io.VarLenFeature(tf.int64),
    }
    made: dict[str, Any] = io.parse_example(tf.placeholder(tf.string, [None], "in"), features)
    return made


def test_parsed_features() -> None:
    def program(tf: Any) -> list[Any]:
        return sorted((key, value.shape.as_list()) for key, value in parsed(tf).items())

    same_graph(program)
    rows: list[dict[str, Any]] = [
        {"ix": [7, 3], "iy": [1, 2], "value": [1.5, 2.5], "f": [b"x"], "g": [1, 2, 3, 4]},
        {"ix": [9], "iy": [4], "value": [4.0], "f": [b"y"], "kept": [5, 6], "d e": [3.0, 4.0]},
    ]
    texts = []
    for row in rows:
        example = tensorflow.train.Example()
        for key, values in row.items():
            kind = {int: "int64_list", float: "float_list", bytes: "bytes_list"}[type(values[0])]
            getattr(example.features.feature[key], kind).value.extend(values)
        texts.append(example.SerializeToString())
    found = []
    for tf in (tf1, tfjit):
        with tf.Graph().as_default(), tf.Session() as session:
            found.append(session.run(parsed(tf), {"in:0": texts}))
    assert found[0].keys() == found[1].keys()
    for key, theirs in found[0].items():
        for a, b in zip(
            theirs if isinstance(theirs, tuple) else [theirs],
            found[1][key] if isinstance(theirs, tuple) else [found[1][key]],
            strict=True,
        ):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("wrong", [("", "v"), ("i", ""), ("i", "i")])
def test_wrong_sparse_features(wrong: tuple[str, str]) -> None:
    texts = []
    for tf in (tf1, tfjit):
        with tf.Graph().as_default(), pytest.raises(ValueError) as caught:
            features = {"x": tf.io.SparseFeature(*wrong, tf.float32, 3)}
            tf.io.parse_example(tf.placeholder(tf.string, [None]), features)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]


def test_files(tmp_path: Path) -> None:
    path = str(tmp_path / "sub" / "a.txt")

    def program(tf: Any) -> list[Any]:
        write = tf.write_file(path, "text")
        with tf.control_dependencies([write]):
            read = tf.read_file(path)
        names = tf.io.matching_files([f"{tmp_path}/sub/*.txt"], name="found")
        kept = tf.io.match_filenames_once(f"{tmp_path}/*/*.txt")
        example = tf.io.decode_json_example(["{}"])
        return [read.name, names.name, kept.name, example.name, write.type]

    same_graph(program)
    with tfjit.Graph().as_default() as graph, tfjit.Session() as session:
        program(tfjit)
        assert session.run("ReadFile:0") == b"text"
        assert session.run("found:0").tolist() == [path.encode()]
        session.run(tfjit.local_variables_initializer())
        assert session.run(graph.get_tensor_by_name("matching_filenames:0")).tolist() == [
            path.encode()
        ]
        assert session.run("DecodeJSONExample:0").tolist() == [b""]
