"""Python functions inside graphs: of TensorFlow's graphs and of tfjit's own, beside TensorFlow."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit

tf1 = tf.compat.v1


def raising(error: BaseException) -> Callable[..., Any]:
    def function(x: Any) -> Any:
        raise error

    return function


CASES: dict[str, tuple[Callable[..., Any], Any]] = {
    "one": (lambda x: x * 2, tf.float32),
    "two": (lambda x: (x, np.int64(3)), [tf.float32, tf.int64]),
    "text": (lambda x: "häh", tf.string),
    "bytes": (lambda x: b"ab", tf.string),
    "texts": (lambda x: ["a", "bcd"], [tf.string, tf.string]),
    "array of text": (lambda x: np.array(["a", "bcd"]), tf.string),
    "array of objects": (lambda x: np.array(["ä", b"b"], object), tf.string),
    "no strings": (lambda x: np.array([None, b"b"], object), tf.string),
    "nothing": (lambda x: None, []),
    "int": (lambda x: 3, tf.int64),
    "nested list": (lambda x: [[1.0, 2.0]], tf.float64),
    "another dtype": (lambda x: np.float64(1), tf.float32),
    "another number": (lambda x: (x, x), tf.float32),
    **{
        type(e).__name__: (raising(e), tf.float32)
        for e in (TypeError("t"), ValueError("v"), StopIteration(), MemoryError("m"))
    },
    **{
        type(e).__name__: (raising(e), tf.float32)
        for e in (NotImplementedError("n"), KeyError("k"), ZeroDivisionError("z"))
    },
}


def outcome(session: Any, fetch: Any, feeds: Any) -> Any:
    """What is fetched, or class and first own line of the error."""
    try:
        return session.run(fetch, feeds)
    except Exception as error:
        lines = str(error).splitlines()
        at = next(i for i, line in enumerate(lines) if line.startswith("Node:"))
        return next(
            k.__name__ for k in type(error).__mro__ if k.__module__.startswith("tensorflow")
        ), lines[at + 1]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("kind", ["py_func", "numpy_function", "py_function"])
def test_values_and_errors_are_tensorflows(name: str, kind: str) -> None:
    function, dtypes = CASES[name]
    make = {
        "py_func": tf1.py_func,
        "numpy_function": tf.numpy_function,
        "py_function": tf.py_function,
    }[kind]
    with tf1.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [None], name="x")
        fetch = make(function, [x], dtypes, name="call")
    feeds = {x: np.arange(3, dtype=np.float32)}
    with tf1.Session(graph=graph) as theirs, tfjit.Session(graph=graph) as ours:
        expected, got = outcome(theirs, fetch, feeds), outcome(ours, fetch, feeds)
        assert repr(got) == repr(expected)
        assert repr(outcome(ours, fetch, feeds)) == repr(expected)


def test_the_own_front_end() -> None:
    calls = []

    def function(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, bytes]:
        calls.append(x.flags.writeable)
        x += 1  # its own copy
        return x * y, b"done"

    with tfjit.Graph().as_default() as graph:
        x = tfjit.placeholder(tfjit.float32, [2])
        product, text = tfjit.py_func(function, [x, 3.0], [tfjit.float32, tfjit.string])
        after = tfjit.reduce_sum(product)
        noop = tfjit.py_func(lambda: None, [], [])
    fed = np.array([1, 2], np.float32)
    with tfjit.Session(graph=graph) as session:
        for _ in range(3):
            got = session.run([product, text, after, noop], {x: fed})
            assert got[0].tolist() == [6, 9]
            assert got[1:] == [b"done", 15.0, None]
    assert fed.tolist() == [1, 2]
    assert calls == [True] * 3
    with pytest.raises(TypeError, match="Expected func to be callable"):
        tfjit.py_func(3, [], tfjit.float32)


def test_a_function_lives_as_long_as_its_graph() -> None:
    class Function:
        def __call__(self) -> np.float32:
            return np.float32(4)

    def build() -> Any:
        with tfjit.Graph().as_default() as graph:
            tfjit.py_func(Function(), [], tfjit.float32, name="y")
        return graph

    graph = build()
    data = graph.as_graph_def().SerializeToString()
    with tfjit.Session(graph=graph) as session:
        assert session.run("y:0") == 4
    with tfjit.Session(graph=data) as session:
        assert session.run("y:0") == 4
    del graph
    gc.collect()
    with (
        tfjit.Session(graph=data) as session,
        pytest.raises(tf.errors.InvalidArgumentError, match="is not found"),
    ):
        session.run("y:0")


def test_functions_run_side_by_side_with_other_runs() -> None:
    """A function that waits holds up nobody but its own run."""
    entered, release = threading.Event(), threading.Event()

    def wait() -> np.float32:
        entered.set()
        assert release.wait(60)
        return np.float32(1)

    with tfjit.Graph().as_default() as graph:
        slow = tfjit.py_func(wait, [], tfjit.float32)
        quick = tfjit.add(1.0, tfjit.placeholder_with_default(2.0, []))
    with tfjit.Session(graph=graph) as session:
        results: list[Any] = []
        thread = threading.Thread(target=lambda: results.append(session.run(slow)))
        thread.start()
        assert entered.wait(60)
        assert session.run(quick) == 3
        release.set()
        thread.join(60)
    assert results == [1.0]
