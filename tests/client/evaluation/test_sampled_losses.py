"""Losses over sampled classes: values, gradients and graphs are TensorFlow's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tfjit
from tests.client.evaluation.batches import tensorflow_one, tf1
from tests.client.variables.same_graphs import nodes

RNG = np.random.default_rng(2)
WEIGHTS, BIASES = RNG.normal(size=(10, 4)).astype("f4"), RNG.normal(size=10).astype("f4")
INPUTS = RNG.normal(size=(3, 4)).astype("f4")


@pytest.fixture(scope="module", autouse=True)
def as_in_version_one() -> Iterator[None]:
    with tensorflow_one():
        yield


def losses(tf: Any) -> tuple[list[Any], dict[Any, Any]]:
    """Return losses with their gradients, and feeds."""
    w, b = tf.Variable(WEIGHTS, name="w"), tf.Variable(BIASES, name="b")
    one, two = tf.placeholder(tf.int64, [3, 1]), tf.placeholder(tf.int32, [None, 2])
    x, u = tf.placeholder(tf.float32, [3, 4]), tf.placeholder(tf.float32, [None, 4])
    drawn = tf.nn.uniform_candidate_sampler(tf.cast(two, tf.int64), 2, 5, False, 10, seed=4)
    made = [
        tf.nn.nce_loss(w, b, one, x, 5, 10),
        tf.nn.nce_loss(w, b, two, u, 5, 10, 2, drawn, True, "div", "mine"),
        tf.nn.nce_loss([w], b, one, x, 3, 10, name=None),
        tf.nn.sampled_softmax_loss(w, b, one, x, 5, 10, seed=3),
        tf.nn.sampled_softmax_loss(w, b, two, u, 5, 10, 2, drawn, False, name="mine"),
        tf.nn.sampled_softmax_loss(w, b, two, u, 5, 10, 2, drawn),
    ]
    gradients = [
        tf.convert_to_tensor(g)
        for loss in made
        for g in tf.gradients(loss, [w, b])
        if g is not None
    ]
    return [*made, *gradients], {
        one: [[1], [9], [0]],
        two: [[1, 2], [9, 0], [5, 5]],
        x: INPUTS,
        u: INPUTS,
    }


def test_values_and_gradients() -> None:
    found = []
    for tf in (tfjit, tf1):
        with tf.Graph().as_default(), tf.Session() as session:
            tf.set_random_seed(1)
            made, feeds = losses(tf)
            session.run(tf.global_variables_initializer())
            found.append(session.run(made, feeds))
    assert len(found[0]) == len(found[1]) == 18
    for mine, wanted in zip(*found, strict=True):
        assert mine.dtype == wanted.dtype
        np.testing.assert_allclose(mine, wanted, rtol=1e-4, atol=1e-5)


def test_graphs() -> None:
    """But for the nodes of look-ups and of losses of tf.nn."""
    found = []
    for tf in (tfjit, tf1):
        with tf.Graph().as_default() as graph:
            b, w = tf.Variable(BIASES, name="b"), tf.Variable(WEIGHTS, name="w")
            labels, x = tf.placeholder(tf.int64, [3, 1]), tf.placeholder(tf.float32, [3, 4])
            tf.nn.nce_loss(w, b, labels, x, 5, 10, remove_accidental_hits=True)
        found.append(
            {
                name: node[:2]
                for name, node in nodes(graph).items()
                if "embedding_lookup" not in name and "sampled_losses" not in name
            }
        )
    assert found[0] == found[1]
