"""Nodes of a GPU that the host computes, the reasons, and what users see of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import tfjit as tf
from tests.simulated_gpu import GPU, simulated_gpu
from tfjit.kernels.cuda.backend import CudaBackend
from tfjit.passes.offload.host_nodes import nodes_between, reason_for_host
from tfjit.passes.text.text_format import parse_graph
from tfjit.protos import ConfigProto


@pytest.fixture(autouse=True)
def gpu() -> Iterator[None]:
    with simulated_gpu():
        yield


def test_reasons() -> None:
    graph = parse_graph(
        """
        x = Placeholder() -> float32<2,2>
        h = Placeholder(dtype=float16) -> float16<2,2>
        i = Placeholder(dtype=int32) -> int32<2>
        one = Const(value=int32<2>[1, 1])
        tanh = Tanh(x)
        cholesky = Cholesky(x)
        lrn = UnsortedSegmentSum(h, i, i) -> float16<2,2>
        size = AddV2(i, i)
        less = Less(i, i)
        at = StridedSlice(x, i, i, one) -> float32<2>
        first = StridedSlice(x, one, one, one) -> float32<2>
        host = Tanh(x)
        words = Placeholder(dtype=string) -> string<2>
        same = Identity(words)
        """
    )
    devices = {GPU: CudaBackend()}
    found = {}
    for node in graph.op_nodes():
        node.assigned_device = "CPU:0" if node.name == "host" else GPU
    for node in graph.op_nodes():
        found[node.name] = reason_for_host(node, devices)
    assert found["tanh"] == found["first"] == ""
    assert found["cholesky"] == "the device has no kernel of Cholesky"
    assert found["lrn"] == "the device has no kernel of UnsortedSegmentSum for float16, int32"
    assert found["size"] == found["less"] == "sizes and other int32 numbers are the host's"
    assert found["at"] == "its first index is known at run time, and the host checks it"
    assert found["host"] == "it is placed on CPU:0"
    assert found["one"] == "a Const computes nothing"
    assert found["same"] == "its values are no numbers"


def test_nodes_between_are_those_that_cut() -> None:
    graph = parse_graph(
        """
        x = Placeholder() -> float32<2>
        before = Exp(x)
        a = Tanh(before)
        cut = Exp(a)
        b = Tanh(cut)
        behind = Exp(b)
        side = Exp(a)
        """
    )
    order = [name for name in graph.topological_order() if not name.startswith("_")]
    assert list(nodes_between(graph, order, {"a": GPU, "b": GPU})) == ["cut"]


def test_explain_names_the_nodes_that_cut() -> None:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [3, 3], name="x")
        with tf.device("/device:GPU:0"):
            y = tf.cholesky(tf.matmul(x, x, transpose_b=True), name="factor")
            z = tf.reduce_sum(tf.tanh(y))
    config = ConfigProto(allow_soft_placement=True)
    with tf.Session(graph=graph, config=config) as session:
        session.run(z, {x: np.eye(3)})
        told = session.explain(z, {x: (3, 3)})
    why = "it cuts the program, as the device has no kernel of Cholesky"
    assert f"offload: {why} (as factor)" in str(told)
    assert f"offload: factor: stays on the host: {why}" in told.details()
