"""Tensor lists and tensor arrays of known size as dense arrays: when, when not, and that values and
errors stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.passes.plan_graphs import ops_of
from tfjit.framework import errors

tf1 = tf.compat.v1

X = np.random.default_rng(3).standard_normal((4, 2, 3)).astype("f4")


@pytest.fixture(autouse=True)
def _v2() -> Any:
    before = tf1.control_flow_v2_enabled()
    tf1.enable_control_flow_v2()
    yield
    if not before:
        tf1.disable_control_flow_v2()


@pytest.fixture
def v1(_v2: Any) -> None:
    """TensorFlow builds Switch and Merge, and tensor arrays instead of lists."""
    tf1.disable_control_flow_v2()


@pytest.fixture(params=["off", "eager"])
def mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TFJIT_JIT", request.param)
    return str(request.param)


def check(build: Callable[[Any], Sequence[Any]], dense: bool, x: np.ndarray = X) -> None:
    with tf.Graph().as_default() as graph:
        placeholder = tf1.placeholder(tf.float32, [None, None, 3], name="x")
        fetches = [t.name for t in build(placeholder)]
    with tf1.Session(graph=graph) as theirs, tfjit.Session(graph=graph) as ours:
        for _ in range(2):
            expected, found = theirs.run(fetches, {"x:0": x}), ours.run(fetches, {"x:0": x})
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_allclose(a, b, 1e-5, 1e-6)
        ops = ops_of(ours)
    left = {op for op in ops if op.startswith(("TensorList", "TensorArray"))}
    assert bool(left) != dense, left


def loop(x: Any, step: Callable[[Any, Any, Any], tuple[Any, Any]], size: Any = None) -> list[Any]:
    """A recurrence over the rows of x with all its states stacked."""
    count = tf.shape(x)[0]
    rows = tf.TensorArray(tf.float32, count).unstack(x)
    states = tf.TensorArray(tf.float32, count if size is None else size)

    def body(i: Any, state: Any, states: Any) -> Any:
        state, out = step(i, state, rows.read(i))
        return i + 1, state, states.write(i, out)

    i, state, states = tf.while_loop(
        lambda i, *_: i < count, body, [0, tf.zeros_like(x[0]), states]
    )
    return [i, state, states.stack()]


DENSE: dict[str, Callable[[Any], Sequence[Any]]] = {
    "recurrence": lambda x: loop(x, lambda i, s, row: ((s + row) * 0.5, tf.tanh(s + row))),
    "the state itself": lambda x: loop(x, lambda i, s, row: (tf.tanh(s + row), tf.tanh(s + row))),
    "of constants": lambda x: loop(
        x, lambda i, s, row: (s, tf.zeros([2]) + tf.cast(i, tf.float32))
    ),
    "larger": lambda x: loop(x, lambda i, s, row: (s + row, s), tf.shape(x)[0] + 2),
    "product": lambda x: loop(x, lambda i, s, row: (s @ tf.transpose(row) @ row + row, s)),
    "in a branch": lambda x: loop(
        x, lambda i, s, row: (s, tf.cond(i > 1, lambda: row, lambda: -row))
    ),
    "maps": lambda x: [tf.map_fn(lambda row: tf.reduce_sum(row) * row, x)],
    "scans": lambda x: [tf.scan(lambda s, row: s * 0.5 + row, x)],
}


@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize("name", DENSE)
def test_dense(name: str) -> None:
    check(DENSE[name], True)


@pytest.mark.usefixtures("mode", "v1")
@pytest.mark.parametrize("name", DENSE)
def test_dense_arrays(name: str) -> None:
    check(DENSE[name], name != "larger")


def counted(x: Any, body: Any, array: Any, first: int = 0, more: Any = None) -> list[Any]:
    """What a loop over i has written into an array."""
    return [tf.while_loop(more or (lambda i, _: i < 4), body, [first, array])[1].stack()]


# of single rows and of counters that go other ways
ARRAYS: dict[str, tuple[bool, Callable[[Any], Sequence[Any]]]] = {
    "backwards": (
        True,
        lambda x: counted(
            x,
            lambda i, a: (i - 1, a.write(i, x[i])),
            tf.TensorArray(tf.float32, 4),
            3,
            lambda i, _: i >= 0,
        ),
    ),
    "one row before the loop": (
        True,
        lambda x: counted(
            x,
            lambda i, a: (i + 1, a.write(i + 1, x[i])),
            tf.TensorArray(tf.float32, 5).write(0, -x[0]),
        ),
    ),
    "every other row": (
        False,
        lambda x: counted(x, lambda i, a: (i + 2, a.write(i, x[i])), tf.TensorArray(tf.float32, 4)),
    ),
    "every other row of a declared shape": (
        True,
        lambda x: counted(
            tf.ensure_shape(x, [4, 2, 3]),
            lambda i, a: (i + 2, a.write(i, x[i])),
            tf.TensorArray(tf.float32, 4, element_shape=[2, 3]),
        ),
    ),
    "until something is found": (
        True,
        lambda x: counted(
            x,
            lambda i, a: (i + 1, a.write(i, tf.ensure_shape(x[i], [2, 3]))),
            tf.TensorArray(tf.float32, 4, element_shape=[2, 3]),
            0,
            lambda i, _: tf.logical_and(i < 4, x[i % 4, 0, 0] < 100.0),
        ),
    ),
    "never read": (
        True,
        lambda x: [
            tf.while_loop(
                lambda i, _: i < 4,
                lambda i, a: (i + 1, a.write(i, x[i])),
                [0, tf.TensorArray(tf.float32, 4)],
            )[1].size()
        ],
    ),
    "made in a loop": (
        True,
        lambda x: [
            tf.while_loop(
                lambda j, s: j < 3,
                lambda j, s: (
                    j + 1,
                    s
                    + counted(
                        x,
                        lambda i, a: (i + 1, a.write(i, x[i] * s[i])),
                        tf.TensorArray(tf.float32, 4),
                    )[0],
                ),
                [0, tf.ones_like(x)],
            )[1]
        ],
    ),
}


@pytest.mark.usefixtures("mode", "v1")
@pytest.mark.parametrize("name", ARRAYS)
def test_rows_of_arrays(name: str) -> None:
    check(ARRAYS[name][1], ARRAYS[name][0])


@pytest.mark.usefixtures("v1")
@pytest.mark.parametrize("start", [0, 1])
def test_a_row_that_is_written_twice(start: int) -> None:
    """Once before the loop, once in it."""
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [4, 3], name="x")
        array = tf.TensorArray(tf.float32, 4).write(1 - start, x[0])
        out = (
            tf.while_loop(
                lambda i, a: i < 4, lambda i, a: (i + 1, a.write(i, x[i])), [start, array]
            )[1]
            .stack()
            .name
        )
    with tf1.Session(graph=graph) as theirs, tfjit.Session(graph=graph) as ours:
        if start:
            np.testing.assert_allclose(
                ours.run(out, {"x:0": X[:, 0]}), theirs.run(out, {"x:0": X[:, 0]})
            )
            return
        for session, kind in (
            (theirs, tf.errors.InvalidArgumentError),
            (ours, errors.InvalidArgumentError),
        ):
            with pytest.raises(
                kind,
                match="Could not write to TensorArray index 1 because it has already been written "
                "to",
            ):
                session.run(out, {"x:0": X[:, 0]})


@pytest.mark.usefixtures("mode")
def test_no_rows() -> None:
    """Whether the stack of none is an error depends on what was declared of its elements."""
    check(
        lambda x: [
            tf.map_fn(lambda row: tf.reduce_sum(row) * row, tf.ensure_shape(x, [None, 2, 3]))
        ],
        True,
        X[:0],
    )
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [None, None, 3], name="x")
        out = tf.map_fn(lambda row: tf.reduce_sum(row) * row, x).name
    with (
        tfjit.Session(graph=graph) as session,
        pytest.raises(
            errors.InvalidArgumentError, match="Tried to stack elements of an empty list"
        ),
    ):
        session.run(out, {"x:0": X[:0]})


STAY: dict[str, Callable[[Any], Sequence[Any]]] = {
    "outside": lambda x: [
        tf.TensorArray(tf.float32, 4, element_shape=[2, 3]).write(1, x[0]).write(2, x[1]).stack()
    ],
    "read twice": lambda x: (lambda a: [a.read(0) + a.read(3), a.stack()])(
        tf.TensorArray(tf.float32, 4, clear_after_read=False).unstack(x)
    ),
    "growing": lambda x: [
        tf.TensorArray(tf.float32, 0, dynamic_size=True)
        .write(2, x[0])
        .write(0, x[0])
        .write(1, x[1])
        .stack()
    ],
    "shapes that differ": lambda x: (lambda a: [a.read(0), a.read(1)])(
        tf.TensorArray(tf.float32, 2, infer_shape=False).write(0, x[0]).write(1, x[0, 0])
    ),
    "of a length known late": lambda x: loop(
        x, lambda i, s, row: (s, row), tf.cast(tf.sign(tf.reduce_max(x)), tf.int32) + 3
    ),
}


@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize("name", STAY)
def test_stay(name: str) -> None:
    check(STAY[name], False)


def test_a_bad_index(mode: str) -> None:
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [4, 3], name="x")
        n = tf1.placeholder(tf.int32, [], name="n")
        rows = tf.TensorArray(tf.float32, 4).unstack(x)
        read = tf.while_loop(
            lambda i, s: i < n, lambda i, s: (i + 1, s + rows.read(i)), [0, tf.zeros([3])]
        )[1].name
        states = tf.TensorArray(tf.float32, 4, element_shape=[3])
        write = (
            tf.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a.write(i, x[0])), [0, states])[
                1
            ]
            .stack()
            .name
        )
    feeds = {"x:0": X[:, 0]}
    with tf1.Session(graph=graph) as theirs, tfjit.Session(graph=graph) as ours:
        for fetch in (read, write):
            np.testing.assert_allclose(
                ours.run(fetch, {**feeds, "n:0": 3}), theirs.run(fetch, {**feeds, "n:0": 3}), 1e-6
            )
            with pytest.raises(tf.errors.InvalidArgumentError) as expected:
                theirs.run(fetch, {**feeds, "n:0": 5})
            assert "element 4 in a list with 4 elements" in str(expected.value)
            with pytest.raises(
                errors.InvalidArgumentError, match="element 4 in a list with 4 elements"
            ):
                ours.run(fetch, {**feeds, "n:0": 5})
            np.testing.assert_allclose(
                ours.run(fetch, {**feeds, "n:0": 4}), theirs.run(fetch, {**feeds, "n:0": 4}), 1e-6
            )
