"""Collect nodes of accelerators into `_Offload` nodes of the host's partition."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Final

from tfjit.framework.op_defs.op_traits import CONTROL_FLOW, VARIABLE, WHILE
from tfjit.framework.types.device_spec import DeviceSpec, parse
from tfjit.passes.analysis.argument_info import ArgumentInfo, copy_with_arguments
from tfjit.passes.control_flow.outline import BodyBuilder
from tfjit.passes.ir.dataflow_graph import SINK, SOURCE, DataflowGraph, Node
from tfjit.passes.ir.function_library import Function
from tfjit.passes.ir.offloaded_graph import OffloadedGraph
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.offload.host_nodes import NEVER, nodes_between, reason_for_host
from tfjit.passes.offload.levels import Group, levels_of
from tfjit.passes.offload.offloadable_loops import LOOPS, nodes_of
from tfjit.passes.offload.separate_checks import separate_checks

if TYPE_CHECKING:
    from tfjit.kernels.ir.backend import Backend

SMALL_BYTES: Final = 1 << 18
"""Bytes from which on nodes without a requested device are moved.

A launch with its copies takes some 15 us; the host moves as many bytes in that time.
"""
SMALL_FLOPS: Final = 1 << 21
_PRODUCTS: Final = frozenset(
    {
        *("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Conv2D"),
        *("Conv2DBackpropInput", "Conv2DBackpropFilter", "DepthwiseConv2dNative"),
    }
)


def offload(graph: DataflowGraph, ctx: PassContext) -> None:
    """Move the nodes of each accelerator into `_Offload` nodes.

    Before: x -> Tanh @GPU -> Mul @GPU -> Print @CPU
    After: x -> _Offload{Tanh, Mul} -> Print
    Keeps: names and ids of the nodes, which become those of a function; every order.
    Needs: `place`; a partition that holds the nodes of the host and of its accelerators.

    Nodes of one device without a node of the host between them share an `_Offload`, unless they
    wait for different blocking nodes. Constants and variables of that device are copied into each.
    A node stays on the host where the device has no code for it, and where the user named no device
    and the nodes have little work. A loop is moved whole where `offload_loops` says so. Nothing of
    a graph with control flow of version 1 is moved: its frames are the host's.
    """
    devices = ctx.options.accelerators
    if not devices or not any(node.assigned_device in devices for node in graph.op_nodes()):
        return
    if graph.has_trait(CONTROL_FLOW):
        ctx.log("", "control flow of version 1 is left: its nodes stay on the host")
        return
    _read_on_devices(graph, devices)
    separate_checks(graph, ctx, devices)
    order = [name for name in graph.topological_order() if name not in (SOURCE, SINK)]
    loops: dict[str, str] = graph.graph.pop(LOOPS, {})
    reasons = {name: reason_for_host(graph.node(name), devices) for name in order}
    movable = {n: graph.node(n).assigned_device for n in order if not reasons[n]} | loops
    levels = levels_of(graph, order, movable)
    if len(levels.groups) > 1:
        for name in nodes_between(graph, order, movable):
            if graph.node(name).op not in NEVER:
                ctx.log(name, f"stays on the host: it cuts the program, as {reasons[name]}")
    for group, members in sorted(levels.groups.items()):
        device = group.device
        own = [graph.node(name) for name in members]
        why = _reason_against(graph, own, loops)
        if why:
            ctx.log(members[0], f"{len(own)} nodes of {device} stay on the host: {why}")
            continue
        if not ctx.may_rewrite():
            break
        _outline(graph, ctx, group, members, levels.joints.get(group, set()))


def _read_on_devices(graph: DataflowGraph, devices: Mapping[str, Backend]) -> None:
    """Let nodes name the variables that they use; the host gets values.

    Before: v @GPU -> Assign @GPU -> AssignAdd @GPU; v -> Print @CPU
    After: v -> AssignAdd behind Assign; v -> Identity @GPU -> Print
    """
    # (variable, node that passed it on, nodes that the reader waits for) -> Identity
    read: dict[tuple[str, ...], str] = {}
    for name in graph.topological_order():
        if name in (SOURCE, SINK):
            continue
        node = graph.node(name)
        for index, (src, output) in enumerate(graph.inputs(name)):
            dtype = graph.node(src).output_dtypes[output]
            if not dtype.is_ref:
                continue
            variable = _variable_behind(graph, src)
            if variable is None or graph.node(variable).assigned_device not in devices:
                continue
            if src != variable:
                graph.replace_input(name, index, variable, 0)
                graph.add_control_edge(src, name)
            if node.assigned_device in devices or node.input_dtypes[index].is_ref:
                continue
            waits = graph.control_inputs(name)
            key = (variable, src, *waits)
            if key not in read:
                like = graph.node(variable)
                made = graph.add_node_op(
                    graph.new_name(variable),  # errors show the user's node of that name
                    "Identity",
                    [(variable, 0)],
                    {"T": dtype.base_dtype},
                    control_inputs=waits,
                    like=like,
                    output_shapes=(like.output_shapes[0],),
                )
                read[key] = made.name
                if src != variable:
                    graph.add_control_edge(src, made.name)
            graph.replace_input(name, index, read[key], 0)


def _reason_against(graph: DataflowGraph, nodes: Sequence[Node], loops: Collection[str]) -> str:
    """Return the reason against moving a group; "" for none."""
    if any(_uses_variable(graph, node) for node in nodes):
        return ""
    nodes = [
        *(node for node in nodes if node.name not in loops),
        *(n for node in nodes if node.name in loops for n in nodes_of(node) if n.op not in NEVER),
    ]
    if all(node.is_view for node in nodes):
        return "they only pass values on"
    if any(map(_names_device, nodes)):
        return ""
    moved = flops = 0
    for node in nodes:
        if node.is_view:
            continue
        sizes = [_size(shape) for shape in node.output_shapes]
        if any(size is None for size in sizes):
            return ""
        elements = sum(size for size in sizes if size is not None)
        moved += 4 * elements
        if node.op in _PRODUCTS:
            flops += elements * _depth(node)
    if moved < SMALL_BYTES and flops < SMALL_FLOPS:
        return f"no device was asked for, and they make {moved} bytes only"
    return ""


def _names_device(node: Node) -> bool:
    if not node.device:
        return False
    spec: DeviceSpec = parse(node.device)
    return spec.device_type is not None


def _uses_variable(graph: DataflowGraph, node: Node) -> bool:
    return any(graph.node(src).has_trait(VARIABLE) for src, _ in graph.inputs(node.name))


def _size(shape: tuple[int | None, ...] | None) -> int | None:
    if shape is None or any(d is None for d in shape):
        return None
    return prod(d for d in shape if d is not None)


def _depth(node: Node) -> int:
    """Return about how many products make one element of a product's result."""
    graph = node._graph
    src, output = graph.inputs(node.name)[-1]
    found = _size(graph.node(src).output_shapes[output])
    result = node.output_shapes[0]
    width = result[-1] if result else 1
    return max(1, (found or 1) // max(width or 1, 1))


def _outline(
    graph: DataflowGraph, ctx: PassContext, group: Group, members: Sequence[str], joints: Set[str]
) -> None:
    """Replace nodes by one `_Offload` node.

    joints: constants and NoOps between the nodes; the function gets copies.
    """
    device = group.device
    inside = set(members)
    for name in members:
        graph.node(name).assigned_device = device
    copies: dict[str, None] = {}
    arguments: dict[tuple[str, int], None] = {}
    for name in members:
        for src, output in graph.inputs(name):
            if src in inside:
                continue
            if _is_copied(graph.node(src), device):
                copies[src] = None
            else:
                arguments[src, output] = None
    waiting = [*members, *copies]
    while waiting:
        for src in graph.control_inputs(waiting.pop()):
            if src in joints and src not in copies:
                copies[src] = None
                waiting.append(src)
    results = [
        (name, output)
        for name in members
        for output, dtype in enumerate(graph.node(name).output_dtypes)
        if any(dst not in inside for dst, _ in graph.consumers(name, output)) and not dtype.is_ref
    ]
    last = graph.node(members[-1])
    types = [graph.node(src).output_dtypes[output] for src, output in arguments]
    shapes = [graph.node(src).output_shapes[output] for src, output in arguments]
    builder = BodyBuilder(graph, f"offload_{group.level}", [*copies, *members], types, shapes, last)
    for index, tensor in enumerate(arguments):
        builder.replace(tensor, index)
    builder.connect()
    for index, tensor in enumerate(results):
        builder.result(index, builder.moved(tensor))
    function = builder.finish(
        name
        for name in members
        if not inside.issuperset(graph.control_consumers(name))
        or SINK in graph._succ[name]
        or any(dtype.is_ref for dtype in graph.node(name).output_dtypes)
    )
    uses = [
        (index, edge.dst, edge.dst_input)
        for index, (name, output) in enumerate(results)
        for edge in graph.edges_out_of(name)
        if not edge.is_control and edge.src_output == output and edge.dst not in inside
    ]
    waits = [
        src
        for name in (*copies, *members)
        for src in graph.control_inputs(name)
        if src not in inside and src not in copies
    ]
    followers = [
        dst for name in members for dst in graph.control_consumers(name) if dst not in inside
    ]
    origin = tuple(dict.fromkeys(user for name in members for user in graph.node(name).origin))
    shapes_out = tuple(graph.node(name).output_shapes[output] for name, output in results)
    to_sink = any(SINK in graph._succ[name] for name in members)
    for name in members:
        graph.remove_op(name)
    made = graph.add_node_op(
        graph.new_name(f"{last.name}/offload"),
        "_Offload",
        list(arguments),
        {"offloaded": OffloadedGraph(function, device)},
        control_inputs=dict.fromkeys(waits),
        assigned_device=ctx.options.client_device,
        origin=origin,
        output_shapes=shapes_out,
    )
    for index, dst, dst_input in uses:
        graph.add_data_edge(made.name, index, dst, dst_input)
    for dst in dict.fromkeys(followers):
        graph.add_control_edge(made.name, dst)
    if to_sink:
        graph.add_control_edge(made.name, SINK)
    ctx.rewrote(made.name, made.attrs["offloaded"].explain())


def _is_copied(node: Node, device: str) -> bool:
    return node.op == "Const" or (node.has_trait(VARIABLE) and node.assigned_device == device)


def _variable_behind(graph: DataflowGraph, name: str) -> str | None:
    """Return the variable that a node passes on as a reference.

    It is None for the handle of a queue or an accumulator.
    """
    while not graph.node(name).has_trait(VARIABLE):
        inputs = graph.inputs(name)
        if not inputs:
            return None
        name = inputs[0][0]
    return name


def offloaded_body(
    function: Function, given: Sequence[ArgumentInfo], ctx: PassContext
) -> DataflowGraph:
    """Return a copy of an offloaded graph with shapes and fused nodes.

    given: the arguments' shapes. ctx: a new context of the accelerator's device.
    """
    graph = copy_with_arguments(function, given)
    ctx.run(graph, "infer_shapes", "fold_constants", "simplify", "infer_shapes", "prune")
    if graph.has_trait(WHILE):
        ctx.run(graph, "keep_scalars", "specialize_bodies")
    ctx.run(graph, "fuse")
    return graph


def hosted(function: Function, device: str, names: Collection[str] | None = None) -> Function:
    """Return a copy of an offloaded graph on the host.

    Variables keep their device, which is a part of their identity. device: the host's. names: of
    the nodes that the host gets, all for None.
    """
    graph = function.graph.copy()
    for node in graph.op_nodes():
        if not node.has_trait(VARIABLE) and (names is None or node.name in names):
            node.assigned_device = device
    return replace(function, graph=graph)


__all__ = ["hosted", "offload", "offloaded_body"]
