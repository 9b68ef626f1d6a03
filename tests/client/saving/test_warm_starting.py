"""Initial values from checkpoints against TensorFlow's: the same nodes, values, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow

import tfjit
from tests.client.variables.same_graphs import nodes, resource_variables

tf1 = tensorflow.compat.v1

OLD_WORDS, NEW_WORDS = "the of and a in", "a new the word of all"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a folder with a checkpoint and vocabularies beside it."""
    folder = tmp_path_factory.mktemp("old")
    with tf1.Graph().as_default(), tf1.Session() as session:
        cut = tf1.fixed_size_partitioner(2)
        for name, shape in (("a/v", [2]), ("a/w", [4, 3]), ("b", []), ("words", [5, 2])):
            value = tf1.random_normal_initializer(seed=7)
            tf1.get_variable(name, shape, initializer=value)
        tf1.get_variable("cut", [5, 2], partitioner=cut)
        tf1.get_variable("columns", [3, 5])
        session.run(tf1.global_variables_initializer())
        tf1.train.Saver().save(session, str(folder / "model"), global_step=3)
    (folder / "old.txt").write_text(OLD_WORDS.replace(" ", "\n") + "\n")
    (folder / "new.txt").write_text(NEW_WORDS.replace(" ", "\n"))
    return str(folder)


def initialized(tf: Any, path: str) -> dict[str, Any]:
    """Make variables that start from the checkpoint."""
    cut = tf.fixed_size_partitioner
    for name, shape in (("n/v", [2]), ("n/w", [4, 3]), ("single", []), ("again", [])):
        tf.get_variable(name, shape)
    part = tf.get_variable("part", [5, 2], partitioner=cut(3))
    with tf.variable_scope("a"):
        tf.get_variable("w", [4, 3], partitioner=cut(2, axis=1))
        tf.get_variable("v", [2])
    tf.train.init_from_checkpoint(path, {"a/": "n/", "b": "single", "cut": "part"})
    tf.train.init_from_checkpoint(path + "/model-3", [("b", tf.global_variables()[3])])
    tf.train.init_from_checkpoint(path, {"a/": "a/", "cut": list(part)})
    return {v.name: v for v in tf.global_variables()}


def warm_started(tf: Any, path: str) -> dict[str, Any]:
    """Make variables with other vocabularies and names, warm-started from the checkpoint."""
    cut, get = tf.fixed_size_partitioner, tf.get_variable
    info, old, new = tf.train.VocabInfo, f"{path}/old.txt", f"{path}/new.txt"
    ones = tf.ones_initializer()
    get("renamed", [4, 3])
    get("b", [])
    get("also_b", [])
    get("words", [7, 2])
    get("more", [9, 2], partitioner=cut(2))
    get("columns", [3, 8], partitioner=cut(2))
    vocabularies = {
        "words": info(new, 6, 1, old, old_vocab_size=3),
        "more": info(new, 6, 3, old, backup_initializer=ones),
        "columns": info(new, 6, 2, old, backup_initializer=ones, axis=1),
    }
    names = {"renamed": "a/w", "also_b": "b", "more": "words"}
    tf.train.warm_start(path, ".*", vocabularies, names)
    other = get("other", [5, 2])
    tf.train.warm_start(path, [other], var_name_to_prev_var_name={"other": "cut"})
    tf.train.warm_start(path, ["b$"])
    return {v.name: v for v in tf.global_variables()}


@pytest.mark.parametrize("program", [initialized, warm_started])
@pytest.mark.parametrize("resource", [False, True], ids=["reference", "resource"])
def test_values(
    program: Any, resource: bool, checkpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFJIT_JIT", "off")
    graphs, values = [], []
    for tf in (tf1, tfjit):
        graph = tf.Graph()
        with graph.as_default(), tf.Session() as session, resource_variables(resource):
            fetches = program(tf, checkpoint)
            session.run(tf.global_variables_initializer())
            values.append(session.run(fetches))
        graphs.append(nodes(graph))
    assert graphs[1].keys() == graphs[0].keys()
    for name, node in graphs[0].items():
        assert graphs[1][name] == node
    for name, value in values[0].items():
        np.testing.assert_array_equal(values[1][name], value, err_msg=name)


def errors(tf: Any, path: str) -> list[tuple[str, str]]:
    """Return classes and texts of errors."""
    v, start = tf.get_variable("v", [2]), tf.train.init_from_checkpoint
    warm, info = tf.train.warm_start, tf.train.VocabInfo("new", 6, 1, "old")
    found = []
    for case in (
        lambda: start(path, {"none": v}),
        lambda: start(path, {"a/w": v}),
        lambda: start(path, {"a/v": "none"}),
        lambda: start(path, {"b/": "/"}),
        lambda: start(path + "/nothing", {"v": v}),
        lambda: warm(path, 3),
        lambda: warm(path, ["v", 3]),
        lambda: warm(path, ["none"], {"u": info}),
        lambda: warm(path, None, None, {"u": "v"}),
        lambda: tf.train.VocabInfo("new", 6, 1, "old", axis=2),
    ):
        with pytest.raises(Exception) as error:
            case()
        found.append((type(error.value).__name__, str(error.value)))
    return found


def test_errors(checkpoint: str) -> None:
    found = []
    for tf in (tf1, tfjit):
        with tf.Graph().as_default():
            found.append(errors(tf, checkpoint))
    for (kind, text), (our_kind, our_text) in zip(*found, strict=True):
        assert our_kind == kind, our_text
        # The order of a set or dictionary in a text is open.
        if kind != "NotFoundError":
            assert sorted(our_text) == sorted(text), (our_text, text)


def test_lists_of_checkpoints(checkpoint: str, tmp_path: Path) -> None:
    prefix = f"{checkpoint}/model-3"
    found = []
    for tf in (tf1, tfjit):
        train = tf.train
        state = train.generate_checkpoint_state_proto(
            "here", "here/a-2", ["here/a-1"], [1.0, 2.0], 3.0
        )
        again = list(train.checkpoints_iterator(checkpoint, timeout=0))
        never = list(train.checkpoints_iterator(str(tmp_path), timeout=0, timeout_fn=lambda: True))
        times = train.get_checkpoint_mtimes([prefix, "nothing", f"{checkpoint}/old.txt"])
        with tf.Graph().as_default():
            writer = tf.summary.FileWriter(str(tmp_path / tf.__name__), tf.Graph())
        summary = tf.Summary(value=[tf.Summary.Value(tag="x", simple_value=2.0)])
        writer.add_summary(summary, 5)
        writer.close()
        (path,) = (tmp_path / tf.__name__).iterdir()
        events = [e.step for e in train.summary_iterator(str(path)) if e.HasField("summary")]
        found.append((str(state), again, never, times, events))
    assert found[1] == found[0]
    assert found[1][1:3] == ([prefix], [])
