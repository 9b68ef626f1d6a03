"""Pipelines built with tfjit's names and with TensorFlow's, and the elements of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

import tfjit

tf1 = tf.compat.v1

Pipeline = Callable[[Any], Any]
"""Takes `tf` or `tfjit`, returns a dataset."""


def drain(session: Any, initializer: Any, element: Any, limit: int = 200) -> list[Any]:
    """Return the elements up to the end."""
    session.run(initializer)
    found = []
    try:
        while len(found) < limit:
            found.append(session.run(element))
    except (tf.errors.OutOfRangeError, tfjit.errors.OutOfRangeError):
        pass
    return found


class Built:
    """Pipelines by name in one graph, with an iterator each."""

    def __init__(self, module: Any, pipelines: Mapping[str, Pipeline]) -> None:
        self.graph = module.Graph()
        self.specs, self.iterators, self.elements = {}, {}, {}
        with self.graph.as_default():
            for name, build in pipelines.items():
                dataset = build(module)
                self.specs[name] = repr(dataset.element_spec).replace("tf.", "")
                self.iterators[name] = module.data.make_initializable_iterator(dataset)
                self.elements[name] = self.iterators[name].get_next()
            self.variables = module.global_variables_initializer()

    def elements_of(self, session: Any) -> dict[str, list[Any]]:
        """Return the elements of all pipelines."""
        session.run(self.variables)
        return {
            name: drain(session, iterator.initializer, self.elements[name])
            for name, iterator in self.iterators.items()
        }

    def elements_of_tensorflow(self) -> dict[str, list[Any]]:
        """Return the elements that TensorFlow makes of this graph of tfjit."""
        with tf1.Graph().as_default() as graph:
            tf1.import_graph_def(
                tf1.GraphDef.FromString(self.graph.as_graph_def().SerializeToString()), name=""
            )
        found = {}
        with tf1.Session(graph=graph) as session:
            session.run(self.variables.name)
            for name, iterator in self.iterators.items():
                flat = tf.nest.flatten(self.elements[name])
                values = drain(session, iterator.initializer.name, [tensor.name for tensor in flat])
                found[name] = [
                    tf.nest.pack_sequence_as(self.elements[name], value) for value in values
                ]
        return found


def check_equal(expected: Mapping[str, list[Any]], found: Mapping[str, list[Any]]) -> None:
    """Check that all pipelines have equal elements, in structure, dtype, shape and value."""
    for name, elements in expected.items():
        assert len(elements) == len(found[name]), name
        for one, other in zip(elements, found[name], strict=True):
            tf.nest.assert_same_structure(one, other)
            for a, b in zip(tf.nest.flatten(one), tf.nest.flatten(other), strict=True):
                a, b = np.asarray(a), np.asarray(b)
                assert (a.dtype, a.shape) == (b.dtype, b.shape), (name, one, other)
                np.testing.assert_array_equal(a, b, err_msg=name)


def check_pipelines(pipelines: Mapping[str, Pipeline]) -> None:
    """Check that specs and elements are TensorFlow's, in its session and in tfjit's."""
    theirs = Built(tf1, pipelines)
    ours = Built(tfjit, pipelines)
    assert ours.specs == theirs.specs
    with tf1.Session(graph=theirs.graph) as session:
        expected = theirs.elements_of(session)
    check_equal(expected, ours.elements_of_tensorflow())
    with tfjit.Session(graph=ours.graph) as session:
        check_equal(expected, ours.elements_of(session))
