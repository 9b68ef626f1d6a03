"""Layers that own their variables. Names recorded with TensorFlow 2.21 and tf_keras."""

from __future__ import annotations

import pytest

import tfjit as tf
from tfjit.client.network.experimental import uses_keras_style

layers = tf.layers


def test_layers_own_their_variables() -> None:
    with tf.Graph().as_default(), layers.experimental.keras_style_scope():
        x = tf.placeholder(tf.float32, [None, 4])
        first, second = layers.Dense(3), layers.Dense(3, kernel_regularizer=tf.nn.l2_loss)
        assert (first(x).name, second(x).name) == ("dense_1/BiasAdd:0", "dense_2/BiasAdd:0")
        assert first.kernel.name == "dense_1/kernel:0"
        assert first.kernel.dtype is tf.float32  # of a resource variable: no reference
        assert [loss.name for loss in second.losses] == ["dense_2/kernel/Regularizer/L2Loss:0"]
        with tf.variable_scope("around", reuse=tf.AUTO_REUSE):
            inner = layers.Dense(2, name="n")
            assert inner(x).name == "around/n/BiasAdd:0"
            assert inner(x).name == "around/n_1/BiasAdd:0"
        assert [v.name for v in inner.weights] == ["around/n/kernel:0", "around/n/bias:0"]
        assert len(tf.trainable_variables()) == 6
        norm = layers.BatchNormalization()
        norm(x, training=True)
        assert len(norm.updates) == 2 and tf.get_collection(tf.GraphKeys.UPDATE_OPS) == []


def test_scopes_are_refused() -> None:
    with tf.Graph().as_default(), layers.experimental.keras_style_scope():
        x = tf.placeholder(tf.float32, [None, 4])
        text = "scope argument not allowed when keras style layers are enabled, but saw: q"
        with pytest.raises(ValueError, match=text):
            layers.dense(x, 3, name="q")
        with pytest.raises(ValueError, match=text):
            layers.Dense(3)(x, scope="q")


def test_the_style_ends_with_its_scope(monkeypatch: pytest.MonkeyPatch) -> None:
    with layers.experimental.keras_style_scope():
        with layers.experimental.keras_style_scope():
            pass
        assert uses_keras_style()
    assert not uses_keras_style()
    monkeypatch.setattr("tfjit.client.network.experimental._Style.keras", False)  # undone behind
    layers.experimental.set_keras_style()
    assert uses_keras_style()
