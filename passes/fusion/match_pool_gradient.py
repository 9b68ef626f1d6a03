"""Match gradients of maximum pooling, of the ReLU and bias before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.kernels.registry import Unsupported
from tfjit.passes.ir.dataflow_graph import SINK

if TYPE_CHECKING:
    from tfjit.passes.fusion.clusters import Clusters
    from tfjit.passes.fusion.fused_group_builder import GroupMaker
    from tfjit.passes.ir.dataflow_graph import DataflowGraph
    from tfjit.passes.manager.pass_context import PassContext


def may_hold_pool_gradient(graph: DataflowGraph) -> bool:
    """Return whether a graph has a gradient of maximum pooling."""
    return "MaxPoolGrad" in graph.op_types


def find_pool_gradients(
    graph: DataflowGraph, clusters: Clusters, maker: GroupMaker, ctx: PassContext
) -> list[tuple[str, list[str]]]:
    """Return (gradient of pooling, ordered members) of every match.

    All nodes of the graph are in `clusters`. The pattern is

        MaxPoolGrad(x, y, dy) -> ReluGrad(., x) -> BiasAddGrad

    with one or both of the last two. The output of the ReLU is the input of the pooling, so that
    one pass over that tensor computes all three.
    """
    found = []
    for name in list(clusters.position):
        node = graph.node(name)
        if node.op != "MaxPoolGrad" or None in (
            shapes := [
                graph.node(src).output_shapes[output] for src, output in clusters.sources[name]
            ]
        ):
            continue
        if any(n is None for shape in shapes for n in shape or ()):
            continue
        members = _members(graph, clusters, name)
        if len(members) == 1:
            continue
        try:
            maker.require_accepted(members, "pool_gradient", name)
        except Unsupported as refused:
            ctx.log(name, f"stays apart from {members[1]}: {refused}")
            continue
        found.append((name, members))
    return found


def _members(graph: DataflowGraph, clusters: Clusters, name: str) -> list[str]:
    """Return a gradient of pooling and the nodes to join."""
    members = [name]
    following = clusters.consumers_of(name)
    if len(following) == 1 and SINK not in graph.successors(name):
        (relu,) = following
        features = clusters.sources[name][0]
        if (
            graph.node(relu).op == "ReluGrad"
            and clusters.sources[relu] == [(name, 0), features]
            and _joins(graph, clusters, name, relu)
        ):
            members.append(relu)
            following = clusters.consumers_of(relu)
    for bias in sorted(following, key=lambda n: clusters.position.get(n, -1)):
        node = graph.node(bias)
        if (
            node.op == "BiasAddGrad"
            and node.attrs.get("data_format", b"NHWC") in (b"NHWC", "NHWC")
            and _joins(graph, clusters, name, bias)
        ):
            return [*members, bias]
    return members


def _joins(graph: DataflowGraph, clusters: Clusters, first: str, other: str) -> bool:
    """Return whether a node can run together with the first.

    Both must have one device and one context, and no control inputs.
    """
    same_device = graph.node(other).assigned_device == graph.node(first).assigned_device
    return (
        same_device
        and not clusters.waits[other]
        and not clusters.waits[first]
        and clusters.same_context(first, other)
    )
