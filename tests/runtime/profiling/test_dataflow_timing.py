"""`explain(measure=True)` of plans that the dataflow executor runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

import tfjit

tf1 = tf.compat.v1


def unknown_sizes() -> Any:
    """Rows of a variable at the places of positive numbers; `train` changes the variable."""
    graph = tf1.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [6], name="x")
        w = tf1.get_variable("w", initializer=np.arange(6, dtype=np.float32), use_resource=False)
        places = tf.reshape(tf1.where(x > 0, name="places"), [-1])
        tf.tanh(tf.gather(w, places), name="y")
        noise = tf.random.uniform([6], seed=1, name="noise")
        tf1.scatter_add(w, tf.cast(places, tf.int32), tf.gather(noise, places), name="train")
        tf1.global_variables_initializer()
    return graph


def test_each_node_has_a_time() -> None:
    with tfjit.Session(graph=unknown_sizes()) as session:
        session.run("init")
        found = session.explain("y:0", feed_dict={"x:0": np.ones(6)}, measure=True)
    assert "dataflow" in found.executor
    assert found.measured is not None
    assert found.measured.runs >= 5
    times = {node.name: node.measured_us for node in found.nodes}
    assert (times["places"] or 0) > 0
    assert "a run of the step" in found.details()


def test_variables_and_streams_are_as_before() -> None:
    feed = {"x:0": np.ones(6)}
    values = []
    for measure in (False, True):
        with tfjit.Session(graph=unknown_sizes()) as session:
            session.run("init")
            found = session.explain(["train", "y:0"], feed_dict=feed, measure=measure)
            assert (found.measured is not None) == measure
            session.run("train", feed)
            values.append(session.run("w:0"))
    np.testing.assert_array_equal(values[0], values[1])


def test_a_node_of_a_loop_counts_with_all_its_runs() -> None:
    graph = tf1.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [2], name="x")
        shapes = [tf.TensorShape([]), tf.TensorShape([None])]
        grown = tf.while_loop(
            lambda i, _: i < 4,
            lambda i, h: (i + 1, tf.concat([h, h], 0)),
            [0, x],
            shape_invariants=shapes,
        )[1]
    with tfjit.Session(graph=graph) as session:
        found = session.explain(grown, measure=True)
    assert found.measured is not None
    assert any(node.measured_us for node in found.nodes)
