"""The log of received tensors, by the call Logging."""

from __future__ import annotations

import numpy as np

import tfjit as tf
from tests.distributed.worker.in_process_cluster import Cluster
from tfjit import protos


def test_received_tensors_are_logged_while_it_is_on() -> None:
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [2], name="x")
        with tf.device("/job:worker/task:1"):
            y = tf.negative(x)
    graph_def = graph.as_graph_def()
    feeds = {"x:0": np.zeros(2, np.float32)}
    with Cluster(2) as cluster:
        other = cluster.workers[1]
        cluster.compute(graph_def, feeds, [y.name])
        other.logging(protos.LoggingRequest(enable_rpc_logging=True))
        cluster.compute(graph_def, feeds, [y.name])
        cluster.compute(graph_def, feeds, [y.name])
        other.logging(protos.LoggingRequest(disable_rpc_logging=True))
        cluster.compute(graph_def, feeds, [y.name])
        answer = other.logging(protos.LoggingRequest(fetch_step_id=[1, 2, 4]))
        (step,) = answer.step
        assert step.step_id == 2
        (node,) = step.step_stats.dev_stats[0].node_stats
        assert node.node_name == "RecvTensor" and node.timeline_label.startswith("[8B] edge_")
        other.logging(protos.LoggingRequest(clear=True))
        assert not other.logging(protos.LoggingRequest(fetch_step_id=[2, 3])).step
