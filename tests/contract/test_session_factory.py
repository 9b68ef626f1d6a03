"""Section 2.1: making and resetting sessions, as far as the client shows it (the registry has tests
of its own).
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.contract.worlds import shared_world

tf1 = tf.compat.v1
THREE = pytest.mark.parametrize("front", ["tfjit", "tf", "oracle"])


def build(api: Any) -> dict[str, Any]:
    x = api.placeholder(api.float32, [None], name="x")
    return {
        "x": x,
        "y": api.add(x, 1.0, name="y"),
        "v": api.get_variable("v", initializer=2.5, use_resource=False),
        "init": api.global_variables_initializer(),
    }


def place(front: str) -> tuple[Any, SimpleNamespace]:
    """(session class, world)"""
    return (tf1 if front == "oracle" else tfjit).Session, shared_world(
        "tf" if front == "oracle" else front, build
    )


def versioned(name: str, version: int) -> Any:
    config = tf1.ConfigProto()
    config.experimental.session_metadata.name = name
    config.experimental.session_metadata.version = version
    return config


@THREE
def test_session_metadata(front: str) -> None:
    make, w = place(front)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="Session version shouldn't be negative"
    ):
        make(graph=w.graph, config=versioned(f"model of {front}", -1))
    first = make(graph=w.graph, config=versioned(f"model of {front}", 1))
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match="A session with the same name and version has already been created",
    ):
        make(graph=w.graph, config=versioned(f"model of {front}", 1))
    make(graph=w.graph, config=versioned(f"model of {front}", 2)).close()
    make(graph=w.graph, config=versioned(f"another of {front}", 1)).close()
    first.close()
    make(graph=w.graph, config=versioned(f"model of {front}", 1)).close()


@THREE
def test_reset(front: str) -> None:
    make, w = place(front)
    with make(graph=w.graph) as session:
        np.testing.assert_array_equal(session.run(w.y, {w.x: [1]}), [2])
        make.reset("", ["one", "two"])
        for _ in range(2):
            with pytest.raises(tf.errors.CancelledError, match=r"Session has been closed\."):
                session.run(w.y, {w.x: [1]})
    with make(graph=w.graph) as session:
        np.testing.assert_array_equal(session.run(w.y, {w.x: [1]}), [2])
    with pytest.raises(tf.errors.NotFoundError, match="No session factory registered"):
        make.reset("foo://bar")


@THREE
def test_variables_are_a_sessions_own(front: str) -> None:
    make, w = place(front)
    with make(graph=w.graph) as first, make(graph=w.graph) as second:
        first.run(w.init)
        assert first.run("v:0") == 2.5
        with pytest.raises(
            tf.errors.FailedPreconditionError, match="Attempting to use uninitialized value v"
        ):
            second.run("v:0")


@THREE
def test_made_at_once_filled_at_the_first_run(front: str) -> None:
    """A bad target fails in the constructor; a graph that no session could run fails in `run`."""
    make, _ = place(front)
    api: Any = tfjit if front == "tfjit" else tf1
    graph = api.Graph()
    with graph.as_default(), api.device("/job:nowhere"):
        far = api.constant(1.0)
    for target in ("foo://bar", "local"):
        with pytest.raises(
            tf.errors.NotFoundError,
            match="No session factory registered for the given session options",
        ):
            make(target, graph=graph)
    with (
        make(graph=graph, config=tf1.ConfigProto()) as session,
        pytest.raises(tf.errors.InvalidArgumentError, match="Cannot assign a device"),
    ):
        session.run(far)


@THREE
def test_arguments(front: str) -> None:
    make, w = place(front)
    for arguments, text in (
        ({"target": 3}, 'Argument `target` must be a string, but got "int"'),
        (
            {"target": tf1.ConfigProto()},
            'but got "ConfigProto". Did you do "Session\\(config\\)" instead of '
            '"Session\\(config=config\\)"?',
        ),
        ({"graph": 3}, 'Argument `graph` must be a tf.Graph, but got "int"'),
        (
            {"graph": w.graph, "config": 3},
            'Argument `config` must be a tf.ConfigProto, but got "int"',
        ),
        (
            {"graph": w.graph, "config": {}},
            'Argument `config` must be a tf.ConfigProto, but got "dict"',
        ),
    ):
        with pytest.raises(TypeError, match=text):
            make(**arguments)
    for target, shown in (("", b""), (b"", b""), (None, None)):
        with make(target, graph=w.graph) as session:
            assert session.sess_str == shown
            assert session.graph is w.graph
            assert [n.name for n in session.graph_def.node] == [
                n.name for n in w.graph.as_graph_def().node
            ]
    # tfjit's default graph is not TensorFlow's, unless `patch_tensorflow` is at work
    if front != "tf":
        with w.graph.as_default(), make() as session:
            assert session.graph is w.graph
