"""The graphs that are measured on a GPU, each in a full and in a tiny size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scripts.models import mlp, weights
from benchmarks.scripts.recurrent import _inference
from benchmarks.scripts.training import _cnn_adam, _Network
from benchmarks.workload import Feeds, Workload, feeds_of, integers, uniform

_MOBILENET = Path(__file__).resolve().parents[2] / "tests" / "data" / "mobilenet_v2"
_STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))
"""Width and number of the blocks of ResNet50's stages."""


def _chain(tf: Any) -> None:
    x = tf.placeholder(tf.float32, [None], name="x")
    left = tf.tanh(x * 1.5 + 0.5) * tf.sigmoid(x)
    tf.subtract(left, tf.nn.relu(x) * 0.25, name="y")


def _softmax(columns: int) -> Callable[[Any], None]:
    return lambda tf: tf.nn.softmax(tf.placeholder(tf.float32, [None, columns], name="x"), name="y")


def _layer_norm(columns: int) -> Callable[[Any], None]:
    def build(tf: Any) -> None:
        rng = np.random.default_rng(1)
        x = tf.placeholder(tf.float32, [None, columns], name="x")
        mean = tf.reduce_mean(x, axis=-1, keepdims=True)
        centered = x - mean
        variance = tf.reduce_mean(tf.square(centered), axis=-1, keepdims=True)
        scale, shift = (tf.constant(weights(rng, columns)) for _ in range(2))
        tf.add(centered * tf.rsqrt(variance + 1e-5) * scale, shift, name="y")

    return build


def _attention(depth: int) -> Callable[[Any], None]:
    def build(tf: Any) -> None:
        q, k, v = (tf.placeholder(tf.float32, [None, None, None, depth], name=n) for n in "qkv")
        scores = tf.matmul(q, k, transpose_b=True) * float(1 / np.sqrt(depth))
        tf.matmul(tf.nn.softmax(scores), v, name="y")

    return build


def _product(n: int, dtype: str) -> Callable[[Any], None]:
    """Return a product with bias and relu."""

    def build(tf: Any) -> None:
        rng = np.random.default_rng(2)
        x = tf.placeholder(dtype, [None, n], name="x")
        w, b = (tf.constant(weights(rng, *shape).astype(dtype)) for shape in ((n, n), (n,)))
        tf.nn.relu(tf.nn.bias_add(tf.matmul(x, w), b), name="y")

    return build


def _lstm(steps: int, inputs: int, units: int) -> Callable[[Any], None]:
    """Return an LSTM whose steps are nodes of the graph."""

    def build(tf: Any) -> None:
        rng = np.random.default_rng(1)
        kernel = tf.constant(weights(rng, inputs + units, 4 * units))
        bias = tf.constant(weights(rng, 4 * units))
        x = tf.placeholder(tf.float32, [None, steps, inputs], name="x")
        h = c = tf.zeros_like(x[:, 0, :1]) + tf.zeros([units])
        states = []
        for t in range(steps):
            gates = tf.nn.bias_add(tf.matmul(tf.concat([x[:, t, :], h], 1), kernel), bias)
            i, j, f, o = (gates[:, k * units : (k + 1) * units] for k in range(4))
            c = tf.sigmoid(f + 1.0) * c + tf.sigmoid(i) * tf.tanh(j)
            h = tf.sigmoid(o) * tf.tanh(c)
            states.append(h)
        tf.stack(states, axis=1, name="y")

    return build


def _resnet50(tf: Any) -> None:
    """Add ResNet50 for inference: batch norm is a scale and a shift."""
    rng = np.random.default_rng(7)

    def conv(x: Any, ci: int, co: int, size: int, stride: int = 1, active: bool = True) -> Any:
        filters = tf.constant(weights(rng, size, size, ci, co))
        y = tf.nn.conv2d(x, filters, strides=[1, stride, stride, 1], padding="SAME")
        scale = tf.constant(rng.uniform(0.8, 1.2, co).astype(np.float32))
        y = y * scale + tf.constant((0.1 * rng.standard_normal(co)).astype(np.float32))
        return tf.nn.relu(y) if active else y

    x = tf.placeholder(tf.float32, [None, None, None, 3], name="x")
    h = conv(x, 3, 64, 7, 2)
    h = tf.nn.max_pool2d(h, ksize=3, strides=2, padding="SAME")
    channels = 64
    for stage, (width, blocks) in enumerate(_STAGES):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            skip = h if block else conv(h, channels, 4 * width, 1, stride, active=False)
            y = conv(conv(h, channels, width, 1, stride), width, width, 3)
            h = tf.nn.relu(skip + conv(y, width, 4 * width, 1, active=False))
            channels = 4 * width
    pooled = tf.reduce_mean(h, axis=[1, 2])
    tf.nn.softmax(tf.matmul(pooled, tf.constant(weights(rng, channels, 1000))), name="y")


def _mlp_adam(tf: Any) -> None:
    net = _Network(tf)
    x = tf.placeholder(tf.float32, [None, 784], name="x")
    h = tf.nn.relu(net.dense(x, 784, 512))
    h = tf.nn.relu(net.dense(h, 512, 512))
    net.minimise(net.dense(h, 512, 10), tf.train.AdamOptimizer(1e-3))


def _deep(tf: Any) -> None:
    """Add fifty nodes that no kernel shares."""
    h = tf.placeholder(tf.float32, [32, 32], name="x")
    for _ in range(25):
        h = tf.transpose(tf.nn.softmax(h))
    tf.identity(h, name="y")


def _scalar(tf: Any) -> None:
    a, b = (tf.placeholder(tf.float32, [], name=n) for n in "ab")
    tf.add(a, b, name="y")


def _mobilenet(batch: int) -> Workload:
    names = np.load(_MOBILENET.with_suffix(".npz"))
    feed = str(names["feed"])

    def feeds(rng: np.random.Generator) -> Feeds:
        return {feed: rng.random((batch, 96, 96, 3), np.float32)}

    read = _MOBILENET.with_suffix(".pb").read_bytes
    return Workload(
        f"MobileNetV2 96, batch {batch}", [str(names["fetch"])], feeds, graph_def=read, rtol=1e-3
    )


def _trained(name: str, build: Callable[[Any], None], feeds: Any) -> Workload:
    return Workload(
        name, ["loss:0"], feeds, build, targets=["train"], setup=["init"], steps=4, rtol=1e-3
    )


def workloads(tiny: bool = False) -> list[Workload]:
    """Return the workloads in the order of measuring, short ones first."""

    def pick(full: int, small: int) -> int:
        return small if tiny else full

    counts = (33, 1000) if tiny else (10**4, 10**5, 10**6, 10**7, 10**8)
    rows, columns = pick(8192, 5), pick(1024, 33)
    heads, tokens, depth = pick(12, 2), pick(1024, 7), pick(64, 8)
    batch, steps, inputs, units = pick(32, 2), pick(50, 3), pick(32, 3), pick(128, 4)
    images, side = pick(32, 1), pick(224, 32)
    sequence = feeds_of(x=uniform([batch, steps, inputs], -1, 1))
    parts = {name: uniform([pick(8, 1), heads, tokens, depth]) for name in "qkv"}
    found = [
        Workload(f"chain of 7 ops, {n:.0e}", ["y:0"], feeds_of(x=uniform([n], -4, 4)), _chain)
        for n in counts
    ]
    found += [
        Workload("50 nodes", ["y:0"], feeds_of(x=uniform([32, 32])), _deep),
        Workload("add of scalars", ["y:0"], feeds_of(a=uniform([]), b=uniform([])), _scalar),
        Workload(
            f"softmax {rows}x{columns}",
            ["y:0"],
            feeds_of(x=uniform([rows, columns], -4, 4)),
            _softmax(columns),
        ),
        Workload(
            f"layer norm {rows}x{columns}",
            ["y:0"],
            feeds_of(x=uniform([rows, columns], -4, 4)),
            _layer_norm(columns),
        ),
        Workload(
            f"attention {pick(8, 1)}x{heads}x{tokens}x{depth}",
            ["y:0"],
            feeds_of(**parts),
            _attention(depth),
            rtol=1e-3,
            atol=1e-4,
        ),
        *(
            Workload(
                f"product {pick(2048, 5)}, {dtype}",
                ["y:0"],
                feeds_of(x=uniform([pick(2048, 3), pick(2048, 5)], -1, 1, dtype)),
                _product(pick(2048, 5), dtype),
                rtol=tolerance,
                atol=tolerance,
            )
            for dtype, tolerance in (("float32", 1e-3), ("float16", 1e-2))
        ),
        Workload(
            f"MLP 784-512-512-10, batch {pick(4096, 3)}",
            ["y:0"],
            feeds_of(x=uniform([pick(4096, 3), 784], 0, 1)),
            mlp,
            rtol=1e-3,
        ),
        Workload(
            f"LSTM {units} units, {steps} steps unrolled, batch {batch}",
            ["y:0"],
            sequence,
            _lstm(steps, inputs, units),
            rtol=1e-3,
            atol=1e-4,
        ),
        Workload(
            f"LSTM 128 units, {steps} steps as a loop, batch {batch}",
            ["y:0"],
            feeds_of(x=uniform([batch, steps, 32], -1, 1)),
            _inference,
            rtol=1e-3,
            atol=1e-4,
        ),
        _trained(
            f"training step, MLP, Adam, batch {pick(256, 3)}",
            _mlp_adam,
            feeds_of(x=uniform([pick(256, 3), 784], 0, 1), labels=integers([pick(256, 3)], 10)),
        ),
        _trained(
            f"training step, CNN 28x28, Adam, batch {pick(64, 1)}",
            _cnn_adam,
            feeds_of(x=uniform([pick(64, 1), 28, 28, 1], 0, 1), labels=integers([pick(64, 1)], 10)),
        ),
        _mobilenet(images),
        Workload(
            f"ResNet50 {side}, batch {images}",
            ["y:0"],
            feeds_of(x=uniform([images, side, side, 3], 0, 1)),
            _resnet50,
            rtol=1e-2,
            atol=1e-5,
        ),
    ]
    return found
