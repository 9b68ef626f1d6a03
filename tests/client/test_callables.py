"""Callables: what they take and give, against TensorFlow's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit

X, W = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((2, 3), np.float32)


@pytest.fixture
def graph() -> Any:
    made = tf.Graph()
    with made.as_default():
        x = tf.compat.v1.placeholder(tf.float32, [None, 3], name="x")
        w = tf.compat.v1.placeholder(tf.float32, [None, 3], name="w")
        tf.subtract(x, w * 2.0, name="y")
        tf.reduce_sum(x, name="total")
    return made


def options(feeds: list[str], fetches: list[str], pool: int | None = None, **more: Any) -> Any:
    from tensorflow.core.protobuf import config_pb2

    made = config_pb2.CallableOptions(feed=feeds, fetch=fetches, **more)
    if pool is not None:
        made.run_options.inter_op_thread_pool = pool
    return made


@pytest.mark.parametrize(
    ("feeds", "fetches"),
    [(["x:0", "w:0"], ["y:0"]), (["w:0", "x:0"], ["y:0"]), (["w:0", "x:0"], ["y:0", "total:0"]), (["x:0"], ["total:0"])],
)
@pytest.mark.parametrize("pool", [None, -1, 0])
def test_options_callable(graph: Any, feeds: list[str], fetches: list[str], pool: int | None) -> None:
    values = [{"x:0": X, "w:0": W}[name] for name in feeds]
    with tf.compat.v1.Session(graph=graph) as theirs, tfjit.Session(graph=graph) as ours:
        message = options(feeds, fetches, pool)
        expected = theirs._make_callable_from_options(message)(*values)
        function = ours._make_callable_from_options(message)
        for _ in range(3):
            found = function(*values)
            assert type(found) is list
            assert len(found) == len(expected)
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_array_equal(a, b)


def test_options_callable_errors(graph: Any) -> None:
    session = tfjit.Session(graph=graph)
    function = session._make_callable_from_options(options(["x:0", "w:0"], ["y:0"]))
    with pytest.raises(tfjit.errors.InvalidArgumentError, match="Expected 2 feed tensors, but got 1"):
        function(X)
    with pytest.raises(ValueError, match="Cannot feed value of shape"):
        function(np.ones(4, np.float32), W)
    with pytest.raises(tfjit.errors.InvalidArgumentError, match="Invalid inter_op_thread_pool: 7"):
        session._make_callable_from_options(options(["x:0"], ["total:0"], pool=7))
    session.close()
    with pytest.raises(RuntimeError, match="closed Session"):
        function(X, W)


def test_options_callable_fills_metadata(graph: Any) -> None:
    message = options(["x:0"], ["total:0"])
    message.run_options.trace_level = 3
    with tfjit.Session(graph=graph) as session:
        metadata = tf.compat.v1.RunMetadata()
        assert session._make_callable_from_options(message)(X, run_metadata=metadata)[0] == 15
        assert metadata.step_stats.dev_stats


@pytest.mark.parametrize("fetches", ["y", ["y"], ["y", "total"], ("y", "total"), {"a": "y"}, ["y", ["total"]], ["x", "y"]])
@pytest.mark.parametrize("order", [["x", "w"], ["w", "x"]])
def test_make_callable_gives_what_run_gives(graph: Any, fetches: Any, order: list[str]) -> None:
    def named(part: Any) -> Any:
        if isinstance(part, str):
            return graph.get_tensor_by_name(f"{part}:0")
        if isinstance(part, dict):
            return {key: named(value) for key, value in part.items()}
        return type(part)(named(p) for p in part)

    values = {"x": X, "w": W}
    keys = [named(name) for name in order]
    with tfjit.Session(graph=graph) as session:
        function = session.make_callable(named(fetches), keys)
        expected = session.run(named(fetches), {named(name): value for name, value in values.items()})
        for more in ((), (1,), (1, 2)):  # extra arguments are ignored
            found = function(*[values[name] for name in order], *more)
            assert type(found) is type(expected)
            for a, b in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
                np.testing.assert_array_equal(a, b)
        with pytest.raises(tfjit.errors.InvalidArgumentError, match="You must feed a value for placeholder tensor"):
            function(values[order[0]])


def test_a_key_named_twice_takes_its_last_value(graph: Any) -> None:
    with tfjit.Session(graph=graph) as session:
        assert session.make_callable("total:0", ["x:0", "x:0"])(X, W) == 6
        assert session.make_callable("total:0", ["x:0", "x:0"])(X) == 15


def test_feeds_in_any_order_take_the_same_way(graph: Any) -> None:
    with tfjit.Session(graph=graph) as session:
        for _ in range(3):
            np.testing.assert_array_equal(session.run("y:0", {"x:0": X, "w:0": W}), X - 2)
            np.testing.assert_array_equal(session.run("y:0", {"w:0": W, "x:0": X}), X - 2)
            np.testing.assert_array_equal(session.run(["total:0", "y:0", "total:0"], {"x:0": X, "w:0": W})[1], X - 2)
