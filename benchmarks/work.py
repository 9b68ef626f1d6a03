"""Count the least work and traffic of a graph, from its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.workload import Feeds, Workload
from tfjit.lab.peers.graph import Endpoint, PeerNode, ShapedGraph, endpoint


def _size(shape: Sequence[int] | None) -> int:
    return 0 if shape is None else int(np.prod(shape, dtype=np.int64))


def _node_flops(graph: ShapedGraph, node: PeerNode) -> int:
    def shape(i: int) -> tuple[int, ...]:
        return graph.shape(node.inputs[i]) or ()

    out: Endpoint = (node.name, 0)
    if node.op in ("MatMul", "BatchMatMulV2"):
        flipped = node.attrs["transpose_a" if node.op == "MatMul" else "adj_x"]
        left = shape(0)
        return 2 * _size(graph.shape(out)) * (left[-2 if flipped else -1] if left else 0)
    if node.op == "Conv2D":
        return 2 * _size(graph.shape(out)) * _size(shape(1)[:3])
    if node.op == "DepthwiseConv2dNative":
        return 2 * _size(graph.shape(out)) * _size(shape(1)[:2])
    if node.op == "Conv2DBackpropInput":
        return 2 * _size(shape(2)) * _size(shape(1)[:3])
    if node.op == "Conv2DBackpropFilter":
        return 2 * _size(shape(2)) * _size((graph.shape(out) or ())[:3])
    return 0


def _updates(node: PeerNode) -> bool:
    return node.op.startswith(("ResourceApply", "Assign"))


def flops(graph: ShapedGraph) -> int:
    """Return the flops of matrix products and convolutions.

    A multiply-add counts as two; elementwise work is not counted. A gradient that a step only waits
    for, with no use for its value, is not counted either.
    """
    used = {endpoint(name)[0] for name in graph.fetches}
    total = 0
    for node in reversed(graph.order):
        if node.name in used or _updates(node):
            used.update(name for name, _ in node.inputs)
            total += _node_flops(graph, node)
    return total


def bytes_moved(graph: ShapedGraph, outputs: Sequence[Any]) -> int:
    """Return the bytes that a run must move.

    Feeds and constants read once, outputs written once, variables read, and written where the run
    updates them. Of a table that is gathered from, nothing counts.
    """
    total = sum(np.asarray(v).nbytes for v in [*graph.fed.values(), *outputs])
    tables = {node.inputs[0][0] for node in graph.order if node.op == "GatherV2"}
    updated = {name for node in graph.order if _updates(node) for name, _ in node.inputs}
    for node in graph.order:
        if node.op == "Const" and node.name not in tables:
            total += node.attrs["value"].nbytes
        elif node.op == "VarHandleOp":
            total += (
                _size(node.attrs["shape"])
                * np.dtype(node.attrs["dtype"]).itemsize
                * (2 if node.name in updated else 1)
            )
    return total


def work(
    workload: Workload, graph_def: bytes, feeds: Feeds, outputs: Sequence[Any]
) -> tuple[int, int]:
    """(bytes moved, flops) of one run."""
    graph = ShapedGraph(graph_def, workload.fetches, workload.targets, feeds)
    return bytes_moved(graph, outputs), flops(graph)
