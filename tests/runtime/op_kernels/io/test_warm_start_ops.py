"""Vocabularies and matrices remapped for a warm start, beside TensorFlow's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import tfjit
from tests import oracle

tf1 = tf.compat.v1
raw = tf.raw_ops
M = np.arange(12, dtype=np.float32).reshape(4, 3)

# changes to the arguments of `vocabulary` and `matrix`
VOCABULARIES: list[dict[str, Any]] = [
    {},
    {"new_vocab_offset": 1, "num_new_vocab": 2},
    {"old_vocab_size": 1},
    {"num_new_vocab": 0},
    {"num_new_vocab": 5},
    {"old_vocab_file": "dup"},
    {"old_vocab_file": "absent"},
    {"new_vocab_file": "absent"},
    {"old_vocab_size": 9},
    {"old_vocab_size": 0},
    {"old_vocab_file": "empty"},
    {"new_vocab_file": "dup", "num_new_vocab": 3},
    {"new_vocab_file": "empty", "num_new_vocab": 0},
]
MATRICES: list[dict[str, Any]] = [
    {},
    {"row_remapping": [2, 2, 0], "initializing_values": []},
    {"row_remapping": [7, 1, 0], "initializing_values": []},
    {"row_remapping": [1, 0], "initializing_values": []},
    {"initializing_values": [1.0]},
    {"initializing_values": [1.0] * 5},
    {"num_cols": 2, "col_remapping": [1, -1], "initializing_values": [1.0, 2, 3, 4]},
    {"num_cols": 2, "col_remapping": [1, 1], "initializing_values": [1.0, 2]},
    {"num_cols": 4, "col_remapping": [2, 1, 0, -1], "initializing_values": [1.0, 2, 3, 4, 5, 6]},
    {"num_cols": 2},
    {"num_cols": 2, "col_remapping": [1], "initializing_values": [1.0, 2, 3, 4]},
    {"old_tensor_name": "zz"},
    {"old_tensor_name": "i"},
    {"old_tensor_name": "v"},
    {"ckpt_path": "absent"},
    {"max_rows_in_memory": 1},
    {"row_remapping": [-1, -2, -1], "initializing_values": list(range(9))},
    {"row_remapping": [], "initializing_values": [], "num_rows": 0},
    {"row_remapping": [2, 1, 0], "initializing_values": [], "old_tensor_name": "p"},
]


def vocabulary(folder: Path, changes: dict[str, Any]) -> Any:
    given = {
        "new_vocab_file": "new",
        "old_vocab_file": "old",
        "new_vocab_offset": 0,
        "num_new_vocab": 4,
        "old_vocab_size": -1,
        **changes,
    }
    for name in ("new_vocab_file", "old_vocab_file"):
        given[name] = str(folder / given[name])
    return list(raw.GenerateVocabRemapping(**given))


def matrix(folder: Path, changes: dict[str, Any]) -> Any:
    given: dict[str, Any] = {
        "ckpt_path": "ck",
        "old_tensor_name": "m",
        "row_remapping": [2, -1, 0],
        "col_remapping": [],
        "initializing_values": [9.0, 8, 7],
        "num_rows": 3,
        "num_cols": 3,
        **changes,
    }
    given["ckpt_path"] = str(folder / given["ckpt_path"])
    for name in ("row_remapping", "col_remapping"):
        given[name] = tf.constant(given[name], tf.int64)
    given["initializing_values"] = tf.constant(given["initializing_values"], tf.float32)
    return raw.LoadAndRemapMatrix(**given)


def test_equal_tensorflow(tmp_path: Path) -> None:
    for name, text in (
        ("new", "a\nb\nc\nd\n"),
        ("old", "c\nx\na\n"),
        ("dup", "c\nx\nc"),
        ("empty", ""),
    ):
        (tmp_path / name).write_text(text)
    with tf1.Graph().as_default() as graph:
        save = raw.SaveV2(
            prefix=str(tmp_path / "ck"),
            tensor_names=["m", "i", "v", "p"],
            shape_and_slices=["", "", "", "8 3 0,4:-"],
            tensors=[M, M.astype(np.int32), M[0], M],
        )
        ops = [vocabulary(tmp_path, changes) for changes in VOCABULARIES]
        ops += [matrix(tmp_path, changes) for changes in MATRICES]
        shapes = [op.shape.as_list() for op in ops[len(VOCABULARIES) :]]
    assert shapes[0] == [3, 3]
    answers: list[list[Any]] = []
    for kind in (tf1.Session, tfjit.Session):
        found: list[Any] = []
        with kind(graph=graph) as session:
            session.run(save)
            for op in ops:
                try:
                    found.append(repr(session.run(op)))
                except Exception as error:
                    text = oracle.cause(error.message).split("\t [[")[0]
                    found.append((type(error).__name__, text))
        answers.append(found)
    for case, theirs, ours in zip([*VOCABULARIES, *MATRICES], *answers, strict=True):
        assert ours == theirs, case
    with tf1.Graph().as_default() as graph:
        outside = matrix(
            tmp_path, {"num_cols": 2, "col_remapping": [1, 8], "initializing_values": [1.0, 2]}
        )
    with tfjit.Session(graph=graph) as session:
        try:
            session.run(outside)
        except tfjit.errors.InvalidArgumentError as error:
            assert "col_remapping has 8, but m has 3 columns" in error.message
