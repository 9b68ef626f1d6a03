"""Iterators of all kinds, against TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.runtime.pipelines import D, drained, tf1

KINDS = pytest.mark.parametrize("kind", [tf1.Session, tfjit.Session])


@KINDS
def test_one_shot(kind: Any) -> None:
    with tf.Graph().as_default() as graph:
        iterator = tf1.data.make_one_shot_iterator(D.range(3).map(lambda x: x * 2))
        twice = [iterator.get_next(), iterator.get_next()]
    with kind(graph=graph) as session:
        assert sorted(session.run(twice)) == [0, 2]
        assert session.run(twice[0]) == 4
        for _ in range(2):
            with pytest.raises(Exception, match="End of sequence"):
                session.run(twice[1])
    with kind(graph=graph) as session:  # a session has its own elements
        assert session.run(twice[0]) == 0


@KINDS
def test_initializable(kind: Any) -> None:
    """The dataset of each pass depends on what is fed to the initializer."""
    with tf.Graph().as_default() as graph:
        values = tf1.placeholder(tf.float32, [None, 2])
        iterator = tf1.data.make_initializable_iterator(
            D.from_tensor_slices(values).map(tf.reduce_sum), shared_name="rows"
        )
        element = iterator.get_next()
    with kind(graph=graph) as session:
        with pytest.raises(Exception, match="the iterator has not been initialized"):
            session.run(element)
        for count in (1, 3):
            fed = np.arange(2.0 * count).reshape(count, 2)
            session.run(iterator.initializer, {values: fed})
            fed += 1  # the dataset has its own rows
            assert drained(session, element) == [
                *(4 * i + 1 for i in range(count)),
                ("OutOfRangeError", "End of sequence"),
            ]


@KINDS
def test_reinitializable(kind: Any) -> None:
    with tf.Graph().as_default() as graph:
        training, checking = D.range(2).map(lambda x: x + 5), D.range(100, 101)
        iterator = tf1.data.Iterator.from_structure(tf.int64, [])
        element = iterator.get_next()
        starts = [iterator.make_initializer(d) for d in (training, checking)]
    with kind(graph=graph) as session:
        found = []
        for start in (*starts, starts[0]):
            session.run(start)
            found.append(drained(session, element)[:-1])
    assert found == [[5, 6], [100], [5, 6]]


@KINDS
def test_feedable(kind: Any) -> None:
    with tf.Graph().as_default() as graph:
        handle = tf1.placeholder(tf.string, [])
        iterator = tf1.data.Iterator.from_string_handle(handle, tf.int64, [])
        element = iterator.get_next()
        first = tf1.data.make_one_shot_iterator(D.range(5))
        second = tf1.data.make_initializable_iterator(D.range(10, 15))
        handles = [first.string_handle(), second.string_handle()]
    with kind(graph=graph) as session:
        session.run(second.initializer)
        one, other = session.run(handles)
        order = [session.run(element, {handle: h}) for h in (one, other, other, one)]
        assert order == [0, 10, 11, 1]
        with pytest.raises(Exception, match="Could not parse"):
            session.run(element, {handle: b"no handle"})


def test_signatures() -> None:
    """Errors where dataset and iterator do not fit."""
    with tf.Graph().as_default() as graph:
        raw = tf.raw_ops

        def iterator(types: Any, shapes: Any, name: str) -> Any:
            return raw.IteratorV2(
                shared_name=name, container="", output_types=types, output_shapes=shapes
            )

        number = iterator([tf.int64], [[]], "number")
        pair = iterator([tf.int64, tf.int64], [[], []], "pair")
        row = iterator([tf.int64], [[2]], "row")
        text = iterator([tf.string], [[]], "text")
        dataset = D.range(3)._variant_tensor
        starts = [
            raw.MakeIterator(dataset=dataset, iterator=handle) for handle in (pair, row, text)
        ]
        good = raw.MakeIterator(dataset=dataset, iterator=number)
        bad = raw.IteratorGetNext(iterator=number, output_types=[tf.float32], output_shapes=[[]])
    found = []
    for kind in (tf1.Session, tfjit.Session):
        with kind(graph=graph) as session:
            session.run(good)
            found.append([drained(session, op, 1) for op in (*starts, bad)])
    assert found[0] == found[1]


@KINDS
def test_optionals(kind: Any) -> None:
    with tf.Graph().as_default() as graph:
        iterator = tf1.data.make_one_shot_iterator(D.range(1))
        optional = tf.data.experimental.get_next_as_optional(iterator)
        has_value = optional.has_value()
    with kind(graph=graph) as session:
        assert [bool(session.run(has_value)) for _ in range(3)] == [True, False, False]


@KINDS
def test_reset_frees(kind: Any) -> None:
    with tf.Graph().as_default() as graph:
        iterator = tf1.data.make_initializable_iterator(D.range(3), shared_name="freed")
        element = iterator.get_next()
    with kind(graph=graph) as session:
        session.run(iterator.initializer)
        assert session.run(element) == 0


def test_a_training_step() -> None:
    """A pipeline feeds a compiled step; the losses are those of TensorFlow."""
    random = np.random.default_rng(1)
    rows = random.standard_normal((40, 3)).astype(np.float32)
    with tf.Graph().as_default() as graph:
        batches = D.from_tensor_slices((rows, rows.sum(axis=1))).shuffle(16, seed=5).repeat()
        iterator = tf1.data.make_initializable_iterator(batches.batch(8).prefetch(2))
        x, y = iterator.get_next()
        weights = tf1.get_variable("w", [3, 1], initializer=tf1.zeros_initializer())
        loss = tf.reduce_mean(tf.square(tf.matmul(x, weights)[:, 0] - y))
        train = tf1.train.GradientDescentOptimizer(0.1).minimize(loss)
        initialize = [tf1.global_variables_initializer(), iterator.initializer]
    losses = []
    for kind in (tf1.Session, tfjit.Session):
        with kind(graph=graph) as session:
            session.run(initialize)
            losses.append([session.run([loss, train])[0] for _ in range(20)])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
