"""Programs of many small operations: a simulation, multi-layer perceptrons."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.programs.models.layers import dense, generator, session


def simulation(tf: Any, recorder: Any, threads: int, *, bodies: int = 16, stages: int = 14) -> None:
    """Run a graph of 280 small operations.

    A chain of springs, `stages` half steps a run.
    """
    place = tf.placeholder(tf.float32, [bodies], name="place")
    speed = tf.placeholder(tf.float32, [bodies], name="speed")
    push = tf.placeholder(tf.float32, [], name="push")
    x, v = place, speed
    for stage in range(stages):
        left = tf.concat([x[-1:], x[:-1]], 0)
        right = tf.concat([x[1:], x[:1]], 0)
        stretch = left + right - 2.0 * x
        force = stretch * 4.0 + tf.tanh(stretch) * 0.5 - 0.1 * v
        force = force + push * float(stage % 2) - tf.reduce_mean(force)
        v = v + 0.01 * force
        x = x + 0.01 * v
    energy = tf.reduce_sum(tf.square(v)) * 0.5
    rng = generator(15)
    a = rng.standard_normal(bodies).astype(np.float32)
    b = np.zeros(bodies, np.float32)
    with session(tf, recorder, threads) as run:
        for step in recorder.steps():
            feed = {place: a, speed: b, push: np.float32(np.sin(0.1 * step))}
            a, b, total = run.run([x, v, energy], feed)
            if step % 50 == 0:
                recorder.output(total, a)


def perceptron(
    tf: Any,
    recorder: Any,
    threads: int,
    *,
    width: int = 784,
    units: tuple[int, ...] = (256, 128),
    batch: int = 32,
) -> None:
    """Train a perceptron on batches of 32.

    It is evaluated on 500 examples now and then.
    """
    x = tf.placeholder(tf.float32, [None, width], name="x")
    labels = tf.placeholder(tf.int32, [None], name="labels")
    y = x
    for layer, count in enumerate(units):
        y = dense(tf, y, count, f"layer_{layer}", tf.nn.relu)
    logits = dense(tf, y, 10, "logits")
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    right = tf.reduce_mean(tf.cast(tf.nn.in_top_k(logits, labels, 1), tf.float32))
    train = tf.train.AdamOptimizer(1e-3).minimize(loss)
    rng = generator(16)
    means = rng.standard_normal([10, width]).astype(np.float32) * 0.1

    def examples(count: int) -> dict[Any, Any]:
        kind = rng.integers(0, 10, count)
        return {x: means[kind] + rng.standard_normal([count, width], np.float32), labels: kind}

    held = examples(500)
    with session(tf, recorder, threads) as run:
        run.run(tf.global_variables_initializer())
        for step in recorder.steps():
            recorder.output(run.run([loss, train], examples(batch))[0])
            if step % 200 == 199:
                recorder.output(run.run(right, held))


def batch_sizes(
    tf: Any,
    recorder: Any,
    threads: int,
    *,
    width: int = 64,
    units: int = 128,
    layers: int = 6,
    sizes: int = 1000,
) -> None:
    """Train six dense layers with Adam.

    Each step has a batch of another size.
    """
    x = tf.placeholder(tf.float32, [None, width], name="x")
    wanted = tf.placeholder(tf.float32, [None, 1], name="wanted")
    y = x
    for layer in range(layers - 1):
        y = dense(tf, y, units, f"layer_{layer}", tf.nn.relu)
    loss = tf.reduce_mean(tf.square(dense(tf, y, 1, "last") - wanted))
    train = tf.train.AdamOptimizer(1e-3).minimize(loss)
    rng = generator(17)
    order = rng.permutation(sizes) + 1
    with session(tf, recorder, threads) as run:
        run.run(tf.global_variables_initializer())
        for step in recorder.steps():
            batch = rng.standard_normal([order[step % sizes], width], np.float32)
            feed = {x: batch, wanted: np.tanh(batch[:, :1] * batch[:, 1:2])}
            recorder.output(run.run([loss, train], feed)[0])
