"""Datasets whose elements are repeated, left out, reordered and kept."""

from __future__ import annotations

import numpy as np
import pytest

import tfjit
from tests.client.datasets.pipelines import check_pipelines, tf1

Dataset = tfjit.data.Dataset


def test_elements_are_tensorflows() -> None:
    check_pipelines(
        {
            "repeat": lambda tf: tf.data.Dataset.range(3).repeat(3).take(7).skip(2),
            "shard": lambda tf: tf.data.Dataset.range(10).shard(3, 1),
            "shuffle": lambda tf: tf.data.Dataset.range(20).shuffle(5, seed=7).repeat(2),
            "one order": lambda tf: (
                tf.data.Dataset.range(20)
                .shuffle(5, seed=7, reshuffle_each_iteration=False)
                .repeat(2)
            ),
            "a seed that is a tensor": lambda tf: tf.data.Dataset.range(20).shuffle(
                5, seed=tf.constant(7, tf.int64)
            ),
            "cache": lambda tf: tf.data.Dataset.range(4).cache().repeat(2),
            "prefetch": lambda tf: tf.data.Dataset.range(4).prefetch(2).prefetch(tf.data.AUTOTUNE),
            "concatenate": lambda tf: tf.data.Dataset.from_tensors([1]).concatenate(
                tf.data.Dataset.from_tensors([1, 2])
            ),
            "enumerate": lambda tf: tf.data.Dataset.from_tensor_slices([5.0, 6.0]).enumerate(3),
            "unique": lambda tf: tf.data.Dataset.from_tensor_slices([1, 2, 1, 3, 2]).unique(),
            "errors": lambda tf: (
                tf.data.Dataset.from_tensor_slices([1.0, 0.0, 2.0])
                .map(lambda x: tf.check_numerics(1 / x, "bad"))
                .ignore_errors()
            ),
        }
    )


def test_seeds_of_the_graph() -> None:
    found = []
    for tf in (tf1, tfjit):
        with tf.Graph().as_default() as graph:
            tf.set_random_seed(3)
            for seed in (None, 5):
                tf.data.Dataset.range(9).shuffle(4, seed=seed)
            shuffles = [op for op in graph.get_operations() if op.type == "ShuffleDataset"]
            with tf.Session() as session:
                found.append(session.run([list(op.inputs)[2:] for op in shuffles]))
    np.testing.assert_array_equal(*found)


def test_faulty_arguments() -> None:
    with tfjit.Graph().as_default():
        with pytest.raises(TypeError, match="Incompatible dtypes"):
            Dataset.range(3).concatenate(Dataset.from_tensors(1.0))
        with pytest.raises(RuntimeError, match="make_one_shot_iterator"):
            iter(Dataset.range(3))
        with pytest.raises(RuntimeError, match="eager mode"):
            Dataset.range(3).as_numpy_iterator()
