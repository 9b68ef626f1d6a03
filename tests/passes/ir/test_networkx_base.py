"""Graphs have networkx's interface, and runs do not import it."""

import subprocess
import sys

_PROGRAM = """
import sys
import numpy as np
import tfjit as tf
from tfjit.passes.ir.dataflow_graph import DataflowGraph

x = tf.placeholder(tf.float32, [2, 2])
with tf.Session() as session:
    session.run(tf.matmul(x, x) + 1.0, {x: np.eye(2, dtype=np.float32)})
assert "networkx" not in sys.modules

graph = DataflowGraph()
graph.add_node_op("a", "NoOp")
graph.add_node_op("b", "NoOp", control_inputs=["a"])
import networkx as nx
assert nx.ancestors(graph, "b") == {"a"}
assert isinstance(graph, nx.MultiDiGraph) and issubclass(DataflowGraph, nx.MultiDiGraph)
assert graph.out_degree("a") == 1 and list(graph.nodes) == list(DataflowGraph().nodes) + ["a", "b"]
later = graph.copy()
later.remove_op("a")
assert set(later.nodes) == {"_SOURCE", "_SINK", "b"} and "a" in graph and len(later) == 3
assert str(later) == "DataflowGraph with 3 nodes and 1 edges"
graph.verify()
later.verify()
"""


def test_networkx_becomes_the_base_when_it_is_asked_for() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
