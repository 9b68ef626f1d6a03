"""Summary operations against TensorFlow's: the messages they make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tfjit.kernels.cpu.reference.records.summary import encode_png

tf1 = tf.compat.v1
RNG = np.random.default_rng(5)
PICTURE = RNG.normal(size=(4, 5, 6, 3)).astype(np.float32)
BROKEN = PICTURE.copy()
BROKEN[0, 1, 2, 0], BROKEN[1, 0, 0, 2] = np.nan, np.inf

CASES: dict[str, Callable[[], Any]] = {
    "scalar": lambda: tf1.summary.scalar("a", tf.constant(1.1)),
    "double": lambda: tf1.summary.scalar("a", tf.constant(1.1, tf.float64)),
    "int": lambda: tf1.summary.scalar("a", tf.constant(16777217)),
    "not finite": lambda: tf1.summary.scalar("a", tf.constant(np.inf)),
    "scalars": lambda: tf.raw_ops.ScalarSummary(tags=["a", "b"], values=[1.5, 2.5]),
    "other shapes": lambda: tf.raw_ops.ScalarSummary(tags=["a", "b"], values=[1.5]),
    "one tag, two values": lambda: tf.raw_ops.ScalarSummary(tags="a", values=[1.5, 2]),
    "histogram": lambda: tf1.summary.histogram("h", tf.constant(RNG.normal(size=(20, 30)))),
    "histogram of ints": lambda: tf1.summary.histogram(
        "h", tf.constant([0, 0, -3, 7, 1000000, -1])
    ),
    "histogram of far values": lambda: tf1.summary.histogram(
        "h", tf.constant([1e-30, -1e30, 1e30, 1e-12, 1.0, 1.1, 0.0])
    ),
    "histogram of nothing": lambda: tf1.summary.histogram("h", tf.zeros([0])),
    "histogram of one": lambda: tf1.summary.histogram("h", tf.constant(-2.5, tf.half)),
    "histogram with a nan": lambda: tf1.summary.histogram("h", tf.constant([1.0, np.nan])),
    "histogram with an infinity": lambda: tf1.summary.histogram("h", tf.constant([1.0, np.inf])),
    "merged": lambda: tf1.summary.merge(
        [tf1.summary.scalar("a", 1.0), tf1.summary.histogram("b", [1.0, 2.0])]
    ),
    "merged twice": lambda: tf1.summary.merge([tf.raw_ops.ScalarSummary(tags="a", values=1.0)] * 2),
    "merged nonsense": lambda: tf1.summary.merge([tf.constant(b"\xff\xff")]),
    "tensor": lambda: tf1.summary.tensor_summary("t", tf.constant([[1.0, 2.0]])),
    "strings": lambda: tf1.summary.text("t", tf.constant(["one", "two"])),
    "old tensor": lambda: tf.raw_ops.TensorSummary(tensor=tf.constant([1, 2]), name="old"),
    "picture": lambda: tf1.summary.image("p", tf.constant(PICTURE)),
    "bright picture": lambda: tf1.summary.image("p", tf.constant(np.abs(PICTURE)), max_outputs=1),
    "dark picture": lambda: tf1.summary.image("p", tf.zeros([1, 2, 3, 1])),
    "bytes": lambda: tf1.summary.image(
        "p", tf.constant(np.arange(24, dtype=np.uint8).reshape(1, 2, 3, 4))
    ),
    "broken picture": lambda: tf1.summary.image("p", tf.constant(BROKEN)),
    "no picture": lambda: tf.raw_ops.ImageSummary(
        tag="p", tensor=tf1.placeholder_with_default(np.zeros((2, 3), np.float32), None)
    ),
    "two channels": lambda: tf.raw_ops.ImageSummary(
        tag="p", tensor=tf1.placeholder_with_default(np.zeros((1, 2, 3, 2), np.float32), None)
    ),
}


def outcome(make: Callable[[], Any], session_class: Any) -> Any:
    with tf1.Graph().as_default() as graph:
        fetch = make()
    with session_class(graph=graph) as session:
        try:
            message = tf1.Summary.FromString(session.run(fetch))
        except tf.errors.OpError as error:
            lines = [
                line for line in error.message.split("\nOriginal stack")[0].splitlines() if line
            ]
            first = (
                max((i for i, line in enumerate(lines) if line.startswith("Node:")), default=-1) + 1
            )
            return next(
                k.__name__ for k in type(error).__mro__ if k.__module__.startswith("tensorflow")
            ), lines[first]
    pictures = []
    for value in message.value:
        if value.HasField("image"):  # compressed by another library: what it holds must be the same
            pictures.append(tf.io.decode_png(value.image.encoded_image_string).numpy().tolist())
            value.image.encoded_image_string = b""
        if value.HasField("tensor"):
            pictures.append(tf.make_ndarray(value.tensor).tolist())
            value.tensor.Clear()
        if value.HasField("histo"):  # sums are taken in another order
            pictures += [
                pytest.approx(value.histo.sum, rel=1e-12),
                pytest.approx(value.histo.sum_squares, rel=1e-12),
            ]
            value.histo.sum = value.histo.sum_squares = 0
    return message, pictures


@pytest.mark.parametrize("name", CASES)
def test_messages_and_errors_are_tensorflows(name: str) -> None:
    state = RNG.bit_generator.state
    ours = outcome(CASES[name], tfjit.Session)
    RNG.bit_generator.state = state
    assert ours == outcome(CASES[name], tf1.Session)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_png(channels: int) -> None:
    pixels = RNG.integers(0, 256, (7, 3, channels), np.uint8)
    np.testing.assert_array_equal(tf.io.decode_png(encode_png(pixels)).numpy(), pixels)
