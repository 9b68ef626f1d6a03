"""Elements grouped by functions, against TensorFlow."""

from __future__ import annotations

import tensorflow as tf

from tests.runtime.pipelines import D, compare


def test_groups() -> None:
    experimental = tf.data.experimental
    compare(
        {
            "windows": lambda: D.range(10).apply(
                experimental.group_by_window(lambda x: x % 3, lambda k, w: w.batch(2), 2)
            ),
            "sizes": lambda: D.range(12).apply(
                experimental.group_by_window(
                    lambda x: x % 2,
                    lambda k, w: w.batch(4).map(lambda b: tf.reduce_sum(b) + k),
                    window_size_func=lambda k: k + 2,
                )
            ),
            "reducer": lambda: D.range(7).apply(
                experimental.group_by_reducer(
                    lambda x: x % 2,
                    experimental.Reducer(lambda k: k, lambda s, x: s + x, lambda s: s * 10),
                )
            ),
        }
    )
