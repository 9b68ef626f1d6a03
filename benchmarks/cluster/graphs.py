"""Graphs over a cluster's tasks, made with the module of either library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

PS: Final = "/job:ps/task:0"
MASTER: Final = "/job:worker/task:0"
BATCH: Final = 32
_RATE: Final = 0.05
_FILTERS: Final = 16
_MANY: Final = 64


def one_task(tf: Any) -> tuple[Any, dict[Any, Any], list[Any]]:
    """Return (fetch, feeds, initializers) of a scalar step on the master's task."""
    with tf.device(MASTER):
        x = tf.placeholder(tf.float32, [])
        return x * 2.0 + 1.0, {x: 3.0}, []


def two_tasks(tf: Any) -> tuple[Any, dict[Any, Any], list[Any]]:
    """Return a scalar step that goes through both tasks."""
    x = tf.placeholder(tf.float32, [])
    with tf.device(PS):
        doubled = x * 2.0
    with tf.device(MASTER):
        return doubled + 1.0, {x: 3.0}, []


def feed(tf: Any, size: int) -> tuple[Any, dict[Any, Any], list[Any]]:
    """Return a step that is fed `size` float32 values."""
    with tf.device(MASTER):
        x = tf.placeholder(tf.float32, [size])
        return x[size - 1], {x: np.full(size, 2.5, np.float32)}, []


def fetch(tf: Any, size: int) -> tuple[Any, dict[Any, Any], list[Any]]:
    """Return a step that fetches `size` float32 values."""
    with tf.device(MASTER):
        kept = tf.Variable(tf.fill([size], 2.5), use_resource=True, name=f"fetched_{size}")
        return kept.read_value(), {}, [kept.initializer]


def send(tf: Any, size: int) -> tuple[Any, dict[Any, Any], list[Any]]:
    """Return a step in which one task sends `size` float32 values to the other."""
    with tf.device(PS):
        kept = tf.Variable(tf.fill([size], 2.5), use_resource=True, name=f"sent_{size}")
        value = kept.read_value()
    with tf.device(MASTER):
        return tf.identity(value)[size - 1], {}, [kept.initializer]


def many(tf: Any) -> tuple[Any, dict[Any, Any], list[Any]]:
    """Return a step in which one task sends 64 small tensors to the other."""
    with tf.device(PS):
        kept = [
            tf.Variable(tf.fill([16], float(i)), use_resource=True, name=f"many_{i}")
            for i in range(_MANY)
        ]
        values = [one.read_value() for one in kept]
    with tf.device(MASTER):
        return tf.add_n(values)[0], {}, [one.initializer for one in kept]


def initial_values() -> dict[str, np.ndarray]:
    """Return the first values of the digits network's variables, the same in both libraries."""
    generator = np.random.default_rng(15)

    def normal(*shape: int) -> np.ndarray:
        scale = np.sqrt(2.0 / np.prod(shape[:-1]))
        return (generator.standard_normal(shape) * scale).astype(np.float32)

    return {
        "conv": normal(3, 3, 1, _FILTERS),
        "conv_bias": np.zeros(_FILTERS, np.float32),
        "dense": normal(4 * 4 * _FILTERS, 64),
        "dense_bias": np.zeros(64, np.float32),
        "logits": normal(64, 10),
        "logits_bias": np.zeros(10, np.float32),
    }


def digits_variables(tf: Any, prefix: str) -> dict[str, Any]:
    """Return variables with the initial values, placed by the devices around the call."""
    return {
        name: tf.Variable(value, use_resource=True, name=f"{prefix}_{name}")
        for name, value in initial_values().items()
    }


def digits_loss(tf: Any, variables: dict[str, Any], images: Any, labels: Any) -> Any:
    """Return the mean loss of a small convolutional network on a batch."""
    v = variables
    found = tf.nn.conv2d(images, v["conv"], strides=[1, 1, 1, 1], padding="SAME")
    found = tf.nn.relu(tf.nn.bias_add(found, v["conv_bias"]))
    found = tf.nn.max_pool(found, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    found = tf.reshape(found, [-1, 4 * 4 * _FILTERS])
    found = tf.nn.relu(tf.nn.bias_add(tf.matmul(found, v["dense"]), v["dense_bias"]))
    logits = tf.nn.bias_add(tf.matmul(found, v["logits"]), v["logits_bias"])
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )


def digits_inputs(tf: Any) -> tuple[Any, Any]:
    """Return the placeholders of a batch."""
    return tf.placeholder(tf.float32, [BATCH, 8, 8, 1]), tf.placeholder(tf.int32, [BATCH])


def replica(tf: Any, worker: int) -> tuple[list[Any], tuple[Any, Any], list[Any]]:
    """Return (fetches, placeholders, initializers) of a worker's part of asynchronous training.

    Its variables are on the parameter server, and those of all workers have the same names.
    """
    setter = tf.train.replica_device_setter(
        ps_tasks=1, ps_device="/job:ps", worker_device=f"/job:worker/task:{worker}"
    )
    with tf.device(setter):
        variables = digits_variables(tf, "shared")
        inputs = digits_inputs(tf)
        loss = digits_loss(tf, variables, *inputs)
        train = tf.train.GradientDescentOptimizer(_RATE).minimize(loss)
    return [loss, train], inputs, [v.initializer for v in variables.values()]


def towers(tf: Any, devices: Sequence[str]) -> tuple[list[Any], tuple[Any, Any], list[Any]]:
    """Return training in which each device has an equal share of the batch.

    The variables and the mean of the gradients are on the parameter server.
    """
    with tf.device(PS):
        variables = digits_variables(tf, "towers")
    inputs = digits_inputs(tf)
    optimizer = tf.train.GradientDescentOptimizer(_RATE)
    share = BATCH // len(devices)
    losses, gradients = [], []
    for index, device in enumerate(devices):
        part = slice(index * share, (index + 1) * share)
        with tf.device(device):
            loss = digits_loss(tf, variables, inputs[0][part], inputs[1][part])
            found = optimizer.compute_gradients(loss, list(variables.values()))
        losses.append(loss)
        gradients.append([gradient for gradient, _ in found])
    with tf.device(PS):
        means = [tf.add_n(list(same)) / float(len(devices)) for same in zip(*gradients)]
        train = optimizer.apply_gradients(list(zip(means, variables.values())))
        loss = tf.add_n(losses) / float(len(devices))
    return [loss, train], inputs, [v.initializer for v in variables.values()]
