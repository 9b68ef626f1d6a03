"""Measure whole networks.

MLP, transformer layer, DLRM, a small CNN, MobileNetV2 and ResNet50 at 224x224.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from benchmarks.workload import Workload, feeds_of, integers, uniform


def weights(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Return random weights that keep the size of the activations."""
    fan_in = int(np.prod(shape[:-1])) or 1
    return (rng.standard_normal(shape) / np.sqrt(fan_in)).astype(np.float32)


def _dense(tf: Any, rng: np.random.Generator, x: Any, k: int, n: int) -> Any:
    return tf.nn.bias_add(
        tf.matmul(x, tf.constant(weights(rng, k, n))), tf.constant(weights(rng, n))
    )


def mlp(tf: Any) -> None:
    """784-512-512-10 with relu and softmax."""
    rng = np.random.default_rng(1)
    x = tf.placeholder(tf.float32, [None, 784], name="x")
    h = tf.nn.relu(_dense(tf, rng, x, 784, 512))
    h = tf.nn.relu(_dense(tf, rng, h, 512, 512))
    tf.nn.softmax(_dense(tf, rng, h, 512, 10), name="y")


DIM, HEADS, TOKENS, BATCH = 256, 8, 128, 8


def _layer_norm(tf: Any, rng: np.random.Generator, x: Any) -> Any:
    mean = tf.reduce_mean(x, axis=-1, keepdims=True)
    centered = x - mean
    variance = tf.reduce_mean(tf.square(centered), axis=-1, keepdims=True)
    return centered * tf.math.rsqrt(variance + 1e-5) * tf.constant(
        1 + 0.1 * weights(rng, DIM)
    ) + tf.constant(0.1 * weights(rng, DIM))


def _transformer(tf: Any) -> None:
    rng = np.random.default_rng(1)
    x = tf.placeholder(tf.float32, [BATCH, TOKENS, DIM], name="x")
    flat = tf.reshape(x, [-1, DIM])

    def heads(t: Any) -> Any:
        return tf.transpose(tf.reshape(t, [BATCH, TOKENS, HEADS, DIM // HEADS]), [0, 2, 1, 3])

    q, k, v = (heads(_dense(tf, rng, flat, DIM, DIM)) for _ in range(3))
    scores = tf.matmul(q, k, transpose_b=True) * (1 / np.sqrt(DIM // HEADS)).astype("f4")
    mixed = tf.matmul(tf.nn.softmax(scores), v)
    mixed = tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), [-1, DIM])
    a = _layer_norm(tf, rng, flat + _dense(tf, rng, mixed, DIM, DIM))
    hidden = _dense(tf, rng, a, DIM, 4 * DIM)
    hidden = 0.5 * hidden * (1.0 + tf.math.erf(hidden * 0.7071067811865476))
    out = _layer_norm(tf, rng, a + _dense(tf, rng, hidden, 4 * DIM, DIM))
    tf.reshape(out, [BATCH, TOKENS, DIM], name="y")


TABLES, ROWS, WIDTH, DENSE = 26, 10000, 16, 13


def _dlrm(tf: Any) -> None:
    rng = np.random.default_rng(1)
    dense = tf.placeholder(tf.float32, [None, DENSE], name="dense")
    sparse = tf.placeholder(tf.int32, [None, TABLES], name="sparse")
    bottom = dense
    for k, n in ((DENSE, 512), (512, 256), (256, WIDTH)):
        bottom = tf.nn.relu(_dense(tf, rng, bottom, k, n))
    columns = tf.unstack(sparse, num=TABLES, axis=1)
    rows = [bottom] + [
        tf.gather(tf.constant(weights(rng, ROWS, WIDTH)), column) for column in columns
    ]
    stacked = tf.stack(rows, axis=1)
    products = tf.matmul(stacked, stacked, transpose_b=True)
    flat = tf.reshape(products, [-1, (TABLES + 1) ** 2])
    top = tf.concat([bottom, flat], axis=1)
    for k, n in ((WIDTH + (TABLES + 1) ** 2, 512), (512, 256)):
        top = tf.nn.relu(_dense(tf, rng, top, k, n))
    tf.sigmoid(_dense(tf, rng, top, 256, 1), name="y")


def _cnn(tf: Any) -> None:
    rng = np.random.default_rng(1)
    x = tf.placeholder(tf.float32, [None, 28, 28, 1], name="x")
    h = x
    for ci, co in ((1, 32), (32, 64)):
        h = tf.nn.conv2d(
            h, tf.constant(weights(rng, 3, 3, ci, co)), strides=[1, 1, 1, 1], padding="SAME"
        )
        h = tf.nn.relu(tf.nn.bias_add(h, tf.constant(weights(rng, co))))
        h = tf.nn.max_pool2d(h, ksize=2, strides=2, padding="VALID")
    h = tf.nn.relu(_dense(tf, rng, tf.reshape(h, [-1, 7 * 7 * 64]), 7 * 7 * 64, 128))
    tf.nn.softmax(_dense(tf, rng, h, 128, 10), name="y")


@functools.cache
def _keras(name: str) -> bytes:
    """A network of keras.applications with random weights and batch statistics, frozen."""
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    tf.keras.utils.set_random_seed(7)
    model = getattr(tf.keras.applications, name)(
        input_shape=(224, 224, 3), weights=None, classes=1000
    )
    for layer in model.layers:
        if isinstance(layer, tf.keras.layers.BatchNormalization):
            shape = layer.get_weights()[0].shape
            rng = np.random.default_rng(len(layer.name))
            layer.set_weights(
                [
                    rng.uniform(0.8, 1.2, shape),
                    rng.standard_normal(shape) * 0.1,
                    rng.standard_normal(shape) * 0.1,
                    rng.uniform(0.8, 1.2, shape),
                ]
            )
    spec = tf.TensorSpec([None, 224, 224, 3], tf.float32, name="x")
    frozen = convert_variables_to_constants_v2(
        tf.function(lambda x: model(x, training=False)).get_concrete_function(spec)
    )
    graph_def = frozen.graph.as_graph_def()
    node = graph_def.node.add(
        name="y", op="Identity", input=[frozen.outputs[0].name.removesuffix(":0")]
    )
    node.attr["T"].type = tf.float32.as_datatype_enum
    data: bytes = graph_def.SerializeToString()
    return data


def _image_network(label: str, name: str, wanted: float) -> Workload:
    makers = feeds_of(x=uniform([1, 224, 224, 3], 0, 1))
    graph_def = functools.partial(_keras, name)
    return Workload(
        label,
        ["y:0"],
        makers,
        graph_def=graph_def,
        atol=1e-6,
        rtol=1e-3,
        wanted=wanted,
        callables=True,
        needs_tensorflow=True,
    )


def workloads() -> list[Workload]:
    """The image networks need TensorFlow to build them."""
    found = [
        Workload(
            f"MLP 784-512-512-10, batch {n}",
            ["y:0"],
            feeds_of(x=uniform([n, 784], 0, 1)),
            mlp,
            wanted=wanted,
            callables=True,
        )
        for n, wanted in ((1, 0.085), (32, 0.26), (256, 0.7))
    ]
    tokens, images = (
        feeds_of(x=uniform([BATCH, TOKENS, DIM])),
        feeds_of(x=uniform([64, 28, 28, 1], 0, 1)),
    )
    clicks = feeds_of(dense=uniform([256, DENSE], 0, 1), sparse=integers([256, TABLES], ROWS))
    return [
        *found,
        Workload(
            "transformer layer, 8x128x256",
            ["y:0"],
            tokens,
            _transformer,
            rtol=1e-3,
            atol=1e-4,
            wanted=0.8,
            callables=True,
        ),
        Workload("DLRM, batch 256", ["y:0"], clicks, _dlrm, wanted=0.8, callables=True),
        _image_network("MobileNetV2 224, batch 1", "MobileNetV2", 0.44),
        _image_network("ResNet50 224, batch 1", "ResNet50", 0.78),
        Workload("CNN 28x28, batch 64", ["y:0"], images, _cnn, wanted=0.56, callables=True),
    ]
