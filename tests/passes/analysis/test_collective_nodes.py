"""Collectives in graphs and functions, and TensorFlow's key of them."""

from __future__ import annotations

import pytest
import tensorflow as tf
from tensorflow.python.ops import collective_ops

from tests.collective_graphs import reduce, reduce_v2
from tfjit import protos
from tfjit.passes.analysis.collective_nodes import collective_graph_key, has_collectives
from tfjit.passes.ir.dataflow_graph import DataflowGraph

tf1 = tf.compat.v1


def working_graph(graph: tf.Graph) -> DataflowGraph:
    made = DataflowGraph()
    made.extend(protos.GraphDef.FromString(graph.as_graph_def().SerializeToString()))
    return made


# as TensorFlow's masters send them to a leader
KEYS = {
    (1,): 2714584368876951667,
    (7,): 2714584368876957813,
    (3,): 2714584368876953713,
    (): -8686130450446246798,
}


@pytest.mark.parametrize("instances", KEYS)
def test_keys(instances: tuple[int, ...]) -> None:
    with tf1.Graph().as_default() as graph:
        if not instances:
            reduce_v2([1.0, 2.0])
        for key in instances:
            collective_ops.all_reduce(tf1.constant(1.0), 2, 1, key, "Add", "Id", (0,))
    made = working_graph(graph)
    assert has_collectives(made)
    assert collective_graph_key([made]) == KEYS[instances]
    assert collective_graph_key([made, made]) == KEYS[instances]


def test_functions_count_and_other_graphs_do_not() -> None:
    with tf1.Graph().as_default() as graph:
        x = tf1.constant(1.0)
        tf1.identity(x)
    assert not has_collectives(working_graph(graph))
    assert collective_graph_key([working_graph(graph)]) == 0
    with tf1.Graph().as_default() as graph:
        tf.function(lambda: reduce([1.0])[0]).get_concrete_function()()
    assert "CollectiveReduce" not in {node.type for node in graph.get_operations()}
    assert collective_graph_key([working_graph(graph)]) == KEYS[1,]
