"""Activations, initializers, regularizers and constraints by name, against TensorFlow's ops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow

import tfjit as tf
from tfjit.client.network import identifiers

tf1 = tensorflow.compat.v1
W = np.array([[-3.0, 0.5, 2.0], [4.0, -0.25, 1.0]], np.float32)

ACTIVATIONS = {
    "elu": tf1.nn.elu,
    "exponential": tf1.exp,
    "gelu": tensorflow.nn.gelu,
    "hard_sigmoid": lambda x: tf1.clip_by_value(0.2 * x + 0.5, 0.0, 1.0),
    "leaky_relu": tf1.nn.leaky_relu,
    "linear": tf1.identity,
    "relu": tf1.nn.relu,
    "relu6": tf1.nn.relu6,
    "selu": tf1.nn.selu,
    "sigmoid": tf1.sigmoid,
    "softmax": tf1.nn.softmax,
    "softplus": tf1.nn.softplus,
    "softsign": tf1.nn.softsign,
    "swish": lambda x: x * tf1.sigmoid(x),
    "tanh": tf1.tanh,
}
NORMS = np.sqrt((W * W).sum(0, keepdims=True))
NUMBERS = {
    "regularizer l1": np.abs(W).sum() * 0.01,
    "regularizer l2": (W * W).sum() * 0.01,
    "regularizer l1_l2": (np.abs(W).sum() + (W * W).sum()) * 0.01,
    "constraint non_neg": np.maximum(W, 0.0),
    "constraint unit_norm": W / NORMS,
    "constraint max_norm": W * np.minimum(NORMS, 2.0) / NORMS,
    "constraint min_max_norm": W * np.clip(NORMS, 0.0, 1.0) / NORMS,
}
FIND = {
    "initializer": identifiers.find_initializer,
    "regularizer": identifiers.find_regularizer,
    "constraint": identifiers.find_constraint,
}


@pytest.fixture(scope="module")
def ours() -> Iterator[dict[str, np.ndarray]]:
    """All activations, losses and constrained values of W, by one run."""
    with tf.Graph().as_default(), pytest.MonkeyPatch.context() as environment:
        environment.setenv("TFJIT_JIT", "off")
        w = tf.constant(W)
        fetches: dict[str, Any] = {n: identifiers.find_activation(n)(w) for n in ACTIVATIONS}
        for name in NUMBERS:
            kind, _, spelled = name.partition(" ")
            fetches[name] = FIND[kind](spelled)(w)
        with tf.Session() as session:
            yield session.run(fetches)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name: str, ours: dict[str, np.ndarray]) -> None:
    with tf1.Graph().as_default(), tf1.Session() as session:
        expected = session.run(ACTIVATIONS[name](tf1.constant(W)))
    np.testing.assert_allclose(ours[name], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", NUMBERS)
def test_regularizers_and_constraints(name: str, ours: dict[str, np.ndarray]) -> None:
    np.testing.assert_allclose(ours[name], NUMBERS[name], rtol=1e-5, atol=1e-6)


def test_initializers() -> None:
    with tf.Graph().as_default():
        for name in ("zeros", "ones", "he_normal", "lecun_uniform", "uniform", "orthogonal"):
            made = identifiers.find_initializer(name)([3, 3], dtype=tf.float32)
            assert made.shape.as_list() == [3, 3]
        layer = tf.layers.Dense(2, kernel_initializer="ones", bias_initializer="zeros")
        layer.build((None, 3))
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            np.testing.assert_array_equal(session.run(layer.kernel), np.ones([3, 2]))


def test_unknown_names() -> None:
    with pytest.raises(TypeError, match="not interpret activation function identifier: 3"):
        identifiers.find_activation(3)
    with pytest.raises(ValueError, match="Unknown activation function: 'foo'"):
        identifiers.find_activation("foo")
    for kind, find in FIND.items():
        with pytest.raises(ValueError, match=f"Unknown {kind}: 'foo'. Known: "):
            find("foo")
        with pytest.raises(ValueError, match=f"Could not interpret {kind} identifier: 3"):
            find(3)
        assert find(abs) is abs and find(None) is None
