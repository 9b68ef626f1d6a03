"""Conditionals and loops of TensorFlow 1 (Switch, Merge, Enter, Exit, NextIteration) through the
dataflow executor, against TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit

tf1 = tf.compat.v1

# name -> (fetches, list of feeds)
Case = Callable[[], tuple[Any, list[dict[Any, Any]]]]
CASES: dict[str, Case] = {}


def case(make: Case) -> Case:
    CASES[make.__name__] = make
    return make


@pytest.fixture(autouse=True)
def old_control_flow() -> Iterator[None]:
    tf1.disable_control_flow_v2()
    yield
    tf1.enable_control_flow_v2()


@case
def conditional() -> Any:
    p, x = tf1.placeholder(tf.bool, []), tf1.placeholder(tf.float32, [None])
    y = tf1.cond(p, lambda: x * 2.0, lambda: x - 1.0)
    z = tf1.cond(p, lambda: [x + 1.0, tf.reduce_sum(x)], lambda: [x, tf.constant(7.0)])
    return [y, *z, y + z[0]], [{p: v, x: np.arange(n)} for v in (True, False) for n in (0, 3)]


@case
def conditional_in_conditional() -> Any:
    p, q, x = (
        tf1.placeholder(tf.bool, []),
        tf1.placeholder(tf.bool, []),
        tf1.placeholder(tf.float32, []),
    )
    y = tf1.cond(
        p,
        lambda: tf1.cond(q, lambda: x + 1.0, lambda: x + 2.0),
        lambda: tf1.cond(q, lambda: x * 3.0, lambda: x * 4.0),
    )
    return y, [{p: a, q: b, x: 5.0} for a in (True, False) for b in (True, False)]


@case
def one_side_fails() -> Any:
    """The side not taken does not run."""
    p, n = tf1.placeholder(tf.bool, []), tf1.placeholder(tf.int32, [])
    return tf1.cond(p, lambda: tf1.floordiv(10, n), lambda: n), [
        {p: True, n: 2},
        {p: False, n: 0},
        {p: True, n: 0},
        {p: True, n: 5},
    ]


@case
def raw_switch_and_merge() -> Any:
    p, x = tf1.placeholder(tf.bool, []), tf1.placeholder(tf.float32, [2])
    no, yes = tf.raw_ops.Switch(data=x, pred=p)
    merged = tf.raw_ops.Merge(inputs=[no * 2.0, yes * 3.0])
    return [merged.output, merged.value_index], [{p: v, x: [1, 2]} for v in (True, False)]


@case
def dead_value_fetched() -> Any:
    p, x = tf1.placeholder(tf.bool, []), tf1.placeholder(tf.float32, [2])
    yes = tf.raw_ops.Switch(data=x, pred=p).output_true
    return yes * 2.0, [{p: True, x: [1, 2]}, {p: False, x: [1, 2]}, {p: True, x: [3, 4]}]


@case
def counting() -> Any:
    n = tf1.placeholder(tf.int32, [])
    loops = [
        tf1.while_loop(
            lambda i, s: i < n,
            lambda i, s: (i + 1, s + i),
            [tf.constant(0), tf.constant(0)],
            parallel_iterations=k,
        )
        for k in (1, 2, 10)
    ]
    return loops, [{n: v} for v in (0, 1, 2, 37)]


@case
def invariants_and_growing_shapes() -> Any:
    n, x = tf1.placeholder(tf.int32, []), tf1.placeholder(tf.float32, [None, 2])
    w = tf.constant(np.array([[0.5, 0.25], [-0.25, 0.5]], "f4"))

    def body(i: Any, h: Any, grown: Any) -> Any:
        h = tf.tanh(tf.matmul(h, w) + x)
        return i + 1, h, tf.concat([grown, h], axis=0)

    out = tf1.while_loop(
        lambda i, *_: i < n,
        body,
        [tf.constant(0), x, tf.zeros([0, 2])],
        shape_invariants=[tf.TensorShape([]), x.shape, tf.TensorShape([None, 2])],
    )
    return out, [{n: k, x: np.ones((rows, 2))} for k in (0, 1, 4) for rows in (1, 3)]


@case
def loop_in_loop() -> Any:
    n, m = tf1.placeholder(tf.int32, []), tf1.placeholder(tf.int32, [])

    def outer(i: Any, total: Any) -> Any:
        _, inner = tf1.while_loop(
            lambda j, s: j < m + i,
            lambda j, s: (j + 1, s + i * j),
            [tf.constant(0), tf.constant(0)],
        )
        return i + 1, total + inner

    return tf1.while_loop(lambda i, t: i < n, outer, [tf.constant(0), tf.constant(0)]), [
        {n: a, m: b} for a in (0, 1, 4) for b in (0, 3)
    ]


@case
def conditional_in_loop() -> Any:
    n = tf1.placeholder(tf.int32, [])

    def body(i: Any, s: Any) -> Any:
        return i + 1, tf1.cond(
            tf.equal(i % 3, 0),
            lambda: s * 2,
            lambda: tf1.cond(tf.greater(i, 4), lambda: s + i, lambda: s - 1),
        )

    return tf1.while_loop(lambda i, s: i < n, body, [tf.constant(0), tf.constant(1)]), [
        {n: k} for k in (0, 1, 5, 12)
    ]


@case
def loop_in_conditional() -> Any:
    p, n = tf1.placeholder(tf.bool, []), tf1.placeholder(tf.int32, [])
    y = tf1.cond(
        p,
        lambda: tf1.while_loop(lambda i: i < n, lambda i: i + 2, [tf.constant(0)]),
        lambda: tf1.while_loop(lambda i: i > -n, lambda i: i - 3, [n]),
    )
    return y, [{p: v, n: k} for v in (True, False) for k in (0, 1, 9)]


@case
def gradient_of_a_conditional() -> Any:
    p, x = tf1.placeholder(tf.bool, []), tf1.placeholder(tf.float32, [3])
    y = tf1.cond(p, lambda: tf.reduce_sum(tf.square(x)), lambda: tf.reduce_sum(x) * 3.0)
    return [y, tf1.gradients(y, x)[0]], [{p: v, x: [1, 2, 3]} for v in (True, False)]


@case
def variables_in_a_loop() -> Any:
    v = tf1.Variable(0.0, use_resource=True, name="v")
    n = tf1.placeholder(tf.int32, [])
    init = v.initializer

    def body(i: Any) -> Any:
        with tf.control_dependencies([v.assign_add(tf.cast(i, tf.float32))]):
            return i + 1

    with tf.control_dependencies([init]):
        start = tf.constant(0)
    end = tf1.while_loop(lambda i: i < n, body, [start], parallel_iterations=1)
    with tf.control_dependencies([end]):
        total = v.read_value()
    return [end, total], [{n: k} for k in (0, 1, 6)]


@case
def random_in_a_loop() -> Any:
    n = tf1.placeholder(tf.int32, [])
    end = tf1.while_loop(
        lambda i, s: i < n,
        lambda i, s: (i + 1, s + tf1.random_uniform([2], seed=3)),
        [tf.constant(0), tf.zeros([2])],
        parallel_iterations=1,
    )
    return end, [{n: 3}, {n: 0}, {n: 2}]


@case
def queue_in_a_loop() -> Any:
    queue = tf1.FIFOQueue(10, [tf.int32], shapes=[[]])
    x = tf1.placeholder(tf.int32, [None])
    with tf.control_dependencies([queue.enqueue_many(x)]):
        n = tf.identity(tf.size(x))
    end = tf1.while_loop(
        lambda i, s: i < n,
        lambda i, s: (i + 1, s + queue.dequeue()),
        [tf.constant(0), tf.constant(0)],
    )
    return end, [{x: [1, 2, 3]}, {x: [5]}]


@case
def error_in_a_loop() -> Any:
    n = tf1.placeholder(tf.int32, [])
    end = tf1.while_loop(
        lambda i, s: i < 6,
        lambda i, s: (i + 1, s + tf1.floordiv(12, n - i)),
        [tf.constant(0), tf.constant(0)],
    )
    return end, [{n: 20}, {n: 3}, {n: -1}]


MODES = {
    "lazy": {"TFJIT_JIT": "lazy"},
    "off": {"TFJIT_JIT": "off"},
    "plain": {
        "TFJIT_JIT": "lazy",
        "TFJIT_DISABLE": "fuse,fold_constants,simplify,eliminate_common_subexpressions",
        "TFJIT_VERIFY": "1",
    },
    "one thread": {"TFJIT_THREADS": "1", "TFJIT_VERIFY": "1"},
}


@pytest.mark.parametrize("mode", MODES, ids=[name.replace(" ", "_") for name in MODES])
@pytest.mark.parametrize("name", CASES)
def test_control_flow(name: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in MODES[mode].items():
        monkeypatch.setenv(variable, value)
    graph = tf1.Graph()
    with graph.as_default():
        fetches, feeds = CASES[name]()
    with tf1.Session(graph=graph) as theirs, tfjit.Session(graph=graph) as ours:
        for round in range(2):
            for feed in feeds:
                try:
                    expected = theirs.run(fetches, feed)
                except tf.errors.OpError as error:
                    with pytest.raises(getattr(tfjit.errors, type(error).__name__)) as caught:
                        ours.run(fetches, feed)
                    cause = [
                        line
                        for line in str(error).split("\n\nOriginal")[0].splitlines()
                        if line.strip() and "[[" not in line
                    ][-1]
                    assert cause[:40] in str(caught.value), f"{feed}: {caught.value}"
                    continue
                got = ours.run(fetches, feed)
                for a, b in zip(tf.nest.flatten(got), tf.nest.flatten(expected), strict=True):
                    assert np.asarray(a).dtype == np.asarray(b).dtype
                    np.testing.assert_allclose(
                        a, b, rtol=1e-5, err_msg=f"{name}, {feed}, round {round}"
                    )
