"""The value of a tensor that a Const node holds."""

from __future__ import annotations

import numpy as np

from tfjit.passes.ir.dataflow_graph import DataflowGraph


def constant_value(graph: DataflowGraph, name: str, slot: int = 0) -> np.ndarray | None:
    """The array of a Const node (slot 0), None for every other tensor."""
    node = graph.node(name)
    if node.op != "Const" or slot != 0:
        return None
    value = node.attrs.get("value")
    return value if isinstance(value, np.ndarray) else None
