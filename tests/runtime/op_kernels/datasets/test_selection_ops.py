"""Datasets of selected elements, against TensorFlow."""

from __future__ import annotations

import tensorflow as tf

from tests.runtime.pipelines import D, compare, variant


def _checked(x: tf.Tensor) -> tf.Tensor:
    return tf.debugging.check_numerics(1.0 / tf.cast(x - 2, tf.float32), "bad")


def test_checks() -> None:
    experimental = tf.data.experimental
    compare(
        {
            "ignored errors": lambda: D.range(4).map(_checked).apply(experimental.ignore_errors()),
            "too few": lambda: D.range(4).apply(experimental.assert_cardinality(5)),
            "too many": lambda: D.range(7).apply(experimental.assert_cardinality(5)).take(6),
            "options": lambda: D.range(3).with_options(tf.data.Options()),
            "unique": lambda: D.from_tensor_slices([1, 2, 1, 3, 2]).apply(experimental.unique()),
            "unique texts": lambda: D.from_tensor_slices(["a", "b", "a"]).apply(
                experimental.unique()
            ),
            "sampled": lambda: variant(
                tf.raw_ops.SamplingDataset,
                input_dataset=D.range(20)._variant_tensor,
                rate=0.5,
                seed=3,
                seed2=4,
            ),
        }
    )
