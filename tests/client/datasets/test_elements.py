"""Sparse tensors as components of elements: values and specs of TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow

import tfjit

tf1 = tensorflow.compat.v1


def words(tf: Any) -> Any:
    text = tf.constant([["a b", "c"], ["d", ""], ["e", "f g h"]])
    return tf.data.Dataset.from_tensor_slices(text).map(tf.string_split)


def matrix(tf: Any) -> Any:
    return tf.SparseTensor([[0, 0], [1, 1]], [1.0, 2.0], [2, 3])


def pairs(tf: Any) -> Any:
    return tf.data.Dataset.from_tensor_slices({"a": matrix(tf), "b": [1, 2]})


def parsed(tf: Any) -> Any:
    example = tf1.train.Example()
    example.features.feature["ids"].int64_list.value.extend([4, 5])
    rows = tf.data.Dataset.from_tensors([example.SerializeToString(), b""])
    features = {"ids": tf.VarLenFeature(tf.int64), "n": tf.FixedLenFeature([], tf.int64, 7)}
    return rows.map(lambda texts: tf.parse_example(texts, features))


DATASETS: dict[str, Callable[[Any], Any]] = {
    "map": words,
    "batch": lambda tf: words(tf).batch(2),
    "batches of batches": lambda tf: words(tf).batch(1).batch(3),
    "shuffle and cache": lambda tf: words(tf).cache().repeat(2).shuffle(3, seed=1).batch(2),
    "map to dense": lambda tf: words(tf).batch(2).map(lambda s: (s, tf.sparse.to_dense(s, ""))),
    "parallel map": lambda tf: words(tf).map(lambda s: tf.sparse.transpose(s), 2).prefetch(1),
    "filter": lambda tf: words(tf).filter(lambda s: tf.size(s.values) > 1),
    "flat map": lambda tf: words(tf).flat_map(
        lambda s: tf.data.Dataset.from_tensors((s, tf.size(s.values)))
    ),
    "slices": pairs,
    "batch of slices": lambda tf: pairs(tf).batch(2, drop_remainder=True),
    "unbatch": lambda tf: tf.data.Dataset.from_tensors({"a": matrix(tf), "b": [3, 4]}).unbatch(),
    "zip and concatenate": lambda tf: tf.data.Dataset.zip((words(tf), words(tf))).concatenate(
        tf.data.Dataset.zip((words(tf), words(tf)))
    ),
    "value": lambda tf: tf.data.Dataset.from_tensors(
        tf.SparseTensorValue([[0, 1]], np.float32([3.0]), [2, 2])
    ),
    "dense to sparse": lambda tf: (
        tf.data.Dataset.range(4)
        .map(tf.range)
        .apply(tf.data.experimental.dense_to_sparse_batch(3, [5]))
    ),
    "examples": parsed,
    "scan": lambda tf: words(tf).apply(
        tf.data.experimental.scan(0, lambda n, s: (n + tf.size(s.values), (n, s)))
    ),
}


def test_values() -> None:
    """One session of each library runs all datasets to their ends."""
    found: list[dict[str, Any]] = []
    for tf in (tf1, tfjit):
        texts = {}
        with tf.Graph().as_default(), tf.Session() as session:
            for name, make in DATASETS.items():
                dataset = make(tf)
                iterator = tf.data.make_initializable_iterator(dataset)
                element, rows = iterator.get_next(), []
                session.run(iterator.initializer)
                with pytest.raises(tf.errors.OutOfRangeError):
                    while True:
                        rows.append(session.run(element))
                spec = str(dataset.element_spec).replace(", name=None", "")
                shapes = str(tf.data.get_output_shapes(dataset))
                texts[name] = (rows, spec, shapes, str(tf.data.get_output_types(dataset)))
        found.append(texts)
    for name, theirs in found[0].items():
        ours = found[1][name]
        np.testing.assert_equal(ours[0], theirs[0], err_msg=name)
        assert ours[1:] == theirs[1:], name


def test_iterators_by_structure_and_handle() -> None:
    rows = []
    for tf in (tf1, tfjit):
        with tf.Graph().as_default(), tf.Session() as session:
            dataset = pairs(tf)
            types, shapes, classes = (
                getattr(tf.data, f"get_output_{part}")(dataset)
                for part in ("types", "shapes", "classes")
            )
            assert classes == {"a": tf.SparseTensor, "b": tf.Tensor}
            iterator = tf.data.Iterator.from_structure(types, shapes, output_classes=classes)
            start, element = iterator.make_initializer(dataset), iterator.get_next()
            handle = tf.placeholder(tf.string, [])
            other = tf.data.Iterator.from_string_handle(handle, types, shapes, classes).get_next()
            text = session.run(iterator.string_handle())
            session.run(start)
            rows.append([session.run(element), session.run(other, {handle: text})])
    np.testing.assert_equal(rows[1], rows[0])


def test_errors() -> None:
    for tf in (tf1, tfjit):
        with tf.Graph().as_default():
            with pytest.raises(TypeError, match="not a subclass of TensorSpec: `SparseTensorSpec"):
                words(tf).padded_batch(2)
            with pytest.raises(TypeError):
                pairs(tf).apply(tf.data.experimental.dense_to_sparse_batch(3, [5]))


def test_specs() -> None:
    for tf in (tf1, tfjit):
        spec = tf.SparseTensorSpec([None, 3], tf.int32)
        assert (spec.shape.as_list(), spec.dtype) == ([None, 3], tf.int32)
        assert spec == tf.SparseTensorSpec((None, 3), tf.int32) != tf.SparseTensorSpec()
        assert spec.is_compatible_with(tf.SparseTensorSpec([2, 3], tf.int32))
        assert not spec.is_compatible_with(tf.SparseTensorSpec([2, 4], tf.int32))
        assert repr(spec) == "SparseTensorSpec(TensorShape([None, 3]), tf.int32)"
