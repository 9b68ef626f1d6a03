"""Write ops that passes make as standard ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from tfjit.framework.errors import UnimplementedError
from tfjit.framework.op_defs.attrs import FuncRef
from tfjit.framework.types.dtypes import as_dtype
from tfjit.kernels.ir.fused_group import CONSTANT, INPUT, FusedGroup, Ref
from tfjit.passes.ir.dataflow_graph import SINK, DataflowGraph, Node
from tfjit.passes.ir.function_library import Function, FunctionLibrary, key_of

if TYPE_CHECKING:
    Rewrite = Callable[[DataflowGraph, Node], None]

_STAY: Final = frozenset({"_Arg", "_Retval"})


def expand_groups(graph: DataflowGraph) -> None:
    """Put the members of each `_Fused` node in its place.

    A member that several groups compute has another name in all but one of them.
    """
    for name in graph.topological_order():
        if graph.node(name).op == "_Fused":
            _expand(graph, graph.node(name))


def _expand(graph: DataflowGraph, node: Node) -> None:
    group: FusedGroup = node.attrs["group"]
    inputs, waits = graph.inputs(node.name), graph.control_inputs(node.name)
    uses = graph.edges_out_of(node.name)
    graph.remove_op(node.name)
    made: list[str] = []

    def tensor(ref: Ref) -> tuple[str, int]:
        if ref.member == INPUT:
            return inputs[ref.index]
        if ref.member == CONSTANT:
            return _constant(graph, node, group.constants[ref.index])
        return made[ref.member], ref.index

    for member in group.members:
        spec = member.spec
        name = spec.name if spec.name not in graph else graph.new_name(f"{spec.name}/copy")
        new = graph.add_node_op(
            name,
            spec.op,
            [tensor(ref) for ref in member.inputs],
            spec.attrs,
            control_inputs=waits,
            like=node,
            origin=(spec.name,),
        )
        new.output_shapes = tuple(output.shape for output in spec.outputs)
        made.append(name)
    for edge in uses:
        if not edge.is_control:
            graph.add_data_edge(*tensor(group.outputs[edge.src_output]), edge.dst, edge.dst_input)
            continue
        for name in dict.fromkeys(tensor(ref)[0] for ref in group.outputs):
            if edge.dst != SINK or name == made[-1]:
                graph.add_control_edge(name, edge.dst)


def _constant(graph: DataflowGraph, like: Node, value: np.ndarray) -> tuple[str, int]:
    name = graph.new_name(f"{like.name}/constant")
    attrs = {"dtype": as_dtype(value.dtype), "value": value}
    graph.add_node_op(name, "Const", (), attrs, like=like).output_shapes = (value.shape,)
    return name, 0


def replace_internal_ops(graph: DataflowGraph) -> None:
    """Replace ops that TensorFlow lacks, also in the bodies of functions.

    Raises UnimplementedError that names the node where there is no replacement.
    """
    _Replacer(graph.functions).graph(graph)


class _Replacer:
    """The replacement in one graph and its library."""

    def __init__(self, library: FunctionLibrary) -> None:
        self.library = library
        self.made: dict[object, FuncRef] = {}

    def graph(self, graph: DataflowGraph) -> None:
        """Replace the ops of one graph, in place."""
        self._join_partitions(graph)
        for node in list(graph.op_nodes()):
            if node.op in _REPLACEMENTS:
                _REPLACEMENTS[node.op](graph, node)
            elif node.op[0] == "_" and node.op not in _STAY:
                raise UnimplementedError(
                    None,
                    None,
                    f"TensorFlow has no op for node '{node.name}' ({node.op}), which a pass made; "
                    "it cannot be written back. The graph before that pass can",
                )
            for key, value in node.attrs.items():
                if isinstance(value, FuncRef):
                    node.attrs[key] = self.body(value)
                elif isinstance(value, tuple) and value and isinstance(value[0], FuncRef):
                    node.attrs[key] = tuple(map(self.body, value))

    def body(self, ref: FuncRef) -> FuncRef:
        """Return a function of standard ops, perhaps the same one."""
        key = key_of(ref)
        if key not in self.made:
            self.made[key] = ref  # a function may call itself
            function = self.library.body(ref)
            if self._has_internal(function):
                graph = function.graph.copy()
                self.graph(graph)
                new = Function.from_graph(
                    self.library.new_name(function.name),
                    graph,
                    function.inputs,
                    function.must_run,
                    function.attrs,
                )
                self.made[key] = self.library.add(new)
        return self.made[key]

    def _has_internal(self, function: Function) -> bool:
        graphs = [function.graph]
        graphs += [self.library.body(ref).graph for ref in self.library.reachable(function.graph)]
        return any(
            node.op[0] == "_" and node.op not in _STAY for g in graphs for node in g.op_nodes()
        )

    def _join_partitions(self, graph: DataflowGraph) -> None:
        """Connect the nodes on either side of a send and its receive."""
        sends = {
            node.attrs["tensor_name"]: node
            for node in list(graph.op_nodes())
            if node.op in ("_Send", "_HostSend")
        }
        for node in [node for node in graph.op_nodes() if node.op in ("_Recv", "_HostRecv")]:
            send = sends.get(node.attrs["tensor_name"])
            if send is not None:
                source = graph.inputs(send.name)[0]
                graph.redirect_output(node.name, 0, *source)
                graph.redirect_control(node.name, source[0])
                graph.remove_op(node.name)
        for send in sends.values():
            graph.remove_op(send.name)


def _get_row(graph: DataflowGraph, node: Node) -> None:
    rows, index = graph.inputs(node.name)
    axis = _constant(graph, node, np.array(0, np.int32))
    shapes = node.output_shapes
    graph.change_op(node.name, "GatherV2", [rows, index, axis], {}).output_shapes = shapes


def _set_row(graph: DataflowGraph, node: Node) -> None:
    rows, index, row = graph.inputs(node.name)
    place = _constant(graph, node, np.array([1, 1], np.int32))
    axis = _constant(graph, node, np.array(0, np.int32))
    at = graph.add_node_op(graph.new_name(f"{node.name}/at"), "Reshape", [index, place], like=node)
    one = graph.add_node_op(
        graph.new_name(f"{node.name}/row"), "ExpandDims", [row, axis], like=node
    )
    shapes = node.output_shapes
    inputs = [rows, (at.name, 0), (one.name, 0)]
    graph.change_op(node.name, "TensorScatterUpdate", inputs, {}).output_shapes = shapes


_REPLACEMENTS: Final[dict[str, Rewrite]] = {"_GetRow": _get_row, "_SetRow": _set_row}


__all__ = ["expand_groups", "replace_internal_ops"]
