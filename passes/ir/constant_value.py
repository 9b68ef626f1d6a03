"""Read the value of a Const node's tensor."""

from __future__ import annotations

import numpy as np

from tfjit.passes.ir.dataflow_graph import DataflowGraph


def constant_value(graph: DataflowGraph, name: str, output: int = 0) -> np.ndarray | None:
    """Return the array of a Const node, None for other tensors."""
    node = graph.node(name)
    if node.op != "Const" or output != 0:
        return None
    value = node.attrs.get("value")
    return value if isinstance(value, np.ndarray) else None
