"""Build a program with both libraries and compare the graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from typing import Any

import tensorflow

import tfjit

tf1 = tensorflow.compat.v1


Program = Callable[[Any], Any]


IGNORED_ATTRS = {"_has_manual_control_dependencies"}  # a mark for TensorFlow 2's function inliner


def nodes(graph: Any, ignored: Set[str] = frozenset()) -> dict[str, Any]:
    """Everything of a GraphDef's nodes but the ignored attrs, by name, in a form that prints."""
    found = {}
    for node in graph.as_graph_def().node:
        attrs = {}
        for key, value in node.attr.items():
            if key == "value":
                tensor = value.tensor
                array = (
                    tensorflow.make_ndarray
                    if "tensorflow" in type(value).__module__
                    else tfjit.make_ndarray
                )(tensor)
                attrs[key] = (array.dtype.str, array.shape, repr(array.tolist()))  # NaN is NaN
            elif key not in IGNORED_ATTRS | ignored:
                attrs[key] = str(value)
        found[node.name] = (node.op, list(node.input), node.device, attrs)
    return found


def collections(graph: Any) -> dict[str, list[str]]:
    return {
        key: [getattr(item, "name", str(item)) for item in graph.get_collection(key)]
        for key in sorted(graph.get_all_collection_keys())
        if key != "cond_context" and graph.get_collection(key)
    }


def shapes(graph: Any) -> dict[str, Any]:
    return {
        t.name: (t.shape.as_list() if t.shape.rank is not None else None)
        for op in graph.get_operations()
        for t in op.outputs
    }


def same_graph(program: Program, ignored: Set[str] = frozenset()) -> None:
    """`program` makes the same nodes, collections and static shapes with both libraries, and gives
    the same description. ignored: attrs that may differ.
    """
    graphs, results = [], []
    for tf in (tf1, tfjit):
        graph = tf.Graph()
        with graph.as_default():
            results.append(program(tf))
        graphs.append(graph)
    theirs, ours = (nodes(g, ignored) for g in graphs)
    assert (ours.keys() - theirs.keys(), theirs.keys() - ours.keys()) == (set(), set())
    for name, node in theirs.items():
        assert ours[name] == node, name
    theirs_shapes, ours_shapes = (shapes(g) for g in graphs)
    assert ours_shapes == theirs_shapes
    assert collections(graphs[1]) == collections(graphs[0])
    assert results[0] == results[1]


@contextmanager
def resource_variables(enabled: bool) -> Iterator[None]:
    """Let both libraries make resource variables, or references, unless a program chooses."""
    for tf in (tf1, tfjit):
        (tf.enable_resource_variables if enabled else tf.disable_resource_variables)()
    try:
        yield
    finally:
        tf1.enable_resource_variables()
        tfjit.disable_resource_variables()


@contextmanager
def switches_and_merges() -> Iterator[None]:
    """Let TensorFlow build conditionals and loops as tfjit does: without functions."""
    before = tf1.control_flow_v2_enabled()
    tf1.disable_control_flow_v2()
    try:
        yield
    finally:
        if before:
            tf1.enable_control_flow_v2()
