"""Sparse tensors as components of datasets' elements, against TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow

import tfjit

tf1 = tensorflow.compat.v1


def dataset(tf: Any) -> Any:
    return tf.data.Dataset.from_tensors(tf.SparseTensor([[0, 0], [1, 2]], [1, 2], [3, 4]))


PIPELINES = {
    "one": dataset,
    "batch": lambda tf: dataset(tf).repeat(3).batch(2),
    "whole batches": lambda tf: dataset(tf).repeat(3).batch(2, drop_remainder=True),
    "slices": lambda tf: tf.data.Dataset.from_tensor_slices(
        {"a": tf.SparseTensor([[0, 0], [2, 1]], [1.0, 2.0], [3, 4]), "b": [1, 2, 3]}
    ),
    "a value": lambda tf: tf.data.Dataset.from_tensors(
        tf.SparseTensorValue([[0, 1]], np.float32([1]), [1, 2])
    ),
    "unbatch": lambda tf: dataset(tf).batch(1).apply(tf.data.experimental.unbatch()),
    "map": lambda tf: dataset(tf).map(
        lambda s: (s.values, tf.SparseTensor(s.indices, s.values * 2, s.dense_shape))
    ),
    "map and batch": lambda tf: tf.data.Dataset.from_tensor_slices(["a b", "c"]).apply(
        tf.data.experimental.map_and_batch(lambda x: tf.string_split([x]), 2)
    ),
    "concatenate": lambda tf: (
        dataset(tf)
        .concatenate(tf.data.Dataset.from_tensors(tf.SparseTensor([[0, 0]], [1], [9, 4])))
        .batch(2)
    ),
    "filter": lambda tf: dataset(tf).filter(lambda s: tf.equal(s.dense_shape[0], 3)),
    "flat_map": lambda tf: dataset(tf).flat_map(tf.data.Dataset.from_tensor_slices),
    "window": lambda tf: dataset(tf).repeat(3).window(2).flat_map(lambda w: w.batch(2)),
    "zip": lambda tf: tf.data.Dataset.zip((dataset(tf), tf.data.Dataset.range(3))),
}


def elements(tf: Any) -> dict[str, Any]:
    """Return spec, static shapes and elements of each pipeline."""
    found = {}
    with tf.Graph().as_default(), tf.Session() as session:
        for name, build in PIPELINES.items():
            made = build(tf)
            structure = (made.output_types, made.output_shapes, made.output_classes)
            iterator = tf.data.Iterator.from_structure(*structure[:2], output_classes=structure[2])
            element = iterator.get_next()
            session.run(iterator.make_initializer(made))
            rows = [str(made.element_spec).replace("tf.", "")]
            parts = element if isinstance(element, tuple) else (element,)
            rows += [str(part.shape) for part in parts if not isinstance(part, dict)]
            try:
                for _ in range(9):
                    rows.append(str(session.run(element)))
            except tf.errors.OutOfRangeError:
                found[name] = rows
        sparse = tf.sparse_placeholder(tf.float32)
        fed = tf.data.Dataset.from_tensors(sparse).make_initializable_iterator()
        value = tf.SparseTensorValue([[0, 1]], [2.0], [1, 3])
        session.run(fed.initializer, {sparse: value})
        found["fed"] = [str(session.run(fed.get_next()))]
        once = dataset(tf).make_one_shot_iterator()
        handle = tf.placeholder(tf.string, [])
        made = dataset(tf)
        taken = tf.data.Iterator.from_string_handle(
            handle, made.output_types, made.output_shapes, made.output_classes
        ).get_next()
        found["handle"] = [str(session.run(taken, {handle: session.run(once.string_handle())}))]
    return found


def test_elements_are_tensorflows() -> None:
    expected, found = elements(tf1), elements(tfjit)
    assert found == expected
    assert len(found) == len(PIPELINES) + 2


def test_errors() -> None:
    with tfjit.Graph().as_default():
        made = dataset(tfjit)
        with pytest.raises(
            TypeError, match="only supported for datasets that produce tensor elements"
        ):
            made.padded_batch(2)
        with pytest.raises(TypeError, match="Incompatible elements"):
            made.concatenate(tfjit.data.Dataset.from_tensors(tfjit.zeros([3, 4], tfjit.int32)))
        with pytest.raises(TypeError, match="IndexedSlices are no components"):
            tfjit.data.Dataset.from_tensors(tfjit.IndexedSlices([[1.0]], [0], [3, 1]))
        dense = tfjit.data.Iterator.from_structure(made.output_types, made.output_shapes)
        with pytest.raises(TypeError, match="Incompatible elements"):
            dense.make_initializer(made)
