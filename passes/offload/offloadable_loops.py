"""Choose the loops that an accelerator runs whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from tfjit.framework.op_defs.op_traits import SHAPE_QUERY, VARIABLE, WHILE
from tfjit.passes.control_flow.specialize_regions import requested_device
from tfjit.passes.ir.dataflow_graph import SINK, SOURCE, DataflowGraph, Node
from tfjit.passes.ir.function_library import Function
from tfjit.passes.manager.pass_context import PassContext

if TYPE_CHECKING:
    from tfjit.kernels.ir.backend import Backend

    Tensor = tuple[str, int]

LOOPS: Final = "offloaded_loops"
"""Key in a graph: devices of the loops that `offload` moves."""
ROW_OPS: Final = frozenset({"_GetRow", "_SetRow"})
_NOTHING: Final = frozenset({"_Arg", "_Retval", "Const", "NoOp", "ControlTrigger"})
_NUMBERS: Final = frozenset({"int32", "int64", "bool"})


def offload_loops(graph: DataflowGraph, ctx: PassContext) -> None:
    """Let `offload` move whole loops to an accelerator.

    Before: While(cond: i < n, body: i + 1, Tanh(MatMul(x, w)) @GPU)
    After: the same While, and its device in `graph.graph["offloaded_loops"]`
    Keeps: the graph and the bodies.
    Needs: `place`, `dense_lists`; `compile_loops` before it, which makes a loop over little work
    one kernel of the host.

    All nodes of such a loop are the device's, but for numbers. Its condition, and the conditions
    of loops inside, follow from numbers that are known when it starts; so do the indices of rows.
    """
    devices = ctx.options.accelerators
    if not devices:
        return
    found: dict[str, str] = {}
    for name in graph.topological_order():
        node = graph.node(name)
        if not node.has_trait(WHILE):
            continue
        own = node.assigned_device
        device = next((d for n in nodes_of(node) if (d := _device_of(n, devices, own))), "")
        if not device:
            continue
        why = _reason_against(graph, node, device, devices)
        if why:
            ctx.log(name, f"stays a {node.op} of the host: {why}")
            continue
        if not ctx.may_rewrite():
            break
        found[name] = device
        ctx.rewrote(name, f"runs whole on {device}")
    graph.graph[LOOPS] = found


def keep_scalars(graph: DataflowGraph, ctx: PassContext) -> None:
    """Assign arithmetic on single numbers to the host.

    Before: AddV2(i, 1) @GPU
    After: AddV2(i, 1) @CPU, so that no group of the device holds it
    Keeps: the nodes.
    """
    for node in graph.op_nodes():
        is_scalar = all(shape == () for shape in node.output_shapes)
        if node.assigned_device in ctx.options.accelerators and is_scalar and _is_number(node):
            node.assigned_device = ctx.options.client_device


def nodes_of(loop: Node) -> Iterator[Node]:
    """Yield the nodes of a loop's bodies, and of loops inside."""
    for body in _bodies(loop):
        for node in body.graph.op_nodes():
            yield node
            if node.has_trait(WHILE):
                yield from nodes_of(node)


def _bodies(loop: Node) -> tuple[Function, Function]:
    library = loop._graph.functions
    return library.body(loop.attrs["cond"]), library.body(loop.attrs["body"])


def _device_of(node: Node, devices: Mapping[str, Backend], inherited: str) -> str:
    """Return the accelerator that computes a node of a body, or "".

    inherited: the loop's device.
    """
    device = node.assigned_device or requested_device(node, devices, inherited)
    if device not in devices or node.op in _NOTHING or node.is_view or _is_number(node):
        return ""
    types = (*node.input_dtypes, *node.output_dtypes)
    return device if devices[device].computes(node.op, types) else ""


def _is_number(node: Node) -> bool:
    """Return whether a node computes numbers only, from numbers."""
    types = (*node.input_dtypes, *node.output_dtypes)
    return (
        node.op not in _NOTHING
        and not node.is_stateful
        and not node.has_trait(WHILE)
        and bool(node.output_dtypes)
        and all(dtype.name in _NUMBERS for dtype in types)
    )


def _reason_against(
    graph: DataflowGraph, loop: Node, device: str, devices: Mapping[str, Backend]
) -> str:
    """Return the reason why a loop stays the host's; "" for none."""
    for k, (src, output) in enumerate(graph.inputs(loop.name)):
        dtype = graph.node(src).output_dtypes[output]
        if dtype.is_ref:
            return f"its input {k} is a reference"
        if dtype.name != "resource":
            continue
        variable = graph.node(src)
        if not variable.has_trait(VARIABLE) or variable.assigned_device != device:
            return f"its input {k} is no variable of {device}"
        if graph.consumers(loop.name, k):
            return f"its output {k} is a variable"
    for node in nodes_of(loop):
        why = _reason_against_node(node, device, devices, loop.assigned_device)
        if why:
            return why
    numbers = {
        k
        for k, (src, output) in enumerate(graph.inputs(loop.name))
        if graph.node(src).op == "Const" or graph.node(src).output_dtypes[output].name in _NUMBERS
    }
    return _unknown_number(loop, numbers)


def _reason_against_node(
    node: Node, device: str, devices: Mapping[str, Backend], inherited: str
) -> str:
    types = (*node.input_dtypes, *node.output_dtypes)
    if any(not d.base_dtype.is_numpy_compatible and d.name != "resource" for d in types):
        return f"'{node.name}' ({node.op}) is no numeric op"
    if node.op in _NOTHING or node.has_trait(WHILE) or node.op in ROW_OPS or _is_number(node):
        return ""
    # a size is a number once the loop's shapes are known
    if node.is_view or node.op == "ReadVariableOp" or node.has_trait(SHAPE_QUERY):
        return ""
    found = _device_of(node, devices, inherited)
    return "" if found == device else f"'{node.name}' ({node.op}) is not computed on {device}"


def _unknown_number(loop: Node, known: set[int]) -> str:
    """Return a reason: the host lacks a number; "" for none.

    known: indices of the loop's inputs that the host knows when it starts.
    """
    known = _known_variables(loop, known)
    cond, body = _bodies(loop)
    if cond.returned[0] not in _known_tensors(cond.graph, known):
        return "its condition depends on values of the device"
    for graph in (cond.graph, body.graph):
        tensors = _known_tensors(graph, known)
        for node in graph.op_nodes():
            inputs = graph.inputs(node.name)
            if node.op in ROW_OPS and inputs[1] not in tensors:
                return f"the index of '{node.name}' depends on values of the device"
            if node.has_trait(WHILE):
                why = _unknown_number(node, {k for k, t in enumerate(inputs) if t in tensors})
                if why:
                    return f"'{node.name}': {why}"
    return ""


def _known_variables(loop: Node, known: set[int]) -> set[int]:
    """Return the loop variables that the host knows in each iteration."""
    body = _bodies(loop)[1]
    while True:
        tensors = _known_tensors(body.graph, known)
        kept = {k for k in known if body.returned[k] in tensors}
        if kept == known:
            return known
        known = kept


def _known_tensors(graph: DataflowGraph, arguments: set[int]) -> set[Tensor]:
    """Return the tensors that follow from known arguments and constants.

    These are numbers and scalars.
    """
    found: set[Tensor] = set()
    for name in graph.topological_order():
        if name in (SOURCE, SINK):
            continue
        node, inputs = graph.node(name), graph.inputs(name)
        if node.op == "Const" or (node.op == "_Arg" and node.attrs["index"] in arguments):
            found.add((name, 0))
        elif node.has_trait(WHILE):
            start = {k for k, tensor in enumerate(inputs) if tensor in found}
            found |= {(name, k) for k in _known_variables(node, start)}
        elif inputs and not node.is_stateful and found.issuperset(inputs):
            outputs = list(zip(node.output_dtypes, node.output_shapes))
            if all(dtype.name in _NUMBERS or shape == () for dtype, shape in outputs):
                found |= {(name, k) for k in range(len(outputs))}
    return found


__all__ = ["LOOPS", "ROW_OPS", "keep_scalars", "nodes_of", "offload_loops"]
