"""Functions of `tf.data.experimental`."""

from __future__ import annotations

import pytest

import tfjit
from tests.client.datasets.pipelines import check_pipelines


def test_elements_are_tensorflows() -> None:
    check_pipelines(
        {
            "map_and_batch": lambda tf: tf.data.Dataset.range(10).apply(
                tf.data.experimental.map_and_batch(lambda x: x * 2, 4)
            ),
            "shuffle_and_repeat": lambda tf: tf.data.Dataset.range(10).apply(
                tf.data.experimental.shuffle_and_repeat(4, 2, seed=3)
            ),
            "parallel_interleave": lambda tf: tf.data.Dataset.range(4).apply(
                tf.data.experimental.parallel_interleave(
                    lambda x: tf.data.Dataset.from_tensors(x).repeat(3), cycle_length=2
                )
            ),
            "enumerate": lambda tf: tf.data.Dataset.range(3).apply(
                tf.data.experimental.enumerate_dataset()
            ),
            "list": lambda tf: tf.data.experimental.from_list([(1, 2.0), (4, 5.0)]),
            "cardinality": lambda tf: tf.data.Dataset.from_tensors(
                tf.data.experimental.cardinality(tf.data.Dataset.range(7).batch(2))
            ),
            "single element": lambda tf: tf.data.Dataset.from_tensors(
                tf.data.experimental.get_single_element(tf.data.Dataset.range(3).batch(5))
            ),
            "variants": lambda tf: tf.data.experimental.from_variant(
                tf.data.experimental.to_variant(tf.data.Dataset.range(3)),
                tf.data.experimental.get_structure(tf.data.Dataset.range(3)),
            ),
        }
    )


def test_faulty_arguments() -> None:
    with pytest.raises(ValueError, match="only one of"):
        tfjit.data.experimental.map_and_batch(lambda x: x, 2, 2, num_parallel_calls=3)
    with tfjit.Graph().as_default(), pytest.raises(ValueError, match="not be empty"):
        tfjit.data.experimental.from_list([])
