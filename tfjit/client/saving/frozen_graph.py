"""`convert_variables_to_constants`: graphs that have the values of their variables."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

from tfjit.client.saving.sub_graph import extract_sub_graph, node_name
from tfjit.framework.types.constants import make_tensor_proto
from tfjit.protos import NodeDef

if TYPE_CHECKING:
    import numpy as np

    from tfjit.framework.graphs.graph import Graph
    from tfjit.framework.graphs.typing import Message, SessionLike, Structure

_REFERENCES: Final = ("Variable", "VariableV2")
# Operations that pass a resource or reference on, and their forms for values.
_PASSED_ON: Final = {
    **{name: name for name in ("Enter", "Exit", "Identity", "Merge", "NextIteration", "Switch")},
    **{f"Ref{name}": name for name in ("Enter", "Exit", "Identity", "Merge", "NextIteration")},
    "RefSwitch": "Switch",
}


def convert_variables_to_constants(
    sess: SessionLike,
    input_graph_def: Message,
    output_node_names: Sequence[str],
    variable_names_whitelist: Collection[str] | None = None,
    variable_names_blacklist: Collection[str] | None = None,
) -> Message:
    """Return the GraphDef of nodes and ancestors, with constants for variables.

    The values are those in the session, whose graph has the nodes. variable_names_whitelist: the
    only variables that become constants. variable_names_blacklist: variables that stay. Raises
    NotImplementedError for a variable that a function or an operation other than a read uses.
    """
    graph = extract_sub_graph(input_graph_def, output_node_names)
    chosen = [
        node
        for node in graph.node
        if node.op in (*_REFERENCES, "VarHandleOp")
        and (variable_names_whitelist is None or node.name in variable_names_whitelist)
        and (variable_names_blacklist is None or node.name not in variable_names_blacklist)
    ]
    fetches = {node.name: _value_name(sess.graph, node) for node in chosen}
    values: dict[str, np.ndarray] = sess.run(fetches) if fetches else {}
    handles = {node.name: node.attr["dtype"].type for node in chosen if node.op == "VarHandleOp"}
    references = {node.name for node in chosen if node.op in _REFERENCES}
    found = type(graph)()
    for node in _inputs_first(graph.node):
        if node.name in values:
            found.node.append(_constant(node, values[node.name]))
        else:
            found.node.extend(_converted(node, handles, references))
    order = {node.name: k for k, node in enumerate(graph.node)}
    order |= {f"{name}/axis": k for name, k in order.items() if f"{name}/axis" not in order}
    # A node that was added beside another stands before it.
    nodes = sorted(found.node, key=lambda node: order[node.name])
    del found.node[:]
    found.node.extend(nodes)
    found.library.CopyFrom(graph.library)
    found.versions.CopyFrom(graph.versions)
    return found


def _value_name(graph: Graph, node: Message) -> str:
    """Return the name of the tensor that has a variable's value."""
    if node.op != "VarHandleOp":
        return f"{node.name}:0"
    handle = graph.get_tensor_by_name(f"{node.name}:0")
    reads = [op.name for op in handle.consumers() if op.type == "ReadVariableOp"]
    if not reads:
        raise ValueError(f"no operation of the session's graph reads the variable {node.name}")
    own = f"{node.name}/Read/ReadVariableOp"
    return f"{own if own in reads else reads[0]}:0"


def _inputs_first(nodes: Sequence[Message]) -> list[Message]:
    """Return the nodes, inputs first except for back edges of loops."""
    by_name = {node.name: node for node in nodes}
    order: dict[str, Message] = {}
    entered: set[str] = set()
    stack = [node.name for node in reversed(nodes)]
    while stack:
        name = stack[-1]
        if name in entered:
            stack.pop()
            order.setdefault(name, by_name[name])
            continue
        entered.add(name)
        stack += [source for source in map(node_name, by_name[name].input) if source not in entered]
    return list(order.values())


def _constant(node: Message, value: np.ndarray) -> Message:
    made: Message = NodeDef(name=node.name, op="Const", device=node.device)
    made.attr["dtype"].type = node.attr["dtype"].type
    made.attr["value"].tensor.CopyFrom(make_tensor_proto(value, node.attr["dtype"].type))
    return made


def _converted(node: Message, handles: dict[str, int], references: set[str]) -> list[Message]:
    """Return a node with values in place of handles and references.

    handles: dtypes by the names of nodes that gave a handle; nodes that pass one on join them.
    """
    sources = [node_name(name) for name in node.input if not name.startswith("^")]
    dtype = next((handles[source] for source in sources if source in handles), None)
    copy: Message = NodeDef.FromString(node.SerializeToString())
    if dtype is None:
        if node.op.startswith("Ref") and node.op in _PASSED_ON and references & set(sources):
            copy.op = _PASSED_ON[node.op]
            references.add(node.name)
        return [copy]
    if node.op in _PASSED_ON:
        handles[node.name] = dtype
        copy.attr["T"].type = dtype
        return [copy]
    if node.op == "ReadVariableOp":
        return [_renamed(node, "Identity", {"T": dtype})]
    if node.op == "ResourceGather":
        axis: Message = NodeDef(name=f"{node.name}/axis", op="Const", device=node.device)
        value: Structure = make_tensor_proto(0, "int32")
        axis.attr["dtype"].type = value.dtype
        axis.attr["value"].tensor.CopyFrom(value)
        made = _renamed(node, "GatherV2", {"Tparams": dtype, "Taxis": value.dtype})
        made.attr["Tindices"].CopyFrom(node.attr["Tindices"])
        made.attr["batch_dims"].CopyFrom(node.attr["batch_dims"])
        made.input.insert(2, axis.name)
        return [axis, made]
    if node.op == "ResourceGatherNd":
        made = _renamed(node, "GatherNd", {"Tparams": dtype})
        made.attr["Tindices"].CopyFrom(node.attr["Tindices"])
        return [made]
    raise NotImplementedError(
        f"{node.op} '{node.name}' uses a variable that would become a constant; only reads can be "
        "converted"
    )


def _renamed(node: Message, op_type: str, types: dict[str, int]) -> Message:
    made: Message = NodeDef(name=node.name, op=op_type, device=node.device, input=node.input)
    for key, dtype in types.items():
        made.attr[key].type = dtype
    if "_class" in node.attr:
        made.attr["_class"].CopyFrom(node.attr["_class"])
    return made
