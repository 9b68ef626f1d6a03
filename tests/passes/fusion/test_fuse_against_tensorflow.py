"""Whole graphs of TensorFlow's through fused kernels, compiled before the first result, against
TensorFlow's own session.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tfjit

tf = pytest.importorskip("tensorflow")
v1 = tf.compat.v1

RNG = np.random.default_rng(3)


def rand(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def layer_norm(x: Any) -> Any:
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    return tf.nn.batch_normalization(
        x, mean, variance, tf.constant(rand(x.shape[-1])), tf.constant(rand(x.shape[-1])), 1e-3
    )


def batch_norm_training(x: Any) -> Any:
    mean, variance = tf.nn.moments(x, [0, 1, 2])
    return tf.nn.relu(
        tf.nn.batch_normalization(x, mean, variance, tf.constant(rand(x.shape[-1])), None, 1e-3)
    )


def attention(x: Any) -> Any:
    q, k, v = (tf.matmul(x, tf.constant(rand(x.shape[-1], 16))) for _ in range(3))
    scores = tf.matmul(q, k, transpose_b=True) * 0.25
    return tf.matmul(tf.nn.softmax(scores), v)


def mlp_with_loss_gradient(x: Any) -> Any:
    w1, w2 = tf.constant(rand(x.shape[-1], 24)), tf.constant(rand(24, 5))
    logits = tf.matmul(tf.nn.relu(tf.matmul(x, w1) + 0.1), w2)
    labels = tf.constant(RNG.integers(0, 5, x.shape[0]))
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    return [loss, *v1.gradients(loss, [w1, w2])]


def lstm_step(x: Any) -> Any:
    gates = tf.matmul(x, tf.constant(rand(x.shape[-1], 4 * 8))) + tf.constant(rand(32))
    i, j, f, o = tf.split(gates, 4, axis=1)
    c = tf.sigmoid(f + 1.0) * tf.constant(rand(x.shape[0], 8)) + tf.sigmoid(i) * tf.tanh(j)
    return tf.tanh(c) * tf.sigmoid(o), c


def residual_block(x: Any) -> Any:
    y = tf.nn.conv2d(x, tf.constant(rand(3, 3, x.shape[-1], x.shape[-1]) * 0.1), 1, "SAME")
    y = tf.nn.relu(y * tf.constant(rand(x.shape[-1])) + tf.constant(rand(x.shape[-1])))
    return tf.nn.relu(x + y)


def normalise_image(x: Any) -> Any:
    mean, deviation = tf.constant(rand(x.shape[-1])), tf.constant(np.abs(rand(x.shape[-1])) + 1)
    return tf.cast(tf.clip_by_value(x * 50.0 + 128.0, 0.0, 255.0), tf.uint8), (x - mean) / deviation


def masks_and_selects(x: Any) -> Any:
    mask = tf.logical_and(x > 0, x < 1)
    return (
        tf.where(mask, tf.exp(x), tf.zeros_like(x)),
        tf.reduce_any(mask, axis=1),
        tf.reduce_sum(tf.cast(mask, tf.int32)),
    )


def l2_normalise(x: Any) -> Any:
    return tf.nn.l2_normalize(x, axis=-1)


def cosine_distances(x: Any) -> Any:
    unit = x / tf.norm(x, axis=1, keepdims=True)
    return 1.0 - tf.matmul(unit, unit, transpose_b=True)


def log_sum_exp(x: Any) -> Any:
    return tf.reduce_logsumexp(x, axis=1), tf.reduce_logsumexp(x, axis=0)


def huber_and_metrics(x: Any) -> Any:
    target = tf.constant(rand(*x.shape))
    error = tf.abs(x - target)
    huber = tf.where(error < 1.0, 0.5 * error * error, error - 0.5)
    return tf.reduce_mean(huber), tf.reduce_max(error), tf.argmax(x, 1)


def finite_differences(x: Any) -> Any:
    return (x[1:] - x[:-1]) * 0.5, tf.nn.relu(x[:, 2:] - x[:, :-2]) + x[:, 1:-1]


def five_point_stencil(x: Any) -> Any:
    return 4.0 * x[1:-1, 1:-1] - x[:-2, 1:-1] - x[2:, 1:-1] - x[1:-1, :-2] - x[1:-1, 2:]


def every_few_elements(x: Any) -> Any:
    return [tf.nn.relu(x[::2, ::k] * 2.0 + 1.0) for k in (1, 2, 3, 4, 5, -1, -2)] + [
        x[::-1, 1] + x[0, 1] * 2.0
    ]


def backwards(x: Any) -> Any:
    return tf.tanh(tf.reverse(x, [0, 1]) + x) * 2.0, tf.reverse(x, [1])[:, ::2, None] - 1.0


def gated(x: Any) -> Any:
    a, b = tf.split(x, 2, axis=1)
    c, d, _ = tf.split(x, [3, 3, x.shape[1] - 6], axis=1)
    return (
        tf.sigmoid(a) * b,
        c + d * c,
        [column * 2.0 + 1.0 for column in tf.unstack(x, axis=1)[:3]],
    )


def tiled_and_sliced(x: Any) -> Any:
    column = tf.slice(x, [0, 1], [x.shape[0], 1])
    return tf.tile(column, [1, x.shape[1]]) * x - column, tf.tile(x, [1, 2]) + 1.0


def turned(x: Any) -> Any:
    y = tf.exp(x) + 1.0
    return (
        tf.transpose(x) * 2.0 + tf.reshape(x, x.shape[::-1]),
        y,
        tf.transpose(y) - 1.0,
        tf.transpose(x)[1:, ::-1] * 3.0 - 1.0,
    )


def turned_images(x: Any) -> Any:
    y = tf.nn.relu(tf.transpose(x, [0, 3, 1, 2]) * 2.0 - 1.0)
    return (
        y,
        tf.transpose(y, [0, 2, 3, 1]) + x,
        tf.reduce_sum(tf.transpose(x, [3, 0, 2, 1]), 1),
        tf.nn.softmax(tf.transpose(x, [0, 3, 2, 1])),
    )


ANY_BATCH: list[tuple[Callable[[Any], Any], tuple[int, ...]]] = [
    (layer_norm, (6, 40)), (layer_norm, (2, 5, 33)), (batch_norm_training, (4, 5, 6, 7)), (attention, (2, 9, 12)),
    (residual_block, (2, 7, 9, 8)), (normalise_image, (2, 20, 30, 3)), (masks_and_selects, (5, 60)), (l2_normalise, (7, 50)),
    (cosine_distances, (6, 20)), (log_sum_exp, (8, 30)),
]  # fmt: skip
ONE_BATCH: list[tuple[Callable[[Any], Any], tuple[int, ...]]] = [
    (mlp_with_loss_gradient, (16, 11)),
    (lstm_step, (3, 10)),
    (huber_and_metrics, (9, 21)),
    *(
        (f, shape)
        for f in (
            finite_differences,
            five_point_stencil,
            every_few_elements,
            backwards,
            gated,
            tiled_and_sliced,
            turned,
        )
        for shape in ((7, 10), (40, 130))
    ),
    (turned_images, (2, 9, 11, 3)),
    (turned_images, (2, 17, 20, 33)),
]
CASES = [(*case, fixed) for case in ANY_BATCH for fixed in (True, False)] + [
    (*case, True) for case in ONE_BATCH
]


@pytest.mark.parametrize(
    ("make", "shape", "fixed"),
    CASES,
    ids=lambda v: v.__name__ if callable(v) else str(v).replace(" ", ""),
)
def test_graph(
    make: Callable[[Any], Any], shape: tuple[int, ...], fixed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """fixed: whether the placeholder's batch size stands in the graph or is known only from the
    feed.
    """
    monkeypatch.setenv("TFJIT_JIT", "eager")
    graph = v1.Graph()
    with graph.as_default():
        x = v1.placeholder(tf.float32, shape if fixed else (None, *shape[1:]), name="x")
        made = make(x)
        fetches = [t.name for t in tf.nest.flatten(made)]
    value = rand(*shape)
    with v1.Session(graph=graph) as session:
        wanted = session.run(fetches, {"x:0": value})
    with tfjit.Session(graph=graph.as_graph_def()) as ours:
        for _ in range(2):
            results = ours.run(fetches, {"x:0": value})
            for got, want in zip(results, wanted):
                assert got.dtype == want.dtype
                np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)
