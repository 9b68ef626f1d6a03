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
    [
        (["x:0", "w:0"], ["y:0"]),
        (["w:0", "x:0"], ["y:0"]),
        (["w:0", "x:0"], ["y:0", "total:0"]),
        (["x:0"], ["total:0"]),
    ],
)
@pytest.mark.parametrize("pool", [None, -1, 0])
def test_options_callable(
    graph: Any, feeds: list[str], fetches: list[str], pool: int | None
) -> None:
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
    with pytest.raises(
        tfjit.errors.InvalidArgumentError, match="Expected 2 feed tensors, but got 1"
    ):
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


@pytest.mark.parametrize(
    "fetches",
    ["y", ["y"], ["y", "total"], ("y", "total"), {"a": "y"}, ["y", ["total"]], ["x", "y"]],
)
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
        expected = session.run(
            named(fetches), {named(name): value for name, value in values.items()}
        )
        for more in ((), (1,), (1, 2)):  # extra arguments are ignored
            found = function(*[values[name] for name in order], *more)
            assert type(found) is type(expected)
            for a, b in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
                np.testing.assert_array_equal(a, b)
        with pytest.raises(
            tfjit.errors.InvalidArgumentError, match="You must feed a value for placeholder tensor"
        ):
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
            np.testing.assert_array_equal(
                session.run(["total:0", "y:0", "total:0"], {"x:0": X, "w:0": W})[1], X - 2
            )


CPU0 = "/job:localhost/replica:0/task:0/device:CPU:0"
CPU1 = "/job:localhost/replica:0/task:0/device:CPU:1"


def _connected(graph: Any) -> None:
    with graph.as_default():
        x = graph.get_tensor_by_name("x:0")
        a = tf.multiply(x, 2.0, name="a")
        b = tf.add(a, 1.0, name="b")
        c = tf.constant(np.full((2, 3), 5, np.float32), name="c")
        tf.subtract(b, c, name="d")
        tf.compat.v1.placeholder(tf.int32, [], name="i")
        tf.group(b, name="group")


def _message(conn: list[tuple[str, str]] | None = None, **more: Any) -> Any:
    from tensorflow.core.protobuf import config_pb2

    made = config_pb2.CallableOptions(**more)
    for source, target in conn or ():
        made.tensor_connection.add(from_tensor=source, to_tensor=target)
    return made


OPTIONS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "feed device": ({"feed": ["x:0"], "fetch": ["a:0"], "feed_devices": {"x:0": CPU0}}, ["x"]),
    "another feed device": (
        {"feed": ["x:0"], "fetch": ["a:0"], "feed_devices": {"x:0": CPU1}},
        ["x"],
    ),
    "feed device of no feed": (
        {"feed": ["x:0"], "fetch": ["a:0"], "feed_devices": {"b:0": CPU0}},
        ["x"],
    ),
    "no such feed device": (
        {"feed": ["x:0"], "fetch": ["a:0"], "feed_devices": {"x:0": "/device:GPU:7"}},
        ["x"],
    ),
    "short feed device": (
        {"feed": ["x:0"], "fetch": ["a:0"], "feed_devices": {"x:0": "/cpu:0"}},
        ["x"],
    ),
    "empty feed device": ({"feed": ["x:0"], "fetch": ["a:0"], "feed_devices": {"x:0": ""}}, ["x"]),
    "no device at all": (
        {"feed": ["x:0"], "fetch": ["a:0"], "feed_devices": {"x:0": "junk"}},
        ["x"],
    ),
    "fetch device": ({"feed": ["x:0"], "fetch": ["a:0"], "fetch_devices": {"a:0": CPU0}}, ["x"]),
    "fetch device, no sync": (
        {
            "feed": ["x:0"],
            "fetch": ["a:0"],
            "fetch_devices": {"a:0": CPU1},
            "fetch_skip_sync": True,
        },
        ["x"],
    ),
    "no such fetch device": (
        {
            "feed": ["x:0"],
            "fetch": ["a:0"],
            "fetch_devices": {"a:0": "/gpu:7"},
            "fetch_skip_sync": True,
        },
        ["x"],
    ),
    "no sync": ({"feed": ["x:0"], "fetch": ["a:0"], "fetch_skip_sync": True}, ["x"]),
    "connection": ({"fetch": ["b:0"], "conn": [("c:0", "a:0")]}, []),
    "connection without slots": ({"fetch": ["b:0"], "conn": [("c", "a")]}, []),
    "connection with a feed": (
        {"feed": ["x:0"], "fetch": ["d:0", "a:0"], "conn": [("a:0", "c:0")]},
        ["x"],
    ),
    "two connections": ({"fetch": ["d:0"], "conn": [("c:0", "a:0"), ("c:0", "b:0")]}, []),
    "connected twice": ({"fetch": ["b:0"], "conn": [("c:0", "a:0"), ("c:0", "a:0")]}, []),
    "connected and fed": ({"feed": ["a:0"], "fetch": ["b:0"], "conn": [("c:0", "a:0")]}, ["x"]),
    "connected and fetched": ({"fetch": ["a:0"], "conn": [("c:0", "a:0")]}, []),
    "connection from nowhere": ({"fetch": ["b:0"], "conn": [("q:0", "a:0")]}, []),
    "connection from no output": ({"fetch": ["b:0"], "conn": [("c:3", "a:0")]}, []),
    "connection to nowhere": ({"fetch": ["b:0"], "conn": [("c:0", "q:0")]}, []),
    "connection to no output": ({"fetch": ["b:0"], "conn": [("c:0", "a:2")]}, []),
    "connection of another dtype": ({"fetch": ["b:0"], "conn": [("i:0", "a:0")]}, []),
    "connection in a ring": ({"feed": ["x:0"], "fetch": ["b:0"], "conn": [("b:0", "a:0")]}, ["x"]),
    "nothing to run": ({"feed": ["x:0"]}, ["x"]),
    "fed twice": ({"feed": ["x:0", "x:0"], "fetch": ["a:0"]}, ["x", "x"]),
    "no such feed": ({"feed": ["q:0"], "fetch": ["a:0"]}, ["x"]),
    "no such output": ({"feed": ["x:4"], "fetch": ["a:0"]}, ["x"]),
    "no such fetch": ({"feed": ["x:0"], "fetch": ["q:0"]}, ["x"]),
    "operation fetched": ({"feed": ["x:0"], "fetch": ["group"]}, ["x"]),
    "no such target": ({"feed": ["x:0"], "target": ["q"]}, ["x"]),
    "fetched twice": ({"feed": ["x:0"], "fetch": ["a:0", "b:0", "a:0"]}, ["x"]),
    "fed and fetched": ({"feed": ["x:0"], "fetch": ["x:0"]}, ["x"]),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_callable_options_as_tensorflow(graph: Any, name: str) -> None:
    _connected(graph)
    fields, arguments = OPTIONS[name]
    message = _message(**fields)
    config = tf.compat.v1.ConfigProto(device_count={"CPU": 2})
    values = [X for _ in arguments]
    outcomes = []
    for make in (tf.compat.v1.Session, tfjit.Session):
        with make(graph=graph, config=config) as session:
            try:
                function = session._make_callable_from_options(message)
            except tf.errors.OpError as error:
                outcomes.append((type(error).__name__, error.message))
                continue
            outcomes.append(("value", [function(*values) for _ in range(2)]))
    (kind, theirs), (our_kind, ours) = outcomes
    assert our_kind == kind, (theirs, ours)
    if kind == "value":
        for a, b in zip(ours, theirs, strict=True):
            assert len(a) == len(b)
            for p, q in zip(a, b, strict=True):
                np.testing.assert_array_equal(p, q)
    else:
        assert ours == theirs


def test_a_connection_is_the_callables_own(graph: Any) -> None:
    _connected(graph)
    with tfjit.Session(graph=graph) as session:
        connected = session._make_callable_from_options(
            _message(fetch=["b:0"], conn=[("c:0", "a:0")])
        )
        plain = session._make_callable_from_options(options(["x:0"], ["b:0"]))
        timed = _message(fetch=["b:0"], conn=[("c:0", "a:0")])
        timed.run_options.timeout_in_ms = 60_000
        slow = session._make_callable_from_options(timed)
        for _ in range(3):
            np.testing.assert_array_equal(connected()[0], np.full((2, 3), 6))
            np.testing.assert_array_equal(slow()[0], np.full((2, 3), 6))
            np.testing.assert_array_equal(plain(X)[0], X * 2 + 1)
            np.testing.assert_array_equal(session.run("b:0", {"x:0": X}), X * 2 + 1)
        metadata = tf.compat.v1.RunMetadata()
        np.testing.assert_array_equal(connected(run_metadata=metadata)[0], np.full((2, 3), 6))


def test_plan_counters(graph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tfjit.runtime.session import plan_cache

    with tfjit.Session(graph=graph) as session:
        x, w, y, total = (graph.get_tensor_by_name(f"{n}:0") for n in ("x", "w", "y", "total"))
        for _ in range(3):
            session.run([y, total], {x: X, w: W})
        session.run([total, y], {w: W, x: X})  # the same signature in another order
        session.make_callable([y, total], [w, x])(W, X)
        session.run(total, {x: X})
        session.run(total, {x: X[:1]})
        found = session.plan_counters()
        assert (
            found.plans,
            found.variants,
            found.hits,
            found.misses,
            found.evictions,
            found.variant_evictions,
        ) == (2, 3, 2, 2, 0, 0)
        monkeypatch.setattr(plan_cache, "MAX_PLANS", 2)
        session.run([total, x], {x: X})
        np.testing.assert_array_equal(session.run(y, {x: X, w: W}), X - 2 * W)
        assert session.plan_counters().plans == 2
        assert session.plan_counters().evictions == 1
        # what was evicted is made again, or goes on
        np.testing.assert_array_equal(session.run([y, total], {x: X, w: W})[0], X - 2 * W)
    with pytest.raises(RuntimeError, match=r"Attempted to use a closed Session\."):
        session.plan_counters()
