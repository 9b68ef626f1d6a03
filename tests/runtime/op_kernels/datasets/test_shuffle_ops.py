"""Random order: the same as of TensorFlow for the same seeds."""

from __future__ import annotations

import tensorflow as tf

import tfjit
from tests.runtime.pipelines import D, compare, variant


def _with_generator(reshuffle: bool) -> tf.Tensor:
    raw = tf.raw_ops
    generator = raw.AnonymousSeedGenerator(seed=3, seed2=4, reshuffle=reshuffle)
    return variant(
        raw.ShuffleDatasetV3,
        input_dataset=D.range(9)._variant_tensor,
        buffer_size=4,
        seed=0,
        seed2=0,
        seed_generator=generator.handle,
    ).repeat(3)


def test_order_of_seeds() -> None:
    compare(
        {
            "each epoch": lambda: D.range(10).shuffle(4, seed=3).repeat(3).batch(4),
            "one order": lambda: D.range(10).shuffle(4, 3, False).repeat(2),
            "large buffer": lambda: D.range(7).shuffle(100, seed=3).repeat(2),
            "in part": lambda: D.range(10).shuffle(4, seed=3).take(4).repeat(3),
            "long": lambda: D.range(2000).shuffle(50, seed=1).skip(1950),
            "generator": lambda: _with_generator(True),
            "fixed generator": lambda: _with_generator(False),
            "and repeat": lambda: variant(
                tf.raw_ops.ShuffleAndRepeatDataset,
                input_dataset=D.range(7)._variant_tensor,
                buffer_size=5,
                seed=3,
                seed2=4,
                count=3,
            ),
            "and repeat without end": lambda: variant(
                tf.raw_ops.ShuffleAndRepeatDataset,
                input_dataset=D.range(3)._variant_tensor,
                buffer_size=20,
                seed=3,
                seed2=4,
                count=-1,
            ).take(20),
        }
    )


def test_order_without_seeds() -> None:
    with tf.Graph().as_default() as graph:
        iterator = tf.compat.v1.data.make_initializable_iterator(D.range(100).shuffle(100))
        element = iterator.get_next()
    orders = []
    with tfjit.Session(graph=graph) as session:
        for _ in range(2):
            session.run(iterator.initializer)
            orders.append([session.run(element) for _ in range(100)])
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(100))
