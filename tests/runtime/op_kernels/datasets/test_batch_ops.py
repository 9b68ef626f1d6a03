"""Batches, padded batches, windows and rows, against TensorFlow."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tests.runtime.pipelines import D, compare, variant


def _filled(x: tf.Tensor) -> tf.Tensor:
    return tf.fill([x], x)


def _checked(x: tf.Tensor) -> tf.Tensor:
    return tf.debugging.check_numerics(1.0 / tf.cast(x - 4, tf.float32), "bad")


def test_batches() -> None:
    compare(
        {
            "batch": lambda: D.from_tensor_slices(
                (np.arange(10).reshape(5, 2), list("abcde"))
            ).batch(2),
            "without the rest": lambda: D.range(6).batch(4, drop_remainder=True),
            "no size": lambda: D.range(3).batch(tf.constant(0, tf.int64)),
            "shapes differ": lambda: D.range(6).map(_filled).take(6).batch(2),
            "with an error": lambda: D.range(9).map(_checked).batch(3),
            "padded": lambda: D.range(6).map(_filled).padded_batch(4, [None]),
            "padded to": lambda: D.range(5).map(_filled).padded_batch(2, [4], np.int64(-1), True),
            "does not fit": lambda: D.range(5).map(_filled).padded_batch(2, [2]),
            "sparse": lambda: (
                D.range(4).map(_filled).apply(tf.data.experimental.dense_to_sparse_batch(2, [5]))
            ),
            "unbatch": lambda: D.from_tensor_slices(np.arange(12).reshape(3, 4)).apply(
                tf.data.experimental.unbatch()
            ),
        }
    )


def test_windows() -> None:
    compare(
        {
            "window": lambda: D.range(7).window(3, 2).flat_map(lambda w: w.batch(3)),
            "stride": lambda: D.range(7).window(3, 2, 2, True).flat_map(lambda w: w.batch(2)),
            "gaps": lambda: D.range(11).window(2, 5).flat_map(lambda w: w.batch(2)),
            "of pairs": lambda: (
                D.zip((D.range(5), D.range(5, 10)))
                .window(2)
                .flat_map(lambda a, b: D.zip((a.batch(2), b.repeat(2).batch(4))))
            ),
            "sliding": lambda: variant(
                tf.raw_ops.SlidingWindowDataset,
                input_dataset=D.range(7)._variant_tensor,
                window_size=3,
                window_shift=2,
                window_stride=1,
                spec=tf.TensorSpec([None], tf.int64),
            ),
        }
    )
