"""Measure training steps with the loss fetched.

The gradients and updates are those that TensorFlow 1's optimizers build.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.scripts.models import weights
from benchmarks.workload import Workload, feeds_of, integers, uniform


class _Network:
    """Build layers over variables.

    Initial values are constants of the graph, so that every candidate starts from the same.
    """

    def __init__(self, tf: Any) -> None:
        self.tf = tf
        self.rng = np.random.default_rng(1)

    def variable(self, *shape: int) -> Any:
        return self.tf.Variable(self.tf.constant(weights(self.rng, *shape)), use_resource=True)

    def dense(self, x: Any, k: int, n: int) -> Any:
        return self.tf.nn.bias_add(self.tf.matmul(x, self.variable(k, n)), self.variable(n))

    def conv(self, x: Any, ci: int, co: int) -> Any:
        tf = self.tf
        y = tf.nn.conv2d(x, self.variable(3, 3, ci, co), strides=[1, 1, 1, 1], padding="SAME")
        return tf.nn.max_pool2d(
            tf.nn.relu(tf.nn.bias_add(y, self.variable(co))), ksize=2, strides=2, padding="VALID"
        )

    def minimise(self, logits: Any, optimizer: Any, labels: Any = None) -> None:
        tf = self.tf
        labels = tf.placeholder(tf.int32, [None], name="labels") if labels is None else labels
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        loss = tf.reduce_mean(losses, name="loss")
        optimizer.minimize(loss, name="train")
        tf.variables_initializer(tf.global_variables(), name="init")


def _mlp_sgd(tf: Any) -> None:
    net = _Network(tf)
    x = tf.placeholder(tf.float32, [None, 784], name="x")
    h = tf.nn.relu(net.dense(x, 784, 512))
    h = tf.nn.relu(net.dense(h, 512, 512))
    net.minimise(net.dense(h, 512, 10), tf.train.GradientDescentOptimizer(0.01))


def _cnn_adam(tf: Any) -> None:
    net = _Network(tf)
    h = tf.placeholder(tf.float32, [None, 28, 28, 1], name="x")
    for ci, co in ((1, 32), (32, 64)):
        h = net.conv(h, ci, co)
    h = tf.nn.relu(net.dense(tf.reshape(h, [-1, 7 * 7 * 64]), 7 * 7 * 64, 128))
    net.minimise(net.dense(h, 128, 10), tf.train.AdamOptimizer(1e-3))


def _mlp_from_a_queue(tf: Any) -> None:
    """Return a model fed by a queue.

    The queue gives the same batch again and again, so that a candidate's number of runs does not
    matter.
    """
    net = _Network(tf)
    queue = tf.FIFOQueue(1000, [tf.float32, tf.int32], shapes=[[64], []])
    batch = (
        tf.constant(weights(net.rng, 32, 64)),
        tf.constant(net.rng.integers(0, 10, 32).astype(np.int32)),
    )
    queue.enqueue_many(batch, name="fill")
    x, labels = queue.dequeue_many(32)
    queue.enqueue_many([x, labels], name="refill")
    h = tf.nn.relu(net.dense(x, 64, 128))
    h = tf.nn.relu(net.dense(h, 128, 64))
    net.minimise(net.dense(h, 64, 10), tf.train.AdamOptimizer(1e-3), labels)


def workloads() -> list[Workload]:
    """Return the training steps.

    An MLP with SGD, batch 256; a CNN with Adam, batch 64; a small MLP with batches from a queue.
    The losses of four steps are compared.
    """
    from_a_queue = Workload(
        "training step, MLP 64-128-64-10, Adam, batches of 32 from a queue",
        ["loss:0"],
        feeds_of(),
        _mlp_from_a_queue,
        targets=["train", "refill"],
        setup=["init", "fill"],
        steps=4,
        needs_tensorflow=True,
        rtol=1e-3,
    )
    digits, images = uniform([256, 784], 0, 1), uniform([64, 28, 28, 1], 0, 1)
    fed = [
        Workload(
            name,
            ["loss:0"],
            feeds,
            build,
            wanted=wanted,
            targets=["train"],
            setup=["init"],
            steps=4,
            needs_tensorflow=True,
            rtol=1e-3,
        )
        for name, feeds, build, wanted in (
            (
                "training step, MLP 784-512-512-10, SGD, batch 256",
                feeds_of(x=digits, labels=integers([256], 10)),
                _mlp_sgd,
                0.9,
            ),
            (
                "training step, CNN 28x28, Adam, batch 64",
                feeds_of(x=images, labels=integers([64], 10)),
                _cnn_adam,
                0.8,
            ),
        )
    ]
    return [*fed, from_a_queue]
