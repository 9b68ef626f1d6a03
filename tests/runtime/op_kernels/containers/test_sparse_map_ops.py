"""Sparse tensors kept by number, beside TensorFlow's: numbers, tensors, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

import tfjit
from tests import oracle

tf1 = tf.compat.v1
raw = tf.raw_ops

# (operation, indices or numbers, values, shape)
CALLS: list[tuple[Any, ...]] = [
    ("take", [0]),
    ("add", [[0, 1], [2, 2]], [1, 2], [3, 3]),
    ("add", [[0, 1]], [5], [2, 7]),
    ("add", np.zeros((0, 2)), [], [4, 4]),
    ("take", [1, 0, 2]),
    ("take", [0]),
    ("add", [0, 1], [1, 2], [3]),
    ("add", [[0, 1]], [[1]], [3]),
    ("add", [[0, 1]], [1], [[3]]),
    ("add", [[0, 1]], [1, 2], [3, 3]),
    ("add", [[0, 1]], [1], [3]),
    ("add", [[0]], [1], [-3]),
    ("add", [[7]], [1], [3]),
    ("many", [[0, 1], [0, 2], [2, 0]], [1, 2, 3], [4, 3]),
    ("many", [[0]], [1], [3]),
    ("many", [[5, 0]], [1], [3, 1]),
    ("many", [[2, 0], [0, 0]], [1, 2], [3, 1]),
    ("many", [[2, 0], [2, 0]], [1, 2], [3, 1]),
    ("many", np.zeros((0, 2)), [], [0, 1]),
    ("many", np.zeros((0, 2)), [], [2, 1]),
    ("take", [4, 6, 5, 7]),
    ("take", [[1]]),
    ("take", []),
    ("other", [1]),
    ("add", [[1]], [1], [3]),
    ("add", [[1, 1]], [1], [3, 3]),
    ("take", [10, 11]),
    ("add", [[1]], [1], [3]),
    ("ints", [12]),
]


def test_equal_tensorflow() -> None:
    with tf1.Graph().as_default() as graph:
        values = tf1.placeholder(tf.float32)
        places, sizes, numbers = (tf1.placeholder(tf.int64) for _ in range(3))
        tensor = {"sparse_indices": places, "sparse_values": values, "sparse_shape": sizes}
        ops = {
            "add": raw.AddSparseToTensorsMap(**tensor, shared_name="m"),
            "many": raw.AddManySparseToTensorsMap(**tensor, shared_name="m"),
            **{
                name: list(
                    raw.TakeManySparseFromTensorsMap(
                        sparse_handles=numbers, dtype=dtype, shared_name=shared
                    )
                )
                for name, dtype, shared in (
                    ("take", tf.float32, "m"),
                    ("ints", tf.int32, "m"),
                    ("other", tf.float32, "n"),
                )
            },
        }
    answers: list[list[Any]] = []
    for kind in (tf1.Session, tfjit.Session):
        found: list[Any] = []
        with kind(graph=graph) as session:
            for op, *given in CALLS:
                feeds = (
                    {places: given[0], values: given[1], sizes: given[2]}
                    if len(given) == 3
                    else {numbers: np.array(given[0], np.int64)}
                )
                try:
                    found.append(repr(session.run(ops[op], feeds)))
                except Exception as error:
                    text = oracle.cause(error.message).split("\t [[")[0]
                    found.append((type(error).__name__, text))
        answers.append(found)
    for call, theirs, ours in zip(CALLS, *answers, strict=True):
        assert ours == theirs, call
