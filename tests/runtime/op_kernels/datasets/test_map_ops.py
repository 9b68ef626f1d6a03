"""Functions of elements, against TensorFlow."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tests.runtime.pipelines import D, compare


def _checked(x: tf.Tensor) -> tf.Tensor:
    return tf.debugging.check_numerics(1.0 / tf.cast(x - 2, tf.float32), "bad")


def test_maps_and_filters() -> None:
    rows = np.arange(24, dtype=np.float32).reshape(12, 2)
    compare(
        {
            "pairs": lambda: D.from_tensor_slices((np.arange(12), rows)).map(
                lambda a, b: (a * 2, b + 1)
            ),
            "texts": lambda: D.from_tensor_slices(["a", "b"]).map(lambda s: s + "x"),
            "shapes": lambda: (
                D.range(9)
                .map(lambda x: tf.fill([x % 4, 2], x))
                .map(lambda x: tf.reduce_sum(x, axis=0))
            ),
            "loop": lambda: D.range(4).map(
                lambda x: tf.while_loop(lambda i: i < 10, lambda i: [i * 2 + 1], [x])[0]
            ),
            "branch": lambda: D.range(4).map(lambda x: tf.cond(x > 2, lambda: x * 10, lambda: x)),
            "error": lambda: D.range(4).map(_checked),
            "filter": lambda: D.range(9).filter(lambda x: x % 3 > 0),
            "take while": lambda: D.range(9).apply(
                tf.data.experimental.take_while(lambda x: x < 4)
            ),
            "scan": lambda: D.range(5).apply(
                tf.data.experimental.scan(np.int64(1), lambda s, x: (s + x, s * x))
            ),
            "capture": lambda: (lambda y: D.range(3).map(lambda x: x + y))(
                tf.constant(5, tf.int64)
            ),
        }
    )


def test_functions_that_make_datasets() -> None:
    compare(
        {
            "flat map": lambda: D.range(5).flat_map(lambda x: D.from_tensors(x).repeat(x)),
            **{
                f"interleave {cycle} {block}": lambda cycle=cycle, block=block: D.range(
                    9
                ).interleave(lambda x: D.range(x * 10, x * 10 + 1 + x % 4), cycle, block)
                for cycle, block in ((1, 1), (2, 2), (4, 1), (3, 5))
            },
            "nested": lambda: D.range(4).flat_map(
                lambda x: D.range(x).map(lambda y: y * x).batch(2)
            ),
        }
    )
