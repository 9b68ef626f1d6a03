"""MapDefun against TensorFlow's: values, and the texts of errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.runtime.error_texts import cause

tf1 = tf.compat.v1


def mapped(
    function: Any, specs: list[Any], captured: list[Any], types: list[Any], shapes: list[Any]
) -> Any:
    """The node over placeholders x and y (as far as `specs` has arguments for them)."""
    body = tf.function(function, autograph=False).get_concrete_function(*specs)
    body.add_to_graph(tf1.get_default_graph())
    count = len(specs) - len(captured)
    arguments = [
        tf1.placeholder(spec.dtype, None, name)
        for spec, name in zip(specs[:count], "xy", strict=False)
    ]
    return tf.raw_ops.MapDefun(
        arguments=arguments,
        captured_inputs=captured,
        output_types=types,
        output_shapes=shapes,
        f=body,
    )


def spec(*shape: Any, dtype: Any = tf.float32) -> Any:
    return tf.TensorSpec(shape, dtype)


def two_results() -> Any:
    return mapped(
        lambda x, k: (x * 2.0 + k, tf.reduce_sum(x)),
        [spec(3), spec()],
        [tf.constant(1.0)],
        [tf.float32] * 2,
        [[3], []],
    )


def added() -> Any:
    return mapped(lambda x, y: x + y, [spec(), spec()], [], [tf.float32], [[]])


def ranges(shape: Any) -> Callable[[], Any]:
    return lambda: mapped(
        lambda x: tf.range(tf.cast(x, tf.int32)), [spec()], [], [tf.int32], [shape]
    )


def strings() -> Any:
    return mapped(
        lambda x: tf.strings.join([x, "!"]), [spec(dtype=tf.string)], [], [tf.string], [[]]
    )


def looping() -> Any:
    return mapped(
        lambda x: tf.while_loop(lambda i: i < 10.0, lambda i: [i * 2.0], [x])[0],
        [spec()],
        [],
        [tf.float32],
        [[]],
    )


def checked() -> Any:
    return mapped(lambda x: tf.debugging.check_numerics(x, "bad"), [spec()], [], [tf.float32], [[]])


@pytest.mark.parametrize(
    ("make", "feeds"),
    [
        *((two_results, {"x:0": np.arange(n * 3).reshape(n, 3)}) for n in (0, 1, 5)),
        *(
            (added, {"x:0": np.ones(a), "y:0": np.ones(b)})
            for a, b in ((3, 3), (3, 4), ((), 2), (0, 0))
        ),
        *((ranges(shape), {"x:0": x}) for shape in (None, [None], [3]) for x in ([2, 2], [])),
        (ranges([2]), {"x:0": [2, 3]}),
        (strings, {"x:0": ["a", "bc"]}),
        (looping, {"x:0": [1, 3, 20]}),
        (checked, {"x:0": [1, 2]}),
        (checked, {"x:0": [1, np.nan]}),
    ],
)
def test_like_tensorflow(make: Callable[[], Any], feeds: Any) -> None:
    graph = tf1.Graph()
    with graph.as_default():
        fetches = make()
    found: list[Any] = []
    with tf1.Session(graph=graph) as theirs, tfjit.Session(graph=graph) as ours:
        for session in (theirs, ours, ours):
            try:
                found.append(session.run(fetches, feeds))
            except Exception as error:
                found.append((type(error).__name__, cause(error)))
    for one in found[1:]:
        np.testing.assert_equal(one, found[0])
