"""Traits of op types that the passes ask for."""

from __future__ import annotations

from typing import Final

import numpy as np

from tfjit.passes.ir.dataflow_graph import DataflowGraph

# where one of these is, a node may be dead
CONTROL_FLOW: Final = frozenset(
    f"{ref}{op}"
    for ref in ("", "Ref")
    for op in ("Switch", "Merge", "Enter", "Exit", "NextIteration", "Select" if ref else "LoopCond")
) | {"ControlTrigger", "_SwitchN"}


# never evaluated while planning, whatever their OpDef says
NEVER_EVALUATED: Final = CONTROL_FLOW | {
    "If",
    "While",
    "Case",
    "StatelessIf",
    "StatelessWhile",
    "StatelessCase",
    "_If",
    "_While",
    "PartitionedCall",
    "SymbolicGradient",
    "_Arg",
    "_DeviceArg",
    "_Retval",
    "_DeviceRetval",
    "_Send",
    "_Recv",
    "_HostSend",
    "_HostRecv",
    "Send",
    "Recv",
    "FakeParam",
    "Placeholder",
    "PlaceholderV2",
    "NoOp",
    "Assert",
    "GetSessionHandle",
    "GetSessionHandleV2",
    "GetSessionTensor",
    "DeleteSessionTensor",
}


def constant_value(graph: DataflowGraph, name: str, slot: int = 0) -> np.ndarray | None:
    """The array of a Const node (slot 0), None for every other tensor."""
    node = graph.node(name)
    if node.op != "Const" or slot != 0:
        return None
    value = node.attrs.get("value")
    return value if isinstance(value, np.ndarray) else None
