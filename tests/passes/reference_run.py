"""Runs a working graph node by node with the reference kernels: what a graph means, for tests that
compare before and after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfjit.framework.types.dtypes import as_dtype
from tfjit.kernels.registry import NodeSpec, TensorSpec, find_reference
from tfjit.passes.canonicalize.prune import prune
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.ir.run_spec import RunSpec
from tfjit.passes.legalize.lower_feeds import lower_feeds
from tfjit.passes.manager.pass_context import PassContext, PassOptions
from tfjit.passes.partitioning.partition import Partition
from tfjit.passes.text.text_format import parse_graph


def run_lowered(graph: DataflowGraph, feeds: Sequence[np.ndarray]) -> dict[int, np.ndarray]:
    """Values of the `_Retval` nodes by index, of a graph whose feeds are `_Arg` nodes."""
    return run_partitions([Partition("", graph)], feeds)


def run_partitions(
    partitions: Sequence[Partition], feeds: Sequence[np.ndarray]
) -> dict[int, np.ndarray]:
    """The same for a partitioned graph: partitions take turns until each has what it waits for."""
    rendezvous: dict[bytes, np.ndarray] = {}
    fetched: dict[int, np.ndarray] = {}
    joined = [_Steps(part.graph, feeds) for part in partitions]
    while any(not steps.done for steps in joined):
        before = sum(len(steps.finished) for steps in joined)
        for steps in joined:
            steps.advance(rendezvous, fetched)
        assert sum(len(steps.finished) for steps in joined) > before, (
            "the partitions wait for each other"
        )
    return fetched


class _Steps:
    """One partition, run node by node as far as its receives allow."""

    def __init__(self, graph: DataflowGraph, feeds: Sequence[np.ndarray]) -> None:
        self.graph, self.feeds = graph, feeds
        self.left = graph.topological_order()
        self.values: dict[tuple[str, int], Any] = {}
        self.finished: set[str] = set()

    @property
    def done(self) -> bool:
        return len(self.finished) == len(self.left)

    def advance(self, rendezvous: dict[bytes, np.ndarray], fetched: dict[int, np.ndarray]) -> None:
        for name in self.left:
            if name in self.finished:
                continue
            node = self.graph.node(name)
            if any(
                src not in self.finished
                for src in (
                    *[s for s, _ in self.graph.inputs(name)],
                    *self.graph.control_inputs(name),
                )
            ):
                continue
            if node.op in ("_Recv", "_HostRecv") and node.attrs["tensor_name"] not in rendezvous:
                continue
            single = [self.values[tensor] for tensor in self.graph.inputs(name)]
            self.values.update(_run_node(node, single, self.feeds, rendezvous, fetched))
            self.finished.add(name)


def _run_node(
    node: Any,
    inputs: list[Any],
    feeds: Sequence[np.ndarray],
    rendezvous: dict[bytes, Any],
    fetched: dict[int, Any],
) -> dict[tuple[str, int], Any]:
    if node.op == "_Arg":
        return {(node.name, 0): feeds[node.attrs["index"]]}
    if node.op == "_Retval":
        fetched[node.attrs["index"]] = np.asarray(inputs[0])
        return {}
    if node.op in ("_Send", "_HostSend"):
        rendezvous[node.attrs["tensor_name"]] = inputs[0]
        return {}
    if node.op in ("_Recv", "_HostRecv"):
        return {(node.name, 0): rendezvous[node.attrs["tensor_name"]]}
    if node.op == "NoOp":
        return {}
    if node.op == "Const":
        return {(node.name, 0): node.attrs["value"]}
    kernel = find_reference(node.op)
    assert kernel is not None, f"{node.op} has no reference kernel"
    specs = tuple(TensorSpec(as_dtype(value.dtype), value.shape) for value in inputs)
    with np.errstate(all="ignore"):
        results = kernel(NodeSpec(node.name, node.op, node.attrs, specs, ()), inputs)
    return {(node.name, output): result for output, result in enumerate(results)}


def lowered(
    text: str, feeds: Mapping[str, np.ndarray], fetches: Sequence[str], targets: Sequence[str] = ()
) -> tuple[DataflowGraph, PassContext]:
    """A graph from text with its feeds lowered, and the context for passes over it. Feeds give
    dtypes and shapes.
    """
    graph = parse_graph(text)
    types = {name: (as_dtype(value.dtype), value.shape) for name, value in feeds.items()}
    ctx = PassContext(
        RunSpec(tuple(feeds), tuple(fetches), tuple(targets), types), PassOptions(verify=True)
    )
    lower_feeds(graph, ctx)
    prune(graph, ctx)
    graph.verify()
    return graph, ctx
