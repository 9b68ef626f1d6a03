"""Saver and meta graphs of the front end: what they write TensorFlow reads, and the other way
round.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit

tf1 = tf.compat.v1


def small_model() -> dict[str, Any]:
    x = tfjit.placeholder(tfjit.float32, [None, 2], name="x")
    w = tfjit.get_variable("w", [2, 3], initializer=tfjit.random_normal_initializer(seed=1))
    b = tfjit.get_variable("b", [3], initializer=tfjit.ones_initializer(), use_resource=True)
    names = tfjit.Variable(["a", "b"], name="names", trainable=False)
    step = tfjit.train.get_or_create_global_step()
    y = tfjit.add(tfjit.matmul(x, w), b, name="y")
    return {"x": x, "w": w, "b": b, "names": names, "step": step, "y": y}


def test_save_and_restore(tmp_path: Path) -> None:
    with tfjit.Graph().as_default():
        m = small_model()
        saver = tfjit.train.Saver()
        assert saver.saver_def.filename_tensor_name == "save/Const:0"
        assert saver.saver_def.save_tensor_name == "save/control_dependency:0"
        assert saver.saver_def.restore_op_name == "save/restore_all"
        with tfjit.Session() as session:
            session.run(tfjit.global_variables_initializer())
            path = saver.save(session, str(tmp_path / "model"), global_step=m["step"])
            assert path == str(tmp_path / "model-0") == tfjit.train.latest_checkpoint(tmp_path)
            values = session.run([m["w"], m["b"], m["names"]])
        with tfjit.Session() as session:
            saver.restore(session, path)
            for before, after in zip(
                values, session.run([m["w"], m["b"], m["names"]]), strict=True
            ):
                np.testing.assert_array_equal(before, after)
            assert session.run(tfjit.report_uninitialized_variables()).size == 0
    theirs = tf1.train.load_checkpoint(path)
    assert sorted(theirs.get_variable_to_shape_map()) == ["b", "global_step", "names", "w"]
    np.testing.assert_array_equal(theirs.get_tensor("w"), values[0])
    assert tfjit.train.list_variables(tmp_path) == [
        ("b", [3]),
        ("global_step", []),
        ("names", [2]),
        ("w", [2, 3]),
    ]
    np.testing.assert_array_equal(tfjit.train.load_variable(path, "w"), values[0])
    assert tf1.train.latest_checkpoint(str(tmp_path)) == path


def test_tensorflow_runs_a_meta_graph_of_ours(tmp_path: Path) -> None:
    x = np.ones((2, 2), np.float32)
    with tfjit.Graph().as_default():
        m = small_model()
        with tfjit.Session() as session:
            session.run(tfjit.global_variables_initializer())
            path = tfjit.train.Saver().save(session, str(tmp_path / "model"))
            expected = session.run(m["y"], {m["x"]: x})
    with tf1.Graph().as_default() as graph, tf1.Session() as session:
        saver = tf1.train.import_meta_graph(f"{path}.meta")
        saver.restore(session, path)
        np.testing.assert_allclose(session.run("y:0", {"x:0": x}), expected, 1e-6)
        assert [v.op.name for v in tf1.global_variables()] == ["w", "b", "names", "global_step"]
        assert [type(v).__name__ for v in tf1.trainable_variables()] == [
            "RefVariable",
            "ResourceVariable",
        ]
        assert graph.get_collection("global_step")[0].op.name == "global_step"


@pytest.mark.parametrize("scope", [None, "inner"])
def test_we_run_a_meta_graph_of_tensorflows(tmp_path: Path, scope: str | None) -> None:
    with tf1.Graph().as_default():
        x = tf1.placeholder(tf.float32, [None, 2], name="x")
        w = tf1.get_variable("w", [2, 3], use_resource=True)
        v = tf1.get_variable("v", [3])
        y = tf.add(tf.matmul(x, w), v, name="y")
        tf1.add_to_collection("outputs", y)
        tf1.add_to_collection("sizes", 3)
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            path = tf1.train.Saver().save(session, str(tmp_path / "model"))
            expected = session.run(y, {x: np.eye(2)})
    with tfjit.Graph().as_default(), tfjit.Session() as session:
        saver = tfjit.train.import_meta_graph(f"{path}.meta", import_scope=scope)
        saver.restore(session, path)
        prefix = f"{scope}/" if scope else ""
        (output,) = tfjit.get_collection("outputs")
        np.testing.assert_allclose(session.run(output, {f"{prefix}x:0": np.eye(2)}), expected, 1e-6)
        assert tfjit.get_collection("sizes") == [3]
        assert [v.name for v in tfjit.trainable_variables()] == [f"{prefix}w:0", f"{prefix}v:0"]
        assert tfjit.global_variables()[0] is tfjit.trainable_variables()[0]


def test_what_is_kept(tmp_path: Path) -> None:
    with tfjit.Graph().as_default(), tfjit.Session() as session:
        v = tfjit.Variable(1.0)
        session.run(v.initializer)
        saver = tfjit.train.Saver(max_to_keep=2, save_relative_paths=True, pad_step_number=True)
        paths = [saver.save(session, str(tmp_path / "m"), global_step=k) for k in range(4)]
        assert paths[3].endswith("m-00000003") and saver.last_checkpoints == paths[2:]
        assert [tfjit.train.checkpoint_exists(path) for path in paths] == [False, False, True, True]
        assert sorted(os.listdir(tmp_path)) == sorted(
            [
                "checkpoint",
                *(
                    f"m-0000000{k}.{part}"
                    for k in (2, 3)
                    for part in ("index", "meta", "data-00000-of-00001")
                ),
            ]
        )
        state = tfjit.train.get_checkpoint_state(tmp_path)
        assert (
            list(state.all_model_checkpoint_paths) == paths[2:]
            and state.model_checkpoint_path == paths[3]
        )
        assert (
            list(tf1.train.get_checkpoint_state(str(tmp_path)).all_model_checkpoint_paths)
            == paths[2:]
        )
        another = tfjit.train.Saver(max_to_keep=2)
        another.recover_last_checkpoints([*state.all_model_checkpoint_paths, "gone"])
        another.save(session, str(tmp_path / "m"), global_step=7, write_meta_graph=False)
        assert [path.rpartition("-")[2] for path in another.last_checkpoints] == ["00000003", "7"]
    assert (
        tfjit.train.latest_checkpoint(tmp_path / "none") is None
        and tfjit.train.get_checkpoint_state(tmp_path / "none") is None
    )


def test_names_shapes_and_shards(tmp_path: Path) -> None:
    with (
        tfjit.Graph().as_default(),
        tfjit.Session(config=tfjit.ConfigProto(device_count={"CPU": 2})) as session,
    ):
        with tfjit.device("/cpu:1"):
            a = tfjit.Variable(np.arange(6.0), name="a")
        b = tfjit.Variable([[1, 2]], name="b", use_resource=True)
        session.run(tfjit.global_variables_initializer())
        sharded = tfjit.train.Saver({"alpha": a, "beta": b}, sharded=True).save(
            session, str(tmp_path / "s")
        )
        assert tfjit.train.list_variables(sharded) == [("alpha", [6]), ("beta", [1, 2])]
        assert len([name for name in os.listdir(tmp_path) if ".data-" in name]) == 2
        tables = tf1.train.load_checkpoint(sharded)
        np.testing.assert_array_equal(tables.get_tensor("alpha"), np.arange(6.0))
        c = tfjit.Variable(np.zeros((2, 3)), name="c")
        tfjit.train.Saver({"alpha": c}, reshape=True, restore_sequentially=True).restore(
            session, sharded
        )
        assert session.run(c).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_errors(tmp_path: Path) -> None:
    with tfjit.Graph().as_default():
        with pytest.raises(ValueError, match="^No variables to save$"):
            tfjit.train.Saver()
        empty = tfjit.train.Saver(allow_empty=True)
        v = tfjit.Variable(1.0, name="v")
        with tfjit.Session() as session:
            assert empty.save(session, str(tmp_path / "e")) is None
            session.run(v.initializer)
            saver = tfjit.train.Saver()
            path = saver.save(session, str(tmp_path / "m"))
            with pytest.raises(
                ValueError, match="Parent directory of .* doesn't exist, can't save"
            ):
                saver.save(session, str(tmp_path / "none" / "m"))
            with pytest.raises(ValueError, match="'latest_filename' collides with 'save_path'"):
                saver.save(session, str(tmp_path / "checkpoint"))
            with pytest.raises(ValueError, match="must not contain path components"):
                saver.save(session, path, latest_filename="a/b")
            with pytest.raises(
                ValueError, match="The passed save_path is not a valid checkpoint: none"
            ):
                saver.restore(session, "none")
            with pytest.raises(ValueError, match="Can't load save_path when it is None"):
                saver.restore(session, None)
            with pytest.raises(
                tfjit.errors.NotFoundError,
                match="Restoring from checkpoint failed. .* due to a Variable name",
            ):
                tfjit.train.Saver({"other": v}).restore(session, path)
            w = tfjit.Variable([1.0, 2.0], name="w")
            with pytest.raises(
                tfjit.errors.InvalidArgumentError,
                match="a mismatch between the current graph and the graph from",
            ):
                tfjit.train.Saver({"v": w}).restore(session, path)
            assert session.run(v) == 1
        with pytest.raises(TypeError, match="Variable to save is not a Variable"):
            tfjit.train.Saver([3])
        with pytest.raises(
            ValueError, match="If `var_list` is provided then build cannot be deferred"
        ):
            tfjit.train.Saver([v], defer_build=True)
        with pytest.raises(tfjit.errors.NotFoundError, match="File none.meta does not exist"):
            tfjit.train.import_meta_graph("none.meta")
        with pytest.raises(
            ValueError, match="Couldn't find 'checkpoint' file or checkpoints in given directory"
        ):
            tfjit.train.load_checkpoint(tmp_path / "..")
        with pytest.raises(tfjit.errors.NotFoundError):
            tfjit.train.load_checkpoint(tmp_path / "none")


def test_stripped_and_without_devices(tmp_path: Path) -> None:
    with tfjit.Graph().as_default() as graph:
        with tfjit.device("/cpu:0"):
            y = tfjit.matmul(tfjit.ones([1, 2]), tfjit.ones([2, 1]), name="y")
        tfjit.add_to_collection("odd", object())
        tfjit.add_to_collection("texts", "t")
        meta = tfjit.train.export_meta_graph(
            str(tmp_path / "m.pbtxt"), as_text=True, clear_devices=True, strip_default_attrs=True
        )
    (node,) = [node for node in meta.graph_def.node if node.name == "y"]
    assert node.device == "" and "transpose_a" not in node.attr and "odd" not in meta.collection_def
    assert "MatMul" in [op.name for op in meta.meta_info_def.stripped_op_list.op]
    assert y.graph is graph
    with tfjit.Graph().as_default(), tfjit.Session() as session:
        assert tfjit.train.import_meta_graph(str(tmp_path / "m.pbtxt")) is None
        assert session.run("y:0").tolist() == [[2]] and tfjit.get_collection("texts") == [b"t"]
