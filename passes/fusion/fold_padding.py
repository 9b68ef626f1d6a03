"""Fold zero padding before a convolution into the convolution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from tfjit.framework.cooperative_yield import yielding
from tfjit.passes.ir.constant_value import constant_value
from tfjit.passes.ir.dataflow_graph import SINK

if TYPE_CHECKING:
    from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
    from tfjit.passes.manager.pass_context import PassContext

CONVOLUTIONS: Final = frozenset({"Conv2D", "DepthwiseConv2dNative"})


def absorb_padding(graph: DataflowGraph, ctx: PassContext) -> None:
    """Give a convolution the padding of its Pad, used nowhere else.

    Before: x -> Pad -> Conv2D(VALID)
    After: x -> Conv2D(EXPLICIT)
    Keeps: values (both pad with zeros), control edges, the Pad's name in the convolution's origin.
    """
    if graph.op_types.isdisjoint(CONVOLUTIONS):
        return
    for name in yielding(graph.topological_order()):
        node = graph.node(name)
        if node.op in CONVOLUTIONS and node.attrs.get("padding") in (b"VALID", "VALID"):
            source = graph.inputs(name)[0][0]
            pad = graph.node(source)
            if pad.op in ("Pad", "PadV2"):
                reason = _obstacle(graph, pad, node)
                if reason:
                    ctx.log(pad.name, f"stays before {name}: {reason}")
                elif not ctx.may_rewrite():
                    return
                else:
                    _absorb(graph, pad, node)
                    ctx.rewrote(name, f"absorbs the padding of {source}")


def _obstacle(graph: DataflowGraph, pad: Node, conv: Node) -> str:
    """Return why the padding cannot be folded; "" when it can."""
    if (
        graph.consumers(pad.name) != [(conv.name, 0)]
        or graph.control_consumers(pad.name)
        or SINK in graph.successors(pad.name)
    ):
        return "it is needed elsewhere"
    if pad.assigned_device != conv.assigned_device:
        return "it is on another device"
    if conv.attrs.get("data_format", b"NHWC") not in (b"NHWC", "NHWC"):
        return "the convolution is not NHWC"
    operands = graph.inputs(pad.name)
    pads = constant_value(graph, *operands[1])
    if pads is None or pads.shape != (4, 2):
        return "its sizes are not known"
    if pads[0].any() or pads[3].any():
        return "it pads batch or channels"
    weights = graph.node(graph.inputs(conv.name)[1][0]).output_shapes[graph.inputs(conv.name)[1][1]]
    if (
        weights is None
        or None in weights[:2]
        or any(int(p) >= int(k) for k, row in zip(weights, pads[1:3]) for p in row)
    ):
        return "it is as wide as the filter"
    if len(operands) > 2:
        value = constant_value(graph, *operands[2])
        if value is None or np.any(value != 0) or np.signbit(value).any():
            return "it does not pad with zeros"
    return ""


def _absorb(graph: DataflowGraph, pad: Node, conv: Node) -> None:
    inputs = graph.inputs(conv.name)
    operands = graph.inputs(pad.name)
    pads = constant_value(graph, *operands[1])
    assert pads is not None
    attrs = {
        **conv.attrs,
        "padding": b"EXPLICIT",
        "explicit_paddings": tuple(int(n) for n in pads.reshape(-1)),
    }
    waits = [*graph.control_inputs(pad.name), *graph.control_inputs(conv.name)]
    shapes = conv.output_shapes
    graph.change_op(conv.name, conv.op, [operands[0], *inputs[1:]], attrs, waits)
    conv.output_shapes = shapes
    conv.origin = tuple(dict.fromkeys((*pad.origin, *conv.origin)))
    graph.remove_op(pad.name)
    for src, _ in operands[1:]:
        if graph.has_node(src) and not (set(graph.successors(src)) - {SINK}):
            graph.remove_op(src)  # a constant that only gave the padding
