"""Strip assertions, prints and checks of numbers.

Configs request this by RewriterConfig.debug_stripper.
"""

from __future__ import annotations

from typing import Final

from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.manager.pass_context import PassContext

_PASS_ON: Final = frozenset({"Print", "CheckNumerics", "CheckNumericsV2", "DebugGradientIdentity"})
_GO: Final = frozenset({"Assert", "PrintV2"})


def strip_debug(graph: DataflowGraph, ctx: PassContext) -> None:
    """Turn Assert and PrintV2 into NoOp, Print and CheckNumerics into Identity.

    The Identity is of the first input.

    Before: x -> Print(x, data) -> y
    After: x -> Identity -> y, which waits for nothing else
    Keeps: control edges, so that the order around such a node stays. The other inputs are dropped,
    with the nodes that only they need.
    Source: TensorFlow 2.5, grappler/optimizers/debug_stripper.cc.
    """
    if not ctx.options.strip_debug:
        return
    for node in list(graph.op_nodes()):
        if node.op not in _PASS_ON | _GO:
            continue
        if not ctx.may_rewrite():
            break
        if node.op in _PASS_ON:
            dtype = node.output_dtypes[0].base_dtype
            graph.change_op(node.name, "Identity", graph.inputs(node.name)[:1], {"T": dtype})
        else:
            graph.change_op(node.name, "NoOp", [], {})
        ctx.rewrote(node.name, "stripped")
