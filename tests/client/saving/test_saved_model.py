"""SavedModels and lookup tables of the front end: TensorFlow reads what we write, and we what it
writes.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tfjit.cli import main

tf1 = tf.compat.v1


def build(lib: Any, vocabulary: str) -> tuple[Any, Any]:
    """A model with an asset, a table and variables of both kinds, by either library: words ->
    scores.
    """
    words = lib.placeholder(lib.string, [None], name="words")
    asset = lib.constant(vocabulary, name="asset")
    lib.add_to_collection(lib.GraphKeys.ASSET_FILEPATHS, asset)
    index = lib.lookup.TextFileIndex
    initializer = lib.lookup.TextFileInitializer(
        asset, lib.string, index.WHOLE_LINE, lib.int64, index.LINE_NUMBER
    )
    table = lib.lookup.StaticHashTable(initializer, -1)
    ids = table.lookup(words) + 1
    embedding = lib.get_variable(
        "embedding", [4, 3], initializer=lib.random_normal_initializer(seed=3)
    )
    scale = lib.get_variable(
        "scale", [3], initializer=lib.constant_initializer([1.0, 2.0, 3.0]), use_resource=True
    )
    return words, lib.multiply(lib.gather(embedding, ids), scale, name="scores")


def write(lib: Any, session_class: Any, folder: Path) -> np.ndarray:
    vocabulary = folder / "words.txt"
    vocabulary.write_text("a\nb\nc\n")
    with lib.Graph().as_default(), session_class() as session:
        words, scores = build(lib, str(vocabulary))
        session.run([lib.global_variables_initializer(), lib.tables_initializer()])
        expected = session.run(scores, {words: ["c", "zz"]})
        builder = lib.saved_model.Builder(str(folder / "model"))
        builder.add_meta_graph_and_variables(
            session,
            [lib.saved_model.tag_constants.SERVING],
            signature_def_map={
                "serving_default": lib.saved_model.signature_def_utils.predict_signature_def(
                    {"w": words}, {"s": scores}
                )
            },
            assets_collection=lib.get_collection(lib.GraphKeys.ASSET_FILEPATHS),
            main_op=lib.tables_initializer(),
        )
        builder.add_meta_graph(
            ["serve", "again"], assets_collection=lib.get_collection(lib.GraphKeys.ASSET_FILEPATHS)
        )
        builder.save()
    vocabulary.unlink()
    return expected


def read(lib: Any, session_class: Any, folder: Path, scope: str | None = None) -> np.ndarray:
    with lib.Graph().as_default(), session_class() as session:
        meta = lib.saved_model.loader.load(
            session, ["serve"], str(folder / "model"), import_scope=scope
        )
        signature = meta.signature_def["serving_default"]
        prefix = f"{scope}/" if scope else ""
        return session.run(
            prefix + signature.outputs["s"].name, {prefix + signature.inputs["w"].name: ["c", "zz"]}
        )


OURS, THEIRS = (tfjit, tfjit.Session), (tf1, tf1.Session)


@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        (OURS, OURS),
        (OURS, THEIRS),
        (THEIRS, OURS),
        (THEIRS, (tf1, tfjit.Session)),
        ((tf1, tfjit.Session), THEIRS),
    ],
    ids=[
        "ours ours",
        "ours theirs",
        "theirs ours",
        "theirs through our session",
        "through our session theirs",
    ],
)
def test_models_travel(writer: Any, reader: Any, tmp_path: Path) -> None:
    expected = write(*_over(writer), tmp_path)
    np.testing.assert_allclose(read(*_over(reader), tmp_path), expected, 1e-6)


def _over(pair: Any) -> Any:
    """A tfjit session over TensorFlow's default graph when the library is TensorFlow's."""
    lib, session_class = pair
    if lib is tf1 and session_class is tfjit.Session:
        return lib, lambda: tfjit.Session(graph=tf1.get_default_graph())
    return pair


def test_a_scope_and_other_tags(tmp_path: Path) -> None:
    expected = write(tfjit, tfjit.Session, tmp_path)
    np.testing.assert_allclose(read(tfjit, tfjit.Session, tmp_path, scope="inner"), expected, 1e-6)
    with tfjit.Graph().as_default(), tfjit.Session() as session:
        meta = tfjit.saved_model.load(session, ["again", "serve"], tmp_path / "model")
        assert not meta.signature_def and session.run(
            "scores:0", {"words:0": ["c", "zz"]}
        ).shape == (2, 3)
        with pytest.raises(
            RuntimeError,
            match=r"MetaGraphDef associated with tags 'other' could not be found in SavedModel",
        ):
            tfjit.saved_model.load(session, ["other"], tmp_path / "model")
        with pytest.raises(OSError, match="SavedModel file does not exist at"):
            tfjit.saved_model.load(session, ["serve"], tmp_path)
    assert tfjit.saved_model.contains_saved_model(
        tmp_path / "model"
    ) and not tfjit.saved_model.contains_saved_model(tmp_path)
    (tmp_path / "model" / "saved_model.pb").write_bytes(b"\xff\xff")
    with (
        tfjit.Graph().as_default(),
        tfjit.Session() as session,
        pytest.raises(OSError, match="Cannot parse file"),
    ):
        tfjit.saved_model.load(session, ["serve"], tmp_path / "model")


def test_simple_save_and_what_a_builder_refuses(tmp_path: Path) -> None:
    folder = str(tmp_path / "m")
    with tfjit.Graph().as_default(), tfjit.Session() as session:
        x = tfjit.placeholder(tfjit.float32, [None, 2], name="x")
        y = tfjit.matmul(x, tfjit.get_variable("w", [2, 2]))
        session.run(tfjit.global_variables_initializer())
        tfjit.saved_model.simple_save(session, folder, {"x": x}, {"y": y})
        expected = session.run(y, {x: np.eye(2)})
        with pytest.raises(AssertionError, match="already exists, and isn't empty"):
            tfjit.saved_model.Builder(folder)
        builder = tfjit.saved_model.Builder(str(tmp_path / "n"))
        with pytest.raises(AssertionError, match="has not been saved yet"):
            builder.add_meta_graph(["serve"])
        with pytest.raises(ValueError, match="Prediction outputs cannot be None or empty"):
            tfjit.saved_model.predict_signature_def({"x": x}, {})
        with pytest.raises(TypeError, match="main_op needs to be an Operation"):
            builder.add_meta_graph_and_variables(session, ["serve"], main_op="init")
        with pytest.raises(ValueError, match="an asset is a constant string"):
            builder.add_meta_graph_and_variables(session, ["serve"], assets_collection=[x])
        info = tfjit.saved_model.utils.build_tensor_info(x)
        assert tfjit.saved_model.utils.get_tensor_from_tensor_info(info) is x
    loaded = tf.saved_model.load(folder)  # by TensorFlow 2's own loader
    np.testing.assert_allclose(
        loaded.signatures["serving_default"](x=tf.eye(2))["y"], expected, 1e-6
    )


def test_a_model_without_variables_as_text(tmp_path: Path) -> None:
    with tfjit.Graph().as_default(), tfjit.Session() as session:
        tfjit.add(tfjit.placeholder(tfjit.float32, [], name="x"), 1.0, name="y")
        builder = tfjit.saved_model.Builder(str(tmp_path / "m"))
        builder.add_meta_graph_and_variables(session, ["serve"])
        assert builder.save(as_text=True).endswith(b"saved_model.pbtxt")
    with tf1.Graph().as_default(), tf1.Session() as theirs:
        tf1.saved_model.load(theirs, ["serve"], str(tmp_path / "m"))
        assert theirs.run("y:0", {"x:0": 2.0}) == 3
    with tfjit.Graph().as_default(), tfjit.Session() as session:
        tfjit.saved_model.load(session, ["serve"], tmp_path / "m")
        assert session.run("y:0", {"x:0": 2.0}) == 3


@pytest.mark.parametrize("lib", [tfjit, tf1], ids=["our loader", "TensorFlow's loader"])
def test_a_model_of_tensorflow_2(data_dir: Path, lib: Any) -> None:
    arrays = np.load(data_dir / "lstm_saved_model.npz")
    inputs, outputs = arrays["inputs"], arrays["outputs"]
    with lib.Graph().as_default() as graph, tfjit.Session(graph=graph) as session:
        meta = lib.saved_model.load(session, ["serve"], str(data_dir / "lstm_saved_model"))
        signature = meta.signature_def["serving_default"]
        (given,), (wanted,) = signature.inputs.values(), signature.outputs.values()
        found = session.run(wanted.name, {given.name: inputs})
    np.testing.assert_allclose(found, outputs, 1e-4, 1e-5)


def test_the_command_line_runs_a_saved_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tf1, tf1.Session, tmp_path)
    words = tmp_path / "words.npy"
    np.save(words, np.array([b"c", b"zz"]))
    folder = str(tmp_path / "model")
    out = tmp_path / "out"
    for feed, fetch in (("words:0", "scores:0"), ("w", "s")):
        assert (
            main(["run", folder, "--feed", f"{feed}={words}", "--fetch", fetch, "--out", str(out)])
            == 0
        )
        saved = np.load(out / f"{fetch.replace(':', '_')}.npy")
        np.testing.assert_allclose(saved, read(tf1, tf1.Session, tmp_path), 1e-6)
    assert main(["explain", folder, "--feed", f"words={words}", "--fetch", "scores:0"]) == 0
    assert "scores" in capsys.readouterr().out
    assert os.listdir(out)


def test_tables() -> None:
    with tfjit.Graph().as_default(), tfjit.Session() as session:
        table = tfjit.lookup.StaticHashTable(
            tfjit.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2]), -1
        )
        find = table.lookup([["a", "z"]])
        assert find.shape == (1, 2) and table[tfjit.constant("b")].shape == ()
        with pytest.raises(tfjit.errors.FailedPreconditionError, match="Table not initialized"):
            session.run(find)
        session.run(tfjit.tables_initializer())
        assert session.run([find, table.size()])[0].tolist() == [[1, -1]]
        assert session.run(table.export())[1].tolist() == [1, 2]
        with pytest.raises(
            TypeError,
            match="Dtype of argument `keys` must be <dtype: 'string'>, received: <dtype: 'int32'>",
        ):
            table.lookup(tfjit.constant([1]))
        changing = tfjit.lookup.experimental.MutableHashTable(
            tfjit.string, tfjit.float32, [0.0, 9.0]
        )
        session.run(changing.insert(["k", "l"], [[1.0, 2.0], [3.0, 4.0]]))
        session.run(changing.remove(["l"]))
        assert (
            session.run(changing.lookup(["k", "l"])).tolist() == [[1, 2], [0, 9]]
            and session.run(changing.size()) == 1
        )
        dense = tfjit.lookup.experimental.DenseHashTable(
            tfjit.int64, tfjit.int64, -1, empty_key=0, deleted_key=-1
        )
        session.run(dense.insert(np.int64([5]), np.int64([6])))
        assert (
            session.run(dense.lookup(np.int64([5, 7]))).tolist() == [6, -1]
            and dense.key_dtype is tfjit.int64
        )
        vocabulary = tfjit.lookup.StaticVocabularyTable(
            tfjit.lookup.KeyValueTensorInitializer(["a", "b"], np.int64([0, 1])), 3
        )
        session.run(vocabulary.initializer)
        ids = session.run(vocabulary.lookup(["a", "x", "b", "y"])).tolist()
        assert (
            ids[0] == 0
            and ids[2] == 1
            and all(2 <= ids[k] < 5 for k in (1, 3))
            and session.run(vocabulary.size()) == 5
        )
        with pytest.raises(ValueError, match="`value_dtype` must be int64 if `value_index` is -1"):
            tfjit.lookup.TextFileInitializer("f", tfjit.string, -2, tfjit.float32, -1)
