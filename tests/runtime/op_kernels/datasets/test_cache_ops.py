"""Kept elements: the first pass decides."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tensorflow as tf

import tfjit
from tests.runtime.pipelines import D, compare, drained


def test_in_memory() -> None:
    compare(
        {
            "cache": lambda: D.range(4).cache().repeat(2),
            "of an order": lambda: D.range(6).shuffle(6, seed=1).cache().repeat(3),
        }
    )


def test_in_a_file(tmp_path: Path) -> None:
    calls = []

    def counted(value: np.ndarray) -> np.ndarray:
        calls.append(int(value))
        return value * 2

    with tf.Graph().as_default() as graph:
        mapped = D.range(3).map(
            lambda x: (tf.compat.v1.py_func(counted, [x], tf.int64), tf.as_string(x))
        )
        iterator = tf.compat.v1.data.make_initializable_iterator(
            mapped.cache(str(tmp_path / "kept"))
        )
        element = iterator.get_next()
    for _ in range(2):
        with tfjit.Session(graph=graph) as session:
            session.run(iterator.initializer)
            assert drained(session, element)[:-1] == [(0, b"0"), (2, b"1"), (4, b"2")]
    assert calls == [0, 1, 2]


def test_a_fetched_element_may_be_written() -> None:
    with tf.Graph().as_default() as graph:
        element = tf.compat.v1.data.make_one_shot_iterator(
            D.from_tensors(np.zeros(3)).cache().repeat()
        ).get_next()
    with tfjit.Session(graph=graph) as session:
        for _ in range(4):
            found = session.run(element)
            np.testing.assert_array_equal(found, np.zeros(3))
            found += 1
