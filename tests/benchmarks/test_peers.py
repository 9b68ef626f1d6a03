"""The translators of GraphDefs for other runtimes, against tfjit's own answers (which other tests
compare with TensorFlow's).
"""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

import tfjit
from benchmarks import __main__ as command
from benchmarks.harness import Options, graph_bytes, measure
from benchmarks.workload import Workload
from tfjit.lab.peers.graph import PeerGraph, ShapedGraph, endpoint
from tfjit.lab.peers.numpy_like import FOLDED, RULES

# Small enough to compile in seconds, and together they have every op type that is translated.
NAMES = (
    *(
        "digits CNN, batch 1",
        "add of two scalars",
        "15-op chain, 1 element",
        "50 feeds, 50 fetches",
        "[4096,1]",
        "cast and select",
    ),
    *(
        "chain with a strided",
        "gelu(tanh)",
        "exp/log",
        "Black-Scholes",
        "MobileNetV2, batch 1",
        "softmax",
        "logsumexp",
        "l2 normalise",
    ),
    *(
        "variance along axis 0",
        "sum along axis 1",
        "transformer",
        "DLRM",
        "CNN 28x28",
        "depthwise 3x3 1x14",
        "dense 1x1024",
    ),
    *("Mandelbrot 512x512x100, v2", "branch in a loop, 1000 iterations, v2"),
)


def _workloads() -> list[Workload]:
    found = [w for ws in command.scripts().values() for w in ws]
    return [next(w for w in found if w.name.startswith(name)) for name in NAMES]


def test_numpy_rules_say_what_tfjit_says() -> None:
    for workload in (w for w in _workloads() if w.graph_def is None):
        feeds = workload.feeds(np.random.default_rng(3))
        data = graph_bytes(workload)
        graph = PeerGraph(data, workload.fetches, workload.targets, feeds)
        if any(node.op not in FOLDED for node in graph.order):
            continue
        values: dict[Any, Any] = {endpoint(name): value for name, value in feeds.items()}
        for node in graph.order:
            result = RULES[node.op](np, node, *[values[at] for at in node.inputs])
            for port, value in enumerate(result if isinstance(result, tuple) else (result,)):
                values[node.name, port] = value
        with tfjit.Session(graph=data) as session:
            expected = session.run(list(workload.fetches), feeds)
        for name, want in zip(workload.fetches, expected, strict=True):
            np.testing.assert_allclose(
                values[endpoint(name)], want, workload.rtol, workload.atol, err_msg=workload.name
            )


def test_shapes_follow_from_the_values_fed() -> None:
    workload = next(w for w in _workloads() if w.name.startswith("MobileNetV2"))
    feeds = workload.feeds(np.random.default_rng(0))
    graph = ShapedGraph(graph_bytes(workload), workload.fetches, (), feeds)
    assert graph.shape(endpoint(workload.fetches[0])) == (1, 100)
    assert all(graph.shape((node.name, 0)) is not None for node in graph.order if node.op != "NoOp")


@pytest.mark.parametrize("peer", ["jax", "ort"])
@pytest.mark.parametrize("workload", _workloads(), ids=lambda w: w.name)
def test_peers_say_what_tfjit_says(peer: str, workload: Workload) -> None:
    module = {"jax": "jax", "ort": "onnxruntime"}[peer]
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed (extra `peers`)")
    result = measure(workload, Options(rounds=1, threads=1, peers=(peer,)))
    assert peer in result.timings, result.notes
    assert result.notes == {}


def test_training_steps_with_jax() -> None:
    pytest.importorskip("jax", reason="extra `peers`")
    for workload in command.scripts()["training"]:
        result = measure(workload, Options(rounds=1, threads=1, peers=("jax",)))
        assert "jax" in result.timings and result.notes == {}
