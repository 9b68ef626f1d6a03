"""Decide whether the blocking nodes may be instructions of a step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from tfjit.framework.op_defs.op_traits import NEVER_EVALUATED, TRANSFER
from tfjit.passes.ir.dataflow_graph import SINK, SOURCE, DataflowGraph, Node
from tfjit.runtime.kernel_api.op_kernel import is_blocking

_MAX_BLOCKING: Final = 4
_PLAIN: Final = frozenset({"Const", "NoOp", "ControlTrigger", "_Arg", "_Retval"})


def blocks_in_order(graph: DataflowGraph) -> bool:
    """Return whether no node has to run while another one waits.

    Each node precedes, or depends on, each blocking one: a queue runner's run takes an element,
    computes with it, and puts the result into the next queue. Constants, ends of the run and nodes
    that make handles are left out.
    """
    names = [name for name in graph.topological_order() if name not in (SOURCE, SINK)]
    blocking = [name for name in names if is_blocking(graph.node(name).op)]
    if not blocking or len(blocking) > _MAX_BLOCKING:
        return False
    if any(graph.node(name).has_trait(TRANSFER) for name in blocking):
        return False
    others = {name for name in names if not _is_plain(graph.node(name))}
    for name in blocking:
        ordered = _reached(name, graph.predecessors) | _reached(name, graph.successors)
        if not others <= ordered:
            return False
    return True


def _is_plain(node: Node) -> bool:
    makes_handle = not node.input_dtypes and all(
        dtype.name == "resource" for dtype in node.output_dtypes
    )
    return node.op in _PLAIN or (makes_handle and not node.has_trait(NEVER_EVALUATED))


def _reached(name: str, neighbours: Callable[[str], Iterable[str]]) -> set[str]:
    seen, stack = {name}, [name]
    while stack:
        for other in neighbours(stack.pop()):
            if other not in seen and other not in (SOURCE, SINK):
                seen.add(other)
                stack.append(other)
    return seen


__all__ = ["blocks_in_order"]
