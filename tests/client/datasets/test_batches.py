"""Batches, padding, windows and groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfjit
from tests.client.datasets.pipelines import check_pipelines

Dataset = tfjit.data.Dataset


def rows(tf: Any, count: int = 5) -> Any:
    """Return vectors of 0, 1, 2 ... elements."""
    return tf.data.Dataset.range(count).map(lambda x: tf.fill([tf.cast(x, tf.int32)], x))


def test_elements_are_tensorflows() -> None:
    check_pipelines(
        {
            "batch": lambda tf: tf.data.Dataset.range(10).batch(4),
            "whole batches": lambda tf: tf.data.Dataset.range(10).batch(4, drop_remainder=True),
            "parallel": lambda tf: tf.data.Dataset.range(10).batch(4, num_parallel_calls=2),
            "batches of batches": lambda tf: tf.data.Dataset.range(8).batch(2).batch(3),
            "unbatch": lambda tf: tf.data.Dataset.from_tensor_slices(
                (np.arange(6).reshape(3, 2), np.arange(6.0).reshape(3, 2))
            ).unbatch(),
            "unbatch of a dictionary": lambda tf: tf.data.Dataset.from_tensors(
                {"a": [1, 2], "b": [3.0, 4.0]}
            ).unbatch(),
            "windows": lambda tf: (
                tf.data.Dataset.range(7)
                .window(3, shift=2, drop_remainder=True)
                .flat_map(lambda window: window.batch(3))
            ),
            "windows of pairs": lambda tf: (
                tf.data.Dataset.from_tensor_slices((np.arange(7), np.arange(7.0)))
                .window(3)
                .flat_map(lambda a, b: tf.data.Dataset.zip((a.batch(3), b.batch(3))))
            ),
            "groups": lambda tf: tf.data.Dataset.range(10).group_by_window(
                lambda x: x % 2, lambda key, window: window.batch(3), window_size=3
            ),
            "groups of other sizes": lambda tf: tf.data.Dataset.range(10).group_by_window(
                lambda x: x % 2,
                lambda key, window: window.batch(4),
                window_size_func=lambda key: key + 1,
            ),
        }
    )


def test_padding() -> None:
    check_pipelines(
        {
            "to the largest": lambda tf: rows(tf).padded_batch(2, [None]),
            "own shapes": lambda tf: rows(tf).padded_batch(2),
            "sizes and values": lambda tf: (
                rows(tf)
                .map(lambda x: (x, tf.size(x)))
                .padded_batch(3, ([6], []), (np.int64(-1), 0), drop_remainder=True)
            ),
            "of dictionaries": lambda tf: (
                rows(tf)
                .map(lambda x: {"a": tf.stack([x, x], 1), "b": tf.as_string(x)})
                .padded_batch(3, {"a": [None, None], "b": [-1]})
            ),
            "buckets": lambda tf: rows(tf, 9).bucket_by_sequence_length(
                lambda x: tf.size(x), [3, 6], [2, 2, 2]
            ),
            "buckets to their limits": lambda tf: rows(tf, 8).bucket_by_sequence_length(
                lambda x: tf.size(x), [3, 8], [2, 2, 2], pad_to_bucket_boundary=True
            ),
        }
    )


def test_faulty_arguments() -> None:
    with tfjit.Graph().as_default():
        with pytest.raises(ValueError, match="scalar components"):
            Dataset.range(3).unbatch()
        with pytest.raises(ValueError, match="not compatible"):
            Dataset.from_tensors([1, 2, 3]).padded_batch(2, [2])
        with pytest.raises(ValueError, match="unknown rank"):
            unknown = tfjit.placeholder(tfjit.float32)
            Dataset.from_tensors(unknown).padded_batch(2)
        with pytest.raises(ValueError, match="not both"):
            Dataset.range(3).group_by_window(lambda x: x, lambda k, w: w)
        with pytest.raises(TypeError, match="must return a scalar int64"):
            Dataset.range(3).group_by_window(lambda x: 1.0, lambda k, w: w, 3)
        with pytest.raises(TypeError, match="must return a single"):
            Dataset.range(3).group_by_window(lambda x: x, lambda k, w: k, 3)
        with pytest.raises(ValueError, match="bucket_batch_sizes"):
            Dataset.range(3).bucket_by_sequence_length(lambda x: x, [3], [2])
        with pytest.raises(TypeError, match="hold datasets"):
            Dataset.range(3).window(2).batch(2)
