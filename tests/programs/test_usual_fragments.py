"""Fragments that TensorFlow 1 programs are full of, in one graph of tfjit and one of TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow

import tfjit

tf1 = tensorflow.compat.v1


def embeddings(tf: Any) -> dict[str, Any]:
    """Partitioned tables: a lookup takes row i from partition i mod n by default."""
    cut = tf.fixed_size_partitioner(3)
    table = tf.get_variable(
        "table", [10, 2], partitioner=cut, initializer=tf.random_normal_initializer(seed=3)
    )
    bias = tf.get_variable("bias", [10], partitioner=cut, initializer=tf.ones_initializer())
    rows = tf.nn.embedding_lookup(table, [1, 2, 8])
    ids = tf.SparseTensor([[0, 0], [0, 2], [2, 1]], tf.constant([1, 5, 8], tf.int64), [3, 3])
    labels = tf.constant([[1], [2], [8]], tf.int64)
    sampled = (tf.constant([0, 5], tf.int64), tf.ones([3, 1]), tf.ones([2]))
    return {
        "rows": rows,
        "gradients": tf.gradients(rows * [1.0, 2.0], list(table)),
        "sparse": tf.nn.embedding_lookup_sparse(table, ids, None, combiner="sum"),
        "safe": tf.nn.safe_embedding_lookup_sparse(table, ids, partition_strategy="mod"),
        "nce": tf.nn.nce_loss(table, bias, labels, rows, 2, 10, sampled_values=sampled),
    }


def gradients(tf: Any) -> dict[str, Any]:
    """Functions with gradients of their own, of variables too."""

    @tf.custom_gradient
    def scaled(x: Any) -> Any:
        factor = tf.get_variable("factor", initializer=3.0, use_resource=True)

        def gradient(dy: Any, variables: Any) -> Any:
            assert [variable.name for variable in variables] == ["factor:0"]
            return dy * factor, [tf.reduce_sum(dy * x) + 0.5]

        return x * factor, gradient

    x = tf.constant([1.0, 2.0])
    y = scaled(x)
    for faulty, text in (
        (lambda x: (x * tf.get_variable("plain", [], use_resource=False), None), "ResourceVar"),
        (
            lambda x: (x * tf.get_variable("other", [], use_resource=True), lambda dy: dy),
            "must accept keyword argument 'variables'",
        ),
    ):
        with pytest.raises(TypeError, match=text):
            tf.custom_gradient(faulty)(x)

    @tf.recompute_grad
    def block(x: Any) -> Any:
        with tf.variable_scope("block", reuse=tf.AUTO_REUSE):
            weight = tf.get_variable("weight", initializer=[0.5, 0.25], use_resource=True)
        return tf.tanh(x * weight) ** 2

    z = block(block(x))
    return {
        "scaled": [y, *tf.gradients(y, [x, tf.global_variables("factor")[0]])],
        "recomputed": [z, *tf.gradients(z, [x, tf.global_variables("block")[0]])],
    }


def gates(tf: Any) -> dict[str, Any]:
    """Tuples of gradients and training operations."""
    variable = tf.get_variable("gated", initializer=[[1.0, 2.0], [3.0, 4.0]], use_resource=True)
    slices = tf.gradients(tf.gather(variable, [1]), variable)[0]
    found = tf.tuple([slices, variable.assign_add([[1.0, 1.0], [1.0, 1.0]]).op, None])
    assert isinstance(found[0], tf.IndexedSlices) and found[2] is None
    return {"slices": found[0].values, "operation": found[1]}


def strings(tf: Any) -> dict[str, Any]:
    """One string of a vector, by each op that can take it."""
    words = tf.placeholder_with_default(["a", "b", "c"], [3])
    return {
        "unstack": tf.unstack(words),
        "gather": tf.gather(words, 1),
        "gather_nd": tf.gather_nd(words, [2]),
        "called": tf.py_func(lambda w: np.array([w[0], "ü"], object), [words], tf.string),
        "nothing": tf.py_func(lambda w: None, [words], []),
    }


def values(tf: Any) -> dict[str, Any]:
    """Return the fetched values of all fragments."""
    with tf.Graph().as_default(), tf.Session() as session:
        fetches = {f.__name__: f(tf) for f in (embeddings, gradients, gates, strings)}
        session.run(tf.global_variables_initializer())
        found: dict[str, Any] = session.run(fetches)
        return found


def test_fragments() -> None:
    ours, theirs = values(tfjit), values(tf1)
    tensorflow.nest.assert_same_structure(theirs, ours)
    flat = zip(tensorflow.nest.flatten(theirs), tensorflow.nest.flatten(ours), strict=True)
    for expected, found in flat:
        assert type(found) is type(expected)
        if isinstance(expected, np.ndarray) and expected.dtype != object:
            np.testing.assert_allclose(found, expected, rtol=1e-5)
        else:
            np.testing.assert_array_equal(found, expected)
