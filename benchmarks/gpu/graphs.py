"""Build the graphs of workloads, place them, and compare their outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from benchmarks.workload import Workload
from tfjit.protos import GraphDef

GPU: Final = "/job:localhost/replica:0/task:0/device:GPU:0"


def graph_of(workload: Workload) -> bytes:
    """Return the workload's GraphDef, which tfjit builds."""
    if workload.graph_def is not None:
        return workload.graph_def()
    import tfjit

    assert workload.build is not None
    graph = tfjit.Graph()
    with graph.as_default():
        workload.build(tfjit)
    data: bytes = graph.as_graph_def().SerializeToString()
    return data


def on_gpu(data: bytes) -> GraphDef:
    """Return the graph with all nodes but placeholders on GPU:0."""
    graph = GraphDef.FromString(data)
    for node in graph.node:
        if node.op != "Placeholder":
            node.device = "/device:GPU:0"
    return graph


SAMPLE: Final = 1 << 16


def sample(value: np.ndarray) -> np.ndarray:
    """Return the elements that are compared of an output."""
    flat: np.ndarray = np.ravel(value)
    return flat[:: max(1, flat.size // SAMPLE)]


def compare(
    workload: Workload, found: Sequence[Sequence[Any]], expected: Sequence[Sequence[Any]]
) -> None:
    """Raise AssertionError for outputs that differ.

    expected: samples.
    """
    for step, (got, want) in enumerate(zip(found, expected, strict=True)):
        for name, a, b in zip(workload.fetches, got, want, strict=True):
            np.testing.assert_allclose(
                sample(np.asarray(a)),
                b,
                workload.rtol,
                workload.atol,
                err_msg=f"{name}, run {step}",
            )
