"""Define layers and optimizer steps that several programs share.

They are written as TensorFlow 1 programs write them.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def session(tf: Any, recorder: Any, threads: int) -> Any:
    """Return a session of the program's default graph; its making is stamped."""
    config = tf.ConfigProto(
        intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads
    )
    recorder.start()
    if recorder.open is not None:
        made = recorder.open(tf, config)
        recorder.session = made.inner
        return made
    recorder.session = tf.Session(config=config)
    return recorder.session


def dense(tf: Any, x: Any, units: int, name: str, activation: Any = None) -> Any:
    """Return `activation(x @ weights + bias)` for x [..., width].

    The width is known.
    """
    width = int(x.shape[-1])
    with tf.variable_scope(name):
        weights = tf.get_variable(
            "weights", [width, units], initializer=tf.glorot_uniform_initializer()
        )
        bias = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
        if len(x.shape) == 2:
            y = tf.nn.bias_add(tf.matmul(x, weights), bias)
        else:
            outer = tf.shape(x)[:-1]
            flat = tf.matmul(tf.reshape(x, [-1, width]), weights)
            y = tf.reshape(tf.nn.bias_add(flat, bias), tf.concat([outer, [units]], 0))
            y.set_shape([*x.shape[:-1].as_list(), units])
        return y if activation is None else activation(y)


def layer_norm(tf: Any, x: Any, name: str) -> Any:
    """Return x normalised over its last axis, scaled and shifted."""
    with tf.variable_scope(name):
        width = int(x.shape[-1])
        gamma = tf.get_variable("gamma", [width], initializer=tf.ones_initializer())
        beta = tf.get_variable("beta", [width], initializer=tf.zeros_initializer())
        mean, variance = tf.nn.moments(x, [-1], keep_dims=True)
        return (x - mean) * tf.rsqrt(variance + 1e-6) * gamma + beta


def batch_norm(tf: Any, x: Any, name: str, training: bool = True) -> Any:
    """Return x [n, h, w, c] normalised over the batch.

    The moving averages are update ops.
    """
    with tf.variable_scope(name):
        channels = int(x.shape[-1])
        gamma = tf.get_variable("gamma", [channels], initializer=tf.ones_initializer())
        beta = tf.get_variable("beta", [channels], initializer=tf.zeros_initializer())
        mean = tf.get_variable(
            "mean", [channels], initializer=tf.zeros_initializer(), trainable=False
        )
        variance = tf.get_variable(
            "variance", [channels], initializer=tf.ones_initializer(), trainable=False
        )
        if not training:
            y, _, _ = tf.nn.fused_batch_norm(x, gamma, beta, mean, variance, is_training=False)
            return y
        y, batch_mean, batch_variance = tf.nn.fused_batch_norm(x, gamma, beta, is_training=True)
        for moving, value in ((mean, batch_mean), (variance, batch_variance)):
            update = tf.assign_sub(moving, 0.1 * (moving - value))
            tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, update)
        return y


def conv(tf: Any, x: Any, channels: int, name: str, size: int = 3, stride: int = 1) -> Any:
    """Return a 2-D convolution of x [n, h, w, c] without bias."""
    shape = [size, size, int(x.shape[-1]), channels]
    with tf.variable_scope(name):
        kernel = tf.get_variable(
            "kernel", shape, initializer=tf.variance_scaling_initializer(2.0, "fan_out")
        )
        return tf.nn.conv2d(x, kernel, [1, stride, stride, 1], "SAME")


def clipped(tf: Any, optimizer: Any, loss: Any, norm: float) -> Any:
    """Return the training operation of gradients clipped by their global norm."""
    variables = tf.trainable_variables()
    gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), norm)
    return optimizer.apply_gradients(
        zip(gradients, variables), global_step=tf.train.get_or_create_global_step()
    )


def generator(seed: int) -> np.random.Generator:
    """Return the random numbers that a program's data are made from."""
    return np.random.default_rng(seed)
