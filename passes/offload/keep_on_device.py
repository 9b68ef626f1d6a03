"""Leave values between runs and between programs in an accelerator's memory."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Final

from tfjit.framework.types.dtypes import DType, variant
from tfjit.passes.control_flow.outline import BodyBuilder
from tfjit.passes.ir.dataflow_graph import SINK, DataflowGraph, Node
from tfjit.passes.ir.offloaded_graph import OffloadedGraph

if TYPE_CHECKING:
    from tfjit.framework.types.shape import Shape
    from tfjit.passes.manager.pass_context import PassContext


SMALL_BYTES: Final = 1 << 16
"""Bytes below which a value passes through host memory.

Its program has results there anyway: else its size does not matter.
"""


def keep_on_device(graph: DataflowGraph, ctx: PassContext) -> None:
    """Let values of an accelerator enter and leave as device tensors.

    Before: _Arg(float) -> _Offload -> _Offload(float) -> _Retval(float)
    After: _Arg(variant) -> _Offload -> _Offload(variant) -> _Retval(variant)
    Keeps: values, names and order. An edge with a device tensor has dtype variant.
    Needs: `offload`; it runs last, since no pass knows such edges.

    For the feeds and fetches of `spec.ends`. A value that nodes of the host make or use passes an
    `_Offload` node that copies it. The tensor of a GetSessionHandle stays on the device that
    computes it; a GetSessionTensor gives it to users on a device. Floats that one program makes
    and another takes stay there too, unless they are few and the host waits for the program anyway.
    """
    devices = ctx.options.accelerators
    ends = ctx.spec.ends
    feeds = {name: device for name, device in ends.feeds if device in devices}
    fetches = {name: device for name, device in ends.fetches if device in devices}
    for node in list(graph.op_nodes()):
        if node.op == "_Arg" and feeds:
            device = feeds.get(_name_of(ctx.spec.feeds, node), "")
            if device:
                _take(graph, ctx, node, device)
        elif node.op == "_Retval" and fetches:
            device = fetches.get(_name_of(ctx.spec.fetches, node), "")
            if device:
                _keep(graph, ctx, node, device)
        elif node.op in ("GetSessionHandle", "GetSessionHandleV2"):
            source = graph.inputs(node.name)[0][0]
            if graph.node(source).op == "_Offload" and node.assigned_device in devices:
                _keep(graph, ctx, node, graph.node(source).attrs["offloaded"].device)
        elif node.op == "GetSessionTensor":
            users = graph.consumers(node.name, 0)
            if users and all(graph.node(user).op == "_Offload" for user, _ in users):
                node.attrs["on_device"] = True
    for node in list(graph.op_nodes()):
        if node.op == "_Offload":
            _keep_between(graph, ctx, node)


def _name_of(names: tuple[str, ...], node: Node) -> str:
    index = node.attrs["index"]
    return names[index] if index < len(names) else ""


def _take(graph: DataflowGraph, ctx: PassContext, argument: Node, device: str) -> None:
    """Let an argument be a device tensor."""
    dtype, shape = argument.output_dtypes[0], argument.output_shapes[0]
    users = graph.consumers(argument.name, 0)
    others = [
        (user, index)
        for user, index in users
        if not (graph.node(user).op == "_Offload" and _device_of(graph.node(user)) == device)
    ]
    index = argument.attrs["index"]
    graph.change_op(argument.name, "_Arg", (), {"T": variant, "index": index})
    argument.output_shapes = ((),)
    for user, position in users:
        if (user, position) not in others:
            _mark(graph, user, taken=position)
    if others:
        copy = _copy(graph, ctx, argument, (argument.name, 0), dtype, shape, device)
        for user, position in others:
            graph.replace_input(user, position, copy, 0)
        _mark(graph, copy, taken=0)
        ctx.rewrote(argument.name, f"is copied from {device}")


def _keep(graph: DataflowGraph, ctx: PassContext, user: Node, device: str) -> None:
    """Let a node have its input as a device tensor."""
    source, output = graph.inputs(user.name)[0]
    producer = graph.node(source)
    if producer.op != "_Offload" or _device_of(producer) != device:
        dtype, shape = producer.output_dtypes[output], producer.output_shapes[output]
        source = _copy(graph, ctx, user, (source, output), dtype.base_dtype, shape, device)
        _mark(graph, source, kept=0)
        kept = 0
        ctx.rewrote(user.name, f"is copied to {device}")
    else:
        kept = _kept_output(graph, source, output, user)
    attrs = {**user.attrs, "T": variant}
    graph.change_op(user.name, user.op, [(source, kept)], attrs)


def _keep_between(graph: DataflowGraph, ctx: PassContext, node: Node) -> None:
    """Let results be device tensors for other programs of the device."""
    device = _device_of(node)
    edges: dict[int, list[tuple[str, int]]] = {}
    has_host_users: dict[int, bool] = {}
    for output, dtype in enumerate(node.output_dtypes):
        users = graph.consumers(node.name, output)
        edges[output] = [
            (user, index)
            for user, index in users
            if graph.node(user).op == "_Offload"
            and _device_of(graph.node(user)) == device
            and dtype.is_floating
        ]
        has_host_users[output] = len(edges[output]) < len(users) and dtype is not variant
    waits = any(has_host_users.values())
    for output, users in edges.items():
        dtype, shape = node.output_dtypes[output], node.output_shapes[output]
        if not users or (waits and _is_small(dtype, shape)):
            continue
        if has_host_users[output]:
            kept = _add_kept(graph, node.name, output)
        else:
            kept = output
            _mark(graph, node.name, kept=output)
        for user, index in users:
            graph.replace_input(user, index, node.name, kept)
            _mark(graph, user, taken=index)
        ctx.rewrote(node.name, f"keeps result {output} on {device}")


def _is_small(dtype: DType, shape: Shape) -> bool:
    """Return whether a value certainly has few bytes."""
    if shape is None:
        return False
    sizes = [size for size in shape if size is not None]
    return len(sizes) == len(shape) and prod(sizes) * dtype.size < SMALL_BYTES


def _kept_output(graph: DataflowGraph, name: str, output: int, user: Node) -> int:
    """Return the output of an `_Offload` node that is a device tensor."""
    node = graph.node(name)
    offloaded: OffloadedGraph = node.attrs["offloaded"]
    if output in offloaded.kept:
        return output
    users = [dst for dst, _ in graph.consumers(name, output)]
    if users == [user.name]:
        _mark(graph, name, kept=output)
        return output
    return _add_kept(graph, name, output)


def _add_kept(graph: DataflowGraph, name: str, output: int) -> int:
    """Add a result that is an existing one as a device tensor."""
    node = graph.node(name)
    offloaded: OffloadedGraph = node.attrs["offloaded"]
    function = offloaded.function
    body = function.graph
    results = function.results
    source = body.inputs(results[output].name)[0]
    index = len(results)
    dtype = function.outputs[output]
    made = body.add_node_op(
        body.new_name(f"{results[output].name}_kept"),
        "_Retval",
        [source],
        {"T": dtype, "index": index},
        like=results[output],
        output_shapes=(),
    )
    body.add_control_edge(made.name, SINK)
    function = replace(function, outputs=(*function.outputs, dtype))
    shapes = node.output_shapes
    more = replace(offloaded, function=function, kept=offloaded.kept | {index})
    graph.change_op(name, "_Offload", graph.inputs(name), {"offloaded": more})
    node.output_shapes = (*shapes, ())
    return index


def _mark(graph: DataflowGraph, name: str, taken: int = -1, kept: int = -1) -> None:
    """Make an input or output of a node a device tensor."""
    node = graph.node(name)
    offloaded: OffloadedGraph = node.attrs["offloaded"]
    shapes = list(node.output_shapes)
    if kept >= 0:
        offloaded = replace(offloaded, kept=offloaded.kept | {kept})
        shapes[kept] = ()
    if taken >= 0:
        offloaded = replace(offloaded, taken=offloaded.taken | {taken})
    graph.change_op(name, "_Offload", graph.inputs(name), {"offloaded": offloaded})
    node.output_shapes = tuple(shapes)


def _copy(
    graph: DataflowGraph,
    ctx: PassContext,
    like: Node,
    source: tuple[str, int],
    dtype: DType,
    shape: Shape,
    device: str,
) -> str:
    """Add an `_Offload` node that gives its argument back."""
    builder = BodyBuilder(graph, "copy", (), [dtype], [shape], like)
    builder.result(0, builder.argument(0))
    function = builder.finish()
    made = graph.add_node_op(
        graph.new_name(f"{like.name}/copy"),
        "_Offload",
        [source],
        {"offloaded": OffloadedGraph(function, device)},
        assigned_device=ctx.options.client_device,
        origin=like.origin,
        output_shapes=(shape,),
    )
    return made.name


def _device_of(node: Node) -> str:
    offloaded: OffloadedGraph = node.attrs["offloaded"]
    return offloaded.device


__all__ = ["keep_on_device"]
