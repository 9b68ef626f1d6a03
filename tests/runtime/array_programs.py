"""Programs over tensor arrays and lists for both runtimes: what each says, values or error."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import tfjit

tf1 = tf.compat.v1
R = tf.raw_ops
f32 = np.float32


def hidden(value: Any) -> Any:
    """A tensor whose value and shape are not known while the graph is built."""
    return tf1.placeholder_with_default(value, tf1.TensorShape(None))


def ints(value: Any) -> Any:
    return hidden(np.array(value, np.int32))


def rows(*shape: int) -> np.ndarray:
    return np.arange(int(np.prod(shape)), dtype=f32).reshape(shape)


def told(session: Any, fetches: Any) -> Any:
    """The values, or the class and message of the error, without the number in an array's name and
    without the node's place.
    """
    try:
        results = session.run(fetches)
    except (tf.errors.OpError, KeyError, ValueError) as error:
        kind = next(
            k.__name__
            for k in type(error).__mro__
            if k.__module__.startswith(("tensorflow", "builtins"))
        )
        lines = str(getattr(error, "message", error)).splitlines()
        at = next((i + 1 for i, line in enumerate(lines) if line.startswith("Node:")), 0)
        return kind, re.sub(
            r"TensorArrayV3(_\d+)?_\d+",
            "TensorArray",
            "\n".join(lines[at:]).partition("\n\t [[")[0],
        )
    return [
        (np.asarray(value).dtype.name, np.shape(value), np.asarray(value).tolist())
        for value in tf.nest.flatten(results)
    ]


def both(build: Callable[[], Any]) -> tuple[Any, Any]:
    """(TensorFlow's answer, tfjit's) for what `build` makes in a graph of its own."""
    with tf1.Graph().as_default() as graph:
        fetches = build()
    with tf1.Session(graph=graph) as theirs, tfjit.Session(graph=graph) as ours:
        return told(theirs, fetches), told(ours, fetches)
