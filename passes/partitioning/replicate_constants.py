"""Replicate small constants on each device that reads them.

A copy is cheaper than a send.
"""

from __future__ import annotations

from typing import Final

from tfjit.passes.ir.constant_value import constant_value
from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
from tfjit.passes.manager.pass_context import PassContext

MAX_ELEMENTS: Final = 16


def replicate_constants(graph: DataflowGraph, ctx: PassContext) -> None:
    """Give each reading device its own copy of a small Const.

    Before: c=Const on CPU:0 -> a on CPU:1, b on CPU:2
    After: c/replicate/_0 on CPU:1 -> a, c/replicate/_1 on CPU:2 -> b
    Keeps: the control inputs of the constant, attrs, origin.
    Needs: `place`.

    Fires for at most 16 elements, readers on two devices or more, and no control edge out of the
    constant. Source: TensorFlow 2.21, seen in the partition graphs of two-device sessions.
    """
    if len(ctx.options.devices) < 2:
        return
    for name in [node.name for node in graph.op_nodes() if node.op == "Const"]:
        value = constant_value(graph, name)
        if value is None or value.size > MAX_ELEMENTS:
            continue
        readers: dict[str, list[tuple[str, int]]] = {}
        for dst, dst_input in graph.consumers(name):
            readers.setdefault(graph.node(dst).assigned_device, []).append((dst, dst_input))
        if len(readers) < 2 or any(edge.is_control for edge in graph.edges_out_of(name)):
            continue
        if not ctx.may_rewrite():
            break
        for device in sorted(readers):
            _replicate(graph, graph.node(name), device, readers[device])
        graph.remove_op(name)
        ctx.rewrote(name, f"made anew on {len(readers)} devices")


def _replicate(
    graph: DataflowGraph, node: Node, device: str, readers: list[tuple[str, int]]
) -> None:
    copy = graph.add_node_op(
        graph.new_name(f"{node.name}/replicate"),
        "Const",
        (),
        node.attrs,
        like=node,
        assigned_device=device,
        output_shapes=node.output_shapes,
    )
    for dst, dst_input in readers:
        graph.replace_input(dst, dst_input, copy.name, 0)
    for src in graph._pred[node.name]:
        graph.add_control_edge(src, copy.name)
