"""The same graph built in both libraries: a thin layer that speaks to either."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

import tfjit.ops.core.families  # noqa: F401
from tfjit.framework.graphs import default_graph
from tfjit.framework.graphs.graph import Graph
from tfjit.framework.types import dtypes

tf1 = tf.compat.v1


class Ours:
    """Builds with tfjit."""

    Graph = Graph
    name_scope = staticmethod(default_graph.name_scope)
    device = staticmethod(default_graph.device)
    control_dependencies = staticmethod(default_graph.control_dependencies)
    colocate_with = staticmethod(default_graph.colocate_with)
    get_default_graph = staticmethod(default_graph.get_default_graph)
    reset_default_graph = staticmethod(default_graph.reset_default_graph)

    @staticmethod
    def placeholder(name: str | None = None, shape: Any = None) -> Any:
        attrs = {"dtype": dtypes.float32, "shape": shape}
        return (
            default_graph.get_default_graph()
            .create_op("Placeholder", name=name, attrs=attrs)
            .outputs[0]
        )

    @staticmethod
    def identity(x: Any, name: str | None = None) -> Any:
        return x.graph.create_op("Identity", [x], name=name).outputs[0]

    @staticmethod
    def add(x: Any, y: Any, name: str | None = None) -> Any:
        return x.graph.create_op("AddV2", [x, y], name=name).outputs[0]

    @staticmethod
    def no_op(name: str | None = None) -> Any:
        return default_graph.get_default_graph().create_op("NoOp", name=name)


class Theirs:
    """Builds with TensorFlow."""

    Graph = tf.Graph
    name_scope = tf1.name_scope
    device = staticmethod(tf1.device)
    control_dependencies = staticmethod(tf1.control_dependencies)
    colocate_with = staticmethod(tf1.colocate_with)
    get_default_graph = staticmethod(tf1.get_default_graph)
    reset_default_graph = staticmethod(tf1.reset_default_graph)

    @staticmethod
    def placeholder(name: str | None = None, shape: Any = None) -> Any:
        return tf1.placeholder(tf.float32, shape, name=name)

    @staticmethod
    def identity(x: Any, name: str | None = None) -> Any:
        return tf.raw_ops.Identity(input=x, name=name or "Identity")

    @staticmethod
    def add(x: Any, y: Any, name: str | None = None) -> Any:
        return tf.raw_ops.AddV2(x=x, y=y, name=name or "AddV2")

    @staticmethod
    def no_op(name: str | None = None) -> Any:
        return tf1.no_op(name=name)


@contextlib.contextmanager
def fresh_graph(library: Any) -> Iterator[Any]:
    """A new default graph of the library."""
    graph = library.Graph()
    with graph.as_default():
        yield graph


def describe(graph: Any, control_order: bool = True) -> list[Any]:
    """Operations with what both libraries say of them."""
    out = []
    for op in graph.get_operations():
        control = [c.name for c in op.control_inputs]
        out.append(
            (
                op.name,
                op.type,
                [t.name for t in op.inputs],
                control if control_order else sorted(control),
                op.device,
                list(op.colocation_groups()),
                [(t.name, t.dtype.name, str(t.shape)) for t in op.outputs],
            )
        )
    return out


def both(build: Any) -> tuple[Any, Any]:
    """What `build(library, graph)` gives with each library: its value, or the kind and text of its
    error.
    """
    results = []
    for library in (Ours, Theirs):
        with fresh_graph(library) as graph:
            try:
                value = build(library, graph)
            except Exception as error:
                value = (_kind(error), str(error))
            results.append((value, describe(graph)))
    return results[0], results[1]


def _kind(error: Exception) -> str:
    for kind in (
        ValueError,
        TypeError,
        KeyError,
        RuntimeError,
        AssertionError,
        NotImplementedError,
    ):
        if isinstance(error, kind):
            return kind.__name__
    return type(error).__name__
