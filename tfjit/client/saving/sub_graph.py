"""Parts of GraphDefs: the ancestors of nodes, graphs without nodes of training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from tfjit.framework.graphs.operation import Operation
from tfjit.framework.types import dtypes

if TYPE_CHECKING:
    from tfjit.framework.graphs.graph import Graph
    from tfjit.framework.graphs.typing import Message
    from tfjit.framework.types.shape import TensorShape

_VARIABLE_OPS: Final = frozenset(
    {
        *("Assign", "AssignAdd", "AssignSub", "Queue", "ScatterAdd", "ScatterSub"),
        *("ScatterUpdate", "TruncatedNormal", "Variable", "VariableV2"),
    }
)
# Operations whose int32 form is for the CPU alone, with the attr of its dtype.
_INT32_ON_CPU: Final = {
    "Cast": "SrcT",
    "Const": "dtype",
    "DynamicStitch": "T",
    "ParallelDynamicStitch": "T",
}


def must_run_on_cpu(node: Operation | Message, pin_variables_on_cpu: bool = False) -> bool:
    """Return whether an operation or NodeDef has no kernel for GPUs.

    pin_variables_on_cpu: give True for variables and their updates.
    """
    message = node.node_def if isinstance(node, Operation) else node
    if pin_variables_on_cpu and message.op in _VARIABLE_OPS:
        return True
    key = _INT32_ON_CPU.get(message.op)
    if key is None:
        return False
    dtype = message.attr[key].type
    is_string = dtype == dtypes.string.as_datatype_enum
    return bool(dtype == dtypes.int32.as_datatype_enum or (message.op == "Const" and is_string))


def tensor_shape_from_node_def_name(graph: Graph, input_name: str) -> TensorShape:
    """Return the static shape of a tensor named as an input.

    Raises KeyError for an unknown name.
    """
    name = input_name if ":" in input_name else f"{input_name}:0"
    return graph.get_tensor_by_name(name).shape


def node_name(input_name: str) -> str:
    """Return the name of the node that gives an input."""
    return input_name.removeprefix("^").partition(":")[0]


def _colocated(node: Message) -> list[str]:
    """Return the names of the nodes that a node stands with."""
    if "_class" not in node.attr:
        return []
    return [name.decode().removeprefix("loc:@") for name in node.attr["_class"].list.s]


def extract_sub_graph(graph_def: Message, dest_nodes: Iterable[str]) -> Message:
    """Return the GraphDef of nodes, ancestors and colocated nodes.

    Functions and versions stay. Raises TypeError for arguments of other types, AssertionError for
    a node that is not in the graph.
    """
    if type(graph_def).__name__ != "GraphDef":
        raise TypeError(
            f"graph_def must be a graph_pb2.GraphDef proto, but got type {type(graph_def)}."
        )
    if isinstance(dest_nodes, str):
        raise TypeError(
            f"dest_nodes must be an iterable of strings, but got type {type(dest_nodes)}."
        )
    nodes = {node.name: node for node in graph_def.node}
    stack = list(dest_nodes)
    for name in stack:
        assert name in nodes, f"{name} is not in graph"
    kept: set[str] = set()
    while stack:
        name = stack.pop()
        if name not in kept:
            kept.add(name)
            stack += [*map(node_name, nodes[name].input), *_colocated(nodes[name])]
    found = type(graph_def)()
    found.node.extend(node for node in graph_def.node if node.name in kept)
    found.library.CopyFrom(graph_def.library)
    found.versions.CopyFrom(graph_def.versions)
    return found


def remove_training_nodes(input_graph: Message, protected_nodes: Sequence[str] = ()) -> Message:
    """Return a GraphDef without CheckNumerics, Identity and StopGradient nodes.

    Nodes with control edges, nodes that others stand with, and the protected ones stay.
    """
    protected = set(protected_nodes or ())
    checks = {n.name for n in input_graph.node if n.op == "CheckNumerics"} - protected
    nodes = [
        _with_inputs(node, lambda name: None if name.removeprefix("^") in checks else name)
        for node in input_graph.node
        if node.name not in checks
    ]
    control = {name[1:] for node in nodes for name in node.input if name.startswith("^")}
    kept = protected | control | {name for node in nodes for name in _colocated(node)}
    spliced = {
        node.name: node.input[0]
        for node in nodes
        if node.op in ("Identity", "StopGradient")
        and node.name not in kept
        and not any(name.startswith("^") for name in node.input)
    }

    def source(name: str) -> str:
        while name.removeprefix("^") in spliced:
            name = spliced[name.removeprefix("^")]
        return name

    found = type(input_graph)()
    found.node.extend(_with_inputs(node, source) for node in nodes if node.name not in spliced)
    return found


def _with_inputs(node: Message, renamed: Callable[[str], str | None]) -> Message:
    """Return a copy of a node with other inputs.

    Inputs that become None are left out.
    """
    copy = type(node)()
    copy.CopyFrom(node)
    del copy.input[:]
    copy.input.extend(name for name in map(renamed, node.input) if name is not None)
    return copy
