"""Hash buckets of strings against TensorFlow's, for every length that hashes treat on their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit

tf1 = tf.compat.v1
RNG = np.random.default_rng(8)
STRINGS = [
    RNG.bytes(size) for size in [*range(70), 127, 128, 129, 191, 192, 193, 1000] for _ in range(2)
]
MAKERS: dict[str, Any] = {
    "fast": lambda x: tf.strings.to_hash_bucket_fast(x, 2**62 + 1),
    "legacy": lambda x: tf1.string_to_hash_bucket(x, 2**62 + 1),
    "strong": lambda x: tf.strings.to_hash_bucket_strong(x, 2**62 + 1, [3, -4]),
    "few": lambda x: tf.strings.to_hash_bucket_fast(x, 7),
}


@pytest.mark.parametrize("name", MAKERS)
def test_buckets_are_tensorflows(name: str) -> None:
    with tf1.Graph().as_default() as graph:
        x = tf1.placeholder(tf.string, [None, 1])
        y = MAKERS[name](x)
    values = np.array(STRINGS, object).reshape(-1, 1)
    with tf1.Session(graph=graph) as theirs, tfjit.Session(graph=graph) as ours:
        expected = theirs.run(y, {x: values})
        np.testing.assert_array_equal(ours.run(y, {x: values}), expected)
        for first in range(0, len(values), 50):  # few strings are hashed one by one
            part = slice(first, first + 50)
            np.testing.assert_array_equal(ours.run(y, {x: values[part]}), expected[part])


def test_a_vocabulary_with_buckets_for_unknown_words() -> None:
    words = ["a", "b", "zz", "yy", "xx", "a"]
    with tf1.Graph().as_default() as graph:
        initializer = tf.lookup.KeyValueTensorInitializer(["a", "b"], np.int64([0, 1]))
        table = tf.lookup.StaticVocabularyTable(initializer, num_oov_buckets=3)
        x = tf1.placeholder(tf.string, [None])
        y, start = table.lookup(x), tf1.tables_initializer()
    found = []
    for session in (tf1.Session(graph=graph), tfjit.Session(graph=graph)):
        with session:
            session.run(start)
            found.append(session.run(y, {x: words}).tolist())
    assert found[0] == found[1] and found[0][:2] == [0, 1] and min(found[0][2:5]) >= 2
