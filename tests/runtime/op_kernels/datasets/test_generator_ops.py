"""Python generators as datasets, against TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import tensorflow as tf

import tfjit
from tests.runtime.pipelines import D, compare


def _ragged() -> Iterator[tuple[int, list[float]]]:
    for i in range(4):
        yield i, [float(i)] * i


def _failing() -> Iterator[int]:
    yield 1
    raise ValueError("no more")


def test_generators() -> None:
    types, shapes = (tf.int32, tf.float32), ((), (None,))
    compare(
        {
            "elements": lambda: D.from_generator(_ragged, types, shapes),
            "padded": lambda: (
                D.from_generator(_ragged, types, shapes).padded_batch(2, shapes).repeat(2)
            ),
            "arguments": lambda: D.from_generator(range, tf.int64, (), args=(5,)).prefetch(2),
        }
    )


def test_an_error_of_a_generator() -> None:
    with tf.Graph().as_default() as graph:
        element = tf.compat.v1.data.make_one_shot_iterator(
            D.from_generator(_failing, tf.int32, ())
        ).get_next()
    with tfjit.Session(graph=graph) as session:
        assert session.run(element) == 1
        with pytest.raises(tfjit.errors.InvalidArgumentError, match="no more"):
            session.run(element)
