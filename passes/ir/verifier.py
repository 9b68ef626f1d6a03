"""Check the invariants of a working graph.

Tests, and runs under TFJIT_VERIFY=1, check them after each pass.
"""

from __future__ import annotations

from collections import Counter
from typing import NoReturn

from tfjit.framework.errors import InternalError
from tfjit.framework.op_defs.op_registry import registry
from tfjit.passes.ir.dataflow_graph import CONTROL, SINK, SOURCE, DataflowGraph, Edge, Node
from tfjit.passes.ir.graph_def import COMPOSED, CUSTOM, signature


def verify(graph: DataflowGraph) -> None:
    """Check every invariant of the graph.

    Raises InternalError with the node and the fault.
    """
    _check_nodes(graph)
    edges = _check_edges(graph)
    if edges != graph.num_edges:
        raise InternalError(None, None, f"the graph counts {graph.num_edges} edges and has {edges}")
    for node in graph.op_nodes():
        _check_inputs(graph, node)
        _check_memory(graph, node)
    if Counter(node.op for node in graph.op_nodes()) != graph._op_counts:
        raise InternalError(
            None,
            None,
            f"the graph counts the op types {graph._op_counts}, which is not what it has",
        )
    graph.forget_order()  # the cached order would hide a cycle
    graph.topological_order()


def _fail(node: Node | str, reason: str) -> NoReturn:
    where = node if isinstance(node, str) else f"Node '{node.name}' ({node.op})"
    raise InternalError(None, None, f"{where}: {reason}")


def _check_nodes(graph: DataflowGraph) -> None:
    ids: dict[int, str] = {}
    for name, data in graph._node.items():
        node = data.get("node")
        if node is None:
            _fail(f"Node '{name}'", "it has no Node object; nodes are added by add_node_op")
        if node.name != name:
            _fail(node, f"it stands under the name '{name}'")
        if node._graph is not graph:
            _fail(node, "it belongs to another graph")
        if node.id in ids:
            _fail(node, f"id {node.id} is also that of '{ids[node.id]}'")
        if node.id >= graph.num_node_ids:
            _fail(node, f"id {node.id} was never given out")
        ids[node.id] = name
    for name, id in ((SOURCE, 0), (SINK, 1)):
        if name not in graph._node or graph.node(name).id != id:
            _fail(f"Node '{name}'", f"the graph needs it with id {id}")
    for node in graph.op_nodes():
        if node.op == CUSTOM or node.op in COMPOSED:
            pass
        elif node.op_def is None:
            _fail(node, "it has no op_def")
        elif (
            registry.lookup(node.op) is not node.op_def
            and graph.functions.op_def(node.op) != node.op_def
        ):
            _fail(node, "its op_def is not the registry's")
        try:
            inputs, outputs = signature(node.op, node.op_def, node.attrs, node.name)
        except Exception as error:
            _fail(node, str(error))
        if inputs != node.input_dtypes:
            _fail(
                node,
                f"its attrs say inputs {_names(inputs)}, the node says {_names(node.input_dtypes)}",
            )
        if outputs != node.output_dtypes:
            _fail(
                node,
                f"its attrs say outputs {_names(outputs)}, the node says "
                f"{_names(node.output_dtypes)}",
            )
        if len(node.output_shapes) != len(outputs):
            _fail(node, f"{len(node.output_shapes)} output shapes for {len(outputs)} outputs")


def _check_edges(graph: DataflowGraph) -> int:
    count = 0
    ids: dict[int, Edge] = {}
    for src, successors in graph._succ.items():
        for dst, keyed in successors.items():
            if dst not in graph._node:
                _fail(f"Node '{src}'", f"dangling edge to '{dst}', which is not in the graph")
            if graph._pred[dst].get(src) is not keyed:
                _fail(f"Node '{dst}'", f"edge from '{src}' is known at one end only")
            if not keyed:
                _fail(f"Node '{dst}'", f"an emptied edge from '{src}' was left behind")
            waits = 0
            for id, data in keyed.items():
                edge = Edge(id, src, data["src_output"], dst, data["dst_input"])
                if id in ids or id >= graph.num_edge_ids:
                    _fail(
                        f"Node '{dst}'",
                        f"edge {edge} has an id that is "
                        f"{'not its own' if id in ids else 'not given out'}",
                    )
                ids[id] = edge
                count += 1
                if edge.dst_input == CONTROL or edge.src_output == CONTROL:
                    waits += 1
                    if edge.dst_input != edge.src_output:
                        _fail(
                            f"Node '{dst}'",
                            f"control edge from '{src}' needs both slots -1, has {edge.src_output} "
                            f"and {edge.dst_input}",
                        )
                elif src in (SOURCE, SINK) or dst in (SOURCE, SINK):
                    _fail(f"Node '{dst}'", f"data edge between '{src}' and '{dst}'")
            if waits > 1:
                _fail(f"Node '{dst}'", f"{waits} control edges from '{src}'")
    for dst, predecessors in graph._pred.items():
        for src in predecessors:
            if src not in graph._node:
                _fail(f"Node '{dst}'", f"dangling edge from '{src}', which is not in the graph")
            if dst not in graph._succ[src]:
                _fail(f"Node '{dst}'", f"edge from '{src}' is known at one end only")
    return count


def _check_inputs(graph: DataflowGraph, node: Node) -> None:
    wanted = node.input_dtypes
    seen: dict[int, Edge] = {}
    for edge in graph.edges_into(node.name):
        if edge.is_control:
            continue
        if edge.dst_input in seen:
            _fail(
                node,
                f"input slot {edge.dst_input} has two edges, from '{seen[edge.dst_input].src}' and "
                f"'{edge.src}'",
            )
        seen[edge.dst_input] = edge
        if not 0 <= edge.dst_input < len(wanted):
            _fail(
                node,
                f"edge from '{edge.src}' ends at input slot {edge.dst_input}, but it takes "
                f"{len(wanted)} inputs",
            )
        given = graph.node(edge.src).output_dtypes
        if not 0 <= edge.src_output < len(given):
            _fail(
                node,
                f"input {edge.dst_input} is '{edge.src}:{edge.src_output}', but '{edge.src}' has "
                f"{len(given)} outputs",
            )
        got, want = given[edge.src_output], wanted[edge.dst_input]
        if got is not want and (want.is_ref or got.base_dtype is not want):
            _fail(
                node,
                f"input {edge.dst_input} from '{edge.src}:{edge.src_output}' is {got.name}, "
                f"expected {want.name}",
            )
    if len(seen) != len(wanted):
        missing = [index for index in range(len(wanted)) if index not in seen]
        _fail(
            node,
            f"it takes {len(wanted)} inputs, but nothing feeds "
            f"{'input' if len(missing) == 1 else 'inputs'} {missing}",
        )


def _check_memory(graph: DataflowGraph, node: Node) -> None:
    """Check that the cached inputs of a node equal its edges."""
    edges = graph.edges_into(node.name)
    inputs = [(edge.src, edge.src_output) for edge in edges if not edge.is_control]
    waits = [edge.src for edge in edges if edge.is_control and edge.src != SOURCE]
    if graph.inputs(node.name) != inputs or graph.control_inputs(node.name) != waits:
        _fail(
            node,
            f"the graph remembers inputs {graph.inputs(node.name)} and "
            f"{graph.control_inputs(node.name)}, it has {inputs} and {waits}",
        )


def _names(dtypes: object) -> str:
    return "(" + ", ".join(dtype.name for dtype in dtypes) + ")"  # type: ignore[attr-defined]
