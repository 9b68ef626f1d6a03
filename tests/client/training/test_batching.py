"""Batches through queues against TensorFlow's: the same nodes; examples that are left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow

import tfjit
from tests.client.variables.same_graphs import collections, nodes, shapes, switches_and_merges

tf1 = tensorflow.compat.v1


def program(tf: Any) -> None:
    """Build batches of all kinds."""
    train, one = tf.train, [tf.constant([1.0, 2.0]), tf.constant(3)]
    many = {"b": tf.ones([4, 2]), "a": tf.range(4)}
    keep, mask = tf.placeholder(tf.bool, []), tf.placeholder(tf.bool, [4])
    train.batch(one, 2, capacity=5, allow_smaller_final_batch=True)
    train.maybe_batch(many, mask, 2, num_threads=2, enqueue_many=True)
    train.maybe_batch(one[:1], keep, 2, dynamic_pad=True)
    train.batch_join([one, one], 2)
    train.maybe_batch_join([many], mask, 2, enqueue_many=True, name="join")
    train.shuffle_batch(one, 2, 10, 4, seed=3)
    train.maybe_shuffle_batch(one, 2, 10, 4, keep, seed=3)
    train.shuffle_batch_join([many, many], 2, 10, 4, enqueue_many=True, seed=3)
    train.maybe_shuffle_batch_join([many], 2, 10, 4, keep, enqueue_many=True, seed=3)


def test_same_graphs() -> None:
    found = []
    for tf in (tf1, tfjit):
        with tf.Graph().as_default() as graph, switches_and_merges():
            program(tf)
        kept = collections(graph)
        kept.pop("queue_runners")
        found.append((nodes(graph), shapes(graph), kept))
    assert found[1][0].keys() == found[0][0].keys()
    for name, node in found[0][0].items():
        assert found[1][0][name] == node
    assert found[1][1:] == found[0][1:]


def test_examples_that_are_kept() -> None:
    with tfjit.Graph().as_default(), tfjit.Session() as session:
        number = tfjit.train.range_input_producer(20, shuffle=False).dequeue()
        odd = tfjit.equal(number % 2, 1)
        some = tfjit.train.maybe_batch(number, odd, 3)
        pair = tfjit.stack([number, -number])
        masked = tfjit.train.maybe_shuffle_batch_join(
            [[pair]], 4, 9, 2, pair > 0, enqueue_many=True
        )
        coordinator = tfjit.train.Coordinator()
        threads = tfjit.train.start_queue_runners(coord=coordinator)
        batches = [session.run([some, masked]) for _ in range(2)]
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=20, ignore_live_threads=True)
    for odd_numbers, positive in batches:
        assert np.all(odd_numbers % 2 == 1) and np.all(positive > 0)


def errors(tf: Any) -> list[str]:
    """Return texts of errors."""
    one, keep = [tf.constant(1)], tf.placeholder(tf.bool, [2])
    raised = []
    for case in (
        lambda: tf.train.maybe_batch(one, keep, 2),
        lambda: tf.train.maybe_batch(one, tf.placeholder(tf.bool), 2),
        lambda: tf.train.maybe_batch(one, tf.placeholder(tf.bool, [1, 1]), 2),
        lambda: tf.train.shuffle_batch(one, 2, 4, 4),
    ):
        with pytest.raises(ValueError) as error:
            case()
        raised.append(str(error.value))
    return raised


def test_errors() -> None:
    found = []
    for tf in (tf1, tfjit):
        with tf.Graph().as_default():
            found.append(errors(tf))
    assert found[1] == found[0]
