"""Configs and small graphs for tests of config fields."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

import tfjit

tf1 = tf.compat.v1


CPU = "/job:localhost/replica:0/task:0/device:CPU:"


X = np.linspace(-1, 1, 6, dtype="f4").reshape(2, 3)


class World:
    """x -> tanh -> matmul -> + 1 -> y in a TensorFlow graph."""

    def __init__(self) -> None:
        self.graph = tf1.Graph()
        with self.graph.as_default():
            self.x = tf1.placeholder(tf.float32, [None, 3], name="x")
            self.h = tf.tanh(self.x, name="h")
            self.y = tf.add(
                tf.matmul(self.h, tf.constant(np.eye(3, dtype="f4"), name="w"), name="mm"),
                1.0,
                name="y",
            )

    def check(self, session: Any, **kw: Any) -> None:
        np.testing.assert_allclose(
            session.run(self.y, {self.x: X}, **kw), np.tanh(X) + 1, rtol=1e-5
        )


def config(text: str = "", **fields: Any) -> tfjit.ConfigProto:
    """A ConfigProto from its text form."""
    from google.protobuf import text_format

    made = tfjit.ConfigProto(**fields)
    text_format.Parse(text, made)
    return made


def passes(session: Any, fetch: Any = "y:0") -> list[str]:
    """Return the passes that ran for a fetch."""
    return [entry.name for entry in session.explain(fetch).report.passes]
