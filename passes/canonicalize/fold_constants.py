"""Fold constants: compute static values once, while planning.

Such values depend on no feed, no variable and no random number.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tfjit.framework.cooperative_yield import yielding
from tfjit.framework.op_defs.op_traits import CONTROL_FLOW, SHAPE_QUERY
from tfjit.framework.types.shape import num_elements
from tfjit.passes.analysis.constant_evaluation import NotEvaluated, can_evaluate, evaluate
from tfjit.passes.ir.constant_value import constant_value
from tfjit.passes.ir.dataflow_graph import SOURCE, DataflowGraph, Node
from tfjit.passes.manager.pass_context import PassContext


def fold_constants(graph: DataflowGraph, ctx: PassContext) -> None:
    """Replace nodes of constant inputs, and known shapes, by Const nodes.

    Before: a=Const -> b=Square -> y, Shape(x<5,3>) -> y
    After: b=Const -> y, Const [5, 3] -> y
    Keeps: names, control inputs of folded nodes, and errors. The Const gets the place of the node;
    a node with several outputs gets one Const an output, named after the node. A node that fails to
    evaluate stays for the run to report. Stateful ops, control flow and tensors above
    `max_folded_bytes` stay.
    Needs: `infer_shapes` for shapes; without that only values of Const nodes count.
    """
    # A constant in a branch that may be dead must wait for the inputs of the folded node. Otherwise
    # the constant would be alive in the dead branch.
    may_be_dead = graph.has_trait(CONTROL_FLOW)
    known = {name for name, _ in ctx.values}
    for name in yielding(graph.topological_order()):
        node = graph.node(name)
        if node.op == "Const" or not node.output_dtypes:
            continue
        inputs = graph.inputs(name)
        # the cheapest test first: nearly every node fails here
        if name not in known and (not inputs or graph.node(inputs[0][0]).op != "Const"):
            continue
        if (
            not inputs
            or not (node.has_trait(SHAPE_QUERY) or can_evaluate(node))
            or (len(node.output_dtypes) > 1 and not graph.consumers(name))
        ):
            continue
        values = _values(graph, ctx, node, inputs)
        if values is None:
            continue
        if not ctx.may_rewrite():
            break
        waits = graph.control_inputs(name)
        if may_be_dead:
            waits += [src for src, _ in inputs if graph.node(src).op != "Const"]
        waits += [
            wait
            for src, _ in inputs
            if graph.node(src).op == "Const"
            for wait in graph.control_inputs(src)
        ]
        replace_by_constants(graph, node, values, waits)
        ctx.rewrote(
            name,
            f"{node.op if len(values) > 1 else 'folded'} to "
            f"{values[0].dtype}{list(values[0].shape)}",
        )


def _values(
    graph: DataflowGraph, ctx: PassContext, node: Node, inputs: list[tuple[str, int]]
) -> list[np.ndarray] | None:
    """Return the values of all outputs, or None when the node stays.

    Near misses are logged.
    """
    found = [ctx.values.get((node.name, output)) for output in range(len(node.output_dtypes))]
    if all(value is not None for value in found):
        return [value for value in found if value is not None]
    if node.has_trait(SHAPE_QUERY):
        return None
    operands = [constant_value(graph, src, output) for src, output in inputs]
    if any(value is None for value in operands):
        return None
    limit = ctx.options.max_folded_bytes
    for dtype, shape in zip(node.output_dtypes, node.output_shapes):
        size = num_elements(shape)
        if size is not None and size * dtype.size > limit:
            ctx.log(
                node.name,
                f"stays: its value of {size * dtype.size} bytes is above the limit of {limit}",
            )
            return None
    try:
        values = evaluate(node, [value for value in operands if value is not None])
    except NotEvaluated as reason:
        ctx.log(node.name, f"stays: {reason}")
        return None
    size_bytes = max(value.nbytes for value in values)
    if size_bytes > limit:
        ctx.log(node.name, f"stays: its value of {size_bytes} bytes is above the limit of {limit}")
        return None
    return values


def replace_by_constants(
    graph: DataflowGraph, node: Node, values: list[np.ndarray], waits: list[str]
) -> None:
    """Replace a node by Const nodes.

    waits: the control inputs of the constants.
    """
    name = node.name
    if len(values) == 1:
        graph.change_op(name, "Const", (), const_attrs(node, values[0]), control_inputs=waits)
        node.output_shapes = (values[0].shape,)
        if not graph._pred[name]:
            graph.add_control_edge(SOURCE, name)
        return
    used = {output for _, output in _outgoing(graph, name)}
    for output in sorted(used):
        made = graph.add_node_op(
            graph.new_name(name),
            "Const",
            (),
            const_attrs(node, values[output], output),
            control_inputs=waits,
            like=node,
        )
        made.output_shapes = (values[output].shape,)
        if not waits:
            graph.add_control_edge(SOURCE, made.name)
        graph.redirect_output(name, output, made.name, 0)
    # else a control edge leaves the node itself, and the node stays
    if not graph.edges_out_of(name):
        graph.remove_op(name)


def const_attrs(node: Node, value: np.ndarray, output: int = 0) -> dict[str, Any]:
    """Return attrs of a Const for a node's output, private attrs included."""
    kept = {
        key: attr
        for key, attr in node.attrs.items()
        if key.startswith("_") and key != "_output_shapes"
    }
    return {"dtype": node.output_dtypes[output], "value": value, **kept}


def _outgoing(graph: DataflowGraph, name: str) -> list[tuple[str, int]]:
    return [(edge.dst, edge.src_output) for edge in graph.edges_out_of(name) if not edge.is_control]
