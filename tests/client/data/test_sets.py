"""tf.sets: graphs, values and errors are TensorFlow's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tfjit
from tests.client.evaluation.batches import error_of, tensorflow_one, tf1
from tests.client.variables.same_graphs import nodes

NAMES = ("intersection", "difference", "union")


@pytest.fixture(scope="module", autouse=True)
def as_in_version_one() -> Iterator[None]:
    with tensorflow_one():
        yield


def program(tf: Any) -> tuple[list[Any], dict[Any, Any]]:
    """Return sets of dense and sparse tensors, and feeds."""
    dense = tf.placeholder(tf.int64, [2, 3], name="dense")
    sparse = tf.sparse_placeholder(tf.int64, [2, 4], name="sparse")
    made = [tf.sets.size(sparse), tf.sets.set_size(sparse, validate_indices=False)]
    for name in (*NAMES, *(f"set_{name}" for name in NAMES)):
        for a, b in ((dense, dense[::-1]), (dense, sparse), (sparse, dense), (sparse, sparse)):
            made += [getattr(tf.sets, name)(a, b), getattr(tf.sets, name)(a, b, False)]
    made.append(tf.sets.difference(sparse, dense, aminusb=False, validate_indices=False))
    texts = tf.constant([["a", "b", "a"], ["c", "a", "b"]])
    made.append(tf.sets.union(texts, texts[::-1]))
    indices = [[0, 0], [0, 2], [1, 1], [1, 3]]
    feeds = {dense: [[1, 5, 1], [2, 9, 4]], sparse: (indices, [5, 7, 2, 2], [2, 4])}
    return made, feeds


def test_graphs_and_values() -> None:
    graphs, found = [], []
    for tf in (tfjit, tf1):
        with tf.Graph().as_default() as graph, tf.Session() as session:
            made, feeds = program(tf)
            found.append(session.run(made, feeds))
        graphs.append(nodes(graph))
    assert graphs[0] == graphs[1]
    for ours, theirs in zip(*found, strict=True):
        parts = zip(ours, theirs, strict=True) if isinstance(theirs, tuple) else [(ours, theirs)]
        for mine, wanted in parts:
            assert np.asarray(mine).dtype == np.asarray(wanted).dtype
            np.testing.assert_array_equal(mine, wanted)


@pytest.mark.parametrize("case", ["dense size", "float size", "float", "mixed"])
def test_errors(case: str) -> None:
    def build(tf: Any) -> None:
        sparse = tf.SparseTensor([[0, 0]], [1.0], [1, 1])
        if case == "dense size":
            tf.sets.size(tf.ones([1, 1], name="x"))
        elif case == "float size":
            tf.sets.size(sparse)
        elif case == "float":
            tf.sets.union(sparse, sparse)
        else:
            tf.sets.union(tf.ones([1, 1], tf.int64), tf.ones([1, 1], tf.int32))

    ours, theirs = error_of(tfjit, build), error_of(tf1, build)
    assert ours[0] == theirs[0] == "TypeError"
    assert ours[1].partition(" not in supported")[0] == theirs[1].partition(" not in supported")[0]


def test_dense_or_sparse() -> None:
    for tf in (tfjit, tf1):
        with tf.Graph().as_default():
            convert = tf.convert_to_tensor_or_sparse_tensor
            value = tf.SparseTensorValue([[0]], [1.0], [2])
            assert isinstance(convert(value), tf.SparseTensor)
            assert isinstance(convert([1.0], tf.float64, "x"), tf.Tensor)
            with pytest.raises(RuntimeError, match=r"Requested: int32, +Actual: float32"):
                convert(value, dtype=tf.int32)
