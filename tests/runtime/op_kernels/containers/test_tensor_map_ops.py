"""TensorMap ops against TensorFlow's: values, and the texts of errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.runtime.error_texts import cause

tf1 = tf.compat.v1
raw = tf.raw_ops


def value(of: Any) -> Any:
    return tf1.placeholder_with_default(tf.constant(of), None)


def put(handle: Any, key: Any, of: Any) -> Any:
    return raw.TensorMapInsert(input_handle=handle, key=value(key), value=value(of))


def two() -> Any:
    return put(put(raw.EmptyTensorMap(), 1.0, [1, 2]), 2.0, "x")


def size(handle: Any) -> Any:
    return raw.TensorMapSize(input_handle=handle)


def lookup(handle: Any, key: Any, dtype: Any = tf.int32) -> Any:
    return raw.TensorMapLookup(input_handle=handle, key=value(key), value_dtype=dtype)


def keys(handle: Any, dtype: Any = tf.float32) -> Any:
    return tf.sort(raw.TensorMapStackKeys(input_handle=handle, key_dtype=dtype), axis=0)


def erase(handle: Any, key: Any) -> Any:
    return raw.TensorMapErase(input_handle=handle, key=value(key), value_dtype=tf.int32)


def in_a_loop() -> Any:
    def body(i: Any, handle: Any) -> Any:
        return i + 1, raw.TensorMapInsert(input_handle=handle, key=i % 3, value=i * i)

    return lookup(tf1.while_loop(lambda i, _: i < 10, body, [0, raw.EmptyTensorMap()])[1], 2)


CASES: dict[str, Callable[[], Any]] = {
    "size": lambda: [size(raw.EmptyTensorMap()), size(two())],
    "lookup": lambda: [lookup(two(), 1.0), lookup(two(), 2.0, tf.string)],
    "another dtype": lambda: lookup(two(), 1.0, tf.float32),
    **{
        f"no key {key!r}": lambda key=key: lookup(two(), key)
        for key in (3.0, 1, [1.0, 2.0], "k", [[1.0]])
    },
    "has key": lambda: [
        raw.TensorMapHasKey(input_handle=two(), key=value(key)) for key in (1.0, 3.0, 1, [1.0])
    ],
    "erase": lambda: [size(erase(two(), 1.0)), keys(erase(two(), 1.0))],
    "erase what is not there": lambda: erase(two(), 7.0) is not None and size(erase(two(), 7.0)),
    "keys": lambda: [
        keys(two()),
        raw.TensorMapStackKeys(input_handle=put(raw.EmptyTensorMap(), "a", 1), key_dtype=tf.string),
    ],
    "keys of another dtype": lambda: keys(two(), tf.int32),
    "keys of nothing": lambda: keys(raw.EmptyTensorMap()),
    "keys of two shapes": lambda: keys(put(two(), [1.0, 2.0], 1)),
    "replaced": lambda: (
        lambda old: [
            lookup(put(old, 1.0, 9), 1.0),
            size(put(old, 1.0, 9)),
            lookup(old, 1.0),
            size(old),
        ]
    )(two()),
    "a list": lambda: size(
        raw.EmptyTensorList(element_shape=-1, max_num_elements=-1, element_dtype=tf.float32)
    ),
    "an array of maps": lambda: size(tf.stack([two(), two()])),
    "zeros": lambda: size(raw.ZerosLike(x=two())),
    "in a loop": in_a_loop,
}


@pytest.mark.parametrize("name", CASES)
def test_like_tensorflow(name: str) -> None:
    graph = tf1.Graph()
    with graph.as_default():
        fetches = CASES[name]()
    with tf1.Session(graph=graph) as theirs, tfjit.Session(graph=graph) as ours:
        found: list[Any] = []
        for session in (theirs, ours, ours):
            try:
                found.append(session.run(fetches))
            except Exception as error:
                found.append((type(error).__name__, cause(error)))
        for one in found[1:]:
            np.testing.assert_equal(one, found[0])
