"""Find the collectives of a graph and of its functions."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import Final, SupportsIndex

from tfjit.framework.op_defs.op_registry import registry
from tfjit.framework.op_defs.op_traits import COLLECTIVE
from tfjit.passes.ir.dataflow_graph import DataflowGraph

_SEED: Final = 0x8774AA605C729C72
_STEP: Final = 0x9E3779B97F4A7800
_MASK: Final = (1 << 64) - 1


def collective_nodes(graph: DataflowGraph) -> Iterator[Mapping[str, SupportsIndex]]:
    """Yield the attrs of each collective.

    Those of a node are values, those of a NodeDef AttrValues.
    """
    for node in graph.op_nodes():
        if node.has_trait(COLLECTIVE):
            yield node.attrs
    for function in graph.functions.definitions.values():
        for node_def in function.node_def:
            if registry.has_trait(node_def.op, COLLECTIVE):
                yield node_def.attr


def has_collectives(graph: DataflowGraph) -> bool:
    """Return whether the graph or a function of it has a collective."""
    return any(True for _ in collective_nodes(graph))


def collective_graph_key(graphs: list[DataflowGraph]) -> int:
    """Return TensorFlow's key of a run's graphs.

    Members in other tasks have the same. It follows from the instance keys that are attrs, and is 0
    without collectives. In a request it is an int64.
    """
    found = [attrs for graph in graphs for attrs in collective_nodes(graph)]
    if not found:
        return 0
    values = [attrs["instance_key"] for attrs in found if "instance_key" in attrs]
    key = _SEED
    for number in sorted({operator.index(getattr(value, "i", value)) for value in values}):
        a = number & _MASK
        key = a ^ ((key + _STEP + (a << 10) + (a >> 4)) & _MASK)
    return key - (1 << 64) if key >> 63 else key


__all__ = ["collective_graph_key", "collective_nodes", "has_collectives"]
