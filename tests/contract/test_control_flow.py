"""Section 2.9: loops and branches of Switch, Merge, Enter and Exit, over TensorFlow's graph and as
imported into tfjit's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.contract.worlds import agree, ours, outcome, theirs, world

tf1 = tf.compat.v1


@pytest.fixture(autouse=True)
def first_version() -> Iterator[None]:
    tf1.disable_control_flow_v2()
    yield
    tf1.enable_control_flow_v2()


def conditional(api: Any) -> Any:
    x, p = tf1.placeholder(tf.float32, [None], name="x"), tf1.placeholder(tf.bool, [], name="p")
    return tf1.cond(p, lambda: tf.reduce_sum(x * 2.0), lambda: tf.reduce_max(x) - 1.0)


def nested(api: Any) -> Any:
    n = tf1.placeholder(tf.int32, [], name="n")

    def outer(i: Any, total: Any) -> Any:
        _, inner = tf1.while_loop(
            lambda j, s: j < i, lambda j, s: (j + 1, s + j * i), [tf.constant(0), tf.constant(0)]
        )
        return i + 1, total + inner

    return tf1.while_loop(lambda i, total: i < n, outer, [tf.constant(0), tf.constant(0)])[1]


def growing(api: Any) -> Any:
    n = tf1.placeholder(tf.int32, [], name="n")
    return tf1.while_loop(
        lambda i, v: i < n,
        lambda i, v: (i + 1, tf.concat([v, [tf.cast(i, tf.float32)]], 0)),
        [tf.constant(0), tf.zeros([0])],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([None])],
    )[1]


def conditional_in_a_loop(api: Any) -> Any:
    n = tf1.placeholder(tf.int32, [], name="n")
    step: Callable[[Any], Any] = lambda i: tf1.cond(tf.equal(i % 2, 0), lambda: i * i, lambda: -i)  # noqa: E731
    return tf1.while_loop(
        lambda i, s: i < n,
        lambda i, s: (i + 1, s + step(i)),
        [tf.constant(0), tf.constant(0)],
        parallel_iterations=2,
    )[1]


def array(api: Any) -> Any:
    n = tf1.placeholder(tf.int32, [], name="n")
    made = tf.TensorArray(tf.float32, size=n, element_shape=[])
    _, end = tf1.while_loop(
        lambda i, a: i < n,
        lambda i, a: (i + 1, a.write(i, tf.cast(i * i, tf.float32))),
        [tf.constant(0), made],
    )
    return end.stack()


def failing(api: Any) -> Any:
    n = tf1.placeholder(tf.int32, [], name="n")
    return tf1.while_loop(
        lambda i, s: i < n, lambda i, s: (i + 1, s + 6 // (2 - i)), [tf.constant(0), tf.constant(0)]
    )[1]


PROGRAMS: dict[str, tuple[Callable[[Any], Any], list[dict[str, Any]]]] = {
    "a conditional": (
        conditional,
        [{"x:0": [1, 2], "p:0": True}, {"x:0": [1, 2, 3], "p:0": False}],
    ),
    "loops in a loop": (nested, [{"n:0": 0}, {"n:0": 1}, {"n:0": 6}]),
    "a shape that grows": (growing, [{"n:0": 0}, {"n:0": 4}]),
    "a conditional in a loop": (conditional_in_a_loop, [{"n:0": 0}, {"n:0": 7}]),
    "an array": (array, [{"n:0": 3}, {"n:0": 6}]),
    "a failing iteration": (failing, [{"n:0": 2}, {"n:0": 4}]),
}


@pytest.mark.parametrize("front", ["imported", "tf"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_loops_and_branches(front: str, name: str) -> None:
    program, feeds = PROGRAMS[name]
    reference = world("tf", lambda api: {"out": tf.identity(program(api), name="out")})
    graph_def = reference.graph.as_graph_def()

    def imported(api: Any) -> dict[str, Any]:
        api.import_graph_def(graph_def, name="")
        return {}

    w = world("tfjit" if front == "imported" else "tf", imported)
    with theirs(reference) as oracle, ours(w) as session:
        for feed in feeds:
            expected = outcome(oracle, reference, lambda s, _, feed=feed: s.run("out:0", feed))
            for _ in range(2):
                got = outcome(session, w, lambda s, _, feed=feed: s.run("out:0", feed))
                agree(got, expected, text=False)
                if got[0] == "error":
                    assert got[1].op is w.graph.get_operation_by_name(expected[1].op.name)
        assert isinstance(np.asarray(session.run("out:0", feeds[0])), np.ndarray)
