"""Slices that move with a loop's counter: when their size is found, when not, and
that values stay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.passes.plan_graphs import ops_of

tf1 = tf.compat.v1
X = np.random.default_rng(5).standard_normal((8, 6)).astype("f4")


def loop(
    step: Callable[[Any, Any], Any],
    more: Any = None,
    first: int = 0,
    by: int = 1,
    changes: bool = False,
) -> Callable[[Any], Any]:
    """A sum over i of what `step` makes of x and i; or what x becomes."""

    def build(x: Any) -> Any:
        if changes:
            return tf.while_loop(
                more or (lambda i, _: i < 8), lambda i, a: (i + by, step(a, i)), [first, x]
            )[1]
        start = tf.zeros_like(step(x, first))
        shapes = [tf.TensorShape([]), tf.TensorShape([None] * start.shape.ndims)]
        return tf.while_loop(
            more or (lambda i, _: i < 8),
            lambda i, s: (i + by, s + step(x, i)),
            [first, start],
            shapes,
        )[1]

    return build


SIZED: dict[str, Callable[[Any], Any]] = {
    "a row": loop(lambda x, i: x[i : i + 1]),
    "a column": loop(lambda x, i: x[:, i : i + 1], lambda i, _: i < 6),
    "a block of one dimension": loop(lambda x, i: x[1 + i : i + 4, 2], lambda i, _: i < 5),
    "a block of an indexed row": loop(lambda x, i: x[i, i : i + 2], lambda i, _: i <= 4),
    "batches": loop(lambda x, i: x[i * 2 : (i + 1) * 2], lambda i, _: i < 4),
    "from the end": loop(lambda x, i: x[7 - i : 8 - i]),
    "a counter that goes down": loop(lambda x, i: x[i : i + 2], lambda i, _: i > 0, 6, -2),
    "of what the loop changes": loop(
        lambda a, k: tf.minimum(a, a[:, k : k + 1] + a[k : k + 1, :]),
        lambda k, _: k < 6,
        changes=True,
    ),
    "until something is found": loop(
        lambda x, i: x[i : i + 2], lambda i, s: tf.logical_and(i < 7, tf.reduce_sum(s) < 100.0)
    ),
    "in a loop in a loop": lambda x: tf.while_loop(
        lambda i, _: i < 3,
        lambda i, s: (i + 1, s + loop(lambda y, j: y[i + j : i + j + 2], lambda j, _: j < 5)(x)),
        [0, tf.zeros([2, 6])],
    )[1],
    "in a branch": loop(
        lambda x, i: tf.cond(tf.equal(i % 2, 0), lambda: x[i : i + 1], lambda: -x[i : i + 1])
    ),
}
# their sums, since their shapes change
STAY: dict[str, Callable[[Any], Any]] = {
    "beyond the end": loop(lambda x, i: tf.reduce_sum(x[i : i + 2])),
    "from below": loop(lambda x, i: tf.reduce_sum(x[i - 1 : i + 1]), lambda i, _: i < 7),
    "growing": loop(lambda x, i: tf.reduce_sum(x[i : 2 * i]), lambda i, _: i < 4),
    "an overflowing counter": loop(
        lambda x, i: tf.reduce_sum(x[i : i + 1]), lambda i, _: i >= 0, 2**31 - 3
    ),
    "by steps": loop(lambda x, i: tf.reduce_sum(x[i : i + 4 : 2]), lambda i, _: i < 4),
}


@pytest.mark.parametrize("v2", [False, True], ids=["v1", "v2"])
@pytest.mark.parametrize("name", [*SIZED, *STAY])
def test_slices(name: str, v2: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "eager")
    monkeypatch.setenv("TFJIT_VERIFY", "1")
    before = tf1.control_flow_v2_enabled()
    (tf1.enable_control_flow_v2 if v2 else tf1.disable_control_flow_v2)()
    try:
        with tf1.Graph().as_default() as graph:
            x = tf1.placeholder(tf.float32, [None, None], name="x")
            y = tf.identity({**SIZED, **STAY}[name](x)).name
    finally:
        (tf1.enable_control_flow_v2 if before else tf1.disable_control_flow_v2)()
    with tf1.Session(graph=graph) as theirs, tfjit.Session(graph=graph) as ours:
        np.testing.assert_allclose(ours.run(y, {"x:0": X}), theirs.run(y, {"x:0": X}), 1e-5, 1e-5)
        ops = ops_of(ours)
        messages = [node.reason for node in ours.explain(y, {"x:0": X.shape}).nodes]
        executor = ours.explain(y, {"x:0": X.shape}).executor
    assert ("Slice" in ops) == (name in SIZED), (ops, messages)
    if name in SIZED:
        assert "straight-line" in executor


def test_the_limit_is_fed() -> None:
    """The slice may leave its array, and then has another shape."""
    with tf1.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [8, 6], name="x")
        n = tf1.placeholder(tf.int32, [], name="n")
        y = loop(lambda x, i: tf.reduce_sum(x[i : i + 3], keepdims=True), lambda i, _: i < n)(
            x
        ).name
    with tf1.Session(graph=graph) as theirs, tfjit.Session(graph=graph) as ours:
        for count in (3, 8, 10):
            np.testing.assert_allclose(
                ours.run(y, {"x:0": X, "n:0": count}),
                theirs.run(y, {"x:0": X, "n:0": count}),
                1e-5,
                1e-5,
            )
