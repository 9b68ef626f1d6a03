"""Match attentions: two matrix products with a softmax between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tfjit.framework.op_defs.op_traits import IDENTITY, MATRIX_PRODUCT, RESHAPE
from tfjit.framework.scalar import elementwise
from tfjit.kernels.registry import Unsupported
from tfjit.passes.ir.dataflow_graph import SINK

if TYPE_CHECKING:
    from collections.abc import Collection

    from tfjit.passes.fusion.clusters import Clusters
    from tfjit.passes.fusion.fused_group_builder import GroupMaker
    from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
    from tfjit.passes.manager.pass_context import PassContext

_MAX_BETWEEN: Final = 24
"""Nodes looked at between softmax and scores, those of the mask counted."""


def may_hold_attention(graph: DataflowGraph) -> bool:
    """Return whether a graph has a softmax and two matrix products."""
    return (
        "Softmax" in graph.op_types
        and sum(node.has_trait(MATRIX_PRODUCT) for node in graph.op_nodes()) > 1
    )


def find_attention(
    graph: DataflowGraph, clusters: Clusters, maker: GroupMaker, ctx: PassContext
) -> list[tuple[str, list[str]]]:
    """Return (second product, members in order) of every attention in a graph.

    All nodes of the graph are in `clusters`. The pattern is

        MatMul(q, k) -> elementwise nodes (scale, mask) -> Softmax -> MatMul(., v)

    where no value between is needed elsewhere. The transposes of q, k, v and of the result become
    members too: the kernel reads and writes through them. A node belongs to one attention: where
    the second product of one is the first of another, the earlier attention has that product.
    """
    found = []
    taken: set[str] = set()
    for name in list(clusters.position):
        node = graph.node(name)
        if node.has_trait(MATRIX_PRODUCT):
            members = _members(graph, clusters, node, taken)
            if members is None:
                continue
            try:
                maker.require_accepted(members, "attention", name)
            except Unsupported as refused:
                ctx.log(name, f"no attention: {refused}")
                continue
            found.append((name, members))
            taken.update(members)
    return found


def _members(
    graph: DataflowGraph, clusters: Clusters, second: Node, taken: Collection[str]
) -> list[str] | None:
    """Return the nodes of an attention that ends in this product.

    None where the pattern does not match. taken: nodes of other attentions.
    """
    inside = [second.name]
    name, output = clusters.sources[second.name][0]
    while graph.node(name).has_trait(IDENTITY | RESHAPE):
        inside.append(name)
        name, output = clusters.sources[name][0]
    softmax = graph.node(name)
    if softmax.op != "Softmax" or output != 0:
        return None
    inside.append(name)
    path = _path_to_product(graph, clusters, clusters.sources[name][0][0], [_MAX_BETWEEN])
    if path is None or path[-1] == second.name:
        return None
    first = path[-1]
    inside += path
    last = _result(graph, clusters, second.name)
    inside += last
    results = {second.name, *last}
    # the values between the products have no other users, and the group waits for nothing
    names = set(inside)
    for member in names:
        node = graph.node(member)
        if (
            member in taken
            or clusters.waits[member]
            or node.assigned_device != second.assigned_device
            or not clusters.same_context(member, second.name)
        ):
            return None
        if SINK in graph.successors(member) or graph.control_consumers(member):
            return None
        if member not in results and not clusters.consumers_of(member) <= names:
            return None
    for product, sides in ((first, (0, 1)), (second.name, (1,))):
        for side in sides:
            source = clusters.sources[product][side][0]
            names.update(_moves(graph, clusters, source, product, taken))
    return sorted(names, key=clusters.position.__getitem__)


def _path_to_product(
    graph: DataflowGraph, clusters: Clusters, name: str, left: list[int]
) -> list[str] | None:
    """Return the elementwise nodes back to a product, and the product.

    None where no path or several paths lead to one. left: the number of nodes that may still be
    looked at.
    """
    left[0] -= 1
    node = graph.node(name)
    if node.has_trait(MATRIX_PRODUCT):
        return [name]
    if left[0] < 0 or name not in clusters.sources:
        return None
    if node.has_trait(IDENTITY | RESHAPE):
        sources = [clusters.sources[name][0][0]]
    elif elementwise.lookup(node.op) is not None:
        sources = list(dict.fromkeys(src for src, _ in clusters.sources[name]))
    else:
        return None
    paths = [
        path
        for path in (_path_to_product(graph, clusters, src, left) for src in sources)
        if path is not None
    ]
    return [name, *paths[0]] if len(paths) == 1 else None


def _moves(
    graph: DataflowGraph, clusters: Clusters, name: str, consumer: str, taken: Collection[str]
) -> list[str]:
    """Return the transposes, with views between, that only feed a product.

    The nodes `taken` by other attentions end the search.
    """
    views: list[str] = []
    found: list[str] = []
    while (
        name in clusters.sources
        and name not in taken
        and clusters.consumers_of(name) == {consumer}
        and not clusters.waits[name]
    ):
        node = graph.node(name)
        if node.op != "Transpose" and not node.has_trait(IDENTITY | RESHAPE):
            break
        if SINK in graph.successors(name) or not clusters.same_context(name, consumer):
            break
        views.append(name)
        if node.op == "Transpose":
            found = list(views)  # a view at the far end costs nothing outside
        consumer, name = name, clusters.sources[name][0][0]
    return found


def _result(graph: DataflowGraph, clusters: Clusters, name: str) -> list[str]:
    """Return the transpose that is the only user of a product's result."""
    consumers = clusters.consumers_of(name)
    if len(consumers) != 1:
        return []
    (consumer,) = consumers
    node = graph.node(consumer)
    if (
        node.op != "Transpose"
        or consumer not in clusters.sources
        or clusters.sources[consumer][0] != (name, 0)
    ):
        return []
    if (
        clusters.waits[consumer]
        or SINK in graph.successors(consumer)
        or graph.control_consumers(consumer)
    ):
        return []
    return [consumer]
