"""Say which nodes of an accelerator the host computes, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from tfjit.framework.op_defs.op_traits import SHAPE_QUERY, TRANSFER, VARIABLE
from tfjit.framework.types.dtypes import DType, string
from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node

if TYPE_CHECKING:
    from tfjit.kernels.ir.backend import Backend

NEVER: Final = frozenset({"Const", "_Arg", "_Retval", "NoOp", "ControlTrigger"})
"""Op types without work."""
_SIZES: Final = "sizes and other int32 numbers are the host's"
_BY_POSITION: Final = frozenset({"Slice", "StridedSlice", "StridedSliceGrad"})
"""Op types whose positions are checked: accelerators report nothing."""


def reason_for_host(node: Node, devices: Mapping[str, Backend]) -> str:
    """Return the reason why the host computes a node.

    It is "" for a node that its device computes.
    """
    if node.assigned_device not in devices:
        return f"it is placed on {node.assigned_device}"
    if node.op in NEVER or node.has_trait(VARIABLE | TRANSFER):
        return f"a {node.op} computes nothing"
    if any(not _has_numbers(d.base_dtype) for d in node.output_dtypes):
        return "its values are no numbers"
    if node.op == "ReadVariableOp" or (node.is_view and node.op != "Reshape"):
        return _SIZES if _is_host_number(node) else ""
    if node.has_trait(SHAPE_QUERY):
        return _SIZES
    types = (*node.input_dtypes, *node.output_dtypes)
    backend = devices[node.assigned_device]
    if not backend.compiles(node.op):
        return f"the device has no kernel of {node.op}"
    if not backend.computes(node.op, types):
        if _is_host_number(node):
            return _SIZES
        names = ", ".join(dict.fromkeys(d.base_dtype.name for d in types))
        return f"the device has no kernel of {node.op} for {names}"
    if node.op in _BY_POSITION:
        begin = node._graph.inputs(node.name)[1][0]
        if node._graph.node(begin).op != "Const":
            return "its first index is known at run time, and the host checks it"
    return ""


def _has_numbers(dtype: DType) -> bool:
    return dtype.is_numpy_compatible and dtype is not string


def _is_host_number(node: Node) -> bool:
    """Return whether a node holds shape arithmetic, or compares its numbers.

    TensorFlow's GPU kernels do that on the host.
    """
    outputs = [d.base_dtype.name for d in node.output_dtypes]
    inputs = {d.base_dtype.name for d in node.input_dtypes}
    return outputs[:1] == ["int32"] or (outputs == ["bool"] and inputs == {"int32"})


def nodes_between(
    graph: DataflowGraph, order: Sequence[str], movable: Mapping[str, str]
) -> Iterator[str]:
    """Yield the nodes of the host between two nodes of devices.

    They cut an accelerator's program. order: nodes behind their inputs. movable: devices by node.
    """
    before: set[str] = set()
    for name in order:
        sources = [edge.src for edge in graph.edges_into(name)]
        if any(src in before or src in movable for src in sources):
            before.add(name)
    behind: set[str] = set()
    for name in reversed(order):
        users = [edge.dst for edge in graph.edges_out_of(name)]
        if any(dst in behind or dst in movable for dst in users):
            behind.add(name)
    for name in order:
        if name in before and name in behind and name not in movable:
            yield name


__all__ = ["NEVER", "nodes_between", "reason_for_host"]
