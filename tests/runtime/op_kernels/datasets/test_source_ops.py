"""Datasets of tensors, ranges and random numbers, against TensorFlow."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tests.runtime.pipelines import D, compare


def test_elements() -> None:
    compare(
        {
            "tensors": lambda: D.from_tensors((np.arange(3), b"text", np.float32(1.5))),
            "slices": lambda: D.from_tensor_slices(
                {"a": np.arange(6).reshape(3, 2), "b": ["x", "y\0", ""]}
            ),
            "no rows": lambda: D.from_tensor_slices(np.zeros((0, 2), np.float32)),
            "sparse rows": lambda: D.from_tensor_slices(
                tf.SparseTensor([[0, 1], [2, 0]], [1.5, 2.5], [3, 2])
            ).repeat(2),
            "sparse batches": lambda: D.from_tensor_slices(
                tf.SparseTensor([[0, 1], [2, 0]], [1, 2], [3, 2])
            ).batch(2),
            "range": lambda: D.range(3, 30, 4),
            "backwards": lambda: D.range(5, -5, -3),
            "no numbers": lambda: D.range(5, 5),
            "int32": lambda: D.range(3, output_type=tf.int32),
            "no step": lambda: D.range(0, 5, 0),
            "random": lambda: tf.data.experimental.RandomDataset(seed=5).take(600),
        }
    )
