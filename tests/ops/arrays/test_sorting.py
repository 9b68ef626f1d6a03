"""`tf.sort` and other functions made of ops, against TensorFlow's: nodes, shapes and values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow

import tfjit
from tests.client.variables.same_graphs import nodes, shapes, switches_and_merges

tf1 = tensorflow.compat.v1

RANDOM = np.random.default_rng(5)
FLOATS = np.round(RANDOM.normal(size=(3, 4, 5)), 1).astype("f4")
INTS = RANDOM.integers(-128, 127, (4, 3)).astype("i1")
UNSIGNED = RANDOM.integers(0, 256, (6,)).astype("u1")


def program(tf: Any) -> list[Any]:
    """Return values of sorts, gathers and clippings."""
    x, n, u = tf.constant(FLOATS), tf.constant(INTS), tf.constant(UNSIGNED)
    unknown = tf.placeholder_with_default(FLOATS, None)
    partly = tf.placeholder_with_default(FLOATS, [None, 4, None])
    found = []
    for values in (x, n, u):
        for direction in ("ASCENDING", "DESCENDING"):
            found += [tf.sort(values, direction=direction), tf.argsort(values, 0, direction)]
    found += [tf.sort(x, 1), tf.argsort(x, axis=-2), tf.sort(unknown, -2), tf.argsort(unknown, 1)]
    found += [tf.sort(tf.zeros([0, 3])), tf.argsort(tf.zeros([3, 0]), 0), tf.sort([2, 1], name="s")]
    places = tf.constant([[3, 0], [1, 1], [2, 2]])
    found += [tf.batch_gather(x, places), tf.batch_gather(partly, places)]
    found += [tf.batch_gather(x[0, 0], tf.constant([4, 0, 4], tf.int64))]
    found += [tf.batch_gather(partly, tf.ones([3, 4, 2], tf.int32), name="deep")]
    found += [tf.clip_by_average_norm(x, 0.1), tf.clip_by_average_norm(unknown, 1e-3, name="clip")]
    with tf.op_scope([x], None, "old"):
        found.append(tf.identity(x))
    return found


def test_same_graphs_and_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "off")
    found: list[Any] = []
    for tf in (tf1, tfjit):
        with tf.Graph().as_default() as graph, tf.Session() as session:
            values = session.run(program(tf))
            tf.add_check_numerics_ops()
        # Tensors within lists are packed under other names.
        named = {name: node for name, node in nodes(graph).items() if "/indices" not in name}
        known = {name: shape for name, shape in shapes(graph).items() if "/indices" not in name}
        found.append((values, named, known))
    assert found[1][1].keys() == found[0][1].keys()
    for name, node in found[0][1].items():
        if "/TensorScatterUpdate" not in name:
            assert found[1][1][name] == node
    for name, shape in found[0][2].items():  # tfjit may know more sizes
        assert tf1.TensorShape(shape).is_compatible_with(found[1][2][name]), name
    for expected, got in zip(found[0][0], found[1][0], strict=True):
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def errors(tf: Any) -> list[str]:
    """Return texts of errors."""
    unknown = tf.placeholder(tf.int32)

    def checked() -> None:
        tf.cond(tf.placeholder(tf.bool), lambda: tf.constant(1.0), lambda: tf.constant(2.0))
        tf.add_check_numerics_ops()

    found = []
    for case in (
        lambda: tf.sort([1], direction="UP"),
        lambda: tf.argsort([1], axis=[0, 1]),
        lambda: tf.batch_gather([1], unknown),
        checked,
    ):
        with pytest.raises(ValueError) as error:
            case()
        found.append(str(error.value).partition("Tensor(")[0].partition("<tf.T")[0])
    return found


def test_errors() -> None:
    found = []
    for tf in (tf1, tfjit):
        with tf.Graph().as_default(), switches_and_merges():
            found.append(errors(tf))
    assert found[1] == found[0]


def test_checks_of_a_graph() -> None:
    with tfjit.Graph().as_default(), tfjit.Session() as session:
        x = tfjit.placeholder(tfjit.float32, [])
        tfjit.log(x, name="logarithm")
        check = tfjit.add_check_numerics_ops()
        session.run(check, {x: 1.0})
        with pytest.raises(tfjit.errors.InvalidArgumentError, match="logarithm:0"):
            session.run(check, {x: -1.0})


def test_gradients_that_pass_through() -> None:
    found = []
    for tf in (tf1, tfjit):
        with tf.Graph().as_default(), tf.Session() as session:
            x = tf.constant([1.2, 2.7])
            y = tf.grad_pass_through(tf.round)(x)
            found.append(session.run([y, *tf.gradients(y * y, x)]))
    np.testing.assert_array_equal(found[1], found[0])
