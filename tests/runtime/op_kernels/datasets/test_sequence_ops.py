"""Datasets of some elements of others, against TensorFlow."""

from __future__ import annotations

import tensorflow as tf

from tests.runtime.pipelines import D, compare


def test_parts_and_repetitions() -> None:
    compare(
        {
            "take": lambda: D.range(5).take(3),
            "take all": lambda: D.range(2).take(-1),
            "take none": lambda: D.range(5).take(0),
            "skip": lambda: D.range(5).skip(3),
            "skip all": lambda: D.range(5).skip(-1),
            "repeat": lambda: D.range(3).repeat(2),
            "repeat none": lambda: D.range(3).repeat(0),
            "no end": lambda: D.range(0).repeat(),
            "some of no end": lambda: D.range(3).repeat().take(7),
            "shard": lambda: D.range(10).shard(3, 1),
            "of a repetition": lambda: D.range(4).skip(1).repeat(2).take(5).repeat(2),
        }
    )


def test_several_datasets() -> None:
    selector = lambda: D.range(9).map(lambda x: x % 2)  # noqa: E731
    experimental = tf.data.experimental
    compare(
        {
            "concatenate": lambda: D.range(2).concatenate(D.range(5, 7)),
            "zip": lambda: D.zip((D.range(3), (D.range(5), D.range(7, 9).repeat()))),
            "enumerate": lambda: D.range(5, 8).enumerate(3),
            "choose": lambda: experimental.choose_from_datasets(
                [D.range(3), D.range(10, 15)], selector()
            ),
            "sample": lambda: experimental.sample_from_datasets(
                [D.range(5), D.range(100, 105)], [0.5, 0.5], seed=3
            ),
        }
    )
